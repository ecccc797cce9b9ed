//! The sources of the workspace's crates as trees of modules, with name resolution.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use syn::{Item, ItemUse, UseTree, Visibility};

/// Path of a module: its crate, then the names of the modules that lead to it.
pub(crate) type ModulePath = Vec<String>;

/// Result of resolving a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Meaning {
    Module(ModulePath),
    /// An item written in the given module, or generated there by a macro.
    Item(ModulePath, String),
    /// Another crate, or an item in it.
    Foreign(String),
}

/// A name imported by a `use`, or `None` for a glob import.
struct Import {
    name: Option<String>,
    path: Vec<String>,
    is_public: bool,
}

/// All library crates in `crates/`, by the name under which they are imported.
pub(crate) struct Sources {
    modules: BTreeMap<ModulePath, Vec<Item>>,
}

impl Sources {
    pub(crate) fn read() -> Self {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut sources = Self { modules: BTreeMap::new() };
        for entry in fs::read_dir(crates).expect("the crates can be listed") {
            let directory = entry.expect("the crates can be listed").path();
            let root = directory.join("src/lib.rs");
            let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = if name == "harbormaster" { name } else { format!("harbormaster_{name}") };
            if root.is_file() {
                sources.read_file(vec![name], &root, &directory.join("src"));
            }
        }
        sources
    }

    fn read_file(&mut self, module: ModulePath, file: &Path, children: &Path) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        self.add(module, parsed.items, children);
    }

    /// Adds a module and its submodules, whose files are in the directory `children`.
    fn add(&mut self, module: ModulePath, items: Vec<Item>, children: &Path) {
        let items: Vec<Item> = items.into_iter().filter(|item| !is_for_tests(item)).collect();
        for item in &items {
            let Item::Mod(child) = item else { continue };
            let name = child.ident.to_string();
            let path = [module.clone(), vec![name.clone()]].concat();
            let below = children.join(&name);
            match &child.content {
                Some((_, items)) => self.add(path, items.clone(), &below),
                None => self.read_file(path, &file_of(children, &name), &below),
            }
        }
        self.modules.insert(module, items);
    }

    pub(crate) fn items(&self, module: &[String]) -> &[Item] {
        self.modules.get(module).map_or(&[], Vec::as_slice)
    }

    /// Returns all modules of a crate with their items.
    pub(crate) fn modules_of<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a ModulePath, &'a Vec<Item>)> {
        self.modules.iter().filter(move |(path, _)| path[0] == name)
    }

    /// Returns the names that others can import from a module.
    pub(crate) fn exports(&self, module: &[String]) -> Vec<(String, Meaning)> {
        let mut found = Vec::new();
        for item in self.items(module) {
            if let Some((name, visibility)) = named(item)
                && matches!(visibility, Visibility::Public(_))
            {
                found.push((name.clone(), self.written(module, &name, item)));
            }
        }
        for import in self.imports(module).into_iter().filter(|import| import.is_public) {
            match (import.name, self.resolve(module, &import.path)) {
                (Some(name), Some(meaning)) => found.push((name, meaning)),
                (None, Some(Meaning::Module(all))) => found.extend(self.exports(&all)),
                (_, meaning) => panic!("{module:?}: `use {:?}` means {meaning:?}", import.path),
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// Resolves a path in a module.
    pub(crate) fn resolve(&self, module: &[String], path: &[String]) -> Option<Meaning> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Meaning::Module(vec![module[0].clone()]),
            "self" => Meaning::Module(module.to_vec()),
            "super" => Meaning::Module(module[..module.len() - 1].to_vec()),
            name if self.modules.contains_key(&path[..1]) => Meaning::Module(vec![name.to_owned()]),
            name => {
                let named = self.named_in(module, name).or_else(|| self.through_globs(module, name));
                named.unwrap_or_else(|| Meaning::Foreign(name.to_owned()))
            }
        };
        rest.iter().try_fold(start, |at, name| match at {
            Meaning::Module(inner) => {
                Some(self.named_in(&inner, name).unwrap_or(Meaning::Item(inner, name.clone())))
            }
            Meaning::Foreign(path) => Some(Meaning::Foreign(format!("{path}::{name}"))),
            // The name is a variant or an associated item.
            Meaning::Item(..) => None,
        })
    }

    /// Resolves a name that the module itself defines or imports.
    fn named_in(&self, module: &[String], name: &str) -> Option<Meaning> {
        let is_it = |item: &&Item| named(item).is_some_and(|(it, _)| it == name);
        if let Some(item) = self.items(module).iter().find(is_it) {
            return Some(self.written(module, name, item));
        }
        let imports = self.imports(module);
        let import = imports.iter().find(|import| import.name.as_deref() == Some(name))?;
        // The path may be the name of a crate.
        if import.path == [name] { None } else { self.resolve(module, &import.path) }
    }

    /// Resolves a name that a module imports by a glob. Paths of glob imports are expected to begin with a crate,
    /// `self` or `super`.
    fn through_globs(&self, module: &[String], name: &str) -> Option<Meaning> {
        let imports = self.imports(module);
        let globs = imports.iter().filter(|import| import.name.is_none());
        let known = globs.filter(|import| {
            let first = &import.path[..1];
            ["crate", "self", "super"].contains(&first[0].as_str()) || self.modules.contains_key(first)
        });
        known.into_iter().find_map(|import| match self.resolve(module, &import.path)? {
            Meaning::Module(all) => self.named_in(&all, name).or_else(|| {
                self.exports(&all).into_iter().find(|(it, _)| it == name).map(|(_, meaning)| meaning)
            }),
            _ => None,
        })
    }

    fn written(&self, module: &[String], name: &str, item: &Item) -> Meaning {
        match item {
            Item::Mod(_) => Meaning::Module([module, &[name.to_owned()]].concat()),
            _ => Meaning::Item(module.to_vec(), name.to_owned()),
        }
    }

    fn imports(&self, module: &[String]) -> Vec<Import> {
        let mut found = Vec::new();
        for item in self.items(module) {
            if let Item::Use(ItemUse { tree, vis, .. }) = item {
                flatten(tree, Vec::new(), matches!(vis, Visibility::Public(_)), &mut found);
            }
        }
        found
    }
}

