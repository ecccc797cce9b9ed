//! The `capacity` command.

use std::collections::BTreeMap;

use clap::{Args, Command};
use harbormaster_api::{Pod, Quantity, Str};
use harbormaster_framework::pod::PodInfo;
use harbormaster_page::{Scene, Section, Size};
use harbormaster_sim::{Capacity, Inventory, Original, Reading, UsageBefore, simulate, with_request};
use serde::Serialize;

use super::{
    CommandError, CommandResult, Program,
    cluster::{ClusterOptions, Loaded, Progress},
    format::Format,
    layout::{Style, Table},
    manifest_files, page_file,
    what_if::Settings,
};

const NOTES: &str = "The pending pods of the cluster are scheduled first, as far as they fit. The copies preempt no pods, and their gates and groups \
     are ignored.";

/// Maximum number of sizes in a sweep.
const MAX_SIZES: usize = 64;

/// Arguments of `capacity`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A manifest with a pod, or with a workload whose pods are meant
    #[arg(value_name = "POD_FILE")]
    pod: String,
    #[command(flatten)]
    cluster: ClusterOptions,
    #[command(flatten)]
    settings: Settings,
    /// Also count copies whose first container requests another amount: RESOURCE=A,B,C or RESOURCE=A..B, which doubles
    /// A until it exceeds B
    #[arg(long, value_name = "SIZES")]
    sweep: Option<String>,
    /// Stop after this many copies
    #[arg(long, value_name = "COPIES", default_value_t = 1_000_000)]
    limit: usize,
    /// Format of the result; html is a page for a browser
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    format: Format,
}

/// Copies of one size.
#[derive(Debug, Serialize)]
struct Sized {
    /// The request that differs, such as `cpu=500m`; `None` for the pod as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<String>,
    #[serde(flatten)]
    capacity: Capacity,
}

pub(crate) fn command() -> Command {
    // `augment_args` sets the description to the doc comment of `Options`, so `about` must be called afterwards.
    Options::augment_args(Command::new("capacity"))
        .about("Show how many more copies of a pod fit, where, and what limits them")
        .after_help(NOTES)
}

pub(crate) fn main(program: &Program, options: &Options) -> CommandResult {
    count(program, options).map_err(|error| {
        eprintln!("error: {error}");
        CommandError::Error
    })
}

/// Counts copies and prints the result.
fn count(program: &Program, options: &Options) -> Result<(), String> {
    let sweep = options.sweep.as_deref().map(Sweep::parse).transpose()?;
    let Loaded { engine, cluster, extenders, .. } =
        options.cluster.load(program, &options.settings.steps())?;
    let original = template(options)?;
    let sizes = sizes(&original.pod, sweep.as_ref());
    let mut originals = vec![original.clone(); sizes.len()];
    originals.iter_mut().zip(&sizes).for_each(|(sized, (_, pod))| sized.pod = pod.clone());
    // The page shows the cluster before the copies come.
    let scene = matches!(options.format, Format::Html).then(|| {
        let before = UsageBefore::of(&cluster);
        let report = simulate(engine.clone(), cluster.clone(), &mut |_, _| {});
        page_file::scene(before, &report, &report)
    });
    let mut progress = Progress::new();
    let counted = harbormaster_sim::capacity(engine, cluster, &originals, options.limit, &mut |_, count| {
        progress.show(format_args!("{count} copies placed"));
    });
    progress.clear();
    extenders.check()?;
    let counted = counted.map_err(|error| format!("{}: {error}", original.pod.full_name()))?;
    let counted: Vec<Sized> =
        sizes.into_iter().zip(counted).map(|((size, _), capacity)| Sized { size, capacity }).collect();
    let render = |style| render(&original.pod, &counted, style);
    match (options.format, scene, &counted[..]) {
        (Format::Text(output), _, [one]) if sweep.is_none() => output.print(one, render),
        (Format::Text(output), ..) => output.print(&counted, render),
        (Format::Html, scene, _) => {
            page_file::print(&with_room(scene.unwrap_or_default(), &originals, &counted))
        }
    }
}

