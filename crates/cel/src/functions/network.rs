//! Functions of IP addresses and networks.

use super::{Function, function, global, member};
use crate::{
    library::network,
    signature::{
        CIDR, IP,
        Sig::{Bool, Int, String},
    },
};

pub(super) static FUNCTIONS: &[Function] = &[
    function(
        "ip",
        &[
            global("string_to_ip", &[String], IP, network::parse_ip),
            member("cidr_ip", &[CIDR], IP, network::ip_of_cidr),
        ],
    ),
    function("isIP", &[global("is_ip", &[String], Bool, network::is_ip)]),
    function("ip.isCanonical", &[global("ip_is_canonical", &[String], Bool, network::is_canonical)]),
    function("family", &[member("ip_family", &[IP], Int, network::family)]),
    function("isUnspecified", &[member("ip_is_unspecified", &[IP], Bool, network::is_unspecified)]),
    function("isLoopback", &[member("ip_is_loopback", &[IP], Bool, network::is_loopback)]),
    function(
        "isLinkLocalMulticast",
        &[member("ip_is_link_local_multicast", &[IP], Bool, network::is_link_local_multicast)],
    ),
    function(
        "isLinkLocalUnicast",
        &[member("ip_is_link_local_unicast", &[IP], Bool, network::is_link_local_unicast)],
    ),
    function("isGlobalUnicast", &[member("ip_is_global_unicast", &[IP], Bool, network::is_global_unicast)]),
    function("cidr", &[global("string_to_cidr", &[String], CIDR, network::parse_cidr)]),
    function("isCIDR", &[global("is_cidr", &[String], Bool, network::is_cidr)]),
    function(
        "containsIP",
        &[
            member("cidr_contains_ip_string", &[CIDR, String], Bool, network::contains_ip),
            member("cidr_contains_ip_ip", &[CIDR, IP], Bool, network::contains_ip),
        ],
    ),
    function(
        "containsCIDR",
        &[
            member("cidr_contains_cidr_string", &[CIDR, String], Bool, network::contains_cidr),
            member("cidr_contains_cidr", &[CIDR, CIDR], Bool, network::contains_cidr),
        ],
    ),
    function("prefixLength", &[member("cidr_prefix_length", &[CIDR], Int, network::prefix_length)]),
    function("masked", &[member("cidr_masked", &[CIDR], CIDR, network::masked)]),
];
