//! The documents of adopted pools and profiles, with comments that say where each value comes from.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use winpool_api::{ImageGarbageCollection, Mode, RuntimeClassSpec, facts::builds, names::label};
use winpool_core::{
    adopt::{
        AdoptedClass, AdoptedPool, AdoptedProfile, Adoption, GroupOrigin, OmissionReason, OmittedClass, SettingsSource,
        TaintUse, platform, version_name,
    },
    kind::Kind,
    text::{agree, counted, some_of},
};

use super::document::CommentedYaml;

/// The objects with their file names, in the order of the output.
pub fn objects(adoption: &Adoption) -> Vec<(String, Value)> {
    let of_pool = |pool: &AdoptedPool| {
        let mut spec = json!(pool.spec(Mode::Observe));
        if let Some(fields) = spec.as_object_mut() {
            ["fallback", "paused", "deletionPolicy"].iter().for_each(|field| drop(fields.remove(*field)));
        }
        for class in spec["runtimeClasses"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            class.retain(|field, value| field != "adopt" || *value != false);
        }
        let profile = pool.profile.as_ref().map(|profile| {
            let spec = json!({ "kubelet": kubelet(profile) });
            (file(Kind::PROFILE, pool), object(Kind::PROFILE, &pool.name, spec))
        });
        [(file(Kind::POOL, pool), object(Kind::POOL, &pool.name, spec))].into_iter().chain(profile)
    };
    adoption.pools.iter().flat_map(of_pool).collect()
}

/// The documents with comments by file name.
pub fn documents(adoption: &Adoption) -> BTreeMap<String, String> {
    let of_pool = |pool: &AdoptedPool| {
        let profile = pool.profile.as_ref().map(|profile| (file(Kind::PROFILE, pool), profile_document(pool, profile)));
        [(file(Kind::POOL, pool), pool_document(pool))].into_iter().chain(profile)
    };
    adoption.pools.iter().flat_map(of_pool).collect()
}

/// All documents as one text that begins with a summary.
pub fn text(adoption: &Adoption) -> String {
    let documents = documents(adoption);
    let in_order = objects(adoption).into_iter().filter_map(|(file, _)| documents.get(&file).cloned());
    let mut document = CommentedYaml::default();
    summary(adoption).iter().for_each(|line| document.comment(0, line));
    let separator = if adoption.pools.is_empty() { "" } else { "\n" };
    [document.text(), separator.to_owned(), in_order.collect::<Vec<_>>().join("---\n")].concat()
}

/// How many nodes are left out.
pub(super) fn assigned(adoption: &Adoption) -> String {
    let count = adoption.assigned;
    format!("{} already {} to a pool", counted(count, "node"), agree(count, "belongs", "belong"))
}

/// What was written, how to go on, and the problems.
pub fn summary(adoption: &Adoption) -> Vec<String> {
    let nodes: usize = adoption.pools.iter().map(|pool| pool.nodes.len()).sum();
    let pools = counted(adoption.pools.len(), "pool");
    let assigned = if adoption.assigned == 0 { String::new() } else { format!(" {}.", assigned(adoption)) };
    let written = format!("Written by winpool adopt: {pools} for {}.{assigned}", counted(nodes, "Windows node"));
    let next = "Review the comments and apply these resources: in mode Observe, winpool writes only their status. Then remove \
                mode: Observe, pool by pool."
        .to_owned();
    let problems = adoption.problems.iter().map(|problem| format!("Problem: {problem}."));
    [written, next].into_iter().chain(problems).collect()
}

fn file(kind: Kind, pool: &AdoptedPool) -> String {
    format!("{}-{}.yaml", kind.name.to_lowercase(), pool.name)
}

fn object(kind: Kind, name: &str, spec: Value) -> Value {
    let mut object = kind.object(json!({ "name": name }));
    object["spec"] = spec;
    object
}

fn head(document: &mut CommentedYaml, kind: Kind, name: &str) {
    document.fields(0, &kind.object(json!({ "name": name })));
    document.name(0, "spec");
}

fn pool_document(pool: &AdoptedPool) -> String {
    let mut document = CommentedYaml::default();
    let release = builds::release(pool.build).map_or("Windows", |release| release.product);
    let nodes = counted(pool.nodes.len(), "node");
    let title = format!("Pool {}: {nodes} with {release} ({}): {}.", pool.name, pool.build, some_of(&pool.nodes));
    document.comment(0, &title);
    enforcing(&mut document, pool);
    head(&mut document, Kind::POOL, &pool.name);
    document.comment(2, &format!("From the build of {nodes}: {}.", pool.build));
    document.quoted(2, "windowsVersion", &version_name(pool.build));
    selector(&mut document, pool);
    document.fields(2, &json!({ "mode": "Observe" }));
    if pool.uses_profile && pool.profile.is_some() {
        let comment = "The operator writes the configuration into a ConfigMap, and its name into an annotation of each node. \
                       Nothing is delivered to the nodes, because spec.delivery is not set.";
        document.comment(2, comment);
        document.fields(2, &json!({ "profileRef": { "name": pool.name } }));
    }
    taints(&mut document, pool);
    classes(&mut document, pool);
    document.text()
}

