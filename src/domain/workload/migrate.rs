//! What becomes of a pool's workloads if its nodes move to another build, or its pods to another pool.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{
    Controller, Ground, Ledger, Pod, System, Template, WorkloadName,
    ground::{Class, Kind, PoolGround},
    judge::{Lookups, image_story},
    placement::{Effective, Obstacle},
};
use crate::{
    api::names::label,
    domain::{
        conditions::counted,
        image::{Known, Reference, Verdict, judge, tag},
        node::WindowsNode,
        operation::Operation,
        pool::{
            Pool, RuntimeClassView, Snapshot, Spec,
            plan::{Plan, Planner},
        },
        quantity::Quantity,
    },
    facts::{Build, OsVersion},
};

/// The taint of a cordoned node: kubernetes/website, "Taints and Tolerations".
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// Where a pool's workloads are to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The pool's nodes get this Windows.
    Version {
        /// As `spec.windowsVersion` has it.
        name: String,
        /// The build that it means.
        build: Build,
    },
    /// The pods go to the nodes of this pool.
    Pool(String),
}

/// What becomes of a workload, worst first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// An image of it does not run there.
    NoImage(String),
    /// Selector, RuntimeClass or taints keep it from there.
    Pinned(String),
    /// A DaemonSet whose controller would make no pods there.
    WouldNotFollow(String),
    /// Of some image nobody knows.
    Unknown(String),
    /// It runs.
    Runs,
}

/// A workload, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The workload.
    pub workload: Arc<WorkloadName>,
    /// How many pods it has in the pool.
    pub pods: usize,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// Whether a pool has room for what comes, by sums over its nodes: whether each pod finds a node is for the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// What the nodes offer and nobody has asked for: memory in bytes, and pods.
    pub free: (i64, i64),
    /// What comes: memory in bytes, and pods.
    pub comes: (i64, i64),
}

/// What a migration would meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// The workloads, worst first.
    pub moves: Vec<Move>,
    /// The room in the other pool; `None` when the pool's own nodes change.
    pub room: Option<Room>,
}

impl Room {
    /// Whether it is enough.
    pub fn is_enough(&self) -> bool {
        self.comes.0 <= self.free.0 && self.comes.1 <= self.free.1
    }

    /// What comes and what is free, in words.
    pub fn words(&self) -> String {
        let pods = |count: i64| counted(usize::try_from(count).unwrap_or_default(), "pod");
        let bytes = |amount: i64| Quantity::of_bytes(amount.max(0)).to_string();
        format!(
            "{} with requests for {} of memory would come, there is room for {} and {}",
            pods(self.comes.1),
            bytes(self.comes.0),
            pods(self.free.1),
            bytes(self.free.0)
        )
    }
}

/// The world as a migration is planned in it.
pub struct World<'a> {
    /// Pools, nodes and classes as they are.
    pub snapshot: &'a Snapshot,
    /// All pods.
    pub pods: Vec<Arc<Pod>>,
    /// What makes them.
    pub controllers: Vec<Arc<Controller>>,
}

