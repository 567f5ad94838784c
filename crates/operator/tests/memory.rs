//! The memory of the caches, by the bytes that are allocated. It is a program of its own, because it counts those of all threads.

#![allow(clippy::disallowed_methods)] // I/O, and time
#![allow(clippy::unwrap_used)] // it panics if a check does not hold

use std::{alloc::System, fmt::Write as _, sync::Mutex};

use cap::Cap;
use futures::stream;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
    core::v1 as core,
};
use kube_runtime::watcher::Event;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use winpool_core::node::WindowsNode;
use winpool_operator::{
    admin::{Metrics, Readiness},
    cluster::{SandboxEvent, Store, View, run_watch},
};
use winpool_render::allowances::Allowances;
use winpool_rules::pool::{
    ConfigMapView, NodeConfigView, Pool, ProfileView, RuntimeClassView,
    cluster_api::{
        ClusterView, KubeadmConfigView, MachineGroup, MachinePoolView, MachineSetView, MachineView, TemplateView,
    },
};
use winpool_workload::{ControllerView, MemoryDefaults, Service};

#[global_allocator]
static ALLOCATED: Cap<System> = Cap::new(System, usize::MAX);

/// Held by the test that runs, because both count what all threads allocate.
static MEASURING: Mutex<()> = Mutex::new(());
/// The most that an object takes while it is decoded, in bytes for each byte of its text. The API server takes about 3 MB of text in
/// one object, whose lists are then better filled, and a page has 2 MiB. The operator has two threads: both need less than the limit of
/// memory in `config/default/deployment.yaml`.
const DECODED: usize = 225;
/// How many objects are created and deleted, each with other values.
const CYCLES: usize = 6;
/// What may remain of them, which does not depend on their number: the places of values that are no longer used.
const REMAINDER: usize = 64 * 1024;
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn labels(count: usize, cycle: usize) -> Value {
    (0..count)
        .map(|number| (format!("label-{number:05}"), json!(format!("value-{cycle}"))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// An object as large as the API server takes, about 1.5 MB: metadata of 700 KB that any object can have, and a spec of its kind.
fn largest(cycle: usize, fields: &Value) -> Value {
    let mut annotations = json!({});
    annotations["example.com/text"] = json!("x".repeat(250 * KIB));
    let owners = list(
        10,
        |number| json!({"apiVersion": "v1", "kind": "K".repeat(10_000), "name": format!("{number}-{cycle}"), "uid": "u", "controller": number == 0}),
    );
    let mut object = json!({
        "metadata": {
            "name": format!("name-{cycle}"), "namespace": "shop", "uid": format!("uid-{cycle}"),
            "labels": labels(15_000, cycle), "annotations": annotations, "ownerReferences": owners,
        },
    });
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

/// A pod spec with many entries of each kind.
fn pod(cycle: usize) -> Value {
    json!({
        "nodeSelector": labels(2000, cycle),
        "tolerations": list(3000, |number| json!({"key": format!("key-{number}-{cycle}"), "operator": "Exists"})),
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(1000, |number| {
            json!({"matchExpressions": [{"key": format!("key-{number}-{cycle}"), "operator": "Exists"}]})
        })}}},
        "containers": list(1000, |number| json!({"name": format!("c{number}"), "image": format!("example.com/{cycle}/{number}:1")})),
    })
}

/// The most that is kept of an object while it exists, and what remains when many were created and deleted.
fn measured<V: View>(fields: fn(usize) -> Value) -> (usize, usize)
where
    V::Object: DeserializeOwned,
{
    let read = |cycle| {
        let mut object = largest(cycle, &fields(cycle));
        object["apiVersion"] = json!(V::KIND.api_version());
        object["kind"] = json!(V::KIND.name);
        serde_json::from_value::<V::Object>(object).unwrap()
    };
    let (store, metrics) = (Store::<V>::default(), Metrics::default());
    let (mut before, mut kept, mut remaining) = (0, 0, 0);
    let events = (0..CYCLES).flat_map(|cycle| [(cycle, true), (cycle, false), (cycle, false)]);
    let mut deleted = false;
    let events = events.map(|(cycle, created)| {
        // The watch asks for an event when it has processed the one before.
        let (allocated, had) = (ALLOCATED.allocated(), store.len());
        match (cycle, created, had) {
            (1, true, 0) => before = allocated,
            (1.., false, 1) => kept = kept.max(allocated.saturating_sub(before)),
            (1.., false, 0) => remaining = allocated.saturating_sub(before),
            _ => {}
        }
        deleted = !created;
        Ok(if created { Event::Apply(read(cycle)) } else { Event::Delete(read(cycle)) })
    });
    let kind = Readiness::default().optional(V::KIND.name);
    let nothing = Allowances::default();
    let watch = run_watch(stream::iter(events), store.clone(), &nothing, metrics.clone(), kind, |_| {});
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(watch);
    assert!(deleted && store.is_empty());
    (kept, remaining)
}

/// The largest part of a pod's spec for its text is a volume, then a variable and a source of a projected volume. A list has places for
/// a power of two.
#[test]
fn decoding_an_object_takes_at_most_225_bytes_for_each_of_its_bytes() {
    let _measuring = MEASURING.lock().unwrap();
    let volumes = list(8200, |number| json!({"name": format!("{number:x}"), "emptyDir": {}}));
    let variables = list(16_400, |_| json!({"name": "A"}));
    let sources = list(8200, |_| json!({"configMap": {"name": "a"}}));
    let container = json!({"name": "a", "image": "a", "env": variables});
    let projected = json!({"name": "a", "projected": {"sources": sources}});
    let specs = [
        json!({"containers": [], "volumes": volumes}),
        json!({"containers": [container]}),
        json!({"containers": [], "volumes": [projected]}),
    ];
    for spec in specs {
        let text = json!({"metadata": {"name": "a"}, "spec": spec}).to_string();
        let before = ALLOCATED.allocated();
        let pod: core::Pod = serde_json::from_str(&text).unwrap();
        let taken = ALLOCATED.allocated() - before;
        eprintln!("{} bytes for each of {} bytes", taken / text.len(), text.len());
        assert!(taken <= DECODED * text.len());
        drop(pod);
    }
}

#[test]
fn after_the_largest_objects_of_every_watched_kind_were_created_and_deleted_the_memory_is_that_of_none() {
    let _measuring = MEASURING.lock().unwrap();
    let nothing: fn(usize) -> Value = |_| json!({});
    let spec: fn(usize) -> Value = |cycle| json!({"spec": {"fields": labels(10_000, cycle)}});
    let pods: fn(usize) -> Value = |cycle| json!({"spec": pod(cycle)});
    let controller: fn(usize) -> Value =
        |cycle| json!({"spec": {"selector": {}, "serviceName": "a", "template": {"spec": pod(cycle)}}});
    let service: fn(usize) -> Value =
        |cycle| json!({"spec": {"internalTrafficPolicy": "Local", "selector": labels(15_000, cycle)}});
    let data: fn(usize) -> Value = |cycle| json!({"data": {"file": format!("{cycle}").repeat(800 * KIB)}});
    let class: fn(usize) -> Value = |_| json!({"handler": "runhcs-wcow-process"});
    let event: fn(usize) -> Value =
        |_| json!({"involvedObject": {"namespace": "shop", "name": "web"}, "message": "x".repeat(800 * KIB)});
    // What a tenant or a kubelet can write is bounded; the others are as large as whoever may write them makes them.
    let (tenant, kubelet, others) = (128 * KIB, MIB, 24 * MIB);
    let mut wrong = String::new();
    let mut check = |kind: &str, bound: usize, (kept, remaining): (usize, usize)| {
        eprintln!("{kind}: {} KiB kept, {} KiB remaining", kept / KIB, remaining / KIB);
        if kept > bound || remaining > REMAINDER {
            let _ = writeln!(wrong, "{kind}: {kept} bytes kept of at most {bound}, {remaining} remaining");
        }
    };
    macro_rules! check {
        ($($view:ty: $fields:expr, $bound:expr;)*) => {
            $(check(<$view as View>::KIND.name, $bound, measured::<$view>($fields));)*
        };
    }
    check! {
        winpool_workload::Pod: pods, tenant;
        ControllerView<Deployment>: controller, tenant;
        ControllerView<StatefulSet>: controller, tenant;
        ControllerView<DaemonSet>: controller, tenant;
        ControllerView<Job>: controller, tenant;
        SandboxEvent: event, tenant;
        MemoryDefaults: nothing, tenant;
        Service: service, tenant;
        WindowsNode: nothing, kubelet;
        MachineGroup: spec, kubelet;
        MachinePoolView: spec, kubelet;
        MachineSetView: spec, tenant;
        MachineView: spec, tenant;
        ClusterView: spec, tenant;
        Pool: spec, others;
        ProfileView: spec, others;
        NodeConfigView: spec, others;
        RuntimeClassView: class, others;
        ConfigMapView: data, others;
        TemplateView: spec, others;
        KubeadmConfigView: spec, others;
    }
    assert!(wrong.is_empty(), "{wrong}");
}
