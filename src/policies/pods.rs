//! Policies for pods.

use serde_json::json;
use winpool_api::{TaintEffect, names::label};

use super::{Effect, OnError, Policy, cel, constraints};

/// A pod that tolerates the taints of a pool says which operating system it is for.
pub fn os_selector() -> Policy {
    let effect = cel::value(TaintEffect::PreferNoSchedule);
    let by_affinity = format!(
        "has(object.spec.affinity) && has(object.spec.affinity.nodeAffinity) &&\n\
         has(object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution) &&\n\
         object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.all(term,\n\
         has(term.matchExpressions) && term.matchExpressions.exists(e, {}))",
        cel::selects_os("e.key")
    );
    Policy {
        name: "winpool-pods",
        file: "pods.yaml",
        description: "A pod that tolerates the taints of a pool by their keys selects an operating system, so \
             that no Linux pod is scheduled to a Windows node. A toleration without a key, as DaemonSets for all \
             nodes have it, is not restricted."
            .to_owned(),
        on_error: OnError::Ignore,
        per_pool: true,
        constraints: constraints(("", "v1"), &["CREATE"], &["pods"]),
        conditions: vec![
            cel::pool_is_enforced(),
            ("not-bound", "!has(object.spec.nodeName) || object.spec.nodeName == ''".to_owned()),
        ],
        variables: vec![
            ("tolerations", cel::list_of("object.spec.tolerations")),
            ("withKey", "variables.tolerations.filter(x, has(x.key) && x.key != '')".to_owned()),
            ("taints", format!("({}).filter(t, t.effect != {effect})", cel::list_of("params.spec.taints"))),
            (
                "toleratesPool",
                format!(
                    "variables.taints.all(t, variables.tolerations.exists(x,\n{tolerates})) &&\n\
                     variables.taints.exists(t, variables.withKey.exists(x,\n{tolerates}))",
                    tolerates = cel::tolerates()
                ),
            ),
            ("nodeSelector", cel::map_of("object.spec.nodeSelector")),
            ("selectsByLabel", format!("variables.nodeSelector.exists(k, {})", cel::selects_os("k"))),
            ("selectsByAffinity", by_affinity),
        ],
        effect: Effect::Validate(vec![(
            "!variables.toleratesPool || has(object.spec.os) ||\n\
             variables.selectsByLabel || variables.selectsByAffinity"
                .to_owned(),
            format!(
                "the pod tolerates the taints of a WindowsNodePool, and could be scheduled to Windows or \
                 Linux: add the nodeSelector {}, or a runtimeClassName of the pool, or remove the toleration",
                label::OS
            ),
        )]),
    }
}

/// A Windows pod that selects no nodes gets the RuntimeClass in the label of its namespace.
pub fn default_runtime_class() -> Policy {
    let os = cel::text(label::OS);
    let for_windows = format!(
        "has(object.spec.os) && object.spec.os.name == 'windows' ||\n\
         has(object.spec.nodeSelector) && {os} in object.spec.nodeSelector &&\n\
         object.spec.nodeSelector[{os}] == 'windows'"
    );
    let selects_nodes = format!(
        "!has(object.spec.nodeSelector) ||\n\
         !object.spec.nodeSelector.exists(k, k in {} || k.startsWith({}))",
        cel::list([label::WINDOWS_BUILD, label::POOL]),
        cel::text(label::RUNS)
    );
    let host_process = |context: &str| {
        format!(
            "has({context}.securityContext) && has({context}.securityContext.windowsOptions) &&\n\
             has({context}.securityContext.windowsOptions.hostProcess) &&\n\
             {context}.securityContext.windowsOptions.hostProcess"
        )
    };
    let mut matched = constraints(("", "v1"), &["CREATE"], &["pods"]);
    let in_namespaces = json!({"matchExpressions": [{"key": label::DEFAULT_RUNTIME_CLASS, "operator": "Exists"}]});
    matched["namespaceSelector"] = in_namespaces;
    Policy {
        name: "winpool-default-runtime-class",
        file: "default_runtime_class.yaml",
        description: format!(
            "In namespaces with the label {}, a Windows pod that selects neither a RuntimeClass nor a build or \
                 pool gets the RuntimeClass in the label.",
            label::DEFAULT_RUNTIME_CLASS
        ),
        on_error: OnError::Ignore,
        per_pool: false,
        constraints: matched,
        conditions: vec![
            ("for-windows", for_windows),
            ("without-class", "!has(object.spec.runtimeClassName) || object.spec.runtimeClassName == ''".to_owned()),
            ("without-selector", selects_nodes),
            ("not-bound", "!has(object.spec.nodeName) || object.spec.nodeName == ''".to_owned()),
            // The DaemonSet controller ignores the selector of a RuntimeClass.
            (
                "not-of-a-daemon-set",
                "!has(object.metadata.ownerReferences) ||\n\
                 !object.metadata.ownerReferences.exists(o, o.kind == 'DaemonSet')"
                    .to_owned(),
            ),
            // A HostProcess container runs on every build.
            (
                "not-host-process",
                format!(
                    "!({}) &&\n!object.spec.containers.exists(c,\n{})",
                    host_process("object.spec"),
                    host_process("c")
                ),
            ),
        ],
        variables: Vec::new(),
        effect: Effect::Mutate(vec![format!(
            "[JSONPatch{{op: 'add', path: '/spec/runtimeClassName',\n\
             value: namespaceObject.metadata.labels[{}]}}]",
            cel::text(label::DEFAULT_RUNTIME_CLASS)
        )]),
    }
}
