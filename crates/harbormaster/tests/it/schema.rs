//! The schema for editors accepts configurations that the scheduler can read, and rejects those that the scheduler
//! cannot decode.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use boon::{Compiler, SchemaIndex, Schemas};
use harbormaster_api::{Release, features::Features};
use harbormaster_config::KubeSchedulerConfiguration;
use serde_json::Value;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    /// Returns the schema that the program prints.
    fn printed() -> Self {
        let output = Command::new(env!("CARGO_BIN_EXE_harbormaster")).args(["generate", "schema"]).output();
        let output = output.expect("the binary runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let schema: Value = serde_json::from_slice(&output.stdout).expect("the schema is JSON");
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("config.json", schema).expect("the schema is valid");
        let index = compiler.compile("config.json", &mut schemas).expect("the schema is valid");
        Self { schemas, index }
    }

    fn check(&self, text: &str) -> Result<(), String> {
        let value: Value = serde_saphyr::from_str(text).expect("the text is YAML");
        self.schemas.validate(&value, self.index).map_err(|error| error.to_string())
    }
}

/// Collects the YAML files below `directory` that contain a configuration and no other document.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the directory can be read") {
        let path = entry.expect("the entry can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            files(&path, found);
        } else if name.ends_with(".yaml")
            && fs::read_to_string(&path).is_ok_and(|text| {
                text.lines().any(|line| line == "kind: KubeSchedulerConfiguration")
                    && !text.contains("\n---\n")
            })
        {
            found.push(path);
        }
    }
}

#[test]
fn every_configuration_in_the_repository_matches_the_schema() {
    let (schema, mut found) = (Schema::printed(), Vec::new());
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut found);
    assert!(found.len() >= 10, "{found:?}");
    for path in found {
        let text = fs::read_to_string(&path).expect("the file can be read");
        harbormaster_config::load(&text, "c.yaml", &Features::default())
            .expect("the scheduler reads the configuration");
        schema.check(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn the_default_configuration_and_a_detailed_one_match_the_schema() {
    let schema = Schema::printed();
    schema.check(&KubeSchedulerConfiguration::default_config().to_yaml(Release::NEWEST)).unwrap();
    let all = "percentageOfNodesToScore: 5\ndelayCacheUntilActive: true\nprofiles:\n- schedulerName: a\n  percentageOfNodesToScore: 7\n  \
               plugins:\n    score: {enabled: [{name: Mine, weight: 3}], disabled: [{name: '*'}]}\n  pluginConfig:\n  \
               - name: Mine\n    args: {any: [thing]}\n  \
               - name: NodeResourcesFit\n    args:\n      apiVersion: kubescheduler.config.k8s.io/v1\n      kind: \
               NodeResourcesFitArgs\n      scoringStrategy:\n        type: RequestedToCapacityRatio\n        \
               resources: [{name: cpu}]\n        requestedToCapacityRatio: {shape: [{utilization: 0, score: 1}]}\n  \
               - name: PodTopologySpread\n    args:\n      defaultingType: List\n      defaultConstraints: \
               [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]\n  \
               - name: NodeAffinity\n    args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
               {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}\n";
    schema.check(&format!("{HEAD}{all}")).unwrap();
    harbormaster_config::load(&format!("{HEAD}{all}"), "c.yaml", &Features::default()).unwrap();
}

#[test]
fn a_configuration_that_cannot_be_read_does_not_match_the_schema() {
    let schema = Schema::printed();
    for text in [
        "parallelism: many\n",
        "paralelism: 3\n",
        "leaderElection: {leaseDuration: soon}\n",
        "leaderElection: {leaseDuration: 15}\n",
        "clientConnection: {qps: fast}\n",
        "clientConnection: {kubeConfig: /k}\n",
        "profiles: {schedulerName: a}\n",
        "profiles: [{schedulerName: 3}]\n",
        "profiles: [{pluginz: {}}]\n",
        "profiles: [{plugins: {filters: {}}}]\n",
        "profiles: [{plugins: {filter: {enabled: [NodeName]}}}]\n",
        "profiles: [{plugins: {filter: {enabled: [{name: NodeName, wait: 1}]}}}]\n",
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {resources: [{name: cpu, weight: heavy}]}}}]}]\n",
        "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardWeight: 1}}]}]\n",
        "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {kind: NodeAffinityArgs}}]}]\n",
        "extenders: [{urlPrefix: 3}]\n",
        "extenders: [{prefix: x}]\n",
    ] {
        let text = format!("{HEAD}{text}");
        let read = harbormaster_config::load(&text, "c.yaml", &Features::default());
        assert!(read.is_err(), "the scheduler reads {text}");
        assert!(schema.check(&text).is_err(), "the schema accepts {text}");
    }
    for text in ["kind: KubeSchedulerConfiguration\n", "apiVersion: v1\nkind: KubeSchedulerConfiguration\n"] {
        assert!(schema.check(text).is_err(), "the schema accepts {text}");
    }
}
