//! Functions of Kubernetes' own values: quantities, versions, URLs, named formats, and authorization.

use super::{Function, LIST_OF_STRINGS, function, global, member, not_bound};
use crate::{
    library::{formats, order, quantities, urls, versions},
    signature::{
        FORMAT, QUANTITY, SEMVER,
        Sig::{self, Bool, Double, Int, String},
        URL,
    },
};

const AUTHORIZER: Sig = Sig::Struct("kubernetes.authorization.Authorizer");
const PATH_CHECK: Sig = Sig::Struct("kubernetes.authorization.PathCheck");
const GROUP_CHECK: Sig = Sig::Struct("kubernetes.authorization.GroupCheck");
const RESOURCE_CHECK: Sig = Sig::Struct("kubernetes.authorization.ResourceCheck");
const DECISION: Sig = Sig::Struct("kubernetes.authorization.Decision");
const ERRORS: Sig = Sig::List(&String);

/// Declares the functions that return a named format.
macro_rules! formats {
    ($($name:literal $op:ident),*) => {
        [$(function(
            concat!("format.", $name),
            &[global(concat!("format.", $name), &[], FORMAT, formats::$op)],
        )),*]
    };
}

static VALUES: [Function; 27] = [
    function("quantity", &[global("string_to_quantity", &[String], QUANTITY, quantities::parse)]),
    function("isQuantity", &[global("is_quantity_string", &[String], Bool, quantities::is_valid)]),
    // Unlike the other functions of a quantity, `sign` is not a member function.
    function("sign", &[global("quantity_sign", &[QUANTITY], Int, quantities::sign)]),
    function(
        "isGreaterThan",
        &[
            member("quantity_is_greater_than", &[QUANTITY, QUANTITY], Bool, order::is_greater),
            member("semver_is_greater_than", &[SEMVER, SEMVER], Bool, order::is_greater),
        ],
    ),
    function(
        "isLessThan",
        &[
            member("quantity_is_less_than", &[QUANTITY, QUANTITY], Bool, order::is_less),
            member("semver_is_less_than", &[SEMVER, SEMVER], Bool, order::is_less),
        ],
    ),
    function(
        "compareTo",
        &[
            member("quantity_compare_to", &[QUANTITY, QUANTITY], Int, order::compare),
            member("semver_compare_to", &[SEMVER, SEMVER], Int, order::compare),
        ],
    ),
    function(
        "asApproximateFloat",
        &[member("quantity_get_float", &[QUANTITY], Double, quantities::as_double)],
    ),
    function("asInteger", &[member("quantity_get_int", &[QUANTITY], Int, quantities::as_int)]),
    function("isInteger", &[member("quantity_is_integer", &[QUANTITY], Bool, quantities::is_int)]),
    function(
        "add",
        &[
            member("quantity_add", &[QUANTITY, QUANTITY], QUANTITY, quantities::add),
            member("quantity_add_int", &[QUANTITY, Int], QUANTITY, quantities::add),
        ],
    ),
    function(
        "sub",
        &[
            member("quantity_sub", &[QUANTITY, QUANTITY], QUANTITY, quantities::subtract),
            member("quantity_sub_int", &[QUANTITY, Int], QUANTITY, quantities::subtract),
        ],
    ),
    function(
        "semver",
        &[
            global("string_to_semver", &[String], SEMVER, versions::parse),
            global("string_bool_to_semver", &[String, Bool], SEMVER, versions::parse),
        ],
    ),
    function(
        "isSemver",
        &[
            global("is_semver_string", &[String], Bool, versions::is_valid),
            global("is_semver_string_bool", &[String, Bool], Bool, versions::is_valid),
        ],
    ),
    function("major", &[member("semver_major", &[SEMVER], Int, versions::major)]),
    function("minor", &[member("semver_minor", &[SEMVER], Int, versions::minor)]),
    function("patch", &[member("semver_patch", &[SEMVER], Int, versions::patch)]),
    function("url", &[global("string_to_url", &[String], URL, urls::parse)]),
    function("isURL", &[global("is_url_string", &[String], Bool, urls::is_valid)]),
    function("getScheme", &[member("url_get_scheme", &[URL], String, urls::scheme)]),
    function("getHost", &[member("url_get_host", &[URL], String, urls::host)]),
    function("getHostname", &[member("url_get_hostname", &[URL], String, urls::host_name)]),
    function("getPort", &[member("url_get_port", &[URL], String, urls::port)]),
    function("getEscapedPath", &[member("url_get_escaped_path", &[URL], String, urls::escaped_path)]),
    function(
        "getQuery",
        &[member("url_get_query", &[URL], Sig::Map(&String, &LIST_OF_STRINGS), urls::query)],
    ),
    function(
        "validate",
        &[member("format-validate", &[FORMAT, String], Sig::Optional(&ERRORS), formats::validate)],
    ),
    function("format.named", &[global("format-named", &[String], Sig::Optional(&FORMAT), formats::named)]),
    // Expressions that select devices have no authorizer, so the functions of authorization are never called.
    function("path", &[member("authorizer_path", &[AUTHORIZER, String], PATH_CHECK, not_bound)]),
];

