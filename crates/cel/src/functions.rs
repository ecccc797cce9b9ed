//! Functions: operators, the standard library, and the libraries that Kubernetes adds.

use crate::types::Sig::{self, *};

/// One way to call a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overload {
    /// True if the first argument is the target: `target.f(…)`.
    pub(crate) is_member: bool,
    pub(crate) args: &'static [Sig],
    pub(crate) result: Sig,
}

const fn global(args: &'static [Sig], result: Sig) -> Overload {
    Overload { is_member: false, args, result }
}

const fn member(args: &'static [Sig], result: Sig) -> Overload {
    Overload { is_member: true, args, result }
}

macro_rules! functions {
    ($($function:ident $name:literal: [$($overload:expr),* $(,)?];)*) => {
        /// A function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Function {
            $($function,)*
        }

        /// All functions.
        const ALL: &[Function] = &[$(Function::$function,)*];

        impl Function {
            /// Name in cel-go. Operators have names such as `_==_`.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$function => $name,)*
                }
            }

            /// Ways to call the function.
            pub(crate) fn overloads(self) -> &'static [Overload] {
                match self {
                    $(Self::$function => const { &[$($overload),*] },)*
                }
            }
        }
    };
}

const A: Sig = Param(0);
const B: Sig = Param(1);
const LIST_A: Sig = List(&A);
const MAP_AB: Sig = Map(&A, &B);
const LIST_STRING: Sig = List(&String);
const OPTIONAL_A: Sig = Optional(&A);
const OPTIONAL_B: Sig = Optional(&B);

