//! The `page` command: the page of a running scheduler, for a browser on this machine. The command has the credentials,
//! so the browser needs none.

use std::sync::Arc;

use clap::{Args, Command};
use harbormaster_client::ApiClient;
use harbormaster_page::Document;
use harbormaster_port::{
    LoopbackPort,
    browser::{Answer, BrowserPage, DATA, FIT, PAGE},
    why::{self, Told, Why},
};

use super::{
    CommandError, CommandResult,
    export::Access,
    run::Signals,
    running::{Credentials, with_query},
};

const NOTES: &str = "The credentials of the kubeconfig must allow GET on /debug/page, /debug/page/* and /debug/why, and its authority must \
     be that of the scheduler's certificate, unless the flags replace them. Everybody who may open ports on this machine \
     sees the page while the command runs.";

/// Arguments of `page`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The address of the scheduler's secure port, such as https://localhost:10259
    #[arg(long, value_name = "URL")]
    from: String,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    credentials: Credentials,
}

pub(crate) fn command() -> Command {
    // `augment_args` sets the description to the doc comment of `Options`, so `about` must be called afterwards.
    Options::augment_args(Command::new("page"))
        .about("Serve the page of a running scheduler to a browser on this machine")
        .after_help(NOTES)
}

pub(crate) fn main(options: &Options) -> CommandResult {
    super::runtime().and_then(|runtime| runtime.block_on(serve(options))).map_err(|error| {
        eprintln!("error: {error}");
        CommandError::Error
    })
}

/// Serves until a signal comes.
async fn serve(options: &Options) -> Result<(), String> {
    let mut signals = Signals::new().map_err(|e| format!("listening for signals: {e}"))?;
    let connection = options.credentials.connection(&options.from, &options.access);
    let client = connection.client(1).await.map_err(|e| e.to_string())?;
    let theirs = client.get(PAGE).await.map_err(|e| format!("{}: {}", options.from, told(&e)))?;
    let Document { html, policy } = Document::live();
    if theirs != html.as_bytes() {
        eprintln!(
            "warning: the scheduler is another version of Harbormaster, so the page may not show everything that it says"
        );
    }
    let page = BrowserPage { html, policy, data: data(&client), fit: fit(&client) };
    let port = LoopbackPort::start(page, why(&client));
    let port = port.map_err(|e| format!("listening on 127.0.0.1 for the page: {e}"))?;
    println!("Page for a browser: {}\nCtrl-C ends it.", port.url());
    signals.next().await;
    Ok(())
}

fn data(client: &ApiClient) -> harbormaster_port::browser::Data {
    let client = client.clone();
    Arc::new(move || {
        let client = client.clone();
        Box::pin(async move { answer(&client, DATA).await })
    })
}

fn fit(client: &ApiClient) -> harbormaster_port::browser::Fit {
    let client = client.clone();
    Arc::new(move |given| {
        let client = client.clone();
        let path = with_query(FIT, given.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        Box::pin(async move { answer(&client, &path).await })
    })
}

fn why(client: &ApiClient) -> Why {
    let client = client.clone();
    Arc::new(move |namespace, pod| {
        let client = client.clone();
        let path = with_query(why::PATH, [("namespace", namespace.as_str()), ("pod", pod.as_str())]);
        Box::pin(async move {
            match client.get(&path).await {
                Ok(reply) => Told::State(String::from_utf8_lossy(&reply).into_owned()),
                Err(error) => Told::Unavailable(told(&error)),
            }
        })
    })
}

async fn answer(client: &ApiClient, path: &str) -> Answer {
    match client.get(path).await {
        Ok(reply) => Answer::Json(String::from_utf8_lossy(&reply).into()),
        Err(error) => Answer::Unavailable(told(&error)),
    }
}

/// Returns an error as one line.
fn told(error: &harbormaster_client::ApiError) -> String {
    error.to_string().trim_end().to_owned()
}
