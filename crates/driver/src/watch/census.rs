//! Lists the keys of all objects of a kind once.

use std::collections::BTreeSet;

use super::{
    Kind, PAGE, kinds,
    wire::{Page, Stub},
};
use harbormaster_client::ApiClient;

/// Returns the keys of all needed objects; `named` forms a key from an object's name (with namespace) and UID. The
/// objects are requested page by page, so that no response takes long.
///
/// # Errors
/// If the request fails, or its response cannot be read.
pub(crate) async fn census(
    client: &ApiClient,
    kind: &impl Kind,
    named: impl Fn(&str, &str) -> String,
) -> Result<BTreeSet<String>, String> {
    let mut all = BTreeSet::new();
    let (limit, mut token) = (PAGE.to_string(), String::new());
    loop {
        let path = kinds::list_path(kind, &[("limit", &limit), ("continue", &token)]);
        let body = client.get(&path).await.map_err(|error| error.to_string())?;
        let page = Page::read(&body)?;
        for item in &page.items {
            let object = Stub::read(*item)?;
            all.insert(named(&object.full_name(), &object.metadata.uid));
        }
        token = page.continue_.into_owned();
        if token.is_empty() {
            return Ok(all);
        }
    }
}
