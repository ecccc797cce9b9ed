//! Splits a text into tokens.
//!
//! As in cel-go, the longest token wins. Text that is not a token is reported and skipped, up to and including the
//! first character with which no token can continue.

use crate::{
    source::{Offset, Source},
    token::{Token, TokenKind},
};

/// The tokens of a text, ending with [`TokenKind::End`], and the parts of the text that are not tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// All tokens, including those that the parser ignores.
    pub(crate) all: Vec<Token>,
    /// Ranges of the text that are not tokens.
    pub(crate) unknown: Vec<(Offset, Offset)>,
}

/// Result of reading one token.
enum Lexeme {
    /// A token, and the position after it.
    Token(TokenKind, usize),
    /// Text that is not a token, and the position of the first character with which no token can continue.
    Unknown(usize),
}

pub(crate) fn tokens(source: &Source) -> Tokens {
    let lexer = Lexer { chars: source.chars() };
    let (mut all, mut unknown) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < lexer.chars.len() {
        match lexer.lexeme(at) {
            Lexeme::Token(kind, end) => {
                all.push(Token { kind, start: at as Offset, end: end as Offset });
                at = end;
            }
            Lexeme::Unknown(end) => {
                let end = (end + 1).min(lexer.chars.len());
                unknown.push((at as Offset, end as Offset));
                at = end;
            }
        }
    }
    let end = lexer.chars.len() as Offset;
    all.push(Token { kind: TokenKind::End, start: end, end });
    Tokens { all, unknown }
}

struct Lexer<'a> {
    chars: &'a [char],
}