/// What mode Enforce would change.
fn enforcing(document: &mut CommentedYaml, pool: &AdoptedPool) {
    let changes = &pool.changes;
    if changes.is_empty() {
        let nothing = "In mode Enforce, winpool adds its own labels and annotations to the nodes, and changes no taint and no \
                       RuntimeClass.";
        return document.comment(0, nothing);
    }
    document.comment(0, "In mode Enforce, winpool would change, besides its own labels and annotations:");
    for (edit, nodes) in &changes.edits {
        document.comment(0, &format!("- {edit}: {} ({})", counted(nodes.len(), "node"), some_of(nodes)));
    }
    for (conflict, nodes) in &changes.conflicts {
        let nodes = format!("{} ({})", counted(nodes.len(), "node"), some_of(nodes));
        document.comment(0, &format!("- nothing because of a conflict (TaintConflict), {conflict}: {nodes}"));
    }
    let is_adopted =
        |name: &String| pool.classes.iter().any(|adopted| adopted.class.name == *name && adopted.class.adopt);
    for (name, change) in &changes.classes {
        let change = if is_adopted(name) { "adopt, because it differs (see runtimeClasses)" } else { change };
        document.comment(0, &format!("- RuntimeClass {name}: {change}"));
    }
}

fn selector(document: &mut CommentedYaml, pool: &AdoptedPool) {
    let nodes = counted(pool.nodes.len(), "node");
    match &pool.origin {
        GroupOrigin::Label { key, .. } => {
            let platform = platform(key).map(|platform| format!(" ({platform})")).unwrap_or_default();
            document.comment(2, &format!("From label {key}{platform} of {nodes}."));
            if pool.selector.match_labels.contains_key(label::WINDOWS_BUILD) {
                document.comment(2, "Other nodes with the same label have another build.");
            }
        }
        GroupOrigin::Build => {
            document.comment(
                2,
                "These nodes have no label that names their node pool, so they are selected by their build.",
            );
        }
    }
    if !pool.divisible_by.is_empty() {
        let labels = pool.divisible_by.join(", ");
        let hint = format!("To get one pool for each value of a label, use --pool-label with one of: {labels}.");
        document.comment(2, &hint);
    }
    if !pool.selector.match_expressions.is_empty() {
        document.comment(2, "The expressions exclude nodes that a label assigns to another pool.");
    }
    document.fields(2, &json!({ "nodeSelector": pool.selector }));
}

fn taints(document: &mut CommentedYaml, pool: &AdoptedPool) {
    let all = pool.nodes.len();
    for TaintUse { taint, nodes, .. } in &pool.taints.partial {
        let (count, names) = (nodes.len(), some_of(nodes));
        let unchanged = format!(
            "{count} of {} {} taint {taint}, which is not listed and stays unchanged: {names}.",
            counted(all, "node"),
            agree(count, "has", "have")
        );
        document.comment(2, &unchanged);
    }
    if pool.taints.taints.is_empty() {
        let nothing = format!(
            "No taint is on all nodes, so Linux pods without a node selector may be scheduled to them. Without this line, \
             winpool would add os=windows:NoSchedule to {}, once their pods tolerate it.",
            counted(all, "node")
        );
        document.comment(2, &nothing);
        return document.fields(2, &json!({ "taints": [] }));
    }
    document.name(2, "taints");
    for TaintUse { taint, nodes, others } in &pool.taints.taints {
        let count = format!("{} of {}", nodes.len(), counted(all, "node"));
        let has = agree(nodes.len(), "has", "have");
        match others.is_empty() {
            true => document.comment(2, &format!("{count} {has} this taint.")),
            false => document.comment(2, &format!("{count} {has} this taint. Others: {}.", some_of(others))),
        }
        document.taint(2, taint);
    }
    if pool.taints.replaced.is_empty() {
        return;
    }
    document.comment(2, "Taints for the same purpose, which are removed once the nodes have those of the pool.");
    document.name(2, "replacesTaints");
    for TaintUse { taint, nodes, .. } in &pool.taints.replaced {
        let has = agree(nodes.len(), "has", "have");
        let count = format!("{} of {} {has} this taint: {}.", nodes.len(), counted(all, "node"), some_of(nodes));
        document.comment(2, &count);
        document.taint(2, taint);
    }
}

