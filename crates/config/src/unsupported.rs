//! Parts of a valid configuration that are not built yet.

use crate::{
    config::{Extender, KubeSchedulerConfiguration},
    error::ConfigError,
};

/// What the configuration asks for that this version cannot do. It must not be ignored: pods would be placed by
/// other rules than the ones asked for.
pub fn unsupported(config: &KubeSchedulerConfiguration) -> Vec<ConfigError> {
    let error = |(i, extender): (usize, &Extender)| {
        let field = format!("extenders[{i}]");
        let message = format!(
            "{field}: HTTP extenders are not built yet, so {:?} would not be asked",
            extender.url_prefix
        );
        let help =
            "remove the extender, or leave the pods that need it to kube-scheduler by their schedulerName";
        ConfigError { help: Some(help.to_owned()), ..config.source.error(field, message) }
    };
    config.extenders.iter().enumerate().map(error).collect()
}

#[cfg(test)]
mod tests {
    use harbormaster_api::features::Features;

    use super::*;
    use crate::load;

    #[test]
    fn extenders_are_refused_with_a_word_of_advice_and_nothing_else_is() {
        assert!(unsupported(&KubeSchedulerConfiguration::default_config()).is_empty());
        let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n- urlPrefix: u\n";
        let config = load(text, "s.yaml", &Features::default()).unwrap();
        let errors: Vec<_> = unsupported(&config).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "s.yaml:4:3: extenders[0]: HTTP extenders are not built yet, so \"u\" would not be asked (remove the \
              extender, or leave the pods that need it to kube-scheduler by their schedulerName)"
            ]
        );
    }
}
