//! The causes of each outcome, in a cluster with two pools.

use serde_json::{Value, json};
use winpool_core::{
    image::{ImagePlatform, ImagePlatforms, Lookup},
    node::WindowsNode,
};
use winpool_model::storage::storage;
use winpool_workload::{Shared, StorageState};

use super::*;

const APP: &str = "registry.example/app:1";
const OLD: &str = "registry.example/old:1";
const LINUX: &str = "registry.example/linux:1";
const MISSING: &str = "registry.example/missing:1";

/// The lookups in a registry where `app` has images for both versions and Linux, and `old` one for Windows Server 2019.
fn lookups() -> Lookups {
    let platform = |version: &&str| ImagePlatform {
        os: if version.is_empty() { "linux" } else { "windows" }.to_owned(),
        architecture: "amd64".to_owned(),
        os_version: version.parse().ok(),
    };
    let found =
        |versions: &[&str]| Lookup::Found(ImagePlatforms { platforms: versions.iter().map(platform).collect() });
    let lookups = [
        (APP, found(&["10.0.17763.6414", "10.0.20348.3207", ""])),
        (OLD, found(&["10.0.17763.6414"])),
        (LINUX, found(&[""])),
        (MISSING, Lookup::Failed("manifest unknown".into())),
    ];
    lookups.into_iter().map(|(image, lookup)| (image.to_owned(), Arc::new(lookup))).collect()
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn node(name: &str, pool: &str, kernel: &str, more: &Value) -> WindowsNode {
    let build = kernel.rsplit_once('.').unwrap().0;
    let mut node = json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name,
            "node.kubernetes.io/windows-build": build, "pool": pool,
        }},
        "spec": {"taints": []},
        "status": {
            "nodeInfo": {
                "kernelVersion": kernel, "kubeletVersion": "v1.34.0", "containerRuntimeVersion": "containerd://2.1.4",
            },
            "allocatable": {"memory": "16Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    for (path, value) in more.as_object().into_iter().flatten() {
        *node.pointer_mut(path).unwrap() = value.clone();
    }
    WindowsNode::from(read::<k8s_openapi::api::core::v1::Node>(node))
}

fn pool(name: &str, version: &str, classes: &Value) -> Pool {
    let object = json!({
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"windowsVersion": version, "nodeSelector": {"matchLabels": {"pool": name}}, "runtimeClasses": classes},
    });
    Pool::from_object(read(object))
}

/// Pool `here` with Windows Server 2019 and pool `there` with 2022, each with a node and its RuntimeClass. `there` has fields
/// of the node in `there`, by JSON pointer.
fn snapshot(there: &Value) -> Snapshot {
    let pools = [
        pool("here", "ltsc2019", &json!([{"name": "windows-ltsc2019"}])),
        pool("there", "ltsc2022", &json!([{"name": "there"}])),
    ];
    let nodes =
        [node("here-1", "here", "10.0.17763.6414", &json!({})), node("there-1", "there", "10.0.20348.3207", there)];
    let (pools, nodes) = (pools.into_iter().collect(), nodes.into_iter().collect());
    let mut snapshot = Snapshot { namespace: "winpool-system".to_owned(), pools, nodes, ..Snapshot::default() };
    for pool in ["here", "there"] {
        let plan = Planner::new(&snapshot).plan(pool).unwrap();
        planned_classes(plan).for_each(|class| drop(snapshot.runtime_classes.insert(class)));
    }
    snapshot
}

fn target(to: &str) -> MigrationTarget {
    match to {
        "there" => MigrationTarget::Pool(to.to_owned()),
        _ => MigrationTarget::Version { name: to.to_owned(), build: winpool_facts::builds::named(to).unwrap() },
    }
}

