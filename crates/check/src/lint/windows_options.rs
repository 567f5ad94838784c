//! The values of `securityContext.windowsOptions`, with the rules of the API server.

use serde_json::Value;
use winpool_core::{json_path::fields as at, kubernetes::syntax, placeholder};
use winpool_facts::pod_fields::{MAX_CREDENTIAL_SPEC, USER_NAME};

use super::{Code, Finding};

/// The fields of a pod spec with options for Windows.
pub const OPTIONS: [&str; 2] = ["securityContext.windowsOptions", "containers[].securityContext.windowsOptions"];

/// The invalid values of the pod and of its containers.
pub fn check(spec: &Value) -> Vec<Finding> {
    let of_options = |(path, options): (String, &Value)| {
        let finding = |name: &str, problem: fn(&str) -> Option<(String, Option<String>)>| {
            let value = options[name].as_str().filter(|value| !placeholder::is_marked(value))?;
            let (problem, remedy) = problem(value)?;
            let finding = Finding::new(Code::WindowsOptionsInvalid, format!("{path}.{name}"), problem);
            Some(match remedy {
                Some(remedy) => finding.with_remedy(remedy),
                None => finding,
            })
        };
        [
            finding("runAsUserName", user_problem),
            finding("gmsaCredentialSpecName", spec_name_problem),
            finding("gmsaCredentialSpec", spec_problem),
        ]
    };
    OPTIONS.iter().flat_map(|pattern| at(spec, pattern)).flat_map(of_options).flatten().collect()
}

/// Why a user is invalid, and the remedy if it is not that of the code.
pub fn user_problem(name: &str) -> Option<(String, Option<String>)> {
    if name.is_empty() {
        return Some(("runAsUserName is empty".to_owned(), Some("write a user, or remove it".to_owned())));
    }
    if name.chars().any(|char| char.is_ascii_control()) {
        let problem = format!(
            "the user {name:?} has a control character: YAML reads \\b, \\n, \\r and \\t in double quotes as such"
        );
        return Some((problem, Some("write it in single quotes or without quotes".to_owned())));
    }
    let (domain, user) = match name.split('\\').collect::<Vec<_>>()[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => {
            let problem =
                format!("the user {name} has several backslashes: YAML keeps both in single quotes and without quotes");
            return Some((problem, Some(format!("write '{}'", name.replace(r"\\", r"\")))));
        }
    };
    let problem = domain.and_then(domain_problem).or_else(|| name_problem(user))?;
    Some((format!("the user {name} {problem}"), None))
}

fn domain_problem(domain: &str) -> Option<String> {
    let rules = USER_NAME;
    if domain.len() >= rules.domain_below {
        return Some(format!(
            "has a domain of {} characters, and {} is the limit",
            domain.len(),
            rules.domain_below - 1
        ));
    }
    let is_netbios = (1..=rules.max_netbios).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|char| rules.not_in_netbios.contains(char));
    // A domain may be in upper case, unlike the names of objects.
    let is_dns = domain.split('.').all(|label| syntax::is_dns_label(&label.to_ascii_lowercase()));
    (!is_netbios && !is_dns).then(|| format!("has the domain {domain:?}, which is neither a NetBIOS nor a DNS name"))
}

fn name_problem(user: &str) -> Option<String> {
    let rules = USER_NAME;
    if user.is_empty() {
        Some("has no name after the domain".to_owned())
    } else if user.len() > rules.max_user {
        Some(format!("has {} characters, and {} is the limit", user.len(), rules.max_user))
    } else if user.trim_matches(['.', ' ']).is_empty() {
        Some("has only periods or spaces".to_owned())
    } else {
        let char = user.chars().find(|char| rules.not_in_user.contains(*char))?;
        Some(format!("has the invalid character {char}"))
    }
}

fn spec_name_problem(name: &str) -> Option<(String, Option<String>)> {
    let problem = format!("{name:?} is not the name of a GMSACredentialSpec");
    (!syntax::is_dns_subdomain(name)).then_some((problem, None))
}

fn spec_problem(spec: &str) -> Option<(String, Option<String>)> {
    let remedy = "write the JSON of the credential spec, or set gmsaCredentialSpecName".to_owned();
    match spec.len() {
        0 => Some(("gmsaCredentialSpec is empty".to_owned(), Some(remedy))),
        length if length > MAX_CREDENTIAL_SPEC => Some((
            format!("gmsaCredentialSpec has {length} bytes, and {MAX_CREDENTIAL_SPEC} is the limit"),
            Some(remedy),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_user_is_valid_as_in_the_api_server() {
        let table = [
            ("ContainerUser", ""),
            (r"NT AUTHORITY\SYSTEM", ""),
            (r"contoso.example.com\web-svc", ""),
            (r"CONTOSO\web svc$", ""),
            ("", "runAsUserName is empty"),
            ("CONTOSO\u{8}ob", "control character"),
            (r"NT AUTHORITY\\SYSTEM", "several backslashes"),
            (r"\user", r#"has the domain "", which is neither"#),
            (r".CONTOSO\user", "which is neither a NetBIOS nor a DNS name"),
            (r"a-very-long-netbios_name\user", "which is neither a NetBIOS nor a DNS name"),
            (r"a-very-long-netbios-name\user", ""),
            (r"CONTOSO\", "has no name after the domain"),
            ("...", "has only periods or spaces"),
            ("user@contoso.com", "has the invalid character @"),
            ("CONTOSO/user", "has the invalid character /"),
        ];
        for (name, expected) in table {
            let problem = user_problem(name).map(|(problem, _)| problem).unwrap_or_default();
            assert!(problem.contains(expected) && problem.is_empty() == expected.is_empty(), "{name}: {problem}");
        }
        let limits =
            [("a".repeat(104), true), ("a".repeat(105), false), (format!("{}\\a", "a.".repeat(127) + "a"), true)];
        for (name, is_valid) in limits {
            assert_eq!(user_problem(&name).is_none(), is_valid, "{name}");
        }
        let (_, remedy) = user_problem(r"NT AUTHORITY\\SYSTEM").unwrap();
        assert_eq!(remedy.as_deref(), Some(r"write 'NT AUTHORITY\SYSTEM'"));
    }

    #[test]
    fn options_of_the_pod_and_of_containers_are_checked() {
        let options = json!({"windowsOptions": {"gmsaCredentialSpecName": "WebApp", "gmsaCredentialSpec": ""}});
        let spec = json!({"securityContext": options, "initContainers": [{"securityContext": {"windowsOptions": {"runAsUserName": "a@b"}}}]});
        let paths: Vec<_> = check(&spec).into_iter().map(|finding| finding.path).collect();
        let expected = [
            "securityContext.windowsOptions.gmsaCredentialSpecName",
            "securityContext.windowsOptions.gmsaCredentialSpec",
            "initContainers[0].securityContext.windowsOptions.runAsUserName",
        ];
        assert_eq!(paths, expected);
        let replaced = json!({"securityContext": {"windowsOptions": {"gmsaCredentialSpecName": "${SPEC}"}}});
        assert_eq!(check(&replaced), []);
        assert_eq!(spec_problem(&"x".repeat(MAX_CREDENTIAL_SPEC)), None);
        assert!(spec_problem(&"x".repeat(MAX_CREDENTIAL_SPEC + 1)).is_some());
    }
}
