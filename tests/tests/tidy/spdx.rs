//! Licence expressions: `OR`, `AND`, `WITH`, parentheses, and the old `/` for `OR`.

/// Whether the licensee can choose so that every licence left is accepted.
///
/// An expression that cannot be parsed is not satisfied.
pub(crate) fn satisfied(expression: &str, accepted: impl Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { tokens: &tokens, at: 0, accepted: &accepted };
    parser.any().is_some_and(|verdict| verdict && parser.at == tokens.len())
}

struct Parser<'a> {
    tokens: &'a [&'a str],
    at: usize,
    accepted: &'a dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    fn any(&mut self) -> Option<bool> {
        let mut verdict = self.all()?;
        while self.take("OR") {
            verdict |= self.all()?;
        }
        Some(verdict)
    }

    fn all(&mut self) -> Option<bool> {
        let mut verdict = self.one()?;
        while self.take("AND") {
            verdict &= self.one()?;
        }
        Some(verdict)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let verdict = self.any()?;
            return self.take(")").then_some(verdict);
        }
        let mut id = (*self.tokens.get(self.at)?).to_owned();
        self.at += 1;
        if self.take("WITH") {
            id = format!("{id} WITH {}", self.tokens.get(self.at)?);
            self.at += 1;
        }
        Some((self.accepted)(&id))
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.at) == Some(&token);
        self.at += usize::from(found);
        found
    }
}

#[test]
fn expressions_are_judged_by_the_best_choice() {
    let cases = [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("GPL-3.0/MIT", true),
        ("(MIT OR GPL-3.0) AND MIT", true),
        ("(MIT OR GPL-3.0) AND GPL-3.0", false),
        ("MIT AND GPL-3.0 OR MIT", true),
        ("GPL-3.0 WITH MIT", false),
        ("MIT OR", false),
        ("", false),
    ];
    for (expression, expected) in cases {
        assert_eq!(satisfied(expression, |id| id == "MIT"), expected, "{expression}");
    }
}
