use kube::core::DynamicObject;
use serde_json::{Value, json};
use winpool_core::Objects;

use super::*;
use crate::{
    operation::Action,
    pool::{
        Consents, ProfileView,
        cluster_api::{
            ClusterApiRules, ClusterView, Infrastructure, KubeadmConfigView, MachineGroup, MachinePoolView,
            MachineSetView, MachineView, TemplateView,
        },
        maintenance::MaintenanceWindows,
    },
};

fn object(kind: &str, name: &str, rest: Value) -> DynamicObject {
    let mut object = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", "generation": 1},
    });
    json_patch::merge(&mut object, &rest);
    serde_json::from_value(object).unwrap()
}

/// A MachineDeployment or MachinePool of cluster `prod` with the label `winpool: web`.
fn group(kind: GroupKind, name: &str, bootstrap: &str, rest: Value) -> MachineGroup {
    let mut written = json!({
        "metadata": {"labels": {"winpool": "web"}},
        "spec": {"clusterName": "prod", "replicas": 2, "template": {"spec": {
            "version": "v1.34.1",
            "bootstrap": {"configRef": {
                "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": kind.bootstrap().name, "name": bootstrap,
            }},
        }}},
    });
    json_patch::merge(&mut written, &rest);
    MachineGroup::from_object(kind, object(kind.name(), name, written))
}

fn body_of(write: Write) -> Value {
    write.body().into_owned()
}

/// The object that a write creates.
fn created(write: Write) -> Value {
    assert_eq!(write.action, Action::CreateMachineObject);
    body_of(write)
}

/// A cluster with a pool `web` that has these fields of `clusterAPI`, and a profile.
struct Cluster {
    snapshot: Snapshot,
    objects: ClusterApiObjects,
}

impl Cluster {
    fn new(fields: Value) -> Self {
        let mut rules = json!({
            "namespace": "default", "clusterName": "prod", "containerdVersion": "2.2",
            "machineDeployments": {"matchLabels": {"winpool": "web"}},
        });
        json_patch::merge(&mut rules, &fields);
        let spec = json!({
            "windowsVersion": "ltsc2022",
            "nodeSelector": {"matchLabels": {"agentpool": "web"}},
            "profileRef": {"name": "standard"},
            "delivery": {"method": "ClusterAPI", "clusterAPI": rules},
        });
        let pool = Pool::from_object(object("WindowsNodePool", "web", json!({"spec": spec})));
        assert!(pool.spec.is_ok(), "{:?}", pool.spec);
        let profile = ProfileView::from_object(object("WindowsRuntimeProfile", "standard", json!({"spec": {}})));
        let cluster = ClusterView::from_object(&object("Cluster", "prod", json!({})));
        let objects = ClusterApiObjects { clusters: of(cluster), ..ClusterApiObjects::default() };
        let snapshot = Snapshot { pools: of(pool), profiles: of(profile), ..Snapshot::default() };
        Self { snapshot, objects }
    }

    /// With a MachineDeployment.
    fn with(mut self, group: MachineGroup) -> Self {
        self.add(group);
        self
    }

    fn add(&mut self, group: MachineGroup) {
        match group.kind {
            GroupKind::Deployment => drop(self.objects.deployments.insert(group)),
            GroupKind::Pool => drop(self.objects.pools.insert(MachinePoolView(group))),
        }
    }

    fn plan(&mut self) -> ClusterApiPlan {
        self.snapshot.cluster_api = ClusterApiState::Installed(std::sync::Arc::new(self.objects.clone()));
        let pool = self.snapshot.pools.get("web").unwrap();
        plan(&self.snapshot, (pool, pool.spec.as_ref().unwrap()), &[])
    }

    /// The plan for the only group.
    fn group(&mut self) -> GroupPlan {
        let Some(ClusterApiState::Installed(Some(selected))) = self.plan().state else {
            panic!("no group is selected")
        };
        let [group] = &selected.groups[..] else { panic!("{:?}", selected.groups) };
        group.clone()
    }

    /// Stores the templates of the plan, as the API server does.
    fn store_templates(&mut self) {
        for operation in self.plan().create {
            let body = created(operation);
            self.store(body);
        }
    }

