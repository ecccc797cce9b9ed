//! Reserve and PreBind plugins that leave something behind.

use std::{collections::BTreeMap, sync::Mutex};

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use harbormaster_testkit::{FakeApi, Trial, cluster, node, pod, reserve_is_taken_back, set_custom};
use serde::Deserialize;
use serde_json::json;

use super::Planted;

#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    KeepsWhatItTook,
    GivesBackWhatItDidNotTake,
    PanicsWithoutReserve,
    WritesAnotherEachTime,
    LeavesWhatItWrote,
    TakesBackEverything,
    AssumesForEver,
}

/// A room with seats. The room's status names the holders of the seats.
#[derive(Clone, Debug, Deserialize)]
struct Room {
    spec: RoomSpec,
    #[serde(default)]
    status: RoomStatus,
}

#[derive(Clone, Debug, Deserialize)]
struct RoomSpec {
    seats: usize,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RoomStatus {
    holders: BTreeMap<Str, String>,
    assumed: usize,
}

impl Resource for Room {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Room";
    const PLURAL: &'static str = "rooms";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

/// Gives every pod a seat.
struct Seats {
    wrong: Wrong,
    taken: Mutex<i64>,
    written: Mutex<usize>,
}

impl Plugin for Seats {
    const NAME: &'static str = "Seats";
    implemented_points!();
}

impl Watches for Seats {
    type Resources = Room;
}

impl PreFilter for Seats {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<()>, Stop> {
        let Some(room) = self.watched(cx.objects).get("default", "hall") else {
            return Ok(PreFiltered::Skip);
        };
        let taken =
            room.status.holders.len() as i64 + room.status.assumed as i64 + *self.taken.lock().unwrap();
        match taken == 0 || (taken as usize) < room.spec.seats && taken > 0 {
            true => Ok(PreFiltered::Skip),
            false => Err(Reject::unresolvable(format!("{taken} seats are taken")).into()),
        }
    }
}

impl Reserve for Seats {
    type Reserved = ();

    fn reserve(&self, cx: &Cycle<'_>, (): &(), _: NodeRef<'_>, assume: &mut Assume) -> Result<(), Stop> {
        let (uid, name, wrong) = (cx.pod.uid.clone(), cx.pod.name.to_string(), self.wrong);
        if matches!(wrong, Wrong::KeepsWhatItTook | Wrong::GivesBackWhatItDidNotTake) {
            *self.taken.lock().unwrap() += 9;
        }
        assume.custom::<Room>("default", "hall", move |room| match wrong {
            Wrong::AssumesForEver => {
                room.status.assumed += 9;
                true
            }
            _ => room.status.holders.insert(uid.clone(), name.clone()).is_none(),
        });
        Ok(())
    }

    fn unreserve(&self, placement: &Placement, calls: &mut Vec<ApiCall>) {
        match self.wrong {
            Wrong::PanicsWithoutReserve => self.reserved(placement).copied().unwrap(),
            Wrong::GivesBackWhatItDidNotTake => *self.taken.lock().unwrap() -= 9,
            _ => {}
        }
        let path = ObjectPath::of::<Room>("default", "hall").status();
        let holders = match self.wrong {
            Wrong::LeavesWhatItWrote => return,
            Wrong::TakesBackEverything => json!(null),
            _ => json!({ placement.pod.uid.as_str(): null }),
        };
        calls.push(ApiCall::patch(path.clone(), json!({ "status": { "holders": holders } })));
        if self.wrong == Wrong::TakesBackEverything {
            calls.push(ApiCall::patch(path, json!({ "status": { "holders": {} } })));
        }
    }
}

impl PreBind for Seats {
    async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
        let mut name = cx.pod.name.to_string();
        if self.wrong == Wrong::WritesAnotherEachTime {
            let mut written = self.written.lock().unwrap();
            *written += 1;
            name = format!("{name}-{written}");
        }
        let patch = json!({ "status": { "holders": { cx.pod.uid.as_str(): name } } });
        cx.api.patch_status::<Room>("default", "hall", patch).await?;
        Ok(())
    }
}

fn check(wrong: Wrong) {
    let trial = Trial::of(Seats { wrong, taken: Mutex::new(0), written: Mutex::new(0) });
    let mut nodes = cluster([node("n")], []);
    let room = json!({
        "metadata": { "name": "hall", "namespace": "default" },
        "spec": { "seats": 5 },
        "status": { "holders": {} },
    });
    set_custom::<Room>(&mut nodes, [room.clone()]);
    let server = FakeApi::default();
    server.set::<Room>(room);
    let pods = ["a", "b", "c"].map(|name| pod(name).info());
    reserve_is_taken_back(&trial, &mut nodes, "n", &pods, &server);
}

pub(super) fn right() {
    check(Wrong::Nothing);
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "keeps its reservation in its own state",
        said: "Seats: answers differently about pods after Reserve and Unreserve of PodInfo(default/a)",
        check: || check(Wrong::KeepsWhatItTook),
    },
    Planted {
        wrong: "gives back what it never reserved",
        said: "Seats: answers differently about pods after Unreserve of PodInfo(default/a), which was not reserved",
        check: || check(Wrong::GivesBackWhatItDidNotTake),
    },
    Planted {
        wrong: "panics in Unreserve when Reserve was not called",
        said: "plugin \"Seats\" panicked at Unreserve",
        check: || check(Wrong::PanicsWithoutReserve),
    },
    Planted {
        wrong: "PreBind writes something different the second time",
        said: "Seats: PreBind of PodInfo(default/a) writes something different the second time",
        check: || check(Wrong::WritesAnotherEachTime),
    },
    Planted {
        wrong: "Unreserve leaves what PreBind wrote",
        said: "Seats: left something on the API server after Reserve, PreBind and Unreserve of PodInfo(default/a)",
        check: || check(Wrong::LeavesWhatItWrote),
    },
    Planted {
        wrong: "Unreserve undoes what was written for others",
        said: "Seats: Unreserve of PodInfo(default/a) undoes what was written for PodInfo(default/b)",
        check: || check(Wrong::TakesBackEverything),
    },
    Planted {
        wrong: "still assumes changes that are already written",
        said: "Seats: still assumes changes for PodInfo(default/a) that are already written",
        check: || check(Wrong::AssumesForEver),
    },
];
