//! Scores of nodes for Guaranteed pods.

use harbormaster::api::{PodSpec, QosClass};

use crate::{
    alignment::{Needed, fewest_numa_nodes, take_in_order},
    amount::{Amount, Requests, amounts},
    args::{Scoring, Strategy},
    demand::of_pod,
    topology::{Manager, NumaNode},
};

/// Returns the score of a node with these NUMA nodes, 0..=100.
pub(crate) fn score(scoring: &Scoring, manager: Manager, numa_nodes: &[NumaNode], spec: &PodSpec) -> i64 {
    let containers = || spec.init_containers.iter().chain(&spec.containers).map(|one| amounts(&one.requests));
    let parts: Vec<Requests> = if manager.is_pod_scope { vec![of_pod(spec)] } else { containers().collect() };
    if scoring.strategy == Strategy::LeastNUMANodes {
        return by_number(numa_nodes.to_vec(), manager.max_numa_nodes, &parts);
    }
    if !manager.is_single_numa_node || parts.is_empty() {
        return 0;
    }
    let sum: i64 = parts.iter().map(|requests| lowest(scoring, numa_nodes, requests)).sum();
    sum / parts.len() as i64
}

/// Lowest score of a NUMA node for the requests, except that zeros count only if there is nothing else.
fn lowest(scoring: &Scoring, numa_nodes: &[NumaNode], requests: &Requests) -> i64 {
    let scores = numa_nodes.iter().map(|numa_node| of_numa_node(scoring, numa_node, requests));
    scores.filter(|score| *score != 0).min().unwrap_or(0)
}

fn of_numa_node(scoring: &Scoring, numa_node: &NumaNode, requests: &Requests) -> i64 {
    let pairs = || {
        requests.iter().map(|(name, wanted)| {
            let left = numa_node.available.get(name).copied().unwrap_or(Amount::ZERO);
            (name, *wanted, left)
        })
    };
    if scoring.strategy == Strategy::BalancedAllocation {
        return balance(&pairs().map(|(_, wanted, left)| share(wanted, left)).collect::<Vec<f64>>());
    }
    let (mut sum, mut weights) = (0_i128, 0_i128);
    for (name, wanted, left) in pairs() {
        let weight = i128::from(scoring.weight(name));
        let part = match left.units() {
            0 => 0,
            _ if wanted > left => 0,
            all if scoring.strategy == Strategy::MostAllocated => wanted.units() * 100 / all,
            all => (all - wanted.units()) * 100 / all,
        };
        sum += part * weight;
        weights += weight;
    }
    if weights == 0 { 0 } else { i64::try_from(sum / weights).unwrap_or(0).clamp(0, 100) }
}

fn share(wanted: Amount, left: Amount) -> f64 {
    match left.units() {
        0 => 1.0,
        all => wanted.units() as f64 / all as f64,
    }
}

/// Returns 100 if all shares are equal, less if they vary, and 0 if one exceeds 1.
fn balance(shares: &[f64]) -> i64 {
    if shares.iter().any(|share| *share > 1.0) {
        return 0;
    }
    if shares.len() < 2 {
        return 100;
    }
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let (squares, deviations) = shares.iter().fold((0.0, 0.0), |(squares, deviations), share| {
        let deviation = share - mean;
        (squares + deviation * deviation, deviations + deviation)
    });
    let variance = (squares - deviations * deviations / count) / (count - 1.0);
    (((1.0 - variance) * 100.0) as i64).clamp(0, 100)
}

/// Scores by the number of NUMA nodes that the largest container needs.
fn by_number(mut numa_nodes: Vec<NumaNode>, max_numa_nodes: i64, parts: &[Requests]) -> i64 {
    let (mut most, mut are_nearest) = (0, true);
    for requests in parts {
        match fewest_numa_nodes(&numa_nodes, QosClass::Guaranteed, requests) {
            Needed::Nothing => {}
            Needed::TooMuch => return 0,
            Needed::These(set) => {
                are_nearest &= set.is_nearest;
                most = most.max(set.positions.len() as i64);
                take_in_order(&mut numa_nodes, &set.positions, requests);
            }
        }
    }
    if most == 0 {
        return 100;
    }
    let unit = 100 / max_numa_nodes.max(1);
    let bonus = if are_nearest { unit / 2 } else { 0 };
    (100 - most * unit + bonus).clamp(0, 100)
}
