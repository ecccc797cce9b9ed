//! The listing of the API that plugin authors rely on: paths, then definitions.

use std::{collections::BTreeMap, fmt::Write as _};

use quote::ToTokens;
use syn::{Attribute, Fields, FnArg, ImplItem, Item, ReturnType, Signature, TraitItem, Type, Visibility};

use super::sources::{Meaning, ModulePath, Sources, named};

/// Returns everything that can be imported from a crate of the workspace, as text.
pub(crate) fn surface(name: &str) -> String {
    let sources = Sources::read();
    let mut paths = BTreeMap::new();
    walk(&sources, &[name.to_owned()], name, &mut paths);
    let mut text = String::new();
    for (path, meaning) in &paths {
        let _ = writeln!(text, "{path} = {}", full(meaning));
    }
    let mut definitions: Vec<&Meaning> = paths.values().collect();
    definitions.sort();
    definitions.dedup();
    for meaning in definitions {
        if let Meaning::Item(module, name) = meaning {
            let _ = write!(text, "\n{}", definition(&sources, module, name));
        }
    }
    text
}

fn walk(sources: &Sources, module: &[String], path: &str, paths: &mut BTreeMap<String, Meaning>) {
    for (name, meaning) in sources.exports(module) {
        let path = format!("{path}::{name}");
        match &meaning {
            Meaning::Module(inner) => walk(sources, inner, &path, paths),
            _ => {
                paths.insert(path, meaning);
            }
        }
    }
}

fn full(meaning: &Meaning) -> String {
    match meaning {
        Meaning::Module(path) => path.join("::"),
        Meaning::Item(module, name) => format!("{}::{name}", module.join("::")),
        Meaning::Foreign(path) => path.clone(),
    }
}

/// Returns the public parts of an item, one per line.
fn definition(sources: &Sources, module: &ModulePath, name: &str) -> String {
    let path = format!("{}::{name}", module.join("::"));
    let is_it = |item: &&Item| named(item).is_some_and(|(it, _)| it == name);
    let (head, mut lines) = match sources.items(module).iter().find(is_it) {
        Some(item) => described(item, &path),
        None => (format!("{path}, which a macro makes"), Vec::new()),
    };
    lines.extend(implementations(sources, module, name));
    let lines: String = lines.into_iter().map(|line| format!("  {line}\n")).collect();
    format!("{head}\n{lines}")
}

fn described(item: &Item, path: &str) -> (String, Vec<String>) {
    match item {
        Item::Struct(it) => (
            format!("struct {path}{}", text(&it.generics)),
            [derived(&it.attrs), fields(&it.fields, true)].concat(),
        ),
        Item::Enum(it) => {
            let variants = it.variants.iter().map(|variant| {
                let fields = fields(&variant.fields, false).join(", ");
                if fields.is_empty() {
                    variant.ident.to_string()
                } else {
                    format!("{}: {fields}", variant.ident)
                }
            });
            (format!("enum {path}{}", text(&it.generics)), [derived(&it.attrs), variants.collect()].concat())
        }
        Item::Trait(it) => {
            let bounds = match it.supertraits.is_empty() {
                true => String::new(),
                false => format!(": {}", text(&it.supertraits)),
            };
            (
                format!("trait {path}{}{bounds}", text(&it.generics)),
                it.items.iter().filter_map(of_trait).collect(),
            )
        }
        Item::Fn(it) => (format!("fn {path}: {}", signature(&it.sig)), Vec::new()),
        Item::Const(it) => (format!("const {path}: {}", text(&it.ty)), Vec::new()),
        Item::Static(it) => (format!("static {path}: {}", text(&it.ty)), Vec::new()),
        Item::Type(it) => (format!("type {path}{} = {}", text(&it.generics), text(&it.ty)), Vec::new()),
        _ => (path.to_owned(), Vec::new()),
    }
}

