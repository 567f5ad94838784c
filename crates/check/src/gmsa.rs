//! The credential specs of Group Managed Service Accounts (gMSA).

use serde_json::Value;
use winpool_core::{Problem, join, json_path::fields, placeholder};

use crate::lint::OPTIONS;

/// The names of credential specs in the spec of a pod, with their paths, and whether the content is beside the name.
pub fn names(spec: &Value) -> impl Iterator<Item = (String, &str, bool)> {
    OPTIONS.iter().flat_map(|pattern| fields(spec, pattern)).filter_map(|(path, options)| {
        let name = options["gmsaCredentialSpecName"].as_str()?;
        Some((join(&path, "gmsaCredentialSpecName"), name, options["gmsaCredentialSpec"].is_string()))
    })
}

const ACCOUNT: &str = "DomainJoinConfig.MachineAccountName";
const SID: &str = "DomainJoinConfig.Sid";
const ACCOUNTS: &str = "ActiveDirectoryConfig.GroupManagedServiceAccounts";
/// The required fields, and what to write: MicrosoftDocs/Virtualization-Documentation, `gmsa-troubleshooting.md`, "Check the Credential
/// Spec file" (77e0742a, 2026-08-07).
const REQUIRED: [(&str, &str); 5] = [
    ("DomainJoinConfig.DnsName", "the DNS name of the domain of the gMSA"),
    ("DomainJoinConfig.DnsTreeName", "the DNS name of the forest"),
    (ACCOUNT, "the name of the gMSA, without domain and $"),
    ("DomainJoinConfig.NetBiosName", "the NetBIOS name of the domain"),
    (SID, "the SID of the domain, S-1-5-21 and three numbers"),
];

/// What is wrong with the shape of a GMSACredentialSpec. What is given to a plug-in is not judged, and may be a password.
pub fn problems(object: &Value) -> Vec<Problem> {
    let spec = &object["credspec"];
    let at = |path: &str| path.split('.').fold(spec, |value, field| &value[field]);
    let text = |path: &str| at(path).as_str().unwrap_or_default();
    let problem = |path: &str, wrong: &str, remedy: String| Problem::new(join("credspec", path), wrong, remedy);
    let invalid = REQUIRED.iter().filter(|(path, _)| !is_valid(path, text(path)));
    let mut found: Vec<_> =
        invalid.map(|(path, what)| problem(path, "is missing or has another form", format!("write {what}"))).collect();
    if !at("CmsPlugins").as_array().is_some_and(|plugins| plugins.iter().any(|one| one == "ActiveDirectory")) {
        found.push(problem("CmsPlugins", "ActiveDirectory is missing", "write [ActiveDirectory]".to_owned()));
    }
    for scope in ["DomainJoinConfig.DnsName", "DomainJoinConfig.NetBiosName"].map(text) {
        let is_open = |text: &str| text.is_empty() || placeholder::is_in(text);
        let is = |value: &Value, text: &str| value.as_str().is_some_and(|value| value.eq_ignore_ascii_case(text));
        let mut entries = at(ACCOUNTS).as_array().into_iter().flatten();
        if !entries.any(|one| is(&one["Name"], text(ACCOUNT)) && is(&one["Scope"], scope)) && !is_open(scope) {
            found.push(problem(ACCOUNTS, "the gMSA is missing", format!("add it with Scope: {scope}")));
        }
    }
    found
}

fn is_valid(path: &str, text: &str) -> bool {
    let has_form = match path {
        ACCOUNT => !text.contains(['$', '\\', '@']),
        // The SID of an account has another number.
        SID => {
            let numbers = text.strip_prefix("S-1-5-21-").unwrap_or_default().split('-');
            numbers.clone().count() == 3 && numbers.into_iter().all(|number| number.parse::<u32>().is_ok())
        }
        _ => true,
    };
    !text.is_empty() && (has_form || placeholder::is_in(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_credential_spec_has_the_fields_that_windows_reads() {
        let complete = json!({
            "CmsPlugins": ["ActiveDirectory"],
            "DomainJoinConfig": {"DnsName": "contoso.com", "DnsTreeName": "contoso.com", "NetBiosName": "CONTOSO",
                                 "MachineAccountName": "web", "Sid": "S-1-5-21-2126729477-2524075714-3094792973"},
            "ActiveDirectoryConfig": {"GroupManagedServiceAccounts": [
                {"Name": "web", "Scope": "Contoso"}, {"Name": "Web", "Scope": "contoso.com"}]},
        });
        let table: [(&str, Value, &[&str]); 7] = [
            ("/DomainJoinConfig/DnsTreeName", json!("contoso.com"), &[]),
            ("/DomainJoinConfig/Sid", json!("S-1-5-21-1-2-3-1104"), &[SID]),
            ("/DomainJoinConfig/Sid", json!("${SID}"), &[]),
            ("/DomainJoinConfig/NetBiosName", json!(""), &["DomainJoinConfig.NetBiosName"]),
            ("/DomainJoinConfig/NetBiosName", json!("FABRIKAM"), &[ACCOUNTS]),
            ("/DomainJoinConfig/MachineAccountName", json!("web$"), &[ACCOUNT, ACCOUNTS, ACCOUNTS]),
            ("/CmsPlugins", json!([]), &["CmsPlugins"]),
        ];
        for (pointer, value, expected) in table {
            let mut spec = complete.clone();
            *spec.pointer_mut(pointer).unwrap() = value;
            let found = problems(&json!({ "credspec": spec }));
            let paths: Vec<_> = found.iter().filter_map(|problem| problem.path.strip_prefix("credspec.")).collect();
            assert_eq!(paths, expected, "{spec:#}");
        }
    }
}
