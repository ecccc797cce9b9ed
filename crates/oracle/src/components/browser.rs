//! A headless Chromium with one page, driven over the DevTools protocol.
//!
//! The browser reads commands from its file descriptor 3 and writes answers and events to 4, each followed by a zero
//! byte. So no port is open, and the browser ends when its pipes close.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Error, chromium, io_error};

/// Moves the pipes of standard input and output to the descriptors that the browser uses.
const REDIRECT: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"#;
/// Time limit for an answer, and for [`Browser::wait_for`].
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// A browser with one page. Dropping the value ends the browser.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    last_id: u64,
    complaints: Vec<String>,
    /// Number of pages that have loaded.
    loaded: usize,
    /// Removed after the browser has ended.
    _profile: TempDir,
}

/// A key of the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Moves the focus to the next element.
    Tab,
    /// Activates an element.
    Enter,
    /// Moves to the left.
    Left,
    /// Moves up.
    Up,
    /// Moves to the right.
    Right,
    /// Moves down.
    Down,
}

impl Key {
    /// Returns the name and the number of the key.
    fn code(self) -> (&'static str, u32) {
        match self {
            Self::Tab => ("Tab", 9),
            Self::Enter => ("Enter", 13),
            Self::Left => ("ArrowLeft", 37),
            Self::Up => ("ArrowUp", 38),
            Self::Right => ("ArrowRight", 39),
            Self::Down => ("ArrowDown", 40),
        }
    }
}

impl Browser {
    /// Starts the browser with an empty page of the given width and height. Installs the browser if it is missing.
    pub fn start(width: u32, height: u32) -> Result<Self, Error> {
        let program = chromium::find()?;
        let profile = tempfile::tempdir().map_err(io_error("creating a profile"))?;
        let mut child = Command::new("sh")
            .args(["-c", REDIRECT])
            .arg(program)
            .args(["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"])
            // Root may not use the sandbox, containers have little shared memory, and servers of tests sign their own
            // certificates.
            .args(["--no-sandbox", "--disable-dev-shm-usage", "--ignore-certificate-errors"])
            .args(["--disable-background-networking", "--disable-component-update", "--no-proxy-server"])
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(io_error("starting chromium"))?;
        let (Some(commands), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(problem("starting", "it has no pipes"));
        };
        let messages = read(answers);
        let session = String::new();
        let mut browser = Self {
            child,
            commands,
            messages,
            session,
            last_id: 0,
            complaints: Vec::new(),
            loaded: 0,
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach)?;
        browser.session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", size)?;
        Ok(browser)
    }

    /// Opens a URL and waits until the page has loaded.
    pub fn open(&mut self, url: &str) -> Result<(), Error> {
        let before = self.loaded;
        let answer = self.call("Page.navigate", json!({ "url": url }))?;
        if let Some(why) = answer["errorText"].as_str() {
            return Err(problem(format!("opening {url}"), why));
        }
        let deadline = Instant::now() + PATIENCE;
        while self.loaded == before {
            self.receive(&format!("opening {url}"), deadline)?;
        }
        Ok(())
    }

    /// Returns the value of a JavaScript expression.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value, Error> {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", parameters)?;
        match answer.get("exceptionDetails") {
            None => Ok(answer["result"]["value"].take()),
            Some(details) => Err(problem(format!("evaluating {expression}"), &details.to_string())),
        }
    }

    /// Returns the text of the first element that a CSS selector selects.
    pub fn text(&mut self, selector: &str) -> Result<String, Error> {
        let text = self.evaluate(&format!("document.querySelector({}).innerText", json!(selector)))?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until a JavaScript expression is true.
    pub fn wait_for(&mut self, expression: &str) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while self.evaluate(expression)? != true {
            if Instant::now() >= deadline {
                return Err(problem(format!("waiting for {expression}"), "it stays false"));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Clicks on the middle of the first element that a CSS selector selects.
    pub fn click(&mut self, selector: &str) -> Result<(), Error> {
        let middle = "box.left + box.width / 2, box.top + box.height / 2";
        self.click_in(selector, middle)
    }

    /// Clicks on a point of an element, in pixels from its upper left corner.
    pub fn click_at(&mut self, selector: &str, x: u32, y: u32) -> Result<(), Error> {
        self.click_in(selector, &format!("box.left + {x}, box.top + {y}"))
    }

    fn click_in(&mut self, selector: &str, point: &str) -> Result<(), Error> {
        let place = format!(
            "(() => {{ const it = document.querySelector({}); it.scrollIntoView({{block: 'nearest'}}); \
             const box = it.getBoundingClientRect(); return [{point}]; }})()",
            json!(selector)
        );
        let place = self.evaluate(&place)?;
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: Key) -> Result<(), Error> {
        let (name, number) = key.code();
        let text = if key == Key::Enter { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": number, "text": text});
            self.call("Input.dispatchKeyEvent", event)?;
        }
        Ok(())
    }

    /// Sets whether the user prefers dark pages.
    pub fn prefer_dark(&mut self, dark: bool) -> Result<(), Error> {
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features).map(drop)
    }

    /// Returns a picture of what is visible, as PNG.
    pub fn screenshot(&mut self) -> Result<Vec<u8>, Error> {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}))?;
        let data = picture["data"].as_str().unwrap_or_default();
        STANDARD.decode(data).map_err(|error| problem("taking a picture", &error.to_string()))
    }

    /// Returns everything that the console has shown so far: messages of scripts, exceptions and failed requests.
    pub fn complaints(&mut self) -> Result<&[String], Error> {
        // The answer comes after all events that happened before.
        self.evaluate("null")?;
        Ok(&self.complaints)
    }

    /// Sends a command and returns its result.
    fn call(&mut self, method: &str, parameters: Value) -> Result<Value, Error> {
        self.last_id += 1;
        let mut command = json!({"id": self.last_id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            command["sessionId"] = self.session.as_str().into();
        }
        let text = command.to_string() + "\0";
        self.commands
            .write_all(text.as_bytes())
            .map_err(io_error(format!("asking the browser: {method}")))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(mut answer) = self.receive(method, deadline)?
                && answer["id"] == self.last_id
            {
                return match answer.get("error") {
                    None => Ok(answer["result"].take()),
                    Some(error) => Err(problem(method, &error.to_string())),
                };
            }
        }
    }

    /// Waits for the next message. Returns it if it is an answer, and keeps the others.
    fn receive(&mut self, action: &str, deadline: Instant) -> Result<Option<Value>, Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        let message = self.messages.recv_timeout(left).map_err(|why| problem(action, &why.to_string()))?;
        let parameters = &message["params"];
        match message["method"].as_str() {
            None => return Ok(Some(message)),
            Some("Page.loadEventFired") => self.loaded += 1,
            Some("Runtime.consoleAPICalled") => self.complaints.push(parameters["args"].to_string()),
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(parameters["exceptionDetails"].to_string());
            }
            Some("Log.entryAdded") => self.complaints.push(parameters["entry"].to_string()),
            Some(_) => {}
        }
        Ok(None)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads messages in a thread until the browser ends.
fn read(answers: ChildStdout) -> Receiver<Value> {
    let (sender, messages) = channel();
    thread::spawn(move || {
        for message in BufReader::new(answers).split(0) {
            let Ok(Ok(message)) = message.map(|bytes| serde_json::from_slice(&bytes)) else { return };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    messages
}

fn problem(action: impl Into<String>, problem: &str) -> Error {
    Error::Browser { action: action.into(), problem: problem.to_owned() }
}
