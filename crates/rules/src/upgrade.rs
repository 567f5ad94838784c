//! What an upgrade ends on a node: container runtimes, and, by what its agent reports, flags and feature gates that a kubelet or
//! kube-proxy refuses, and settings that containerd ignores. A fact that is not known is no finding.

use winpool_api::NodeFacts;
use winpool_core::node::WindowsNode;
use winpool_facts::{
    ContainerRuntime, ContainerdVersion, Minor,
    containerd::{CNI_BIN_DIR, WITHOUT_BIN_DIR},
    feature_gates::{ANNOUNCED_IN, GateState, announced, feature_gate, gate_state},
    kubelet_flags,
    runtimes::{CONTAINERD_WITH_RUNTIME_CONFIG, CRI_DOCKERD_WITH_RUNTIME_CONFIG, RUNTIME_CONFIG_REQUIRED},
};
use winpool_render::profile::GatedProgram::{self, KubeProxy, Kubelet};

/// The gate that RKE2 sets for kube-proxy: rancher/rke2, `pkg/executor/pebinary/pebinary.go` (6ce1a801, read 2026-11-29).
const WIN_DSR: &str = "WinDSR";

/// A setting on a node that ends. Both texts are sentences without the full stop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndedSetting {
    /// The setting, and which version refuses or ignores it.
    pub problem: String,
    /// What to do, with the product that sets it if that is known.
    pub remedy: String,
}

/// The settings that end with the next minor of the kubelet, or with the minor of the API server if that is newer, and with a
/// containerd that such a kubelet can have.
pub fn ended_settings(node: &WindowsNode, facts: &NodeFacts, api_server: Option<Minor>) -> Vec<EndedSetting> {
    let next = node.kubelet_minor().map(|minor| Minor(minor.0 + 1)).max(api_server);
    let of_kubelet = next
        .into_iter()
        .flat_map(|minor| without_runtime_config(node, minor).into_iter().chain(refused_by_kubelet(facts, minor)));
    of_kubelet.chain(ignored_by_containerd(node, facts)).collect()
}

/// The container runtime of a node whose upgrade to a kubelet of the minor begins to need a call that it does not have.
pub fn without_runtime_config(node: &WindowsNode, minor: Minor) -> Option<EndedSetting> {
    node.kubelet_minor().filter(|kubelet| *kubelet < RUNTIME_CONFIG_REQUIRED && RUNTIME_CONFIG_REQUIRED <= minor)?;
    let (runtime, remedy) = match node.runtime.as_ref().ok()? {
        ContainerRuntime::Containerd(installed) if *installed >= CONTAINERD_WITH_RUNTIME_CONFIG => return None,
        ContainerRuntime::Containerd(installed) => (
            format!("containerd {installed}"),
            format!("Upgrade it to {CONTAINERD_WITH_RUNTIME_CONFIG} or later first"),
        ),
        ContainerRuntime::CriDockerd => (
            format!("cri-dockerd before {CRI_DOCKERD_WITH_RUNTIME_CONFIG}, whose version nodes do not report"),
            "Check it on the nodes, and upgrade it first".to_owned(),
        ),
    };
    let problem = format!(
        "kubelet {RUNTIME_CONFIG_REQUIRED} is announced to fail at its start ({ANNOUNCED_IN} does not yet) with {runtime}"
    );
    Some(EndedSetting { problem, remedy })
}

/// The flags and feature gates with which a kubelet or kube-proxy of the minor does not start.
pub fn refused_by_kubelet(facts: &NodeFacts, minor: Minor) -> Vec<EndedSetting> {
    let flags = facts.kubelet_flags.iter().flatten().filter_map(|name| kubelet_flags::ended(name));
    let flags = flags.filter(|flag| !flag.known_in(minor)).map(|flag| EndedSetting {
        problem: format!("kubelet {minor} does not start with the flag --{}", flag.name),
        remedy: match flag.set_by {
            "" => "Remove it from the command line of the kubelet".to_owned(),
            by => format!("Remove it from the command line of the kubelet. It is set by {by}"),
        },
    });
    let programs = [(Kubelet, &facts.feature_gates), (KubeProxy, &facts.kube_proxy_gates)];
    let gates = programs
        .into_iter()
        .flat_map(|(program, gates)| gates.iter().flatten().filter_map(move |text| refused_gate(program, text, minor)));
    flags.chain(gates).collect()
}

