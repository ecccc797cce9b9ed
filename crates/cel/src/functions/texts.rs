//! Functions of strings, including patterns and formats.

use super::{Function, LIST_OF_STRINGS, Overload, function, global, member};
use crate::{
    library::{format, strings},
    signature::Sig::{self, Int, String},
};

const LIST_OF_ANYTHING: Sig = Sig::List(&Sig::Dyn);

pub(super) static FUNCTIONS: &[Function] = &[
    function("charAt", &[member("string_char_at_int", &[String, Int], String, strings::char_at)]),
    function(
        "indexOf",
        &[
            member(
                "list_a_index_of_int",
                &[super::LIST_OF_A, super::A],
                Int,
                crate::library::lists::index_of,
            ),
            member("string_index_of_string", &[String, String], Int, strings::index_of),
            member("string_index_of_string_int", &[String, String, Int], Int, strings::index_of),
        ],
    ),
    function(
        "lastIndexOf",
        &[
            member(
                "list_a_last_index_of_int",
                &[super::LIST_OF_A, super::A],
                Int,
                crate::library::lists::last_index_of,
            ),
            member("string_last_index_of_string", &[String, String], Int, strings::last_index_of),
            member("string_last_index_of_string_int", &[String, String, Int], Int, strings::last_index_of),
        ],
    ),
    function("lowerAscii", &[member("string_lower_ascii", &[String], String, strings::lower_ascii)]),
    function("upperAscii", &[member("string_upper_ascii", &[String], String, strings::upper_ascii)]),
    function(
        "replace",
        &[
            member("string_replace_string_string", &[String, String, String], String, strings::replace),
            member(
                "string_replace_string_string_int",
                &[String, String, String, Int],
                String,
                strings::replace,
            ),
        ],
    ),
    function(
        "split",
        &[
            member("string_split_string", &[String, String], LIST_OF_STRINGS, strings::split),
            member("string_split_string_int", &[String, String, Int], LIST_OF_STRINGS, strings::split),
        ],
    ),
    function(
        "substring",
        &[
            member("string_substring_int", &[String, Int], String, strings::substring),
            member("string_substring_int_int", &[String, Int, Int], String, strings::substring),
        ],
    ),
    function("trim", &[member("string_trim", &[String], String, strings::trim)]),
    function(
        "format",
        &[Overload {
            stops_at_error: true,
            ..member("string_format", &[String, LIST_OF_ANYTHING], String, format::format)
        }],
    ),
    function("strings.quote", &[global("strings_quote", &[String], String, strings::quote)]),
    function(
        "join",
        &[
            member("list_join", &[LIST_OF_STRINGS], String, strings::join),
            member("list_join_string", &[LIST_OF_STRINGS, String], String, strings::join),
        ],
    ),
    function("find", &[member("string_find_string", &[String, String], String, strings::find)]),
    function(
        "findAll",
        &[
            member("string_find_all_string", &[String, String], LIST_OF_STRINGS, strings::find_all),
            member("string_find_all_string_int", &[String, String, Int], LIST_OF_STRINGS, strings::find_all),
        ],
    ),
];
