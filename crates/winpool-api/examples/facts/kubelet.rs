//! `config/v1beta1/types.go` of kubernetes/kubelet, and the flags in `cmd/kubelet/app/options` of
//! kubernetes/kubernetes.

use std::collections::BTreeSet;

use winpool_api::facts::{
    Minor,
    kubelet_fields::{DefaultValue, FIELDS, field},
    kubelet_flags::FLAGS,
    layers::EMPTY_RESOLV_CONF_SINCE,
};

use super::Comparison;

/// The flags that only Windows has.
const OF_WINDOWS: [&str; 2] = ["windows-priorityclass", "windows-service"];

/// Compares the fields of KubeletConfiguration, and their defaults.
pub fn fields(minor: Minor, text: &str) -> Comparison {
    let start = text.find("type KubeletConfiguration struct {").ok_or("no KubeletConfiguration")?;
    let body = text[start..].split("\n}").next().unwrap_or_default();
    let upstream: BTreeSet<&str> = body.lines().filter_map(json_name).collect();
    // `apiVersion` and `kind` are in another type.
    let own = FIELDS.iter().filter(|field| field.since <= minor && !["apiVersion", "kind"].contains(&field.name));
    let own: BTreeSet<&str> = own.map(|field| field.name).collect();
    let missing = upstream.difference(&own).map(|name| format!("the field {name} is missing"));
    let removed = own.difference(&upstream).map(|name| format!("the field {name} does not exist upstream"));
    Ok(missing.chain(removed).chain(defaults(minor, body)).collect())
}

/// The defaults in the comments of fields that differ from the table. They have no common format, so only the first word
/// is compared, without quotes and capitals.
fn defaults(minor: Minor, body: &str) -> Vec<String> {
    let (mut differences, mut documented) = (Vec::new(), None);
    for line in body.lines() {
        if let Some(default) = line.trim_start().strip_prefix("// Default: ") {
            documented = default.split_whitespace().next().map(|word| word.trim_matches('"').to_lowercase());
        } else if let Some(name) = json_name(line) {
            let (own, upstream) =
                (field(name).and_then(|field| field.default_in(minor)).map(written), documented.take());
            if let (Some(own), Some(upstream)) = (own, upstream)
                && own != upstream
            {
                differences.push(format!("the default of {name} is {upstream} upstream, not {own}"));
            }
        }
    }
    differences
}

/// A default as the comments write it.
fn written(default: DefaultValue) -> String {
    match default {
        DefaultValue::Bool(value) => value.to_string(),
        DefaultValue::Integer(value) => value.to_string(),
        DefaultValue::Text(value) => value.to_lowercase(),
        DefaultValue::Unset => "nil".to_owned(),
    }
}

/// The name in the tag ``json:"name,omitempty"`` of a field.
pub fn json_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let name = line.split("json:\"").nth(1)?.split(['"', ',']).next()?;
    (!line.starts_with("//") && !name.is_empty()).then_some(name)
}

/// Compares whether `resolvConf` can be empty: it is a pointer then.
pub fn resolv_conf(minor: Minor, text: &str) -> Comparison {
    let mut lines = text.lines().map(str::trim).filter(|line| json_name(line) == Some("resolvConf"));
    let line = lines.next().ok_or("no field resolvConf")?;
    let can_be_empty = line.split_whitespace().nth(1).is_some_and(|kind| kind.starts_with('*'));
    let own = minor >= EMPTY_RESOLV_CONF_SINCE;
    let difference = || format!("whether resolvConf can be empty is {can_be_empty} upstream, not {own}");
    Ok((can_be_empty != own).then(difference).into_iter().collect())
}

/// Compares the flags of all operating systems.
pub fn flags(minor: Minor, text: &str) -> Comparison {
    compare_flags(minor, text, |name| !OF_WINDOWS.contains(&name))
}

/// Compares the flags that only Windows has.
pub fn windows_flags(minor: Minor, text: &str) -> Comparison {
    compare_flags(minor, text, |name| OF_WINDOWS.contains(&name))
}

