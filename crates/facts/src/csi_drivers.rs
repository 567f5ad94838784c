//! CSI drivers: the in-tree volume types that Kubernetes redirects to them, and what their node plugins do on Windows.
//!
//! Sources, read on 2026-11-29:
//! - the redirections: kubernetes/csi-translation-lib v0.37.2, `plugins`. Kubernetes removed the in-tree drivers in 1.26 (cinder), 1.27
//!   (awsElasticBlockStore, azureDisk), 1.28 (gcePersistentDisk), 1.30 (azureFile, vsphereVolume) and 1.36 (portworxVolume):
//!   kubernetes/website, `docs/reference/storage/volume-types.md`, "Removed volume types" (at d239a6ba);
//! - [`CsiDriver::replaces`]: aws-ebs-csi-driver (429e202e), `pkg/driver/node.go` and `pkg/mounter/mount_windows_proxyV2.go`;
//!   azuredisk-csi-driver (d983d613), `docs/driver-parameters.md` and `pkg/mounter/safe_mounter_host_process_windows.go`; vsphere-csi-driver
//!   (bf809025), `GetVolumeCapabilityFsType` in `pkg/csi/service/osutils/windows_os_utils.go`. gcp-compute-persistent-disk-csi-driver
//!   (b560165c), `pkg/gce-pd-csi-driver/utils_windows.go`, fails with anything but NTFS;
//! - [`CsiDriver::needs_csi_proxy`]: the caveats of [`super::add_ons`]; vsphere-csi-driver, `manifests/guestcluster/1.31/pvcsi.yaml`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsiDriver {
    pub name: &'static str,
    /// The field of the in-tree volume type that it replaces, and its provisioner.
    pub in_tree: Option<(&'static str, &'static str)>,
    /// The file systems of Linux in place of which its node plugin for Windows formats and mounts NTFS.
    pub replaces: &'static [&'static str],
    /// Whether its node plugin for Windows needs csi-proxy on each node, unless it runs in HostProcess containers.
    pub needs_csi_proxy: bool,
}

#[rustfmt::skip]
pub const CSI_DRIVERS: &[CsiDriver] = &[
    CsiDriver { name: "cinder.csi.openstack.org", in_tree: Some(("cinder", "kubernetes.io/cinder")), replaces: &[], needs_csi_proxy: false },
    CsiDriver { name: "csi.vsphere.vmware.com", in_tree: Some(("vsphereVolume", "kubernetes.io/vsphere-volume")), replaces: &["ext4"], needs_csi_proxy: true },
    CsiDriver { name: "disk.csi.azure.com", in_tree: Some(("azureDisk", "kubernetes.io/azure-disk")), replaces: &LINUX_FILE_SYSTEMS, needs_csi_proxy: true },
    CsiDriver { name: "ebs.csi.aws.com", in_tree: Some(("awsElasticBlockStore", "kubernetes.io/aws-ebs")), replaces: &["ext3", "ext4", "xfs"], needs_csi_proxy: true },
    CsiDriver { name: "file.csi.azure.com", in_tree: Some(("azureFile", "kubernetes.io/azure-file")), replaces: &[], needs_csi_proxy: true },
    CsiDriver { name: "pd.csi.storage.gke.io", in_tree: Some(("gcePersistentDisk", "kubernetes.io/gce-pd")), replaces: &[], needs_csi_proxy: true },
    CsiDriver { name: "pxd.portworx.com", in_tree: Some(("portworxVolume", "kubernetes.io/portworx-volume")), replaces: &[], needs_csi_proxy: false },
    CsiDriver { name: "smb.csi.k8s.io", in_tree: None, replaces: &[], needs_csi_proxy: true },
];

/// File systems that Linux has and Windows does not.
pub const LINUX_FILE_SYSTEMS: [&str; 5] = ["btrfs", "ext2", "ext3", "ext4", "xfs"];

/// Whether a parameter of a StorageClass has the file system (`plugins/in_tree_volume.go` of the library).
pub fn is_fs_type(parameter: &str) -> bool {
    ["csi.storage.k8s.io/fstype", "fstype"].contains(&parameter.to_lowercase().as_str())
}

/// The row of a driver, if it is known.
pub fn named(name: &str) -> Option<&'static CsiDriver> {
    CSI_DRIVERS.iter().find(|driver| driver.name == name)
}

/// The name of the driver of a provisioner: that which replaces an in-tree one, else the same.
pub fn of_provisioner(provisioner: &str) -> &str {
    let replaced = CSI_DRIVERS.iter().find(|driver| driver.in_tree.is_some_and(|(_, own)| own == provisioner));
    replaced.map_or(provisioner, |driver| driver.name)
}

/// Whether a volume with this file system cannot be mounted on Windows by a driver, as far as it is known.
pub fn is_unsupported(driver: &str, file_system: &str) -> bool {
    LINUX_FILE_SYSTEMS.contains(&file_system)
        && named(driver).is_none_or(|driver| !driver.replaces.contains(&file_system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_of_linux_is_unsupported_unless_the_driver_replaces_it() {
        let table = [
            ("disk.csi.azure.com", "xfs", false),
            ("ebs.csi.aws.com", "ext4", false),
            ("csi.vsphere.vmware.com", "ext4", false),
            ("csi.vsphere.vmware.com", "xfs", true),
            ("pd.csi.storage.gke.io", "ext4", true),
            ("pd.csi.storage.gke.io", "ntfs", false),
            ("csi.example.com", "ext4", true),
            ("csi.example.com", "", false),
        ];
        for (driver, file_system, expected) in table {
            assert_eq!(is_unsupported(driver, file_system), expected, "{driver} {file_system}");
        }
        assert_eq!(of_provisioner("kubernetes.io/aws-ebs"), "ebs.csi.aws.com");
        assert_eq!(of_provisioner("smb.csi.k8s.io"), "smb.csi.k8s.io");
    }
}
