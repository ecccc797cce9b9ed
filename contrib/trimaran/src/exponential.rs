//! The exponential function, with the digits that scheduler-plugins gets.
//!
//! Costs are differences of exponentials in units of 10^-15, so the last bit of an exponential decides between scores that
//! are near each other. No library rounds all results correctly, and each errs elsewhere. Go computes the function on
//! amd64 by the method of SLEEF (N. Shibata, "Efficient evaluation methods of elementary functions suitable for SIMD
//! computation", 2010), with fused multiplications: the argument is reduced to a sixteenth of a small rest, a
//! polynomial gives `e^rest - 1`, and four doublings lead back. This is the same method, step by step.

use std::f64::consts::LOG2_E;

/// ln 2, split so that the product of the first part and an exponent is exact.
const LN2: [f64; 2] = [0.693_147_180_559_663, 2.823_529_056_303_157_7e-13];
/// Above this, the result is infinite.
const LARGEST: f64 = 709.782_712_893_384;
/// Number of doublings: the rest of the argument is divided by two to this power.
const DOUBLINGS: i32 = 4;
/// `1 / n!`, from 1 / 8! down to 1 / 1!.
const COEFFICIENTS: [f64; 8] =
    [1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0];

/// Returns e to the power of `x`.
pub(crate) fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x > LARGEST {
        return f64::INFINITY;
    }
    // The conversion saturates, and such a result is 0.
    let exponent = (x * LOG2_E).round_ties_even() as i32;
    let whole = f64::from(exponent);
    let rest = (-whole).mul_add(LN2[1], (-whole).mul_add(LN2[0], x)) / f64::from(1 << DOUBLINGS);
    let sum = COEFFICIENTS[1..].iter().fold(COEFFICIENTS[0], |sum, next| sum.mul_add(rest, *next));
    // e^(2r) - 1 = (e^r - 1) (e^r - 1 + 2)
    let part = (1..DOUBLINGS).fold(rest * sum, |part, _| part * (part + 2.0));
    times_power_of_two(part.mul_add(part + 2.0, 1.0), exponent)
}

/// Returns `number * 2^exponent`.
fn times_power_of_two(number: f64, exponent: i32) -> f64 {
    let power = |exponent: i32| f64::from_bits(u64::try_from(exponent + 1023).unwrap_or(0) << 52);
    match exponent {
        1024.. => f64::INFINITY,
        -1022.. => number * power(exponent),
        // In two steps, because the power itself is too small.
        -1075.. => number * power(exponent + 1022) * power(-1022),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_gos_to_the_last_bit() {
        for (x, bits) in include!("exponential/gos_results.rs") {
            assert_eq!(exp(f64::from_bits(x)).to_bits(), bits, "{}", f64::from_bits(x));
        }
    }

    #[test]
    fn results_are_nearly_those_of_rust() {
        for at in -7_400..7_090 {
            let x = f64::from(at) * 0.1 + 1e-3;
            let (ours, theirs) = (exp(x), x.exp());
            assert!((ours - theirs).abs() <= theirs * 4e-16 + f64::from_bits(1), "{x}: {ours} {theirs}");
        }
    }
}
