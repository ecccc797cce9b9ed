//! Tokens of an expression.

use crate::{ast::Offset, errors::Issue};

/// A token and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) at: Offset,
    pub(crate) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// An identifier, `true`, `false`, `null` or `in`.
    Ident(String),
    /// An identifier in backquotes, which only a selection may use.
    Quoted(String),
    Int(String),
    Uint(String),
    Double(String),
    String(String),
    Bytes(Vec<u8>),
    /// An operator or a bracket.
    Symbol(&'static str),
    End,
}

/// Symbols, longer ones first.
const SYMBOLS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "?", ":", "<", ">", "+", "-", "*", "/", "%", "!", ".", ",", "(", ")",
    "[", "]", "{", "}", "=",
];

/// Splits an expression into tokens.
pub(crate) fn tokens(text: &[char]) -> Result<Vec<Token>, Issue> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_space();
        let at = lexer.at;
        let kind = lexer.next()?;
        let is_end = kind == TokenKind::End;
        tokens.push(Token { at, kind });
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a [char],
    at: Offset,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn skip_space(&mut self) {
        while let Some(c) = self.peek(0) {
            if c == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else if matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}') {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<TokenKind, Issue> {
        let Some(c) = self.peek(0) else { return Ok(TokenKind::End) };
        if let Some((is_raw, is_bytes, quote_at)) = self.string_prefix() {
            self.at += quote_at;
            return self.string(is_raw, is_bytes);
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return self.number();
        }
        if c.is_ascii_alphabetic() || c == '_' {
            return Ok(TokenKind::Ident(self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')));
        }
        if c == '`' {
            return self.quoted();
        }
        for symbol in SYMBOLS {
            if symbol.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c)) {
                self.at += symbol.len();
                return Ok(TokenKind::Symbol(symbol));
            }
        }
        Err(Issue::syntax(self.at, format!("token recognition error at: '{c}'")))
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let begin = self.at;
        while self.peek(0).is_some_and(&accept) {
            self.at += 1;
        }
        self.text[begin..self.at].iter().collect()
    }

    /// Returns whether a string begins here: raw, bytes, and the length of the prefix.
    fn string_prefix(&self) -> Option<(bool, bool, usize)> {
        let (mut is_raw, mut is_bytes) = (false, false);
        for ahead in 0..3 {
            match self.peek(ahead)? {
                '"' | '\'' => return Some((is_raw, is_bytes, ahead)),
                'r' | 'R' if !is_raw => is_raw = true,
                'b' | 'B' if !is_bytes => is_bytes = true,
                _ => return None,
            }
        }
        None
    }

    fn string(&mut self, is_raw: bool, is_bytes: bool) -> Result<TokenKind, Issue> {
        let begin = self.at;
        let Some(quote) = self.peek(0) else { return Ok(TokenKind::End) };
        let is_triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let width = if is_triple { 3 } else { 1 };
        self.at += width;
        let (mut text, mut bytes) = (String::new(), Vec::new());
        loop {
            let unterminated = || {
                let found: String = self.text[begin..].iter().collect();
                Issue::syntax(begin, format!("token recognition error at: '{found}'"))
            };
            let Some(c) = self.peek(0) else { return Err(unterminated()) };
            if (0..width).all(|ahead| self.peek(ahead) == Some(quote)) {
                self.at += width;
                return Ok(if is_bytes { TokenKind::Bytes(bytes) } else { TokenKind::String(text) });
            }
            if matches!(c, '\n' | '\r') && !is_triple {
                return Err(unterminated());
            }
            self.at += 1;
            let unescaped = if c == '\\' && !is_raw { self.escape(is_bytes)? } else { Unescaped::Char(c) };
            match unescaped {
                Unescaped::Char(c) => {
                    text.push(c);
                    bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
                }
                Unescaped::Byte(byte) => bytes.push(byte),
            }
        }
    }

    /// Reads an escape sequence after the backslash.
    fn escape(&mut self, is_bytes: bool) -> Result<Unescaped, Issue> {
        let at = self.at - 1;
        let invalid = || Issue::syntax(at, "unable to unescape string".to_owned());
        let c = self.peek(0).ok_or_else(invalid)?;
        self.at += 1;
        let simple = match c {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' | '\'' | '"' | '`' | '?' => c,
            'x' | 'X' => return self.code(2, 16, is_bytes).ok_or_else(invalid),
            'u' if !is_bytes => return self.code(4, 16, false).ok_or_else(invalid),
            'U' if !is_bytes => return self.code(8, 16, false).ok_or_else(invalid),
            '0'..='3' => {
                self.at -= 1;
                return self.code(3, 8, is_bytes).ok_or_else(invalid);
            }
            _ => return Err(invalid()),
        };
        Ok(Unescaped::Char(simple))
    }

    fn code(&mut self, digits: usize, radix: u32, is_byte: bool) -> Option<Unescaped> {
        let text: String = self.text.get(self.at..self.at + digits)?.iter().collect();
        let code = u32::from_str_radix(&text, radix).ok()?;
        self.at += digits;
        match is_byte {
            true => u8::try_from(code).ok().map(Unescaped::Byte),
            false => char::from_u32(code).map(Unescaped::Char),
        }
    }

    fn number(&mut self) -> Result<TokenKind, Issue> {
        let is_hex = self.peek(0) == Some('0') && matches!(self.peek(1), Some('x' | 'X'));
        let mut text = match is_hex {
            true => {
                self.at += 2;
                format!("0x{}", self.take_while(|c| c.is_ascii_hexdigit()))
            }
            false => self.take_while(|c| c.is_ascii_digit()),
        };
        let mut is_double = false;
        if !is_hex {
            if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
                is_double = true;
                self.at += 1;
                text.push('.');
                text.push_str(&self.take_while(|c| c.is_ascii_digit()));
            }
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            let has_exponent = self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit());
            if matches!(self.peek(0), Some('e' | 'E')) && has_exponent {
                is_double = true;
                text.push('e');
                text.extend(self.text[self.at + 1..self.at + 1 + sign].iter());
                self.at += 1 + sign;
                text.push_str(&self.take_while(|c| c.is_ascii_digit()));
            }
        }
        if is_double {
            return Ok(TokenKind::Double(text));
        }
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return Ok(TokenKind::Uint(text));
        }
        Ok(TokenKind::Int(text))
    }

    fn quoted(&mut self) -> Result<TokenKind, Issue> {
        let begin = self.at;
        self.at += 1;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        let name = self.take_while(allowed);
        if self.peek(0) != Some('`') || name.is_empty() {
            return Err(Issue::syntax(begin, "token recognition error at: '`'".to_owned()));
        }
        self.at += 1;
        Ok(TokenKind::Quoted(name))
    }
}

/// A character or byte of a string.
enum Unescaped {
    Char(char),
    Byte(u8),
}
