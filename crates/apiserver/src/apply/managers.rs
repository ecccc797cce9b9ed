//! Field managers: `metadata.managedFields`.

use serde_json::{Value, json};

use super::{fields::Fields, walk::Changes};
use crate::value::{list, map, text};

/// Maximum number of update entries per object.
const MOST_UPDATES: usize = 10;
/// Name of the manager under which the oldest entries are merged if the maximum is exceeded.
const ANCIENT: &str = "ancient-changes";

/// Identity of a field manager: its name and how it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: String,
    /// True if the manager applies rather than updates.
    pub(super) applies: bool,
    pub(super) version: String,
    pub(super) subresource: String,
}

impl Manager {
    /// Returns true if both are the same manager. The version matters only for managers that update.
    fn is(&self, other: &Self) -> bool {
        let same = (&self.name, self.applies, &self.subresource);
        same == (&other.name, other.applies, &other.subresource)
            && (self.applies || self.version == other.version)
    }

    /// Returns the description of the manager for conflict messages.
    pub(super) fn shown(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if !self.applies {
            text.push_str(&format!(" using {}", self.version));
        }
        text
    }
}

/// Fields owned by a manager.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) manager: Manager,
    /// Time of the last write; empty if unknown.
    time: String,
    pub(super) fields: Fields,
}

/// All entries of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Managers(pub(super) Vec<Entry>);

impl Managers {
    /// Reads the entries of an object. If any entry is invalid, returns no entries.
    pub(super) fn read(object: &Value) -> Self {
        let entries = list(object, "/metadata/managedFields").iter().map(Entry::read);
        Self(entries.collect::<Option<_>>().unwrap_or_default())
    }

    /// Writes the entries into an object: first the entries of managers that apply, then all other entries, each group
    /// by time and name.
    pub(super) fn write(mut self, object: &mut Value) {
        let Some(metadata) = map(object, "metadata") else { return };
        if self.0.is_empty() {
            metadata.remove("managedFields");
            return;
        }
        self.0.sort_by(|a, b| a.order().cmp(&b.order()));
        metadata.insert("managedFields".to_owned(), self.0.iter().map(Entry::json).collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn find(&self, manager: &Manager) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.manager.is(manager))
    }

    /// Returns all fields that other managers own.
    pub(super) fn others(&self, manager: &Manager) -> Fields {
        let mut all = Fields::default();
        self.0.iter().filter(|entry| !entry.manager.is(manager)).for_each(|entry| all.add(&entry.fields));
        all
    }

    /// Returns the fields that a change writes and that other managers own, grouped by manager.
    pub(super) fn conflicts(&self, manager: &Manager, changes: &Changes) -> Vec<(&Manager, Fields)> {
        let others = self.0.iter().filter(|entry| !entry.manager.is(manager));
        let touched = others.map(|entry| (&entry.manager, entry.fields.common(&changes.written)));
        touched.filter(|(_, fields)| !fields.is_empty()).collect()
    }

    /// Returns true if a change writes a field that any manager owns.
    pub(super) fn owns(&self, changes: &Changes) -> bool {
        self.0.iter().any(|entry| !entry.fields.common(&changes.written).is_empty())
    }

    /// Removes, from all entries except the entry of `but`, the fields that a change writes or removes.
    fn lose(&mut self, but: Option<&Manager>, changes: &Changes) {
        for entry in &mut self.0 {
            if but.is_none_or(|manager| !entry.manager.is(manager)) {
                entry.fields.subtract(&changes.written);
                entry.fields.subtract(&changes.removed);
            }
        }
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// Records the changes of an update.
    pub(super) fn update(&mut self, manager: Manager, changes: &Changes, now: &str) {
        let before = self.find(&manager).cloned();
        self.lose(None, changes);
        let mut fields = changes.written.clone();
        strip(&mut fields);
        if !fields.is_empty() {
            if let Some(before) = before {
                fields.add(&before.fields);
                fields.subtract(&changes.removed);
            }
            self.set(Entry { manager, time: now.to_owned(), fields });
        }
        self.cap();
    }

    /// Records an apply of `fields`, and the changes that it made. `now` is `None` if the object did not change.
    pub(super) fn apply(
        &mut self,
        manager: Manager,
        mut fields: Fields,
        changes: &Changes,
        now: Option<&str>,
    ) {
        let before = self.find(&manager).map(|entry| entry.time.clone()).unwrap_or_default();
        self.lose(Some(&manager), changes);
        strip(&mut fields);
        self.set(Entry { manager, time: now.map_or(before, str::to_owned), fields });
    }

    fn set(&mut self, entry: Entry) {
        self.0.retain(|other| !other.manager.is(&entry.manager));
        if !entry.fields.is_empty() {
            self.0.push(entry);
        }
    }

    /// If there are too many update entries, merges the oldest ones that have the same API version.
    fn cap(&mut self) {
        let updates = self.0.iter().filter(|entry| !entry.manager.applies).count();
        let mut too_many = updates.saturating_sub(MOST_UPDATES);
        if too_many == 0 {
            return;
        }
        self.0.sort_by(|a, b| a.order().cmp(&b.order()));
        let mut kept: Vec<Entry> = Vec::new();
        for mut entry in std::mem::take(&mut self.0) {
            let older = kept
                .iter_mut()
                .find(|older| !older.manager.applies && older.manager.version == entry.manager.version);
            match older {
                Some(older) if too_many > 0 && !entry.manager.applies => {
                    too_many -= 1;
                    older.manager.name = ANCIENT.to_owned();
                    older.manager.subresource.clear();
                    older.time = std::mem::take(&mut entry.time);
                    older.fields.add(&entry.fields);
                }
                _ => kept.push(entry),
            }
        }
        self.0 = kept;
    }
}

impl Entry {
    fn read(entry: &Value) -> Option<Self> {
        let applies = match text(entry, "/operation") {
            "Apply" => true,
            "Update" => false,
            _ => return None,
        };
        let said = |pointer| text(entry, pointer).to_owned();
        let version = Some(said("/apiVersion")).filter(|version| !version.is_empty())?;
        let fields = Some(entry).filter(|entry| text(entry, "/fieldsType") == "FieldsV1")?.get("fieldsV1");
        Some(Self {
            manager: Manager { name: said("/manager"), applies, version, subresource: said("/subresource") },
            time: said("/time"),
            fields: fields.map_or(Some(Fields::default()), Fields::parse)?,
        })
    }

