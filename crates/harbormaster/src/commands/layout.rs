//! Text for people: tables that fit a terminal without breaking words, and the same tables in Markdown.

/// Layout of text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// True if colours are used.
    pub(crate) colours: bool,
    /// Width of the terminal in columns; `None` for lines of any length.
    pub(crate) width: Option<usize>,
    /// True for Markdown, which has neither colours nor a width.
    pub(crate) markdown: bool,
}

impl Style {
    /// Returns the layout for standard output: colours and the terminal's width only on a terminal.
    pub(crate) fn of_stdout() -> Self {
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
        Self {
            colours: is_terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
            width: is_terminal.then(|| terminal_size().0.into()),
            markdown: false,
        }
    }

    /// Returns the title of an answer. A terminal shows none, because it shows the command.
    pub(crate) fn title(self, text: &str) -> String {
        if self.markdown { format!("## {}\n\n", escaped(text)) } else { String::new() }
    }

    /// Returns a line above what it names.
    pub(crate) fn heading(self, text: &str) -> String {
        match self.markdown {
            true => format!("### {}\n\n", escaped(text)),
            false => format!("{text}\n"),
        }
    }

    /// Returns a paragraph.
    pub(crate) fn paragraph(self, text: &str) -> String {
        match self.markdown {
            true => format!("{}\n\n", escaped(text)),
            false => wrapped(text, self.width.unwrap_or(usize::MAX)).join("\n") + "\n",
        }
    }

    /// Returns a line below a heading.
    pub(crate) fn item(self, text: &str) -> String {
        match self.markdown {
            true => format!("- {}\n", escaped(text)),
            false => format!("  {text}\n"),
        }
    }

    /// Removes needless empty lines from Markdown.
    pub(crate) fn tidy(self, text: &str) -> String {
        if !self.markdown {
            return text.to_owned();
        }
        let mut tidy = String::with_capacity(text.len());
        let mut gap = false;
        for line in text.lines() {
            if line.is_empty() {
                gap = true;
                continue;
            }
            if std::mem::take(&mut gap) {
                tidy.push('\n');
            }
            tidy.extend([line, "\n"]);
        }
        tidy
    }
}

/// Escapes what Markdown would not show as it is written.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => safe.push(' '),
            '\\' | '`' | '*' | '_' | '<' | '[' | ']' | '|' | '~' | '&' | '#' => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

/// Colour of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Red,
    Green,
    Yellow,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
        }
    }
}

/// Text in a column of a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    colour: Option<Colour>,
}

impl Cell {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn coloured(text: impl Into<String>, colour: Colour) -> Self {
        Self { text: text.into(), colour: Some(colour) }
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.to_string(), colour: None }
    }
}

/// A table whose last column takes the space that the other columns leave.
#[derive(Debug)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// Number of spaces between two columns.
const GAP: usize = 2;
/// Minimum width of the last column unless all its texts are shorter. If less space is left, the texts are placed below
/// the other columns.
const NARROW: usize = 30;
/// Indentation of the last column's text if it is placed below the other columns.
const INDENT: usize = 4;

impl Table {
    pub(crate) fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, row: impl IntoIterator<Item = Cell>) {
        self.rows.push(row.into_iter().collect());
    }

    /// Returns the titles of the columns, and the texts of the rows.
    #[cfg(feature = "simulate")]
    pub(crate) fn into_texts(self) -> (Vec<String>, Vec<Vec<String>>) {
        let texts = |row: Vec<Cell>| row.into_iter().map(|cell| cell.text).collect();
        (self.header, self.rows.into_iter().map(texts).collect())
    }

    /// Returns the width of the table if nothing is wrapped.
    #[cfg(feature = "simulate")]
    pub(crate) fn width(&self) -> usize {
        self.widths().iter().sum::<usize>() + GAP * self.header.len().saturating_sub(1)
    }

    /// Renders the table.
    pub(crate) fn render(&self, style: Style) -> String {
        if style.markdown { self.in_markdown() } else { self.in_columns(style) }
    }

    fn in_markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.map(|cell| format!(" {} |", escaped(cell.trim())));
            format!("|{}\n", cells.collect::<String>())
        };
        // A table needs empty lines around it.
        let mut text = format!("\n{}", line(&mut self.header.iter().map(String::as_str)));
        text += &format!("|{}\n", "---|".repeat(self.header.len()));
        for row in &self.rows {
            text += &line(&mut row.iter().map(|cell| cell.text.as_str()));
        }
        text + "\n"
    }

    fn in_columns(&self, style: Style) -> String {
        let widths = self.widths();
        let last = widths.len().saturating_sub(1);
        let begin: usize = widths.iter().take(last).map(|width| width + GAP).sum();
        let room = style.width.map(|width| width.saturating_sub(begin));
        let mut text = String::new();
        let header: Vec<(String, Option<&str>)> =
            self.header.iter().map(|title| (title.clone(), Some("1"))).collect();
        line(&mut text, &header, &widths, style);
        for row in &self.rows {
            let mut cells: Vec<(String, Option<&str>)> =
                row.iter().map(|cell| (cell.text.clone(), cell.colour.map(Colour::code))).collect();
            let (room, indent) = match room {
                Some(room) if room < NARROW.min(widths[last]) => {
                    (style.width.unwrap_or_default().saturating_sub(INDENT), INDENT)
                }
                Some(room) => (room, begin),
                None => (usize::MAX, begin),
            };
            let below = indent != begin;
            let mut rest = Vec::new();
            if let Some((message, _)) = cells.get_mut(last) {
                rest = wrapped(message, room);
                *message = if below || rest.is_empty() { String::new() } else { rest.remove(0) };
            }
            line(&mut text, &cells, &widths, style);
            for words in rest {
                text.extend(std::iter::repeat_n(' ', indent));
                text.push_str(&words);
                text.push('\n');
            }
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let length = |text: &str| text.chars().count();
        let mut widths: Vec<usize> = self.header.iter().map(|title| length(title)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(length(&cell.text));
            }
        }
        widths
    }
}

