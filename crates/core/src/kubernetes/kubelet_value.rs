//! Values of a KubeletConfiguration, as written and as the kubelet shows them at `/configz`.

use serde_json::Value;

use super::{duration, quantity::Quantity};

/// Whether the kubelet uses a value. It omits empty values, and shows durations and quantities in a form of its own, such as
/// `1m0s` and `2Gi`.
pub fn is_same(expected: &Value, used: &Value) -> bool {
    let is_empty = match expected {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Array(list) => list.is_empty(),
        Value::Object(_) | Value::Bool(true) => false,
    };
    match (expected, used) {
        (expected, used) if expected == used => true,
        (_, Value::Null) => is_empty,
        (Value::Array(expected), Value::Array(used)) => {
            expected.len() == used.len() && expected.iter().zip(used).all(|(expected, used)| is_same(expected, used))
        }
        (Value::Object(expected), used) => expected.iter().all(|(name, value)| is_same(value, &used[name])),
        (Value::String(expected), Value::String(used)) => {
            let [durations, quantities] = [
                duration::parse(expected).is_some_and(|nanos| duration::parse(used) == Some(nanos)),
                expected.parse::<Quantity>().is_ok_and(|quantity| used.parse() == Ok(quantity)),
            ];
            durations || quantities
        }
        _ => false,
    }
}