static AUTHORIZATION: [Function; 13] = [
    function("group", &[member("authorizer_group", &[AUTHORIZER, String], GROUP_CHECK, not_bound)]),
    function(
        "serviceAccount",
        &[member("authorizer_serviceaccount", &[AUTHORIZER, String, String], AUTHORIZER, not_bound)],
    ),
    function("resource", &[member("groupcheck_resource", &[GROUP_CHECK, String], RESOURCE_CHECK, not_bound)]),
    function(
        "subresource",
        &[member("resourcecheck_subresource", &[RESOURCE_CHECK, String], RESOURCE_CHECK, not_bound)],
    ),
    function(
        "namespace",
        &[member("resourcecheck_namespace", &[RESOURCE_CHECK, String], RESOURCE_CHECK, not_bound)],
    ),
    function("name", &[member("resourcecheck_name", &[RESOURCE_CHECK, String], RESOURCE_CHECK, not_bound)]),
    function(
        "fieldSelector",
        &[member("authorizer_fieldselector", &[RESOURCE_CHECK, String], RESOURCE_CHECK, not_bound)],
    ),
    function(
        "labelSelector",
        &[member("authorizer_labelselector", &[RESOURCE_CHECK, String], RESOURCE_CHECK, not_bound)],
    ),
    function(
        "check",
        &[
            member("pathcheck_check", &[PATH_CHECK, String], DECISION, not_bound),
            member("resourcecheck_check", &[RESOURCE_CHECK, String], DECISION, not_bound),
        ],
    ),
    function("errored", &[member("decision_errored", &[DECISION], Bool, not_bound)]),
    function("error", &[member("decision_error", &[DECISION], String, not_bound)]),
    function("allowed", &[member("decision_allowed", &[DECISION], Bool, not_bound)]),
    function("reason", &[member("decision_reason", &[DECISION], String, not_bound)]),
];

static FORMATS: [Function; 13] = formats![
    "dns1123Label" dns1123_label,
    "dns1123Subdomain" dns1123_subdomain,
    "dns1035Label" dns1035_label,
    "qualifiedName" qualified_name,
    "dns1123LabelPrefix" dns1123_label_prefix,
    "dns1123SubdomainPrefix" dns1123_subdomain_prefix,
    "dns1035LabelPrefix" dns1035_label_prefix,
    "labelValue" label_value,
    "uri" uri,
    "uuid" uuid,
    "byte" byte,
    "date" date,
    "datetime" datetime
];

pub(super) static FUNCTIONS: [&[Function]; 3] = [&VALUES, &AUTHORIZATION, &FORMATS];
