//! Policies for nodes.

use serde_json::json;
use winpool_api::names::{annotation, label};

use super::{Effect, OnError, Policy, cel, constraints};

/// The label value of Windows nodes.
const WINDOWS: &str = "windows";

/// Others do not change the taints, labels and annotations of the operator.
pub fn protected(operator: &str) -> Policy {
    let pool = cel::text(label::POOL);
    let of_the_pool = format!(
        "has(oldObject.metadata.labels) && {pool} in oldObject.metadata.labels &&\n\
         oldObject.metadata.labels[{pool}] == params.metadata.name"
    );
    let own_keys = |labels: &str| format!("variables.{labels}.filter(k, {})", cel::is_own_label("k"));
    let own_annotations = |annotations: &str| {
        format!("variables.{annotations}.filter(k, k.startsWith({}))", cel::text(&cel::prefix(annotation::OWNED)))
    };
    let mut matched = constraints(("", "v1"), &["UPDATE"], &["nodes", "nodes/status"]);
    matched["objectSelector"] = json!({"matchExpressions": [{"key": label::POOL, "operator": "Exists"}]});
    Policy {
        name: "winpool-nodes",
        file: "nodes.yaml",
        description: "Only winpool changes the taints, labels and annotations that it sets on the nodes of a \
             pool. Other keys are not affected. For changes by hand, set spec.paused of the pool."
            .to_owned(),
        on_error: OnError::Ignore,
        per_pool: true,
        constraints: matched,
        conditions: vec![cel::not_from(operator), ("node-of-the-pool", of_the_pool), cel::pool_is_enforced()],
        variables: vec![
            ("taints", cel::taints_of("object.spec")),
            ("oldTaints", cel::taints_of("oldObject.spec")),
            ("poolTaints", cel::taints_of("params.spec")),
            ("labels", cel::map_of("object.metadata.labels")),
            ("oldLabels", cel::map_of("oldObject.metadata.labels")),
            ("poolLabels", cel::map_of("params.spec.labels")),
            ("annotations", cel::map_of("object.metadata.annotations")),
            ("oldAnnotations", cel::map_of("oldObject.metadata.annotations")),
            ("ownLabels", own_keys("labels")),
            ("oldOwnLabels", own_keys("oldLabels")),
            (
                "oldPoolLabels",
                "variables.poolLabels.filter(k,\n\
                 k in variables.oldLabels && variables.oldLabels[k] == variables.poolLabels[k])"
                    .to_owned(),
            ),
            ("ownAnnotations", own_annotations("annotations")),
            ("oldOwnAnnotations", own_annotations("oldAnnotations")),
        ],
        effect: Effect::Validate(vec![
            (
                "variables.poolTaints.all(t, !(t in variables.oldTaints) || t in variables.taints)".to_owned(),
                "a taint of the WindowsNodePool of this node is missing or changed: change spec.taints of the \
                     pool instead, or set spec.paused of the pool before you change the node"
                    .to_owned(),
            ),
            (
                "(variables.oldOwnLabels + variables.oldPoolLabels).all(k,\n\
                 k in variables.labels && variables.labels[k] == variables.oldLabels[k]) &&\n\
                 variables.ownLabels.all(k, k in variables.oldLabels)"
                    .to_owned(),
                "a label that winpool sets on this node is added, missing or changed: change spec.labels of the \
                 WindowsNodePool instead, or set spec.paused of the pool before you change the node"
                    .to_owned(),
            ),
            (
                "variables.oldOwnAnnotations.all(k,\n\
                 k in variables.annotations && variables.annotations[k] == variables.oldAnnotations[k]) &&\n\
                 variables.ownAnnotations.all(k, k in variables.oldAnnotations)"
                    .to_owned(),
                "an annotation that winpool sets on this node is added, missing or changed: set spec.paused of its \
                 WindowsNodePool before you change it"
                    .to_owned(),
            ),
        ]),
    }
}

