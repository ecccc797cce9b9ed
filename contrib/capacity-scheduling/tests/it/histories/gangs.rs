//! Gangs in the histories: a whole gang is evicted or no part of it, and no gang runs with fewer members than it needs.

use harbormaster::api::Str;

use super::*;

/// Gangs with their namespaces.
const GANGS: [(&str, &str); 5] = [("ga", "a"), ("gb", "b"), ("gc", "c"), ("gd", "d"), ("gp", "plain")];

/// Members of a gang that wait.
struct Waiting {
    gang: &'static str,
    /// Number of members that the gang lacks.
    needed: usize,
    members: Vec<(String, Known)>,
}

impl Waiting {
    fn infos(&self) -> Vec<Arc<PodInfo>> {
        self.members.iter().map(|(name, known)| History::build(name, known).info()).collect()
    }

    fn are_alike(&self) -> bool {
        self.members.iter().all(|(_, known)| known.asks == self.members[0].1.asks)
    }
}

/// Returns a pod that requests what all these members do.
fn sum(members: &[Known]) -> Known {
    let asks = [0, 1, 2].map(|at| members.iter().map(|member| member.asks[at]).sum());
    Known { asks, ..members[0].clone() }
}

impl History {
    /// Members come to a gang, which gets a new minimum if none of its members has a node.
    pub(super) fn new_members(&mut self, name: &str) {
        let (gang, namespace) = self.dice.pick(&GANGS);
        let running = self.books.members(gang).len();
        if running == 0 || !self.gangs.contains_key(gang) {
            self.describe(gang, namespace);
        }
        let (minimum, priority) = self.gangs[gang];
        let needed = minimum.saturating_sub(running).max(1);
        let count = needed + self.dice.below(3) as usize;
        let (app, are_alike) = (self.dice.pick(&APPS), !self.dice.one_in(4));
        let mut asks = [0; 3];
        let members = (0..count).map(|at| {
            if at == 0 || !are_alike {
                asks = [0; 3].map(|_| self.dice.pick(&[0, 0, 1, 1, 2]));
            }
            (format!("{name}-{at}"), Known { namespace, priority, asks, app, gang: Some(gang), node: 0 })
        });
        let waiting = Waiting { gang, needed, members: members.collect() };
        self.try_members(&waiting);
    }

    fn describe(&mut self, gang: &'static str, namespace: &str) {
        let (min_count, priority) = (1 + self.dice.below(4) as usize, self.dice.pick(&[0, 1, 2]));
        let disruption = self.dice.pick(&[Disruption::Single, Disruption::All]);
        let spec = GroupSpec {
            policy: GroupPolicy::Gang { min_count },
            priority: self.dice.one_in(2).then_some(priority),
            disruption,
            ..GroupSpec::default()
        };
        let id = GroupId { namespace: namespace.into(), name: gang.into() };
        self.trial.set_group(PodGroup { id, uid: gang.into(), generation: 1, spec });
        self.gangs.insert(gang, (min_count, priority));
    }

    fn try_members(&mut self, waiting: &Waiting) {
        let infos = waiting.infos();
        let expected = self.first_fit(waiting);
        let found = self.trial.place_group(&infos);
        let found = found.map(|found| {
            let mut node = |one: &Assignment| self.trial.cluster().node(one.row).name()[1..].parse().unwrap();
            found.iter().map(|one| (one.pod.name.to_string(), node(one))).collect::<Vec<(String, usize)>>()
        });
        assert_eq!(found, expected, "{:?} {:#?}", waiting.members, self.books);
        if let Some(found) = found {
            self.count("gangs placed", true);
            return self.place_members(waiting, &found);
        }
        self.count("gangs refused", true);
        let is_owed = self.is_gang_owed(waiting);
        let Some((nodes, victims, violations)) = self.ask_for_gang(&infos) else {
            assert!(!is_owed, "{:?} get less than they are guaranteed: {:#?}", waiting.members, self.books);
            return;
        };
        assert!(nodes.len() >= waiting.needed, "{nodes:?} of {:?}", waiting.members);
        let chosen: Vec<Known> = nodes.iter().map(|(name, node)| waiting.on(name, *node)).collect();
        self.books.check(&sum(&chosen), &chosen, &victims);
        let (least, most) = (self.books.violations(&victims), self.books.covered(&victims));
        assert!((least..=most).contains(&violations), "{violations}: {victims:?} {:#?}", self.books);
        self.count("gangs nominated", true);
        self.count("gangs reclaimed", is_owed);
        self.count("more than needed", nodes.len() > waiting.needed);
        self.count("gangs evicted", victims.iter().any(|name| self.books.pods[name].gang.is_some()));
        if !victims.is_empty() && self.dice.one_in(3) {
            self.wait_for_gang(waiting, &nodes, &victims);
        }
        victims.iter().for_each(|victim| self.remove(victim));
        let is_nominated = |pod: &&Arc<PodInfo>| nodes.iter().any(|(name, _)| *name == *pod.name);
        let nominated: Vec<Arc<PodInfo>> = infos.iter().filter(is_nominated).cloned().collect();
        // Without their nominations, members that differ may get other nodes than those in which all of them fit.
        if waiting.are_alike() {
            let placed = self.trial.place_group(&nominated).map(|placed| placed.len());
            assert_eq!(placed, Some(nodes.len()), "{nodes:?} are refused after evictions {:#?}", self.books);
        }
        self.place_members(waiting, &nodes);
    }