impl World<'_> {
    /// The pods of a pool by workload: those on it, and those that wait for it.
    fn of_pool(&self, pool: &str) -> BTreeMap<Arc<WorkloadName>, Vec<Arc<Pod>>> {
        let mut ledger = Ledger::default();
        ledger.stand_on(Ground::of(self.snapshot));
        let mut by_workload: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for pod in &self.pods {
            ledger.pod(&pod.key, Some(pod.clone()));
            if ledger.pool_of(&pod.key) == Some(pool) {
                by_workload.entry(pod.workload.clone()).or_default().push(pod.clone());
            }
        }
        by_workload
    }

    /// What makes the pods of a workload, if that is known.
    fn templates(&self) -> HashMap<&WorkloadName, &Template> {
        let controllers = self.controllers.iter();
        controllers.map(|controller| (controller.workload.as_ref(), controller.template.as_ref())).collect()
    }

    /// The images that the pods of a pool would have after a restart: what a registry may be asked for.
    pub fn images(&self, pool: &str) -> BTreeSet<String> {
        let (templates, pods) = (self.templates(), self.of_pool(pool));
        let next = pods.iter().map(|(workload, pods)| next(&templates, workload, pods));
        next.flat_map(|template| &template.containers).map(|container| container.image.clone()).collect()
    }

    /// What becomes of the workloads of a pool; `None` if there is no such pool, or it has mistakes.
    pub fn migrate(&self, pool: &str, target: &Target, lookups: &dyn Lookups) -> Option<Migration> {
        let after = after(self.snapshot, pool, target)?;
        let ground = Ground::of(&after);
        let there = match target {
            Target::Version { .. } => pool,
            Target::Pool(other) => other,
        };
        let destination = ground.pool(there)?;
        let templates = self.templates();
        let planner = Planner::new(&after);
        let hosts: HashSet<&str> = planner.members(there).filter_map(hostname).collect();
        let pods = self.of_pool(pool);
        let mut moves: Vec<Move> = pods
            .iter()
            .map(|(workload, pods)| {
                let template = templates.get(workload.as_ref()).copied();
                let host = selected_host(next(&templates, workload, pods)).filter(|host| !hosts.contains(host));
                let outcome = match host {
                    Some(host) => Outcome::Pinned(format!("it selects the node {host}, which is not there")),
                    None => outcome(&ground, destination, workload, template, &pods[0], lookups),
                };
                Move { workload: workload.clone(), pods: pods.len(), outcome }
            })
            .collect();
        moves.sort_by(|a, b| (&a.outcome, &a.workload).cmp(&(&b.outcome, &b.workload)));
        let room = match target {
            Target::Version { .. } => None,
            Target::Pool(other) => {
                // A DaemonSet has its pods by the node, whatever else comes.
                let come = pods.iter().filter(|(workload, _)| workload.kind != "DaemonSet");
                Some(self.room(other, come.flat_map(|(_, pods)| pods)))
            }
        };
        Some(Migration { moves, room })
    }

    fn room<'p>(&self, pool: &str, coming: impl Iterator<Item = &'p Arc<Pod>>) -> Room {
        let planner = Planner::new(self.snapshot);
        let open = planner.members(pool).filter(|node| takes_pods(node));
        let nodes: HashMap<&str, &WindowsNode> = open.map(|node| (node.name.as_str(), node)).collect();
        let offered = nodes.values().fold((0, 0), |sum, node| {
            let allocatable = &node.allocatable;
            (sum.0 + allocatable.memory.unwrap_or_default(), sum.1 + allocatable.pods.unwrap_or_default())
        });
        let there = |pod: &&Arc<Pod>| !pod.finished && pod.node.as_deref().is_some_and(|node| nodes.contains_key(node));
        let taken = self.pods.iter().filter(there).fold((0, 0), add);
        Room { free: (offered.0 - taken.0, offered.1 - taken.1), comes: coming.fold((0, 0), add) }
    }
}

/// The template that a workload's next pods are made of; of one that nobody makes anew, its own.
fn next<'t>(
    templates: &HashMap<&WorkloadName, &'t Template>,
    workload: &WorkloadName,
    pods: &'t [Arc<Pod>],
) -> &'t Template {
    templates.get(workload).copied().unwrap_or(&pods[0].template)
}

/// Whether a node takes pods at the moment: it is ready and not cordoned.
fn takes_pods(node: &WindowsNode) -> bool {
    node.ready && node.taints.iter().all(|taint| taint.key != CORDONED)
}

/// What a node calls its host.
fn hostname(node: &WindowsNode) -> Option<&str> {
    node.labels.get(label::HOSTNAME).map(String::as_str)
}

/// The host that a template selects.
fn selected_host(template: &Template) -> Option<&str> {
    template.scheduling.node_selector.get(label::HOSTNAME).map(String::as_str)
}