/// A workload with one pod on `here-1`.
fn workload(kind: &str, spec: &Value) -> (Arc<Pod>, Option<Arc<Controller>>) {
    let mut shared = Shared::default();
    let mut scheduled = spec.clone();
    scheduled["nodeName"] = json!("here-1");
    if scheduled.get("runtimeClassName").is_some_and(|class| class == "windows-ltsc2019") {
        scheduled["nodeSelector"]["node.kubernetes.io/windows-build"] = json!("10.0.17763");
    }
    let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": "w", "uid": "u", "controller": true}]);
    let owner = if kind == "Pod" { Value::Null } else { owner };
    let name = if kind == "Pod" { "w" } else { "w-0" };
    let pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": "p", "ownerReferences": owner},
        "spec": scheduled, "status": {"phase": "Running"},
    });
    let pod = Arc::new(Pod::read(read(pod), &mut shared));
    let object = json!({
        "metadata": {"name": "w", "namespace": "shop", "uid": "u"},
        "spec": {"selector": {}, "serviceName": "w", "template": {"spec": spec}},
    });
    let controller = match kind {
        "DaemonSet" => Some(Controller::read(read::<k8s_openapi::api::apps::v1::DaemonSet>(object), &mut shared)),
        "StatefulSet" => Some(Controller::read(read::<k8s_openapi::api::apps::v1::StatefulSet>(object), &mut shared)),
        _ => None,
    };
    (pod, controller.map(Arc::new))
}

fn migrate(there: &Value, workloads: Vec<(Arc<Pod>, Option<Arc<Controller>>)>, to: &str) -> Migration {
    let snapshot = snapshot(there);
    let (pods, controllers): (Vec<_>, Vec<_>) = workloads.into_iter().unzip();
    let planner =
        MigrationPlanner { snapshot: &snapshot, pods, controllers: controllers.into_iter().flatten().collect() };
    planner.plan("here", &target(to), &lookups()).unwrap()
}

/// The outcome of a migration for a workload, as `Outcome: message`.
fn outcome_of(kind: &str, spec: &Value, to: &str) -> String {
    let migration = migrate(&json!({}), vec![workload(kind, spec)], to);
    let [WorkloadMigration { workload, pods: 1, outcome, message }] = migration.workloads.as_slice() else {
        panic!("{migration:?}")
    };
    assert_eq!(workload.to_string(), format!("{kind} shop/w"));
    format!("{outcome:?}: {message}")
}

