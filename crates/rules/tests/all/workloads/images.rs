//! Whether images run: by the most reliable evidence, on every node that their pods can be scheduled to.

use serde_json::{Value, json};
use winpool_core::image::{Lookup, RuntimeReport};

use winpool_model::{
    PROFILE, profile,
    workloads::{
        CONTAINERD, Cluster, container, found, images_to_look_up, one_pool, running, spec, tolerated, two_pools,
        waiting,
    },
};

const APP: &str = "example.com/app:1";
const NO_MATCH: &str = "rpc error: code = NotFound desc = failed to pull and unpack image \"example.com/app:1\": \
                        no match for platform in manifest: not found";

fn pool_of(version: &str, build: u32, runtime: &str, fields: Value) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node("web-1", build, runtime);
    let mut spec = json!({"windowsVersion": version});
    winpool_model::workloads::merge(&mut spec, fields);
    cluster.pool("web", spec);
    cluster.model.converge();
    cluster
}

/// A pod on the first node of `web`, whose image has these platforms in the registry.
fn with_image(mut cluster: Cluster, image: &str, platforms: &[&str], status: Value) -> Cluster {
    if !platforms.is_empty() {
        cluster.lookups.insert(image.to_owned(), found(platforms));
    }
    let fields = json!({"containers": [container(image)], "nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": tolerated()});
    cluster.pod_on("app", "web-1", fields, status);
    cluster
}

fn counts(cluster: &Cluster, pool: &str) -> (u32, u32, u32, u32) {
    let summary = cluster.summary(pool);
    (summary.pods, summary.cannot_run, summary.suspected, summary.unknown)
}

#[test]
fn the_most_reliable_evidence_decides_and_is_named() {
    type Case = (String, Vec<String>, String, String, String, (u32, u32, u32, u32));
    let cases: Vec<Case> = serde_saphyr::from_str(include_str!("images.yaml")).unwrap();
    for (image, registry, state, start, end, counted) in cases {
        let status = match state.as_str() {
            "running" => running(),
            "no match" => waiting(NO_MATCH),
            _ => json!({}),
        };
        let platforms: Vec<_> = registry.iter().map(String::as_str).collect();
        let cluster = with_image(two_pools(), &image, &platforms, status);
        let start = (!start.is_empty()).then(|| format!("web ImagesCannotRun Pod shop/app: {image} {start}"));
        let expected: Vec<_> = start.iter().map(|start| (start.as_str(), end.as_str())).collect();
        cluster.assert_issues(&expected, &format!("{image} {registry:?} {state}"));
        assert_eq!(counts(&cluster, "web"), counted, "{image} {registry:?} {state}");
    }
}

#[test]
fn an_image_with_a_failed_lookup_is_known_by_its_name_only() {
    for (image, expected) in [(APP, (1, 0, 0, 1)), ("example.com/app:ltsc2019", (1, 0, 1, 0))] {
        let mut cluster = with_image(two_pools(), image, &[], json!({}));
        cluster.lookups.insert(image.to_owned(), Lookup::Failed("429 Too Many Requests".into()));
        assert_eq!(counts(&cluster, "web"), expected, "{image}");
        assert_eq!(images_to_look_up(&cluster.index()), [image]);
    }
}

