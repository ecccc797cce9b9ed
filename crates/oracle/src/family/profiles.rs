//! Profiles that add one plugin of scheduler-plugins to the default profile: `plugins` and `pluginConfig`.

use serde_json::{Value, json};

/// Returns a profile with the plugin at Score, where it outweighs the others.
pub fn at_score(name: &str, args: &Value) -> Value {
    json!({
        "plugins": {"score": {"enabled": [{"name": name, "weight": 10}]}},
        "pluginConfig": [{"name": name, "args": args}],
    })
}

/// Returns a profile with the plugin at every point that it implements.
pub fn everywhere(name: &str, args: &Value) -> Value {
    json!({
        "plugins": {"multiPoint": {"enabled": [{"name": name}]}},
        "pluginConfig": [{"name": name, "args": args}],
    })
}

/// Returns a profile in which the plugin orders the queue.
pub fn sorts(name: &str) -> Value {
    json!({"plugins": {"queueSort": {"enabled": [{"name": name}], "disabled": [{"name": "*"}]}}})
}

/// Returns a profile with the plugin at every point that it implements, including QueueSort.
pub fn sorts_everywhere(name: &str) -> Value {
    let mut profile = sorts(name);
    profile["plugins"]["multiPoint"] = json!({"enabled": [{"name": name}]});
    profile
}
