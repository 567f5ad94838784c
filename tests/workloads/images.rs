//! Whether images run, as pods tell it: by the strongest evidence, on every node that they may be on.

use serde_json::{Value, json};
use winpool::domain::image::{Lookup, Said};

use crate::cluster::{CONTAINERD, Cluster, container, found, running, spec, tolerated, town, village, waiting, wanted};

const APP: &str = "example.com/app:1";
const NO_MATCH: &str = "rpc error: code = NotFound desc = failed to pull and unpack image \"example.com/app:1\": \
                        no match for platform in manifest: not found";

/// A pool `web` that asks for a build, with one node of it.
fn pool_of(version: &str, build: u32, runtime: &str, fields: Value) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node("web-1", build, runtime);
    let mut spec = json!({"windowsVersion": version});
    crate::cluster::merge(&mut spec, fields);
    cluster.pool("web", spec);
    cluster.world.settle();
    cluster
}

/// A pod on the first node of `web`, of whose image the registry says these.
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
fn the_strongest_evidence_wins_and_is_named() {
    const OLD: &str = "mcr.microsoft.com/windows/servercore:ltsc2019";
    const NEW: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
    let (for_2019, for_2022): (&[&str], &[&str]) = (&["windows/amd64 10.0.17763.1"], &["windows/amd64 10.0.20348.1"]);
    let rebuild = "rebuild it on ltsc2022, or use pool batch";
    // The image, what the registry says, what the runtime says; what is told, and the counts.
    let table: [(&str, &[&str], Value, Option<(&str, &str)>, (u32, u32, u32, u32)); 10] = [
        (APP, &[], json!({}), None, (1, 0, 0, 1)),
        (NEW, &[], json!({}), None, (1, 0, 0, 1)),
        (
            OLD,
            &[],
            json!({}),
            Some((
                "probably does not run on 10.0.20348.1000: by its name it is for 10.0.17763 (ltsc2019), the host runs images of 10.0.20348 (ltsc2022) only",
                rebuild,
            )),
            (1, 0, 1, 0),
        ),
        (OLD, for_2022, json!({}), None, (1, 0, 0, 0)),
        (
            NEW,
            for_2019,
            json!({}),
            Some(("does not run on 10.0.20348.1000: by its registry it is for 10.0.17763.1 (ltsc2019)", rebuild)),
            (1, 1, 0, 0),
        ),
        (OLD, for_2019, running(), None, (1, 0, 0, 0)),
        (
            NEW,
            for_2022,
            waiting(NO_MATCH),
            Some((
                "does not run on 10.0.20348.1000, says the runtime: no match for platform in manifest",
                "rebuild it on ltsc2022",
            )),
            (1, 1, 0, 0),
        ),
        (
            OLD,
            &[],
            waiting(NO_MATCH),
            Some(("does not run on 10.0.20348.1000, says the runtime: no match for platform in manifest", rebuild)),
            (1, 1, 0, 0),
        ),
        (
            APP,
            &["linux/amd64", "linux/arm64"],
            json!({}),
            Some((
                "does not run on 10.0.20348.1000: by its registry it is for linux/amd64, linux/arm64 only",
                "build it for ltsc2022, or select kubernetes.io/os=linux",
            )),
            (1, 1, 0, 0),
        ),
        (
            NEW,
            &["windows/arm64 10.0.20348.1"],
            json!({}),
            Some((
                "does not run on 10.0.20348.1000: by its registry it is for windows/arm64 only",
                "rebuild it on ltsc2022",
            )),
            (1, 1, 0, 0),
        ),
    ];
    for (image, registry, status, expected, counted) in table {
        let cluster = with_image(town(), image, registry, status.clone());
        let begin = expected.map(|(begin, _)| format!("web ImagesCannotRun Pod shop/app: {image} {begin}"));
        let told: Vec<_> = begin.iter().zip(expected).map(|(begin, (_, end))| (begin.as_str(), end)).collect();
        cluster.tells(&told, &format!("{image} {registry:?} {status}"));
        assert_eq!(counts(&cluster, "web"), counted, "{image} {registry:?} {status}");
    }
}

