//! RuntimeClasses of other operating systems, which a pool must not take: new pods that name one would be scheduled to Windows nodes, or
//! rejected.

use winpool_core::{kubernetes::WorkloadName, node::WindowsNode};
use winpool_facts::runtimes::is_windows_handler;
use winpool_workload::{Scheduling, System, Template};

use crate::pool::{RuntimeClassView, Snapshot};

/// Why a class is not one of Windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherSystem {
    /// No node of the pool has its handler.
    Handler,
    /// It selects nodes of another system.
    Selector,
    /// Pods of this workload name it.
    Workload(WorkloadName),
    /// It may be: the pods are not known yet.
    Unknown,
}

/// Why a class with this handler is not one of Windows; `None` if it is, or does not exist and can be.
pub fn other_system(
    snapshot: &Snapshot,
    existing: Option<&RuntimeClassView>,
    handler: &str,
    members: &[&WindowsNode],
) -> Option<OtherSystem> {
    if !is_windows_handler(handler) && !members.iter().any(|node| node.reports(handler)) {
        return Some(OtherSystem::Handler);
    }
    let existing = existing?;
    if Scheduling::of_class(&existing.object).system() == Some(System::Linux) {
        return Some(OtherSystem::Selector);
    }
    if snapshot.pods_are_awaited() {
        return Some(OtherSystem::Unknown);
    }
    let name = existing.object.metadata.name.as_deref().unwrap_or_default();
    linux_workload(snapshot, name).map(OtherSystem::Workload)
}

/// A workload for Linux that names a class: by what it requires, or because it runs on a node that is not a Windows node. The template
/// of a workload without pods that requires no system says nothing.
fn linux_workload(snapshot: &Snapshot, class: &str) -> Option<WorkloadName> {
    let names = |template: &Template| template.runtime_class.as_deref() == Some(class);
    let requires_linux = |template: &Template| template.system(|_| None) == Some(System::Linux);
    let is_elsewhere = |node: &Option<String>| node.as_ref().is_some_and(|node| !snapshot.nodes.contains(node));
    let pods = snapshot.pods.iter().flat_map(|pods| pods.values()).filter(|pod| !pod.finished && names(&pod.template));
    let mut pods = pods.filter(|pod| requires_linux(&pod.template) || is_elsewhere(&pod.node));
    let of_pod = pods.next().map(|pod| pod.workload.as_ref().clone());
    of_pod.or_else(|| {
        let mut templates =
            snapshot.controllers.iter().filter(|it| names(&it.template) && requires_linux(&it.template));
        templates.next().map(|controller| controller.workload.as_ref().clone())
    })
}