fn classes(document: &mut CommentedYaml, pool: &AdoptedPool) {
    for OmittedClass { name, reason } in &pool.omitted_classes {
        let because = match reason {
            OmissionReason::Selector(selector) => {
                let labels: Vec<_> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("a pool cannot express its selector, {}", labels.join(","))
            }
            OmissionReason::Untolerated(taint) => format!(
                "it does not tolerate {taint}, and a pool adds tolerations of its taints to the classes that it lists"
            ),
            OmissionReason::Taken(problem) => problem.clone(),
            OmissionReason::TooMany => "a pool has at most 8".to_owned(),
        };
        document.comment(2, &format!("RuntimeClass {name} is not listed and stays unchanged: {because}."));
    }
    if pool.classes.is_empty() {
        let default = format!("windows-{}", version_name(pool.build).to_lowercase());
        let other = if pool.omitted_classes.is_empty() { "" } else { "other " };
        let nothing =
            format!("No {other}RuntimeClass selects these nodes. Without this line, winpool would create {default}.");
        document.comment(2, &nothing);
        return document.fields(2, &json!({ "runtimeClasses": [] }));
    }
    document.name(2, "runtimeClasses");
    for AdoptedClass { class, difference, has_known_handler } in &pool.classes {
        match difference {
            None if pool.changes.classes.contains_key(&class.name) => {
                document.comment(2, "This class exists, and winpool would change it (see above).")
            }
            None => document.comment(2, "This class exists and is as the pool needs it."),
            Some(problem) if class.adopt => {
                document.comment(2, &format!("{problem}. With adopt: true winpool changes it."))
            }
            Some(problem) => document.comment(2, &format!("{problem}.")),
        }
        if !has_known_handler {
            let unknown = format!(
                "The isolation is derived from the name of handler {}. Correct it if it is wrong.",
                class.handler
            );
            document.comment(2, &unknown);
        }
        let RuntimeClassSpec { name, isolation, handler, scope, overhead, adopt, tolerations: _ } = class;
        document.item(2, &json!({ "name": name }));
        document.fields(4, &json!({ "isolation": isolation }));
        if !handler.is_empty() {
            document.fields(4, &json!({ "handler": handler }));
        }
        document.fields(4, &json!({ "scope": scope }));
        if !overhead.is_empty() {
            document.fields(4, &json!({ "overhead": overhead }));
        }
        if *adopt {
            document.fields(4, &json!({ "adopt": true }));
        }
    }
}

fn profile_document(pool: &AdoptedPool, profile: &AdoptedProfile) -> String {
    let mut document = CommentedYaml::default();
    let all = counted(pool.nodes.len(), "node");
    let source = match profile.source {
        SettingsSource::Resources => "the resources",
        SettingsSource::Configz => "the configuration in use (configz)",
    };
    document.comment(0, &format!("Profile {}: from {source} of {} of {all}.", pool.name, profile.nodes.len()));
    if !profile.differing.is_empty() {
        document.comment(0, &format!("Other settings are in use on: {}.", some_of(&profile.differing)));
    }
    if !profile.unknown.is_empty() {
        document.comment(0, &format!("The settings are unknown of: {}.", some_of(&profile.unknown)));
    }
    if !pool.uses_profile {
        let unused = format!(
            "No pool uses it. With profileRef: {{ name: {} }} in pool {0} (winpool adopt --profiles), the operator renders it \
             and compares the nodes with it.",
            pool.name
        );
        document.comment(0, &unused);
    }
    let unreported = match profile.source {
        SettingsSource::Resources => "Nodes do not report other settings, such as the pause image",
        SettingsSource::Configz => {
            "Flags of the kubelet, such as its priority class, and the pause image are not reported"
        }
    };
    document.comment(0, &format!("{unreported}: see the defaults in kubectl explain wrp.spec."));
    head(&mut document, Kind::PROFILE, &pool.name);
    document.name(2, "kubelet");
    let settings = kubelet(profile);
    let fields = settings.as_object().into_iter().flatten();
    for (field, value) in fields {
        if let Some(comment) = profile_comment(profile.source, field) {
            document.comment(4, comment);
        }
        document.fields(4, &json!({ field: value }));
    }
    document.text()
}

/// Where the value of a field is from. A value of the configuration in use needs no comment.
fn profile_comment(source: SettingsSource, field: &str) -> Option<&'static str> {
    Some(match (source, field) {
        (SettingsSource::Resources, "systemReserved") => {
            "Capacity minus allocatable, minus the default of evictionHard: the sum of systemReserved and kubeReserved, \
             which nodes do not report separately."
        }
        (SettingsSource::Resources, "kubeReserved") => "Zero, because it is in systemReserved.",
        (SettingsSource::Resources, "evictionHard") => "Less than the default is reserved.",
        (SettingsSource::Resources, "maxPods") => "From capacity.pods.",
        (SettingsSource::Resources, "containerLogs") => "The default of Kubernetes. Nodes do not report it.",
        (SettingsSource::Configz, "evictionHard") => "The thresholds that differ from the defaults. 0% is none.",
        (SettingsSource::Configz, "extra") => {
            "Other fields that differ from the defaults. Those that connect a node to the cluster, such as clusterDNS, stay as \
             they are on the nodes."
        }
        _ => return None,
    })
}

/// The settings of a profile whose values are known.
fn kubelet(profile: &AdoptedProfile) -> Value {
    let kubelet = &profile.spec.kubelet;
    let mut settings = json!(kubelet);
    if let Some(fields) = settings.as_object_mut() {
        fields.remove("priorityClass");
        if kubelet.image_gc == ImageGarbageCollection::default() {
            fields.remove("imageGC");
        }
    }
    settings
}
