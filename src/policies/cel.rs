//! Parts of expressions that several policies have.
//!
//! Expressions test for a field with `has` before they read it, because an absent field is an error.

use serde::Serialize;
use serde_json::json;
use winpool_api::{Mode, names::label};

/// The name of a match condition, and its expression.
pub type Condition = (&'static str, String);

/// A string as a literal.
pub fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"))
}

/// Strings as a list literal.
pub fn list<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    format!("[{}]", values.into_iter().map(text).collect::<Vec<_>>().join(", "))
}

/// The literal of a value of the API that is written as a string, such as a mode.
pub fn value(value: impl Serialize) -> String {
    text(json!(value).as_str().unwrap_or_default())
}

/// A list in a field, or an empty list. The object that has the field must exist.
pub fn list_of(field: &str) -> String {
    format!("has({field}) ? {field} : []")
}

/// A map in a field, or an empty map. The object that has the field must exist.
pub fn map_of(field: &str) -> String {
    format!("has({field}) ? {field} : {{}}")
}

/// The request is not from this user.
pub fn not_from(user: &str) -> Condition {
    ("not-the-operator", format!("request.userInfo.username != {}", text(user)))
}

/// The operator applies the pool. Otherwise others may change what the pool had set.
pub fn pool_is_enforced() -> Condition {
    let mode = value(Mode::Enforce);
    let expression = format!(
        "!has(params.metadata.deletionTimestamp) &&\n\
         (!has(params.spec.mode) || params.spec.mode == {mode}) &&\n\
         (!has(params.spec.paused) || !params.spec.paused)"
    );
    ("pool-is-enforced", expression)
}

/// The taints in a spec as strings, `key=value:effect`.
pub fn taints_of(spec: &str) -> String {
    format!(
        "(has({spec}.taints) ? {spec}.taints : [])\n\
         .map(t, t.key + '=' + (has(t.value) ? t.value : '') + ':' + t.effect)"
    )
}

/// Whether toleration `x` tolerates taint `t`: the rule of [`winpool_api::Toleration::tolerates`].
pub fn tolerates() -> &'static str {
    "(!has(x.key) || x.key == '' || x.key == t.key) &&\n\
     (!has(x.effect) || x.effect == '' || x.effect == t.effect) &&\n\
     (has(x.operator) && x.operator == 'Exists' ||\n\
     (!has(x.operator) || x.operator in ['', 'Equal']) &&\n\
     (has(x.value) ? x.value : '') == (has(t.value) ? t.value : ''))"
}

/// Whether the key `k` of a label is set by the operator on nodes, apart from the labels in the spec of a pool.
pub fn is_own_label(k: &str) -> String {
    format!("{k}.startsWith({}) || {k}.startsWith({})", text(&prefix(label::POOL)), text(label::RUNS))
}

/// The prefix of a key, with the slash.
pub fn prefix(key: &str) -> String {
    key.split_inclusive('/').next().unwrap_or_default().to_owned()
}

/// The keys of labels that select the operating system of a node, directly or by a build or a pool.
pub const OS_KEYS: [&str; 4] = [label::OS, label::BETA_OS, label::WINDOWS_BUILD, label::POOL];

/// Whether the key `k` of a label selects the operating system.
pub fn selects_os(k: &str) -> String {
    format!("{k} in {} || {k}.startsWith({})", list(OS_KEYS), text(label::RUNS))
}

/// An expression whose lines are indented by the number of open brackets.
pub fn indented(expression: &str) -> String {
    let mut depth: usize = 0;
    let mut lines = Vec::new();
    for line in expression.lines() {
        let closing = line.chars().take_while(|c| ")]}".contains(*c)).count();
        lines.push(format!("{:1$}{line}", "", 2 * depth.saturating_sub(closing)));
        let count = |brackets: &str| line.chars().filter(|c| brackets.contains(*c)).count();
        depth = (depth + count("([{")).saturating_sub(count(")]}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_indented_by_open_brackets() {
        assert_eq!(
            indented("a.all(k,\nb(k) &&\n(c ||\nd)) &&\n[\ne\n]"),
            "a.all(k,\n  b(k) &&\n  (c ||\n    d)) &&\n[\n  e\n]"
        );
    }

    #[test]
    fn a_literal_is_quoted_and_escaped() {
        assert_eq!(list(["os", "it's", r"a\b"]), r"['os', 'it\'s', 'a\\b']");
    }
}
