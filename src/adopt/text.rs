//! The documents of adopted pools and profiles: each object below one comment that says what it is, where it is from, and what
//! needs a decision.

use serde_json::{Value, json};
use winpool_api::{ImageGarbageCollection, Mode, names::label};
use winpool_check::adopt::{
    AdoptedPool, AdoptedProfile, Adoption, GroupOrigin, OmissionReason, OmittedClass, SettingsSource, platform,
    version_name,
};
use winpool_core::{
    foreign_text::escaped,
    kind::Kind,
    text::{agree, counted, some_of},
};
use winpool_facts::builds;

use crate::output;

const WIDTH: usize = 118;

#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub file: String,
    comment: Vec<String>,
    pub object: Value,
}

impl Document {
    fn new(kind: Kind, name: &str, comment: Vec<String>, spec: Value) -> Self {
        let mut object = kind.object(json!({ "name": name }));
        object["spec"] = spec;
        Self { file: format!("{}-{name}.yaml", kind.name.to_lowercase()), comment, object }
    }

    pub fn yaml(&self) -> String {
        commented(&self.comment) + &output::yaml(&self.object)
    }
}

/// The documents, in the order of the output.
pub fn documents(adoption: &Adoption) -> Vec<Document> {
    let of_pool = |pool: &AdoptedPool| {
        let profile = pool.profile.as_ref().map(|profile| {
            let spec = json!({ "kubelet": kubelet(profile) });
            Document::new(Kind::PROFILE, &pool.name, about_profile(pool, profile), spec)
        });
        [Document::new(Kind::POOL, &pool.name, about_pool(pool), spec(pool))].into_iter().chain(profile)
    };
    adoption.pools.iter().flat_map(of_pool).collect()
}

