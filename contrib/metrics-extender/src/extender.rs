//! The extender's four verbs.

use std::{collections::BTreeMap, sync::Arc};

use clap::ValueEnum;
use harbormaster_extender::{
    Ask, Binding, Candidate, Error, Extender, Filtered, Preempted, Preemption, Reject, Scores, Verb,
};
use kube::Client;
use serde_json::{Value, json};

use crate::{labelled::LabelledNodes, score, usage::Usage};

/// Scoring mode, which also determines the response if no node has the label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Scores from 0 to 10. If no node has the label, every node gets a reason.
    #[default]
    Corrected,
    /// The article's scores: one point less per millicore above the lowest usage. If no node has the label, one error
    /// stands for all nodes.
    Literal,
}

type Verdict = Result<(), Reject>;

/// State of the extender. Clones share it.
#[derive(Clone)]
pub struct MetricsExtender {
    /// Scoring mode.
    pub mode: Mode,
    /// Key of the label that nodes must have. Its value does not matter.
    pub label: Arc<str>,
    /// True to log every score.
    pub verbose: bool,
    /// CPU usage of the nodes.
    pub usage: Usage,
    /// Nodes that have the label.
    pub labelled: LabelledNodes,
    /// Client that lists the labels again before a pod is rejected, if the scheduler sent only node names. If `None`,
    /// only known labels are used.
    pub client: Option<Client>,
}

impl MetricsExtender {
    /// Returns the extender with the article's paths: `/scheduler/filter`, `prioritize` and `preemption`; with a
    /// client, also `bind`, which requires permission to create `pods/binding`.
    pub fn serve(&self, bind: Option<Client>) -> Extender {
        let (filter, prioritize, preempt, ready) =
            (self.clone(), self.clone(), self.clone(), self.labelled.clone());
        let extender = Extender::new()
            .prefix("/scheduler")
            .path(Verb::Preempt, "preemption")
            .filter(move |ask| filter.clone().filter(ask))
            .prioritize(move |ask| std::future::ready(Ok(prioritize.prioritize(&ask))))
            .preempt(move |ask| std::future::ready(Ok(preempt.preempt(&ask))))
            .ready(move || if ready.is_known() { Ok(()) } else { Err("nodes are not known yet".to_owned()) });
        self.usage.register(extender.registry());
        match bind {
            Some(client) => extender.bind(move |binding| bind_pod(client.clone(), binding)),
            None => extender,
        }
    }

    /// Accepts nodes with the label. Rejects other nodes as unresolvable, since evicting pods does not add a label.
    async fn filter(self, ask: Ask) -> Result<Filtered, Error> {
        let mut verdicts = self.verdicts(&ask)?;
        let none_fits = |verdicts: &BTreeMap<_, Verdict>| verdicts.values().all(Result::is_err);
        if none_fits(&verdicts)
            && ask.need_objects().is_err()
            && let Some(client) = &self.client
        {
            self.labelled.refresh(client, &self.label).await;
            verdicts = self.verdicts(&ask)?;
        }
        if self.mode == Mode::Literal && none_fits(&verdicts) {
            return Err(Error::new(format!("all node do not have label {}", self.label)));
        }
        Ok(Filtered { verdicts })
    }

    fn verdicts(&self, ask: &Ask) -> Result<BTreeMap<String, Verdict>, Error> {
        let has_label = |node: &Candidate| match node.node() {
            Some(object) => Ok(object.metadata.label(&self.label).is_some()),
            None => self.labelled.has(node.name()).ok_or_else(|| {
                Error::new("node labels are not known yet, and the scheduler sent only node names")
            }),
        };
        let missing = || Reject::unresolvable(format!("node(s) had no label {}", self.label));
        let verdict = |has_label| if has_label { Ok(()) } else { Err(missing()) };
        ask.nodes.iter().map(|node| Ok((node.name().to_owned(), verdict(has_label(node)?)))).collect()
    }

    /// Scores nodes with the latest metrics; without metrics, returns no scores.
    fn prioritize(&self, ask: &Ask) -> Scores {
        let Some(millicores) = self.usage.now() else { return Scores::default() };
        let scores = match self.mode {
            Mode::Literal => score::literal(&millicores),
            Mode::Corrected => score::corrected(&millicores, ask.nodes.iter().map(Candidate::name)),
        };
        if self.verbose {
            for (node, points) in &scores.0 {
                tracing::info!(
                    pod = ask.pod.metadata.name,
                    node,
                    millicores = millicores.get(node),
                    points,
                    "Score"
                );
            }
        }
        scores
    }

    /// Removes nodes known to lack the label: filter would reject these nodes, so evicting their pods would not help.
    /// Labels are looked up by node name, since schedulers send only names.
    fn preempt(&self, ask: &Preemption) -> Preempted {
        ask.keep(|node, _| self.labelled.has(node) != Some(false))
    }
}