functions! {
    Conditional "_?_:_": [global(&[Bool, A, A], A)];
    And "_&&_": [global(&[Bool, Bool], Bool)];
    Or "_||_": [global(&[Bool, Bool], Bool)];
    Not "!_": [global(&[Bool], Bool)];
    NotStrictlyFalse "@not_strictly_false": [global(&[Bool], Bool)];
    Equals "_==_": [global(&[A, A], Bool)];
    NotEquals "_!=_": [global(&[A, A], Bool)];
    Less "_<_": [
        global(&[Bool, Bool], Bool), global(&[Int, Int], Bool), global(&[Int, Double], Bool),
        global(&[Int, Uint], Bool), global(&[Uint, Uint], Bool), global(&[Uint, Double], Bool),
        global(&[Uint, Int], Bool), global(&[Double, Double], Bool), global(&[Double, Int], Bool),
        global(&[Double, Uint], Bool), global(&[String, String], Bool), global(&[Bytes, Bytes], Bool),
    ];
    LessEquals "_<=_": [
        global(&[Bool, Bool], Bool), global(&[Int, Int], Bool), global(&[Int, Double], Bool),
        global(&[Int, Uint], Bool), global(&[Uint, Uint], Bool), global(&[Uint, Double], Bool),
        global(&[Uint, Int], Bool), global(&[Double, Double], Bool), global(&[Double, Int], Bool),
        global(&[Double, Uint], Bool), global(&[String, String], Bool), global(&[Bytes, Bytes], Bool),
    ];
    Greater "_>_": [
        global(&[Bool, Bool], Bool), global(&[Int, Int], Bool), global(&[Int, Double], Bool),
        global(&[Int, Uint], Bool), global(&[Uint, Uint], Bool), global(&[Uint, Double], Bool),
        global(&[Uint, Int], Bool), global(&[Double, Double], Bool), global(&[Double, Int], Bool),
        global(&[Double, Uint], Bool), global(&[String, String], Bool), global(&[Bytes, Bytes], Bool),
    ];
    GreaterEquals "_>=_": [
        global(&[Bool, Bool], Bool), global(&[Int, Int], Bool), global(&[Int, Double], Bool),
        global(&[Int, Uint], Bool), global(&[Uint, Uint], Bool), global(&[Uint, Double], Bool),
        global(&[Uint, Int], Bool), global(&[Double, Double], Bool), global(&[Double, Int], Bool),
        global(&[Double, Uint], Bool), global(&[String, String], Bool), global(&[Bytes, Bytes], Bool),
    ];
    Add "_+_": [
        global(&[Bytes, Bytes], Bytes), global(&[Double, Double], Double), global(&[Int, Int], Int),
        global(&[LIST_A, LIST_A], LIST_A), global(&[String, String], String), global(&[Uint, Uint], Uint),
    ];
    Subtract "_-_": [
        global(&[Double, Double], Double), global(&[Int, Int], Int), global(&[Uint, Uint], Uint),
    ];
    Multiply "_*_": [
        global(&[Double, Double], Double), global(&[Int, Int], Int), global(&[Uint, Uint], Uint),
    ];
    Divide "_/_": [
        global(&[Double, Double], Double), global(&[Int, Int], Int), global(&[Uint, Uint], Uint),
    ];
    Modulo "_%_": [global(&[Int, Int], Int), global(&[Uint, Uint], Uint)];
    Negate "-_": [global(&[Double], Double), global(&[Int], Int)];
    In "@in": [global(&[A, LIST_A], Bool), global(&[A, MAP_AB], Bool)];
    Index "_[_]": [
        global(&[LIST_A, Int], A), global(&[MAP_AB, A], B),
        global(&[Optional(&LIST_A), Int], OPTIONAL_A), global(&[Optional(&MAP_AB), A], OPTIONAL_B),
    ];
    OptionalIndex "_[?_]": [
        global(&[LIST_A, Int], OPTIONAL_A), global(&[Optional(&LIST_A), Int], OPTIONAL_A),
        global(&[MAP_AB, A], OPTIONAL_B), global(&[Optional(&MAP_AB), A], OPTIONAL_B),
    ];

    Size "size": [
        global(&[Bytes], Int), member(&[Bytes], Int), global(&[LIST_A], Int), member(&[LIST_A], Int),
        global(&[MAP_AB], Int), member(&[MAP_AB], Int), global(&[String], Int), member(&[String], Int),
    ];
    Contains "contains": [member(&[String, String], Bool)];
    StartsWith "startsWith": [member(&[String, String], Bool)];
    EndsWith "endsWith": [member(&[String, String], Bool)];
    Matches "matches": [global(&[String, String], Bool), member(&[String, String], Bool)];
    ToBool "bool": [global(&[Bool], Bool), global(&[String], Bool)];
    ToBytes "bytes": [global(&[Bytes], Bytes), global(&[String], Bytes)];
    ToDouble "double": [
        global(&[Double], Double), global(&[Int], Double), global(&[String], Double), global(&[Uint], Double),
    ];
    ToDyn "dyn": [global(&[A], Dyn)];
    ToInt "int": [global(&[Int], Int), global(&[Double], Int), global(&[String], Int), global(&[Uint], Int)];
    ToString "string": [
        global(&[String], String), global(&[Bool], String), global(&[Bytes], String),
        global(&[Double], String), global(&[Int], String), global(&[Uint], String),
    ];
    ToUint "uint": [
        global(&[Uint], Uint), global(&[Double], Uint), global(&[Int], Uint), global(&[String], Uint),
    ];
    TypeOf "type": [global(&[A], Type)];

    CharAt "charAt": [member(&[String, Int], String)];
    IndexOf "indexOf": [
        member(&[String, String], Int), member(&[String, String, Int], Int), member(&[LIST_A, A], Int),
    ];
    LastIndexOf "lastIndexOf": [
        member(&[String, String], Int), member(&[String, String, Int], Int), member(&[LIST_A, A], Int),
    ];
    Join "join": [member(&[LIST_STRING], String), member(&[LIST_STRING, String], String)];
    LowerAscii "lowerAscii": [member(&[String], String)];
    UpperAscii "upperAscii": [member(&[String], String)];
    Replace "replace": [
        member(&[String, String, String], String), member(&[String, String, String, Int], String),
    ];
    Split "split": [
        member(&[String, String], LIST_STRING), member(&[String, String, Int], LIST_STRING),
    ];
    Substring "substring": [member(&[String, Int], String), member(&[String, Int, Int], String)];
    Trim "trim": [member(&[String], String)];
    Find "find": [member(&[String, String], String)];
    FindAll "findAll": [member(&[String, String], LIST_STRING), member(&[String, String, Int], LIST_STRING)];

    IsSorted "isSorted": [
        member(&[List(&Int)], Bool), member(&[List(&Uint)], Bool), member(&[List(&Double)], Bool),
        member(&[List(&Bool)], Bool), member(&[LIST_STRING], Bool), member(&[List(&Bytes)], Bool),
    ];
    Sum "sum": [
        member(&[List(&Int)], Int), member(&[List(&Uint)], Uint), member(&[List(&Double)], Double),
    ];
    Min "min": [
        member(&[List(&Int)], Int), member(&[List(&Uint)], Uint), member(&[List(&Double)], Double),
        member(&[List(&Bool)], Bool), member(&[LIST_STRING], String), member(&[List(&Bytes)], Bytes),
    ];
    Max "max": [
        member(&[List(&Int)], Int), member(&[List(&Uint)], Uint), member(&[List(&Double)], Double),
        member(&[List(&Bool)], Bool), member(&[LIST_STRING], String), member(&[List(&Bytes)], Bytes),
    ];
    SetsContains "sets.contains": [global(&[LIST_A, LIST_A], Bool)];
    SetsEquivalent "sets.equivalent": [global(&[LIST_A, LIST_A], Bool)];
    SetsIntersects "sets.intersects": [global(&[LIST_A, LIST_A], Bool)];

    OptionalOf "optional.of": [global(&[A], OPTIONAL_A)];
    OptionalOfNonZero "optional.ofNonZeroValue": [global(&[A], OPTIONAL_A)];
    OptionalNone "optional.none": [global(&[], OPTIONAL_A)];
    OptionalValue "value": [member(&[OPTIONAL_A], A)];
    HasValue "hasValue": [member(&[OPTIONAL_A], Bool)];
    OptionalOr "or": [member(&[OPTIONAL_A, OPTIONAL_A], OPTIONAL_A)];
    OptionalOrValue "orValue": [member(&[OPTIONAL_A, A], A)];

    ToQuantity "quantity": [global(&[String], Quantity)];
    IsQuantity "isQuantity": [global(&[String], Bool)];
    Sign "sign": [member(&[Quantity], Int)];
    IsInteger "isInteger": [member(&[Quantity], Bool)];
    AsInteger "asInteger": [member(&[Quantity], Int)];
    AsFloat "asApproximateFloat": [member(&[Quantity], Double)];
    AddTo "add": [member(&[Quantity, Quantity], Quantity), member(&[Quantity, Int], Quantity)];
    SubtractFrom "sub": [member(&[Quantity, Quantity], Quantity), member(&[Quantity, Int], Quantity)];
    IsGreaterThan "isGreaterThan": [member(&[Quantity, Quantity], Bool), member(&[Semver, Semver], Bool)];
    IsLessThan "isLessThan": [member(&[Quantity, Quantity], Bool), member(&[Semver, Semver], Bool)];
    CompareTo "compareTo": [member(&[Quantity, Quantity], Int), member(&[Semver, Semver], Int)];
    ToSemver "semver": [global(&[String], Semver), global(&[String, Bool], Semver)];
    IsSemver "isSemver": [global(&[String], Bool), global(&[String, Bool], Bool)];
    Major "major": [member(&[Semver], Int)];
    Minor "minor": [member(&[Semver], Int)];
    Patch "patch": [member(&[Semver], Int)];
}