fn compare_flags(minor: Minor, text: &str, is_included: impl Fn(&str) -> bool) -> Comparison {
    if !text.contains("fs.") {
        return Err("no flags".to_owned());
    }
    let differences = FLAGS.iter().filter(|flag| is_included(flag.name)).filter_map(|flag| {
        let exists = text.contains(&format!("\"{}\"", flag.name));
        match (exists, flag.known_in(minor)) {
            (true, false) => Some(format!("the flag --{} is missing", flag.name)),
            (false, true) => Some(format!("the flag --{} does not exist upstream", flag.name)),
            _ => None,
        }
    });
    Ok(differences.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_of_the_struct_are_compared() {
        let rows: String = FIELDS
            .iter()
            .filter(|field| field.since <= Minor(36) && field.name != "maxPods")
            .map(|field| format!("\tField string `json:\"{},omitempty\"`\n", field.name))
            .collect();
        let text = format!(
            "type Other struct {{\n\tA string `json:\"other\"`\n}}\n\ntype KubeletConfiguration struct {{\n\t\
             metav1.TypeMeta `json:\",inline\"`\n{rows}\t// B was `json:\"gone\"`\n\tC *int `json:\"brandNew\"`\n}}\n"
        );
        let text = text.replace("\tField string `json:\"apiVersion,omitempty\"`\n", "");
        let text = text.replace("\tField string `json:\"kind,omitempty\"`\n", "");
        let expected =
            ["the field brandNew is missing", "the field maxPods does not exist upstream"].map(str::to_owned);
        assert_eq!(fields(Minor(36), &text), Ok(expected.to_vec()));
        assert!(fields(Minor(36), "package v1beta1").is_err());
    }

    #[test]
    fn a_default_in_a_comment_is_compared() {
        let field = |default: &str| format!("\t// Text.\n\t// Default: {default}\n\tA int `json:\"eventBurst\"`\n");
        assert_eq!(defaults(Minor(36), &field("100")), Vec::<String>::new());
        assert_eq!(defaults(Minor(26), &field("10 (events)")), Vec::<String>::new());
        let expected = "the default of eventBurst is 200 upstream, not 100".to_owned();
        assert_eq!(defaults(Minor(36), &field("200")), [expected]);
    }

    #[test]
    fn another_type_of_resolv_conf_is_a_difference() {
        let field = |kind: &str| format!("\tResolverConfig {kind} `json:\"resolvConf,omitempty\"`\n");
        assert_eq!(resolv_conf(Minor(22), &field("string")), Ok(Vec::new()));
        assert_eq!(resolv_conf(Minor(23), &field("*string")), Ok(Vec::new()));
        let differs = "whether resolvConf can be empty is false upstream, not true";
        assert_eq!(resolv_conf(Minor(36), &field("string")).unwrap(), [differs]);
        assert!(resolv_conf(Minor(36), "package v1beta1").is_err());
    }

    #[test]
    fn added_and_removed_flags_are_differences() {
        let own =
            |minor| FLAGS.iter().filter(move |flag| flag.known_in(Minor(minor)) && !OF_WINDOWS.contains(&flag.name));
        let text = |minor| {
            own(minor).map(|flag| format!("fs.StringVar(&x, \"{}\", x, \"\")\n", flag.name)).collect::<String>()
        };
        assert_eq!(flags(Minor(36), &text(36)), Ok(Vec::new()));
        let removed = "the flag --pod-infra-container-image does not exist upstream".to_owned();
        assert_eq!(flags(Minor(34), &text(35)), Ok(vec![removed]));
        let added = "the flag --pod-infra-container-image is missing".to_owned();
        assert_eq!(flags(Minor(35), &text(34)), Ok(vec![added]));
        assert_eq!(windows_flags(Minor(36), "fs.BoolVar(&x, \"windows-service\")").unwrap().len(), 1);
        assert!(flags(Minor(36), "").is_err());
    }
}
