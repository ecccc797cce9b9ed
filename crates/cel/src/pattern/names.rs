//! Names of sets of characters.

/// Categories and their long names.
const CATEGORIES: [(&str, &str); 41] = [
    ("C", "Other"),
    ("Cc", "Control"),
    ("Cf", "Format"),
    ("Cn", "Unassigned"),
    ("Co", "Privateuse"),
    ("Cs", "Surrogate"),
    ("L", "Letter"),
    ("LC", "Casedletter"),
    ("Ll", "Lowercaseletter"),
    ("Lm", "Modifierletter"),
    ("Lo", "Otherletter"),
    ("Lt", "Titlecaseletter"),
    ("Lu", "Uppercaseletter"),
    ("M", "Mark"),
    ("M", "Combiningmark"),
    ("Mc", "Spacingmark"),
    ("Me", "Enclosingmark"),
    ("Mn", "Nonspacingmark"),
    ("N", "Number"),
    ("Nd", "Decimalnumber"),
    ("Nd", "Digit"),
    ("Nl", "Letternumber"),
    ("No", "Othernumber"),
    ("P", "Punctuation"),
    ("P", "Punct"),
    ("Pc", "Connectorpunctuation"),
    ("Pd", "Dashpunctuation"),
    ("Pe", "Closepunctuation"),
    ("Pf", "Finalpunctuation"),
    ("Pi", "Initialpunctuation"),
    ("Po", "Otherpunctuation"),
    ("Ps", "Openpunctuation"),
    ("S", "Symbol"),
    ("Sc", "Currencysymbol"),
    ("Sk", "Modifiersymbol"),
    ("Sm", "Mathsymbol"),
    ("So", "Othersymbol"),
    ("Z", "Separator"),
    ("Zl", "Lineseparator"),
    ("Zp", "Paragraphseparator"),
    ("Zs", "Spaceseparator"),
];

/// Scripts. Go does not find those whose names have several words.
const SCRIPTS: &str = "Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi \
    Braille Buginese Buhid Carian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cyrillic Deseret \
    Devanagari Dogra Duployan Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han \
    Hangul Hanunoo Hatran Hebrew Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki \
    Khudawadi Lao Latin Lepcha Limbu Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen \
    Medefaidrin Miao Modi Mongolian Mro Multani Myanmar Nabataean Nandinagari Newa Nko Nushu Ogham Oriya Osage \
    Osmanya Palmyrene Phoenician Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo \
    Sundanese Syriac Tagalog Tagbanwa Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto \
    Ugaritic Vai Vithkuqi Wancho Yezidi Yi";

/// Returns the set of characters that Go calls `name`, in a form that can be used inside brackets.
pub(super) fn set(name: &str) -> Option<String> {
    let name = canonical(name);
    let name = name.as_str();
    if matches!(name, "Any" | "Assigned" | "Ascii") {
        return Some(format!("\\p{{{name}}}"));
    }
    if matches!(name, "Cs" | "Surrogate") {
        // Texts do not contain surrogates, so the set is empty.
        return Some("[^\\x00-\\x{10FFFF}]".to_owned());
    }
    let category = CATEGORIES.iter().find(|(short, long)| short.eq_ignore_ascii_case(name) || *long == name);
    if let Some((short, _)) = category {
        return Some(format!("\\p{{gc={short}}}"));
    }
    SCRIPTS.split_whitespace().find(|script| *script == name).map(|script| format!("\\p{{sc={script}}}"))
}

/// Writes a name with one capital letter at its beginning, and without separators.
fn canonical(name: &str) -> String {
    let mut canonical = String::with_capacity(name.len());
    for c in name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')) {
        let is_first = canonical.is_empty();
        canonical.push(if is_first { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() });
    }
    canonical
}
