//! What a service is given: addresses and ports of nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Context;
use crate::value::{default, list, list_mut, text};

/// The first two parts of all addresses.
const NETWORK: &str = "10.0";
/// Ports of nodes, from the first to behind the last.
const NODE_PORTS: std::ops::Range<u64> = 30_000..32_768;

/// Gives a new service what it does not ask for itself; a changed one keeps what it has.
pub(super) fn admit(context: &Context<'_>, old: Option<&Value>, service: &mut Value) {
    let kind = text(service, "/spec/type").to_owned();
    if kind == "ExternalName" || !service.get("spec").is_some_and(Value::is_object) {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if let Some(kept) = old.and_then(|old| old["spec"].get(field)).cloned() {
            default(&mut service["spec"], field, kept);
        }
    }
    let others = context.others.all("services");
    if text(service, "/spec/clusterIP").is_empty() {
        let taken: BTreeSet<&str> = others.iter().map(|other| text(other, "/spec/clusterIP")).collect();
        let all = (0..=255).flat_map(|high| (1..=254).map(move |low| format!("{NETWORK}.{high}.{low}")));
        service["spec"]["clusterIP"] = all.into_iter().find(|one| !taken.contains(&**one)).into();
    }
    let address = service["spec"]["clusterIP"].clone();
    for (field, value) in [
        ("clusterIPs", json!([address])),
        ("ipFamilies", json!(["IPv4"])),
        ("ipFamilyPolicy", json!("SingleStack")),
    ] {
        default(&mut service["spec"], field, value);
    }
    if matches!(&*kind, "NodePort" | "LoadBalancer") {
        let ports = |service: &Value| -> Vec<u64> {
            list(service, "/spec/ports").iter().filter_map(|port| port.get("nodePort")?.as_u64()).collect()
        };
        let mut taken: BTreeSet<u64> = others.iter().flat_map(ports).chain(ports(service)).collect();
        let before: Vec<Value> = old.map_or(&[][..], |old| list(old, "/spec/ports")).to_vec();
        for port in list_mut(service, "/spec/ports").iter_mut().filter(|port| port.get("nodePort").is_none())
        {
            let same = before.iter().find(|old| old["port"] == port["port"]);
            let kept = same.and_then(|old| old.get("nodePort")?.as_u64());
            if let Some(number) = kept.or_else(|| NODE_PORTS.clone().find(|number| !taken.contains(number))) {
                taken.insert(number);
                port["nodePort"] = number.into();
            }
        }
    }
}
