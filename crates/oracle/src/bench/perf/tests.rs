use std::collections::BTreeMap;

use harbormaster_api::Release;

use super::*;

/// Returns the number of workloads that can run, and the numbers of the others by the kind of their reason.
fn outcomes(release: Release) -> (usize, BTreeMap<String, usize>) {
    let entries = Catalog::read(release, None).unwrap().entries(&[]).unwrap();
    let mut reasons = BTreeMap::new();
    for obstacle in entries.iter().filter_map(|entry| entry.plan.as_ref().err()) {
        *reasons.entry(kind(&obstacle.reason())).or_default() += 1;
    }
    (entries.iter().filter(|entry| entry.plan.is_ok()).count(), reasons)
}

/// Returns the part of a reason that is the same for all workloads with such a reason.
fn kind(reason: &str) -> String {
    let kinds = [
        "has locked the feature gate",
        "does not implement the feature",
        "with the code of kube-scheduler",
        "for Go code of the test",
        "the workload has no parameter",
    ];
    kinds.iter().find(|kind| reason.contains(**kind)).map_or_else(|| reason.to_owned(), ToString::to_string)
}

#[test]
fn every_workload_of_every_release_has_a_plan_or_a_known_reason() {
    for (release, runnable, reasons) in [
        (
            Release::V1_36,
            166,
            &[
                ("has locked the feature gate", 70),
                ("for Go code of the test", 4),
                ("with the code of kube-scheduler", 2),
            ][..],
        ),
        (
            Release::V1_37,
            241,
            &[
                ("has locked the feature gate", 1),
                ("does not implement the feature", 9),
                ("for Go code of the test", 4),
                ("with the code of kube-scheduler", 10),
                ("the workload has no parameter", 2),
            ],
        ),
    ] {
        let expected =
            reasons.iter().map(|(kind, count): &(&str, usize)| ((*kind).to_owned(), *count)).collect();
        assert_eq!(outcomes(release), (runnable, expected), "{release}");
    }
}

#[test]
fn the_plan_of_a_workload_has_its_size_and_its_steps() {
    let catalog = Catalog::read(Release::V1_37, Some("misc")).unwrap();
    let plans = catalog.plans(&["SchedulingBasic/5Nodes".to_owned()]).unwrap();
    let [plan] = &plans[..] else { panic!("one plan") };
    assert_eq!((plan.size.nodes, plan.size.init_pods, plan.size.pods), (5, 5, 10));
    let opcodes: Vec<_> = plan.steps.iter().map(|step| step.opcode.as_str()).collect();
    assert_eq!(opcodes, ["createNodes", "createPods", "createPods"]);
    assert_eq!(plan.gates.flags(), ["SchedulerAsyncAPICalls=false"]);
}

/// Plans a workload of a configuration that consists of one test case with the given operations.
fn plan_ops(ops: &str, workload: &str) -> Result<Plan, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("pod.yaml"),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: 'p-{{.Index}}'}\n",
    )
    .unwrap();
    let path = folder.path().join("config.yaml");
    let text =
        format!("- name: Case\n  workloadTemplate:\n{ops}\n  workloads:\n  - name: W\n    {workload}\n");
    std::fs::write(&path, text).unwrap();
    let catalog = Catalog::read(Release::V1_37, path.to_str()).unwrap();
    let mut entries = catalog.entries(&[]).unwrap();
    assert_eq!(entries.len(), 1);
    entries.remove(0).plan.map_err(|obstacle| obstacle.reason())
}

#[test]
fn what_cannot_run_is_named_with_its_operation_and_field() {
    let measured = "  - {opcode: createPods, count: 1, collectMetrics: true}\n";
    for (ops, workload, expected) in [
        ("  - {opcode: createVolcano}", "", "op 0 (createVolcano): unknown variant `createVolcano`"),
        ("  - {opcode: createNodes, speed: 3}", "", "op 0 (createNodes): unknown field `speed`"),
        (
            "  - {opcode: createNodes, countParam: $n}",
            "",
            "op 0 (createNodes), `countParam`: the workload has no parameter n",
        ),
        (
            "  - {opcode: createPods, podTemplatePath: none.yaml, count: 1}",
            "",
            "op 0 (createPods), `podTemplatePath`: ",
        ),
        (
            "  - {opcode: createAny, templatePath: pod.yaml}",
            "",
            "op 0 (createAny), `namespace`: objects of kind Pod need a namespace",
        ),
        (
            "  - {opcode: stopCollectingMetrics}",
            "",
            "op 0 (stopCollectingMetrics): there is no startCollectingMetrics before",
        ),
        ("  - {opcode: createNodes, count: 1}", "", "no operation collects metrics"),
        ("", "params: {a: 1}", "`params.a`: no operation uses the parameter"),
        (
            "",
            "featureGates: {NodeDeclaredFeatures: false}",
            "`featureGates.NodeDeclaredFeatures`: Kubernetes 1.37 has locked",
        ),
        ("", "speed: 3", "unknown field `speed`"),
    ] {
        let ops = format!("{}{ops}", if ops.is_empty() { measured } else { "" });
        let reason = plan_ops(&ops, workload).unwrap_err();
        assert!(reason.starts_with(expected), "{ops}: {reason}");
    }
}

#[test]
fn pod_sets_become_one_step_per_namespace_and_pods_need_no_namespace() {
    let ops = "  - opcode: createPodSets\n    countParam: $sets\n    namespacePrefix: set\n\
               \x20   createPodsOp: {opcode: createPods, count: 4, podTemplatePath: pod.yaml}\n\
               \x20 - {opcode: createPods, count: 6, collectMetrics: true, countMultiplierParam: $sets}\n";
    let plan = plan_ops(ops, "params: {sets: 3}").unwrap();
    assert_eq!((plan.size.init_pods, plan.size.pods), (12, 18));
    let namespaces = plan.steps.iter().map(|planned| match &planned.step {
        plan::Step::CreatePods(pods) => (planned.index, pods.namespace.as_str(), pods.signature_batch),
        other => panic!("{other:?}"),
    });
    let namespaces: Vec<_> = namespaces.collect();
    let expected =
        [(0, "set-0", Some(1)), (1, "set-1", Some(1)), (2, "set-2", Some(1)), (3, "namespace-3", None)];
    assert_eq!(namespaces, expected);
}
