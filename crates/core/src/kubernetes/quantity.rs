//! Quantities such as `500m`, `2Gi` and `1e3`, and eviction thresholds, which may be percentages.
//!
//! Source: `pkg/api/resource/quantity.go` of kubernetes/apimachinery (0.36) for quantities, and
//! `pkg/kubelet/eviction/helpers.go` and `api/types.go` of kubernetes/kubernetes (1.21 and 1.36) for thresholds. The
//! arithmetic is exact, unlike that of `kube_quantity`, which converts to floating point.

use std::{fmt, str::FromStr};

use derive_more::Display;
use winpool_facts::named_enum;

/// An amount, exact to a billionth as in Kubernetes. Quantities are equal if their amounts are.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The family of suffixes of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `k`, `M`, `G`.
    Decimal,
    /// `Ki`, `Mi`, `Gi`.
    Binary,
    /// `e3`.
    Exponent,
}

const NANOS: i128 = 1_000_000_000;
const MAX: i128 = i64::MAX as i128 * NANOS;
const DECIMAL: &[(&str, u32)] =
    &[("n", 0), ("u", 3), ("m", 6), ("", 9), ("k", 12), ("M", 15), ("G", 18), ("T", 21), ("P", 24), ("E", 27)];
const BINARY: &[(&str, u32)] = &[("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a quantity")]
pub struct ParseQuantityError(String);

impl Quantity {
    /// A number of bytes, displayed with a binary suffix.
    pub const fn of_bytes(bytes: i64) -> Self {
        Self { nanos: bytes as i128 * NANOS, format: Format::Binary }
    }

    /// A number of thousandths, displayed with a decimal suffix.
    pub const fn of_milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * (NANOS / 1000), format: Format::Decimal }
    }

    /// The amount in thousandths, rounded up as Kubernetes does.
    pub fn milli(self) -> i64 {
        rounded_up(self.nanos, NANOS / 1000)
    }

    /// The amount in whole units, such as bytes, rounded up as Kubernetes does.
    pub fn bytes(self) -> i64 {
        rounded_up(self.nanos, NANOS)
    }

    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }
}

fn rounded_up(nanos: i128, unit: i128) -> i64 {
    let away_from_zero = nanos / unit + (nanos % unit).signum();
    i64::try_from(away_from_zero).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParseQuantityError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return None;
    }
    let (format, scale) = scale(suffix)?;
    let nanos = nanos(whole, fraction, scale);
    Some(Quantity { nanos: if negative { -nanos } else { nanos }, format })
}

#[derive(Clone, Copy)]
enum Scale {
    Ten(i32),
    Two(u32),
}

fn scale(suffix: &str) -> Option<(Format, Scale)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((Format::Decimal, Scale::Ten(i32::try_from(*power).ok()? - 9)));
    }
    if let Some((_, power)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        return Some((Format::Binary, Scale::Two(*power)));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| exponent.parse().ok()).flatten().map(|power| (Format::Exponent, Scale::Ten(power)))
}

/// Billionths, rounded up, at most [`MAX`].
fn nanos(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let (factor, tens) = match scale {
        Scale::Ten(power) => (1, i64::from(power)),
        Scale::Two(power) => (1_i128 << power, 0),
    };
    // The value is digits x factor x 10^tens billionths.
    let tens = tens + 9 - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let multiplied = |value: i128| -> Option<i128> {
        let value = value.checked_mul(factor)?;
        match u32::try_from(tens) {
            Ok(tens) => value.checked_mul(10_i128.checked_pow(tens)?),
            Err(_) => Some(match u32::try_from(-tens).ok().and_then(|tens| 10_i128.checked_pow(tens)) {
                Some(divisor) => value / divisor + i128::from(value % divisor != 0),
                None => 1,
            }),
        }
    };
    digits.parse().ok().and_then(multiplied).map_or(MAX, |nanos| nanos.min(MAX))
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, and the largest possible suffix of the family.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.nanos % NANOS == 0;
        let small = self.nanos.abs() < 1024 * NANOS;
        match self.format {
            _ if self.nanos == 0 => f.write_str("0"),
            Format::Binary if whole && !small => {
                let amount = self.nanos / NANOS;
                let fits = |(_, power): &&(&str, u32)| amount % (1 << power) == 0;
                match BINARY.iter().rev().find(fits) {
                    Some((suffix, power)) => write!(f, "{}{suffix}", amount >> power),
                    None => write!(f, "{amount}"),
                }
            }
            format => {
                let fits = |(_, power): &&(&str, u32)| self.nanos % 10_i128.pow(*power) == 0;
                let (suffix, power) = DECIMAL.iter().rev().find(fits).unwrap_or(&("n", 0));
                let amount = self.nanos / 10_i128.pow(*power);
                match format {
                    Format::Exponent if *power != 9 => write!(f, "{amount}e{}", i64::from(*power) - 9),
                    _ => write!(f, "{amount}{suffix}"),
                }
            }
        }
    }
}

