//! What facts are read from: the registry, and the settings of services.

use windows_registry::LOCAL_MACHINE;
use winpool_agent::{
    facts::{self, FactReading, FactReference},
    host::{Host, ServicePolicy},
    windows::Windows,
};
use winpool_api::ServiceStart;

use super::{Service, os_error};

#[test]
fn a_key_has_its_texts_numbers_and_keys() {
    const PATH: &str = r"SOFTWARE\winpool-test";
    let key = LOCAL_MACHINE.create(PATH).unwrap();
    key.set_string("", "Restart").unwrap();
    key.set_expand_string("path", r"%SystemRoot%\x").unwrap();
    key.set_u32("UBR", 4529).unwrap();
    key.set_multi_string("list", &["left out"]).unwrap();
    LOCAL_MACHINE.create(format!(r"{PATH}\below")).unwrap();
    let found = Windows.registry(PATH).unwrap().unwrap();
    LOCAL_MACHINE.remove_tree(PATH).unwrap();
    let values: Vec<_> = found.values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(values, [("", "Restart"), ("UBR", "4529"), ("path", r"%SystemRoot%\x")]);
    assert_eq!(found.keys, ["below"]);
    assert_eq!(Windows.registry(PATH).unwrap(), None);
}

#[test]
fn a_service_has_its_start_and_whether_it_restarts() {
    assert_eq!(os_error(Windows.policy("winpool-none")), Some(1060));
    let service = Service::kubelet("winpool-policy", "healthzPort: 21031\r\n", "");
    let ServicePolicy { start, restarts } = Windows.policy(&service.name).unwrap();
    // Wine does not have the actions after a failure. The service has none.
    assert_eq!((start, restarts.unwrap_or_default()), (ServiceStart::Manual, false));
}

#[test]
fn a_fact_that_cannot_be_read_is_absent() {
    let facts = facts::read(&Windows, &FactReference::default(), FactReading::default()).facts;
    assert_eq!((facts.reboot_pending, facts.ccg_plugins.as_deref()), (Some(false), Some(&[][..])), "{facts:?}");
    // Wine has no PowerShell, which runs the script.
    assert_eq!(facts.booted_at.is_some(), facts.domain_joined.is_some(), "{facts:?}");
    assert_eq!((facts.directories, facts.services), (vec![], vec![]), "there is no kubelet");
}