/// What a pod asks for on top of a sum: memory in bytes, and itself.
fn add(sum: (i64, i64), pod: &Arc<Pod>) -> (i64, i64) {
    (sum.0 + pod.template.memory_request(), sum.1 + 1)
}

/// The world after the migration, as the operator would make it.
fn after(snapshot: &Snapshot, pool: &str, target: &Target) -> Option<Snapshot> {
    let moving = snapshot.pools.get(pool)?;
    let spec = moving.spec.as_ref().ok()?;
    let planner = Planner::new(snapshot);
    let members: Vec<String> = planner.members(pool).map(|node| node.name.clone()).collect();
    let mut after = snapshot.clone();
    let Target::Version { name, build } = target else {
        after.nodes.retain(|node, _| !members.contains(node));
        return Some(after);
    };
    let spec =
        Spec { windows_version: name.clone(), build: *build, runtime_classes: classes(spec, name), ..spec.clone() };
    after.pools.insert(pool.to_owned(), Arc::new(Pool { spec: Ok(spec), ..moving.as_ref().clone() }));
    for node in members {
        let Some(node) = after.nodes.get_mut(&node) else { continue };
        let mut moved = node.as_ref().clone();
        moved.os = Ok(OsVersion { build: *build, revision: None });
        moved.labels.insert(label::WINDOWS_BUILD.to_owned(), build.to_string());
        *node = Arc::new(moved);
    }
    let plan = Planner::new(&after).plan(pool)?;
    after.runtime_classes.extend(planned_classes(plan));
    Some(after)
}

/// The RuntimeClasses that a plan makes or changes.
fn planned_classes(plan: Plan) -> impl Iterator<Item = (String, Arc<RuntimeClassView>)> {
    plan.steps.into_iter().flatten().chain(plan.withheld).filter_map(|operation| {
        let Operation::ApplyRuntimeClass { name, body, .. } = operation else { return None };
        let class = serde_json::from_value::<k8s_openapi::api::node::v1::RuntimeClass>(body).ok()?;
        Some((name, Arc::new(RuntimeClassView::from(class))))
    })
}

/// The RuntimeClasses of the pool after a change of its version: the one that is made by default has the version in its
/// name.
fn classes(spec: &Spec, version: &str) -> Vec<crate::domain::pool::RuntimeClass> {
    let default = format!("windows-{}", spec.windows_version.to_lowercase());
    let mut classes = spec.runtime_classes.clone();
    if let [only] = classes.as_mut_slice()
        && only.name == default
    {
        only.name = format!("windows-{}", version.to_lowercase());
    }
    classes
}

fn outcome(
    ground: &Ground,
    there: &PoolGround,
    workload: &WorkloadName,
    template: Option<&Template>,
    pod: &Pod,
    lookups: &dyn Lookups,
) -> Outcome {
    let effective = match template {
        Some(template) => Effective::of(template, ground),
        None => Effective::of_pod(&pod.template, ground),
    };
    let effective = match effective {
        Ok(effective) => effective,
        Err(obstacle) => return Outcome::Pinned(obstacle.to_string()),
    };
    let template = template.unwrap_or(&pod.template);
    if effective.system() == Some(System::Linux) {
        return Outcome::Pinned("it is for Linux".to_owned());
    }
    if workload.kind == "DaemonSet" && !takes(&Effective::alone(template), ground, there) {
        let story = "the DaemonSet controller makes no pods there: its template selects other nodes, or does not tolerate their taints";
        return Outcome::WouldNotFollow(story.to_owned());
    }
    if !takes(&effective, ground, there) {
        return Outcome::Pinned(in_the_way(&effective, ground, there));
    }
    images(ground, there, template, lookups)
}

fn takes(effective: &Effective, ground: &Ground, there: &PoolGround) -> bool {
    effective.places(ground).is_ok_and(|places| places.iter().any(|(pool, _)| pool.name == there.name))
}