    /// Gives each member the first node with room for it; `None` if there are too few of them.
    fn first_fit(&self, waiting: &Waiting) -> Option<Vec<(String, usize)>> {
        let mut books = self.books.clone();
        let mut placed = Vec::new();
        for (name, known) in &waiting.members {
            let node = (0..NODES.len()).find(|node| books.has_room(known, *node) && books.admits(known));
            if let Some(node) = node {
                books.pods.insert(name.clone(), Known { node, ..known.clone() });
                placed.push((name.clone(), node));
            }
        }
        (placed.len() >= waiting.needed).then_some(placed)
    }

    /// Returns true if the gang must get as many members as it needs: nodes have room for them, and they are owed to it.
    fn is_gang_owed(&self, waiting: &Waiting) -> bool {
        if !waiting.are_alike() {
            return false;
        }
        let needed: Vec<Known> =
            waiting.members[..waiting.needed].iter().map(|(_, known)| known.clone()).collect();
        let mut books = self.books.clone();
        let have_room = needed.iter().enumerate().all(|(at, known)| {
            let node = (0..NODES.len()).find(|node| books.has_room(known, *node));
            let placed = node.map(|node| Known { node, ..known.clone() });
            placed.is_some_and(|placed| books.pods.insert(format!("?{at}"), placed).is_none())
        });
        have_room && self.books.is_owed(&sum(&needed))
    }

    fn place_members(&mut self, waiting: &Waiting, nodes: &[(String, usize)]) {
        for (name, node) in nodes {
            self.place(name, waiting.on(name, *node));
        }
        let running = self.books.members(waiting.gang).len();
        assert!(running >= self.gangs[waiting.gang].0, "only {running} of {} run", waiting.gang);
    }

    /// Returns the nodes of members, the victims, and how many of them violate budgets, if evictions help the gang.
    fn ask_for_gang(&mut self, infos: &[Arc<PodInfo>]) -> Option<(Vec<(String, usize)>, Vec<String>, usize)> {
        match self.trial.ask_group(&self.plugin, infos).unwrap() {
            GroupPostFiltered::Nominate { nodes, victims, violations, .. } => {
                let node = |(uid, node): (Str, Str)| (uid.to_string(), node[1..].parse().unwrap());
                let victims = victims.iter().map(|pod| pod.name.to_string()).collect();
                Some((nodes.into_iter().map(node).collect(), victims, violations))
            }
            _ => None,
        }
    }

    /// While the victims terminate, the gang must evict no others.
    fn wait_for_gang(&mut self, waiting: &Waiting, nodes: &[(String, usize)], victims: &[String]) {
        self.let_terminate(victims);
        let again = waiting.members.iter().map(|(name, known)| {
            let pod = Self::build(name, known);
            match nodes.iter().find(|(nominated, _)| nominated == name) {
                Some((_, node)) => pod.nominated_to(&format!("n{node}")).info(),
                None => pod.info(),
            }
        });
        let again: Vec<Arc<PodInfo>> = again.collect();
        assert!(self.trial.place_group(&again).is_none());
        let more = self.ask_for_gang(&again).map(|(_, victims, _)| victims).unwrap_or_default();
        assert!(more.is_empty(), "{again:?} evict {more:?} while {victims:?} terminate");
    }
}

impl Waiting {
    /// The member on a node.
    fn on(&self, name: &str, node: usize) -> Known {
        let (_, known) = self.members.iter().find(|(other, _)| other == name).unwrap();
        Known { node, ..known.clone() }
    }
}
