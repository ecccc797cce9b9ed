//! Requests to the API server, as client-go counts them.

use std::{sync::OnceLock, time::Duration};

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec};

use crate::{
    families as table,
    series::{Registry, Series},
};

/// client-go's label for a request without a status code.
const NO_CODE: &str = "<error>";

/// Metric families for requests.
#[derive(Debug)]
pub(crate) struct Families {
    duration: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
    limited: HistogramVec,
    results: IntCounterVec,
}

impl Families {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            duration: registry.histograms(&table::REQUEST_DURATION),
            request_size: registry.histograms(&table::REQUEST_SIZE),
            response_size: registry.histograms(&table::RESPONSE_SIZE),
            limited: registry.histograms(&table::RATE_LIMITER_DURATION),
            results: registry.counters(&table::REQUESTS_TOTAL),
        }
    }
}

/// HTTP method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// `GET`, including watches.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
}

impl Verb {
    const COUNT: usize = 5;

    /// The verb for an HTTP method; `None` for methods that the client never sends.
    pub fn of(method: &str) -> Option<Self> {
        Some(match method {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// Series for the requests with one verb.
#[derive(Debug)]
struct VerbSeries {
    duration: Histogram,
    request_size: Histogram,
    response_size: Histogram,
}

/// Counts the requests to one server.
#[derive(Debug)]
pub struct ClientMeter {
    families: std::sync::Arc<Families>,
    host: String,
    verbs: [OnceLock<VerbSeries>; Verb::COUNT],
    limited: [OnceLock<Histogram>; Verb::COUNT],
    results: Series<(Option<u16>, Verb), IntCounter>,
}

impl ClientMeter {
    pub(crate) fn new(families: std::sync::Arc<Families>, host: String) -> Self {
        let (verbs, limited) = Default::default();
        Self { families, host, verbs, limited, results: Series::default() }
    }

    /// Records the time for which a request waited for the rate limiter.
    pub fn waited(&self, verb: Verb, waited: Duration) {
        let find = || self.families.limited.with_label_values(&[verb.name(), &self.host]);
        self.limited[verb as usize].get_or_init(find).observe(waited.as_secs_f64());
    }

    /// Records the status code of a response; `None` if there was no response.
    pub fn answered(&self, verb: Verb, code: Option<u16>) {
        let find = |_: &(Option<u16>, Verb)| {
            let code = code.map_or(NO_CODE.to_owned(), |code| code.to_string());
            self.families.results.with_label_values(&[code.as_str(), verb.name(), &self.host])
        };
        self.results.with((code, verb), find, IntCounter::inc);
    }

    /// Records a finished request that is not a watch: its duration, and the sizes in bytes of the request body and, if
    /// known, of the response body.
    pub fn ended(&self, verb: Verb, took: Duration, sent: usize, received: Option<usize>) {
        let series = self.verbs[verb as usize].get_or_init(|| {
            let labels = [verb.name(), &self.host];
            let Families { duration, request_size, response_size, .. } = &*self.families;
            VerbSeries {
                duration: duration.with_label_values(&labels),
                request_size: request_size.with_label_values(&labels),
                response_size: response_size.with_label_values(&labels),
            }
        });
        series.duration.observe(took.as_secs_f64());
        series.request_size.observe(sent as f64);
        if let Some(received) = received {
            series.response_size.observe(received as f64);
        }
    }
}
