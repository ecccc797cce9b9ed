//! Operators.

use super::{A, B, Binding, Function, LIST_OF_A, MAP_OF_AB, Overload, declared, function, global};
use crate::{
    library::arithmetic,
    signature::Sig::{self, Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint},
    value::Traits,
};

const OPTIONAL_LIST: Sig = Sig::Optional(&Sig::List(&Sig::Param("V")));
const OPTIONAL_MAP: Sig = Sig::Optional(&Sig::Map(&Sig::Param("K"), &Sig::Param("V")));
const OPTIONAL_V: Sig = Sig::Optional(&Sig::Param("V"));
const LIST_OF_V: Sig = Sig::List(&Sig::Param("V"));
const MAP_OF_KV: Sig = Sig::Map(&Sig::Param("K"), &Sig::Param("V"));
const K: Sig = Sig::Param("K");

/// Overloads of a comparison for all types that have an order.
macro_rules! comparisons {
    ($name:literal) => {
        &[
            declared(concat!($name, "_bool"), &[Bool, Bool], Bool),
            declared(concat!($name, "_int64"), &[Int, Int], Bool),
            declared(concat!($name, "_int64_double"), &[Int, Double], Bool),
            declared(concat!($name, "_int64_uint64"), &[Int, Uint], Bool),
            declared(concat!($name, "_uint64"), &[Uint, Uint], Bool),
            declared(concat!($name, "_uint64_double"), &[Uint, Double], Bool),
            declared(concat!($name, "_uint64_int64"), &[Uint, Int], Bool),
            declared(concat!($name, "_double"), &[Double, Double], Bool),
            declared(concat!($name, "_double_int64"), &[Double, Int], Bool),
            declared(concat!($name, "_double_uint64"), &[Double, Uint], Bool),
            declared(concat!($name, "_string"), &[String, String], Bool),
            declared(concat!($name, "_bytes"), &[Bytes, Bytes], Bool),
            declared(concat!($name, "_timestamp"), &[Timestamp, Timestamp], Bool),
            declared(concat!($name, "_duration"), &[Duration, Duration], Bool),
        ]
    };
}

const fn evaluated(name: &'static str, overloads: &'static [Overload]) -> Function {
    Function { name, overloads, binding: Binding::Evaluator }
}

const fn single(
    name: &'static str,
    op: super::Op,
    traits: Traits,
    overloads: &'static [Overload],
) -> Function {
    Function { name, overloads, binding: Binding::Single(op, traits) }
}

pub(super) static FUNCTIONS: &[Function] = &[
    evaluated("_?_:_", &[declared("conditional", &[Bool, A, A], A)]),
    evaluated("_&&_", &[declared("logical_and", &[Bool, Bool], Bool)]),
    evaluated("_||_", &[declared("logical_or", &[Bool, Bool], Bool)]),
    evaluated("_==_", &[declared("equals", &[A, A], Bool)]),
    evaluated("_!=_", &[declared("not_equals", &[A, A], Bool)]),
    evaluated("@not_strictly_false", &[declared("not_strictly_false", &[Bool], Bool)]),
    evaluated(
        "_[_]",
        &[
            declared("index_list", &[LIST_OF_A, Int], A),
            declared("index_map", &[MAP_OF_AB, A], B),
            declared("optional_list_index_int", &[OPTIONAL_LIST, Int], OPTIONAL_V),
            declared("optional_map_index_value", &[OPTIONAL_MAP, K], OPTIONAL_V),
        ],
    ),
    evaluated(
        "_[?_]",
        &[
            declared("list_optindex_optional_int", &[LIST_OF_V, Int], OPTIONAL_V),
            declared("optional_list_optindex_optional_int", &[OPTIONAL_LIST, Int], OPTIONAL_V),
            declared("map_optindex_optional_value", &[MAP_OF_KV, K], OPTIONAL_V),
            declared("optional_map_optindex_optional_value", &[OPTIONAL_MAP, K], OPTIONAL_V),
        ],
    ),
    evaluated("_?._", &[declared("select_optional_field", &[Sig::Dyn, String], OPTIONAL_V)]),
    single("!_", arithmetic::not, Traits::NONE, &[declared("logical_not", &[Bool], Bool)]),
    single(
        "-_",
        arithmetic::negate,
        Traits::NEGATOR,
        &[declared("negate_double", &[Double], Double), declared("negate_int64", &[Int], Int)],
    ),
    single(
        "_+_",
        arithmetic::add,
        Traits::ADDER,
        &[
            declared("add_bytes", &[Bytes, Bytes], Bytes),
            declared("add_double", &[Double, Double], Double),
            declared("add_duration_duration", &[Duration, Duration], Duration),
            declared("add_duration_timestamp", &[Duration, Timestamp], Timestamp),
            declared("add_timestamp_duration", &[Timestamp, Duration], Timestamp),
            declared("add_int64", &[Int, Int], Int),
            declared("add_list", &[LIST_OF_A, LIST_OF_A], LIST_OF_A),
            declared("add_string", &[String, String], String),
            declared("add_uint64", &[Uint, Uint], Uint),
        ],
    ),
    single(
        "_-_",
        arithmetic::subtract,
        Traits::SUBTRACTOR,
        &[
            declared("subtract_double", &[Double, Double], Double),
            declared("subtract_duration_duration", &[Duration, Duration], Duration),
            declared("subtract_int64", &[Int, Int], Int),
            declared("subtract_timestamp_duration", &[Timestamp, Duration], Timestamp),
            declared("subtract_timestamp_timestamp", &[Timestamp, Timestamp], Duration),
            declared("subtract_uint64", &[Uint, Uint], Uint),
        ],
    ),
    single(
        "_*_",
        arithmetic::multiply,
        Traits::MULTIPLIER,
        &[
            declared("multiply_double", &[Double, Double], Double),
            declared("multiply_int64", &[Int, Int], Int),
            declared("multiply_uint64", &[Uint, Uint], Uint),
        ],
    ),
    single(
        "_/_",
        arithmetic::divide,
        Traits::DIVIDER,
        &[
            declared("divide_double", &[Double, Double], Double),
            declared("divide_int64", &[Int, Int], Int),
            declared("divide_uint64", &[Uint, Uint], Uint),
        ],
    ),
    single(
        "_%_",
        arithmetic::modulo,
        Traits::MODDER,
        &[declared("modulo_int64", &[Int, Int], Int), declared("modulo_uint64", &[Uint, Uint], Uint)],
    ),
    single("_<_", arithmetic::less, Traits::COMPARER, comparisons!("less")),
    single("_<=_", arithmetic::less_equals, Traits::COMPARER, comparisons!("less_equals")),
    single("_>_", arithmetic::greater, Traits::COMPARER, comparisons!("greater")),
    single("_>=_", arithmetic::greater_equals, Traits::COMPARER, comparisons!("greater_equals")),
    single(
        "@in",
        arithmetic::contains,
        Traits::NONE,
        &[declared("in_list", &[A, LIST_OF_A], Bool), declared("in_map", &[A, MAP_OF_AB], Bool)],
    ),
    function(
        "cel.@mapInsert",
        &[
            global(
                "@mapInsert_map_key_value",
                &[MAP_OF_KV, K, Sig::Param("V")],
                MAP_OF_KV,
                arithmetic::insert,
            ),
            global("@mapInsert_map_map", &[MAP_OF_KV, MAP_OF_KV], MAP_OF_KV, arithmetic::insert_all),
        ],
    ),
];