/// Returns the public fields. Fields of variants are always public.
fn fields(fields: &Fields, say_pub: bool) -> Vec<String> {
    let visible = |visibility: &Visibility| !say_pub || matches!(visibility, Visibility::Public(_));
    let word = if say_pub { "pub " } else { "" };
    let shown = fields.iter().enumerate().filter(|(_, field)| visible(&field.vis));
    shown
        .map(|(at, field)| match &field.ident {
            Some(name) => format!("{word}{name}: {}", text(&field.ty)),
            None => format!("{word}{at}: {}", text(&field.ty)),
        })
        .collect()
}

fn derived(attributes: &[Attribute]) -> Vec<String> {
    let derives = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    let lists = derives.filter_map(|attribute| attribute.meta.require_list().ok());
    lists.map(|list| format!("derive({})", text(&list.tokens))).collect()
}

fn of_trait(item: &TraitItem) -> Option<String> {
    let with = |has_default: bool| if has_default { "provided" } else { "required" };
    Some(match item {
        TraitItem::Fn(it) => {
            format!("{} fn {}: {}", with(it.default.is_some()), it.sig.ident, signature(&it.sig))
        }
        TraitItem::Const(it) => {
            format!("{} const {}: {}", with(it.default.is_some()), it.ident, text(&it.ty))
        }
        TraitItem::Type(it) => format!("required type {}: {}", it.ident, text(&it.bounds)),
        _ => return None,
    })
}

/// Returns an item's public methods and implemented traits, wherever they are in the crate.
fn implementations(sources: &Sources, module: &ModulePath, name: &str) -> Vec<String> {
    let wanted = Meaning::Item(module.clone(), name.to_owned());
    let mut lines = Vec::new();
    for (home, items) in sources.modules_of(&module[0]) {
        for item in items {
            let Item::Impl(it) = item else { continue };
            let Type::Path(of) = it.self_ty.as_ref() else { continue };
            let path: Vec<String> =
                of.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            if path.last().is_none_or(|last| last != name)
                || sources.resolve(home, &path) != Some(wanted.clone())
            {
                continue;
            }
            match &it.trait_ {
                Some((implemented, _)) => lines.push(format!("impl {}", text(implemented))),
                None => lines.extend(it.items.iter().filter_map(method)),
            }
        }
    }
    lines.sort();
    lines
}

fn method(item: &ImplItem) -> Option<String> {
    match item {
        ImplItem::Fn(it) if matches!(it.vis, Visibility::Public(_)) => {
            let words = if it.sig.asyncness.is_some() { "pub async fn" } else { "pub fn" };
            Some(format!("{words} {}{}", it.sig.ident, signature(&it.sig)))
        }
        ImplItem::Const(it) if matches!(it.vis, Visibility::Public(_)) => {
            Some(format!("pub const {}: {}", it.ident, text(&it.ty)))
        }
        _ => None,
    }
}

/// Returns the signature with types only, because the names of arguments may change freely.
fn signature(signature: &Signature) -> String {
    let inputs: Vec<String> = signature
        .inputs
        .iter()
        .map(|input| match input {
            FnArg::Receiver(receiver) => text(receiver),
            FnArg::Typed(typed) => text(&typed.ty),
        })
        .collect();
    let output = match &signature.output {
        ReturnType::Default => String::new(),
        ReturnType::Type(_, ty) => format!(" -> {}", text(ty)),
    };
    let bounds =
        signature.generics.where_clause.as_ref().map_or(String::new(), |it| format!(" {}", text(it)));
    format!("{}({}){output}{bounds}", text(&signature.generics), inputs.join(", "))
}

/// Returns tokens with the spacing of ordinary code.
fn text(tokens: &impl ToTokens) -> String {
    let mut text = quote::quote!(#tokens).to_string();
    for (from, to) in [
        (" ::", "::"),
        (":: ", "::"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        ("& ", "&"),
        ("' ", "'"),
        (" ,", ","),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" :", ":"),
        ("[ ", "["),
        (" ]", "]"),
        (" ;", ";"),
        (",>", ">"),
        (",)", ")"),
    ] {
        text = text.replace(from, to);
    }
    text.replace("=(", "= (").replace("->(", "-> (")
}
