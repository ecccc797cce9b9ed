//! An API server that fails, or whose objects somebody else changes, at or after one request of a binding.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{
    api_call::{Api, ApiCall, ApiFailure, ClusterApi, ObjectPath, Reply, Verb},
    outcome::PluginError,
    plugin::BoxFuture,
    pod::PodInfo,
};
use harbormaster_testkit::{FakeApi, trial::finished};
use serde_json::{Value, json};

/// Trouble at or after one request of a binding. If somebody else changes an object, the change precedes the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// This request and all later ones fail without reaching the server, as if the scheduler had been killed.
    Down,
    /// This request fails without reaching the server.
    Fails,
    /// The server handles the request, but its answer is lost. The client tries again and gets a conflict.
    AnswerLost,
    Labeled,
    /// From this request on, somebody else labels the object before each request that changes it.
    AlwaysLabeled,
    Deleted,
    /// Somebody else removes the claim's finalizers.
    Unprotected,
}

/// The server as one binding sees it.
pub(crate) struct FaultyApi {
    server: FakeApi,
    fault: Fault,
    after: usize,
    calls: AtomicUsize,
}

impl FaultyApi {
    /// Returns access to the server. The fault occurs after `after` requests.
    pub(crate) fn to(server: &FakeApi, fault: Fault, after: usize) -> Api {
        Api::new(Arc::new(Self { server: server.clone(), fault, after, calls: AtomicUsize::new(0) }))
    }

    fn answer(&self, call: ApiCall) -> Result<Reply, ApiFailure> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let lasts = matches!(self.fault, Fault::Down | Fault::AlwaysLabeled);
        if number < self.after || (number > self.after && !lasts) {
            return self.send(call);
        }
        let change = |change: Value| drop(self.send(ApiCall::patch(target(&call), change)));
        let is_for_claim = call.path.plural == "resourceclaims";
        match self.fault {
            Fault::Labeled | Fault::Deleted | Fault::Unprotected if !is_for_claim => {}
            Fault::None => {}
            Fault::Down | Fault::Fails => return Err(failure(500, "InternalError")),
            Fault::AnswerLost => {
                let code = if call.verb == Verb::Create { "AlreadyExists" } else { "Conflict" };
                self.send(call)?;
                return Err(failure(409, code));
            }
            Fault::AlwaysLabeled if call.verb == Verb::Get => {}
            Fault::Labeled | Fault::AlwaysLabeled => {
                change(json!({"metadata": {"labels": {"at": number.to_string()}}}));
            }
            Fault::Unprotected => change(json!({"metadata": {"finalizers": null}})),
            Fault::Deleted => drop(self.send(ApiCall::delete(target(&call)))),
        }
        self.send(call)
    }

    fn send(&self, call: ApiCall) -> Result<Reply, ApiFailure> {
        finished(self.server.api().call(call))
    }
}

fn target(call: &ApiCall) -> ObjectPath {
    ObjectPath { subresource: Str::default(), ..call.path.clone() }
}

fn failure(code: u16, reason: &str) -> ApiFailure {
    ApiFailure { code: Some(code), reason: reason.to_owned(), message: format!("injected {reason}") }
}

impl ClusterApi for FaultyApi {
    fn bind<'a>(&'a self, _: &'a PodInfo, _: &'a Str) -> BoxFuture<'a, Result<(), PluginError>> {
        Box::pin(async { Err("the test binds pods itself".into()) })
    }

    fn call(&self, call: ApiCall) -> BoxFuture<'_, Result<Reply, ApiFailure>> {
        Box::pin(async move { self.answer(call) })
    }

    fn wait<'a>(
        &'a self,
        _: &'a ObjectPath,
        _: Duration,
        _: &'a mut (dyn FnMut(Option<&Value>) -> bool + Send),
    ) -> BoxFuture<'a, Result<bool, ApiFailure>> {
        Box::pin(async { Ok(true) })
    }

    fn now(&self) -> Timestamp {
        Timestamp::default()
    }
}
