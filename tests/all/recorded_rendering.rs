//! What this version renders, recorded in `tests/golden/recorded-rendering.json` as it is stored in clusters: an upgrade to the
//! code of today must not change names, digests and records of stored objects by accident.

use std::{collections::BTreeMap, fs, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use winpool_render::settings::digest_of;
use winpool_rules::pool::ProfileView;

use crate::{golden, golden_cluster_api};
use winpool_model::{CONFIG, Model, NODE, POOL, PROFILE, node, pool, profile};

#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    /// By name.
    config_maps: BTreeMap<String, ConfigMap>,
    /// The names of the templates of Cluster API.
    templates: Vec<String>,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigMap {
    rendered_from: String,
    data: BTreeMap<String, String>,
}

/// A profile with settings in every file.
fn sample() -> Value {
    json!({
        "kubelet": {
            "systemReserved": {"cpu": "500m", "memory": "3Gi"},
            "evictionHard": {"memory.available": "1Gi"},
            "maxPods": 42,
            "extra": {"registryPullQPS": 9},
            "logging": {"verbosity": 4},
        },
        "containerd": {
            "registryMirrors": [
                {"registry": "docker.io", "endpoints": ["https://b.example", "https://a.example"]},
                {"registry": "registry.example:5000", "endpoints": ["https://mirror.example"]},
            ],
            "root": "D:\\containerd",
        },
        "kubeProxy": {"sourceVIP": "10.244.0.2"},
        "proxy": {"httpProxy": "http://proxy.example:3128", "noProxy": ".svc,10.0.0.0/8"},
    })
}

/// What the code of today renders, for a node of each generation.
fn rendered() -> Recorded {
    let mut model = Model::new();
    model.allowances.hosts = ["*".parse().unwrap(), "http://*".parse().unwrap()].into();
    model.put(PROFILE, "standard", profile(sample()));
    let nodes = [
        (20348, "containerd://1.7.27", "v1.30.4"),
        (20348, "containerd://2.1.4", "v1.34.1"),
        (26100, "containerd://2.2.0", "v1.36.0"),
    ];
    for (index, (build, runtime, kubelet)) in nodes.into_iter().enumerate() {
        let mut node = node(build, runtime, &json!({"agentpool": "web"}), &json!([]));
        node["status"]["nodeInfo"]["kubeletVersion"] = json!(kubelet);
        model.put(NODE, &format!("win-{index}"), node);
    }
    let spec = json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": {"matchLabels": {"agentpool": "web"}},
        "profileRef": {"name": "standard"},
    });
    model.put(POOL, "web", pool(spec));
    model.converge();
    let problems = ProfileView::from_object(serde_json::from_value(profile(sample())).unwrap()).profile.err();
    assert_eq!(problems, None);
    let config_maps = model.all(CONFIG).map(|map| {
        let record = map["metadata"]["annotations"]["winpool.dev/rendered-from"].as_str().unwrap().to_owned();
        let data = serde_json::from_value(map["data"].clone()).unwrap();
        (map["metadata"]["name"].as_str().unwrap().to_owned(), ConfigMap { rendered_from: record, data })
    });
    Recorded { config_maps: config_maps.collect(), templates: golden_cluster_api::names() }
}

#[test]
fn stored_renderings_keep_their_names_and_records() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/recorded-rendering.json");
    let today = rendered();
    if std::env::var_os(golden::RENEW).is_some() {
        fs::write(&path, serde_json::to_string_pretty(&today).unwrap() + "\n").unwrap();
    }
    let recorded: Recorded = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(recorded.config_maps.len(), 3, "a configuration for each node");
    for (name, map) in &recorded.config_maps {
        assert_eq!(
            *name,
            format!("web-{}", &digest_of(&map.data)[..10]),
            "the digest of what is stored is another one"
        );
    }
    let names = |of: &Recorded| {
        let maps = of.config_maps.iter().map(|(name, map)| format!("{name} from {}", map.rendered_from));
        maps.chain(of.templates.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&today),
        names(&recorded),
        "this code renders other settings from the same profile. After an upgrade existing nodes and machines keep theirs, with \
         ConfigInEffect False and reason RenderingChanged, until a person allows the change. If that is intended, describe the \
         change in CHANGELOG.md, run {}=1 cargo test -p winpool --test all recorded_rendering::, and commit",
        golden::RENEW
    );
}
