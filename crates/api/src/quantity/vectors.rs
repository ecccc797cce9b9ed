//! Quantities as parsed by `resource.ParseQuantity` of apimachinery v0.36.1, printed by a Go program.

use super::*;

/// Text, units, thousandths, canonical form.
const READ: &[(&str, i64, i64, &str)] = &[
    ("100.1m", 1, 101, "100100u"),
    ("1.5", 2, 1500, "1500m"),
    ("1m", 1, 1, "1m"),
    ("-1.5", -2, -1500, "-1500m"),
    ("1E", 1_000_000_000_000_000_000, 0, "1E"),
    ("0.5Gi", 536_870_912, 536_870_912_000, "512Mi"),
    ("1e3", 1000, 1_000_000, "1e3"),
    ("1E3", 1000, 1_000_000, "1e3"),
    ("1E0", 1, 1000, "1"),
    ("1Ei", 1_152_921_504_606_846_976, i64::MIN, "1Ei"),
    ("8Ei", i64::MAX, -1000, "9223372036854775807"),
    ("9223372036854775807", i64::MAX, -1000, "9223372036854775807"),
    ("9223372036854775808", i64::MIN, 0, "9223372036854775808"),
    ("+5", 5, 5000, "5"),
    (".5", 1, 500, "500m"),
    ("5.", 5, 5000, "5"),
    (".", 0, 0, "0"),
    ("-", 0, 0, "0"),
    ("0", 0, 0, "0"),
    ("000", 0, 0, "0"),
    ("-0", 0, 0, "0"),
    ("00k", 0, 0, "0"),
    ("k", 0, 0, "0"),
    ("e3", 0, 0, "0"),
    ("Ki", 0, 0, "0"),
    ("1n", 1, 1, "1n"),
    ("0.1n", 1, 1, "1n"),
    ("0.0000000001", 1, 1, "1n"),
    ("1e-10", 1, 1, "1e-9"),
    ("-1n", -1, -1, "-1n"),
    ("1e+3", 1000, 1_000_000, "1e3"),
    ("1e-3", 1, 1, "1e-3"),
    ("1E-3", 1, 1, "1e-3"),
    ("1e4294967296", 1, 1000, "1"),
    ("123456789012345678", 123_456_789_012_345_678, -5_670_419_503_621_183_312, "123456789012345678"),
    ("12345678901234567890", -6_101_065_172_474_983_726, 4_807_115_922_877_858_896, "12345678901234567890"),
    (
        "99999999999999999999999",
        200_376_420_520_689_663,
        -2_537_764_290_115_404_776,
        "99999999999999999999999",
    ),
    ("123456789012345678m", 123_456_789_012_346, 123_456_789_012_345_678, "123456789012345678m"),
    ("123456789012345678k", -5_670_419_503_621_183_312, -7_269_072_992_350_965_888, "123456789012345678k"),
    ("12345678901234567k", -6_101_065_172_474_984_616, 4_807_115_922_876_968_896, "12345678901234567k"),
    ("1e18", 1_000_000_000_000_000_000, 0, "1e18"),
    ("1e19", 0, 0, "10e18"),
    ("1e20", 0, 0, "100e18"),
    ("99e16", 990_000_000_000_000_000, 0, "990e15"),
    ("0.1Ki", 103, 102_400, "102400m"),
    ("-1.1Ki", -1125, -1_126_400, "-1126400m"),
    ("-0.0001Ki", 1, -101, "-102400u"),
    ("-16Ei", -9_223_372_036_854_775_807, 1000, "-9223372036854775807"),
    ("15.9Ei", i64::MAX, -1000, "9223372036854775807"),
    ("0.9999999999Ki", 1024, 1_024_000, "1023999999898n"),
    ("1025Ki", 1_049_600, 1_049_600_000, "1025Ki"),
    ("99999999999Ki", 102_399_999_998_976, 102_399_999_998_976_000, "99999999999Ki"),
    ("1.5e3", 1500, 1_500_000, "1500"),
    ("10.000000000", 10, 10_000, "10"),
    ("1.0000000001", 2, 1001, "1000000001n"),
    ("1500m", 2, 1500, "1500m"),
    ("1024Mi", 1_073_741_824, 1_073_741_824_000, "1Gi"),
    ("1.9n", 1, 1, "2n"),
    ("128974848", 128_974_848, 128_974_848_000, "128974848"),
    ("12e6", 12_000_000, 12_000_000_000, "12e6"),
    ("1.1Ti", 1_209_462_790_554, 1_209_462_790_553_600, "1209462790553600m"),
    ("-9223372036854775808", 0, 0, "-9223372036854775808"),
    ("-1.0000000000000000001", 0, -999, "-1000000001n"),
    ("1.00000000000000000000001Gi", 1_073_741_825, 1_073_741_824_001, "1073741824000000001n"),
    ("18014398509481984Ki", i64::MAX, -1000, "9223372036854775807"),
    ("-.0000000000005", 1, 1, "-1n"),
    ("00000000000000000000005", 5, 5000, "5"),
    ("0Ei", 0, 0, "0"),
];

