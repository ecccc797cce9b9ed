//! The beta distribution.

/// A beta distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Beta {
    alpha: f64,
    beta: f64,
}

impl Beta {
    /// Returns the distribution with this mean and standard deviation, both from 0 to 1; `None` if there is none.
    pub(crate) fn fit(mean: f64, deviation: f64) -> Option<Self> {
        // In this order, so that rounding is the same as in scheduler-plugins.
        let second_moment = deviation * deviation + mean * mean;
        let variance = second_moment - mean * mean;
        if variance < 0.0 || variance >= mean * (1.0 - mean) {
            return None;
        }
        let scale = (mean * (1.0 - mean) / variance - 1.0).max(f64::from_bits(1));
        Some(Self { alpha: mean * scale, beta: (1.0 - mean) * scale })
    }

    /// Returns the probability of a value of at most `x`. If it cannot be computed, returns 0.
    pub(crate) fn up_to(self, x: f64) -> f64 {
        let probability = incomplete(self.alpha, self.beta, x);
        if (0.0..=1.0).contains(&probability) { probability } else { 0.0 }
    }
}

/// The regularized incomplete beta function.
fn incomplete(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || a <= 0.0 || b <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The continued fraction converges quickly on this side only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front(a, b, x) * fraction(a, b, x) / a
    } else {
        1.0 - front(b, a, 1.0 - x) * fraction(b, a, 1.0 - x) / b
    }
}

/// `x^a (1-x)^b / B(a, b)`.
fn front(a: f64, b: f64, x: f64) -> f64 {
    (a * x.ln() + b * (-x).ln_1p() - ln_beta(a, b)).exp()
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22), by the modified method of Lentz.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let not_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut product = d;
    for step in 1..10_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / not_zero(1.0 + even * d);
        c = not_zero(1.0 + even / c);
        product *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / not_zero(1.0 + odd * d);
        c = not_zero(1.0 + odd / c);
        let change = d * c;
        product *= change;
        if (change - 1.0).abs() < 1e-16 {
            break;
        }
    }
    product
}

/// Logarithm of the beta function.
fn ln_beta(a: f64, b: f64) -> f64 {
    let (large, small) = (a.max(b), a.min(b));
    if large < SHIFT {
        return ln_gamma(large) + ln_gamma(small) - ln_gamma(large + small);
    }
    // The difference of the logarithms of two large numbers would lose digits.
    let sum = large + small;
    let tail = correction(large) - correction(sum);
    let leading = -(large - 0.5) * (small / large).ln_1p() + small - small * sum.ln();
    ln_gamma(small) + leading + tail
}

/// Numbers from here on are large enough for Stirling's series.
const SHIFT: f64 = 16.0;

/// Logarithm of the gamma function of a positive number.
fn ln_gamma(x: f64) -> f64 {
    // ln Γ(x) = ln Γ(x + n) - ln(x (x + 1) … (x + n - 1))
    let (mut shifted, mut product) = (x, 1.0);
    while shifted < SHIFT {
        product *= shifted;
        shifted += 1.0;
    }
    let half_ln_tau = 0.5 * std::f64::consts::TAU.ln();
    (shifted - 0.5) * shifted.ln() - shifted + half_ln_tau + correction(shifted) - product.ln()
}

/// The terms of Stirling's series that vanish for large numbers.
fn correction(x: f64) -> f64 {
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    // B(2k) / (2k (2k - 1)), for k from 1.
    let terms = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
    ];
    inverse * terms.iter().rev().fold(0.0, |sum, term| sum * square + term)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_equal_those_of_gonum() {
        for (a, b, x, expected) in [
            (2.0, 2.0, 0.5, 0.5),
            (0.5, 0.5, 0.25, 0.333_333_333_333_333),
            (3.0, 1.0, 0.75, 0.421_875),
            (10.0, 5.0, 0.6, 0.279_256_987_238_399),
            (0.01, 0.02, 0.3, 0.661_178_427_251_107),
            (200.0, 100.0, 0.66, 0.398_377_065_407_548),
        ] {
            let found = incomplete(a, b, x);
            assert!((found - expected).abs() < 1e-13, "I_{x}({a}, {b}) = {found}, not {expected}");
        }
    }

    #[test]
    fn a_distribution_is_fitted_to_its_mean_and_deviation() {
        let beta = Beta::fit(0.4, 0.2).unwrap();
        assert!((beta.alpha - 2.0).abs() < 1e-12 && (beta.beta - 3.0).abs() < 1e-12, "{beta:?}");
        assert!((beta.up_to(0.25) - 0.261_718_75).abs() < 1e-13);
        let smooth = Beta::fit(0.25, 0.1 * 5.0_f64.sqrt()).unwrap();
        assert!((smooth.up_to(0.5) - 0.842_444_067_650_082).abs() < 1e-13);
        assert_eq!(Beta::fit(0.5, 0.5), None);
        for (mean, deviation, x) in [(1e-300, 1e-160, 0.5), (0.5, 1e-12, 0.5), (0.999_999, 1e-4, 0.3)] {
            let probability = Beta::fit(mean, deviation).map_or(0.0, |beta| beta.up_to(x));
            assert!((0.0..=1.0).contains(&probability), "{mean} {deviation}: {probability}");
        }
    }

    #[test]
    fn the_function_and_its_complement_add_up_to_one() {
        for a in [1e-3, 0.3, 1.0, 7.5, 15.9, 16.1, 400.0, 1e5] {
            for b in [1e-3, 0.3, 1.0, 7.5, 15.9, 16.1, 400.0, 1e5] {
                for x in [1e-9, 0.1, 0.5, 0.77, 1.0 - 1e-9] {
                    let sum = incomplete(a, b, x) + incomplete(b, a, 1.0 - x);
                    assert!((sum - 1.0).abs() < 1e-9, "{a} {b} {x}: {sum}");
                }
            }
        }
    }
}