/// A gate of the table, as `Name=true`, that a program of the minor does not start with, or is announced not to.
pub fn refused_gate(program: GatedProgram, text: &str, minor: Minor) -> Option<EndedSetting> {
    let (name, value) = text.split_once('=')?;
    let (gate, value) = (feature_gate(name)?, value.parse().ok()?);
    let refuses = match gate_state(gate.name, value, minor) {
        GateState::Unknown => "does not know",
        GateState::Locked(_) => "has locked to the other value",
        GateState::Accepted | GateState::NotChecked => {
            announced(gate.name).filter(|row| row.minor <= minor && row.concerns(value))?;
            "is announced to refuse"
        }
    };
    Some(EndedSetting {
        problem: format!(
            "{} {minor} does not start with the feature gate {}={value}, which it {refuses}",
            program.name(),
            gate.name
        ),
        remedy: match (program, gate.name) {
            (Kubelet, _) => "Remove it from featureGates in the configuration of the kubelet",
            (KubeProxy, WIN_DSR) => {
                "Remove it from --feature-gates or featureGates of kube-proxy. RKE2 sets it itself: upgrade to a release that does not"
            }
            (KubeProxy, _) => "Remove it from --feature-gates or featureGates of kube-proxy",
        }
        .to_owned(),
    })
}

/// The directory of the CNI that containerd of the node ignores, or a later one will.
pub fn ignored_by_containerd(node: &WindowsNode, facts: &NodeFacts) -> Option<EndedSetting> {
    let installed = node.runtime.as_ref().ok().and_then(|runtime| runtime.containerd())?;
    facts.cni_bin_dir.filter(|is_set| *is_set)?;
    Some(without_bin_dir(installed))
}

