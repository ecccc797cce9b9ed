//! Chapter 7. Seats: gives pods seats of a license and records them in the license's status.

use std::collections::BTreeMap;

use harbormaster::{
    api::{Pod, Str},
    prelude::*,
    serde::Deserialize,
    serde_json::json,
};

/// Pod label: name of the license that the pod needs, in the pod's namespace.
const LICENSE: &str = "example.com/license";

fn license_of(pod: &Pod) -> Option<&Str> {
    pod.labels.get(LICENSE)
}

/// A custom resource, defined in `licenses/definition.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
pub struct License {
    spec: LicenseSpec,
    #[serde(default)]
    status: LicenseStatus,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct LicenseSpec {
    seats: usize,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct LicenseStatus {
    /// Names of the pods that have a seat, keyed by UID.
    holders: BTreeMap<Str, String>,
}

impl Resource for License {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "License";
    const PLURAL: &'static str = "licenses";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

impl License {
    /// Returns true if the pod already has a seat or can get one.
    fn has_a_seat_for(&self, pod: &Pod) -> bool {
        self.status.holders.contains_key(&pod.uid) || self.status.holders.len() < self.spec.seats
    }
}

/// Gives pods seats of licenses.
#[derive(Default)]
pub struct Seats;

impl Plugin for Seats {
    const NAME: &'static str = "Seats";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![
            Registration::on::<License>(Action::ADD | Action::UPDATE, Self::after_license),
            Registration::hinted(
                EventResource::Pod,
                Action::DELETE | Action::UPDATE_POD_LABEL,
                Self::after_pod,
            ),
        ])
    }
}

impl Watches for Seats {
    type Resources = License;
}

impl PreFilter for Seats {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<()>, Stop> {
        let Some(name) = license_of(cx.pod) else { return Ok(PreFiltered::Skip) };
        match self.watched(cx.objects).get(&cx.pod.namespace, name) {
            None => Err(Reject::unresolvable(format!("license {name:?} not found")).into()),
            Some(license) if license.has_a_seat_for(cx.pod) => Ok(PreFiltered::Skip),
            Some(_) => Err(Reject::unresolvable(format!("all seats of license {name:?} are taken")).into()),
        }
    }
}

impl Reserve for Seats {
    /// Name of the license, if the pod needs one.
    type Reserved = Option<Str>;

    fn reserve(
        &self,
        cx: &Cycle<'_>,
        (): &(),
        _: NodeRef<'_>,
        assume: &mut Assume,
    ) -> Result<Option<Str>, Stop> {
        let Some(name) = license_of(cx.pod) else { return Ok(None) };
        let (uid, pod) = (cx.pod.uid.clone(), cx.pod.name.to_string());
        assume.custom::<License>(&cx.pod.namespace, name, move |license| {
            let before = license.status.holders.insert(uid.clone(), pod.clone());
            before.is_none()
        });
        Ok(Some(name.clone()))
    }

    fn unreserve(&self, placement: &Placement, calls: &mut Vec<ApiCall>) {
        let Some(Some(name)) = self.reserved(placement) else { return };
        let path = ObjectPath::of::<License>(&placement.pod.namespace, name).status();
        let holders = json!({ placement.pod.uid.as_str(): null });
        calls.push(ApiCall::patch(path, json!({ "status": { "holders": holders } })));
    }
}

impl PreBind for Seats {
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        Ok(match self.reserved(placement) {
            Some(Some(_)) => PreFlight::Work { parallel: true },
            _ => PreFlight::NothingToDo,
        })
    }

    async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
        let Some(Some(name)) = self.reserved(cx) else { return Ok(()) };
        let holders = json!({ cx.pod.uid.as_str(): cx.pod.name });
        let patch = json!({ "status": { "holders": holders } });
        cx.api.patch_status::<License>(&cx.pod.namespace, name, patch).await?;
        Ok(())
    }
}

impl Seats {
    /// Wakes the pod if its license has a free seat.
    fn after_license(&self, pod: &PodInfo, changed: Changed<'_, License>) -> PluginResult<Hint> {
        let Some(license) = changed.new else { return Ok(Hint::Skip) };
        let is_its_own =
            license.metadata.namespace == pod.namespace && license_of(pod) == Some(&license.metadata.name);
        Ok(if is_its_own && license.has_a_seat_for(pod) { Hint::Queue } else { Hint::Skip })
    }

