//! Keys of mappings. JSON has only string keys, so other scalars are converted to strings, as in `sigs.k8s.io/yaml`.

use crate::scalar::Scalar;

/// Returns the key to which a scalar is converted; `None` if the scalar cannot be a key.
pub(crate) fn of(scalar: &Scalar, text: &str) -> Option<String> {
    match scalar {
        Scalar::Text => Some(text.to_owned()),
        Scalar::Bool(value) => Some(value.to_string()),
        Scalar::Int(value) => i64::try_from(*value).ok().map(|value| value.to_string()),
        Scalar::Float(value) => Some(float(*value as f32)),
        Scalar::Null => None,
    }
}

/// Formats a 32-bit float with the fewest digits, as Go's `%g` does.
fn float(value: f32) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or_default() {
        // The exponent alone determines whether the form is scientific.
        -4..=20 if value == 0.0 => value.to_string(),
        -4..=5 => value.to_string(),
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}