/// What happens to a `bin_dir` in a file of configuration version 3 or later, with this containerd.
pub fn without_bin_dir(installed: ContainerdVersion) -> EndedSetting {
    let ignores = match installed < WITHOUT_BIN_DIR {
        true => format!("containerd {WITHOUT_BIN_DIR} and later ignore"),
        false => format!("containerd {installed} ignores"),
    };
    EndedSetting {
        problem: format!("{ignores} cni.bin_dir in its file, and look for the plugins of the CNI in {CNI_BIN_DIR}"),
        remedy: "Write bin_dirs with a list instead, which containerd 2.1 and later read, before the upgrade"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;

    fn node(kubelet: &str, containerd: &str) -> WindowsNode {
        let info = json!({"kubeletVersion": kubelet, "containerRuntimeVersion": containerd});
        serde_json::from_value::<Node>(json!({"metadata": {"name": "a"}, "status": {"nodeInfo": info}})).unwrap().into()
    }

    fn facts(flags: &[&str], gates: &[&str], bin_dir: Option<bool>) -> NodeFacts {
        let texts = |all: &[&str]| Some(all.iter().map(|one| (*one).to_owned()).collect());
        NodeFacts {
            kubelet_flags: texts(flags),
            feature_gates: texts(gates),
            cni_bin_dir: bin_dir,
            ..NodeFacts::default()
        }
    }

    fn ended(kubelet: &str, containerd: &str, api_server: Option<u32>, facts: &NodeFacts) -> Vec<String> {
        let found = ended_settings(&node(kubelet, containerd), facts, api_server.map(Minor));
        found.into_iter().map(|one| format!("{}. {}", one.problem, one.remedy)).collect()
    }

    #[test]
    fn the_next_minor_of_the_kubelet_or_that_of_the_api_server_refuses_flags_and_gates() {
        let cloud_config = "does not start with the flag --cloud-config. Remove it from the command line of the kubelet. It is set by \
                            RKE2 with a cloud provider up to its releases of January 2026: upgrade RKE2 first";
        let gate = "Remove it from featureGates in the configuration of the kubelet";
        let none = facts(&["config", "v"], &["WinOverlay=true", "OfAFork=true"], Some(false));
        let rke2 = facts(&["config", "cloud_config"], &[], None);
        let locked = facts(&[], &["WinOverlay=false"], None);
        let removed = facts(&[], &["ComponentSLIs=true"], None);
        let next = facts(&[], &["StrictIPCIDRValidation=false", "WindowsCPUAndMemoryAffinity=false"], None);
        let proxy = |gate: &str| NodeFacts { kube_proxy_gates: Some(vec![gate.to_owned()]), ..NodeFacts::default() };
        let (dsr, slis) = (proxy("WinDSR=true"), proxy("ComponentSLIs=true"));
        let flag = "Remove it from --feature-gates or featureGates of kube-proxy";
        let table: [(&str, Option<u32>, &NodeFacts, Vec<String>); 12] = [
            ("v1.36.0", None, &dsr, vec![]),
            (
                "v1.37.2",
                None,
                &dsr,
                vec![format!(
                    "kube-proxy 1.38 does not start with the feature gate WinDSR=true, which it is announced to refuse. {flag}. \
                     RKE2 sets it itself: upgrade to a release that does not"
                )],
            ),
            (
                "v1.34.0",
                None,
                &slis,
                vec![format!(
                    "kube-proxy 1.35 does not start with the feature gate ComponentSLIs=true, which it does not know. {flag}"
                )],
            ),
            ("v1.33.7+rke2r1", None, &rke2, vec![format!("kubelet 1.34 {cloud_config}")]),
            ("v1.32.1", None, &rke2, vec![]),
            ("v1.32.1", Some(34), &rke2, vec![format!("kubelet 1.34 {cloud_config}")]),
            ("", None, &rke2, vec![]),
            ("v1.33.7", None, &none, vec![]),
            (
                "v1.33.7",
                None,
                &locked,
                vec![format!(
                    "kubelet 1.34 does not start with the feature gate WinOverlay=false, which it has locked to the other value. {gate}"
                )],
            ),
            (
                "v1.34.0",
                None,
                &removed,
                vec![format!(
                    "kubelet 1.35 does not start with the feature gate ComponentSLIs=true, which it does not know. {gate}"
                )],
            ),
            ("v1.36.0", None, &next, vec![]),
            (
                "v1.37.2",
                None,
                &next,
                vec![format!(
                    "kubelet 1.38 does not start with the feature gate StrictIPCIDRValidation=false, which it is announced to refuse. \
                 {gate}"
                )],
            ),
        ];
        for (kubelet, api_server, facts, expected) in table {
            assert_eq!(ended(kubelet, "containerd://2.3.4", api_server, facts), expected, "{kubelet} {api_server:?}");
        }
    }

    #[test]
    fn a_runtime_without_a_call_ends_with_1_38() {
        let of = |kubelet: &str, runtime: &str, api_server| ended(kubelet, runtime, api_server, &NodeFacts::default());
        let fails = "kubelet 1.38 is announced to fail at its start (1.38.0-beta.0 does not yet) with";
        let old = vec![format!("{fails} containerd 1.7.36. Upgrade it to 2.0.0 or later first")];
        let docker = vec![format!(
            "{fails} cri-dockerd before 0.3.17, whose version nodes do not report. Check it on the nodes, and upgrade it first"
        )];
        let table = [
            ("v1.37.2", "containerd://1.7.36", None, old.clone()),
            ("v1.37.2", "containerd://2.0.0", None, vec![]),
            ("v1.37.2", "docker://28.1.0", None, docker),
            ("v1.36.0", "containerd://1.7.36", None, vec![]),
            ("v1.36.0", "containerd://1.7.36", Some(38), old),
            ("v1.38.0", "containerd://1.7.36", None, vec![]),
            ("", "containerd://1.7.36", Some(38), vec![]),
            ("v1.37.2", "cri-o://1.30.0", None, vec![]),
        ];
        for (kubelet, runtime, api_server, expected) in table {
            assert_eq!(of(kubelet, runtime, api_server), expected, "{kubelet} {runtime} {api_server:?}");
        }
    }

    #[test]
    fn a_directory_of_the_cni_is_ignored_from_containerd_2_4_on() {
        let of = |containerd: &str, bin_dir| ended("v1.36.0", containerd, None, &facts(&[], &[], bin_dir));
        let rest = r"cni.bin_dir in its file, and look for the plugins of the CNI in C:\Program Files\containerd\cni\bin. Write bin_dirs with a list instead, which containerd 2.1 and later read, before the upgrade";
        let table = [
            ("containerd://2.3.7", Some(true), vec![format!("containerd 2.4.0 and later ignore {rest}")]),
            ("containerd://2.4.2", Some(true), vec![format!("containerd 2.4.2 ignores {rest}")]),
            ("containerd://2.4.2", Some(false), vec![]),
            ("containerd://2.4.2", None, vec![]),
            ("docker://27.5.1", Some(true), vec![]),
        ];
        for (containerd, bin_dir, expected) in table {
            assert_eq!(of(containerd, bin_dir), expected, "{containerd} {bin_dir:?}");
        }
    }
}
