//! HTTP extenders of our own: they answer by seed, whoever asks and however
//! often, and note what they were asked.
//!
//! [`Character`] says how one extender answers, [`Extenders`] serves any
//! number of them, each under a path of its own, and [`Asked`] is a request
//! without what differs between two plays of the same script.

mod answers;
mod asked;

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
pub(crate) use asked::in_order;
pub use asked::{Asked, Names};

use answers::Answer;

use crate::components::ApiClient;

/// Stands for the server's address in configurations of scripts.
pub const PLACEHOLDER: &str = "http://extenders.invalid";

/// Serves extenders on a port of loopback until it is dropped.
#[derive(Debug)]
pub struct Extenders {
    address: SocketAddr,
    shared: Arc<Shared>,
    end: Option<oneshot::Sender<()>>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// For bindings.
    client: ApiClient,
    characters: Mutex<BTreeMap<String, Character>>,
    /// Extender, verb and pod of requests that have failed once.
    failed: Mutex<std::collections::BTreeSet<[String; 3]>>,
    asked: Mutex<Vec<(String, String, Value)>>,
}

impl Extenders {
    /// Opens the port. Pods are bound through `client`.
    pub fn start(client: &ApiClient) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            client: client.clone(),
            characters: Mutex::default(),
            failed: Mutex::default(),
            asked: Mutex::default(),
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
                // Whatever ends it, schedulers see a closed port.
                let serving = axum::serve(listener, router);
                tokio::select! {
                    _ = serving => {}
                    _ = ended => {}
                }
            });
        });
        Ok(Self { address, shared, end: Some(end), worker: Some(worker) })
    }

    /// What stands in place of [`PLACEHOLDER`].
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Plays these from now on, as if they had never been asked anything.
    pub fn play(&self, characters: &[Character]) {
        *lock(&self.shared.characters) =
            characters.iter().map(|character| (character.name.clone(), character.clone())).collect();
        lock(&self.shared.failed).clear();
        lock(&self.shared.asked).clear();
    }

    /// What has been asked since the last call, in the order of arrival, with
    /// `names` in place of the UIDs of pods.
    #[must_use]
    pub fn take_asked(&self, names: &Names) -> Vec<Asked> {
        let taken = std::mem::take(&mut *lock(&self.shared.asked));
        taken.into_iter().map(|(extender, verb, body)| Asked::new(extender, verb, body, names)).collect()
    }
}

impl Drop for Extenders {
    fn drop(&mut self) {
        // It has ended by itself if nobody listens.
        let _ = self.end.take().map(|end| end.send(()));
        if let Some(worker) = self.worker.take() {
            // Its panic has been printed, and a destructor should not panic itself.
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
    lock(&shared.asked).push((extender.clone(), verb.clone(), body.clone()));
    let is_new = |pod: &str| lock(&shared.failed).insert([extender.clone(), verb.clone(), pod.to_owned()]);
    match character.answer(&verb, &body, is_new) {
        Answer::Say(reply) => Json(reply).into_response(),
        Answer::Break => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
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
