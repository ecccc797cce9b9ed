//! A small HTTP extender that gets its responses from a function.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread::{self, sleep},
    time::Duration,
};

use serde_json::Value;

type Answer = Arc<dyn Fn(&str, &Value) -> Option<Value> + Send + Sync>;

/// A running extender. It listens until the test program ends.
pub struct Extender {
    /// The extender's `urlPrefix`.
    pub url: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Extender {
    /// Starts an extender. `answer` gets the verb and the arguments; if it returns `None`, the caller never gets a
    /// response.
    pub fn start(answer: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/extender", listener.local_addr().expect("the listener has an address"));
        let (asked, answer): (Arc<Mutex<_>>, Answer) = (Arc::default(), Arc::new(answer));
        let told = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, answer) = (told.clone(), answer.clone());
                thread::spawn(move || while serve(&stream, &asked, &answer).is_some() {});
            }
        });
        Self { url, asked }
    }

    /// Returns the arguments of all requests with the given verb about the pod, in order.
    pub fn asked(&self, verb: &str, pod: &str) -> Vec<Value> {
        let asked = self.asked.lock().expect("no thread panicked");
        let about = |args: &Value| args["Pod"]["metadata"]["name"] == pod || args["PodName"] == pod;
        let matching = asked.iter().filter(|(asked, args)| asked == verb && about(args));
        matching.map(|(_, args)| args.clone()).collect()
    }
}

/// Serves one request. Returns `None` if there are no more requests.
fn serve(mut stream: &TcpStream, asked: &Mutex<Vec<(String, Value)>>, answer: &Answer) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    if reader.read_line(&mut first).ok()? == 0 {
        return None;
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let verb = first.split(' ').nth(1)?.rsplit('/').next()?.to_owned();
    let args: Value = serde_json::from_slice(&body).expect("requests are JSON");
    asked.lock().expect("no thread panicked").push((verb.clone(), args.clone()));
    let Some(reply) = answer(&verb, &args) else {
        sleep(Duration::from_secs(600));
        return None;
    };
    let reply = reply.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        reply.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(reply.as_bytes()).ok()
}
