//! Functions of lists and sets.

use super::{Binding, Function, declared_member, function, global, member};
use crate::{
    library::{lists, sets},
    signature::Sig::{self, Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint},
    value::Traits,
};

const LIST_OF_T: Sig = Sig::List(&Sig::Param("T"));
const LIST_OF_LISTS: Sig = Sig::List(&LIST_OF_T);
const LIST_OF_ANYTHING: Sig = Sig::List(&Sig::Dyn);
const INTS: Sig = Sig::List(&Int);
const UINTS: Sig = Sig::List(&Uint);
const DOUBLES: Sig = Sig::List(&Double);
const BOOLS: Sig = Sig::List(&Bool);
const DURATIONS: Sig = Sig::List(&Duration);
const TIMESTAMPS: Sig = Sig::List(&Timestamp);
const STRINGS: Sig = Sig::List(&String);
const ALL_BYTES: Sig = Sig::List(&Bytes);

pub(super) static FUNCTIONS: &[Function] = &[
    function(
        "isSorted",
        &[
            member("list_int_is_sorted_bool", &[INTS], Bool, lists::is_sorted),
            member("list_uint_is_sorted_bool", &[UINTS], Bool, lists::is_sorted),
            member("list_double_is_sorted_bool", &[DOUBLES], Bool, lists::is_sorted),
            member("list_bool_is_sorted_bool", &[BOOLS], Bool, lists::is_sorted),
            member("list_duration_is_sorted_bool", &[DURATIONS], Bool, lists::is_sorted),
            member("list_timestamp_is_sorted_bool", &[TIMESTAMPS], Bool, lists::is_sorted),
            member("list_string_is_sorted_bool", &[STRINGS], Bool, lists::is_sorted),
            member("list_bytes_is_sorted_bool", &[ALL_BYTES], Bool, lists::is_sorted),
        ],
    ),
    function(
        "sum",
        &[
            member("list_int_sum_int", &[INTS], Int, lists::sum_ints),
            member("list_uint_sum_uint", &[UINTS], Uint, lists::sum_uints),
            member("list_double_sum_double", &[DOUBLES], Double, lists::sum_doubles),
            member("list_duration_sum_duration", &[DURATIONS], Duration, lists::sum_durations),
        ],
    ),
    function(
        "max",
        &[
            member("list_int_max_int", &[INTS], Int, lists::max),
            member("list_uint_max_uint", &[UINTS], Uint, lists::max),
            member("list_double_max_double", &[DOUBLES], Double, lists::max),
            member("list_bool_max_bool", &[BOOLS], Bool, lists::max),
            member("list_duration_max_duration", &[DURATIONS], Duration, lists::max),
            member("list_timestamp_max_timestamp", &[TIMESTAMPS], Timestamp, lists::max),
            member("list_string_max_string", &[STRINGS], String, lists::max),
            member("list_bytes_max_bytes", &[ALL_BYTES], Bytes, lists::max),
        ],
    ),
    function(
        "min",
        &[
            member("list_int_min_int", &[INTS], Int, lists::min),
            member("list_uint_min_uint", &[UINTS], Uint, lists::min),
            member("list_double_min_double", &[DOUBLES], Double, lists::min),
            member("list_bool_min_bool", &[BOOLS], Bool, lists::min),
            member("list_duration_min_duration", &[DURATIONS], Duration, lists::min),
            member("list_timestamp_min_timestamp", &[TIMESTAMPS], Timestamp, lists::min),
            member("list_string_min_string", &[STRINGS], String, lists::min),
            member("list_bytes_min_bytes", &[ALL_BYTES], Bytes, lists::min),
        ],
    ),
    function("slice", &[member("list_slice", &[LIST_OF_T, Int, Int], LIST_OF_T, lists::slice)]),
    Function {
        name: "flatten",
        overloads: &[
            member("list_flatten", &[LIST_OF_LISTS], LIST_OF_T, lists::flatten),
            member("list_flatten_int", &[LIST_OF_ANYTHING, Int], LIST_OF_ANYTHING, lists::flatten),
        ],
        binding: Binding::Unguarded,
    },
    Function {
        name: "sort",
        overloads: &[
            declared_member("list_int_sort", &[INTS], INTS),
            declared_member("list_uint_sort", &[UINTS], UINTS),
            declared_member("list_double_sort", &[DOUBLES], DOUBLES),
            declared_member("list_bool_sort", &[BOOLS], BOOLS),
            declared_member("list_google.protobuf.Duration_sort", &[DURATIONS], DURATIONS),
            declared_member("list_google.protobuf.Timestamp_sort", &[TIMESTAMPS], TIMESTAMPS),
            declared_member("list_string_sort", &[STRINGS], STRINGS),
            declared_member("list_bytes_sort", &[ALL_BYTES], ALL_BYTES),
        ],
        binding: Binding::Single(lists::sort, Traits::LISTER),
    },
    Function {
        name: "@sortByAssociatedKeys",
        overloads: &[
            declared_member("list_int_sortByAssociatedKeys", &[LIST_OF_T, INTS], LIST_OF_T),
            declared_member("list_uint_sortByAssociatedKeys", &[LIST_OF_T, UINTS], LIST_OF_T),
            declared_member("list_double_sortByAssociatedKeys", &[LIST_OF_T, DOUBLES], LIST_OF_T),
            declared_member("list_bool_sortByAssociatedKeys", &[LIST_OF_T, BOOLS], LIST_OF_T),
            declared_member(
                "list_google.protobuf.Duration_sortByAssociatedKeys",
                &[LIST_OF_T, DURATIONS],
                LIST_OF_T,
            ),
            declared_member(
                "list_google.protobuf.Timestamp_sortByAssociatedKeys",
                &[LIST_OF_T, TIMESTAMPS],
                LIST_OF_T,
            ),
            declared_member("list_string_sortByAssociatedKeys", &[LIST_OF_T, STRINGS], LIST_OF_T),
            declared_member("list_bytes_sortByAssociatedKeys", &[LIST_OF_T, ALL_BYTES], LIST_OF_T),
        ],
        binding: Binding::Single(lists::sort_by_keys, Traits::LISTER),
    },
    function("lists.range", &[global("lists_range", &[Int], INTS, lists::range)]),
    function("reverse", &[member("list_reverse", &[LIST_OF_T], LIST_OF_T, lists::reverse)]),
    function("distinct", &[member("list_distinct", &[LIST_OF_T], LIST_OF_T, lists::distinct)]),
    function(
        "sets.contains",
        &[global("list_sets_contains_list", &[LIST_OF_T, LIST_OF_T], Bool, sets::contains)],
    ),
    function(
        "sets.equivalent",
        &[global("list_sets_equivalent_list", &[LIST_OF_T, LIST_OF_T], Bool, sets::equivalent)],
    ),
    function(
        "sets.intersects",
        &[global("list_sets_intersects_list", &[LIST_OF_T, LIST_OF_T], Bool, sets::intersects)],
    ),
];