    fn json(&self) -> Value {
        let Manager { name, applies, version, subresource } = &self.manager;
        let mut entry = json!({
            "manager": name,
            "operation": if *applies { "Apply" } else { "Update" },
            "apiVersion": version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.json(),
        });
        for (field, value) in [("time", &self.time), ("subresource", subresource)] {
            if !value.is_empty() {
                entry[field] = value.as_str().into();
            }
        }
        entry
    }

    fn order(&self) -> (bool, &str, &str, &str, &str) {
        let Manager { name, applies, version, subresource } = &self.manager;
        (!applies, &self.time, name, version, subresource)
    }
}

/// Removes from a set the fields that belong to the server.
fn strip(fields: &mut Fields) {
    for name in ["apiVersion", "kind"] {
        fields.cut(&super::fields::field(name));
    }
    let at = super::fields::field("metadata");
    if let Some(metadata) = fields.below.get_mut(&at) {
        metadata.own = false;
        for name in [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
        ] {
            metadata.cut(&super::fields::field(name));
        }
        if metadata.is_empty() {
            fields.cut(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(name: &str, applies: bool) -> Manager {
        Manager { name: name.to_owned(), applies, version: "v1".to_owned(), subresource: String::new() }
    }

    fn written(name: &str) -> Changes {
        let mut changes = Changes::default();
        changes.written.insert(&["f:data".to_owned(), format!("f:{name}")]);
        changes
    }

    fn names(managers: &Managers) -> Vec<&str> {
        managers.0.iter().map(|entry| entry.manager.name.as_str()).collect()
    }

    #[test]
    fn entries_that_are_read_are_written_unchanged() {
        let told = json!({"metadata": {"managedFields": [
            {"manager": "b", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-02T00:00:00Z",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:x": {}}}},
            {"manager": "a", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {}}, "subresource": "status"},
        ]}});
        let mut object = json!({"metadata": {}});
        Managers::read(&told).write(&mut object);
        assert_eq!(object, told);
        let mut broken = told;
        broken["metadata"]["managedFields"][0]["operation"] = "Guess".into();
        assert!(Managers::read(&broken).is_empty());
    }

    #[test]
    fn a_writer_takes_a_field_from_all_other_managers() {
        let mut managers = Managers::default();
        managers.apply(manager("a", true), written("x").written, &written("x"), Some("1"));
        managers.update(manager("b", false), &written("x"), "2");
        assert_eq!(names(&managers), ["b"]);
        managers.update(manager("b", false), &written("y"), "3");
        assert_eq!(managers.0[0].fields.paths(), [".data.x", ".data.y"]);
        let gone = Changes { removed: written("x").written, ..Changes::default() };
        managers.update(manager("c", false), &gone, "4");
        assert_eq!(managers.0[0].fields.paths(), [".data.y"]);
    }

    #[test]
    fn the_oldest_of_too_many_updates_are_merged() {
        let mut managers = Managers::default();
        managers.apply(manager("z", true), written("z").written, &written("z"), Some("0"));
        for number in 10..24 {
            let name = number.to_string();
            managers.update(manager(&name, false), &written(&name), &name);
        }
        let ancient = managers.0.iter().find(|entry| entry.manager.name == ANCIENT).unwrap();
        assert_eq!(ancient.fields.paths(), [".data.10", ".data.11", ".data.12", ".data.13", ".data.14"]);
        assert_eq!((managers.0.len(), ancient.time.as_str()), (MOST_UPDATES + 1, "14"));
    }
}
