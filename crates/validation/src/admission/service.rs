//! Allocation of addresses and node ports for services.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Context;
use crate::{
    FieldError,
    value::{default, list, list_mut, text},
};

/// First two bytes of the addresses that are allocated.
const NETWORK: &str = "10.0";
/// Range of node ports.
const NODE_PORTS: std::ops::Range<u64> = 30_000..32_768;

/// Allocates the addresses and node ports that a new service does not specify itself. A changed service keeps its
/// allocations. Addresses and ports that belong to other services are refused. Addresses outside the network are
/// accepted, because services from other clusters have such addresses.
pub(super) fn admit(
    context: &Context<'_>,
    old: Option<&Value>,
    service: &mut Value,
) -> std::result::Result<(), Vec<FieldError>> {
    let kind = text(service, "/spec/type").to_owned();
    if kind == "ExternalName" || !service.get("spec").is_some_and(Value::is_object) {
        return Ok(());
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if let Some(kept) = old.and_then(|old| old["spec"].get(field)).cloned() {
            default(&mut service["spec"], field, kept);
        }
    }
    let mut others = context.others.all("services");
    let identity = |service: &Value| ["namespace", "name"].map(|part| service["metadata"][part].clone());
    others.retain(|other| identity(other) != identity(service));
    let others = others;
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
    if is_taken(&others, &service["spec"]["clusterIP"]) {
        let why = format!(
            "failed to allocate IP {}: provided IP is already allocated",
            text(service, "/spec/clusterIP")
        );
        let given = service["spec"]["clusterIPs"].clone();
        return Err(vec![FieldError::invalid("spec.clusterIPs", given, why)]);
    }
    if matches!(&*kind, "NodePort" | "LoadBalancer") {
        let ports = |service: &Value| -> Vec<u64> {
            list(service, "/spec/ports").iter().filter_map(|port| port.get("nodePort")?.as_u64()).collect()
        };
        let mut taken: BTreeSet<u64> = others.iter().flat_map(ports).collect();
        for (i, port) in list(service, "/spec/ports").iter().enumerate() {
            if let Some(number) = port.get("nodePort").and_then(Value::as_u64).filter(|n| taken.contains(n)) {
                let field = format!("spec.ports[{i}].nodePort");
                let why = "provided port is already allocated";
                return Err(vec![FieldError::invalid(field, number, why)]);
            }
        }
        taken.extend(ports(service));
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
    Ok(())
}

/// Returns true if a service has the given address.
fn is_taken(services: &[Value], address: &Value) -> bool {
    *address != "None" && services.iter().any(|service| service["spec"]["clusterIP"] == *address)
}
