//! Parser of templates.

use super::datum::Datum;
use super::{Action, Command, Operand, Part, Pipeline, TemplateError};

/// Statements of Go that no object template uses.
const UNSUPPORTED: [&str; 6] = ["with", "define", "template", "block", "break", "continue"];

/// Parses the text of a template.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, TemplateError> {
    let mut parser = Parser { pieces: split(text)?, next: 0 };
    let (parts, end) = parser.block()?;
    match end {
        None => Ok(parts),
        Some(end) => Err(syntax(end.line, format!("{{{{{}}}}} without a block", end.text))),
    }
}

/// Literal text, or the text of an action.
enum Piece {
    Text(String),
    Action(ActionText),
}

#[derive(Clone)]
struct ActionText {
    line: usize,
    text: String,
}

/// Splits a template at its actions, and removes the spaces that `{{-` and `-}}` remove.
fn split(text: &str) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let (mut rest, mut line, mut trims) = (text, 1, false);
    while let Some(start) = rest.find("{{") {
        let before = &rest[..start];
        line += before.matches('\n').count();
        let opened = &rest[start + 2..];
        let end = opened.find("}}").ok_or_else(|| syntax(line, "an action is not closed"))?;
        let action = &opened[..end];
        let (action, trims_before) = match action.strip_prefix("- ") {
            Some(action) => (action, true),
            None => (action, false),
        };
        pieces.push(Piece::Text(trimmed(before, trims, trims_before)));
        let (action, trims_after) = match action.strip_suffix(" -") {
            Some(action) => (action, true),
            None => (action, false),
        };
        let action = action.trim();
        if !action.starts_with("/*") {
            pieces.push(Piece::Action(ActionText { line, text: action.to_owned() }));
        }
        line += opened[..end].matches('\n').count();
        trims = trims_after;
        rest = &opened[end + 2..];
    }
    pieces.push(Piece::Text(trimmed(rest, trims, false)));
    Ok(pieces)
}

fn trimmed(text: &str, start: bool, end: bool) -> String {
    let text = if start { text.trim_start() } else { text };
    if end { text.trim_end() } else { text }.to_owned()
}

fn syntax(line: usize, problem: impl Into<String>) -> TemplateError {
    TemplateError::Syntax { line, problem: problem.into() }
}

struct Parser {
    pieces: Vec<Piece>,
    next: usize,
}

impl Parser {
    /// Parses up to the action that ends the block: `end` or an `else`. It is `None` at the end of the template.
    fn block(&mut self) -> Result<(Vec<Part>, Option<ActionText>), TemplateError> {
        let mut parts = Vec::new();
        while let Some(piece) = self.pieces.get(self.next) {
            self.next += 1;
            let action = match piece {
                Piece::Text(text) if text.is_empty() => continue,
                Piece::Text(text) => {
                    parts.push(Part::Text(text.clone()));
                    continue;
                }
                Piece::Action(action) => action.clone(),
            };
            let (keyword, rest) = action.text.split_once(' ').unwrap_or((&action.text, ""));
            match keyword {
                "end" | "else" => return Ok((parts, Some(action))),
                "if" => parts.push(self.condition(&action, rest)?),
                "range" => parts.push(self.range(&action, rest)?),
                _ if UNSUPPORTED.contains(&keyword) => {
                    return Err(syntax(action.line, format!("`{keyword}` is not supported")));
                }
                _ => parts.push(statement(&action)?),
            }
        }
        Ok((parts, None))
    }

    fn condition(&mut self, opening: &ActionText, condition: &str) -> Result<Part, TemplateError> {
        let condition = expression(opening.line, condition)?;
        let (then, end) = self.block()?;
        let otherwise = self.otherwise(opening, end)?;
        Ok(Part::If { condition, then, otherwise })
    }

    fn range(&mut self, opening: &ActionText, clause: &str) -> Result<Part, TemplateError> {
        let (variable, over) = match assignment(clause) {
            Some((name, _)) if name.contains(',') => {
                return Err(syntax(opening.line, "`range` with two variables is not supported"));
            }
            Some((name, over)) => (Some(name.to_owned()), over),
            None => (None, clause),
        };
        let over = expression(opening.line, over)?;
        let (body, end) = self.block()?;
        let otherwise = self.otherwise(opening, end)?;
        Ok(Part::Range { variable, over, body, otherwise })
    }

    /// Parses the rest of a block whose first part ended with `end`.
    fn otherwise(
        &mut self,
        opening: &ActionText,
        end: Option<ActionText>,
    ) -> Result<Vec<Part>, TemplateError> {
        let unclosed = || syntax(opening.line, format!("{{{{{}}}}} has no {{{{end}}}}", opening.text));
        let end = end.ok_or_else(unclosed)?;
        if end.text == "end" {
            return Ok(Vec::new());
        }
        if let Some(condition) = end.text.strip_prefix("else if ") {
            return Ok(vec![self.condition(&end, condition)?]);
        }
        let (parts, end) = self.block()?;
        match end {
            Some(end) if end.text == "end" => Ok(parts),
            Some(end) => Err(syntax(end.line, "an `else` follows another")),
            None => Err(unclosed()),
        }
    }
}