/// All documents as one text that begins with a summary.
pub fn text(adoption: &Adoption) -> String {
    let documents: Vec<_> = documents(adoption).iter().map(Document::yaml).collect();
    let separator = if documents.is_empty() { "" } else { "\n" };
    [&commented(&summary(adoption)), separator, &documents.join("---\n")].concat()
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

/// Comments with a paragraph each, in as many lines as needed. They may have text of nodes and files, whose characters that a
/// terminal interprets are escaped.
fn commented(paragraphs: &[String]) -> String {
    let mut text = String::new();
    for paragraph in paragraphs {
        let indent = if paragraph.starts_with("- ") { "#  " } else { "#" };
        let mut line = "#".to_owned();
        for word in escaped(paragraph).split_whitespace() {
            if line.len() > 1 && line.len() + 1 + word.len() > WIDTH {
                text += &format!("{line}\n");
                line = indent.to_owned();
            }
            line = format!("{line} {word}");
        }
        text += &format!("{line}\n");
    }
    text
}

/// The spec of a pool, without fields that have their defaults.
fn spec(pool: &AdoptedPool) -> Value {
    let mut spec = json!(pool.spec(Mode::Observe));
    if let Some(fields) = spec.as_object_mut() {
        ["fallback", "deletionPolicy"].iter().for_each(|field| drop(fields.remove(*field)));
    }
    for class in spec["runtimeClasses"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        class.retain(|field, value| field != "adopt" || *value != false);
    }
    spec
}

fn about_pool(pool: &AdoptedPool) -> Vec<String> {
    let release = builds::release(pool.build).map_or("Windows", |release| release.product);
    let nodes = counted(pool.nodes.len(), "node");
    let title = format!(
        "Pool {}: {nodes} with {release} ({}): {}. {}",
        pool.name,
        pool.build,
        some_of(&pool.nodes),
        selection(pool)
    );
    let decisions: Vec<_> =
        [division(pool), taints(pool), classes(pool)].concat().into_iter().map(|text| format!("- {text}")).collect();
    let heading = (!decisions.is_empty()).then(|| "To decide:".to_owned());
    [vec![title], enforcing(pool), Vec::from_iter(heading), decisions].concat()
}

/// Where the selector is from.
fn selection(pool: &AdoptedPool) -> String {
    let by_build = pool.selector.match_labels.contains_key(label::WINDOWS_BUILD);
    let selected = match &pool.origin {
        GroupOrigin::Label { key, .. } => {
            let platform = platform(key).map(|platform| format!(" ({platform})")).unwrap_or_default();
            let and = if by_build { " and by build, because other nodes with this label have another" } else { "" };
            format!("Selected by label {key}{platform}{and}.")
        }
        GroupOrigin::Build => "Selected by build, because no label names the node pool.".to_owned(),
    };
    if pool.selector.match_expressions.is_empty() {
        selected
    } else {
        format!("{selected} The expressions exclude nodes that a label assigns to another pool.")
    }
}

/// What mode Enforce would change.
fn enforcing(pool: &AdoptedPool) -> Vec<String> {
    let changes = &pool.changes;
    if changes.is_empty() {
        let nothing = "In mode Enforce, winpool adds its own labels and annotations to the nodes, and changes no taint and no \
                       RuntimeClass.";
        return vec![nothing.to_owned()];
    }
    let names = |nodes: &[String]| format!("{} ({})", counted(nodes.len(), "node"), some_of(nodes));
    let title = "In mode Enforce, winpool would change, besides its own labels and annotations:".to_owned();
    let edits = changes.edits.iter().map(|(edit, nodes)| format!("- {edit}: {}", names(nodes)));
    let conflicts = changes.conflicts.iter().map(|(conflict, nodes)| {
        format!("- nothing because of a conflict (TaintConflict), {conflict}: {}", names(nodes))
    });
    let is_adopted =
        |name: &String| pool.classes.iter().any(|adopted| adopted.class.name == *name && adopted.class.adopt);
    let classes = changes.classes.iter().map(|(name, change)| {
        let change = if is_adopted(name) { "adopt, because it differs (see below)" } else { change };
        format!("- RuntimeClass {name}: {change}")
    });
    [title].into_iter().chain(edits).chain(conflicts).chain(classes).collect()
}

/// How the nodes could be divided otherwise, and what a profile does.
fn division(pool: &AdoptedPool) -> Vec<String> {
    let mut texts = Vec::new();
    if !pool.divisible_by.is_empty() {
        let labels = pool.divisible_by.join(", ");
        texts.push(format!(
            "nodeSelector: to get one pool for each value of a label, use --pool-label with one of: {labels}."
        ));
    }
    if pool.uses_profile && pool.profile.is_some() {
        texts.push(
            "profileRef: the operator writes the configuration into a ConfigMap, and its name into an annotation of each node. \
             Nothing is delivered to the nodes, because spec.delivery is not set."
                .to_owned(),
        );
    }
    texts
}

fn taints(pool: &AdoptedPool) -> Vec<String> {
    let all = counted(pool.nodes.len(), "node");
    let partial = pool.taints.partial.iter().map(|(taint, nodes)| {
        let (count, names) = (nodes.len(), some_of(nodes));
        let has = agree(count, "has", "have");
        format!("{count} of {all} {has} taint {taint}, which is not listed and stays unchanged: {names}.")
    });
    let none = pool.taints.taints.is_empty().then(|| {
        format!(
            "taints: none is on all nodes, so Linux pods without a node selector may be scheduled to them. Without this field, \
             winpool would add os=windows:NoSchedule to {all}, once their pods tolerate it."
        )
    });
    partial.chain(none).collect()
}

fn classes(pool: &AdoptedPool) -> Vec<String> {
    let omitted = pool.omitted_classes.iter().map(|OmittedClass { name, reason }| {
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
        format!("RuntimeClass {name} is not listed and stays unchanged: {because}.")
    });
    let none = pool.classes.is_empty().then(|| {
        let default = format!("windows-{}", version_name(pool.build).to_lowercase());
        let other = if pool.omitted_classes.is_empty() { "" } else { "other " };
        format!(
            "runtimeClasses: no {other}class selects these nodes. Without this field, winpool would create {default}."
        )
    });
    let differing = pool.classes.iter().filter_map(|adopted| {
        let adopts = if adopted.class.adopt { " With adopt: true winpool changes it." } else { "" };
        Some(format!("{}.{adopts}", adopted.difference.as_ref()?))
    });
    let unknown = pool.classes.iter().filter(|adopted| !adopted.has_known_handler).map(|adopted| {
        let class = &adopted.class;
        format!(
            "RuntimeClass {}: the isolation is derived from the name of handler {}. Correct it if it is wrong.",
            class.name, class.handler
        )
    });
    omitted.chain(none).chain(differing).chain(unknown).collect()
}

fn about_profile(pool: &AdoptedPool, profile: &AdoptedProfile) -> Vec<String> {
    let (source, values) = match profile.source {
        SettingsSource::Resources => (
            "the resources",
            "systemReserved is capacity minus allocatable, minus the default of evictionHard: the sum of systemReserved and \
             kubeReserved, which nodes do not report separately. evictionHard is set if less is reserved. Nodes do not report \
             other settings, such as the pause image",
        ),
        SettingsSource::Configz => (
            "the configuration in use (configz)",
            "evictionHard and extra have what differs from the defaults; 0% is no threshold. Fields that connect a node to the \
             cluster, such as clusterDNS, stay as they are on the nodes. Flags of the kubelet, such as its priority class, and \
             the pause image are not reported",
        ),
    };
    let all = counted(pool.nodes.len(), "node");
    let title = format!("Profile {}: from {source} of {} of {all}.", pool.name, profile.nodes.len());
    let differing = (!profile.differing.is_empty())
        .then(|| format!("Other settings are in use on: {}.", some_of(&profile.differing)));
    let unknown =
        (!profile.unknown.is_empty()).then(|| format!("The settings are unknown of: {}.", some_of(&profile.unknown)));
    let unused = (!pool.uses_profile).then(|| {
        format!(
            "No pool uses it. With profileRef: {{ name: {} }} in pool {0} (winpool adopt --profiles), the operator renders it \
             and compares the nodes with it.",
            pool.name
        )
    });
    let values = format!("{values}: see the defaults in kubectl explain wrp.spec.");
    [Some(title), differing, unknown, unused, Some(values)].into_iter().flatten().collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_has_no_character_that_a_terminal_or_a_parser_interprets() {
        let text = "From label \u{1b}[31mred\u{1b}[0m\nspec: {} of\u{202e} win-1\u{85}a: b\u{2028}c: d.";
        let expected = "# From label \\u{1b}[31mred\\u{1b}[0m spec: {} of\\u{202e} win-1\\u{85}a: b c: d.\n";
        assert_eq!(commented(&[text.to_owned()]), expected);
    }
}
