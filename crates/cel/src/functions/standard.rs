//! The standard library (sizes, conversions, tests of strings, and parts of times), and Kubernetes' `includes`.

use super::{
    A, Binding, Function, LIST_OF_A, MAP_OF_AB, Overload, declared, declared_member, function, global, member,
};
use crate::{
    fuel::Fuel,
    library::{strings, times},
    signature::{
        CIDR, IP,
        Sig::{self, Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint},
    },
    value::{Traits, Value},
};

pub(super) static FUNCTIONS: &[Function] = &[
    Function {
        name: "size",
        overloads: &[
            declared("size_bytes", &[Bytes], Int),
            declared_member("bytes_size", &[Bytes], Int),
            declared("size_list", &[LIST_OF_A], Int),
            declared_member("list_size", &[LIST_OF_A], Int),
            declared("size_map", &[MAP_OF_AB], Int),
            declared_member("map_size", &[MAP_OF_AB], Int),
            declared("size_string", &[String], Int),
            declared_member("string_size", &[String], Int),
        ],
        binding: Binding::Single(strings::size, Traits::SIZER),
    },
    Function {
        name: "type",
        overloads: &[declared("type", &[A], Sig::Meta(&A))],
        binding: Binding::Single(|args, _| args[0].to_type(), Traits::NONE),
    },
    Function {
        name: "dyn",
        overloads: &[declared("to_dyn", &[A], Sig::Dyn)],
        binding: Binding::Single(|args, _| args[0].clone(), Traits::NONE),
    },
    function(
        "bool",
        &[
            global("bool_to_bool", &[Bool], Bool, |args, _| args[0].to_bool()),
            global("string_to_bool", &[String], Bool, |args, _| args[0].to_bool()),
        ],
    ),
    function(
        "bytes",
        &[
            global("bytes_to_bytes", &[Bytes], Bytes, |args, _| args[0].to_bytes()),
            global("string_to_bytes", &[String], Bytes, |args, _| args[0].to_bytes()),
        ],
    ),
    function(
        "double",
        &[
            global("double_to_double", &[Double], Double, |args, _| args[0].to_double()),
            global("int64_to_double", &[Int], Double, |args, _| args[0].to_double()),
            global("string_to_double", &[String], Double, |args, _| args[0].to_double()),
            global("uint64_to_double", &[Uint], Double, |args, _| args[0].to_double()),
        ],
    ),
    function(
        "duration",
        &[
            DURATION_OF_DURATION,
            global("int64_to_duration", &[Int], Duration, |args, _| args[0].to_duration()),
            DURATION_OF_STRING,
        ],
    ),
    function(
        "int",
        &[
            global("int64_to_int64", &[Int], Int, |args, _| args[0].to_int()),
            global("double_to_int64", &[Double], Int, |args, _| args[0].to_int()),
            global("duration_to_int64", &[Duration], Int, |args, _| args[0].to_int()),
            global("string_to_int64", &[String], Int, |args, _| args[0].to_int()),
            global("timestamp_to_int64", &[Timestamp], Int, |args, _| args[0].to_int()),
            global("uint64_to_int64", &[Uint], Int, |args, _| args[0].to_int()),
        ],
    ),
    function(
        "string",
        &[
            global("string_to_string", &[String], String, |args, _| args[0].to_text()),
            global("bool_to_string", &[Bool], String, |args, _| args[0].to_text()),
            global("bytes_to_string", &[Bytes], String, |args, _| args[0].to_text()),
            global("double_to_string", &[Double], String, |args, _| args[0].to_text()),
            global("duration_to_string", &[Duration], String, |args, _| args[0].to_text()),
            global("int64_to_string", &[Int], String, |args, _| args[0].to_text()),
            global("timestamp_to_string", &[Timestamp], String, |args, _| args[0].to_text()),
            global("uint64_to_string", &[Uint], String, |args, _| args[0].to_text()),
            global("ip_to_string", &[IP], String, |args, _| args[0].to_text()),
            global("cidr_to_string", &[CIDR], String, |args, _| args[0].to_text()),
        ],
    ),
    function(
        "timestamp",
        &[
            global("timestamp_to_timestamp", &[Timestamp], Timestamp, |args, _| args[0].to_timestamp()),
            global("int64_to_timestamp", &[Int], Timestamp, |args, _| args[0].to_timestamp()),
            global("string_to_timestamp", &[String], Timestamp, |args, _| args[0].to_timestamp()),
        ],
    ),
    function(
        "uint",
        &[
            global("uint64_to_uint64", &[Uint], Uint, |args, _| args[0].to_uint()),
            global("double_to_uint64", &[Double], Uint, |args, _| args[0].to_uint()),
            global("int64_to_uint64", &[Int], Uint, |args, _| args[0].to_uint()),
            global("string_to_uint64", &[String], Uint, |args, _| args[0].to_uint()),
        ],
    ),
    Function {
        name: "contains",
        overloads: &[member("contains_string", &[String, String], Bool, strings::contains)],
        binding: Binding::Unguarded,
    },
    Function {
        name: "endsWith",
        overloads: &[member("ends_with_string", &[String, String], Bool, strings::ends_with)],
        binding: Binding::Unguarded,
    },
    Function {
        name: "startsWith",
        overloads: &[member("starts_with_string", &[String, String], Bool, strings::starts_with)],
        binding: Binding::Unguarded,
    },
    Function {
        name: "matches",
        overloads: &[
            declared("matches", &[String, String], Bool),
            declared_member("matches_string", &[String, String], Bool),
        ],
        binding: Binding::Single(strings::matches, Traits::MATCHER),
    },
    function(
        "getFullYear",
        &[
            member("timestamp_to_year", &[Timestamp], Int, times::year),
            member("timestamp_to_year_with_tz", &[Timestamp, String], Int, times::year),
        ],
    ),
    function(
        "getMonth",
        &[
            member("timestamp_to_month", &[Timestamp], Int, times::month),
            member("timestamp_to_month_with_tz", &[Timestamp, String], Int, times::month),
        ],
    ),
    function(
        "getDayOfYear",
        &[
            member("timestamp_to_day_of_year", &[Timestamp], Int, times::day_of_year),
            member("timestamp_to_day_of_year_with_tz", &[Timestamp, String], Int, times::day_of_year),
        ],
    ),
    function(
        "getDayOfMonth",
        &[
            member("timestamp_to_day_of_month", &[Timestamp], Int, times::day_of_month),
            member("timestamp_to_day_of_month_with_tz", &[Timestamp, String], Int, times::day_of_month),
        ],
    ),
    function(
        "getDate",
        &[
            member("timestamp_to_day_of_month_1_based", &[Timestamp], Int, times::date),
            member("timestamp_to_day_of_month_1_based_with_tz", &[Timestamp, String], Int, times::date),
        ],
    ),
    function(
        "getDayOfWeek",
        &[
            member("timestamp_to_day_of_week", &[Timestamp], Int, times::day_of_week),
            member("timestamp_to_day_of_week_with_tz", &[Timestamp, String], Int, times::day_of_week),
        ],
    ),
    function(
        "getHours",
        &[
            member("timestamp_to_hours", &[Timestamp], Int, times::hours),
            member("timestamp_to_hours_with_tz", &[Timestamp, String], Int, times::hours),
            member("duration_to_hours", &[Duration], Int, times::hours),
        ],
    ),
    function(
        "getMinutes",
        &[
            member("timestamp_to_minutes", &[Timestamp], Int, times::minutes),
            member("timestamp_to_minutes_with_tz", &[Timestamp, String], Int, times::minutes),
            member("duration_to_minutes", &[Duration], Int, times::minutes),
        ],
    ),
    function(
        "getSeconds",
        &[
            member("timestamp_to_seconds", &[Timestamp], Int, times::seconds),
            member("timestamp_to_seconds_tz", &[Timestamp, String], Int, times::seconds),
            member("duration_to_seconds", &[Duration], Int, times::seconds),
        ],
    ),
    function(
        "getMilliseconds",
        &[
            member("timestamp_to_milliseconds", &[Timestamp], Int, times::milliseconds),
            member("timestamp_to_milliseconds_with_tz", &[Timestamp, String], Int, times::milliseconds),
            member("duration_to_milliseconds", &[Duration], Int, times::milliseconds),
        ],
    ),
    function(super::INCLUDES, &[member("includes_dyn_dyn", &[Sig::Dyn, Sig::Dyn], Bool, includes)]),
];

