//! `core/v1/types.go` of kubernetes/api: the fields that the API server rejects in a pod for Windows.

use std::collections::BTreeSet;

use winpool_api::facts::{Minor, pod_fields::REJECTED};

use super::Comparison;

/// The line before the list.
const LIST: &str = "If the OS field is set to windows, following fields must be unset:";

/// Compares the list in the comment of `PodSpec.os`.
pub fn rejected(minor: Minor, text: &str) -> Comparison {
    let list = text.split(LIST).nth(1).ok_or("no list of fields for windows")?;
    let lines = list.lines().skip(1).map(str::trim).map_while(|line| line.strip_prefix("// - spec."));
    let upstream: BTreeSet<String> = lines.map(|field| field.replace("[*]", "[]")).collect();
    let own = REJECTED.iter().filter(|field| field.since <= minor).map(|field| field.path.to_owned()).collect();
    let missing = upstream.difference(&own).map(|field| format!("the rejected field {field} is missing"));
    let removed = own.difference(&upstream).map(|field| format!("the field {field} is not rejected upstream"));
    Ok(missing.chain(removed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_and_removed_fields_are_differences() {
        let own = |minor| REJECTED.iter().filter(move |field| field.since <= Minor(minor));
        let text = |minor| {
            let lines = own(minor).map(|field| format!("\t// - spec.{}\n", field.path.replace("[]", "[*]")));
            format!("\t// {LIST}\n{}\t// +optional\n", lines.collect::<String>())
        };
        assert_eq!(rejected(Minor(36), &text(36)), Ok(Vec::new()));
        assert_eq!(rejected(Minor(33), &text(34)).unwrap(), ["the rejected field resources is missing"]);
        assert_eq!(rejected(Minor(34), &text(33)).unwrap(), ["the field resources is not rejected upstream"]);
        assert!(rejected(Minor(36), "package v1").is_err());
    }
}
