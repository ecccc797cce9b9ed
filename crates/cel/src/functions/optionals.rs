//! Functions of optional values.

use super::{Binding, Function, declared_member, function, global, member};
use crate::{
    library::optionals,
    signature::Sig::{self, Bool},
};

const V: Sig = Sig::Param("V");
const OPTIONAL: Sig = Sig::Optional(&V);
const LIST: Sig = Sig::List(&V);
const LIST_OF_OPTIONALS: Sig = Sig::List(&OPTIONAL);

pub(super) static FUNCTIONS: &[Function] = &[
    function("optional.of", &[global("optional_of", &[V], OPTIONAL, optionals::of)]),
    function(
        "optional.ofNonZeroValue",
        &[global("optional_ofNonZeroValue", &[V], OPTIONAL, optionals::of_non_zero)],
    ),
    function("optional.none", &[global("optional_none", &[], OPTIONAL, optionals::none)]),
    function("value", &[member("optional_value", &[OPTIONAL], V, optionals::value)]),
    function("hasValue", &[member("optional_hasValue", &[OPTIONAL], Bool, optionals::has_value)]),
    Function {
        name: "or",
        overloads: &[declared_member("optional_or_optional", &[OPTIONAL, OPTIONAL], OPTIONAL)],
        binding: Binding::Evaluator,
    },
    Function {
        name: "orValue",
        overloads: &[declared_member("optional_orValue_value", &[OPTIONAL, V], V)],
        binding: Binding::Evaluator,
    },
    function("last", &[member("list_last", &[LIST], OPTIONAL, optionals::last)]),
    function("first", &[member("list_first", &[LIST], OPTIONAL, optionals::first)]),
    function("optional.unwrap", &[global("optional_unwrap", &[LIST_OF_OPTIONALS], LIST, optionals::unwrap)]),
    function("unwrapOpt", &[member("optional_unwrapOpt", &[LIST_OF_OPTIONALS], LIST, optionals::unwrap)]),
];
