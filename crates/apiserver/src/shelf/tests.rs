use serde_json::json;

use super::*;

fn shelf(history: usize) -> Shelf {
    Shelf::new(Versions::new(), history, Vec::new())
}

fn draft(key: &str, value: u32) -> Draft {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    Draft::new(&json!({"metadata": {"namespace": namespace, "name": name}, "value": value}), &[])
}

fn keys(page: &Page) -> Vec<&str> {
    page.objects.iter().map(|object| &*object.key).collect()
}

#[test]
fn a_namespace_is_a_range_of_keys_even_if_other_names_share_its_prefix() {
    let shelf = shelf(10);
    for key in ["a/x", "a-b/x", "a0/x", "a/y", "b/x"] {
        shelf.insert(draft(key, 0)).unwrap();
    }
    let list = |namespace, behind, limit| {
        let page = shelf.list(&Range { namespace, behind, limit, at: None }, |_| true).unwrap();
        (page.objects.iter().map(|o| o.key.to_string()).collect::<Vec<_>>(), page.remaining)
    };
    assert_eq!(list("a", "", 0), (vec!["a/x".into(), "a/y".into()], 0));
    assert_eq!(list("a", "a/x", 0), (vec!["a/y".into()], 0));
    assert_eq!(list("a", "zzz", 0), (vec![], 0));
    assert_eq!(list("", "a/x", 2), (vec!["a/y".into(), "a0/x".into()], 1));
}

#[test]
fn a_list_at_an_old_version_shows_the_state_of_that_version() {
    let shelf = shelf(10);
    let a = shelf.insert(draft("a", 1)).unwrap();
    let b = shelf.insert(draft("b", 1)).unwrap();
    shelf.replace(a.version, draft("a", 2)).unwrap();
    shelf.remove("b", b.version, None).unwrap();
    shelf.insert(draft("c", 1)).unwrap();
    let then = shelf.list(&Range { at: Some(b.version), ..Range::ALL }, |_| true).unwrap();
    assert_eq!((keys(&then), then.version), (vec!["a", "b"], b.version));
    assert_eq!(then.objects[0].value()["value"], json!(1));
    let now = shelf.list(&Range::ALL, |_| true).unwrap();
    assert_eq!(keys(&now), ["a", "c"]);
}

#[test]
fn a_forgotten_version_is_too_old() {
    let shelf = shelf(2);
    let first = shelf.insert(draft("a", 1)).unwrap();
    for key in ["b", "c", "d"] {
        shelf.insert(draft(key, 1)).unwrap();
    }
    let oldest = first.version + 1;
    assert!(matches!(shelf.place(first.version), Err(TooOld(version)) if version == oldest));
    assert!(shelf.list(&Range { at: Some(first.version), ..Range::ALL }, |_| true).is_err());
    let place = shelf.place(oldest).unwrap();
    assert_eq!(shelf.read(place).unwrap().changes.len(), 2);
    shelf.insert(draft("e", 1)).unwrap();
    assert!(shelf.read(place).is_err(), "the reader was too slow");
}

#[test]
fn only_one_of_two_writers_that_saw_the_same_version_wins() {
    let shelf = shelf(10);
    let a = shelf.insert(draft("a", 1)).unwrap();
    assert!(matches!(shelf.insert(draft("a", 2)), Err(Refused)));
    shelf.replace(a.version, draft("a", 2)).unwrap();
    assert!(matches!(shelf.replace(a.version, draft("a", 3)), Err(Refused)));
    assert!(matches!(shelf.remove("a", a.version, None), Err(Refused)));
    assert!(matches!(shelf.remove("z", a.version, None), Err(Refused)));
}

#[test]
fn the_history_forgets_large_changes_sooner() {
    let shelf = shelf(1000);
    let large = |key: &str| {
        let text = "x".repeat(16 << 20);
        Draft::new(&json!({"metadata": {"name": key}, "text": text}), &[])
    };
    let mut versions = Vec::new();
    for _ in 0..9 {
        let object = shelf.insert(large("a")).unwrap();
        versions.push(object.version);
        versions.push(shelf.remove("a", object.version, None).unwrap().version);
    }
    let kept = versions.iter().filter(|version| shelf.place(**version).is_ok()).count();
    assert_eq!(kept, HISTORY_BYTES / (16 << 20));
}
