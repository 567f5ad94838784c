//! Documents for platforms that make nodes themselves, and what they lose of a profile.
//!
//! Each platform takes some settings of a profile ([`winpool_facts::platforms`]). Its document contains these, and the
//! report lists the others, with what happens instead.

mod aks;
mod eks;
mod flags;
mod karpenter;
mod report;
mod rke2;
mod selection;

use std::collections::BTreeMap;

pub use report::{LossReport, Lost};

use winpool_api::Taint;
use winpool_facts::{Build, Minor, platforms::Platform};

use super::comment_lines;
use crate::profile::Profile;

/// The text that separates documents on standard output: documents in YAML are one stream, scripts are not separated.
pub const fn separator(platform: Platform) -> &'static str {
    match platform {
        Platform::Aks => "\n",
        _ => "---\n",
    }
}

/// The nodes to be made: a pool, and one of its rendered configurations.
#[derive(Clone, Copy, Debug)]
pub struct NodesToMake<'a> {
    pub pool: &'a str,
    pub build: Build,
    pub taints: &'a [Taint],
    pub labels: &'a BTreeMap<String, String>,
    /// The profile, if the pool has one.
    pub profile: Option<&'a Profile>,
    pub kubelet: Minor,
    /// The pause image, with its tag; `None` leaves that of the node.
    pub pause_image: Option<&'a str>,
    /// The KubeletConfiguration of the profile, as a layer.
    pub kubelet_yaml: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformDocuments {
    /// The documents. The first begins with the report as a comment.
    pub files: BTreeMap<String, String>,
    pub report: LossReport,
}

/// The documents of a node group for a platform. Whether an agent of RKE2 needs flags depends on its kubelet.
///
/// # Errors
/// The reason why the platform cannot make these nodes: it has no image with this build of Windows, or not in this minor.
pub fn documents(platform: Platform, nodes: &NodesToMake) -> Result<PlatformDocuments, String> {
    let platform = match platform {
        Platform::Rke2 | Platform::Rke2WithFlags => Platform::rke2(nodes.kubelet),
        other => other,
    };
    let image = platform.image(nodes.build);
    if platform.selects_image() && image.is_none() {
        return Err(format!("{} has no known image with Windows {}", platform.title(), nodes.build));
    }
    if let Some(first) = image.and_then(|image| image.since).filter(|first| nodes.kubelet < *first) {
        let title = platform.title();
        return Err(format!(
            "{title} has no Windows {} in Kubernetes {}, the first version with it is {first} (--kubernetes {first})",
            nodes.build, nodes.kubelet
        ));
    }
    let retirement = platform.retirement(nodes.build);
    if let Some(last) = retirement.and_then(|one| one.last_minor).filter(|last| nodes.kubelet > *last) {
        let title = platform.title();
        return Err(format!(
            "{title} has no Windows {} in Kubernetes {}, the last version with it is {last} (--kubernetes {last})",
            nodes.build, nodes.kubelet
        ));
    }
    let image = image.map_or("", |image| image.name);
    let report = report::report(platform, nodes);
    let comment = comment_lines(&format!("Pool {}: {report}", nodes.pool));
    let files = match platform {
        Platform::Eks => file("nodegroup.yaml", eks::cluster_config(nodes, &report, image, &comment)),
        Platform::Aks => file("nodepool.sh", aks::script(nodes, &report, image, &comment)),
        Platform::Karpenter | Platform::KarpenterUserData => {
            file("karpenter.yaml", karpenter::objects(nodes, &report, image, &comment))
        }
        Platform::Rke2 | Platform::Rke2WithFlags => rke2::files(platform, nodes, &report, &comment),
    };
    Ok(PlatformDocuments { files, report })
}

fn file(name: &str, text: String) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), text)])
}

#[cfg(test)]
mod tests;