#[test]
fn an_image_of_another_version_than_its_node_is_reported_with_what_to_do() {
    // The version of the pool, its build, its runtime, the version of the image; reason and end of the message.
    let table = [
        // The nodes of the model have revision 1000.
        (
            "ltsc2022",
            20348,
            CONTAINERD,
            "10.0.20348.1001",
            Some(("web RevisionTooOld", "Install Windows updates on the node, or use an earlier image")),
        ),
        ("ltsc2025", 26100, CONTAINERD, "10.0.20348.9999", None),
        (
            "ltsc2025",
            26100,
            "containerd://1.7.5",
            "10.0.20348.1",
            Some(("web ImagesCannotRun", "Upgrade containerd to 1.7.6, or rebuild it on ltsc2025")),
        ),
        // Version 23H2 has no base images of its own.
        ("23H2", 25398, CONTAINERD, "10.0.17763.1", Some(("web ImagesCannotRun", "Rebuild it on ltsc2022"))),
        // Windows Server 2016 runs only images of its own revision.
        (
            "ltsc2016",
            14393,
            CONTAINERD,
            "10.0.14393.999",
            Some(("web ImagesCannotRun", "its own revision, 10.0.14393.1000. Rebuild it on ltsc2016")),
        ),
        ("ltsc2019", 17763, "docker://20.10.9", "10.0.17763.1", None),
    ];
    for (version, build, runtime, image, expected) in table {
        let platform = format!("windows/amd64 {image}");
        let cluster = with_image(pool_of(version, build, runtime, json!({})), APP, &[&platform], json!({}));
        let expected: Vec<_> = expected.into_iter().collect();
        cluster.assert_issues(&expected, &format!("{image} on {version} with {runtime}"));
    }
}

#[test]
fn hyper_v_runs_older_images_and_host_process_runs_all() {
    let class = |handler: &str| json!({"name": "isolated", "isolation": "HyperV", "handler": handler});
    let hyper_v = |handler| json!({"profileRef": null, "runtimeClasses": [class(handler)]});
    let mut cluster = pool_of("ltsc2022", 20348, CONTAINERD, hyper_v("runhcs-wcow-hypervisor-17763"));
    cluster.lookups.insert(APP.to_owned(), found(&["windows/amd64 10.0.17763.1"]));
    let older = json!({"runtimeClassName": "isolated", "nodeSelector": {"kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": "10.0.20348"}, "tolerations": tolerated()});
    cluster.pod_on("older", "web-1", older.clone(), json!({}));
    cluster.assert_issues(&[], &"a class of the pool with a custom Hyper-V handler");
    cluster.lookups.insert(APP.to_owned(), found(&["windows/amd64 10.0.26100.1"]));
    cluster.assert_issues(
        &[("web ImagesCannotRun Pod shop/older", "Rebuild it on ltsc2022")],
        &"no isolation runs a newer image",
    );

    let mut cluster = pool_of("ltsc2022", 20348, CONTAINERD, hyper_v("runhcs-wcow-hypervisor"));
    cluster.pod_on("older", "web-1", older, json!({}));
    for (image, expected) in [("10.0.20348.1", None), ("10.0.17763.1", Some("Rebuild it on ltsc2022"))] {
        cluster.lookups.insert(APP.to_owned(), found(&[&format!("windows/amd64 {image}")]));
        let expected: Vec<_> = expected.iter().map(|end| ("web ImagesCannotRun Pod shop/older", *end)).collect();
        cluster.assert_issues(&expected, &format!("{image} with the Hyper-V handler of containerd"));
    }

    let mut cluster = two_pools();
    let host_process = |image: &str| {
        let options = json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
        json!({"containers": [container(image)], "securityContext": options, "hostNetwork": true, "tolerations": tolerated()})
    };
    cluster.lookups.insert(APP.to_owned(), found(&["windows/amd64 10.0.17763.1"]));
    cluster.pod_on("agent", "web-1", host_process(APP), json!({}));
    cluster.pod_on("by-name", "web-1", host_process("example.com/agent:ltsc2019"), json!({}));
    cluster.assert_issues(&[], &"they use the files of the host");
    cluster.lookups.insert(APP.to_owned(), found(&["linux/amd64"]));
    cluster.assert_issues(
        &[("web ImagesCannotRun Pod shop/agent", "select kubernetes.io/os=linux")],
        &"an image without an entry for Windows",
    );
}