    fn store(&mut self, body: Value) {
        let [kind, name] = [&body["kind"], &body["metadata"]["name"]].map(|text| text.as_str().unwrap().to_owned());
        let stored = object(&kind, &name, body);
        match kind.as_str() {
            "KubeadmConfigTemplate" => {
                self.objects.templates.insert(TemplateView::from_object(GroupKind::Deployment, stored));
            }
            _ => {
                self.objects.configs.insert(KubeadmConfigView(TemplateView::from_object(GroupKind::Pool, stored)));
            }
        }
    }
}

fn of<V: winpool_core::Named>(object: V) -> Objects<V> {
    let mut objects = Objects::default();
    objects.insert(object);
    objects
}

fn deployment(bootstrap: &str, rest: Value) -> MachineGroup {
    group(GroupKind::Deployment, "web-md", bootstrap, rest)
}

fn is_empty(plan: &ClusterApiPlan) -> bool {
    [&plan.secrets, &plan.create, &plan.patch, &plan.prune[0], &plan.prune[1]]
        .iter()
        .all(|operations| operations.is_empty())
}

#[test]
fn nothing_is_written_once_the_templates_are_stored() {
    let mut cluster = Cluster::new(json!({})).with(deployment("base", json!({})));
    assert_eq!(cluster.plan().create.len(), 1, "1.34 and 1.35 have one template");
    cluster.store_templates();
    assert!(is_empty(&cluster.plan()));
    assert_eq!(cluster.group().reference, Reference::Manual);
    let template = cluster.group().template.unwrap();
    cluster.add(deployment(&template, json!({})));
    assert!(is_empty(&cluster.plan()));
    assert_eq!(cluster.group().reference, Reference::UpToDate);
}

