//! `/healthz`, `/livez` and `/readyz`: lists of checks, with the same output as kube-scheduler.

use std::{collections::BTreeSet, fmt, sync::Arc};

use http::StatusCode;

use crate::{
    query,
    reply::{self, Reply, quoted},
    slis::Slis,
};

/// A health check.
#[derive(Clone)]
pub struct Check {
    /// Name in paths and lists.
    pub name: &'static str,
    /// Returns the problem, if there is one. Called often, so it must not block.
    pub run: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl Check {
    /// Returns a check with the given name.
    pub fn new(name: &'static str, run: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name, run: Arc::new(run) }
    }

    /// Returns a check that always succeeds.
    pub fn ping() -> Self {
        Self::new("ping", || Ok(()))
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

/// The checks of each endpoint. An endpoint without checks gets [`Check::ping`].
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// Checks of `/healthz`.
    pub healthz: Vec<Check>,
    /// Checks of `/livez`.
    pub livez: Vec<Check>,
    /// Checks of `/readyz`.
    pub readyz: Vec<Check>,
}

/// One of the three endpoints.
#[derive(Debug)]
pub(crate) struct Endpoint {
    name: &'static str,
    checks: Vec<Check>,
}

impl Checks {
    pub(crate) fn endpoints(self) -> [Endpoint; 3] {
        [("healthz", self.healthz), ("livez", self.livez), ("readyz", self.readyz)].map(|(name, checks)| {
            let checks = if checks.is_empty() { vec![Check::ping()] } else { checks };
            Endpoint { name, checks }
        })
    }
}

impl Endpoint {
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// Answers the request if the path belongs to this endpoint or to one of its checks.
    pub(crate) fn answer(&self, path: &str, query: &str, slis: &Slis) -> Option<Reply> {
        let rest = path.strip_prefix('/')?.strip_prefix(self.name)?;
        if rest.is_empty() {
            return Some(self.all(query, slis));
        }
        let name = rest.strip_prefix('/')?;
        let check = self.checks.iter().find(|check| check.name == name)?;
        Some(match (check.run)() {
            Ok(()) => reply::text(StatusCode::OK, "ok".to_owned()),
            Err(why) => {
                reply::error(StatusCode::INTERNAL_SERVER_ERROR, &format!("internal server error: {why}"))
            }
        })
    }

    fn all(&self, query: &str, slis: &Slis) -> Reply {
        let pairs = query::pairs(query);
        let excluded: BTreeSet<&str> =
            pairs.iter().filter(|(name, _)| name == "exclude").map(|(_, check)| check.as_str()).collect();
        let verbose = pairs.iter().any(|(name, _)| name == "verbose");
        let (mut lines, mut failed) = (String::new(), Vec::new());
        for check in &self.checks {
            let name = check.name;
            if excluded.contains(name) {
                lines += &format!("[+]{name} excluded: ok\n");
                continue;
            }
            let end = (check.run)();
            slis.observe(name, self.name, end.is_ok());
            match end {
                Ok(()) => lines += &format!("[+]{name} ok\n"),
                // By default, anyone can read this response, so the reason goes only to the log.
                Err(why) => {
                    lines += &format!("[-]{name} failed: reason withheld\n");
                    failed.push(format!("[-]{name} failed: {why}"));
                }
            }
        }
        let unknown = excluded.iter().filter(|name| !self.checks.iter().any(|check| check.name == **name));
        let unknown: Vec<String> = unknown.map(|name| quoted(name)).collect();
        if !unknown.is_empty() {
            let names = unknown.join(",");
            lines += &format!("warn: some health checks cannot be excluded: no matches for {names}\n");
        }
        if !failed.is_empty() {
            tracing::debug!(v = 2, "{} check failed: {}", self.name, failed.join("; "));
            let text = format!("{lines}{} check failed", self.name);
            return reply::error(StatusCode::INTERNAL_SERVER_ERROR, &text);
        }
        let text = if verbose { format!("{lines}{} check passed\n", self.name) } else { "ok".to_owned() };
        reply::nosniff(reply::text(StatusCode::OK, text))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use http_body_util::BodyExt;

    use super::*;

    async fn asked(endpoint: &Endpoint, path: &str, query: &str) -> Option<(u16, String)> {
        let reply = endpoint.answer(path, query, &Slis::new(SystemTime::now()))?;
        let code = reply.status().as_u16();
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        Some((code, String::from_utf8(body.to_vec()).unwrap()))
    }

    #[tokio::test]
    async fn responses_are_the_same_as_kube_schedulers() {
        let good = Check::new("shutdown", || Ok(()));
        let bad = Check::new("sched-handler-sync", || Err("handlers are not fully synchronized".to_owned()));
        let [healthz, _, readyz] = Checks { readyz: vec![good, bad], ..Checks::default() }.endpoints();
        for (path, query, code, text) in [
            (
                "/readyz",
                "",
                500,
                "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n",
            ),
            (
                "/readyz",
                "verbose&exclude=shutdown",
                500,
                "[+]shutdown excluded: ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n",
            ),
            ("/readyz", "exclude=sched-handler-sync", 200, "ok"),
            (
                "/readyz",
                "exclude=sched-handler-sync&exclude=nonsense&verbose=1&exclude=",
                200,
                "[+]shutdown ok\n[+]sched-handler-sync excluded: ok\nwarn: some health checks cannot be excluded: no \
                 matches for \"\",\"nonsense\"\nreadyz check passed\n",
            ),
            ("/readyz/shutdown", "", 200, "ok"),
            (
                "/readyz/sched-handler-sync",
                "exclude=sched-handler-sync",
                500,
                "internal server error: handlers are not fully synchronized\n",
            ),
        ] {
            assert_eq!(asked(&readyz, path, query).await, Some((code, text.to_owned())), "{path}?{query}");
        }
        let ping = "[+]ping ok\nhealthz check passed\n";
        assert_eq!(asked(&healthz, "/healthz", "verbose").await, Some((200, ping.to_owned())));
        for path in ["/readyz/", "/readyz/nonsense", "/readyzz", "/healthz"] {
            assert_eq!(asked(&readyz, path, "").await, None, "{path}");
        }
    }
}