/// Returns the module's file, which is in one of two possible places.
fn file_of(children: &Path, name: &str) -> PathBuf {
    let file = children.join(format!("{name}.rs"));
    if file.is_file() { file } else { children.join(name).join("mod.rs") }
}

fn flatten(tree: &UseTree, mut path: Vec<String>, is_public: bool, found: &mut Vec<Import>) {
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            flatten(&step.tree, path, is_public, found);
        }
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, path.clone(), is_public, found));
        }
        UseTree::Glob(_) => found.push(Import { name: None, path, is_public }),
        UseTree::Name(name) if name.ident == "self" => {
            found.push(Import { name: path.last().cloned(), path, is_public });
        }
        UseTree::Name(name) => {
            path.push(name.ident.to_string());
            found.push(Import { name: Some(name.ident.to_string()), path, is_public });
        }
        UseTree::Rename(rename) => {
            path.push(rename.ident.to_string());
            found.push(Import { name: Some(rename.rename.to_string()), path, is_public });
        }
    }
}

/// Returns the name and visibility of an item, if it has a name.
pub(crate) fn named(item: &Item) -> Option<(String, &Visibility)> {
    let (name, visibility) = match item {
        Item::Const(it) => (&it.ident, &it.vis),
        Item::Enum(it) => (&it.ident, &it.vis),
        Item::Fn(it) => (&it.sig.ident, &it.vis),
        Item::Mod(it) => (&it.ident, &it.vis),
        Item::Static(it) => (&it.ident, &it.vis),
        Item::Struct(it) => (&it.ident, &it.vis),
        Item::Trait(it) => (&it.ident, &it.vis),
        Item::Type(it) => (&it.ident, &it.vis),
        Item::Union(it) => (&it.ident, &it.vis),
        _ => return None,
    };
    Some((name.to_string(), visibility))
}

fn is_for_tests(item: &Item) -> bool {
    let attributes = match item {
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        let text = quote::quote!(#attribute).to_string();
        text.contains("cfg (test)") || text.contains("cfg (doctest)")
    })
}