/// An eviction threshold: the amount of a resource that has to be available, or a share of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Display)]
pub enum Threshold {
    Amount(Quantity),
    #[display("{}%", _0.0)]
    Percent(Percent),
}

/// A percentage in single precision, as in the kubelet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(f32);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseThresholdError {
    #[error("`{0}` is neither a quantity nor a percentage")]
    Malformed(String),
    /// Kubelets accept percentages from 0 to 100.
    #[error("`{0}` is not between 0% and 100%")]
    OutOfRange(String),
    /// Kubelets accept positive amounts only.
    #[error("`{0}` is not positive")]
    NotPositive(String),
}

impl Threshold {
    /// The amount of a capacity that the threshold reserves. 0% and 100% mean no threshold.
    pub fn of(self, capacity: i64) -> Quantity {
        match self {
            Self::Amount(quantity) => quantity,
            Self::Percent(percent) => Quantity::of_bytes(percent.of(capacity)),
        }
    }
}

impl Percent {
    /// int64(float64(capacity) * float64(float32(percent) / 100)), as the kubelet computes it.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    fn of(self, capacity: i64) -> i64 {
        if self.0 == 0.0 || self.0 == 100.0 {
            return 0;
        }
        (capacity as f64 * f64::from(self.0 / 100.0)) as i64
    }
}

impl FromStr for Threshold {
    type Err = ParseThresholdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || ParseThresholdError::Malformed(text.to_owned());
        let Some(number) = text.strip_suffix('%') else {
            let quantity = text.parse::<Quantity>().map_err(|_| malformed())?;
            let positive = quantity > Quantity::of_bytes(0);
            return positive
                .then_some(Self::Amount(quantity))
                .ok_or_else(|| ParseThresholdError::NotPositive(text.to_owned()));
        };
        let plain = number.bytes().all(|byte| byte.is_ascii_digit() || b".+-".contains(&byte));
        let percent = number.parse::<f32>().ok().filter(|_| plain).ok_or_else(malformed)?;
        let in_range = (0.0..=100.0).contains(&percent);
        in_range
            .then_some(Self::Percent(Percent(percent)))
            .ok_or_else(|| ParseThresholdError::OutOfRange(text.to_owned()))
    }
}

named_enum! {
    /// A resource that a Windows kubelet can reserve.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Resource {
        Cpu = "cpu",
        Memory = "memory",
        /// Space on the disk with the kubelet's files.
        EphemeralStorage = "ephemeral-storage",
    }
}

