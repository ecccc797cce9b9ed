//! Places in the grammar where the parser can find an error, and the tokens that fit there.
//!
//! A place is the beginning of an alternative, of an optional part or of a repeated part, or a token that the grammar
//! requires. The grammar determines the sets of tokens.

use crate::token::{TokenKind as T, TokenSet};

pub(super) const fn set(kinds: &[T]) -> TokenSet {
    TokenSet::of(kinds)
}

/// Tokens that begin a literal.
const LITERAL: TokenSet =
    set(&[T::Minus, T::True, T::False, T::Null, T::Float, T::Int, T::Uint, T::String, T::Bytes]);
/// Tokens that begin a member.
pub(super) const MEMBER: TokenSet =
    LITERAL.or(set(&[T::LeftBracket, T::LeftBrace, T::LeftParen, T::Dot, T::Ident]));
/// Tokens that begin an expression.
pub(super) const EXPR: TokenSet = MEMBER.or(set(&[T::Exclamation]));
/// Tokens that begin an element of a list or a key of a map.
pub(super) const ELEMENT: TokenSet = EXPR.or(set(&[T::Question]));
const NAME: TokenSet = set(&[T::Ident, T::EscapedIdent]);
/// Tokens that begin a field of a message.
pub(super) const FIELD: TokenSet = NAME.or(set(&[T::Question]));
/// Tokens that fit after a member.
pub(super) const POSTFIX: TokenSet = set(&[T::Dot, T::LeftBracket]).or(RULE_END);
pub(super) const CALC: TokenSet = set(&[T::Plus, T::Minus, T::Star, T::Slash, T::Percent]).or(RULE_END);
pub(super) const RELATION: TokenSet =
    set(&[T::Less, T::LessEquals, T::GreaterEquals, T::Greater, T::Equals, T::NotEquals, T::In]).or(RULE_END);
pub(super) const RULE_END: TokenSet = TokenSet::RULE_END;

/// A place where the parser checks the current token or chooses an alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    End,
    TernaryColon,
    Unary,
    AfterNot,
    AfterMinus,
    Member,
    MemberArguments,
    MemberArgumentsEnd,
    Index,
    IndexEnd,
    Primary,
    Arguments,
    ArgumentsEnd,
    NestedEnd,
    List,
    ListComma,
    ListEnd,
    Map,
    MapComma,
    MapEnd,
    Message,
    MessageComma,
    MessageEnd,
    FirstFieldColon,
    FieldColon,
    FirstEntryColon,
    EntryColon,
    Field,
    Name,
    Element,
    Literal,
}

impl Place {
    /// Tokens that fit at this place.
    pub(super) const fn fitting(self) -> TokenSet {
        match self {
            Self::End => set(&[T::End]),
            Self::TernaryColon
            | Self::FirstFieldColon
            | Self::FieldColon
            | Self::FirstEntryColon
            | Self::EntryColon => set(&[T::Colon]),
            Self::Unary | Self::AfterNot => EXPR,
            Self::AfterMinus | Self::Primary => MEMBER,
            Self::Member => set(&[T::Dot, T::LeftBracket]),
            Self::MemberArguments | Self::Arguments => EXPR.or(set(&[T::RightParen])),
            Self::MemberArgumentsEnd | Self::ArgumentsEnd | Self::NestedEnd => set(&[T::RightParen]),
            Self::Index | Self::Element => ELEMENT,
            Self::IndexEnd | Self::ListEnd => set(&[T::RightBracket]),
            Self::List => ELEMENT.or(set(&[T::Comma, T::RightBracket])),
            Self::ListComma => set(&[T::Comma, T::RightBracket]),
            Self::Map => ELEMENT.or(set(&[T::Comma, T::RightBrace])),
            Self::MapComma | Self::MessageComma => set(&[T::Comma, T::RightBrace]),
            Self::MapEnd | Self::MessageEnd => set(&[T::RightBrace]),
            Self::Message => FIELD.or(set(&[T::Comma, T::RightBrace])),
            Self::Field => FIELD,
            Self::Name => NAME,
            Self::Literal => LITERAL,
        }
    }

    /// Tokens that fit after the token of this place.
    pub(super) const fn after(self) -> TokenSet {
        match self {
            Self::MemberArgumentsEnd | Self::IndexEnd => POSTFIX,
            Self::TernaryColon
            | Self::FirstFieldColon
            | Self::FieldColon
            | Self::FirstEntryColon
            | Self::EntryColon => EXPR,
            _ => RULE_END,
        }
    }
}