async fn bind_pod(client: Client, binding: Binding) -> Result<(), Error> {
    let Binding { pod_name, pod_namespace, pod_uid, node } = binding;
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod_name, "namespace": pod_namespace, "uid": pod_uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let path = format!("/api/v1/namespaces/{pod_namespace}/pods/{pod_name}/binding");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())?;
    client.request::<Value>(request).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use harbormaster_extender::wire::decode;

    use super::*;

    fn extender(mode: Mode, usage: &[(&str, u64)]) -> MetricsExtender {
        let kept = Usage::new(Duration::from_secs(60));
        if !usage.is_empty() {
            kept.set(usage.iter().map(|(name, used)| ((*name).to_owned(), *used)).collect());
        }
        let label = "filter.xy.com".into();
        MetricsExtender {
            mode,
            label,
            verbose: true,
            usage: kept,
            labelled: LabelledNodes::default(),
            client: None,
        }
    }

    fn ask(args: Value) -> Ask {
        Ask::new(decode(args.to_string().as_bytes()).unwrap()).unwrap()
    }

    fn objects(labelled: &[&str]) -> Ask {
        let node = |name: &str| match labelled.contains(&name) {
            true => json!({"metadata": {"name": name, "labels": {"filter.xy.com": ""}}}),
            false => json!({"metadata": {"name": name, "labels": {"filter.xy.com.au": "true"}}}),
        };
        let nodes = ["k8s-master", "k8s-node1", "k8s-node2"].map(node);
        ask(json!({"Pod": {}, "Nodes": {"items": nodes}}))
    }

    fn names() -> Ask {
        ask(json!({"Pod": {}, "NodeNames": ["k8s-master", "k8s-node1", "k8s-node2"]}))
    }

    fn fitting(filtered: &Filtered) -> Vec<&str> {
        filtered
            .verdicts
            .iter()
            .filter(|(_, verdict)| verdict.is_ok())
            .map(|(name, _)| name.as_str())
            .collect()
    }

    const ARTICLE: [(&str, u64); 3] = [("k8s-master", 264), ("k8s-node1", 87), ("k8s-node2", 67)];

    #[tokio::test]
    async fn nodes_with_the_label_fit_whatever_its_value_is() {
        for mode in [Mode::Corrected, Mode::Literal] {
            let filtered = extender(mode, &[]).filter(objects(&["k8s-node1", "k8s-node2"])).await.unwrap();
            assert_eq!(fitting(&filtered), ["k8s-node1", "k8s-node2"]);
            assert_eq!(
                filtered.verdicts["k8s-master"],
                Err(Reject::unresolvable("node(s) had no label filter.xy.com"))
            );
        }
    }

    #[tokio::test]
    async fn without_a_fitting_node_corrected_mode_gives_a_reason_per_node_and_literal_mode_one_error() {
        let filtered = extender(Mode::Corrected, &[]).filter(objects(&[])).await.unwrap();
        assert_eq!((fitting(&filtered).len(), filtered.verdicts.len()), (0, 3));
        let error = extender(Mode::Literal, &[]).filter(objects(&[])).await.unwrap_err();
        assert_eq!(error.to_string(), "all node do not have label filter.xy.com");
    }

    #[tokio::test]
    async fn names_suffice_once_the_labels_are_known() {
        let extender = extender(Mode::Corrected, &[]);
        assert!(extender.clone().filter(names()).await.unwrap_err().to_string().contains("not known yet"));
        extender.labelled.set(["k8s-node2".to_owned()].into());
        assert_eq!(fitting(&extender.filter(names()).await.unwrap()), ["k8s-node2"]);
    }

    #[test]
    fn scores_are_literal_or_from_0_to_10_and_absent_without_metrics() {
        let points = |extender: &MetricsExtender, ask: &Ask| -> Vec<i64> {
            extender.prioritize(ask).0.into_iter().map(|(_, points)| points).collect()
        };
        for ask in [names(), objects(&[])] {
            assert_eq!(points(&extender(Mode::Literal, &ARTICLE), &ask), [-196, -19, 1]);
            assert_eq!(points(&extender(Mode::Corrected, &ARTICLE), &ask), [3, 8, 10]);
            for mode in [Mode::Literal, Mode::Corrected] {
                assert!(points(&extender(mode, &[]), &ask).is_empty());
            }
        }
    }

    #[test]
    fn preemption_keeps_all_candidates_except_nodes_known_to_lack_the_label() {
        let extender = extender(Mode::Literal, &[]);
        let victims = json!({"Pods": [{"UID": "u"}], "NumPDBViolations": 0});
        let pods = json!({"Pods": [{"metadata": {"uid": "u"}}], "NumPDBViolations": 0});
        let forms = [
            json!({"Pod": {}, "NodeNameToMetaVictims": {"a": victims, "b": victims}}),
            json!({"Pod": {}, "NodeNameToVictims": {"a": pods, "b": pods}}),
        ];
        let asks = forms.map(|form| Preemption::new(decode(form.to_string().as_bytes()).unwrap()).unwrap());
        let kept = |ask| -> Vec<String> { extender.preempt(ask).0.into_keys().collect() };
        for ask in &asks {
            assert_eq!(kept(ask), ["a", "b"], "no labels are known yet");
        }
        extender.labelled.set(["b".to_owned()].into());
        for ask in &asks {
            assert_eq!(kept(ask), ["b"]);
            assert_eq!(extender.preempt(ask).0["b"].pods[0].uid, "u");
        }
    }
}
