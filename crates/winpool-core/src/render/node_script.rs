//! A configuration as one PowerShell script, for machines that neither kubeadm nor Cluster API configures: an image
//! pipeline, configuration management, or the user data of a cloud runs it.
//!
//! The script writes files, sets the environment of services, and restarts the services. It changes no file of the node:
//! the layers have their own places.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use winpool_api::facts::{
    ContainerRuntime, ContainerdLine,
    cluster_api::{CONTAINERD_DROP_IN, DIRECTORY},
    containerd::CERTS_D,
};

use super::{
    CONTAINERD_TOML, ENVIRONMENT, KUBELET_ARGS, KUBELET_YAML, Variant, comment_lines, environment, hosts,
    kubelet::kubeadm_patch,
    scripts::{STOP_ON_ERRORS, WRITE_TEXT, restart, set_environment, with_windows_line_endings, write_file},
};
use crate::profile::Profile;

/// A configuration of a pool, and the nodes it is for.
#[derive(Clone, Copy, Debug)]
pub struct NodeScript<'a> {
    pub name: &'a str,
    /// Its files, by key.
    pub files: &'a BTreeMap<String, String>,
    pub variants: &'a BTreeSet<Variant>,
    /// The profile, for the environment of the services.
    pub profile: &'a Profile,
}

impl NodeScript<'_> {
    /// The script.
    pub fn text(&self) -> String {
        let service = self.service();
        let places = self.files.iter().flat_map(|(key, content)| self.places(key, content));
        let files: String = places.map(|(path, content)| write_file(&path, &content)).collect();
        let variables: Vec<_> = environment::variables(&self.profile.proxy).collect();
        let environment = if variables.is_empty() {
            String::new()
        } else {
            format!("\n{}", set_environment(&variables, &[service, "kubelet"]))
        };
        let (comment, restart) = (comment_lines(&self.comment()), restart(service));
        with_windows_line_endings(&format!(
            "{comment}{STOP_ON_ERRORS}{WRITE_TEXT}\n{files}{environment}\n{restart}{RESTART_KUBELET}"
        ))
    }

    /// The service of the container runtime.
    fn service(&self) -> &'static str {
        match self.variants.iter().map(|variant| variant.runtime).min() {
            Some(ContainerRuntime::CriDockerd) => "cri-dockerd",
            Some(ContainerRuntime::Containerd(_)) | None => "containerd",
        }
    }

    fn has_drop_ins(&self) -> bool {
        self.variants
            .iter()
            .all(|variant| matches!(variant.runtime, ContainerRuntime::Containerd(line) if is_deep_merge(line)))
    }

    /// Where a file is written, with its content there.
    fn places<'a>(&self, key: &str, content: &'a str) -> Vec<(String, Cow<'a, str>)> {
        let own = |name: &str| windows_path(&format!("{DIRECTORY}/{name}"));
        let path = match key {
            KUBELET_YAML => return self.kubelet_places(content),
            CONTAINERD_TOML if self.has_drop_ins() => windows_path(CONTAINERD_DROP_IN),
            CONTAINERD_TOML => CONTAINERD_PARTIAL.to_owned(),
            _ => match hosts::directory_of_key(key) {
                Some(registry) => windows_path(&format!("{CERTS_D}/{registry}/hosts.toml")),
                None => own(key),
            },
        };
        vec![(path, Cow::Borrowed(content))]
    }

    /// The drop-in of the kubelet and the patch of kubeadm.
    fn kubelet_places<'a>(&self, content: &'a str) -> Vec<(String, Cow<'a, str>)> {
        let own = |name: &str| windows_path(&format!("{DIRECTORY}/{name}"));
        let drop_in = (own("kubelet.conf.d/50-winpool.conf"), Cow::Borrowed(content));
        let patch = self.variants.last().map(|newest| {
            (own("patches/kubeletconfiguration0+merge.yaml"), Cow::Owned(kubeadm_patch(content, newest.kubelet)))
        });
        [drop_in].into_iter().chain(patch).collect()
    }

    /// What the script does, and what is left to do.
    fn comment(&self) -> String {
        let mut text = format!(
            "Writes the files of configuration {} and restarts the services. Run it as administrator, in Windows PowerShell 5.1\n\
             or later. It changes no other file.\n\
             Start the kubelet with --config-dir=C:\\k\\winpool\\kubelet.conf.d, or join with kubeadm and patches.directory\n\
             C:\\k\\winpool\\patches, not with both.\n",
            self.name
        );
        if self.files.contains_key(KUBELET_ARGS) {
            text += "Add the lines of C:\\k\\winpool\\kubelet.args to the command line of the kubelet.\n";
        }
        if self.files.contains_key(CONTAINERD_TOML) {
            text += if self.has_drop_ins() { DROP_IN_COMMENT } else { PARTIAL_COMMENT };
        }
        if self.files.contains_key(ENVIRONMENT) {
            text += "The environment of the services is replaced: other variables in it are lost.\n";
        }
        text
    }
}

/// The settings for containerd 1.x, which are not imported.
const CONTAINERD_PARTIAL: &str = "C:\\Program Files\\containerd\\winpool.partial.toml";
const DROP_IN_COMMENT: &str = "\
containerd reads conf.d\\50-winpool.toml if `imports` in C:\\Program Files\\containerd\\config.toml contains that directory.\n";
const PARTIAL_COMMENT: &str = "\
containerd 1.x has no drop-in files that are merged: an imported file replaces all settings of a plugin, also the network.\n\
Merge C:\\Program Files\\containerd\\winpool.partial.toml into config.toml, and run the script again. It does not write\n\
config.toml.\n";

/// Restarts the kubelet, unless it was restarted as a dependent service, or does not run yet.
const RESTART_KUBELET: &str = "\
if ($dependents.Name -notcontains 'kubelet') {
  Get-Service -Name kubelet -ErrorAction SilentlyContinue | Where-Object { $_.Status -eq 'Running' } | Restart-Service -Force
}
";

fn is_deep_merge(line: ContainerdLine) -> bool {
    use winpool_api::facts::containerd::DropIn;
    matches!(super::containerd::drop_in(line.release(0)), Ok(DropIn::DeepMerge))
}

fn windows_path(path: &str) -> String {
    path.replace('/', "\\")
}
