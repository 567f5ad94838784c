//! Durations in the format of Go.

/// Parses a non-negative duration in the format of Go, such as `1h30m`, `1.5s` or `0`, to nanoseconds.
pub fn parse(text: &str) -> Option<i64> {
    const UNITS: &[(&str, f64)] =
        &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount = rest[..end].parse::<f64>().ok()?;
        let suffix = &rest[end..];
        let unit_end = suffix.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(suffix.len());
        let (_, factor) = UNITS.iter().find(|(unit, _)| *unit == &suffix[..unit_end])?;
        total += amount * factor;
        rest = &suffix[unit_end..];
    }
    // Go has 63 bits for nanoseconds, about 292 years.
    #[allow(clippy::cast_possible_truncation)]
    (!text.is_empty() && total < 9.2e18).then_some(total as i64)
}