#[test]
fn a_pending_pod_is_checked_on_every_node_that_it_can_be_scheduled_to() {
    let image = "example.com/app:ltsc2022";
    let pod = |fields: Value| {
        let mut fields = fields;
        fields["containers"] = json!([container(image)]);
        spec(fields)
    };
    let mut cluster = two_pools();
    let by_class = json!({"runtimeClassName": "windows-ltsc2022"});
    cluster.pod("app", json!({}), pod(by_class), json!({"phase": "Pending"}));
    cluster.assert_issues(&[], &"its class selects the build of the image");
    let anywhere = json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": tolerated()});
    cluster.pod("app", json!({}), pod(anywhere), json!({"phase": "Pending"}));
    cluster.assert_issues(
        &[(
            "batch ImagesCannotRun Pod shop/app: example.com/app:ltsc2022 probably does not run on 10.0.17763.1000",
            "Rebuild it on ltsc2019, or use pool web",
        )],
        &"it can be scheduled to the other pool",
    );

    // A pool during an upgrade has nodes of two builds.
    let mut mixed = one_pool(json!({}));
    mixed.node("web-3", 26100, "containerd://1.7.5");
    mixed.model.converge();
    mixed.lookups.insert(APP.to_owned(), found(&["windows/amd64 10.0.20348.1"]));
    mixed.pod(
        "app",
        json!({}),
        spec(json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": tolerated()})),
        json!({}),
    );
    mixed.assert_issues(
        &[("web ImagesCannotRun", "Upgrade containerd to 1.7.6, or rebuild it on ltsc2025")],
        &"one node does not run it",
    );
    mixed.pod_on(
        "app",
        "web-1",
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": tolerated()}),
        json!({}),
    );
    mixed.assert_issues(&[], &"it is on another node");

    let mut empty = Cluster::new();
    empty.pool("web", json!({"windowsVersion": "ltsc2022"}));
    empty.model.converge();
    let old = json!({"runtimeClassName": "windows-ltsc2022", "containers": [container("example.com/app:ltsc2019")]});
    empty.pod("app", json!({}), spec(old), json!({"phase": "Pending"}));
    empty.assert_issues(
        &[(
            "web ImagesCannotRun Pod shop/app: example.com/app:ltsc2019 probably does not run on 10.0.20348:",
            "Rebuild it on ltsc2022",
        )],
        &"a pool without nodes has the build of its spec",
    );
}

#[test]
fn a_sandbox_that_does_not_start_is_an_issue_of_the_pause_image() {
    const HCS: &str = "Failed to create pod sandbox: rpc error: hcs::CreateComputeSystem 4f2a: \
                       The container operating system does not match the host operating system.: unknown";
    let mut cluster = with_image(two_pools(), APP, &["windows/amd64 10.0.20348.1"], json!({"phase": "Pending"}));
    cluster.sandboxes.insert(("shop/app".into(), "shop/app.1".into()), RuntimeReport::incompatible(HCS));
    let expected = (
        "web ImagesCannotRun Pod shop/app: the pod sandbox does not start on 10.0.20348.1000. The container runtime reports: The container operating system does not match the host operating system. ",
        "Configure a pause image with an entry for ltsc2022 on the node",
    );
    cluster.assert_issues(&[expected], &"no image of the pod was checked");
    assert_eq!(counts(&cluster, "web"), (1, 1, 0, 0));

    let mut two = cluster.clone();
    two.sandboxes.insert(("shop/app".into(), "shop/app.2".into()), RuntimeReport::incompatible(HCS));
    let mut index = two.index();
    index.set_sandbox_report("shop/app", "shop/app.1", None);
    index.set_sandbox_report("shop/app", "shop/app.3", None);
    assert_eq!(index.summary("web").cannot_run, 1, "one of two events was deleted");
    index.set_sandbox_report("shop/app", "shop/app.2", None);
    assert_eq!(index.summary("web").cannot_run, 0);

    cluster.pods.get_mut("shop/app").unwrap()["status"] = running();
    cluster.assert_issues(&[], &"the event is older than the start of the container");
}

#[test]
fn an_image_of_a_pod_without_operating_system_may_be_for_linux() {
    let mut cluster = two_pools();
    cluster.pod_on("nginx", "web-1", json!({"tolerations": [{"operator": "Exists"}]}), waiting(NO_MATCH));
    cluster.assert_issues(
        &[("web ImagesCannotRun Pod shop/nginx", "Build it for ltsc2022, or select kubernetes.io/os=linux")],
        &"the pod does not declare its operating system",
    );
}

#[test]
fn an_invalid_image_reference_is_unknown() {
    for image in ["", "UPPER/case", "a b", "example.com/app:", "example.com/app@sha256:short", ":tag", "../escape"] {
        let cluster = with_image(two_pools(), image, &[], json!({}));
        cluster.assert_issues(&[], &image);
        assert_eq!(counts(&cluster, "web"), (1, 0, 0, 1), "{image:?}");
    }
    // The default tag is latest, which suggests no version.
    let cluster = with_image(two_pools(), "example.com/app", &[], json!({}));
    assert_eq!(counts(&cluster, "web"), (1, 0, 0, 1));
    assert_eq!(images_to_look_up(&cluster.index()), ["example.com/app"]);
}

#[test]
fn an_image_has_a_request_for_each_set_of_secrets_those_with_secrets_first() {
    let mut cluster = two_pools();
    let pods = [
        ("one", "web-1", json!([])),
        ("two", "web-2", json!([{"name": "b"}])),
        ("three", "batch-1", json!([{"name": "a"}])),
    ];
    for (name, node, secrets) in pods {
        let fields = json!({"imagePullSecrets": secrets, "runtimeClassName": "windows-ltsc2022", "containers": [container(APP)]});
        cluster.pod_on(name, node, fields.clone(), json!({}));
        cluster.pod_on(&format!("{name}-more"), node, fields, json!({}));
    }
    let index = cluster.index();
    let [(APP, requests)] = &index.image_requests().collect::<Vec<_>>()[..] else { panic!("one image") };
    let requests = requests.iter().map(|one| format!("{} {:?}", one.pool.as_deref().unwrap_or("-"), one.pull_secrets));
    assert_eq!(requests.collect::<Vec<_>>(), [r#"batch ["a"]"#, r#"web ["b"]"#, "web []"]);
}

#[test]
fn the_secrets_of_one_namespace_do_not_displace_those_of_others() {
    let mut cluster = two_pools();
    for (namespace, names) in [("a", 20), ("b", 1)] {
        for name in 0..names {
            let secrets = json!([{"name": format!("{namespace}-{name}")}]);
            let fields = json!({
                "imagePullSecrets": secrets, "runtimeClassName": "windows-ltsc2022", "containers": [container(APP)],
                "nodeName": "web-1",
            });
            cluster.pod(&format!("{namespace}-{name}"), json!({"namespace": namespace}), spec(fields), json!({}));
        }
    }
    let index = cluster.index();
    let [(APP, requests)] = &index.image_requests().collect::<Vec<_>>()[..] else { panic!("one image") };
    let of = |namespace: &str| requests.iter().filter(|request| request.namespace == namespace).count();
    assert_eq!((of("a"), of("b")), (7, 1));
}

#[test]
fn a_pod_without_operating_system_and_with_a_linux_image_belongs_to_no_pool() {
    let mut cluster = two_pools();
    cluster.pod("unclear", json!({}), spec(json!({"tolerations": tolerated()})), running());
    assert_eq!(counts(&cluster, "web").0, 1, "it may be for Windows");
    cluster.lookups.insert("example.com/app:1".to_owned(), found(&["linux/amd64"]));
    assert_eq!(counts(&cluster, "web").0, 0);
}

#[test]
fn a_runtime_error_is_explained_by_the_registry() {
    let mut cluster = with_image(two_pools(), "example.com/app:7", &[], waiting(NO_MATCH));
    let start = "web ImagesCannotRun Pod shop/app: example.com/app:7 does not run on 10.0.20348.1000: the container runtime \
                 reports: no match for platform in manifest. ";
    cluster.assert_issues(&[(start, "manifest. Rebuild it on ltsc2022")], &"without a lookup");
    cluster.lookups.insert("example.com/app:7".to_owned(), found(&["windows/amd64 10.0.17763.1"]));
    let explanation = "manifest. According to its registry it is for 10.0.17763.1 (ltsc2019), and the node runs only images \
                       for 10.0.20348 (ltsc2022). Rebuild it on ltsc2022, or use pool batch";
    cluster.assert_issues(&[(start, explanation)], &"with a lookup");
}

#[test]
fn an_image_is_reported_from_the_number_of_updates_that_the_profile_sets() {
    const OF_2025_12: &[&str] = &["windows/amd64 10.0.20348.4529"];
    const BEHIND: &str = "web ImageUpdatesBehind Pod shop/app: according to its registry example.com/app:1 has a base image of \
                          2025-12, 11 updates behind (10.0.20348 (ltsc2022))";
    // The platforms in the registry, the status of the pod, and the limit; whether the image is reported, and looked up.
    let table: [(&[&str], Value, Option<u32>, bool, bool); 8] = [
        (OF_2025_12, running(), Some(10), true, true),
        (OF_2025_12, running(), Some(11), false, true),
        (OF_2025_12, running(), None, false, false),
        (&["windows/amd64 10.0.20348.5870"], running(), Some(0), false, true),
        // The node selects the latest image that it runs.
        (
            &["windows/amd64 10.0.20348.5870", "windows/amd64 10.0.20348.1", "windows/amd64 10.0.26100.1"],
            running(),
            Some(0),
            false,
            true,
        ),
        (&["windows/amd64"], running(), Some(0), false, true),
        (&[], running(), Some(0), false, true),
        (&["windows/arm64 10.0.20348.4529"], running(), Some(0), false, true),
    ];
    for (registry, status, max, reported, looked_up) in table {
        let mut cluster = one_pool(json!({"profileRef": {"name": "standard"}}));
        let spec = max.map_or(json!({}), |max| json!({"maxImageUpdatesBehind": max}));
        cluster.model.put(PROFILE, "standard", profile(spec));
        let cluster = with_image(cluster, APP, registry, status);
        let case = format!("{registry:?} {max:?}");
        let expected: &[_] = if reported { &[(BEHIND, "Rebuild it on a newer base image")] } else { &[] };
        cluster.assert_issues(expected, &case);
        assert_eq!(cluster.summary("web").updates_behind, u32::from(reported), "{case}");
        assert_eq!(cluster.index().image_requests().count() == 1, looked_up, "{case}");
    }
}

#[test]
fn the_image_of_a_host_process_container_has_no_age() {
    let mut cluster = one_pool(json!({"profileRef": {"name": "standard"}}));
    cluster.model.put(PROFILE, "standard", profile(json!({"maxImageUpdatesBehind": 0})));
    cluster.lookups.insert(APP.to_owned(), found(&["windows/amd64 10.0.20348.1"]));
    let options = json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    let fields = json!({"containers": [container(APP)], "tolerations": tolerated(), "hostNetwork": true, "securityContext": options});
    cluster.pod_on("app", "web-1", fields, running());
    assert_eq!(cluster.summary("web").updates_behind, 0);
}

#[test]
fn no_lookup_is_needed_once_the_container_started() {
    let cluster = with_image(two_pools(), APP, &[], running());
    assert_eq!(cluster.index().image_requests().count(), 0);
    let mut index = with_image(two_pools(), APP, &[], json!({})).index();
    assert_eq!(index.image_requests().count(), 1);
    index.set_pod("shop/app", None);
    assert_eq!(index.image_requests().count(), 0);
}