/// Invalid texts and their problems.
const WRONG: &[(&str, QuantityProblem)] = &[
    ("", QuantityProblem::Format),
    ("1e", QuantityProblem::Suffix),
    ("1K", QuantityProblem::Suffix),
    ("1ki", QuantityProblem::Suffix),
    ("1ee3", QuantityProblem::Suffix),
    ("1mm", QuantityProblem::Suffix),
    ("1Kim", QuantityProblem::Suffix),
    ("5-5", QuantityProblem::Suffix),
    ("1_0", QuantityProblem::Format),
    ("--5", QuantityProblem::Suffix),
    ("1.2.3", QuantityProblem::Format),
    ("1,5", QuantityProblem::Format),
    ("0x10", QuantityProblem::Format),
    ("inf", QuantityProblem::Format),
    ("Ei", QuantityProblem::Number),
    (".Ei", QuantityProblem::Number),
    ("1e9223372036854775808", QuantityProblem::Suffix),
    ("5e5e", QuantityProblem::Format),
    ("1 Gi", QuantityProblem::Format),
    (" 5", QuantityProblem::Format),
    ("5 ", QuantityProblem::Format),
];

#[test]
fn quantities_are_parsed_and_printed_as_in_kubernetes() {
    for (text, value, milli, canonical) in READ {
        let quantity: Quantity = text.parse().unwrap();
        assert_eq!((quantity.value(), quantity.milli_value()), (*value, *milli), "{text}");
        assert_eq!(quantity.to_string(), *canonical, "{text}");
    }
}

#[test]
fn invalid_quantities_are_rejected_with_the_reason_that_kubernetes_gives() {
    for (text, problem) in WRONG {
        let error = text.parse::<Quantity>().unwrap_err();
        assert_eq!(error, QuantityError { text: (*text).to_owned(), problem: *problem });
    }
}

#[test]
fn equal_amounts_are_equal_in_any_notation() {
    let quantity = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!(quantity("1024Mi"), quantity("1Gi"));
    assert_eq!(quantity("1"), quantity("1000m"));
    assert_eq!(quantity("1500m"), Quantity::from_milli(1500));
    assert!(quantity("1Gi") > quantity("1G"));
    assert!(quantity("-1") < Quantity::from_units(0) && quantity("0Ki").is_zero());
}

#[test]
fn json_numbers_and_null_are_quantities_too() {
    let amounts: Vec<Quantity> = serde_json::from_str(r#"["1.5", 1.5, 2, -1, null, " 3k ", 1e3]"#).unwrap();
    let milli: Vec<i64> = amounts.iter().map(Quantity::milli_value).collect();
    assert_eq!(milli, [1500, 1500, 2000, -1000, 0, 3_000_000, 1_000_000]);
    assert!(serde_json::from_str::<Quantity>("true").is_err());
}

#[test]
fn texts_of_any_length_are_parsed_without_a_panic() {
    for text in ["9".repeat(500), format!("{}Ei", "9".repeat(60)), format!("0.{}1", "0".repeat(300))] {
        let quantity: Quantity = text.parse().unwrap();
        assert!(quantity > Quantity::default(), "{text}");
    }
    for exponent in [i32::MIN, -400, 400, i32::MAX] {
        assert!(format!("1.23456789012345678901e{exponent}").parse::<Quantity>().is_ok());
    }
}
