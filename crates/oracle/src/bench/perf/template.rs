//! Go templates, as far as the object templates of `scheduler_perf` use them: fields, variables, pipelines, `if` and
//! `range`, and the functions that `scheduler_perf` adds.

mod datum;
mod functions;
mod parser;

use serde_json::{Map, Value};

use datum::Datum;

/// The reason a template cannot be parsed or executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    /// The text is not a template, or uses something that is not supported.
    #[error("line {line}: {problem}")]
    Syntax {
        /// Number of the line, from 1.
        line: usize,
        /// Description of the problem.
        problem: String,
    },
    /// A value does not suit its use.
    #[error("{{{{{action}}}}}: {problem}")]
    Execution {
        /// Text of the action.
        action: String,
        /// Description of the problem.
        problem: String,
    },
}

/// A parsed template.
#[derive(Debug, Clone)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Print(Action),
    Assign { variable: String, value: Action },
    If { condition: Action, then: Vec<Part>, otherwise: Vec<Part> },
    Range { variable: Option<String>, over: Action, body: Vec<Part>, otherwise: Vec<Part> },
}

/// A pipeline and its text, which errors show.
#[derive(Debug, Clone)]
struct Action {
    text: String,
    pipeline: Pipeline,
}

/// Commands, each of which gets the result of the one before as its last argument.
type Pipeline = Vec<Command>;

#[derive(Debug, Clone)]
enum Command {
    Value(Operand),
    Call { function: String, arguments: Vec<Operand> },
}

#[derive(Debug, Clone)]
enum Operand {
    Literal(Datum),
    /// Fields of the current value; the value itself if there are none.
    Field(Vec<String>),
    /// Fields of a variable; the variable with the empty name is the template's data.
    Variable(String, Vec<String>),
    Nested(Pipeline),
}

impl Template {
    /// Parses a template.
    pub(super) fn parse(text: &str) -> Result<Self, TemplateError> {
        parser::parse(text).map(Self)
    }

    /// Returns true if the template contains no action, so that every execution returns the same text.
    pub(super) fn is_constant(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Returns the text for the given data.
    pub(super) fn render(&self, data: &Map<String, Value>) -> Result<String, TemplateError> {
        let data = Datum::Json(Value::Object(data.clone()));
        let mut execution =
            Execution { output: String::new(), variables: vec![(String::new(), data.clone())] };
        execution.run(&self.0, &data)?;
        Ok(execution.output)
    }
}

struct Execution {
    output: String,
    /// Variables in scope, the innermost last.
    variables: Vec<(String, Datum)>,
}

impl Execution {
    fn run(&mut self, parts: &[Part], dot: &Datum) -> Result<(), TemplateError> {
        let outer = self.variables.len();
        for part in parts {
            match part {
                Part::Text(text) => self.output.push_str(text),
                Part::Print(action) => {
                    let value = self.value(action, dot)?;
                    let text = value.text().map_err(|problem| action.failed(problem))?;
                    self.output.push_str(&text);
                }
                Part::Assign { variable, value } => {
                    let value = self.value(value, dot)?;
                    self.variables.push((variable.clone(), value));
                }
                Part::If { condition, then, otherwise } => {
                    let holds = self.value(condition, dot)?.is_true();
                    self.run(if holds { then } else { otherwise }, dot)?;
                }
                Part::Range { variable, over, body, otherwise } => {
                    let elements =
                        self.value(over, dot)?.elements().map_err(|problem| over.failed(problem))?;
                    if elements.is_empty() {
                        self.run(otherwise, dot)?;
                    }
                    for element in elements {
                        let scope = self.variables.len();
                        self.variables.extend(variable.clone().map(|name| (name, element.clone())));
                        self.run(body, &element)?;
                        self.variables.truncate(scope);
                    }
                }
            }
        }
        self.variables.truncate(outer);
        Ok(())
    }

    fn value(&self, action: &Action, dot: &Datum) -> Result<Datum, TemplateError> {
        self.pipeline(&action.pipeline, dot).map_err(|problem| action.failed(problem))
    }

    fn pipeline(&self, pipeline: &[Command], dot: &Datum) -> Result<Datum, String> {
        let mut result = None;
        for command in pipeline {
            result = Some(match command {
                Command::Value(operand) => self.operand(operand, dot)?,
                Command::Call { function, arguments } => {
                    let mut values = arguments
                        .iter()
                        .map(|operand| self.operand(operand, dot))
                        .collect::<Result<Vec<_>, _>>()?;
                    values.extend(result);
                    functions::call(function, &values)?
                }
            });
        }
        Ok(result.unwrap_or(Datum::Nil))
    }

