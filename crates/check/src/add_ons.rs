//! Whether the add-ons of a pool fit its nodes: CNI, CSI drivers, kube-proxy and agents.

use std::{collections::BTreeSet, fmt::Write as _};

use serde::Serialize;
use winpool_core::{ForeignText, text::capitalised};
use winpool_facts::{
    Minor, OsVersion,
    add_ons::{Finding, Fit, Verdict, verdict, version_text},
};
use winpool_workload::{Container, Template, WorkloadName};

/// What is known about an image of an add-on on the nodes of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddOnFit {
    pub fit: Fit,
    /// The kind, namespace and name of the workload.
    pub workload: String,
    pub image: String,
    /// The name of the add-on; `None` for an image without a row in the tables.
    pub add_on: Option<&'static str>,
    pub version: Option<String>,
    /// Worst first.
    pub findings: Vec<Finding>,
}

impl AddOnFit {
    /// The image, why it fits or not, what to do, and the sources.
    pub fn message(&self) -> String {
        let name = match (self.add_on, &self.version) {
            (Some(add_on), Some(version)) => format!(" ({add_on} {version})"),
            (Some(add_on), None) => format!(" ({add_on})"),
            (None, _) => String::new(),
        };
        let mut message = format!("{}{name}:", self.image);
        // What fits is reported only if everything does.
        for Finding { reason, remedy, source, .. } in
            self.findings.iter().filter(|one| one.fit == self.fit || one.fit < Fit::Fits)
        {
            let _ = write!(message, " {reason}");
            if !remedy.is_empty() {
                let _ = write!(message, ". {}", capitalised(remedy));
            }
            if !source.is_empty() {
                let _ = write!(message, " ({source})");
            }
            message.push(';');
        }
        message.trim_end_matches(';').to_owned()
    }
}

/// The add-ons among workloads on nodes with these versions of Windows, worst first: the images of DaemonSets, of HostProcess
/// containers, and those in the tables. Applications are none.
pub fn of<'w>(
    workloads: impl Iterator<Item = (&'w WorkloadName, &'w Template)>,
    hosts: &BTreeSet<OsVersion>,
    minor: Option<Minor>,
) -> Vec<AddOnFit> {
    let containers =
        workloads.flat_map(|(workload, template)| template.containers.iter().map(move |one| (workload, one)));
    let fits: BTreeSet<AddOnFit> =
        containers.filter_map(|(workload, container)| of_container(workload, container, hosts, minor)).collect();
    fits.into_iter().collect()
}

/// The worst verdict about a container on any of the nodes; `None` if it is none of an add-on.
fn of_container(
    workload: &WorkloadName,
    container: &Container,
    hosts: &BTreeSet<OsVersion>,
    minor: Option<Minor>,
) -> Option<AddOnFit> {
    let judged = hosts.iter().map(|host| verdict(container.image.raw(), container.host_process, *host, minor));
    let verdict = judged.min_by_key(Verdict::fit)?;
    let is_add_on = workload.kind == "DaemonSet" || container.host_process || verdict.add_on.is_some();
    is_add_on.then(|| AddOnFit {
        fit: verdict.fit(),
        workload: workload.to_string(),
        image: ForeignText::from(container.image.raw()).to_string(),
        add_on: verdict.add_on,
        version: verdict.version.map(version_text),
        findings: verdict.findings,
    })
}
