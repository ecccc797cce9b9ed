//! Scripts that are run on both servers.

use anyhow::{Context, Result, bail};

/// A list of steps, parsed from text. Each line is one of
///
/// ```text
/// # a comment
/// kubectl get pods -o wide            a command, with quotes as in a shell
/// GET /api/v1/pods?limit=1            a request (also POST, PUT, PATCH, DELETE)
/// watch W = kubectl get pods -w       a command that keeps running
/// end W when "web-2"                  kills W once it has printed the text
/// let V = GET /api/v1/pods at /metadata/resourceVersion
///                                     sets ${V} for later lines; `at` is a JSON pointer
/// until "text" GET /apis/example.com  repeats the rest of the line until the answer contains the text, which
///                                     may take the real server a while
/// : Accept: application/json          a header for the request above
/// < text                              a line of the input or body of the step above
/// ~ name                              an expected difference of the step above
/// ```
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Steps in order.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone)]
pub struct Step {
    /// Line number in the script.
    pub line: usize,
    /// The line.
    pub text: String,
    /// The action.
    pub action: Action,
    /// Names of expected differences.
    pub expected: Vec<String>,
}

/// Action of a step.
#[derive(Debug, Clone)]
pub enum Action {
    /// Runs kubectl.
    Kubectl {
        /// Arguments of kubectl.
        args: Vec<String>,
        /// Standard input.
        input: String,
    },
    /// Sends a request.
    Request(Request),
    /// Starts a kubectl process that keeps running.
    Watch {
        /// Name of the watch.
        name: String,
        /// Arguments of kubectl.
        args: Vec<String>,
    },
    /// Kills a watch.
    End {
        /// Name of the watch.
        name: String,
        /// Text that the watch must print before it is killed.
        text: String,
    },
    /// Repeats an action until its answer contains a text.
    Until {
        /// The text.
        text: String,
        /// The action.
        action: Box<Action>,
    },
    /// Sets a variable to the answer of an action, or to a value in it.
    Let {
        /// Name of the variable.
        name: String,
        /// The action.
        action: Box<Action>,
        /// JSON pointer (RFC 6901) into the answer; empty for the whole answer.
        pointer: String,
    },
}

/// An HTTP request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body, empty for none.
    pub body: String,
}

impl Script {
    /// Parses a script.
    pub fn parse(text: &str) -> Result<Self> {
        let mut steps = Vec::<Step>::new();
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let continuation = line.split_at_checked(1).filter(|(sign, _)| matches!(*sign, ":" | "<" | "~"));
            let parsed = match (continuation, steps.last_mut()) {
                (Some((sign, rest)), Some(step)) => step.add(sign, rest),
                (Some(_), None) => Err(anyhow::anyhow!("there is no step above")),
                (None, _) => Step::parse(number, line).map(|step| steps.push(step)),
            };
            parsed.with_context(|| format!("line {number}: {line}"))?;
        }
        Ok(Self { steps })
    }
}

impl Step {
    fn parse(line: usize, text: &str) -> Result<Self> {
        let action = Action::parse(text)?;
        Ok(Self { line, text: text.to_owned(), action, expected: Vec::new() })
    }

    fn add(&mut self, sign: &str, rest: &str) -> Result<()> {
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        if sign == "~" {
            self.expected.push(rest.trim().to_owned());
            return Ok(());
        }
        match (sign, self.action.innermost()) {
            ("<", Action::Kubectl { input: text, .. } | Action::Request(Request { body: text, .. })) => {
                text.push_str(rest);
                text.push('\n');
            }
            (":", Action::Request(request)) => {
                let (name, value) = rest.split_once(": ").context("expected `name: value`")?;
                request.headers.push((name.to_owned(), value.to_owned()));
            }
            _ => bail!("the step above does not take {sign:?} lines"),
        }
        Ok(())
    }
}

