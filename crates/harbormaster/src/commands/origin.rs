//! The configuration in a recording: all of it that decisions depend on, without what connects to servers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use harbormaster_api::features::Feature;
#[cfg(feature = "simulate")]
use harbormaster_api::{Release, features::Features};
#[cfg(feature = "simulate")]
use harbormaster_core::EngineConfig;
#[cfg(feature = "simulate")]
use harbormaster_framework::registry::Registry;
use harbormaster_setup::{Choices, Setup};
#[cfg(feature = "simulate")]
use harbormaster_yaml::Source;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{VERSION, reload::TAKEN_OVER};

/// Fields of the configuration that are recorded, in addition to those that the engine uses.
const TYPE: [&str; 2] = ["apiVersion", "kind"];
/// Fields of an extender that are not recorded: they may contain keys.
const SECRET: &str = "tlsConfig";

/// A recorded configuration.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Origin {
    /// Version of Harbormaster.
    version: String,
    /// Release of Kubernetes.
    release: String,
    /// Every feature gate.
    feature_gates: BTreeMap<String, bool>,
    parity: bool,
    max_wait: Option<Duration>,
    /// KubeSchedulerConfiguration.
    config: Value,
}

/// Records in the engine's configuration how it was built.
pub(super) fn record(setup: &mut Setup, choices: &Choices) {
    let release = choices.features.release();
    let mut config = setup.config.to_value(release);
    if let Value::Object(fields) = &mut config {
        fields.retain(|name, _| TYPE.iter().chain(&TAKEN_OVER).any(|field| field == name));
        let extenders = fields.get_mut("extenders").and_then(Value::as_array_mut);
        extenders.into_iter().flatten().filter_map(Value::as_object_mut).for_each(without_secrets);
    }
    let gate = |feature: &Feature| (feature.name().to_owned(), choices.features.enabled(*feature));
    let origin = Origin {
        version: VERSION.to_owned(),
        release: release.to_string(),
        feature_gates: Feature::ALL.iter().map(gate).collect(),
        parity: choices.parity,
        max_wait: choices.max_wait,
        config,
    };
    setup.engine.origin = serde_json::to_value(origin).ok().map(Arc::new);
}

fn without_secrets(extender: &mut Map<String, Value>) {
    extender.remove(SECRET);
}

/// Builds the recorded configuration with these plugins, or another one (`other`) with the recorded flags.
///
/// # Errors
/// If the configuration is not one of this program, or is invalid.
#[cfg(feature = "simulate")]
pub(super) fn build(
    origin: Option<&Value>,
    plugins: &Registry,
    other: Option<&Source>,
) -> Result<EngineConfig, String> {
    let origin = origin.ok_or("the recording does not contain the scheduler's configuration")?;
    let origin = Origin::deserialize(origin).map_err(|e| format!("the recorded configuration: {e}"))?;
    let choices = Choices {
        plugins: plugins.clone(),
        features: origin.features()?,
        parity: origin.parity,
        max_wait: origin.max_wait,
    };
    let recorded = || Source { name: "recorded configuration".to_owned(), text: origin.config.to_string() };
    let source = other.cloned().unwrap_or_else(recorded);
    let setup = Setup::read(Some((&source.name, &source.text)), &choices).map_err(|e| e.to_string())?;
    Ok(setup.engine)
}

#[cfg(feature = "simulate")]
impl Origin {
    fn features(&self) -> Result<Features, String> {
        let known = Release::ALL.iter().copied().find(|release| release.to_string() == self.release);
        let release = known.ok_or_else(|| {
            format!("the scheduler reproduced Kubernetes {}, which this program does not", self.release)
        })?;
        let mut features = Features::of(release);
        for (name, on) in &self.feature_gates {
            match Feature::from_name(name) {
                Some(feature) => features.set(feature, *on),
                None if *on => {
                    return Err(format!("this program does not have the feature gate {name}, which was on"));
                }
                None => {}
            }
        }
        Ok(features)
    }
}

#[cfg(test)]
#[cfg(feature = "simulate")]
mod tests {
    use super::*;

    const CONFIG: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
        percentageOfNodesToScore: 30\nextenders: [{urlPrefix: 'https://e', filterVerb: f, enableHTTPS: true, weight: 1,\n  \
        tlsConfig: {keyData: c2VjcmV0, certData: c2VjcmV0}}]\nprofiles: [{schedulerName: a}, {schedulerName: b}]\n";

    fn recorded(choices: &Choices) -> Setup {
        let mut setup = Setup::read(Some(("c.yaml", CONFIG)), choices).unwrap();
        record(&mut setup, choices);
        setup
    }

    #[test]
    fn a_configuration_is_built_again_from_what_is_recorded() {
        let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
        let max_wait = Some(Duration::from_secs(7));
        let choices = Choices { features, parity: true, max_wait, ..Choices::default() };
        let setup = recorded(&choices);
        let origin = setup.engine.origin.clone().unwrap();
        assert!(!origin.to_string().contains("c2VjcmV0"), "{origin}");
        let again = build(Some(&origin), &choices.plugins, None).unwrap();
        let told = |engine: &EngineConfig| {
            let profiles: Vec<String> =
                engine.profiles.iter().map(|profile| profile.name().to_string()).collect();
            (
                profiles,
                engine.parity,
                engine.max_wait,
                engine.batching,
                engine.release(),
                engine.extenders.all().to_vec(),
            )
        };
        assert_eq!(told(&again), told(&setup.engine));
        let other = Source {
            name: "o.yaml".to_owned(),
            text: CONFIG.replace("schedulerName: b", "schedulerName: c"),
        };
        let other = build(Some(&origin), &choices.plugins, Some(&other)).unwrap();
        assert_eq!((other.profiles[1].name().as_str(), other.parity), ("c", true));
    }

    #[test]
    fn a_recording_of_a_program_with_more_gates_or_releases_is_refused() {
        let choices = Choices::default();
        let origin = recorded(&choices).engine.origin.unwrap();
        let with = |field: &str, value: Value| {
            let mut changed = (*origin).clone();
            changed[field] = value;
            build(Some(&changed), &choices.plugins, None).err().unwrap_or_default()
        };
        assert_eq!(
            with("release", "1.99".into()),
            "the scheduler reproduced Kubernetes 1.99, which this program does not"
        );
        let gates = serde_json::json!({"Nonsense": true});
        assert_eq!(
            with("featureGates", gates),
            "this program does not have the feature gate Nonsense, which was on"
        );
        assert!(with("parity", "no".into()).starts_with("the recorded configuration: invalid type"));
        let wrong = with("config", serde_json::json!({"kind": "Pod"}));
        assert!(wrong.contains("recorded configuration"), "{wrong}");
        assert!(build(None, &choices.plugins, None).is_err());
    }
}