impl Lexer<'_> {
    fn char(&self, at: usize) -> Option<char> {
        self.chars.get(at).copied()
    }

    fn lexeme(&self, at: usize) -> Lexeme {
        use TokenKind as T;
        let Some(first) = self.char(at) else { return Lexeme::Token(T::End, at) };
        let next = self.char(at + 1);
        let one = |kind| Lexeme::Token(kind, at + 1);
        // `both` is the kind of the two characters, and `single` is the kind of the first one alone.
        let two = |second, both, single| match next == Some(second) {
            true => Lexeme::Token(both, at + 2),
            false => one(single),
        };
        match first {
            '\t' | ' ' | '\r' | '\n' | '\u{c}' => {
                let is_space = |c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}');
                Lexeme::Token(T::Whitespace, self.run(at, is_space))
            }
            '/' if next == Some('/') => Lexeme::Token(T::Comment, self.run(at, |c| c != '\n')),
            '=' | '&' | '|' => match next == Some(first) {
                true => {
                    let kind = match first {
                        '=' => T::Equals,
                        '&' => T::And,
                        _ => T::Or,
                    };
                    Lexeme::Token(kind, at + 2)
                }
                false => Lexeme::Unknown(at + 1),
            },
            '!' => two('=', T::NotEquals, T::Exclamation),
            '<' => two('=', T::LessEquals, T::Less),
            '>' => two('=', T::GreaterEquals, T::Greater),
            '[' => one(T::LeftBracket),
            ']' => one(T::RightBracket),
            '{' => one(T::LeftBrace),
            '}' => one(T::RightBrace),
            '(' => one(T::LeftParen),
            ')' => one(T::RightParen),
            ',' => one(T::Comma),
            '-' => one(T::Minus),
            '?' => one(T::Question),
            ':' => one(T::Colon),
            '+' => one(T::Plus),
            '*' => one(T::Star),
            '/' => one(T::Slash),
            '%' => one(T::Percent),
            '.' if next.is_some_and(|c| c.is_ascii_digit()) => {
                Lexeme::Token(T::Float, self.exponent(self.digits(at + 1)))
            }
            '.' => one(T::Dot),
            '0'..='9' => self.number(at),
            '"' | '\'' => match self.string(at, false) {
                Ok(end) => Lexeme::Token(T::String, end),
                Err(end) => Lexeme::Unknown(end),
            },
            '`' => self.escaped_ident(at),
            'a'..='z' | 'A'..='Z' | '_' => self.word(at),
            _ => Lexeme::Unknown(at),
        }
    }

    /// Returns the end of the run of characters that fit.
    fn run(&self, start: usize, fits: impl Fn(char) -> bool) -> usize {
        let rest = self.chars.get(start..).unwrap_or_default();
        start + rest.iter().position(|c| !fits(*c)).unwrap_or(rest.len())
    }

    fn digits(&self, start: usize) -> usize {
        self.run(start, |c| c.is_ascii_digit())
    }

    /// Returns the end of an exponent, or `start` if there is none.
    fn exponent(&self, start: usize) -> usize {
        if !matches!(self.char(start), Some('e' | 'E')) {
            return start;
        }
        let sign = usize::from(matches!(self.char(start + 1), Some('+' | '-')));
        let digits = start + 1 + sign;
        match self.digits(digits) {
            end if end > digits => end,
            _ => start,
        }
    }

    fn number(&self, at: usize) -> Lexeme {
        let digits = self.digits(at);
        let hex = match self.chars.get(at..at + 2) {
            Some(['0', 'x']) => self.run(at + 2, |c| c.is_ascii_hexdigit()),
            _ => at,
        };
        if hex > at + 2 {
            return self.with_suffix(hex);
        }
        let fraction = match self.char(digits) {
            Some('.') => self.digits(digits + 1),
            _ => digits,
        };
        if fraction > digits + 1 {
            return Lexeme::Token(TokenKind::Float, self.exponent(fraction));
        }
        match self.exponent(digits) {
            end if end > digits => Lexeme::Token(TokenKind::Float, end),
            _ => self.with_suffix(digits),
        }
    }

    fn with_suffix(&self, end: usize) -> Lexeme {
        match self.char(end) {
            Some('u' | 'U') => Lexeme::Token(TokenKind::Uint, end + 1),
            _ => Lexeme::Token(TokenKind::Int, end),
        }
    }

    fn word(&self, at: usize) -> Lexeme {
        let first = self.char(at).unwrap_or_default();
        // A prefix without a string is an identifier.
        let (is_bytes, rest) = match first {
            'b' | 'B' => (true, at + 1),
            _ => (false, at),
        };
        let is_raw = matches!(self.char(rest), Some('r' | 'R'));
        let quote = rest + usize::from(is_raw);
        if quote > at
            && matches!(self.char(quote), Some('"' | '\''))
            && let Ok(end) = self.string(quote, is_raw)
        {
            return Lexeme::Token(if is_bytes { TokenKind::Bytes } else { TokenKind::String }, end);
        }
        let end = self.run(at, |c| c.is_ascii_alphanumeric() || c == '_');
        let kind = match self.chars.get(at..end).unwrap_or_default() {
            ['i', 'n'] => TokenKind::In,
            ['t', 'r', 'u', 'e'] => TokenKind::True,
            ['f', 'a', 'l', 's', 'e'] => TokenKind::False,
            ['n', 'u', 'l', 'l'] => TokenKind::Null,
            _ => TokenKind::Ident,
        };
        Lexeme::Token(kind, end)
    }

    fn escaped_ident(&self, at: usize) -> Lexeme {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        let end = self.run(at + 1, fits);
        match self.char(end) {
            Some('`') if end > at + 1 => Lexeme::Token(TokenKind::EscapedIdent, end + 1),
            _ => Lexeme::Unknown(end),
        }
    }

    /// Returns the end of a string that begins with a quote. `Err` holds the position of the first
    /// character with which no string can continue.
    fn string(&self, at: usize, is_raw: bool) -> Result<usize, usize> {
        let quote = self.char(at);
        if self.char(at + 1) != quote {
            return self.quoted(at + 1, quote, is_raw);
        }
        if self.char(at + 2) == quote
            && let Some(end) = self.triple_quoted(at + 3, quote, is_raw)
        {
            return Ok(end);
        }
        Ok(at + 2)
    }

    fn quoted(&self, mut at: usize, quote: Option<char>, is_raw: bool) -> Result<usize, usize> {
        loop {
            match self.char(at) {
                None | Some('\n' | '\r') => return Err(at),
                found if found == quote => return Ok(at + 1),
                Some('\\') if !is_raw => at = self.escape(at)?,
                Some(_) => at += 1,
            }
        }
    }

    fn triple_quoted(&self, mut at: usize, quote: Option<char>, is_raw: bool) -> Option<usize> {
        loop {
            let found = self.char(at)?;
            if Some(found) == quote && self.char(at + 1) == quote && self.char(at + 2) == quote {
                return Some(at + 3);
            }
            match found {
                '\\' if !is_raw => at = self.escape(at).ok()?,
                _ => at += 1,
            }
        }
    }

    /// Returns the end of an escape sequence that begins with a backslash. `Err` holds the position of the first
    /// character that is wrong.
    fn escape(&self, at: usize) -> Result<usize, usize> {
        let (digits, fits): (usize, fn(char) -> bool) = match self.char(at + 1) {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => {
                return Ok(at + 2);
            }
            Some('x' | 'X') => (2, |c| c.is_ascii_hexdigit()),
            Some('u') => (4, |c| c.is_ascii_hexdigit()),
            Some('U') => (8, |c| c.is_ascii_hexdigit()),
            Some('0'..='3') => (2, |c| matches!(c, '0'..='7')),
            _ => return Err(at + 1),
        };
        for digit in at + 2..at + 2 + digits {
            if !self.char(digit).is_some_and(fits) {
                return Err(digit);
            }
        }
        Ok(at + 2 + digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lexed(text: &str) -> String {
        let source = Source::new(text);
        let found = tokens(&source);
        let shown = found.all.iter().filter(|token| !token.kind.is_hidden() && token.kind != TokenKind::End);
        let shown = shown.map(|token| format!("{:?} {}", token.kind, source.slice(token.start, token.end)));
        let unknown = found.unknown.iter().map(|(start, end)| format!("? {}", source.slice(*start, *end)));
        shown.chain(unknown).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn the_longest_token_wins() {
        for (text, expected) in [
            ("a.b == 1u // c", "Ident a | Dot . | Ident b | Equals == | Uint 1u"),
            (
                "1.5e3 .5 1e 0x1F 0xu 1.x",
                "Float 1.5e3 | Float .5 | Int 1 | Ident e | Int 0x1F | Int 0 | Ident xu | Int 1 | Dot . | Ident x",
            ),
            (
                r#"'a\'b' r'\d' b"x" br'''y''' rb'z'"#,
                r#"String 'a\'b' | String r'\d' | Bytes b"x" | Bytes br'''y''' | Ident rb | String 'z'"#,
            ),
            (r#""""a"b""" """c"#, r#"String """a"b""" | String "" | ? "c"#),
            ("in inner true `a.b/c`", "In in | Ident inner | True true | EscapedIdent `a.b/c`"),
        ] {
            assert_eq!(lexed(text), expected);
        }
    }

    #[test]
    fn text_that_is_not_a_token_is_skipped_including_the_first_wrong_character() {
        for (text, expected) in [
            ("1 = 2", "Int 1 | Int 2 | ? = "),
            ("@a", "Ident a | ? @"),
            (r"'\q'", r"? '\q | ? '"),
            ("'a\nb", "Ident b | ? 'a\n"),
            ("`a", "? `a"),
        ] {
            assert_eq!(lexed(text), expected);
        }
    }
}
