use serde_json::{Value, json};

use super::*;

fn template(spec: Value) -> Template {
    Template::from(&serde_json::from_value::<core::PodSpec>(spec).unwrap())
}

#[test]
fn the_operating_system_is_determined_by_the_most_specific_field() {
    let affinity = |operator: &str, values: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/os", "operator": operator, "values": values}]},
        ]}}}})
    };
    let (windows, linux) = (Some(System::Windows), Some(System::Linux));
    let table = [
        (json!({"os": {"name": "linux"}, "nodeSelector": {"kubernetes.io/os": "windows"}}), linux),
        (json!({"os": {"name": "windows"}}), windows),
        (json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), windows),
        (json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}), linux),
        (json!({"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}}), windows),
        (affinity("In", json!(["windows"])), windows),
        (affinity("In", json!(["windows", "linux"])), None),
        (affinity("NotIn", json!(["windows"])), None),
        (json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}), windows),
        (json!({"containers": [{"name": "a", "securityContext": {"windowsOptions": {}}}]}), windows),
        (json!({"securityContext": {"windowsOptions": {"hostProcess": false}}}), None),
        (
            json!({"securityContext": {"windowsOptions": {"hostProcess": false, "runAsUserName": "ContainerUser"}}}),
            windows,
        ),
        (json!({"runtimeClassName": "windows-ltsc2022"}), windows),
        (json!({"runtimeClassName": "gvisor"}), None),
        (json!({}), None),
    ];
    for (mut spec, expected) in table {
        spec.as_object_mut().unwrap().entry("containers").or_insert(json!([]));
        let class = |name: &str| name.starts_with("windows").then_some(System::Windows);
        assert_eq!(template(spec.clone()).system(class), expected, "{spec}");
    }
}

#[test]
fn the_operating_system_of_a_class_is_determined_by_its_selector_or_its_handler() {
    let table = [
        (
            json!({"handler": "x", "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows"}}}),
            Some(System::Windows),
        ),
        (json!({"handler": "runhcs-wcow-process"}), Some(System::Windows)),
        (json!({"handler": "x", "scheduling": {"nodeSelector": {"kubernetes.io/os": "linux"}}}), Some(System::Linux)),
        (json!({"handler": "runsc"}), None),
    ];
    for (class, expected) in table {
        assert_eq!(system_of_class(&serde_json::from_value(class.clone()).unwrap()), expected, "{class}");
    }
}

#[test]
fn affinity_matches_as_in_kubernetes() {
    let labels = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("n".to_owned(), "7".to_owned())]);
    let by_label = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let by_name = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
    let table = [
        (json!([by_label("b", "Exists", &[]), by_label("n", "Gt", &["6"])]), true),
        (json!([by_label("n", "Lt", &["6"])]), false),
        (json!([by_label("a", "In", &["1", "2"])]), true),
        (json!([by_label("a", "NotIn", &["1", "2"])]), false),
        (json!([by_label("b", "NotIn", &["1"])]), true),
        (json!([by_label("b", "DoesNotExist", &[])]), true),
        (json!([by_label("a", "Near", &["1"])]), false),
        (json!([{}]), false),
        (json!([by_name("win-1")]), true),
        (json!([by_name("win-2")]), false),
    ];
    for (terms, expected) in table {
        let spec = json!({"containers": [], "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }}});
        assert_eq!(template(spec).affinity_matches(&labels, "win-1", |_| true), expected, "{terms}");
    }
}

#[test]
fn init_containers_release_their_memory_before_the_others_start() {
    let container = |name: &str, limit: &str| json!({"name": name, "resources": {"limits": {"memory": limit}}});
    let mut sidecar = container("sidecar", "1Gi");
    sidecar["restartPolicy"] = json!("Always");
    let table = [
        (json!([]), json!(null), 3),
        (json!([container("small", "2Gi"), container("other", "2Gi")]), json!(null), 3),
        (json!([container("large", "4Gi")]), json!(null), 4),
        (json!([sidecar]), json!(null), 4),
        (json!([sidecar, container("large", "4Gi")]), json!(null), 5),
        (json!([container("large", "4Gi"), sidecar]), json!(null), 4),
        (json!([]), json!({"memory": "2Gi", "cpu": "1"}), 5),
    ];
    for (init, overhead, expected) in table {
        let case = format!("{init} {overhead}");
        let containers = json!([container("a", "1Gi"), container("b", "2Gi")]);
        let spec = json!({"initContainers": init, "containers": containers, "overhead": overhead});
        let template = template(spec);
        assert_eq!((template.memory_limit() >> 30, template.memory_request() >> 30), (expected, expected), "{case}");
    }
    let unlimited = template(json!({"containers": [{"name": "a"}], "overhead": {"memory": "1Gi"}}));
    assert_eq!((unlimited.memory_limit(), unlimited.memory_request()), (0, 1 << 30));
}

#[test]
fn sums_of_memory_saturate() {
    let container = |limit: &str| json!({"name": "a", "resources": {"limits": {"memory": limit}}});
    for (init, containers, overhead) in [
        (json!([]), json!([container("9E"), container("9E")]), "0"),
        (json!([container("9E")]), json!([container("1")]), "9E"),
        (json!([container("100E")]), json!([container("1e99")]), "1"),
    ] {
        let case = format!("{init} {containers} {overhead}");
        let spec = json!({"initContainers": init, "containers": containers, "overhead": {"memory": overhead}});
        let template = template(spec);
        assert_eq!((template.memory_limit(), template.memory_request()), (i64::MAX, i64::MAX), "{case}");
    }
}

#[test]
fn memory_and_host_process_are_read_for_each_container() {
    let spec = json!({
        "securityContext": {"windowsOptions": {"hostProcess": true}},
        "initContainers": [{"name": "first", "image": "a"}],
        "containers": [{
            "name": "main", "image": "b",
            "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi", "cpu": "1500m"}},
            "securityContext": {"windowsOptions": {"hostProcess": false}},
        }],
    });
    let main = Container {
        name: "main".into(),
        image: "b".into(),
        init: false,
        host_process: false,
        memory_request: Some(1 << 30),
        memory_limit: Some(2 << 30),
        cpu_request: Some(1500),
    };
    let first =
        Container { name: "first".into(), image: "a".into(), init: true, host_process: true, ..Container::default() };
    assert_eq!(template(spec).containers, [first, main]);
}