/// A spec that selects Windows and tolerates the taint of pools, with further fields.
fn spec(image: &str, more: &Value) -> Value {
    let mut spec = json!({
        "nodeSelector": {"kubernetes.io/os": "windows"},
        "tolerations": [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}],
        "containers": [{"name": "app", "image": image}],
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    spec
}

#[test]
fn the_outcome_depends_on_the_images() {
    let table = [
        (APP, "ltsc2022", "Runs: "),
        (APP, "there", "Runs: "),
        (
            OLD,
            "ltsc2022",
            "NoImage: registry.example/old:1 does not run on 10.0.20348: according to its registry it is for ",
        ),
        (OLD, "there", "NoImage: registry.example/old:1 does not run on 10.0.20348.3207"),
        (
            LINUX,
            "there",
            "NoImage: registry.example/linux:1 does not run on 10.0.20348.3207: according to its registry it ",
        ),
        ("registry.example/app:ltsc2019", "there", "NoImage: registry.example/app:ltsc2019 probably does not run"),
        (
            "registry.example/app:ltsc2022",
            "there",
            "Unknown: registry.example/app:ltsc2022 fits by its name only. Use --registry to look it up",
        ),
        ("other:1", "there", "Unknown: there is no evidence about other:1. Use --registry to look it up"),
        (MISSING, "there", "Unknown: the registry lookup of registry.example/missing:1 failed: manifest unknown"),
        ("Not An Image", "there", "Unknown: \"Not An Image\" is not an image reference. Correct it"),
    ];
    for (image, to, expected) in table {
        let outcome = outcome_of("StatefulSet", &spec(image, &json!({})), to);
        assert!(outcome.starts_with(expected), "{image} to {to}: {outcome}");
    }
    let host_process = json!({"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}}});
    assert_eq!(outcome_of("StatefulSet", &spec(OLD, &host_process), "there"), "Runs: ");
}

#[test]
fn volumes_run_only_where_their_driver_is_and_are_unknown_while_they_are_not_read() {
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = json!("data");
        spec(APP, &json!({ "volumes": [volume] }))
    };
    let csi = || volume(json!({"csi": {"driver": "csi.example.com"}}));
    let known = |there: Value| StorageState::Known(storage(&[], &[], &[], &[("there-1", there)]));
    let missing =
        "NotMounted: volume data of pod shop/w-0 needs CSI driver csi.example.com, which is not registered on there-1";
    let table = [
        (StorageState::Off, csi(), "Unknown: its volumes are not checked"),
        (StorageState::Off, volume(json!({"emptyDir": {}})), "Runs: "),
        (known(json!({})), csi(), missing),
        (known(json!({"csi.example.com": null})), csi(), "Runs: "),
    ];
    for (storage, spec, expected) in table {
        let snapshot = Snapshot { storage, ..snapshot(&json!({})) };
        let (pod, controller) = workload("StatefulSet", &spec);
        let planner =
            MigrationPlanner { snapshot: &snapshot, pods: vec![pod], controllers: controller.into_iter().collect() };
        let migration = planner.plan("here", &target("there"), &lookups()).unwrap();
        let WorkloadMigration { outcome, message, .. } = &migration.workloads[0];
        assert!(format!("{outcome:?}: {message}").starts_with(expected), "{expected}: {outcome:?}: {message}");
    }
}

#[test]
fn a_move_is_steps_with_waves_that_double_and_what_stays_behind() {
    let snapshot = snapshot(&json!({}));
    let class = json!({"runtimeClassName": "windows-ltsc2019"});
    let named = [("cart", APP, &class), ("stock", APP, &json!({})), ("old", OLD, &class)].map(|(name, image, more)| {
        let (pod, controller) = workload("StatefulSet", &spec(image, more));
        let name = Arc::new(WorkloadName { name: name.to_owned(), ..pod.workload.as_ref().clone() });
        let pod = Pod { key: format!("shop/{}-0", name.name).into(), workload: name.clone(), ..pod.as_ref().clone() };
        (Arc::new(pod), Arc::new(Controller { workload: name, ..controller.unwrap().as_ref().clone() }))
    });
    let (pods, controllers) = named.into_iter().unzip();
    let planner = MigrationPlanner { snapshot: &snapshot, pods, controllers };
    let text = |to: &str| {
        let steps = steps(&planner, "here", &target(to), &lookups()).unwrap();
        steps.iter().map(ToString::to_string).collect::<String>()
    };
    insta::assert_snapshot!(text("ltsc2022"), @r#"
    Make pool here-ltsc2022 for the new nodes
       Write pool here-ltsc2022 like here, with windowsVersion: ltsc2022, runtimeClasses: windows-ltsc2022, and a nodeSelector that only the new nodes match (here selects pool=here)
       Make nodes for it: here has 1 schedulable node, by requests at least 1 node
       $ kubectl get wnp here -o yaml >here-ltsc2022.yaml    # then edit it
       $ winpool plan here-ltsc2022.yaml
       $ kubectl apply -f here-ltsc2022.yaml
    Check the new nodes before a workload moves
       $ winpool status here-ltsc2022
       $ winpool verify here-ltsc2022
    Cordon the old nodes
       No RuntimeClass of here binds these, so they could return to its nodes: StatefulSet shop/stock
       $ kubectl cordon -l winpool.dev/pool=here
    Wave 1: 1 workload, 1 pod
       $ kubectl -n shop patch statefulset/cart --type merge -p '{"spec":{"template":{"spec":{"runtimeClassName":"windows-ltsc2022"}}}}'
       $ kubectl -n shop rollout status statefulset/cart
       $ winpool status here-ltsc2022
    Wave 2: 1 workload, 1 pod
       $ kubectl -n shop rollout restart statefulset/stock
       $ kubectl -n shop rollout status statefulset/stock
       $ winpool status here-ltsc2022
    What stays behind on here until it is changed
       StatefulSet shop/old (1 pod): registry.example/old:1 does not run on 10.0.20348: according to its registry it is for 10.0.17763.6414 (ltsc2019), and the node runs only images for 10.0.20348 (ltsc2022). Rebuild it on ltsc2022
    Remove the nodes of here
       Only when nothing stays behind. Then delete the machines where they were made
       $ kubectl cordon -l winpool.dev/pool=here
       $ kubectl drain -l winpool.dev/pool=here --ignore-daemonsets
       $ kubectl delete wnp here
    "#);
    let moved = text("there");
    assert!(moved.starts_with("Make room in pool there\n   3 pods with memory requests of 0 would move"), "{moved}");
    assert!(moved.contains("$ kubectl -n shop patch statefulset/cart --type merge -p '{\"spec\":{\"template\":{\"spec\":{\"runtimeClassName\":\"there\"}}}}'\n"), "{moved}");
}

#[test]
fn the_outcome_depends_on_selector_class_taints_and_kind() {
    let selects = |key: &str, value: &str| json!({"nodeSelector": {"kubernetes.io/os": "windows", key: value}});
    let build = selects("node.kubernetes.io/windows-build", "10.0.17763");
    let host = selects("kubernetes.io/hostname", "here-1");
    let linux = json!({"nodeSelector": {"kubernetes.io/os": "linux"}});
    let class = json!({"runtimeClassName": "windows-ltsc2019"});
    let missing = json!({"runtimeClassName": "missing"});
    let untolerated = json!({"tolerations": []});
    let nothing = json!({});
    let no_build = |pool: &str| {
        format!(
            "NotSchedulable: no node matches: the nodes of pool {pool} do not have node.kubernetes.io/windows-build=10.0.17763. \
             Correct nodeSelector or affinity"
        )
    };
    let other_class = |pool: &str, remedy: &str| {
        format!("NotSchedulable: RuntimeClass windows-ltsc2019 does not select the nodes of pool {pool}. {remedy}")
    };
    let other_host =
        "NotSchedulable: nodeSelector selects node here-1, which is not in pool there. Remove the selector";
    let taint = "NotSchedulable: taint os=windows:NoSchedule of pool there is not tolerated. Add the toleration";
    let no_pods = "NoPods: the DaemonSet controller would create no pods in pool";
    let table: [(&str, &Value, &str, &str); 13] = [
        ("Pod", &nothing, "there", "Runs: "),
        ("DaemonSet", &nothing, "there", "Runs: "),
        ("StatefulSet", &build, "ltsc2022", &no_build("here")),
        ("StatefulSet", &build, "there", &no_build("there")),
        ("DaemonSet", &build, "ltsc2022", &format!("{no_pods} here")),
        ("StatefulSet", &host, "ltsc2022", "Runs: "),
        ("StatefulSet", &host, "there", other_host),
        ("StatefulSet", &class, "ltsc2022", &other_class("here", "Use RuntimeClass windows-ltsc2022")),
        ("Pod", &class, "there", &other_class("there", "Use RuntimeClass there")),
        ("StatefulSet", &untolerated, "there", taint),
        ("DaemonSet", &untolerated, "there", &format!("{no_pods} there")),
        ("StatefulSet", &linux, "there", "NotSchedulable: it is for Linux"),
        ("StatefulSet", &missing, "there", "NotSchedulable: RuntimeClass missing does not exist"),
    ];
    for (kind, more, to, expected) in table {
        let outcome = outcome_of(kind, &spec(APP, more), to);
        assert!(outcome.starts_with(expected), "{kind} with {more} to {to}: {outcome}");
    }
}

#[test]
fn the_add_ons_of_a_pool_are_judged_on_the_new_nodes_and_applications_are_not() {
    let host_process = json!({"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}}});
    let calico = "docker.io/calico/node-windows:v3.31.2";
    let table = [
        (
            "DaemonSet",
            calico,
            "ltsc2022",
            "Fits DaemonSet shop/w: docker.io/calico/node-windows:v3.31.2 (Calico 3.31.2): it supports 10.0.20348 (ltsc2022)",
        ),
        (
            "DaemonSet",
            calico,
            "ltsc2025",
            "DoesNotFit DaemonSet shop/w: docker.io/calico/node-windows:v3.31.2 (Calico 3.31.2): it supports 10.0.17763 (ltsc2019), 10.0.20348 (ltsc2022), and not 10.0.26100 (ltsc2025). No release up to 3.32.1 does",
        ),
        (
            "DaemonSet",
            "registry.example/agent:1.0.0",
            "ltsc2025",
            "NotKnown DaemonSet shop/w: registry.example/agent:1.0.0: no table has this image. Ask its publisher, or test it on one node",
        ),
        (
            "StatefulSet",
            "grafana/alloy:v1.18.0-windowsservercore-ltsc2022",
            "ltsc2025",
            "NeedsCare StatefulSet shop/w: grafana/alloy:v1.18.0-windowsservercore-ltsc2022 (Grafana Alloy 1.18.0): it has no image for 10.0.26100 (ltsc2025), which runs the one for 10.0.20348 (ltsc2022). No release up to 1.18.1 does",
        ),
        ("StatefulSet", "registry.example/app:1.0.0", "ltsc2025", ""),
    ];
    for (kind, image, to, expected) in table {
        let more = if kind == "DaemonSet" { &host_process } else { &json!({}) };
        let mut planned = snapshot(&json!({}));
        planned.api_server = Some(Minor(35));
        let (pod, controller) = workload(kind, &spec(image, more));
        let planner =
            MigrationPlanner { snapshot: &planned, pods: vec![pod], controllers: controller.into_iter().collect() };
        let add_ons = planner.plan("here", &target(to), &lookups()).unwrap().add_ons;
        let found =
            add_ons.iter().map(|one| format!("{:?} {}: {}", one.fit, one.workload, one.message())).collect::<String>();
        assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{image} to {to}: {found}");
    }
}

#[test]
fn the_worst_of_several_nodes_counts() {
    let there = node("there-2", "there", "10.0.26100.4946", &json!({}));
    let mut planned = snapshot(&json!({}));
    planned.api_server = Some(Minor(35));
    planned.nodes.insert(there);
    let (pod, controller) = workload("DaemonSet", &spec("calico/node-windows:v3.31.2", &json!({})));
    let planner =
        MigrationPlanner { snapshot: &planned, pods: vec![pod], controllers: controller.into_iter().collect() };
    let fits = planner.plan("here", &target("there"), &lookups()).unwrap().add_ons.into_iter().map(|one| one.fit);
    assert_eq!(fits.collect::<Vec<_>>(), [winpool_facts::add_ons::Fit::DoesNotFit]);
    let here = planner.add_ons("here", Some(Minor(36))).into_iter().map(|one| one.fit);
    assert_eq!(
        here.collect::<Vec<_>>(),
        [winpool_facts::add_ons::Fit::NeedsCare],
        "its present node, after an upgrade"
    );
}

#[test]
fn workloads_are_sorted_worst_first_and_checked_by_their_current_template() {
    let (pod, _) = workload("StatefulSet", &spec(OLD, &json!({})));
    let (_, controller) = workload("StatefulSet", &spec(APP, &json!({})));
    let changed = (pod, controller);
    let daemon = workload("DaemonSet", &spec(LINUX, &json!({})));
    let snapshot = snapshot(&json!({}));
    let planner = MigrationPlanner {
        snapshot: &snapshot,
        pods: vec![changed.0.clone(), daemon.0.clone()],
        controllers: [changed.1.clone(), daemon.1.clone()].into_iter().flatten().collect(),
    };
    assert_eq!(planner.images("here").into_iter().collect::<Vec<_>>(), [APP, LINUX]);
    assert!(planner.images("there").is_empty());
    let workloads = planner.plan("here", &target("there"), &lookups()).unwrap().workloads;
    let outcomes: Vec<_> = workloads.iter().map(|one| (one.workload.kind.as_str(), one.outcome)).collect();
    assert_eq!(outcomes, [("DaemonSet", MigrationOutcome::NoImage), ("StatefulSet", MigrationOutcome::Runs)]);
}

#[test]
fn capacity_counts_what_is_not_requested_on_schedulable_nodes() {
    let memory = |amount: &str| json!({"resources": {"requests": {"memory": amount}}, "name": "app", "image": APP});
    let needs = |amount: &str| spec(APP, &json!({"containers": [memory(amount)]}));
    let table = [
        ("StatefulSet", "16Gi", json!({}), true),
        ("StatefulSet", "17Gi", json!({}), false),
        ("StatefulSet", "1Gi", json!({"/status/allocatable/pods": "0"}), false),
        ("StatefulSet", "1Gi", json!({"/status/conditions/0/status": "False"}), false),
        (
            "StatefulSet",
            "1Gi",
            json!({"/spec/taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}),
            false,
        ),
        ("DaemonSet", "17Gi", json!({}), true),
    ];
    for (kind, amount, there, enough) in table {
        let capacity = migrate(&there, vec![workload(kind, &needs(amount))], "there").capacity.unwrap();
        assert_eq!(capacity.is_enough(), enough, "{kind} {amount} {there}: {}", capacity.description());
    }
    assert_eq!(migrate(&json!({}), Vec::new(), "ltsc2022").capacity, None, "the nodes stay the same");
}

#[test]
fn workloads_without_pods_are_included() {
    let snapshot = snapshot(&json!({}));
    let idle = |name: &str, more: Value| {
        let metadata = json!({"name": name, "namespace": "shop", "uid": name});
        let template = json!({"spec": spec(OLD, &more)});
        let object = json!({"metadata": metadata, "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}}});
        let nightly = read::<k8s_openapi::api::batch::v1::CronJob>(object);
        Arc::new(Controller::read(nightly, &mut Shared::default()))
    };
    let here = json!({"runtimeClassName": "windows-ltsc2019"});
    let there = json!({"runtimeClassName": "windows-ltsc2022"});
    let controllers = vec![idle("nightly", here), idle("of-the-other-pool", there)];
    let planner = MigrationPlanner { snapshot: &snapshot, pods: Vec::new(), controllers };
    let workloads = planner.plan("here", &target("ltsc2022"), &lookups()).unwrap().workloads;
    let pods: Vec<_> = workloads.iter().map(|one| (one.workload.to_string(), one.pods)).collect();
    assert_eq!(pods, [("CronJob shop/nightly".to_owned(), 0)]);
    assert_ne!(workloads[0].outcome, MigrationOutcome::Runs, "{workloads:?}");
    assert_eq!(planner.images("here").into_iter().collect::<Vec<_>>(), [OLD]);
}

#[test]
fn a_pool_with_an_invalid_spec_has_no_migration() {
    let mut snapshot = snapshot(&json!({}));
    snapshot.pools.insert(pool("here", "ltsc1999", &json!([])));
    let planner = MigrationPlanner { snapshot: &snapshot, pods: Vec::new(), controllers: Vec::new() };
    for to in ["ltsc2022", "there"] {
        assert_eq!(planner.plan("here", &target(to), &lookups()), None);
    }
}