fn line(text: &mut String, cells: &[(String, Option<&str>)], widths: &[usize], style: Style) {
    let begin = text.len();
    for (i, ((cell, code), width)) in cells.iter().zip(widths).enumerate() {
        let padding = if i + 1 == cells.len() { 0 } else { width - cell.chars().count() + GAP };
        match code.filter(|_| style.colours && !cell.is_empty()) {
            Some(code) => text.extend(["\x1b[", code, "m", cell, "\x1b[0m"]),
            None => text.push_str(cell),
        }
        text.extend(std::iter::repeat_n(' ', padding));
    }
    text.truncate(begin + text[begin..].trim_end().len());
    text.push('\n');
}

/// Wraps text into lines of at most `width` characters; a longer word gets its own line.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    if !text.is_empty() && text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let word_length = word.chars().count();
        match lines.last_mut() {
            Some(line) if length + 1 + word_length <= width => {
                line.push(' ');
                line.push_str(word);
                length += 1 + word_length;
            }
            _ => {
                lines.push(word.to_owned());
                length = word_length;
            }
        }
    }
    lines
}

/// Returns the number of columns and lines of the terminal.
pub(crate) fn terminal_size() -> (u16, u16) {
    let size = terminal_size::terminal_size().map(|(columns, lines)| (columns.0, lines.0));
    known_size(size)
}

/// Replaces a missing size with 80 × 24: some terminals report no size, or zero.
fn known_size(told: Option<(u16, u16)>) -> (u16, u16) {
    told.filter(|(columns, lines)| *columns > 0 && *lines > 0).unwrap_or((80, 24))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["POD", "NODE", "MESSAGE"]);
        table.add(["shop/web-1".into(), Cell::coloured("n1", Colour::Green), "".into()]);
        table.add([
            "shop/db-0".into(),
            "<none>".into(),
            "0/3 nodes are available: 3 Insufficient cpu".into(),
        ]);
        table
    }

    #[test]
    fn the_last_column_is_wrapped_between_words() {
        let text = table().render(Style { width: Some(50), ..Style::default() });
        assert_eq!(
            text,
            "POD         NODE    MESSAGE\n\
             shop/web-1  n1\n\
             shop/db-0   <none>  0/3 nodes are available: 3\n                    Insufficient cpu\n"
        );
        assert_eq!(table().render(Style::default()).lines().count(), 3);
    }

    #[test]
    fn a_last_column_without_room_is_placed_below() {
        let text = table().render(Style { width: Some(36), ..Style::default() });
        assert_eq!(
            text,
            "POD         NODE    MESSAGE\n\
             shop/web-1  n1\n\
             shop/db-0   <none>\n    0/3 nodes are available: 3\n    Insufficient cpu\n"
        );
        assert!(text.lines().all(|line| line.len() <= 36), "{text}");
    }

    #[test]
    fn colours_are_used_only_on_request() {
        assert!(!table().render(Style::default()).contains('\u{1b}'));
        let colours = table().render(Style { colours: true, ..Style::default() });
        assert!(colours.contains("\u{1b}[32mn1\u{1b}[0m"), "{colours}");
    }

    #[test]
    fn markdown_tables_have_as_many_columns_in_each_line_whatever_the_names_are() {
        let mut table = table();
        table.add(["a|b".into(), "`c` <none> *_".into(), "one\ntwo \\".into()]);
        let style = Style { markdown: true, ..Style::default() };
        let text =
            style.tidy(&(style.title("Pods") + "\n" + &table.render(style) + &style.paragraph("Done.")));
        assert_eq!(
            text,
            "## Pods\n\n| POD | NODE | MESSAGE |\n|---|---|---|\n| shop/web-1 | n1 |  |\n\
             | shop/db-0 | \\<none> | 0/3 nodes are available: 3 Insufficient cpu |\n\
             | a\\|b | \\`c\\` \\<none> \\*\\_ | one two \\\\ |\n\nDone.\n"
        );
    }

    #[test]
    fn a_terminal_without_a_size_is_treated_as_80_by_24() {
        for (told, expected) in
            [(None, (80, 24)), (Some((0, 0)), (80, 24)), (Some((0, 50)), (80, 24)), (Some((99, 9)), (99, 9))]
        {
            assert_eq!(known_size(told), expected);
        }
    }
}
