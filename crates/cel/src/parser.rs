//! Parses an expression into a tree.
//!
//! The grammar is that of the CEL specification (`doc/langdef.md`, "Syntax"), with cel-go's extensions: optional fields
//! and elements (`?`), and names in backticks. Each rule of cel-go's version of the grammar has a function here,
//! because the depth of rules is limited and the recovery from a syntax error depends on the active rules.
//!
//! Reading order: this file (the grammar), `actions` (trees), `recovery` (tokens and errors), `places` (the tokens that
//! fit at each place).

mod actions;
mod places;
mod recovery;

use crate::{
    ast::{Expr, Field},
    errors::CompileError,
    lexer,
    source::{Issues, Offset, Source},
    token::{Token, TokenKind as T, TokenSet},
};

use actions::{Actions, ESCAPED_NAME, ItemTree, MessageField, NO_NAME, Name, Tree, UnaryParts};
use places::{CALC, ELEMENT, EXPR, FIELD, MEMBER, POSTFIX, Place, RELATION, RULE_END, set};
use recovery::{Parsing, Recovery, Rule};

/// Maximum number of times that a grammar rule is nested in itself, and maximum depth of a tree.
pub(crate) const DEEPEST: u32 = 250;
/// Maximum number of characters of an expression.
const LONGEST: usize = 100_000;

/// A parsed expression.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Expr,
    /// Largest ID that has been given to an expression.
    pub(crate) last_id: u32,
}

pub(crate) fn parse(source: &Source) -> Result<Parsed, CompileError> {
    let size = source.chars().len();
    if size > LONGEST {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {LONGEST}");
        return Err(Issues::everywhere(source, message));
    }
    let tokens = lexer::tokens(source);
    let mut parser = Parser { input: Recovery::new(source, &tokens), actions: Actions::default() };
    let root = parser.start();
    let Parser { input, mut actions } = parser;
    let mut issues = input.errors;
    match root {
        Ok(tree) => {
            let root = actions.finish(tree);
            issues.append(actions.issues);
            issues.into_result(source)?;
            Ok(Parsed { root, last_id: actions.builder.last_id() })
        }
        Err(_) => Err(issues.into_error(source)),
    }
}

struct Parser<'s> {
    input: Recovery<'s>,
    actions: Actions,
}

const COLON: TokenSet = set(&[T::Colon]);
const OR: TokenSet = set(&[T::Or]).or(RULE_END);
const AND: TokenSet = set(&[T::And]).or(RULE_END);
const LIST_ITEM: TokenSet = set(&[T::Comma]).or(RULE_END);
const RIGHT_PAREN: TokenSet = set(&[T::RightParen]);