/// The operator changes Windows nodes only, also if its token was stolen.
pub fn of_the_operator(operator: &str) -> Policy {
    let os = cel::text(label::OS);
    let is_windows = |object: &str| {
        format!(
            "has({object}.metadata.labels) && {os} in {object}.metadata.labels &&\n\
             {object}.metadata.labels[{os}] == {}",
            cel::text(WINDOWS)
        )
    };
    Policy {
        name: "winpool-operator",
        file: "operator.yaml",
        description: format!(
            "The operator may change only nodes that have the label {}={WINDOWS}, and must keep it.",
            label::OS
        ),
        on_error: OnError::Fail,
        per_pool: false,
        constraints: constraints(("", "v1"), &["UPDATE"], &["nodes", "nodes/status"]),
        conditions: vec![("the-operator", format!("request.userInfo.username == {}", cel::text(operator)))],
        variables: Vec::new(),
        effect: Effect::Validate(vec![(
            format!("{} &&\n{}", is_windows("oldObject"), is_windows("object")),
            format!(
                "the operator may change only nodes with the label {}={WINDOWS}: find out who uses its token",
                label::OS
            ),
        )]),
    }
}

/// A node that joins a pool has its taints from the start.
pub fn registration() -> Policy {
    let mark = annotation::REGISTERED_WITH;
    let first = format!("!has(object.metadata.annotations) || !({} in object.metadata.annotations)", cel::text(mark));
    let path = mark.replace('~', "~0").replace('/', "~1");
    let mut matched = constraints(("", "v1"), &["CREATE"], &["nodes"]);
    matched["objectSelector"] = json!({"matchLabels": {label::OS: WINDOWS}});
    Policy {
        name: "winpool-node-registration",
        file: "node_registration.yaml",
        description: "A Windows node that is created with labels that match the selector of a pool gets the \
             taints of the pool at once, so that no Linux pod is scheduled before winpool has seen the node."
            .to_owned(),
        on_error: OnError::Ignore,
        per_pool: true,
        constraints: matched,
        conditions: vec![
            cel::pool_is_enforced(),
            ("pool-has-taints", "has(params.spec.taints) && size(params.spec.taints) > 0".to_owned()),
            ("pool-selects-the-node", selects_node()),
            ("first-pool", first),
        ],
        variables: vec![
            ("taints", cel::list_of("object.spec.taints")),
            (
                "missing",
                "params.spec.taints.filter(t,\n\
                 !variables.taints.exists(present, present.key == t.key && present.effect == t.effect))"
                    .to_owned(),
            ),
        ],
        // The map of annotations is added together with its key: an empty map is no field of the object after the mutation.
        effect: Effect::Mutate(vec![format!(
            "[JSONPatch{{op: 'add', path: '/spec/taints', value: variables.taints + variables.missing}}] +\n\
             (has(object.metadata.annotations) ?\n\
             [JSONPatch{{op: 'add', path: {}, value: params.metadata.name}}] :\n\
             [JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{{}: params.metadata.name}}}}])",
            cel::text(&format!("/metadata/annotations/{path}")),
            cel::text(mark),
        )]),
    }
}

/// Whether the selector of a pool matches the labels of the node: the rule of
/// [`LabelSelector::matches`](winpool_api::LabelSelector::matches).
fn selects_node() -> String {
    "has(params.spec.nodeSelector) &&\n\
     (!has(params.spec.nodeSelector.matchLabels) ||\n\
     params.spec.nodeSelector.matchLabels.all(k, k in object.metadata.labels &&\n\
     object.metadata.labels[k] == params.spec.nodeSelector.matchLabels[k])) &&\n\
     (!has(params.spec.nodeSelector.matchExpressions) ||\n\
     params.spec.nodeSelector.matchExpressions.all(e,\n\
     e.operator == 'In' ? e.key in object.metadata.labels && object.metadata.labels[e.key] in e.values :\n\
     e.operator == 'NotIn' ? !(e.key in object.metadata.labels && object.metadata.labels[e.key] in e.values) :\n\
     (e.operator == 'Exists') == (e.key in object.metadata.labels)))"
        .to_owned()
}