#[test]
fn a_reference_is_switched_if_rotation_owner_pauses_and_topology_allow_it() {
    let annotated = |more: Value| {
        let mut rest = json!({"metadata": {"annotations": {"winpool.dev/manage-bootstrap": "true"}}});
        json_patch::merge(&mut rest, &more);
        rest
    };
    let table = [
        ("Manual", annotated(json!({})), Reference::Manual),
        ("Automatic", json!({}), Reference::NotAllowed),
        ("Automatic", annotated(json!({})), Reference::Switching),
        ("Automatic", annotated(json!({"spec": {"paused": true}})), Reference::Paused),
        (
            "Automatic",
            annotated(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": "false"}}})),
            Reference::Paused,
        ),
        (
            "Automatic",
            annotated(json!({"metadata": {"labels": {"topology.cluster.x-k8s.io/owned": ""}}})),
            Reference::TopologyManaged,
        ),
    ];
    for (rotation, rest, expected) in table {
        let mut cluster = Cluster::new(json!({"rotation": rotation})).with(deployment("base", rest.clone()));
        let group = cluster.group();
        assert_eq!((&group.reference, group.patch.is_some()), (&expected, expected == Reference::Switching), "{rest}");
    }
}

#[test]
fn machines_are_replaced_only_in_maintenance_windows() {
    let deployment = |replicas: u32| {
        let annotations = json!({"winpool.dev/manage-bootstrap": "true"});
        deployment("base", json!({"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}))
    };
    let begins: Timestamp = "2026-06-06T20:00:00Z".parse().unwrap();
    let awaits = Reference::AwaitsWindow(begins);
    let table = [
        (3, "2026-06-06T19:00:00Z", awaits),
        (0, "2026-06-06T19:00:00Z", Reference::Switching),
        (3, "2026-06-06T20:00:00Z", Reference::Switching),
    ];
    for (replicas, now, expected) in table {
        let mut cluster = Cluster::new(json!({"rotation": "Automatic"})).with(deployment(replicas));
        cluster.snapshot.now = now.parse().unwrap();
        cluster.edit_pool(|pool| {
            let window = json!({"schedule": "0 20 * * SAT", "duration": "1h", "timeZone": "UTC"});
            let delivery = json!({"method": "ClusterAPI", "maintenanceWindows": [window]});
            let delivery = serde_json::from_value(delivery).unwrap();
            pool.spec.as_mut().unwrap().maintenance = MaintenanceWindows::parse(&delivery, &mut Vec::new());
        });
        let group = cluster.group();
        assert_eq!((&group.reference, group.patch.is_some()), (&expected, expected == Reference::Switching), "{now}");
        assert_eq!(cluster.plan().awaited_window(), (expected != Reference::Switching).then_some(begins));
        assert_eq!(cluster.plan().create.len(), 1, "the template does not wait");
    }
}

/// A MachineDeployment that winpool may switch, after another version of winpool let it refer to `web-0123456789`, a template
/// of 100 pods, and its machines.
fn delivered_before() -> Cluster {
    let managed = json!({"metadata": {"annotations": {"winpool.dev/manage-bootstrap": "true"}}});
    let mut cluster = Cluster::new(json!({"rotation": "Automatic"})).with(deployment("base", managed));
    let mut before = created(cluster.plan().create.remove(0));
    before["metadata"]["name"] = json!("web-0123456789");
    let file = &mut before["spec"]["template"]["spec"]["files"][0]["content"];
    *file = json!(file.as_str().unwrap().replace("maxPods: 110", "maxPods: 100"));
    cluster.store(before);
    let switch = body_of(cluster.plan().patch.remove(0));
    let record = switch["metadata"]["annotations"]["winpool.dev/rendered-from"].as_str().unwrap().to_owned();
    let (_, digest) = record.split_once(' ').unwrap();
    cluster.refer_to("web-0123456789", &format!("web-0123456789 {digest}"));
    cluster.store_templates();
    cluster
}

impl Cluster {
    fn refer_to(&mut self, template: &str, record: &str) {
        let annotations = json!({"winpool.dev/manage-bootstrap": "true", "winpool.dev/rendered-from": record});
        self.add(deployment(template, json!({"metadata": {"annotations": annotations}})));
    }

    fn edit_pool(&mut self, change: impl FnOnce(&mut Pool)) {
        let mut pool = self.snapshot.pools.get("web").unwrap().as_ref().clone();
        change(&mut pool);
        self.snapshot.pools.insert(pool);
    }
}

#[test]
fn a_group_keeps_its_template_if_only_winpool_renders_another_one() {
    let mut cluster = delivered_before();
    assert!(is_empty(&cluster.plan()), "{:?}", cluster.plan());
    let group = cluster.group();
    assert_eq!((&group.reference, group.template.as_deref()), (&Reference::UpToDate, Ok("web-0123456789")));
    let held = group.held.unwrap();
    assert_eq!(held.differences.len(), 1, "{:?}", held.differences);
    assert!(held.differences[0].ends_with("content.maxPods: 100 → 110"), "{:?}", held.differences);

    let rules = |cluster: &mut Cluster, change: fn(&mut ClusterApiRules)| {
        cluster.edit_pool(|pool| change(pool.spec.as_mut().unwrap().cluster_api.as_mut().unwrap()));
    };
    let new = held.to.clone();
    let table: [(&str, bool, &dyn Fn(&mut Cluster)); 8] = [
        ("nothing", false, &|_| {}),
        ("consent", true, &|cluster| {
            let digest = new.strip_prefix("web-").unwrap();
            let allowed = [("winpool.dev/allow-rendering".to_owned(), digest.to_owned())].into();
            cluster.edit_pool(|pool| pool.consents = Consents::read(&allowed));
        }),
        ("a higher attempt", true, &|cluster| rules(cluster, |rules| rules.attempt = 2)),
        ("another profile", true, &|cluster| {
            let profile = cluster.snapshot.profiles.get("standard").unwrap().as_ref().clone();
            cluster.snapshot.profiles.insert(ProfileView { generation: 2, ..profile });
        }),
        ("another version of Kubernetes", true, &|cluster| {
            let mut group = cluster.objects.deployments.get("default/web-md").unwrap().as_ref().clone();
            group.version = "v1.36.0".to_owned();
            cluster.add(group);
        }),
        ("another template of the platform team", true, &|cluster| {
            let base = json!({"kind": "KubeadmConfigTemplate", "metadata": {"name": "base"}, "spec": {"template": {"spec": {
                "joinConfiguration": {"nodeRegistration": {}},
            }}}});
            cluster.store(base);
            rules(cluster, |rules| rules.template_from = Some("base".into()));
        }),
        ("a reference that winpool did not set", true, &|cluster| cluster.refer_to("web-0123456789", "")),
        ("a reference that somebody else has changed", true, &|cluster| {
            let record =
                cluster.objects.deployments.get("default/web-md").unwrap().annotations["winpool.dev/rendered-from"]
                    .clone();
            cluster.refer_to("other", &record);
        }),
    ];
    for (case, expected, change) in table {
        let mut cluster = delivered_before();
        change(&mut cluster);
        let group = cluster.group();
        assert_eq!(group.reference == Reference::Switching, expected, "{case}: {group:?}");
        assert_eq!(group.held.is_none(), expected, "{case}");
    }
}

#[test]
fn the_record_of_a_template_follows_what_it_is_rendered_from_and_is_removed_with_the_pool() {
    let mut cluster = delivered_before();
    let new = cluster.group().held.unwrap().to;
    cluster.refer_to(&new, "web-0123456789 0123456789");
    let write = cluster.plan().patch.remove(0);
    assert_eq!(write.change, None, "people need not know");
    let record = body_of(write)["metadata"]["annotations"]["winpool.dev/rendered-from"].as_str().unwrap().to_owned();
    assert!(record.starts_with(&format!("{new} ")), "{record}");
    cluster.refer_to(&new, &record);
    assert!(cluster.plan().patch.is_empty());
    let [first, _] = removed(&cluster.snapshot, cluster.snapshot.pools.get("web").unwrap());
    let removal = json!({"metadata": {"annotations": {"winpool.dev/rendered-from": null}}});
    assert_eq!(first.into_iter().map(body_of).collect::<Vec<_>>(), [removal]);
}

#[test]
fn a_topology_whose_template_has_the_files_is_up_to_date() {
    let rest = json!({"metadata": {"labels": {"topology.cluster.x-k8s.io/owned": ""}}});
    let mut cluster = Cluster::new(json!({})).with(deployment("prod-web-x7k2p", rest));
    cluster.store(json!({"kind": "KubeadmConfigTemplate", "metadata": {"name": "prod-web-x7k2p"}, "spec": {"template": {"spec": {}}}}));
    assert_eq!(cluster.group().reference, Reference::TopologyManaged);
    let mut body = created(cluster.plan().create.remove(0));
    body["metadata"] = json!({"name": "prod-web-x7k2p"});
    body["spec"]["template"]["spec"]["files"].as_array_mut().unwrap().push(json!({"path": "C:/other", "content": "x"}));
    cluster.store(body);
    assert_eq!(cluster.group().reference, Reference::UpToDate);
}

#[test]
fn another_bootstrap_provider_is_a_problem_and_is_not_overwritten() {
    let reference = |kind: Value| {
        json!({
            "metadata": {"annotations": {"winpool.dev/manage-bootstrap": "true"}},
            "spec": {"template": {"spec": {"bootstrap": {"configRef": kind}}}},
        })
    };
    for (configured, wrong) in [
        (
            json!({"kind": "RKE2ConfigTemplate"}),
            "the reference is to RKE2ConfigTemplate, and winpool makes KubeadmConfigTemplate",
        ),
        (Value::Null, "there is no reference, so its machines are not made by kubeadm"),
    ] {
        let mut cluster =
            Cluster::new(json!({"rotation": "Automatic"})).with(deployment("base", reference(configured)));
        let group = cluster.group();
        assert_eq!(group.template.unwrap_err()[0].wrong, wrong);
        assert_eq!(group.patch, None);
    }
}

#[test]
fn each_machine_pool_has_its_own_kubeadm_config_which_cluster_api_changes() {
    let mut cluster =
        Cluster::new(json!({"machineDeployments": null, "machinePools": {"matchLabels": {"winpool": "web"}}}))
            .with(group(GroupKind::Pool, "a", "base", json!({})))
            .with(group(GroupKind::Pool, "b", "base", json!({})));
    let Some(ClusterApiState::Installed(Some(selected))) = cluster.plan().state else { panic!() };
    let names: Vec<_> = selected.groups.iter().map(|group| group.template.clone().unwrap()).collect();
    assert_ne!(names[0], names[1]);
    // Cluster API writes the discovery of the cluster into it.
    for operation in cluster.plan().create {
        let mut body = created(operation);
        body["metadata"]["generation"] = json!(2);
        body["spec"]["joinConfiguration"]["discovery"] = json!({"bootstrapToken": {"token": "x"}});
        cluster.store(body);
    }
    assert!(is_empty(&cluster.plan()));
}

#[test]
fn a_changed_template_is_a_problem() {
    let mut cluster = Cluster::new(json!({})).with(deployment("base", json!({})));
    let mut body = created(cluster.plan().create.remove(0));
    body["metadata"]["generation"] = json!(2);
    cluster.store(body);
    assert_eq!(cluster.group().template.unwrap_err()[0].wrong, "the object was changed after winpool created it");
}

#[test]
fn a_template_with_other_files_or_commands_is_a_problem() {
    let base = || Cluster::new(json!({})).with(deployment("base", json!({})));
    for field in ["files", "preKubeadmCommands", "postKubeadmCommands", "bootCommands"] {
        let mut cluster = base();
        let mut body = created(cluster.plan().create.remove(0));
        body["spec"]["template"]["spec"][field] = json!(["format c:"]);
        cluster.store(body);
        let group = cluster.group();
        assert_eq!(group.template.unwrap_err()[0].wrong, "the object exists with other files or commands", "{field}");
        assert_eq!(group.patch, None, "{field}");
    }
}

#[test]
fn objects_of_others_with_the_label_or_annotation_of_the_pool_cause_no_write() {
    let mut cluster = Cluster::new(json!({})).with(deployment("base", json!({})));
    cluster.store_templates();
    for (namespace, name) in
        [("tenant", "web-0123456789"), ("default", "web-of-others"), ("default", "other-0123456789")]
    {
        for second in 0..9 {
            let name =
                if name.starts_with("web-0") { format!("web-012345678{second}") } else { format!("{name}{second}") };
            cluster.store(json!({
                "kind": "KubeadmConfigTemplate",
                "metadata": {"name": name, "namespace": namespace, "labels": {"winpool.dev/pool": "web"}},
                "spec": {"template": {"spec": {"files": [
                    {"path": "C:/x", "contentFrom": {"secret": {"name": format!("{name}-files"), "key": "x"}}},
                ]}}},
            }));
        }
    }
    let written = json!({"pool": "web", "values": {}}).to_string();
    let annotated = json!({
        "metadata": {"namespace": "tenant", "labels": {"winpool": "none"}, "annotations": {"winpool.dev/autoscaling": written}},
    });
    cluster.add(group(GroupKind::Deployment, "theirs", "base", annotated));
    assert!(is_empty(&cluster.plan()), "{:#?}", cluster.plan());
}

#[test]
fn of_equally_many_machines_the_older_release_line_of_containerd_counts() {
    let name = |versions: &[&str]| {
        let mut cluster = Cluster::new(json!({"containerdVersion": null})).with(deployment("base", json!({})));
        let cni = json!({"containerd": {"cni": {"binDir": "C:/opt/cni/bin", "confDir": "C:/etc/cni/net.d"}}});
        let profile = ProfileView::from_object(object("WindowsRuntimeProfile", "standard", json!({"spec": cni})));
        cluster.snapshot.profiles = of(profile);
        for (index, version) in versions.iter().enumerate() {
            let machine = json!({
                "metadata": {"labels": {"cluster.x-k8s.io/deployment-name": "web-md"}},
                "status": {"nodeInfo": {"containerRuntimeVersion": format!("containerd://{version}")}},
            });
            let machine = MachineView::from_object(&object("Machine", &format!("m-{index}"), machine));
            cluster.objects.machines.insert(machine);
        }
        cluster.group().template.unwrap()
    };
    let (older, newer) = (name(&["1.7.20"]), name(&["2.2.0"]));
    assert_ne!(older, newer);
    assert_eq!(name(&["1.7.20", "2.2.0"]), older);
    assert_eq!(name(&["1.7.20", "1.7.20", "2.2.0"]), older);
    assert_eq!(name(&["1.7.20", "2.2.0", "2.2.0"]), newer);
}

#[test]
fn unused_templates_are_deleted_except_the_newest_three_and_those_of_machines() {
    let mut cluster = Cluster::new(json!({})).with(deployment("web-0000000001", json!({})));
    let stored = |name: &str, created: &str| {
        json!({
            "kind": "KubeadmConfigTemplate",
            "metadata": {"name": name, "creationTimestamp": created, "labels": {"winpool.dev/pool": "web"}},
        })
    };
    for digit in 1..=6 {
        cluster.store(stored(&format!("web-000000000{digit}"), &format!("2026-01-01T00:00:0{digit}Z")));
    }
    let set = json!({"spec": {"template": {"spec": {"bootstrap": {"configRef": {"name": "web-0000000002"}}}}}});
    cluster.objects.sets.insert(MachineSetView::from_object(&object("MachineSet", "set", set)));
    let deleted: Vec<_> = cluster.plan().prune.iter().flatten().map(|write| write.object.key().into_owned()).collect();
    assert_eq!(deleted, ["default/web-0000000003"]);
    // A group whose template is unknown may need any of them.
    cluster.add(deployment("web-0000000001", json!({"spec": {"template": {"spec": {"version": "latest"}}}})));
    assert_eq!(cluster.plan().prune, [vec![], vec![]]);
}

#[test]
fn an_annotation_that_another_client_changed_is_left_alone() {
    let autoscaling = json!({"autoscaling": {"cpu": "4", "memory": "16Gi"}});
    let mut cluster = Cluster::new(autoscaling).with(deployment("base", json!({})));
    let body = body_of(cluster.group().patch.unwrap());
    let written = body["metadata"]["annotations"].clone();
    cluster.add(deployment("base", json!({"metadata": {"annotations": written}})));
    assert_eq!(cluster.group().patch, None);

    let cpu = "capacity.cluster-autoscaler.kubernetes.io/cpu";
    let mut changed = written;
    changed[cpu] = json!("8");
    cluster.add(deployment("base", json!({"metadata": {"annotations": changed}})));
    let group = cluster.group();
    assert_eq!(group.foreign_annotations, [cpu]);
    // Only the record changes, once.
    let body = body_of(group.patch.unwrap());
    let annotations = body["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations.keys().collect::<Vec<_>>(), ["winpool.dev/autoscaling"]);
    json_patch::merge(&mut changed, &body["metadata"]["annotations"]);
    cluster.add(deployment("base", json!({"metadata": {"annotations": changed}})));
    assert_eq!(cluster.group().patch, None);
}

#[test]
fn what_the_provider_reports_is_not_annotated() {
    let infrastructure = json!({"spec": {"template": {"spec": {"infrastructureRef": {
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "TestMachineTemplate", "name": "windows",
    }}}}});
    let autoscaling = json!({"autoscaling": {"cpu": "4", "memory": "16Gi", "ephemeralDisk": "120Gi"}});
    let mut cluster = Cluster::new(autoscaling).with(deployment("base", infrastructure));
    assert_eq!(cluster.group().patch, None, "the report is not read yet");
    let reference = cluster.objects.deployments.get("default/web-md").unwrap().infrastructure.clone().unwrap();
    for (capacity, expected) in [
        (None, ["cpu", "ephemeral-disk", "labels", "maxPods", "memory", "taints"].as_slice()),
        (Some(["cpu", "memory"].as_slice()), &["ephemeral-disk", "labels", "maxPods", "taints"]),
    ] {
        let capacity = capacity.map(|resources| Infrastructure {
            capacity: resources.iter().map(|resource| ((*resource).to_owned(), "8Gi".to_owned())).collect(),
        });
        cluster.objects.infrastructure = std::sync::Arc::new([(reference.clone(), capacity)].into());
        let body = body_of(cluster.group().patch.unwrap());
        let annotations = body["metadata"]["annotations"].as_object().unwrap();
        let keys = annotations.keys().filter_map(|key| key.strip_prefix("capacity.cluster-autoscaler.kubernetes.io/"));
        assert_eq!(keys.collect::<Vec<_>>(), expected);
    }
}

/// The MachineDeployment with a reference to a template of a provider, and what the provider reports.
fn reported(autoscaling: Value, capacity: &[(&str, &str)]) -> Cluster {
    let infrastructure = json!({"spec": {"template": {"spec": {"infrastructureRef": {
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "TestMachineTemplate", "name": "windows",
    }}}}});
    let mut cluster = Cluster::new(autoscaling).with(deployment("base", infrastructure));
    let reference = cluster.objects.deployments.get("default/web-md").unwrap().infrastructure.clone().unwrap();
    let capacity = capacity.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect();
    cluster.objects.infrastructure = std::sync::Arc::new([(reference, Some(Infrastructure { capacity }))].into());
    cluster
}

#[test]
fn annotations_describe_what_a_new_node_has_for_pods() {
    // The profile reserves 2Gi of memory, and hard evictions begin at 500Mi of memory and 10 % of the disk.
    let autoscaling = json!({"autoscaling": {"cpu": "4", "memory": "16Gi", "ephemeralDisk": "120Gi"}});
    let mut cluster = Cluster::new(autoscaling).with(deployment("base", json!({})));
    let body = body_of(cluster.group().patch.unwrap());
    let written = |name: &str| {
        body["metadata"]["annotations"][format!("capacity.cluster-autoscaler.kubernetes.io/{name}")].clone()
    };
    let found = ["cpu", "memory", "ephemeral-disk", "maxPods"].map(written);
    assert_eq!(found, [json!("4"), json!("13836Mi"), json!("115964116800"), json!("110")]);
}

#[test]
fn what_a_provider_overstates_is_reported_unless_an_annotation_describes_it() {
    let autoscaling = json!({"autoscaling": {"cpu": "4", "memory": "16Gi"}});
    let mut cluster = reported(autoscaling.clone(), &[("cpu", "4"), ("memory", "16Gi")]);
    let texts =
        |cluster: &mut Cluster| -> Vec<String> { cluster.group().overstated.iter().map(ToString::to_string).collect() };
    assert_eq!(texts(&mut cluster), ["memory 16Gi instead of 13836Mi"], "no cpu is reserved");

    let mut group = cluster.objects.deployments.get("default/web-md").unwrap().as_ref().clone();
    group.annotations.insert("capacity.cluster-autoscaler.kubernetes.io/memory".to_owned(), "13836Mi".to_owned());
    cluster.add(group);
    assert_eq!(texts(&mut cluster), [""; 0]);
    assert_eq!(
        texts(&mut reported(json!({}), &[("memory", "16Gi")])),
        [""; 0],
        "the pool does not describe its machines"
    );
    assert_eq!(texts(&mut reported(autoscaling, &[("memory", "much")])), [""; 0]);
}

/// A reference to an object of another bootstrap provider.
fn of_rke2(name: &str) -> Value {
    let reference = json!({"kind": "RKE2ConfigTemplate", "name": name});
    json!({"spec": {"template": {"spec": {"bootstrap": {"configRef": reference}}}}})
}

#[test]
fn no_template_is_created_for_another_bootstrap_provider_and_what_was_created_is_removed() {
    let mut cluster = Cluster::new(json!({})).with(deployment("base", of_rke2("base")));
    let plan = cluster.plan();
    assert_eq!((plan.create.len(), plan.secrets.len()), (0, 0), "not for its next minor either");
    assert!(cluster.group().template.is_err() && cluster.group().next.is_none());

    // The group referred to kubeadm's provider before.
    let mut cluster = Cluster::new(json!({})).with(deployment("base", json!({})));
    cluster.store_templates();
    assert_eq!(cluster.objects.templates.len(), 1, "for this minor and the next");
    cluster.add(deployment("base", of_rke2("base")));
    assert_eq!(cluster.plan().prune.map(|step| step.len()), [0, 1]);
}

#[test]
fn a_management_cluster_has_no_class_of_machines_whose_nodes_are_elsewhere() {
    use crate::pool::{RuntimeClassView, classes};
    let mut cluster = Cluster::new(json!({})).with(deployment("base", json!({})));
    let writes = |cluster: &mut Cluster| -> Vec<Write> {
        cluster.plan();
        let pool = cluster.snapshot.pools.get("web").unwrap();
        let plans = classes::plan(&cluster.snapshot, pool, pool.spec.as_ref().unwrap(), &[]);
        plans.into_iter().flat_map(|plan| plan.extend.into_iter().chain(plan.apply)).collect()
    };
    let created = writes(&mut cluster).remove(0);
    assert_eq!(created.action, Action::ApplyRuntimeClass, "no machine has a node yet");
    let machine = json!({
        "metadata": {"labels": {"cluster.x-k8s.io/deployment-name": "web-md"}}, "status": {"nodeRef": {"name": "far-1"}},
    });
    cluster.objects.machines.insert(MachineView::from_object(&object("Machine", "m-1", machine)));
    assert_eq!(writes(&mut cluster), []);

    let class: k8s_openapi::api::node::v1::RuntimeClass = serde_json::from_value(body_of(created)).unwrap();
    cluster.snapshot.runtime_classes = of(RuntimeClassView::from(class));
    assert_eq!(writes(&mut cluster), [], "pods are not known");
    cluster.snapshot.pods = Some(Objects::default());
    let actions: Vec<Action> = writes(&mut cluster).iter().map(|write| write.action).collect();
    assert_eq!(actions, [Action::DeleteRuntimeClass]);
}

#[test]
fn a_new_node_matches_the_pool_by_labels_of_its_kubelet_or_of_its_machine() {
    let machine = |labels: Value| json!({"spec": {"template": {"metadata": {"labels": labels}}}});
    let table = [
        (json!({"matchLabels": {"agentpool": "web"}}), json!({}), vec![]),
        (json!({"matchExpressions": [{"key": "agentpool", "operator": "In", "values": ["web"]}]}), json!({}), vec![]),
        (
            json!({"matchExpressions": [{"key": "agentpool", "operator": "In", "values": ["web", "db"]}]}),
            json!({}),
            vec!["agentpool in (web,db)"],
        ),
        (
            json!({"matchLabels": {"node-restriction.kubernetes.io/pool": "web"}}),
            json!({}),
            vec!["node-restriction.kubernetes.io/pool=web"],
        ),
        (
            json!({"matchLabels": {"node-restriction.kubernetes.io/pool": "web"}}),
            machine(json!({"node-restriction.kubernetes.io/pool": "web"})),
            vec![],
        ),
        (json!({"matchLabels": {"node.kubernetes.io/windows-build": "10.0.20348"}}), json!({}), vec![]),
        (json!({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}), json!({}), vec![]),
    ];
    for (selector, rest, missing) in table {
        let mut cluster = Cluster::new(json!({})).with(deployment("base", rest));
        let mut pool = cluster.snapshot.pools.get("web").unwrap().as_ref().clone();
        let parsed = serde_json::from_value(selector.clone()).unwrap();
        pool.spec.as_mut().unwrap().members = crate::pool::Members::Selector(parsed);
        cluster.snapshot.pools.insert(pool);
        assert_eq!(cluster.group().missing_labels, missing, "{selector}");
    }
}

#[test]
fn a_cleanup_waits_until_cluster_api_is_read() {
    let mut cluster = Cluster::new(json!({})).with(deployment("base", json!({})));
    let pool = cluster.snapshot.pools.get("web").unwrap().clone();
    assert!(is_unknown(&cluster.snapshot, &pool));
    cluster.store_templates();
    cluster.plan();
    assert!(!is_unknown(&cluster.snapshot, &pool));
    assert_eq!(removed(&cluster.snapshot, &pool).map(|step| step.len()), [0, 1], "the template that nothing refers to");
}