/// Functions of Kubernetes' environment that are not evaluated here. They are reported as such, so that nobody looks
/// for a typing error.
const UNSUPPORTED: &[&str] = &[
    "duration",
    "timestamp",
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "format",
    "strings.quote",
    "reverse",
    "sort",
    "sortBy",
    "distinct",
    "flatten",
    "slice",
    "lists.range",
    "first",
    "last",
    "transformList",
    "transformMap",
    "transformMapEntry",
    "url",
    "isURL",
    "getScheme",
    "getHost",
    "getHostname",
    "getPort",
    "getEscapedPath",
    "getQuery",
    "ip",
    "isIP",
    "ip.isCanonical",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "cidr",
    "isCIDR",
    "containsIP",
    "containsCIDR",
    "masked",
    "prefixLength",
    "format.named",
    "validate",
    "includes",
    "unwrapOpt",
    "optional.unwrap",
];

impl Function {
    /// Returns the function with the name, if it can be called without a target.
    pub(crate) fn global(name: &str) -> Option<Self> {
        Self::find(name, false)
    }

    /// Returns the function with the name, if it can be called with a target.
    pub(crate) fn member(name: &str) -> Option<Self> {
        Self::find(name, true)
    }

    /// Returns the function with the name. A function that exists only in the other form is found as well, and the
    /// checker reports that no overload matches.
    fn find(name: &str, is_member: bool) -> Option<Self> {
        let mut named = ALL.iter().copied().filter(|function| function.name() == name);
        let is_operator = name.starts_with(['_', '@', '!', '-']);
        let found = named.next().filter(|_| !is_operator)?;
        let fits = |overload: &Overload| overload.is_member == is_member;
        (found.overloads().iter().any(fits) || !found.name().contains('.')).then_some(found)
    }

    /// Returns true if Kubernetes has a function of this name that is not evaluated here.
    pub(crate) fn is_unsupported(name: &str) -> bool {
        UNSUPPORTED.contains(&name)
    }
}
