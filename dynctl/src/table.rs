//! Columns of text: widths from the cells, colours after padding.

use crate::output::{Style, Tone, visible};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Cell::toned(text, Tone::Plain)
    }

    /// Control characters in `text` are shown as escapes.
    pub(crate) fn toned(text: impl AsRef<str>, tone: Tone) -> Self {
        Cell { text: visible(text.as_ref()), tone }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// A heading and rows under it.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    pub(crate) fn render(&self, style: Style) -> String {
        let heading: Vec<_> =
            self.columns.iter().map(|(name, _)| Cell::toned(name, Tone::Heading)).collect();
        let mut widths: Vec<usize> = heading.iter().map(Cell::width).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        let mut text = String::new();
        for row in std::iter::once(&heading).chain(&self.rows) {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[at] - cell.width());
                let shown = style.paint(cell.tone, &cell.text);
                match self.columns[at].1 {
                    Align::Left => line.extend([shown, padding]),
                    Align::Right => line.extend([padding, shown]),
                }
                line.push_str("  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_no_line_ends_in_blanks() {
        let mut table = Table::new(&[("ID", Align::Left), ("N", Align::Right), ("X", Align::Left)]);
        table.row(vec![Cell::new("a"), Cell::new("100"), Cell::new("long")]);
        table.row(vec![Cell::new("bcd"), Cell::new("1"), Cell::new("")]);
        assert_eq!(table.render(Style::Plain), "ID     N  X\na    100  long\nbcd    1\n");
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let mut table = Table::new(&[("A", Align::Left), ("B", Align::Left)]);
        table.row(vec![Cell::toned("ok", Tone::Good), Cell::new("x")]);
        let coloured = table.render(Style::Coloured);
        assert!(coloured.ends_with("\u{1b}[32mok\u{1b}[0m  x\n"), "{coloured:?}");
    }
}