/// What keeps a pod from a pool.
fn in_the_way(effective: &Effective, ground: &Ground, there: &PoolGround) -> String {
    let alone = Ground { pools: vec![there.clone()], ..ground.clone() };
    let Err(obstacle) = effective.places(&alone) else { return "another pool takes it first".to_owned() };
    let leads_elsewhere = |class: &Class| there.kinds.iter().all(|kind| kind.lacks(&class.scheduling));
    match (effective.class.filter(|(_, class)| leads_elsewhere(class)), obstacle) {
        (Some((class, _)), _) => {
            let others = there.classes.iter().map(|(name, _)| name.as_str()).filter(|name| *name != class);
            match others.collect::<Vec<_>>().join(", ") {
                others if others.is_empty() => {
                    format!("RuntimeClass {class} leads elsewhere: remove it, and select the nodes")
                }
                others => format!("RuntimeClass {class} leads elsewhere: use {others}"),
            }
        }
        (None, Obstacle::Selector { missed, .. }) => format!("no node there has {missed}: correct the selector"),
        (None, obstacle) => obstacle.to_string(),
    }
}

/// The worst of the images on the kinds of nodes there. What runs on the nodes of today proves nothing for those.
fn images(ground: &Ground, there: &PoolGround, template: &Template, lookups: &dyn Lookups) -> Outcome {
    let isolation = ground.isolation(template.runtime_class.as_deref());
    let judged = template.containers.iter().flat_map(|container| there.kinds.iter().map(move |kind| (container, kind)));
    let outcome = |(container, kind): (&super::Container, &Kind)| {
        let image = &container.image;
        let Ok(reference) = image.parse::<Reference>() else {
            return Outcome::Unknown(format!("{image:?} is not the name of an image"));
        };
        let lookup = lookups.get(image);
        let known = Known { said: None, lookup: lookup.as_deref(), reference: &reference };
        match judge(known, &kind.host, isolation, container.host_process) {
            Verdict::Runs(_) => Outcome::Runs,
            Verdict::CannotRun(evidence, misfit) => {
                Outcome::NoImage(image_story(ground, image, evidence, &misfit, &kind.host))
            }
            Verdict::Unknown(Some(why)) => Outcome::Unknown(format!("the registry of {image} does not say: {why}")),
            Verdict::Unknown(None) => Outcome::Unknown(match tag::suggested(&reference) {
                Some(_) => format!("by its name {image} fits; ask its registry to be sure"),
                None => format!("nothing tells of {image}; ask its registry"),
            }),
        }
    };
    judged.map(outcome).min().unwrap_or(Outcome::Runs)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::Shared, *};
    use crate::domain::image::{Content, Lookup, Platform};

    const APP: &str = "registry.example/app:1";
    const OLD: &str = "registry.example/old:1";
    const LINUX: &str = "registry.example/linux:1";
    const GONE: &str = "registry.example/gone:1";

    /// What a registry says: `app` is for both, `old` is for Windows Server 2019.
    struct Registry;

    impl Lookups for Registry {
        fn get(&self, image: &str) -> Option<Arc<Lookup>> {
            let platform = |os: &str, version: Option<&str>| Platform {
                os: os.to_owned(),
                architecture: "amd64".to_owned(),
                os_version: version.map(|version| version.parse().unwrap()),
            };
            let platforms = match image {
                APP => vec![
                    platform("windows", Some("10.0.17763.6414")),
                    platform("windows", Some("10.0.20348.3207")),
                    platform("linux", None),
                ],
                OLD => vec![platform("windows", Some("10.0.17763.6414"))],
                LINUX => vec![platform("linux", None)],
                GONE => return Some(Arc::new(Lookup::Failed("it has no such image".to_owned()))),
                _ => return None,
            };
            Some(Arc::new(Lookup::Found(Content { platforms })))
        }
    }

    fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).unwrap()
    }

    fn node(name: &str, pool: &str, kernel: &str, more: &Value) -> (String, Arc<WindowsNode>) {
        let build = kernel.rsplit_once('.').unwrap().0;
        let mut node = json!({
            "metadata": {"name": name, "labels": {
                "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name,
                "node.kubernetes.io/windows-build": build, "pool": pool,
            }},
            "spec": {"taints": []},
            "status": {
                "nodeInfo": {"kernelVersion": kernel, "kubeletVersion": "v1.34.0",
                    "containerRuntimeVersion": "containerd://2.1.4", "operatingSystem": "windows",
                    "architecture": "amd64", "osImage": "", "machineID": "", "systemUUID": "", "bootID": "",
                    "kubeProxyVersion": ""},
                "allocatable": {"memory": "16Gi", "pods": "10"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        for (path, value) in more.as_object().into_iter().flatten() {
            *node.pointer_mut(path).unwrap() = value.clone();
        }
        (name.to_owned(), Arc::new(WindowsNode::from(read::<k8s_openapi::api::core::v1::Node>(node))))
    }

    fn pool(name: &str, version: &str, classes: &Value) -> (String, Arc<Pool>) {
        let object = json!({
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"windowsVersion": version, "nodeSelector": {"matchLabels": {"pool": name}}, "runtimeClasses": classes},
        });
        (name.to_owned(), Arc::new(Pool::from_object(read(object))))
    }

    /// Pool `here` of Windows Server 2019 and pool `there` of 2022, each with a node and its RuntimeClasses; `there` is
    /// changed as these JSON pointers say.
    fn snapshot(there: &Value) -> Snapshot {
        let mut snapshot = Snapshot {
            namespace: "winpool-system".to_owned(),
            pools: [
                pool("here", "ltsc2019", &json!([{"name": "windows-ltsc2019"}])),
                pool("there", "ltsc2022", &json!([{"name": "there"}])),
            ]
            .into(),
            nodes: [
                node("here-1", "here", "10.0.17763.6414", &json!({})),
                node("there-1", "there", "10.0.20348.3207", there),
            ]
            .into(),
            ..Snapshot::default()
        };
        for pool in ["here", "there"] {
            let plan = Planner::new(&snapshot).plan(pool).unwrap();
            snapshot.runtime_classes.extend(planned_classes(plan));
        }
        snapshot
    }

    fn target(to: &str) -> Target {
        match to {
            "there" => Target::Pool(to.to_owned()),
            _ => Target::Version { name: to.to_owned(), build: crate::facts::builds::named(to).unwrap() },
        }
    }

    /// A workload with one pod on `here-1`.
    fn workload(kind: &str, spec: &Value) -> (Arc<Pod>, Option<Arc<Controller>>) {
        let mut shared = Shared::default();
        let mut bound = spec.clone();
        bound["nodeName"] = json!("here-1");
        if bound.get("runtimeClassName").is_some_and(|class| class == "windows-ltsc2019") {
            bound["nodeSelector"]["node.kubernetes.io/windows-build"] = json!("10.0.17763");
        }
        let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": "w", "uid": "u", "controller": true}]);
        let owner = if kind == "Pod" { Value::Null } else { owner };
        let name = if kind == "Pod" { "w" } else { "w-0" };
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": "p", "ownerReferences": owner},
            "spec": bound, "status": {"phase": "Running"},
        });
        let pod = Arc::new(Pod::read(read(pod), &mut shared));
        let object = json!({
            "metadata": {"name": "w", "namespace": "shop", "uid": "u"},
            "spec": {"selector": {}, "serviceName": "w", "template": {"spec": spec}},
        });
        let controller = match kind {
            "DaemonSet" => Some(Controller::read(read::<k8s_openapi::api::apps::v1::DaemonSet>(object), &mut shared)),
            "StatefulSet" => {
                Some(Controller::read(read::<k8s_openapi::api::apps::v1::StatefulSet>(object), &mut shared))
            }
            _ => None,
        };
        (pod, controller.map(Arc::new))
    }

    fn migrate(there: &Value, workloads: Vec<(Arc<Pod>, Option<Arc<Controller>>)>, to: &str) -> Migration {
        let snapshot = snapshot(there);
        let (pods, controllers): (Vec<_>, Vec<_>) = workloads.into_iter().unzip();
        let world = World { snapshot: &snapshot, pods, controllers: controllers.into_iter().flatten().collect() };
        world.migrate("here", &target(to), &Registry).unwrap()
    }

    /// The outcome of a migration for a workload, as a word and its story.
    fn outcome_of(kind: &str, spec: &Value, to: &str) -> String {
        let migration = migrate(&json!({}), vec![workload(kind, spec)], to);
        let [Move { workload, pods: 1, outcome }] = migration.moves.as_slice() else { panic!("{migration:?}") };
        assert_eq!(workload.to_string(), format!("{kind} shop/w"));
        match outcome {
            Outcome::NoImage(story) => format!("NoImage: {story}"),
            Outcome::Pinned(story) => format!("Pinned: {story}"),
            Outcome::WouldNotFollow(story) => format!("WouldNotFollow: {story}"),
            Outcome::Unknown(story) => format!("Unknown: {story}"),
            Outcome::Runs => "Runs".to_owned(),
        }
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
    fn what_becomes_of_a_workload_is_its_images_its_selector_its_class_and_its_kind() {
        let selects = |key: &str, value: &str| json!({"nodeSelector": {"kubernetes.io/os": "windows", key: value}});
        let build = selects("node.kubernetes.io/windows-build", "10.0.17763");
        let host = selects("kubernetes.io/hostname", "here-1");
        let class = json!({"runtimeClassName": "windows-ltsc2019"});
        let untolerated = json!({"tolerations": []});
        let host_process = json!({
            "hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}},
        });
        let nothing = json!({});
        let table = [
            ("StatefulSet", APP, &nothing, "ltsc2022", "Runs"),
            ("StatefulSet", APP, &nothing, "there", "Runs"),
            ("Pod", APP, &nothing, "there", "Runs"),
            ("DaemonSet", APP, &nothing, "there", "Runs"),
            (
                "StatefulSet",
                OLD,
                &nothing,
                "ltsc2022",
                "NoImage: registry.example/old:1 does not run on 10.0.20348: by its registry it is for 10.0.17763.6414 (ltsc2019)",
            ),
            ("StatefulSet", OLD, &nothing, "there", "NoImage: registry.example/old:1 does not run on 10.0.20348.3207"),
            ("StatefulSet", OLD, &host_process, "there", "Runs"),
            (
                "StatefulSet",
                LINUX,
                &nothing,
                "there",
                "NoImage: registry.example/linux:1 does not run on 10.0.20348.3207: by its registry it is for linux/amd64 only",
            ),
            (
                "StatefulSet",
                "registry.example/app:ltsc2019",
                &nothing,
                "there",
                "NoImage: registry.example/app:ltsc2019 probably does not run",
            ),
            (
                "StatefulSet",
                "registry.example/app:ltsc2022",
                &nothing,
                "there",
                "Unknown: by its name registry.example/app:ltsc2022 fits",
            ),
            (
                "StatefulSet",
                "registry.example/silent:1",
                &nothing,
                "there",
                "Unknown: nothing tells of registry.example/silent:1",
            ),
            (
                "StatefulSet",
                GONE,
                &nothing,
                "there",
                "Unknown: the registry of registry.example/gone:1 does not say: it has no such image",
            ),
            ("StatefulSet", "Not An Image", &nothing, "there", "Unknown: \"Not An Image\" is not the name of an image"),
            (
                "StatefulSet",
                APP,
                &build,
                "ltsc2022",
                "Pinned: no node there has node.kubernetes.io/windows-build=10.0.17763: correct the selector",
            ),
            (
                "StatefulSet",
                APP,
                &build,
                "there",
                "Pinned: no node there has node.kubernetes.io/windows-build=10.0.17763: correct the selector",
            ),
            ("StatefulSet", APP, &host, "ltsc2022", "Runs"),
            ("StatefulSet", APP, &host, "there", "Pinned: it selects the node here-1, which is not there"),
            (
                "StatefulSet",
                APP,
                &class,
                "ltsc2022",
                "Pinned: RuntimeClass windows-ltsc2019 leads elsewhere: use windows-ltsc2022",
            ),
            ("Pod", APP, &class, "there", "Pinned: RuntimeClass windows-ltsc2019 leads elsewhere: use there"),
            (
                "StatefulSet",
                APP,
                &untolerated,
                "there",
                "Pinned: it does not tolerate os=windows:NoSchedule of pool there",
            ),
            ("DaemonSet", APP, &untolerated, "there", "WouldNotFollow: the DaemonSet controller makes no pods there"),
            ("DaemonSet", APP, &build, "ltsc2022", "WouldNotFollow: the DaemonSet controller makes no pods there"),
            (
                "StatefulSet",
                APP,
                &json!({"nodeSelector": {"kubernetes.io/os": "linux"}}),
                "there",
                "Pinned: it is for Linux",
            ),
            (
                "StatefulSet",
                APP,
                &json!({"runtimeClassName": "gone"}),
                "there",
                "Pinned: there is no RuntimeClass gone",
            ),
        ];
        for (kind, image, more, to, expected) in table {
            let told = outcome_of(kind, &spec(image, more), to);
            assert!(told.starts_with(expected), "{kind} of {image} with {more} to {to}: {told}");
        }
    }

    #[test]
    fn the_worst_comes_first_and_the_template_counts_rather_than_its_pods_of_today() {
        let (pod, _) = workload("StatefulSet", &spec(OLD, &json!({})));
        let (_, controller) = workload("StatefulSet", &spec(APP, &json!({})));
        let changed = (pod, controller);
        let daemon = workload("DaemonSet", &spec(LINUX, &json!({})));
        let snapshot = snapshot(&json!({}));
        let world = World {
            snapshot: &snapshot,
            pods: vec![changed.0.clone(), daemon.0.clone()],
            controllers: [changed.1.clone(), daemon.1.clone()].into_iter().flatten().collect(),
        };
        assert_eq!(world.images("here").into_iter().collect::<Vec<_>>(), [APP, LINUX]);
        assert!(world.images("there").is_empty());
        let moves = world.migrate("here", &target("there"), &Registry).unwrap().moves;
        let kinds: Vec<_> =
            moves.iter().map(|one| (one.workload.kind.as_str(), one.outcome == Outcome::Runs)).collect();
        assert_eq!(kinds, [("DaemonSet", false), ("StatefulSet", true)]);
    }

    #[test]
    fn there_is_room_where_ready_nodes_offer_what_nobody_has_asked_for() {
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
            let room = migrate(&there, vec![workload(kind, &needs(amount))], "there").room.unwrap();
            assert_eq!(room.is_enough(), enough, "{kind} {amount} {there}: {}", room.words());
        }
        assert_eq!(migrate(&json!({}), Vec::new(), "ltsc2022").room, None, "the nodes stay the same");
    }

    #[test]
    fn a_pool_with_mistakes_has_no_migration() {
        let mut snapshot = snapshot(&json!({}));
        let (name, broken) = pool("here", "ltsc1999", &json!([]));
        snapshot.pools.insert(name, broken);
        let world = World { snapshot: &snapshot, pods: Vec::new(), controllers: Vec::new() };
        for to in ["ltsc2022", "there"] {
            assert_eq!(world.migrate("here", &target(to), &Registry), None);
        }
    }
}
