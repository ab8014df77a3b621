//! The line of attribution that Claude Code puts before its system text. It differs from session to
//! session and tells the model nothing, so it costs every cache its whole prefix (FR-001).

/// How the line begins.
const BILLING: &str = "x-anthropic-billing-header:";

/// What follows the line of attribution, when `text` begins with one.
pub fn without_billing_line(text: &str) -> Option<&str> {
    let is_billed = text.starts_with(BILLING);
    is_billed.then(|| text.split_once('\n').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_line_itself_goes() {
        let billed = "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli;";
        assert_eq!(without_billing_line(billed), Some(""));
        assert_eq!(without_billing_line(&format!("{billed}\nBe brief.")), Some("Be brief."));
        assert_eq!(without_billing_line(&format!("Be brief.\n{billed}")), None);
    }
}