#[test]
fn a_registry_that_does_not_answer_is_unknown_and_never_fits() {
    let mut cluster = with_image(town(), APP, &[], json!({}));
    cluster.lookups.insert(APP.to_owned(), Lookup::Failed("429 Too Many Requests".to_owned()));
    cluster.tells(&[], &"nothing is known");
    assert_eq!(counts(&cluster, "web"), (1, 0, 0, 1));
    assert_eq!(wanted(&cluster.ledger()), [APP]);
}

#[test]
fn what_the_matrix_of_hosts_and_images_says_is_told_of_pods() {
    let old_containerd = "containerd://1.7.5";
    // The pool's version, its build, its runtime, the image's version; how what is told ends.
    let table = [
        ("ltsc2022", 20348, CONTAINERD, "10.0.20348.1", None),
        // The model's nodes are of revision 1000.
        ("ltsc2022", 20348, CONTAINERD, "10.0.20348.1000", None),
        (
            "ltsc2022",
            20348,
            CONTAINERD,
            "10.0.20348.1001",
            Some("install the updates of Windows on the node, or use the image as it was before"),
        ),
        ("ltsc2025", 26100, CONTAINERD, "10.0.20348.9999", None),
        ("ltsc2022", 20348, CONTAINERD, "10.0.17763.1", Some("rebuild it on ltsc2022")),
        ("ltsc2022", 20348, CONTAINERD, "10.0.26100.1", Some("rebuild it on ltsc2022")),
        ("ltsc2025", 26100, CONTAINERD, "10.0.20348.1", None),
        (
            "ltsc2025",
            26100,
            old_containerd,
            "10.0.20348.1",
            Some("upgrade containerd to 1.7.6, or rebuild it on ltsc2025"),
        ),
        ("ltsc2025", 26100, CONTAINERD, "10.0.17763.1", Some("rebuild it on ltsc2025")),
        // Version 23H2 has no base images of its own.
        ("23H2", 25398, CONTAINERD, "10.0.20348.1", None),
        ("23H2", 25398, CONTAINERD, "10.0.17763.1", Some("rebuild it on ltsc2022")),
        // Windows Server 2016 runs its own revision only, which the model's nodes have as 1000.
        ("ltsc2016", 14393, CONTAINERD, "10.0.14393.1000", None),
        ("ltsc2016", 14393, CONTAINERD, "10.0.14393.999", Some("which is 10.0.14393.1000: rebuild it on ltsc2016")),
        ("ltsc2019", 17763, "docker://20.10.9", "10.0.17763.1", None),
    ];
    for (version, build, runtime, image, expected) in table {
        let platform = format!("windows/amd64 {image}");
        let cluster = with_image(pool_of(version, build, runtime, json!({})), APP, &[&platform], json!({}));
        let told: Vec<_> = expected.iter().map(|end| ("web ImagesCannotRun", *end)).collect();
        cluster.tells(&told, &format!("{image} on {version} with {runtime}"));
    }
}

#[test]
fn hyper_v_takes_older_images_and_host_process_takes_all() {
    let class = |handler: &str| json!({"name": "isolated", "isolation": "HyperV", "handler": handler});
    let hyper_v = |handler| json!({"profileRef": null, "runtimeClasses": [class(handler)]});
    let mut cluster = pool_of("ltsc2022", 20348, CONTAINERD, hyper_v("runhcs-wcow-hypervisor-17763"));
    cluster.lookups.insert(APP.to_owned(), found(&["windows/amd64 10.0.17763.1"]));
    let older = json!({"runtimeClassName": "isolated", "nodeSelector": {"kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": "10.0.20348"}, "tolerations": tolerated()});
    cluster.pod_on("older", "web-1", older.clone(), json!({}));
    cluster.tells(&[], &"a class of the pool with a Hyper-V handler of its own");
    cluster.lookups.insert(APP.to_owned(), found(&["windows/amd64 10.0.26100.1"]));
    cluster.tells(&[("web ImagesCannotRun Pod shop/older", "rebuild it on ltsc2022")], &"a newer one runs nowhere");

    let mut cluster = pool_of("ltsc2022", 20348, CONTAINERD, hyper_v("runhcs-wcow-hypervisor"));
    cluster.pod_on("older", "web-1", older, json!({}));
    for (image, expected) in [("10.0.20348.1", None), ("10.0.17763.1", Some("rebuild it on ltsc2022"))] {
        cluster.lookups.insert(APP.to_owned(), found(&[&format!("windows/amd64 {image}")]));
        let told: Vec<_> = expected.iter().map(|end| ("web ImagesCannotRun Pod shop/older", *end)).collect();
        cluster.tells(&told, &format!("{image} with the Hyper-V handler of containerd"));
    }

    let mut cluster = town();
    let host_process = |image: &str| {
        let options = json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
        json!({"containers": [container(image)], "securityContext": options, "hostNetwork": true, "tolerations": tolerated()})
    };
    cluster.lookups.insert(APP.to_owned(), found(&["windows/amd64 10.0.17763.1"]));
    cluster.pod_on("agent", "web-1", host_process(APP), json!({}));
    cluster.pod_on("by-name", "web-1", host_process("example.com/agent:ltsc2019"), json!({}));
    cluster.tells(&[], &"they run on the host's own files");
    cluster.lookups.insert(APP.to_owned(), found(&["linux/amd64"]));
    cluster.tells(
        &[("web ImagesCannotRun Pod shop/agent", "select kubernetes.io/os=linux")],
        &"not without an entry for Windows",
    );
}