/// Each function parses a rule. `follow` is the set of tokens that fit after the rule at the place where it is used.
impl Parser<'_> {
    fn start(&mut self) -> Parsing<Tree> {
        let tree = self.expr(set(&[T::End]))?;
        let end = self.input.expect(Place::End).map(drop);
        self.input.recover(end)?;
        self.input.report_unknown_texts()?;
        Ok(tree)
    }

    fn expr(&mut self, follow: TokenSet) -> Parsing<Tree> {
        self.input.enter_limited(Rule::Expr, follow)?;
        let condition = self.or(set(&[T::Question]).or(RULE_END))?;
        let tree = match self.input.take(T::Question) {
            None => condition,
            Some(op) => {
                let then = self.or(COLON)?;
                let (mut otherwise, result) = (Tree::missing(), self.input.expect(Place::TernaryColon));
                let result = match result {
                    Ok(_) => self.expr(RULE_END).map(|tree| otherwise = tree),
                    Err(stop) => Err(stop),
                };
                self.input.recover(result)?;
                self.actions.ternary(op.start, condition, then, otherwise)
            }
        };
        self.input.leave_limited(Rule::Expr);
        Ok(tree)
    }

    fn or(&mut self, follow: TokenSet) -> Parsing<Tree> {
        self.input.enter(follow);
        let mut terms = vec![self.and(OR)?];
        let mut ops = Vec::new();
        while let Some(op) = self.input.take(T::Or) {
            ops.push(op.start);
            terms.push(self.and(OR)?);
        }
        self.input.leave();
        Ok(self.actions.logic("_||_", terms, &ops))
    }

    fn and(&mut self, follow: TokenSet) -> Parsing<Tree> {
        self.input.enter(follow);
        let mut terms = vec![self.relation(0, AND)?];
        let mut ops = Vec::new();
        while let Some(op) = self.input.take(T::And) {
            ops.push(op.start);
            terms.push(self.relation(0, AND)?);
        }
        self.input.leave();
        Ok(self.actions.logic("_&&_", terms, &ops))
    }

    /// Parses relations whose operators bind at least as strongly as `least`.
    fn relation(&mut self, least: u8, follow: TokenSet) -> Parsing<Tree> {
        self.input.enter_limited(Rule::Relation, follow)?;
        let mut left = self.calc(0, RELATION)?;
        while least <= 1
            && let Some(function) = relation_operator(self.input.peek())
        {
            let op = self.input.next();
            let right = self.relation(2, RELATION)?;
            left = self.actions.binary(op.start, function, left, right);
        }
        self.input.leave_limited(Rule::Relation);
        Ok(left)
    }

    /// Parses calculations whose operators bind at least as strongly as `least`.
    fn calc(&mut self, least: u8, follow: TokenSet) -> Parsing<Tree> {
        self.input.enter_limited(Rule::Calc, follow)?;
        let mut left = self.unary(CALC)?;
        while let Some((function, strength)) =
            calc_operator(self.input.peek()).filter(|(_, strength)| *strength >= least)
        {
            let op = self.input.next();
            let right = self.calc(strength + 1, CALC)?;
            left = self.actions.binary(op.start, function, left, right);
        }
        self.input.leave_limited(Rule::Calc);
        Ok(left)
    }

    fn unary(&mut self, follow: TokenSet) -> Parsing<Tree> {
        self.input.enter(follow);
        let start = self.input.token().start;
        let mut parts = UnaryParts { start, is_known: false, operators: Vec::new(), member: Tree::missing() };
        let result = self.unary_parts(&mut parts);
        self.input.recover(result)?;
        self.input.leave();
        Ok(self.actions.unary(parts))
    }

    fn unary_parts(&mut self, parts: &mut UnaryParts) -> Parsing<()> {
        self.input.check(Place::Unary)?;
        let operator = self.input.peek();
        let is_operator = match (operator, self.input.peek_at(1)) {
            (T::Exclamation, _) => true,
            (T::Minus, T::Int | T::Float) => false,
            (T::Minus, next) if MEMBER.contains(next) => true,
            (T::Minus, _) => return Err(self.input.no_alternative(Place::Unary, 1)),
            (first, _) if MEMBER.contains(first) => false,
            _ => return Err(self.input.no_alternative(Place::Unary, 0)),
        };
        parts.is_known = true;
        if is_operator {
            self.unary_operators(operator, &mut parts.operators)?;
        }
        parts.member = self.member(RULE_END)?;
        Ok(())
    }

    /// Parses an operator and its repetitions.
    fn unary_operators(&mut self, operator: T, into: &mut Vec<(T, Offset)>) -> Parsing<()> {
        let place = if operator == T::Minus { Place::AfterMinus } else { Place::AfterNot };
        loop {
            into.push((operator, self.input.next().start));
            self.input.check_repeated(place)?;
            match (operator, self.input.peek()) {
                (T::Exclamation, T::Exclamation) => {}
                (T::Exclamation, _) => return Ok(()),
                (_, T::Minus) if MEMBER.contains(self.input.peek_at(1)) => {}
                (_, T::Minus) => return Err(self.input.no_alternative(place, 1)),
                (_, next) if MEMBER.contains(next) => return Ok(()),
                _ => return Err(self.input.no_alternative(place, 0)),
            }
        }
    }

    fn member(&mut self, follow: TokenSet) -> Parsing<Tree> {
        self.input.enter_limited(Rule::Member, follow)?;
        let mut tree = self.primary(POSTFIX)?;
        while matches!(self.input.peek(), T::Dot | T::LeftBracket) {
            let (longer, result) = self.postfix(tree);
            tree = longer;
            let is_complete = result.is_ok();
            self.input.recover(result)?;
            if !is_complete {
                break;
            }
        }
        self.input.leave_limited(Rule::Member);
        Ok(tree)
    }

    /// Parses a field, call or index after a member. After an error, the tree contains the parts before the error.
    fn postfix(&mut self, operand: Tree) -> (Tree, Parsing<()>) {
        if self.input.peek() == T::LeftBracket {
            return self.index(operand);
        }
        match (self.input.peek_at(1), self.input.peek_at(2)) {
            (T::Ident, T::LeftParen) => {
                self.input.next();
                let name = self.input.next();
                let name = self.input.text(name);
                let open = self.input.next();
                let (args, result) = self.arguments(Place::MemberArguments, Place::MemberArgumentsEnd);
                (self.actions.member_call(open.start, &name, operand, args), result)
            }
            (T::Ident | T::EscapedIdent | T::Question, _) => {
                let op = self.input.next();
                let is_optional = self.input.take(T::Question).is_some();
                match self.name(POSTFIX) {
                    Ok(name) => (self.actions.select(op.start, operand, name, is_optional), Ok(())),
                    Err(stop) => (operand, Err(stop)),
                }
            }
            _ => (operand, Err(self.input.no_alternative(Place::Member, 1))),
        }
    }

    fn index(&mut self, operand: Tree) -> (Tree, Parsing<()>) {
        let op = self.input.next();
        let (mut index, mut is_optional) = (Tree::missing(), false);
        let result = self.input.check(Place::Index).and_then(|()| {
            is_optional = self.input.take(T::Question).is_some();
            index = self.expr(set(&[T::RightBracket]))?;
            self.input.expect(Place::IndexEnd).map(drop)
        });
        (self.actions.index(op.start, operand, index, is_optional), result)
    }

    /// Parses the arguments of a call and its closing parenthesis.
    fn arguments(&mut self, begin: Place, end: Place) -> (Vec<Tree>, Parsing<()>) {
        let mut args = Vec::new();
        let result = self.input.check(begin).and_then(|()| {
            if EXPR.contains(self.input.peek()) {
                self.input.enter(RIGHT_PAREN);
                args.push(self.expr(LIST_ITEM)?);
                while self.input.take(T::Comma).is_some() {
                    args.push(self.expr(LIST_ITEM)?);
                }
                self.input.leave();
            }
            self.input.expect(end).map(drop)
        });
        (args, result)
    }

    fn primary(&mut self, follow: TokenSet) -> Parsing<Tree> {
        self.input.enter(follow);
        let mut tree = Tree::missing();
        let result = self.primary_parts(&mut tree);
        self.input.recover(result)?;
        self.input.leave();
        Ok(tree)
    }

    fn primary_parts(&mut self, tree: &mut Tree) -> Parsing<()> {
        let start = self.input.token().start;
        self.input.check(Place::Primary)?;
        match self.input.peek() {
            T::Ident => self.named(start, tree),
            T::Dot if self.input.peek_at(1) == T::Ident => self.named(start, tree),
            T::Dot => Err(self.input.no_alternative(Place::Primary, 1)),
            T::LeftParen => {
                self.input.next();
                *tree = self.expr(RIGHT_PAREN)?;
                self.input.expect(Place::NestedEnd).map(drop)
            }
            T::LeftBracket => self.list(tree),
            T::LeftBrace => self.map(tree),
            kind if MEMBER.contains(kind) => {
                *tree = self.literal(RULE_END)?;
                Ok(())
            }
            _ => Err(self.input.no_alternative(Place::Primary, 0)),
        }
    }

    /// Parses an identifier, a call, or a message. `start` is the position of the first token.
    fn named(&mut self, start: Offset, tree: &mut Tree) -> Parsing<()> {
        let dot = if self.input.take(T::Dot).is_some() { "." } else { "" };
        let name = self.input.next();
        let text = self.input.text(name);
        if let Some(brace) = self.message_brace() {
            return self.message(tree, format!("{dot}{text}"), brace);
        }
        let Some(open) = self.input.take(T::LeftParen) else {
            *tree = self.actions.ident(start, name.start, dot, &text);
            return Ok(());
        };
        let before = self.actions.issues.len();
        let (args, result) = self.arguments(Place::Arguments, Place::ArgumentsEnd);
        *tree = self.actions.call(start, open.start, dot, &text, args, before);
        result
    }

    /// Returns the number of tokens before the brace if the next tokens are the rest of a message's name and an opening
    /// brace.
    fn message_brace(&mut self) -> Option<usize> {
        let mut ahead = 0;
        while self.input.peek_at(ahead) == T::Dot && self.input.peek_at(ahead + 1) == T::Ident {
            ahead += 2;
        }
        (self.input.peek_at(ahead) == T::LeftBrace).then_some(ahead)
    }

    fn message(&mut self, tree: &mut Tree, mut name: String, brace: usize) -> Parsing<()> {
        for _ in 0..brace {
            let part = self.input.next();
            name.push_str(&self.input.text(part));
        }
        let open = self.input.next();
        let mut fields = Vec::new();
        let result = self.input.check(Place::Message).and_then(|()| {
            if FIELD.contains(self.input.peek()) {
                self.fields(set(&[T::Comma, T::RightBrace]), &mut fields)?;
            }
            self.end_of_list(Place::MessageComma, Place::MessageEnd)
        });
        *tree = self.actions.message(open.start, name, fields);
        result
    }

    /// Parses an optional comma and the end of a list, map or message.
    fn end_of_list(&mut self, comma: Place, end: Place) -> Parsing<()> {
        self.input.check(comma)?;
        self.input.take(T::Comma);
        self.input.expect(end).map(drop)
    }

    fn fields(&mut self, follow: TokenSet, fields: &mut Vec<(Field, u32)>) -> Parsing<()> {
        self.input.enter(follow);
        let start = self.input.token().start;
        let result = self.each_field(start, fields);
        self.input.recover(result)?;
        self.input.leave();
        Ok(())
    }

    fn each_field(&mut self, start: Offset, fields: &mut Vec<(Field, u32)>) -> Parsing<()> {
        let mut place = Place::FirstFieldColon;
        loop {
            let (name, is_optional) = self.field_name(COLON)?;
            let at = self.input.expect(place)?.start;
            let before = self.actions.issues.len();
            let value = self.expr(LIST_ITEM)?;
            let field = MessageField { at, name, value, is_optional };
            fields.extend(self.actions.field(field, start, before));
            if !self.has_another(FIELD) {
                return Ok(());
            }
            place = Place::FieldColon;
        }
    }

    fn field_name(&mut self, follow: TokenSet) -> Parsing<(Name, bool)> {
        self.input.enter(follow);
        let (mut name, mut is_optional) = (self.no_name(), false);
        let result = self.input.check(Place::Field).and_then(|()| {
            is_optional = self.input.take(T::Question).is_some();
            name = self.name(RULE_END)?;
            Ok(())
        });
        self.input.recover(result)?;
        self.input.leave();
        Ok((name, is_optional))
    }

    fn list(&mut self, tree: &mut Tree) -> Parsing<()> {
        let open = self.input.next();
        let mut elements = Vec::new();
        let result = self.input.check(Place::List).and_then(|()| {
            if ELEMENT.contains(self.input.peek()) {
                self.elements(set(&[T::Comma, T::RightBracket]), &mut elements)?;
            }
            self.end_of_list(Place::ListComma, Place::ListEnd)
        });
        *tree = self.actions.list(open.start, elements);
        result
    }

    fn elements(&mut self, follow: TokenSet, elements: &mut Vec<ItemTree>) -> Parsing<()> {
        self.input.enter(follow);
        loop {
            elements.push(self.element(LIST_ITEM)?);
            if !self.has_another(ELEMENT) {
                break;
            }
        }
        self.input.leave();
        Ok(())
    }

    /// Takes a comma that is followed by a token of `first`. Returns true if there was such a comma.
    fn has_another(&mut self, first: TokenSet) -> bool {
        let has_another = self.input.peek() == T::Comma && first.contains(self.input.peek_at(1));
        if has_another {
            self.input.next();
        }
        has_another
    }

    fn element(&mut self, follow: TokenSet) -> Parsing<ItemTree> {
        self.input.enter(follow);
        let (mut tree, mut is_optional) = (Tree::missing(), false);
        let result = self.input.check(Place::Element).and_then(|()| {
            is_optional = self.input.take(T::Question).is_some();
            tree = self.expr(RULE_END)?;
            Ok(())
        });
        self.input.recover(result)?;
        self.input.leave();
        Ok((tree, is_optional))
    }

    fn map(&mut self, tree: &mut Tree) -> Parsing<()> {
        let open = self.input.next();
        let mut entries = Vec::new();
        let result = self.input.check(Place::Map).and_then(|()| {
            if ELEMENT.contains(self.input.peek()) {
                self.input.enter(set(&[T::Comma, T::RightBrace]));
                let result = self.entries(&mut entries);
                self.input.recover(result)?;
                self.input.leave();
            }
            self.end_of_list(Place::MapComma, Place::MapEnd)
        });
        *tree = self.actions.map(open.start, entries);
        result
    }

    fn entries(&mut self, entries: &mut Vec<(ItemTree, Tree)>) -> Parsing<()> {
        let mut place = Place::FirstEntryColon;
        loop {
            let before = self.actions.issues.len();
            let key = self.element(COLON)?;
            if let Err(stop) = self.input.expect(place) {
                // cel-go reports no problems in a key that no colon follows.
                self.actions.issues.truncate(before);
                return Err(stop);
            }
            entries.push((key, self.expr(LIST_ITEM)?));
            if !self.has_another(ELEMENT) {
                return Ok(());
            }
            place = Place::EntryColon;
        }
    }

    fn name(&mut self, follow: TokenSet) -> Parsing<Name> {
        self.input.enter(follow);
        let mut name = self.no_name();
        let result = self.input.check(Place::Name).and_then(|()| {
            let kind = self.input.peek();
            if !matches!(kind, T::Ident | T::EscapedIdent) {
                return Err(self.input.no_alternative(Place::Name, 0));
            }
            let token = self.input.next();
            name.text = match kind {
                T::Ident => Ok(self.input.text(token)),
                _ => Err(ESCAPED_NAME),
            };
            Ok(())
        });
        self.input.recover(result)?;
        self.input.leave();
        Ok(name)
    }

    fn no_name(&self) -> Name {
        Name { at: self.input.token().start, text: Err(NO_NAME) }
    }

    fn literal(&mut self, follow: TokenSet) -> Parsing<Tree> {
        self.input.enter(follow);
        let mut tree = Tree::missing();
        let result = self.literal_parts().map(|(sign, token)| {
            let at = sign.unwrap_or(token).start;
            let sign = if sign.is_some() { "-" } else { "" };
            tree = self.actions.literal(at, token.kind, sign, &self.input.text(token));
        });
        self.input.recover(result)?;
        self.input.leave();
        Ok(tree)
    }

    fn literal_parts(&mut self) -> Parsing<(Option<Token>, Token)> {
        self.input.check(Place::Literal)?;
        let is_signed = self.input.peek() == T::Minus;
        if is_signed && !matches!(self.input.peek_at(1), T::Int | T::Float) {
            return Err(self.input.no_alternative(Place::Literal, 1));
        }
        let sign = is_signed.then(|| self.input.next());
        Ok((sign, self.input.next()))
    }
}

fn relation_operator(kind: T) -> Option<&'static str> {
    Some(match kind {
        T::Less => "_<_",
        T::LessEquals => "_<=_",
        T::GreaterEquals => "_>=_",
        T::Greater => "_>_",
        T::Equals => "_==_",
        T::NotEquals => "_!=_",
        T::In => "@in",
        _ => return None,
    })
}

/// Returns the function of an arithmetic operator, and how strongly it binds.
fn calc_operator(kind: T) -> Option<(&'static str, u8)> {
    Some(match kind {
        T::Star => ("_*_", 2),
        T::Slash => ("_/_", 2),
        T::Percent => ("_%_", 2),
        T::Plus => ("_+_", 1),
        T::Minus => ("_-_", 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