/// Returns the page of the cluster with the room for copies.
fn with_room(mut scene: Scene, originals: &[Original], counted: &[Sized]) -> Scene {
    let of_pod = |(Original { pod, .. }, sized): (&Original, &Sized)| Size {
        title: sized.size.clone().unwrap_or_else(|| pod.full_name()),
        request: PodInfo::standalone(pod.clone()).request().clone(),
        copies: scene
            .nodes
            .iter()
            .map(|node| sized.capacity.nodes.get(&node.name).copied().unwrap_or_default())
            .collect(),
    };
    scene.sizes = originals.iter().zip(counted).map(of_pod).collect();
    scene.title = "Room for copies of a pod".to_owned();
    let name = originals.first().map(|original| original.pod.full_name()).unwrap_or_default();
    scene.sections = match counted {
        [Sized { size: None, capacity }] => sections_of_one(&name, capacity),
        all => vec![Section {
            bars: bars(all),
            ..page_file::section(&format!("Copies of {name} by size"), Vec::new(), table(all))
        }],
    };
    scene
}

fn sections_of_one(name: &str, capacity: &Capacity) -> Vec<Section> {
    let lines = vec![how_many(name, capacity), limit(capacity)];
    let mut sections = vec![page_file::section("Room for copies", lines, by_count(capacity))];
    if !capacity.zones.is_empty() {
        let bars = capacity.zones.iter().map(|(zone, copies)| (zone.clone(), *copies)).collect();
        let section = page_file::section("Copies by zone", Vec::new(), by_zone(capacity));
        sections.push(Section { bars, ..section });
    }
    sections
}

fn bars(all: &[Sized]) -> Vec<(String, usize)> {
    all.iter().map(|sized| (sized.size.clone().unwrap_or_default(), sized.capacity.copies)).collect()
}

/// Reads the pod, or the first pod of the workload.
fn template(options: &Options) -> Result<Original, String> {
    let reading = Reading { validate: options.cluster.validate, fill: true, ..Reading::default() };
    let sources = manifest_files::read_all(std::slice::from_ref(&options.pod))?;
    let read = Inventory::from_sources(&sources, reading).map_err(|error| error.to_string())?;
    let original = Original::first_of(&read);
    original.ok_or_else(|| format!("{}: contains neither a pod nor a workload with pods", options.pod))
}

/// Returns the pods to count, each with the request that differs.
fn sizes(pod: &Pod, sweep: Option<&Sweep>) -> Vec<(Option<String>, Pod)> {
    let Some(Sweep { resource, amounts }) = sweep else { return vec![(None, pod.clone())] };
    let sized = |(text, amount): &(String, i64)| {
        (Some(format!("{resource}={text}")), with_request(pod, resource, *amount))
    };
    amounts.iter().map(sized).collect()
}

/// Amounts of a resource, each with its text.
#[derive(Debug, PartialEq, Eq)]
struct Sweep {
    resource: Str,
    amounts: Vec<(String, i64)>,
}

impl Sweep {
    /// Parses `cpu=250m,1` or `cpu=250m..4`.
    fn parse(text: &str) -> Result<Self, String> {
        let help = "a sweep looks like cpu=250m,500m,1 or cpu=250m..4";
        let wrong = |what: &str| format!("--sweep: {what}; {help}");
        let (resource, list) = text.split_once('=').ok_or_else(|| wrong("no resource"))?;
        let amount = |text: &str| -> Result<i64, String> {
            let quantity = text.parse::<Quantity>().map_err(|error| wrong(&format!("{text:?}: {error}")))?;
            let amount = if resource == "cpu" { quantity.milli_value() } else { quantity.value() };
            if amount > 0 { Ok(amount) } else { Err(wrong(&format!("{text:?} is not above zero"))) }
        };
        let mut amounts = Vec::new();
        for item in list.split(',') {
            match item.split_once("..") {
                None => amounts.push((item.to_owned(), amount(item)?)),
                Some((from, to)) => {
                    let (mut size, most) = (amount(from)?, amount(to)?);
                    while size <= most && amounts.len() <= MAX_SIZES {
                        amounts.push((written(resource, size), size));
                        size = size.saturating_mul(2);
                    }
                }
            }
        }
        match amounts.len() {
            0 => Err(wrong("no sizes")),
            1..=MAX_SIZES => Ok(Self { resource: resource.into(), amounts }),
            _ => Err(wrong(&format!("more than {MAX_SIZES} sizes"))),
        }
    }
}