/// Parses an action that is not a block.
fn statement(action: &ActionText) -> Result<Part, TemplateError> {
    Ok(match assignment(&action.text) {
        Some((variable, value)) => {
            Part::Assign { variable: variable.to_owned(), value: expression(action.line, value)? }
        }
        None => Part::Print(expression(action.line, &action.text)?),
    })
}

/// Splits `$name := value`.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let (variable, value) = text.split_once(":=")?;
    Some((variable.trim().strip_prefix('$')?, value.trim()))
}

fn expression(line: usize, text: &str) -> Result<Action, TemplateError> {
    let mut tokens = tokens(text).map_err(|problem| syntax(line, problem))?.into_iter().peekable();
    let pipeline = pipeline(&mut tokens, 0).map_err(|problem| syntax(line, problem))?;
    Ok(Action { text: text.trim().to_owned(), pipeline })
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Open,
    Close,
    Pipe,
    Text(String),
    Word(String),
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '|' => (Token::Pipe, 1),
            '"' | '`' => quoted(rest, first)?,
            _ => {
                let end = rest.find(|c: char| c.is_whitespace() || "()|".contains(c)).unwrap_or(rest.len());
                (Token::Word(rest[..end].to_owned()), end)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// Reads a string in quotes, and returns its length with the quotes. Only escaped quotes and backslashes are known.
fn quoted(text: &str, quote: char) -> Result<(Token, usize), String> {
    let mut content = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' if quote == '"' => match characters.next() {
                Some((_, escaped @ ('"' | '\\'))) => content.push(escaped),
                _ => return Err(format!("unknown escape in {text}")),
            },
            _ if character == quote => return Ok((Token::Text(content), at + 1)),
            _ => content.push(character),
        }
    }
    Err(format!("the string {text} is not closed"))
}

type Tokens = std::iter::Peekable<std::vec::IntoIter<Token>>;

/// Parses commands up to the end, or up to the parenthesis that closes a nested pipeline.
fn pipeline(tokens: &mut Tokens, depth: usize) -> Result<Pipeline, String> {
    let mut commands = Vec::new();
    loop {
        commands.push(command(tokens, depth)?);
        match tokens.next() {
            Some(Token::Pipe) => {}
            Some(Token::Close) if depth > 0 => return Ok(commands),
            None if depth == 0 => return Ok(commands),
            None => return Err("a parenthesis is not closed".to_owned()),
            Some(token) => return Err(format!("unexpected {token:?}")),
        }
    }
}

fn command(tokens: &mut Tokens, depth: usize) -> Result<Command, String> {
    let function = match tokens.peek() {
        Some(Token::Word(word)) if is_function(word) => Some(word.clone()),
        _ => None,
    };
    if function.is_some() {
        tokens.next();
    }
    let mut operands = Vec::new();
    while let Some(token) = tokens.next_if(|token| !matches!(token, Token::Pipe | Token::Close)) {
        operands.push(match token {
            Token::Open => Operand::Nested(pipeline(tokens, depth + 1)?),
            Token::Text(text) => Operand::Literal(Datum::Text(text)),
            Token::Word(word) => operand(&word)?,
            Token::Pipe | Token::Close => return Err("an operand is missing".to_owned()),
        });
    }
    match (function, operands.len()) {
        (Some(function), _) => Ok(Command::Call { function, arguments: operands }),
        (None, 1) => Ok(Command::Value(operands.remove(0))),
        (None, 0) => Err("an operand is missing".to_owned()),
        (None, _) => Err("a value that is not a function has arguments".to_owned()),
    }
}

fn is_function(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && !["true", "false", "nil"].contains(&word)
}

fn operand(word: &str) -> Result<Operand, String> {
    let names = |path: &str| path.split('.').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if let Some(path) = word.strip_prefix('.') {
        return Ok(Operand::Field(names(path)));
    }
    if let Some(variable) = word.strip_prefix('$') {
        let (name, path) = variable.split_once('.').unwrap_or((variable, ""));
        return Ok(Operand::Variable(name.to_owned(), names(path)));
    }
    let literal = match word {
        "nil" => Datum::Nil,
        "true" => Datum::Bool(true),
        "false" => Datum::Bool(false),
        _ => match (word.parse(), word.parse()) {
            (Ok(number), _) => Datum::Int(number),
            (_, Ok(number)) => Datum::Float(number),
            _ => return Err(format!("cannot understand {word}")),
        },
    };
    Ok(Operand::Literal(literal))
}