#[test]
fn a_pod_that_waits_is_judged_on_every_node_that_it_may_come_to() {
    let image = "example.com/app:ltsc2022";
    let pod = |fields: Value| {
        let mut fields = fields;
        fields["containers"] = json!([container(image)]);
        spec(fields)
    };
    let mut cluster = town();
    let by_class = json!({"runtimeClassName": "windows-ltsc2022"});
    cluster.pod("app", json!({}), pod(by_class), json!({"phase": "Pending"}));
    cluster.tells(&[], &"its class leads to its build");
    let anywhere = json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": tolerated()});
    cluster.pod("app", json!({}), pod(anywhere), json!({"phase": "Pending"}));
    cluster.tells(
        &[(
            "batch ImagesCannotRun Pod shop/app: example.com/app:ltsc2022 probably does not run on 10.0.17763.1000",
            "rebuild it on ltsc2019, or use pool web",
        )],
        &"it may come to the other pool too",
    );

    // A pool in the middle of a move has nodes of two builds.
    let mut mixed = village(json!({}));
    mixed.node("web-3", 26100, "containerd://1.6.8");
    mixed.world.settle();
    mixed.lookups.insert(APP.to_owned(), found(&["windows/amd64 10.0.20348.1"]));
    mixed.pod(
        "app",
        json!({}),
        spec(json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": tolerated()})),
        json!({}),
    );
    mixed.tells(
        &[("web ImagesCannotRun", "upgrade containerd to 1.6.23, or rebuild it on ltsc2025")],
        &"one node would not find it",
    );
    mixed.pod_on(
        "app",
        "web-1",
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": tolerated()}),
        json!({}),
    );
    mixed.tells(&[], &"and it came to another");

    let mut empty = Cluster::new();
    empty.pool("web", json!({"windowsVersion": "ltsc2022"}));
    empty.world.settle();
    let old = json!({"runtimeClassName": "windows-ltsc2022", "containers": [container("example.com/app:ltsc2019")]});
    empty.pod("app", json!({}), spec(old), json!({"phase": "Pending"}));
    empty.tells(
        &[(
            "web ImagesCannotRun Pod shop/app: example.com/app:ltsc2019 probably does not run on 10.0.20348:",
            "rebuild it on ltsc2022",
        )],
        &"a pool without nodes has the build that it asks for",
    );
}

#[test]
fn a_sandbox_that_does_not_start_is_the_pause_image_of_the_node() {
    const HCS: &str = "Failed to create pod sandbox: rpc error: hcs::CreateComputeSystem 4f2a: \
                       The container operating system does not match the host operating system.: unknown";
    let mut cluster = with_image(town(), APP, &["windows/amd64 10.0.20348.1"], json!({"phase": "Pending"}));
    cluster.sandboxes.insert(("shop/app".into(), "shop/app.1".into()), Said::misfit(HCS));
    let expected = (
        "web ImagesCannotRun Pod shop/app: its sandbox does not start on 10.0.20348.1000, says the runtime: The container operating system does not match",
        "configure a pause image with an entry for ltsc2022 on the node",
    );
    cluster.tells(&[expected], &"no image of the pod was looked at");
    assert_eq!(counts(&cluster, "web"), (1, 1, 0, 0));

    let mut two = cluster.clone();
    two.sandboxes.insert(("shop/app".into(), "shop/app.2".into()), Said::misfit(HCS));
    let mut ledger = two.ledger();
    ledger.sandbox("shop/app", "shop/app.1", None);
    ledger.sandbox("shop/app", "shop/app.3", None);
    assert_eq!(ledger.summary("web").cannot_run, 1, "one of two events is gone, and the other still says so");
    ledger.sandbox("shop/app", "shop/app.2", None);
    assert_eq!(ledger.summary("web").cannot_run, 0);

    cluster.pods.get_mut("shop/app").unwrap()["status"] = running();
    cluster.tells(&[], &"an event outlives what it tells of");
}

#[test]
fn an_unmarked_pod_on_a_windows_node_may_be_meant_for_linux() {
    let mut cluster = town();
    cluster.pod_on("nginx", "web-1", json!({"tolerations": [{"operator": "Exists"}]}), waiting(NO_MATCH));
    cluster.tells(
        &[("web ImagesCannotRun Pod shop/nginx", "build it for ltsc2022, or select kubernetes.io/os=linux")],
        &"nothing says that it is for Windows",
    );
}

#[test]
fn names_of_images_that_nobody_can_read() {
    for image in ["", "UPPER/case", "a b", "example.com/app:", "example.com/app@sha256:short", ":tag", "../escape"] {
        let cluster = with_image(town(), image, &[], json!({}));
        cluster.tells(&[], &image);
        assert_eq!(counts(&cluster, "web"), (1, 0, 0, 1), "{image:?} is unknown");
    }
    // Without tag and digest it is the tag latest, of which the name says nothing.
    let cluster = with_image(town(), "example.com/app", &[], json!({}));
    assert_eq!(counts(&cluster, "web"), (1, 0, 0, 1));
    assert_eq!(wanted(&cluster.ledger()), ["example.com/app"]);
}

#[test]
fn an_image_is_asked_for_in_every_way_that_its_pods_have_those_with_secrets_first() {
    let mut cluster = town();
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
    let ledger = cluster.ledger();
    let [(APP, ways)] = &ledger.wants().collect::<Vec<_>>()[..] else { panic!("one image") };
    let told: Vec<_> =
        ways.iter().map(|way| format!("{} {:?}", way.pool.as_deref().unwrap_or("-"), way.pull_secrets)).collect();
    assert_eq!(told, [r#"batch ["a"]"#, r#"web ["b"]"#, "web []"]);
}

#[test]
fn a_pod_that_does_not_say_its_system_is_nothing_to_a_pool_when_its_image_is_for_linux() {
    let mut cluster = town();
    cluster.pod("unclear", json!({}), spec(json!({"tolerations": tolerated()})), running());
    assert_eq!(counts(&cluster, "web").0, 1, "it may be for Windows");
    cluster.lookups.insert("example.com/app:1".to_owned(), found(&["linux/amd64"]));
    assert_eq!(counts(&cluster, "web").0, 0);
}

#[test]
fn what_does_not_start_is_told_with_what_else_is_known_of_its_image() {
    let mut cluster = with_image(town(), "example.com/app:7", &[], waiting(NO_MATCH));
    let told =
        |more: &'static str| [("web ImagesCannotRun Pod shop/app: example.com/app:7 does not run on 10.0.20348", more)];
    cluster
        .tells(&told("says the runtime: no match for platform in manifest: rebuild it on ltsc2022"), &"nothing else");
    cluster.lookups.insert("example.com/app:7".to_owned(), found(&["windows/amd64 10.0.17763.1"]));
    let more = "by its registry it is for 10.0.17763.1 (ltsc2019), the host runs images of 10.0.20348 (ltsc2022) only: rebuild it on ltsc2022, or use pool batch";
    cluster.tells(&told(more), &"its registry");
}

#[test]
fn the_registry_is_asked_only_of_what_the_runtime_did_not_say() {
    let cluster = with_image(town(), APP, &[], running());
    assert_eq!(cluster.ledger().wants().count(), 0);
    let mut ledger = with_image(town(), APP, &[], json!({})).ledger();
    assert_eq!(ledger.wants().count(), 1);
    ledger.pod("shop/app", None);
    assert_eq!(ledger.wants().count(), 0);
}
