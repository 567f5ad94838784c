//! Policies for RuntimeClasses and pools.

use kube::Resource as _;
use serde_json::json;
use winpool_api::{
    RuntimeClassState, WindowsNodePool,
    names::{annotation, label},
};

use super::{Effect, OnError, Policy, cel, constraints};

/// The states of a RuntimeClass of a pool in which an administrator may have to delete it.
const DELETABLE: [RuntimeClassState; 2] = [RuntimeClassState::Unused, RuntimeClassState::HandlerDiffers];

/// Others do not change or delete the RuntimeClasses that pools use.
pub fn runtime_classes(operator: &str) -> Policy {
    let deletable: Vec<_> = DELETABLE.map(cel::value).into();
    let of_the_pool = format!(
        "has(params.status) && has(params.status.runtimeClasses) &&\n\
         params.status.runtimeClasses.exists(c, c.name == oldObject.metadata.name && !(c.state in [{}]))",
        deletable.join(", ")
    );
    let parts = |object: &str| {
        format!("[{}, {}]", cel::map_of(&format!("{object}.scheduling")), cel::map_of(&format!("{object}.overhead")))
    };
    let own_keys = |metadata: &str| {
        let (manager, prefix) = (cel::text(label::MANAGED_BY), cel::text(&cel::prefix(annotation::ADOPTED)));
        format!("variables.{metadata}.filter(k, k == {manager} || k.startsWith({prefix}))")
    };
    let unchanged = |before: &str, after: &str, own: &str| {
        format!("variables.{own}.all(k, k in variables.{after} && variables.{after}[k] == variables.{before}[k])")
    };
    let mut matched = constraints(("node.k8s.io", "v1"), &["UPDATE", "DELETE"], &["runtimeclasses"]);
    matched["objectSelector"] = json!({"matchLabels": {label::MANAGED_BY: label::MANAGED_BY_VALUE}});
    Policy {
        name: "winpool-runtime-classes",
        file: "runtime_classes.yaml",
        description: "Only winpool changes or deletes the RuntimeClasses that it manages for a pool. For changes \
             by hand, set spec.paused of the pool."
            .to_owned(),
        on_error: OnError::Ignore,
        per_pool: true,
        constraints: matched,
        conditions: vec![cel::not_from(operator), ("class-of-the-pool", of_the_pool), cel::pool_is_enforced()],
        variables: vec![
            ("parts", parts("object")),
            ("oldParts", parts("oldObject")),
            ("labels", cel::map_of("object.metadata.labels")),
            ("oldLabels", cel::map_of("oldObject.metadata.labels")),
            ("annotations", cel::map_of("object.metadata.annotations")),
            ("oldAnnotations", cel::map_of("oldObject.metadata.annotations")),
            ("oldOwnLabels", own_keys("oldLabels")),
            ("oldOwnAnnotations", own_keys("oldAnnotations")),
        ],
        effect: Effect::Validate(vec![
            (
                "request.operation != 'DELETE'".to_owned(),
                "a WindowsNodePool uses this RuntimeClass: remove it from spec.runtimeClasses of the pool first"
                    .to_owned(),
            ),
            (
                "request.operation == 'DELETE' || variables.parts == variables.oldParts".to_owned(),
                "winpool sets scheduling and overhead of this RuntimeClass: change spec.runtimeClasses and \
                     spec.taints of the WindowsNodePool instead, or set spec.paused of the pool before you change \
                     the class"
                    .to_owned(),
            ),
            (
                format!(
                    "request.operation == 'DELETE' ||\n{} &&\n{}",
                    unchanged("oldLabels", "labels", "oldOwnLabels"),
                    unchanged("oldAnnotations", "annotations", "oldOwnAnnotations")
                ),
                "a label or an annotation with which winpool marks this RuntimeClass is missing or changed: set \
                     spec.paused of the WindowsNodePool before you change it"
                    .to_owned(),
            ),
        ]),
    }
}

/// A pool with nodes is deleted only if an annotation confirms it.
pub fn pool_deletion() -> Policy {
    let confirmation = cel::text(annotation::ALLOW_DELETION);
    Policy {
        name: "winpool-pool-deletion",
        file: "pool_deletion.yaml",
        description: format!(
            "A WindowsNodePool with nodes is deleted only if its annotation {} has the name of the pool.",
            annotation::ALLOW_DELETION
        ),
        on_error: OnError::Fail,
        per_pool: false,
        constraints: constraints(
            (&WindowsNodePool::group(&()), &WindowsNodePool::version(&())),
            &["DELETE"],
            &[&WindowsNodePool::plural(&())],
        ),
        conditions: Vec::new(),
        variables: vec![
            (
                "nodes",
                "has(oldObject.status) && has(oldObject.status.nodes) ? oldObject.status.nodes.matched : 0".to_owned(),
            ),
            ("annotations", cel::map_of("oldObject.metadata.annotations")),
        ],
        effect: Effect::Validate(vec![(
            format!(
                "has(oldObject.metadata.deletionTimestamp) || variables.nodes == 0 ||\n\
                 {confirmation} in variables.annotations &&\n\
                 variables.annotations[{confirmation}] == oldObject.metadata.name"
            ),
            format!(
                "this WindowsNodePool has nodes: confirm the deletion with the annotation {}, whose value is the \
                     name of the pool",
                annotation::ALLOW_DELETION
            ),
        )]),
    }
}