const DURATION_OF_DURATION: Overload =
    global("duration_to_duration", &[Duration], Duration, |args, _| args[0].to_duration());
const DURATION_OF_STRING: Overload =
    global("string_to_duration", &[String], Duration, |args, _| args[0].to_duration());

/// `duration` as of Kubernetes 1.37, without the conversion of integers.
pub(crate) static DURATION_AS_OF_1_37: Function =
    function("duration", &[DURATION_OF_DURATION, DURATION_OF_STRING]);

/// Maximum number of elements of a list that `includes` examines before Kubernetes 1.37.
const MOST_VALUES: usize = 48;

/// Returns true if the first argument is a list that contains the second one, or if both are equal. Before Kubernetes
/// 1.37, a list with more than [`MOST_VALUES`] elements is an error if none of the first ones is equal.
fn includes<'a>(args: &[Value<'a>], fuel: &Fuel) -> Value<'a> {
    let is_equal = |value: &Value<'a>| matches!(value.equals(&args[1], fuel), Value::Bool(true));
    let Value::List(list) = &args[0] else { return Value::Bool(is_equal(&args[0])) };
    let most = if fuel.is_since_1_37() { usize::MAX } else { MOST_VALUES };
    for (at, element) in list.iter().enumerate() {
        if at >= most {
            return Value::error(format!(
                "'includes' function cannot be applied to lists longer than {most} values"
            ));
        }
        if is_equal(&element) {
            return Value::Bool(true);
        }
    }
    Value::Bool(false)
}