    fn operand(&self, operand: &Operand, dot: &Datum) -> Result<Datum, String> {
        match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Field(path) => dot.at(path),
            Operand::Variable(name, path) => {
                let found = self.variables.iter().rev().find(|(variable, _)| variable == name);
                found.ok_or_else(|| format!("undefined variable ${name}"))?.1.at(path)
            }
            Operand::Nested(pipeline) => self.pipeline(pipeline, dot),
        }
    }
}

impl Action {
    fn failed(&self, problem: String) -> TemplateError {
        TemplateError::Execution { action: self.text.clone(), problem }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(template: &str, data: Value) -> Result<String, String> {
        let Value::Object(data) = data else { panic!("the data must be an object") };
        let template = Template::parse(template).map_err(|error| error.to_string())?;
        template.render(&data).map_err(|error| error.to_string())
    }

    #[test]
    fn actions_have_the_values_that_go_computes() {
        let data = || {
            json!({
                "Index": 17, "Count": 40, "class": "gpu", "flag": true, "list": ["a", {"b": 1}], "zero": 0, "text": "3",
                "deep": {"er": {"est": 5}},
            })
        };
        for (template, expected) in [
            ("a{{.Index}}b", "a17b"),
            ("a  {{- .Index -}}  b", "a17b"),
            ("{{/* nothing */}}x", "x"),
            ("{{ DivideInt .Index 5 }} {{Mod .Index 12}} {{DivideInt 30000 .Count}}", "3 5 750"),
            ("{{AddInt 7000 (Mod .Index (DivideInt .Count 10))}}", "7001"),
            (
                "{{AddInt 0 .text}} {{MultiplyInt 2 3 4}} {{SubtractInt 5 7}} {{AddFloat 1 0.5}}",
                "3 24 -2 1.5",
            ),
            ("{{DivideFloat 1 4}} {{MultiplyFloat 2 0.5}} {{SubtractFloat 1 0.25}}", "0.25 1 0.75"),
            (
                "{{if .flag}}yes{{else}}no{{end}} {{if .zero}}yes{{else}}no{{end}} {{if .missing}}yes{{end}}",
                "yes no ",
            ),
            ("{{if .missing}}a{{else if .flag}}b{{else}}c{{end}}", "b"),
            (r#"{{if eq .class "gpu"}}yes{{end}}{{if and .flag (not .zero)}}!{{end}}"#, "yes!"),
            (
                "{{if ge .Index (17 | Int)}}a{{end}}{{if lt .Index 17}}b{{end}}{{if ne .Index 3}}c{{end}}",
                "ac",
            ),
            ("{{if gt 2 1}}a{{end}}{{if le 2 1}}b{{end}}", "a"),
            ("{{$n := or .missing 2}}{{range ($n | Int)}}[{{.}}]{{end}}", "[0][1]"),
            ("{{range $i := 2}}{{range $j := 2}}{{$i}}{{$j}} {{end}}{{end}}", "00 01 10 11 "),
            (
                "{{range .list}}{{. | JSON}} {{else}}none{{end}}{{range .missing}}x{{else}}none{{end}}",
                r#""a" {"b":1} none"#,
            ),
            ("{{$x := (or .list nil) | JSON}}{{$x}}", r#"["a",{"b":1}]"#),
            ("{{$x := (or .missing nil) | JSON}}{{$x}}", "null"),
            ("{{range 1}}{{$.Index}}{{end}} {{.deep.er.est}} {{.missing}}", "17 5 <no value>"),
            ("{{`raw`}} {{\"a\\\"b\"}} {{true}}", "raw a\"b true"),
        ] {
            assert_eq!(render(template, data()).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn errors_name_the_place_and_the_problem() {
        for (template, expected) in [
            ("a\n{{.Index", "line 2: an action is not closed"),
            ("{{if .a}}", "line 1: {{if .a}} has no {{end}}"),
            ("{{end}}", "line 1: {{end}} without a block"),
            ("{{with .a}}{{end}}", "line 1: `with` is not supported"),
            ("{{(.a}}", "line 1: a parenthesis is not closed"),
            ("{{$x}}", "{{$x}}: undefined variable $x"),
            ("{{Frobnicate 1}}", "{{Frobnicate 1}}: unknown function Frobnicate"),
            ("{{AddInt 1 .missing}}", "{{AddInt 1 .missing}}: a missing value is not a number"),
            ("{{Mod 1 0}}", "{{Mod 1 0}}: division by zero"),
            ("{{range .text}}{{end}}", "{{.text}}: \"a\" is neither a number nor a list"),
        ] {
            assert_eq!(render(template, json!({"text": "a"})), Err(expected.to_owned()), "{template}");
        }
    }

    #[test]
    fn only_a_template_without_actions_is_constant() {
        assert!(Template::parse("a: 1 # {").unwrap().is_constant());
        assert!(!Template::parse("a: {{.Index}}").unwrap().is_constant());
    }
}
