//! Simulated HTTP extenders, which record their requests. Their answers depend only on a seed and the request, except
//! that some requests fail the first time.
//!
//! [`Character`] determines the answers of one extender. [`Extenders`] serves any number of them, each under its own
//! path. [`ExtenderCall`] is a recorded request without the values that differ between two runs of the same script.

mod answers;
mod calls;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::Context;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use answers::Character;
pub(crate) use calls::with_sorted_errors;
pub use calls::{ExtenderCall, PodNames};

use answers::Answer;

use crate::components::ApiClient;

/// Placeholder for the server's address in the configurations of scripts.
pub const PLACEHOLDER: &str = "http://extenders.invalid";

/// Serves extenders on a loopback port until it is dropped.
#[derive(Debug)]
pub struct Extenders {
    address: SocketAddr,
    shared: Arc<Shared>,
    end: Option<oneshot::Sender<()>>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// Client that creates bindings.
    client: ApiClient,
    characters: Mutex<BTreeMap<String, Character>>,
    /// Extender, verb and pod of each request that has already failed once.
    failed: Mutex<std::collections::BTreeSet<[String; 3]>>,
    calls: Mutex<Vec<(String, String, Value)>>,
}

impl Extenders {
    /// Starts to serve. Pods are bound through `client`.
    pub fn start(client: &ApiClient) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            client: client.clone(),
            characters: Mutex::default(),
            failed: Mutex::default(),
            calls: Mutex::default(),
        });
        let listener =
            std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a port for extenders")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (end, ended) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let router = Router::new().route("/{extender}/{verb}", post(answer)).with_state(Arc::clone(&shared));
        let worker = thread::spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                // For schedulers, the port is closed no matter how serving ends, so the result is ignored.
                let serving = axum::serve(listener, router);
                tokio::select! {
                    _ = serving => {}
                    _ = ended => {}
                }
            });
        });
        Ok(Self { address, shared, end: Some(end), worker: Some(worker) })
    }

    /// URL that replaces [`PLACEHOLDER`].
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces the extenders, and clears the recorded failures and calls.
    pub fn set_characters(&self, characters: &[Character]) {
        *lock(&self.shared.characters) =
            characters.iter().map(|character| (character.name.clone(), character.clone())).collect();
        lock(&self.shared.failed).clear();
        lock(&self.shared.calls).clear();
    }

    /// Takes the calls recorded since the last call of this method, in order of arrival, with the UIDs of pods replaced
    /// by their `names`.
    #[must_use]
    pub fn take_calls(&self, names: &PodNames) -> Vec<ExtenderCall> {
        let calls = std::mem::take(&mut *lock(&self.shared.calls));
        calls
            .into_iter()
            .map(|(extender, verb, body)| ExtenderCall::new(extender, verb, body, names))
            .collect()
    }
}

impl Drop for Extenders {
    fn drop(&mut self) {
        // Fails if the server has already stopped.
        let _ = self.end.take().map(|end| end.send(()));
        if let Some(worker) = self.worker.take() {
            // A panic of the thread has already been printed, and a destructor should not panic.
            let _ = worker.join();
        }
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Path((extender, verb)): Path<(String, String)>,
    Json(body): Json<Value>,
) -> Response {
    let Some(character) = lock(&shared.characters).get(&extender).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    lock(&shared.calls).push((extender.clone(), verb.clone(), body.clone()));
    let is_first = |pod: &str| lock(&shared.failed).insert([extender.clone(), verb.clone(), pod.to_owned()]);
    match character.answer(&verb, &body, is_first) {
        Answer::Reply(reply) => Json(reply).into_response(),
        Answer::Fail => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Answer::Bind => {
            let client = shared.client.clone();
            let bound = tokio::task::spawn_blocking(move || answers::bind(&client, &body)).await;
            Json(bound.unwrap_or_else(|panic| serde_json::json!({"Error": panic.to_string()})))
                .into_response()
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
