//! A page that is open in a browser.

use std::fs;

use harbormaster_oracle::components::{Browser, Key};
use serde_json::Value;
use tempfile::TempDir;

/// A browser with a page.
pub(super) struct Opened {
    pub(super) browser: Browser,
    url: String,
    /// The folder of the page's file, which is removed at the end.
    _folder: Option<TempDir>,
}

impl Opened {
    /// Opens a page from a file.
    pub(super) fn new(html: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("page.html");
        fs::write(&file, html).expect("the page is written");
        let opened = Self::at(&format!("file://{}", file.display()));
        Self { _folder: Some(folder), ..opened }
    }

    /// Opens a page from a server.
    pub(super) fn at(url: &str) -> Self {
        let browser = Browser::start(1280, 900).expect("the browser starts");
        let mut opened = Self { browser, url: url.to_owned(), _folder: None };
        opened.open_again();
        opened
    }

    pub(super) fn open_again(&mut self) {
        self.browser.open(&self.url).expect("the page opens");
    }

    pub(super) fn text(&mut self, selector: &str) -> String {
        self.browser.text(selector).expect("the element is there")
    }

    pub(super) fn value(&mut self, expression: &str) -> Value {
        self.browser.evaluate(expression).expect("the expression has a value")
    }

    pub(super) fn wait_for(&mut self, expression: &str) {
        self.browser.wait_for(expression).expect("the expression becomes true");
    }

    pub(super) fn click(&mut self, selector: &str) {
        self.browser.click(selector).expect("the element can be clicked");
    }

    pub(super) fn press(&mut self, keys: &[Key]) {
        keys.iter().for_each(|key| self.browser.press(*key).expect("the key can be pressed"));
    }

    /// Returns the colour of a pixel of the boxes. It is read from a copy, because Chromium warns of frequent reading.
    pub(super) fn pixel(&mut self, x: u32, y: u32) -> Value {
        self.value(&format!(
            "(() => {{ const copy = new OffscreenCanvas(1, 1).getContext('2d', {{willReadFrequently: true}}); \
             copy.drawImage(document.getElementById('boxes'), -{x}, -{y}); \
             return [...copy.getImageData(0, 0, 1, 1).data].join(); }})()"
        ))
    }

    /// Returns the texts of the cells of a table, row by row.
    pub(super) fn rows(&mut self, host: &str) -> Value {
        self.value(&format!(
            "[...document.querySelectorAll('{host} tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
        ))
    }

    /// Returns the names and values of a definition list.
    pub(super) fn facts(&mut self, list: &str) -> Value {
        self.value(&format!(
            "Object.fromEntries([...document.querySelectorAll('{list} dt')].map((name) => [name.innerText, \
             name.nextElementSibling.innerText]))"
        ))
    }

    /// Closes the page.
    ///
    /// # Panics
    /// If the console has shown anything.
    pub(super) fn ends_quietly(mut self) {
        let complaints = self.browser.complaints().expect("the browser answers");
        assert!(complaints.is_empty(), "the console shows {complaints:#?}");
    }
}