/// Returns an amount as a quantity.
fn written(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" if amount % 1000 == 0 => (amount / 1000).to_string(),
        "cpu" => format!("{amount}m"),
        _ => {
            let units = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
            let unit = units.into_iter().find(|(_, shift)| amount % (1 << shift) == 0);
            unit.map_or_else(|| amount.to_string(), |(unit, shift)| format!("{}{unit}", amount >> shift))
        }
    }
}

fn render(pod: &Pod, counted: &[Sized], style: Style) -> String {
    let title = style.title(&format!("Room for copies of {}", pod.full_name()));
    title
        + &match counted {
            [Sized { size: None, capacity }] => one(&pod.full_name(), capacity, style),
            all => table(all).render(style),
        }
}

/// Renders the copies of one size: in all, by zone, and the nodes that get equally many.
fn one(name: &str, capacity: &Capacity, style: Style) -> String {
    let mut text = style.paragraph(&how_many(name, capacity));
    if !capacity.zones.is_empty() {
        text += &format!("\n{}", by_zone(capacity).render(style));
    }
    text += &format!("\n{}", by_count(capacity).render(style));
    text + "\n" + &style.paragraph(&limit(capacity))
}

fn how_many(name: &str, capacity: &Capacity) -> String {
    format!("{} {} of {name} fit", capacity.copies, copies(capacity.copies))
}

/// Returns the reason why there are no more copies.
fn limit(capacity: &Capacity) -> String {
    match &capacity.message {
        Some(message) => format!("A further copy waits: {message}"),
        None => "The limit was reached; --limit raises it.".to_owned(),
    }
}

fn by_zone(capacity: &Capacity) -> Table {
    let mut table = Table::new(["ZONE", "COPIES"]);
    capacity.zones.iter().for_each(|(zone, copies)| table.add([zone.into(), (*copies).into()]));
    table
}

/// Returns one row for the nodes that get equally many copies.
fn by_count(capacity: &Capacity) -> Table {
    let mut alike: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    capacity.nodes.iter().for_each(|(node, copies)| alike.entry(*copies).or_default().push(node));
    let mut table = Table::new(["NODES", "COPIES ON EACH", "EXAMPLE"]);
    for (copies, nodes) in alike.iter().rev() {
        let example = nodes.first().copied().unwrap_or_default();
        table.add([nodes.len().into(), (*copies).into(), example.into()]);
    }
    table
}

fn copies(count: usize) -> &'static str {
    if count == 1 { "copy" } else { "copies" }
}

/// Returns one row for each size.
fn table(all: &[Sized]) -> Table {
    let mut table = Table::new(["SIZE", "COPIES", "NODES", "BY ZONE", "A FURTHER COPY WAITS"]);
    for Sized { size, capacity } in all {
        let zones = capacity.zones.iter().map(|(zone, copies)| format!("{zone} {copies}"));
        let used = capacity.nodes.values().filter(|copies| **copies > 0).count();
        table.add([
            size.clone().unwrap_or_default().into(),
            capacity.copies.into(),
            used.into(),
            zones.collect::<Vec<_>>().join(", ").into(),
            capacity.message.as_deref().unwrap_or("limit reached").into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_lists_sizes_or_doubles_one() {
        let texts = |sweep: &str| {
            let amounts = Sweep::parse(sweep).expect("a sweep").amounts;
            amounts.into_iter().map(|(text, _)| text).collect::<Vec<_>>()
        };
        assert_eq!(texts("cpu=250m,1.5"), ["250m", "1.5"]);
        assert_eq!(texts("cpu=250m..4"), ["250m", "500m", "1", "2", "4"]);
        assert_eq!(texts("memory=512Mi..3Gi"), ["512Mi", "1Gi", "2Gi"]);
        assert_eq!(texts("nvidia.com/gpu=1..3"), ["1", "2"]);
        for (sweep, problem) in [
            ("cpu", "no resource"),
            ("cpu=", "\"\""),
            ("cpu=0", "not above zero"),
            ("cpu=4..2", "no sizes"),
            ("cpu=x", "\"x\""),
            ("memory=1..1000000000000000000,1..1000000000000000000", "more than 64"),
        ] {
            let error = Sweep::parse(sweep).expect_err(sweep);
            assert!(error.contains(problem), "{sweep}: {error}");
        }
    }
}
