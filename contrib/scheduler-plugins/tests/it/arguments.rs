//! Mistakes in arguments are reported with the file, the line and the field.

use harbormaster::Scheduler;

/// Returns the error for a plugin's arguments.
fn error(plugin: &str, args: &str) -> String {
    let config = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
         - plugins: {{score: {{enabled: [{{name: {plugin}}}]}}}}\n  pluginConfig:\n  - name: {plugin}\n    args: {args}\n"
    );
    let built =
        Scheduler::builder().plugins(scheduler_plugins::register).config("scheduler.yaml", config).build();
    built.map(drop).unwrap_err().to_string()
}

#[test]
fn mistakes_name_the_file_the_line_and_the_field() {
    for (plugin, args, expected) in [
        (
            "NodeResourcesAllocatable",
            "{mode: Smallest}",
            "scheduler.yaml:7:12: profiles[0].pluginConfig[0].args.mode: unknown variant `Smallest`, expected `Least` or `Most`",
        ),
        (
            "NodeResourcesAllocatable",
            "{resources: [{name: cpu, weight: 0}]}",
            "scheduler.yaml:7:5: profiles[0].pluginConfig[0].args: resources[0].weight: Invalid value: 0: resource weight of \
             cpu should be a positive value, got :0",
        ),
        (
            "NodeMetadata",
            "{metadataKey: k, metadataSource: Labels}",
            "scheduler.yaml:7:5: profiles[0].pluginConfig[0].args: invalid NodeMetadataArgs: metadataSource must be either \
             \"Label\" or \"Annotation\"",
        ),
        (
            "NetworkOverhead",
            "{weightName: UserDefined}",
            "scheduler.yaml:7:12: profiles[0].pluginConfig[0].args.weightName: unknown field `weightName`",
        ),
        (
            "NodeResourceTopologyMatch",
            "{scoringStrategy: {type: Best}}",
            "scheduler.yaml:7:5: profiles[0].pluginConfig[0].args: scoringStrategy.type: Invalid value: \"Best\": invalid \
             ScoringStrategyType",
        ),
        (
            "TargetLoadPacking",
            "{metricProvider: {type: Datadog}}",
            "scheduler.yaml:7:5: profiles[0].pluginConfig[0].args: metricProvider.type: invalid MetricProvider.Type, got \
             Datadog",
        ),
        (
            "LowRiskOverCommitment",
            "{riskLimitWeights: {cpu: half}}",
            "scheduler.yaml:7:31: profiles[0].pluginConfig[0].args.riskLimitWeights.cpu: invalid type: string \"half\"",
        ),
        (
            "NodeMetadata",
            "{metadatakey: k}",
            "scheduler.yaml:7:12: profiles[0].pluginConfig[0].args.metadatakey: unknown field `metadatakey`",
        ),
    ] {
        let error = error(plugin, args);
        assert!(error.starts_with(expected), "{error}");
    }
}
