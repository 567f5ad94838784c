//! Issues of volumes: each source of a volume, on a node with its driver and without.

use serde_json::{Value, json};

use winpool_model::{
    storage::storage,
    workloads::{Cluster, running, spec, tolerated, two_pools},
};

const DISK: &str = "disk.csi.azure.com";

fn claim(name: &str) -> Value {
    json!({"persistentVolumeClaim": {"claimName": name}})
}

/// Adds a pod for pool `web` with a volume; without a node, if that is empty.
fn add(cluster: &mut Cluster, name: &str, node: &str, volume: &Value) {
    let mut volume = volume.clone();
    volume["name"] = json!("data");
    let mut fields = json!({"volumes": [volume], "tolerations": tolerated(), "runtimeClassName": "windows-ltsc2022"});
    fields["nodeSelector"] = json!({"node.kubernetes.io/windows-build": "10.0.20348"});
    if node.is_empty() {
        return cluster.pod(name, json!({}), spec(fields), json!({}));
    }
    cluster.pod_on(name, node, fields, running());
}

/// The issues of volumes in pool `web`, as `Reason: message`. Node `web-1` has the driver of Azure Disk for at most two volumes, and
/// `web-2` another driver.
fn issues(cluster: &Cluster) -> Vec<String> {
    let csi = |driver: &str, fs_type: &str| json!({"csi": {"driver": driver, "volumeHandle": "h", "fsType": fs_type}});
    let bound = |name: &'static str, volume: &str| (name, json!({ "volumeName": volume }));
    let of_class = |name: &'static str, class: &str| (name, json!({ "storageClassName": class }));
    let claims = [
        bound("app-0-data", "disk"),
        bound("data-app-0", "disk"),
        bound("linux", "linux"),
        bound("local", "local"),
        bound("nfs", "nfs"),
        bound("old", "old"),
        of_class("in-tree", "in-tree"),
        of_class("new", "disk"),
    ];
    let volumes = [
        ("disk", csi(DISK, "ext4")),
        ("linux", csi("csi.example.com", "XFS")),
        ("local", json!({"local": {"path": "C:\\data"}})),
        ("nfs", json!({"nfs": {"server": "s", "path": "/"}})),
        ("old", json!({"azureDisk": {"diskName": "d", "diskURI": "u", "fsType": "ext4"}})),
    ];
    let in_tree = json!({"provisioner": "kubernetes.io/gce-pd", "parameters": {"fsType": "ntfs"}});
    let classes = [("disk", json!({"provisioner": DISK})), ("in-tree", in_tree)];
    let nodes = [("web-1", json!({ DISK: 2 })), ("web-2", json!({"csi.example.com": null}))];
    let mut index = cluster.index();
    index.set_storage(Some(storage(&claims, &volumes, &classes, &nodes)));
    let all = index.summary("web").issues.into_iter();
    let issues = all.flat_map(|(kind, affected)| affected.first.into_iter().map(move |(_, issue)| (kind, issue)));
    issues.map(|(kind, issue)| format!("{}: {issue}", kind.name())).collect()
}

#[test]
fn volumes_are_compared_with_the_drivers_of_the_nodes() {
    let azure = json!({"azureDisk": {"diskName": "d", "diskURI": "u"}});
    let csi = json!({"csi": {"driver": "csi.example.com"}});
    let disk = "needs CSI driver disk.csi.azure.com, which is not registered on web-2. Install its DaemonSet for Windows, and csi-proxy \
                on each node unless it runs in HostProcess containers";
    let table = [
        ("web-1", claim("data-app-0"), ""),
        ("web-2", claim("data-app-0"), disk),
        ("", claim("data-app-0"), ""),
        ("web-2", json!({"ephemeral": {}}), disk),
        ("web-2", azure.clone(), disk),
        ("web-1", azure, ""),
        ("web-2", claim("old"), disk),
        ("web-2", claim("new"), disk),
        ("", claim("in-tree"), "needs CSI driver pd.csi.storage.gke.io, which is not registered on web-1, web-2."),
        ("web-2", csi.clone(), ""),
        (
            "web-1",
            csi,
            "needs CSI driver csi.example.com, which is not registered on web-1. Install its DaemonSet for Windows",
        ),
        ("web-2", claim("linux"), "has file system xfs, which csi.example.com is not known to mount on Windows."),
        ("web-1", claim("nfs"), "is of type nfs, which no CSI driver mounts on Windows. Use a CSI driver for Windows"),
        ("web-1", json!({"flexVolume": {"driver": "d"}}), "is of type flexVolume, which no CSI driver"),
        ("web-1", claim("local"), ""),
        ("web-1", claim("missing"), ""),
        ("web-1", json!({"emptyDir": {}}), ""),
    ];
    for (node, volume, expected) in table {
        let mut cluster = two_pools();
        add(&mut cluster, "app-0", node, &volume);
        let found = issues(&cluster).join("");
        let kind = if expected.starts_with("needs") { "DriverNotRegistered" } else { "VolumeNotSupported" };
        let start = format!("{kind}: volume data of pod shop/app-0 {expected}");
        assert!(if expected.is_empty() { found.is_empty() } else { found.starts_with(&start) }, "{volume} {found}");
    }
}

#[test]
fn a_limit_counts_a_volume_once_and_stops_only_pods_that_need_more() {
    for (second, new, is_full) in [("data-app-0", "new", false), ("old", "new", true), ("old", "old", false)] {
        let mut cluster = two_pools();
        add(&mut cluster, "used-0", "web-1", &claim("data-app-0"));
        add(&mut cluster, "used-1", "web-1", &claim(second));
        add(&mut cluster, "app-1", "", &claim(new));
        let limit = "AttachLimitReached: volume data of pod shop/app-1 needs CSI driver disk.csi.azure.com, which attaches no more volumes \
                     to web-1, web-2. Add nodes, or move pods";
        assert_eq!(issues(&cluster), if is_full { vec![limit] } else { vec![] }, "{second} {new}");
    }
}
