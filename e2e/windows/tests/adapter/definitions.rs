//! Service definitions: the registry and the service control manager.

use std::{env, fs};

use windows_registry::{Key, LOCAL_MACHINE, Type};
use windows_service::service::{ServiceAccess, ServiceType};
use winpool_agent::{
    host::{Host, ServiceDefinition},
    windows::Windows,
};

use super::{Service, create_service, delete_service, fake_kubelet, helper, manager, os_error, strings};

fn key(name: &str) -> Key {
    let path = format!(r"SYSTEM\CurrentControlSet\Services\{name}");
    LOCAL_MACHINE.options().read().write().open(path).unwrap()
}

fn find(name: &str) -> Option<ServiceDefinition> {
    Windows.services().unwrap().into_iter().find(|service| service.name == name)
}

#[test]
fn a_service_with_a_process_of_its_own_has_its_command_line_and_dependencies() {
    let program = helper();
    create_service("winpool-a", ServiceType::OWN_PROCESS, &program, &[], &[]);
    create_service("winpool-b", ServiceType::OWN_PROCESS, &program, &["--labels=a=b,c=d", "x y"], &["winpool-a"]);
    let expected = ServiceDefinition {
        name: "winpool-b".into(),
        command: format!(r#"{program} --labels=a=b,c=d "x y""#),
        depends_on: strings(&["winpool-a"]),
        ..ServiceDefinition::default()
    };
    assert_eq!(find("winpool-b"), Some(expected));
    assert_eq!(find("winpool-a").unwrap().depends_on, Vec::<String>::new());
    create_service("winpool-shared", ServiceType::SHARE_PROCESS, r"C:\Windows\System32\svchost.exe", &[], &[]);
    assert_eq!(find("winpool-shared"), None);
    for name in ["winpool-shared", "winpool-b", "winpool-a"] {
        delete_service(name);
    }
}

#[test]
fn variables_of_a_command_line_are_expanded_kept_and_restored() {
    create_service("winpool-variables", ServiceType::OWN_PROCESS, &helper(), &[], &[]);
    let key = key("winpool-variables");
    let stored = r"%SystemRoot%\kubelet.exe --root=%Unknown%";
    key.set_expand_string("ImagePath", stored).unwrap();
    let former = find("winpool-variables").unwrap();
    let root = env::var("SystemRoot").unwrap();
    assert_eq!(former.command, format!(r"{root}\kubelet.exe --root=%Unknown%"));
    assert_eq!(former.unexpanded.as_deref(), Some(stored));

    let environment = strings(&["NO_PROXY=.svc"]);
    Windows.define(&ServiceDefinition { environment, ..former.clone() }).unwrap();
    assert_eq!(key.get_string("ImagePath").unwrap(), stored);

    let command = format!("{} --v=4", former.command);
    Windows.define(&ServiceDefinition { command: command.clone(), ..former.clone() }).unwrap();
    assert_eq!(key.get_string("ImagePath").unwrap(), command);
    Windows.define(&former).unwrap();
    assert_eq!(key.get_string("ImagePath").unwrap(), stored);
    assert_eq!(key.get_type("ImagePath").unwrap(), Type::ExpandString);
    delete_service("winpool-variables");
}

#[test]
fn lists_have_no_empty_strings() {
    create_service("winpool-lists", ServiceType::OWN_PROCESS, &helper(), &[], &[]);
    let key = key("winpool-lists");
    key.set_multi_string("DependOnService", &["winpool-a", ""]).unwrap();
    key.set_multi_string("Environment", &["A=1", "B=2", "", ""]).unwrap();
    let definition = find("winpool-lists").unwrap();
    assert_eq!(definition.depends_on, ["winpool-a"]);
    assert_eq!(definition.environment, ["A=1", "B=2"]);
    delete_service("winpool-lists");
}

#[test]
fn a_changed_command_line_is_written_as_it_is_and_used_by_the_next_start() {
    let service = Service::kubelet("winpool-command", "healthzPort: 21010\r\n", "exit-early");
    assert!(Windows.start(&service.name).is_err());

    let path = service.directory.path().join("other config.yaml");
    fs::write(&path, "kind: KubeletConfiguration\r\nhealthzPort: 21010\r\n").unwrap();
    let former = find(&service.name).unwrap();
    let command =
        format!(r#""{}" --windows-service --config "{}" --labels="a=b,c=%d""#, fake_kubelet(), path.display());
    Windows.define(&ServiceDefinition { command: command.clone(), ..former.clone() }).unwrap();
    assert_eq!(find(&service.name).unwrap(), ServiceDefinition { command, ..former.clone() });
    Windows.start(&service.name).unwrap();
    service.until_running();
    Windows.stop(&service.name).unwrap();
    service.until_stopped();

    Windows.define(&former).unwrap();
    assert_eq!(find(&service.name), Some(former));
    assert!(Windows.start(&service.name).is_err());
}

#[test]
fn a_changed_command_line_leaves_type_account_and_dependencies_unchanged() {
    create_service("winpool-a", ServiceType::OWN_PROCESS, &helper(), &[], &[]);
    create_service("winpool-b", ServiceType::OWN_PROCESS, &helper(), &[], &["winpool-a"]);
    let config = || manager().open_service("winpool-b", ServiceAccess::QUERY_CONFIG).unwrap().query_config().unwrap();
    let before = config();
    let definition = find("winpool-b").unwrap();
    Windows.define(&ServiceDefinition { command: "kubelet.exe --v=2".into(), ..definition }).unwrap();
    let after = config();
    assert_eq!(after.executable_path.to_str(), Some("kubelet.exe --v=2"));
    assert_eq!(after.service_type, ServiceType::OWN_PROCESS);
    assert_eq!((after.start_type, after.error_control), (before.start_type, before.error_control));
    assert_eq!((after.account_name, after.display_name), (before.account_name, before.display_name));
    assert_eq!(after.dependencies, before.dependencies);
    delete_service("winpool-b");
    delete_service("winpool-a");
}

#[test]
fn the_environment_of_a_service_is_set_and_removed() {
    create_service("winpool-environment", ServiceType::OWN_PROCESS, &helper(), &[], &[]);
    let former = find("winpool-environment").unwrap();
    for environment in [&["HTTPS_PROXY=http://proxy:3128", "NO_PROXY=.svc,10.0.0.0/8"][..], &["A=ü"], &[], &[]] {
        let definition = ServiceDefinition { environment: strings(environment), ..former.clone() };
        Windows.define(&definition).unwrap();
        assert_eq!(find("winpool-environment"), Some(definition));
    }
    assert!(key("winpool-environment").get_type("Environment").is_err(), "an empty value is removed");
    delete_service("winpool-environment");
}

#[test]
fn a_service_that_does_not_exist_cannot_be_defined() {
    let definition = ServiceDefinition { name: "winpool-none".into(), ..ServiceDefinition::default() };
    assert!(os_error(Windows.define(&definition)).is_some());
    assert_eq!(find("winpool-none"), None, "and is not created");
}