impl Resource {
    /// An amount in thousandths of a processor or in bytes.
    pub const fn quantity(self, units: i64) -> Quantity {
        match self {
            Self::Cpu => Quantity::of_milli(units),
            Self::Memory | Self::EphemeralStorage => Quantity::of_bytes(units),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn quantities_are_the_same_amounts_as_in_kubernetes() {
        let table = [
            ("0", 0, 0),
            ("1", 1000, 1),
            ("+1", 1000, 1),
            ("500m", 500, 1),
            ("1500m", 1500, 2),
            ("0.5", 500, 1),
            (".5", 500, 1),
            ("5.", 5000, 5),
            ("100u", 1, 1),
            ("1n", 1, 1),
            ("2Gi", 2_147_483_648_000, 2_147_483_648),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("1k", 1_000_000, 1000),
            ("1e3", 1_000_000, 1000),
            ("1E3", 1_000_000, 1000),
            ("1e+3", 1_000_000, 1000),
            ("5e-3", 5, 1),
            ("-1", -1000, -1),
            ("-1500m", -1500, -2),
            ("1Ei", i64::MAX, 1 << 60),
            ("1E", i64::MAX, 1_000_000_000_000_000_000),
            ("9E", i64::MAX, 9_000_000_000_000_000_000),
            ("100E", i64::MAX, i64::MAX),
            ("1e99", i64::MAX, i64::MAX),
            ("1e-99", 1, 1),
        ];
        for (text, milli, bytes) in table {
            assert_eq!((quantity(text).milli(), quantity(text).bytes()), (milli, bytes), "{text}");
        }
    }

    #[test]
    fn invalid_quantities_are_rejected() {
        for text in [
            "", " ", "Gi", "2GB", "2 Gi", "2gi", "2K", "1.2.3", "1e", "1e1.5", "0x10", "1_000", "٣", "--1", "+-1",
            "10%", ".",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
        assert_eq!("2GB".parse::<Quantity>().unwrap_err().to_string(), "`2GB` is not a quantity");
    }

    #[test]
    fn quantities_are_displayed_in_canonical_form() {
        let table = [
            ("0Gi", "0"),
            ("1024Mi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("1.5Gi", "1536Mi"),
            ("512", "512"),
            ("0.5Ki", "512"),
            ("1025Ki", "1025Ki"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1000", "1k"),
            ("1200", "1200"),
            ("1e3", "1e3"),
            ("12e2", "1200"),
            ("0.0001", "100u"),
            ("-2048Mi", "-2Gi"),
        ];
        for (text, canonical) in table {
            assert_eq!(quantity(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn percentages_are_computed_with_the_precision_of_the_kubelet() {
        let table = [
            ("10%", 107_374_182_400, 10_737_418_400),
            ("15%", 107_374_182_400, 16_106_128_000),
            ("12.5%", 1000, 125),
            ("0%", 1000, 0),
            ("100%", 1000, 0),
        ];
        for (text, capacity, expected) in table {
            assert_eq!(text.parse::<Threshold>().unwrap().of(capacity).bytes(), expected, "{text} of {capacity}");
        }
        assert_eq!("500Mi".parse::<Threshold>().unwrap().of(1).bytes(), 500 << 20);
    }

    #[test]
    fn thresholds_that_kubelets_reject_are_rejected() {
        use ParseThresholdError::{Malformed, NotPositive, OutOfRange};
        for text in ["ten%", "%", "inf%", "1e1%", "500MiB"] {
            assert_eq!(text.parse::<Threshold>(), Err(Malformed(text.to_owned())));
        }
        for text in ["101%", "-1%"] {
            assert_eq!(text.parse::<Threshold>(), Err(OutOfRange(text.to_owned())));
        }
        for text in ["0", "-1Gi"] {
            assert_eq!(text.parse::<Threshold>(), Err(NotPositive(text.to_owned())));
        }
        for text in ["10%", "12.5%", "500Mi"] {
            assert_eq!(text.parse::<Threshold>().unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn the_canonical_form_has_the_same_amount_and_is_stable(
            number in "-?[0-9]{1,6}(\\.[0-9]{1,3})?",
            suffix in "(m|u|k|M|G|T|Ki|Mi|Gi|Ti|e[0-9]|e-[0-3])?",
        ) {
            let first = quantity(&format!("{number}{suffix}"));
            let canonical = first.to_string();
            prop_assert_eq!(quantity(&canonical), first);
            prop_assert_eq!(quantity(&canonical).to_string(), canonical);
        }

        #[test]
        fn a_suffix_multiplies_the_number(number in 0_u32..1_000_000, fraction in 0_u32..1000) {
            for (suffix, factor) in [("m", 1), ("", 1000), ("k", 1_000_000), ("Ki", 1_024_000), ("Mi", 1_048_576_000_i128)] {
                let expected = (i128::from(number) * 1000 + i128::from(fraction)) * factor;
                let exact = quantity(&format!("{number}.{fraction:03}{suffix}"));
                prop_assert_eq!(i128::from(exact.milli()), (expected + 999) / 1000);
            }
        }

        #[test]
        fn quantities_are_ordered_by_amount(left in 0_i64..1 << 50, right in 0_i64..1 << 50) {
            let (a, b) = (quantity(&left.to_string()), quantity(&format!("{right}000m")));
            prop_assert_eq!(a.cmp(&b), left.cmp(&right));
        }

        #[test]
        fn any_text_is_a_quantity_or_an_error(text in "\\PC*") {
            let parsed = text.parse::<Quantity>();
            let again = parsed.ok().map(|quantity| quantity.to_string().parse::<Quantity>());
            prop_assert!(again.is_none_or(|again| again.is_ok()));
        }

        #[test]
        fn a_percentage_of_a_capacity_does_not_exceed_it(percent in 0_f32..=100.0, capacity in 0_i64..1 << 50) {
            let share = format!("{percent}%").parse::<Threshold>().unwrap().of(capacity).bytes();
            prop_assert!((0..=capacity).contains(&share));
        }
    }
}
