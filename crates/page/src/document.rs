//! The HTML of the page, with its style, its script and perhaps its data.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest::{SHA256, digest};

use crate::scene::Scene;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// The last file begins to run the page, so it must be the last.
const SCRIPT: &str = concat!(include_str!("charts.js"), include_str!("sections.js"), include_str!("page.js"));

/// Places in the template, in their order.
const PLACES: [&str; 4] = ["<!--policy-->", "/*style*/", "/*scene*/", "/*script*/"];

/// A page and its content security policy, which a server sends with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The HTML.
    pub html: String,
    /// Value of the header `Content-Security-Policy`.
    pub policy: String,
}

impl Document {
    /// Returns the page without data: its script fetches them from the server, again and again.
    pub fn live() -> &'static Self {
        static LIVE: LazyLock<Document> = LazyLock::new(|| Document {
            html: filled([String::new(), STYLE.to_owned(), "null".to_owned(), SCRIPT.to_owned()]),
            policy: policy("connect-src 'self'; frame-ancestors 'none'; "),
        });
        &LIVE
    }

    /// Returns the page with its data, for a file. The policy is part of the HTML.
    pub fn with(scene: &Scene) -> Self {
        let policy = policy("");
        let tag = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
        // Otherwise, a name that contains the end tag of a script would end the data.
        let scene = scene.to_json().replace('<', "\\u003c");
        Self { html: filled([tag, STYLE.to_owned(), scene, SCRIPT.to_owned()]), policy }
    }
}

/// Returns the template with a text at each place.
fn filled(texts: [String; 4]) -> String {
    let mut html = String::with_capacity(TEMPLATE.len() + texts.iter().map(String::len).sum::<usize>());
    let mut rest = TEMPLATE;
    for (place, text) in PLACES.into_iter().zip(texts) {
        let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
        html.push_str(before);
        html.push_str(&text);
        rest = after;
    }
    html + rest
}

/// Returns a policy that runs the page's own script and applies its own style, and nothing else.
fn policy(more: &str) -> String {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; {more}base-uri 'none'; \
         form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_every_place_once_and_in_order() {
        let positions: Vec<usize> =
            PLACES.iter().map(|place| TEMPLATE.find(place).expect("the place is there")).collect();
        assert!(positions.is_sorted(), "{positions:?}");
        assert!(PLACES.iter().all(|place| TEMPLATE.matches(place).count() == 1));
    }

    #[test]
    fn the_style_and_the_script_do_not_end_their_elements() {
        assert!(!STYLE.contains("</") && !SCRIPT.contains("</script") && !SCRIPT.contains("<!--"));
    }

    #[test]
    fn data_cannot_end_their_element() {
        let title = "</script><script>alert(1)</script>/*script*/".to_owned();
        let page = Document::with(&Scene { title, ..Scene::default() });
        assert_eq!(page.html.matches("<script").count(), 2, "one for the data, one for the script");
        assert!(page.html.contains(r"\u003c/script>\u003cscript>alert(1)"));
    }

    #[test]
    fn the_page_names_no_other_server() {
        let html = &Document::live().html;
        let names = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!names.contains("http:") && !names.contains("https:") && !names.contains("//cdn"));
    }
}