    /// Wakes the pod if its own labels change, or if a scheduled pod with the same license is deleted: the seat of the
    /// deleted pod may never have been recorded.
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(old), new } = change else { return Ok(Hint::Queue) };
        let is_same = old.namespace == pod.namespace && license_of(old) == license_of(pod);
        let gave_up = new.is_none() && is_same && old.node_name.is_some();
        Ok(if gave_up || old.uid == pod.uid { Hint::Queue } else { Hint::Skip })
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::{
        framework::ClusterEvent,
        serde_json::Value,
        testkit::{
            FakeApi, Happening, PodBuilder, Trial, cluster, custom, node, pod, reserve_is_taken_back,
            set_custom, trial::finished, what_helps_wakes,
        },
    };

    use super::*;

    fn wants(name: &str) -> PodBuilder {
        pod(name).label(LICENSE, "pro")
    }

    fn license(seats: usize, holders: Value) -> Value {
        json!({
            "metadata": { "name": "pro", "namespace": "default" },
            "spec": { "seats": seats },
            "status": { "holders": holders },
        })
    }

    #[test]
    fn a_reserved_seat_is_taken_for_the_next_pod_until_it_is_given_back() {
        let (trial, mut nodes) = (Trial::of(Seats), cluster([node("n")], []));
        set_custom::<License>(&mut nodes, [license(1, json!({}))]);
        let (first, second) = (wants("first").info(), wants("second").info());
        let placement = trial.reserve(&mut nodes, &first, "n").unwrap();
        let taken = trial.pre_filter(&nodes, &second).unwrap_err().to_string();
        assert_eq!(taken, "all seats of license \"pro\" are taken");
        trial.unreserve(&mut nodes, &placement);
        assert!(trial.pre_filter(&nodes, &second).is_ok());
    }

    #[test]
    fn pre_bind_writes_the_seat_and_unreserve_removes_it() {
        let (trial, mut nodes) = (Trial::of(Seats), cluster([node("n")], []));
        set_custom::<License>(&mut nodes, [license(1, json!({}))]);
        let (server, path) = (FakeApi::default(), ObjectPath::of::<License>("default", "pro"));
        server.set::<License>(license(1, json!({})));
        let placement = trial.reserve(&mut nodes, &wants("first").info(), "n").unwrap();
        finished(trial.pre_bind(&placement, &server.api())).unwrap();
        assert_eq!(server.object(&path)["status"]["holders"], json!({ "uid-first": "first" }));
        for call in trial.unreserve(&mut nodes, &placement) {
            finished(server.api().call(call)).unwrap();
        }
        assert_eq!(server.object(&path)["status"]["holders"], json!({}));
    }

    #[test]
    fn a_reserved_or_written_seat_is_given_back() {
        let (trial, mut nodes) = (Trial::of(Seats), cluster([node("n")], []));
        set_custom::<License>(&mut nodes, [license(3, json!({}))]);
        let server = FakeApi::default();
        server.set::<License>(license(3, json!({})));
        let pods = ["a", "b", "c"].map(|name| wants(name).info());
        reserve_is_taken_back(&trial, &mut nodes, "n", &pods, &server);
    }

    #[test]
    fn every_change_that_helps_a_pod_wakes_it() {
        let (trial, mut nodes) = (Trial::of(Seats), cluster([node("n")], []));
        set_custom::<License>(&mut nodes, [license(0, json!({}))]);
        let full = || Happening::custom::<License>(&license(1, json!({ "uid-other": "other" })));
        let own = |pod: PodBuilder| Happening::Own(Box::new(pod.build()));
        let happenings = [
            Happening::custom::<License>(&license(1, json!({}))),
            full(),
            own(pod("p")),
            own(wants("p")),
            Happening::custom_gone::<License>("default", "pro"),
            Happening::custom::<License>(&license(1, json!({}))),
        ];
        assert_eq!(what_helps_wakes(&trial, &mut nodes, &wants("p").info(), happenings), 3);
    }

    #[test]
    fn a_pod_that_wrote_its_seat_before_a_crash_gets_the_same_seat_again() {
        let (trial, mut nodes) = (Trial::of(Seats), cluster([node("n")], []));
        set_custom::<License>(&mut nodes, [license(1, json!({ "uid-first": "first" }))]);
        assert!(trial.pre_filter(&nodes, &wants("first").info()).is_ok());
        assert!(trial.pre_filter(&nodes, &wants("second").info()).is_err());
        assert!(trial.reserve(&mut nodes, &wants("first").info(), "n").is_ok());
        assert!(trial.pre_filter(&nodes, &wants("first").info()).is_ok(), "one seat, not two");
    }

    #[test]
    fn a_pod_is_woken_by_a_pod_that_gives_up_its_node_and_seat() {
        let (trial, waits) = (Trial::of(Seats), wants("second").info());
        for (gone, expected) in [
            (wants("first").on("n"), Hint::Queue),
            (wants("first").namespace("elsewhere").on("n"), Hint::Skip),
            (pod("plain").on("n"), Hint::Skip),
        ] {
            let gone = gone.build();
            let (event, change) = (
                ClusterEvent::new(EventResource::AssignedPod, Action::DELETE),
                Change::Pod { old: Some(&gone), new: None },
            );
            assert_eq!(trial.hint(event, &waits, &change), Some(expected), "{gone:?}");
        }
    }

    #[test]
    fn a_pod_is_woken_by_a_free_seat_of_its_own_license() {
        let (trial, pod) = (Trial::of(Seats), wants("second").info());
        let full = custom::<License>(&license(1, json!({ "uid-first": "first" })));
        let free = custom::<License>(&license(1, json!({})));
        assert_eq!(trial.custom_hint(&pod, Some(&full), Some(&free)), Some(Hint::Queue));
        assert_eq!(trial.custom_hint(&pod, Some(&free), Some(&full)), Some(Hint::Skip));
        let stranger = wants("other").namespace("elsewhere").info();
        assert_eq!(trial.custom_hint(&stranger, Some(&full), Some(&free)), Some(Hint::Skip));
    }
}
