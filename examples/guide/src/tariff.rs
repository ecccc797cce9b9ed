//! Prefers zones where power is cheap.

use std::{collections::BTreeMap, time::Duration};

use harbormaster::{
    api::{Str, node::LABEL_ZONE},
    prelude::*,
    serde::Deserialize,
    serde_json::{self, Value},
};

/// Prices of power by zone, as a server publishes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
pub struct PowerPrices {
    prices: BTreeMap<Str, i64>,
}

impl Resource for PowerPrices {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PowerPrices";
    const PLURAL: &'static str = "powerprices";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// `profiles[].pluginConfig[].args`: prefers zones where power is cheap.
#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields)]
pub struct Tariff {
    /// URL of the prices.
    prices_url: String,
}

impl Plugin for Tariff {
    const NAME: &'static str = "Tariff";
    implemented_points!();
}

impl Build for Tariff {
    type Args = Self;

    fn build(args: Self, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(args)
    }
}

impl Fetches for Tariff {
    type Object = PowerPrices;

    fn plan(&self) -> FetchPlan {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        FetchPlan { name: "current".into(), every: minutes(5), keep: minutes(60) }
    }

    async fn fetch(&self, web: &Web) -> PluginResult<Value> {
        let request = WebRequest { url: self.prices_url.clone(), ..WebRequest::default() };
        Ok(serde_json::from_str(&web.get(&request).await?)?)
    }
}

impl Score for Tariff {
    const NORMALIZE: Normalize = Normalize::Proportional { reverse: true };

    fn score(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let zone = node.labels().and_then(|labels| labels.get(LABEL_ZONE));
        let prices = self.fetched(cx.objects).map(|current| &current.prices);
        Ok(prices.zip(zone).and_then(|(prices, zone)| prices.get(zone)).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::testkit::{FakeWeb, Trial, cluster, node, pod, set_custom};

    use super::*;

    #[tokio::test]
    async fn nodes_in_the_zone_with_the_lowest_price_score_best() {
        let web = FakeWeb::default();
        web.answer("http://power/prices", 200, r#"{"prices": {"north": 20, "south": 80}}"#);
        let trial = Trial::of(Tariff { prices_url: "http://power/prices".into() });
        let fetched = trial.fetch(&web.web()).await.unwrap();
        let mut nodes = cluster([node("n").zone("north"), node("s").zone("south")], []);
        set_custom::<PowerPrices>(&mut nodes, [serde_json::from_str(fetched.json().unwrap()).unwrap()]);
        assert_eq!(trial.scores(&nodes, &pod("p").info()).unwrap(), Some(vec![75, 0]));
    }

    #[tokio::test]
    async fn without_prices_all_nodes_are_equal() {
        let trial = Trial::of(Tariff { prices_url: "http://power/prices".into() });
        assert!(trial.fetch(&FakeWeb::default().web()).await.is_err());
        let mut nodes = cluster([node("n").zone("north"), node("s").zone("south")], []);
        set_custom::<PowerPrices>(&mut nodes, []);
        assert_eq!(trial.scores(&nodes, &pod("p").info()).unwrap(), Some(vec![100, 100]));
    }
}