impl Action {
    fn parse(text: &str) -> Result<Self> {
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        match first {
            "kubectl" => Ok(Self::Kubectl { args: words(rest)?, input: String::new() }),
            "GET" | "POST" | "PUT" | "PATCH" | "DELETE" => Ok(Self::Request(Request {
                method: first.to_owned(),
                path: rest.trim().to_owned(),
                headers: Vec::new(),
                body: String::new(),
            })),
            "watch" => {
                let (name, command) =
                    rest.split_once(" = kubectl ").context("expected `watch NAME = kubectl ...`")?;
                Ok(Self::Watch { name: name.trim().to_owned(), args: words(command)? })
            }
            "end" => {
                let (name, quoted) =
                    rest.split_once(" when ").context("expected `end NAME when \"text\"`")?;
                let text = quoted.trim().trim_matches('"').to_owned();
                Ok(Self::End { name: name.trim().to_owned(), text })
            }
            "until" => {
                let rest = rest.strip_prefix('"').context("expected `until \"text\" ...`")?;
                let (text, action) = rest.split_once("\" ").context("expected `until \"text\" ...`")?;
                Ok(Self::Until { text: text.to_owned(), action: Box::new(Self::parse(action)?) })
            }
            "let" => {
                let (name, action) = rest.split_once(" = ").context("expected `let NAME = ...`")?;
                let (action, pointer) = action.split_once(" at /").unwrap_or((action, ""));
                let pointer = if pointer.is_empty() { String::new() } else { format!("/{pointer}") };
                Ok(Self::Let {
                    name: name.trim().to_owned(),
                    action: Box::new(Self::parse(action)?),
                    pointer,
                })
            }
            other => bail!("unknown step {other:?}"),
        }
    }

    fn innermost(&mut self) -> &mut Self {
        match self {
            Self::Let { action, .. } | Self::Until { action, .. } => action.innermost(),
            other => other,
        }
    }
}

fn words(text: &str) -> Result<Vec<String>> {
    shlex::split(text).context("unclosed quote")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_line_by_line() {
        let script = Script::parse(
            "# pods\nkubectl apply -f - --x='a b'\n< kind: Pod\n<\n~ known\n\nlet V = POST /a?b=c at /x/y\n: X: 1\n< {}\n\
             watch W = kubectl get -w\nend W when \"done\"\nuntil \"x y\" GET /z\n",
        )
        .unwrap();
        let [apply, post, watch, end, until] = script.steps.as_slice() else { panic!("{script:?}") };
        let Action::Until { text, action } = &until.action else { panic!("{until:?}") };
        assert_eq!(text, "x y");
        assert!(matches!(&**action, Action::Request(request) if request.path == "/z"));
        let Action::Kubectl { args, input } = &apply.action else { panic!("{apply:?}") };
        assert_eq!((args.last().unwrap().as_str(), input.as_str()), ("--x=a b", "kind: Pod\n\n"));
        assert_eq!((apply.line, apply.expected.as_slice()), (2, ["known".to_owned()].as_slice()));
        let Action::Let { name, action, pointer } = &post.action else { panic!("{post:?}") };
        let Action::Request(request) = &**action else { panic!("{action:?}") };
        assert_eq!((name.as_str(), pointer.as_str(), request.path.as_str()), ("V", "/x/y", "/a?b=c"));
        assert_eq!((request.headers.len(), request.body.as_str()), (1, "{}\n"));
        assert!(matches!(&watch.action, Action::Watch { name, .. } if name == "W"));
        assert!(matches!(&end.action, Action::End { text, .. } if text == "done"));
    }

    #[test]
    fn an_error_names_the_invalid_line() {
        for text in [
            "helm install",
            "until x GET /",
            "< x",
            "kubectl get 'x",
            "watch W kubectl",
            "kubectl get\n: a: b",
        ] {
            let error = Script::parse(text).unwrap_err();
            assert!(error.to_string().starts_with("line "), "{error:#}");
        }
    }
}
