//! Tokens.

use std::fmt;

use crate::source::Offset;

/// Kinds of tokens, in the order of cel-go's grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum TokenKind {
    /// The end of the text.
    End = 0,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Exclamation,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Whitespace,
    Comment,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    /// An identifier in backticks.
    EscapedIdent,
}

impl TokenKind {
    /// Returns true if the parser ignores tokens of this kind.
    pub(crate) fn is_hidden(self) -> bool {
        matches!(self, Self::Whitespace | Self::Comment)
    }
}

/// The names that syntax errors give to the kinds that the parser does not ignore, in the order of the kinds.
const NAMES: &[(TokenKind, &str)] = &[
    (TokenKind::End, "<EOF>"),
    (TokenKind::Equals, "'=='"),
    (TokenKind::NotEquals, "'!='"),
    (TokenKind::In, "'in'"),
    (TokenKind::Less, "'<'"),
    (TokenKind::LessEquals, "'<='"),
    (TokenKind::GreaterEquals, "'>='"),
    (TokenKind::Greater, "'>'"),
    (TokenKind::And, "'&&'"),
    (TokenKind::Or, "'||'"),
    (TokenKind::LeftBracket, "'['"),
    (TokenKind::RightBracket, "']'"),
    (TokenKind::LeftBrace, "'{'"),
    (TokenKind::RightBrace, "'}'"),
    (TokenKind::LeftParen, "'('"),
    (TokenKind::RightParen, "')'"),
    (TokenKind::Dot, "'.'"),
    (TokenKind::Comma, "','"),
    (TokenKind::Minus, "'-'"),
    (TokenKind::Exclamation, "'!'"),
    (TokenKind::Question, "'?'"),
    (TokenKind::Colon, "':'"),
    (TokenKind::Plus, "'+'"),
    (TokenKind::Star, "'*'"),
    (TokenKind::Slash, "'/'"),
    (TokenKind::Percent, "'%'"),
    (TokenKind::True, "'true'"),
    (TokenKind::False, "'false'"),
    (TokenKind::Null, "'null'"),
    (TokenKind::Float, "NUM_FLOAT"),
    (TokenKind::Int, "NUM_INT"),
    (TokenKind::Uint, "NUM_UINT"),
    (TokenKind::String, "STRING"),
    (TokenKind::Bytes, "BYTES"),
    (TokenKind::Ident, "IDENTIFIER"),
    (TokenKind::EscapedIdent, "ESC_IDENTIFIER"),
];

/// A set of token kinds. It can also contain the end of the current rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenSet(u64);

impl TokenSet {
    pub(crate) const EMPTY: Self = Self(0);
    pub(crate) const RULE_END: Self = Self(1 << 63);

    pub(crate) const fn of(kinds: &[TokenKind]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u64;
            at += 1;
        }
        Self(bits)
    }

    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn contains(self, kind: TokenKind) -> bool {
        self.0 & (1 << kind as u64) != 0
    }

    /// Returns true if the set contains the end of the rule.
    pub(crate) const fn can_end(self) -> bool {
        self.0 & Self::RULE_END.0 != 0
    }

    pub(crate) const fn without_end(self) -> Self {
        Self(self.0 & !Self::RULE_END.0)
    }

    /// Returns the kind that comes first in cel-go's grammar.
    pub(crate) fn first(self) -> Option<TokenKind> {
        self.named().next().map(|(kind, _)| kind)
    }

    fn named(self) -> impl Iterator<Item = (TokenKind, &'static str)> {
        NAMES.iter().copied().filter(move |(kind, _)| self.contains(*kind))
    }
}

/// Prints the names of the kinds as syntax errors do.
impl fmt::Display for TokenSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.named().map(|(_, name)| name).collect();
        match names.as_slice() {
            [name] => f.write_str(name),
            names => write!(f, "{{{}}}", names.join(", ")),
        }
    }
}

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: Offset,
    /// Position after the token.
    pub(crate) end: Offset,
}
