//! The symptom that registries show.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod};
use winpool_core::{
    image::{Compatibility, EvidenceSource, HostNode, ImageEvidence, Lookup, Reference, RuntimeReport},
    masking::masked,
    node::WindowsNode,
};
use winpool_facts::version_compatibility::{Isolation, UtilityVm};
use winpool_workload::runtime_report;

use crate::doctor::{
    case::{Case, Checked, Observation, PodState, Undetermined, containers, is_host_process, node_of, unless_unknown},
    evidence::{Evidence, ImageContent, RegistryImage, Unavailable},
};

/// The images that did not run in the pods that are not ready: those whose platforms show a symptom.
pub fn waiting_images(evidence: &Evidence) -> Result<BTreeSet<String>, Unavailable> {
    let pods = Case::new(evidence).pods_in(PodState::NotReady)?;
    Ok(pods.into_iter().flat_map(unstarted).map(|(_, image)| image.to_owned()).collect())
}

/// What the lookup of an image has shown.
pub fn registry_image(image: String, lookup: &Lookup) -> RegistryImage {
    let content = match lookup {
        Lookup::Found(platforms) => ImageContent::Read(platforms.clone()),
        Lookup::Failed(reason) => ImageContent::Unread(masked(&reason.to_string())),
    };
    RegistryImage { image, content }
}

/// The containers of a pod that never ran, with their images.
fn unstarted(pod: &Pod) -> impl Iterator<Item = (&str, &str)> {
    let started = containers(pod).filter(|one| runtime_report(one) == Some(RuntimeReport::Started));
    let started: BTreeSet<_> = started.map(|one| one.name.as_str()).collect();
    let lists =
        pod.spec.iter().flat_map(|spec| [spec.init_containers.as_deref().unwrap_or_default(), &spec.containers]);
    let unstarted = lists.flatten().filter(move |one| !started.contains(one.name.as_str()));
    unstarted.filter_map(|one| Some((one.name.as_str(), one.image.as_deref()?)))
}

/// Images without a variant that runs on the node of their pod.
pub fn image_platforms(case: &Case<'_>) -> Checked {
    let looked_up: BTreeMap<&str, &ImageContent> =
        case.evidence.images()?.iter().map(|one| (one.image.as_str(), &one.content)).collect();
    let hosts: BTreeMap<String, HostNode> = case.evidence.nodes()?.iter().filter_map(host).collect();
    let (mut observed, mut unknown) = (Vec::new(), BTreeSet::new());
    for pod in case.pods_in(PodState::NotReady)? {
        for (container, image) in unstarted(pod) {
            match incompatibility(pod, image, hosts.get(node_of(pod)), looked_up.get(image).copied()) {
                Ok(None) => {}
                Ok(Some(text)) => {
                    let text = format!("{image} {text}");
                    observed.push(Observation::of_pod(pod, format!("container {container}"), text));
                }
                Err(why) => drop(unknown.insert(format!("{image}: {why}"))),
            }
        }
    }
    unless_unknown(observed, unknown.into_iter().collect(), |what| {
        Undetermined::NotShown(format!("the platforms do not show it ({what})"))
    })
}

fn host(node: &Node) -> Option<(String, HostNode)> {
    let architecture = node.status.as_ref()?.node_info.as_ref()?.architecture.clone();
    let node = WindowsNode::from(node.clone());
    let (os, containerd) = (node.os.clone().ok()?, node.containerd());
    Some((node.name, HostNode { os, architecture, containerd }))
}

/// Why an image does not run on the node of its pod; `Err` if that is not known.
fn incompatibility(
    pod: &Pod,
    image: &str,
    host: Option<&HostNode>,
    content: Option<&ImageContent>,
) -> Result<Option<String>, String> {
    let reference: Reference = image.parse().map_err(|_| "this is no image reference".to_owned())?;
    let host = host.ok_or("the node does not report its Windows version")?;
    let lookup = match content {
        Some(ImageContent::Read(platforms)) => Lookup::Found(platforms.clone()),
        Some(ImageContent::Unread(why)) => return Err(why.clone()),
        None => return Err("it is not read".to_owned()),
    };
    let evidence = ImageEvidence { report: None, lookup: Some(&lookup), reference: &reference };
    let with = |isolation| match evidence.compatibility(host, isolation, is_host_process(pod)) {
        Compatibility::Incompatible(EvidenceSource::Registry, why) => Some(why.to_string()),
        _ => None,
    };
    let class = pod.spec.as_ref().and_then(|spec| spec.runtime_class_name.as_deref());
    match (with(Isolation::Process), class) {
        // The handler of a RuntimeClass may start a virtual machine, which runs images for older versions.
        (Some(_), Some(class)) if with(Isolation::HyperV(UtilityVm::OfAnyBuild)).is_none() => {
            Err(format!("it runs with Hyper-V isolation only, which the handler of RuntimeClass {class} may have"))
        }
        (why, _) => Ok(why),
    }
}
