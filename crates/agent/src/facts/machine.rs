//! The facts about a machine that PowerShell reads: one script, which changes nothing, and prints a line for each value. The values do
//! not depend on the language of Windows.
//!
//! Sources, read in 2026-11: MicrosoftDocs/win32, `desktop-src/SecProv/win32-encryptablevolume.md` (`DeviceID` is that of
//! `Win32_Volume`; the class comes with the feature BitLocker, so that without its namespace no volume is protected),
//! msdn.microsoft.com, `aa394239` (`Win32_OperatingSystem`) and `aa394102` (`Win32_ComputerSystem`);
//! MicrosoftDocs/windows-driver-docs, `storage/msft-volume.md`; MicrosoftDocs/windows-powershell-docs, `storage/Get-Volume.md`;
//! kubernetes-csi/csi-proxy, README (the names of the pipes).

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use crate::{host::Host, script};

const SCRIPT: &str = include_str!("machine.ps1");
/// How long the script may take.
const LIMIT: Duration = Duration::from_secs(60);
/// `ProtectionStatus` of a volume.
const PROTECTED: &str = "1";
const UNPROTECTED: &str = "0";
/// What the path of a volume of this machine begins with, such as `\\?\Volume{…}\`.
const VOLUME_PATH: &str = r"\\?\";
/// The end of a list that was read.
const READ: &str = "read";

/// The answers. What the script did not print is not known.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MachineAnswers {
    /// The security descriptor of a directory, by its index.
    descriptors: BTreeMap<String, String>,
    /// The volume of a directory, by its index.
    volumes: BTreeMap<String, Volume>,
    encryption: BTreeMap<String, String>,
    encryption_is_read: bool,
    /// When Windows was started.
    pub booted_at: Option<Timestamp>,
    /// Whether it belongs to a domain.
    pub domain_joined: Option<bool>,
    pipes: Vec<String>,
    pipes_are_read: bool,
}

/// A volume: its path, and its sizes in bytes.
#[derive(Debug, PartialEq, Eq)]
struct Volume {
    path: String,
    size: u64,
    free: u64,
}

impl MachineAnswers {
    /// Runs the script for these directories.
    pub fn read(host: &dyn Host, directories: &[String]) -> Self {
        Self::parse(&script::output(host, &format!("$directories = {}\n{SCRIPT}", script::array(directories)), LIMIT))
    }

    fn parse(output: &str) -> Self {
        let mut machine = Self::default();
        for line in output.lines() {
            match line.split('|').collect::<Vec<_>>()[..] {
                ["acl", index, descriptor] => drop(machine.descriptors.insert(index.into(), descriptor.into())),
                ["volume", index, path, size, free] if path.starts_with(VOLUME_PATH) => {
                    if let (Ok(size), Ok(free)) = (size.parse(), free.parse()) {
                        machine.volumes.insert(index.into(), Volume { path: path.to_lowercase(), size, free });
                    }
                }
                ["encryption", READ] => machine.encryption_is_read = true,
                ["encryption", volume, status] => drop(machine.encryption.insert(volume.to_lowercase(), status.into())),
                ["boot", time] => machine.booted_at = time.parse().ok(),
                ["domain", joined] => machine.domain_joined = joined.to_ascii_lowercase().parse().ok(),
                ["pipe", READ] => machine.pipes_are_read = true,
                ["pipe", path] => machine.pipes.extend(path.rsplit('\\').next().map(str::to_owned)),
                _ => {}
            }
        }
        machine
    }

    /// The security descriptor of a directory.
    pub fn descriptor(&self, index: usize) -> Option<&str> {
        self.descriptors.get(&index.to_string()).map(String::as_str)
    }

    /// Whether BitLocker protects the volume of a directory. It can only protect the volumes that it lists.
    pub fn is_encrypted(&self, index: usize) -> Option<bool> {
        let volume = self.volumes.get(&index.to_string()).filter(|_| self.encryption_is_read)?;
        match self.encryption.get(&volume.path).map(String::as_str) {
            Some(PROTECTED) => Some(true),
            Some(UNPROTECTED) | None => Some(false),
            Some(_) => None,
        }
    }

    /// How much of the volume of a directory is used, in percent, as the kubelet computes it: kubernetes/kubernetes,
    /// `pkg/kubelet/images/image_gc_manager.go`.
    pub fn used_percent(&self, index: usize) -> Option<u64> {
        let volume = self.volumes.get(&index.to_string())?;
        Some(100_u64.saturating_sub(volume.free.checked_mul(100)?.checked_div(volume.size)?))
    }

    /// The names of the pipes of csi-proxy, sorted.
    pub fn csi_proxy_pipes(&self) -> Option<Vec<String>> {
        let mut pipes = self.pipes.clone();
        pipes.sort();
        self.pipes_are_read.then_some(pipes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        script::POWERSHELL,
        tests::fake::{FakeHost, output},
    };

    /// The path of a volume, from the documentation of `CreateFile`.
    const C: &str = r"\\?\Volume{4c1b02c1-d990-11dc-99ae-806e6f6e6963}\";

    fn machine(lines: &[&str]) -> MachineAnswers {
        MachineAnswers::parse(&lines.join("\r\n").replace("VOLUME", C))
    }

    #[test]
    fn a_volume_is_protected_if_its_status_is_1_and_not_known_if_it_is_2() {
        let volume = "volume|0|VOLUME|499744108544|25351446855";
        let table: &[(&[&str], Option<bool>)] = &[
            (&[volume, "encryption|VOLUME|1", "encryption|read"], Some(true)),
            (&[volume, "encryption|VOLUME|0", "encryption|read"], Some(false)),
            (&[volume, "encryption|VOLUME|2", "encryption|read"], None),
            // Without the feature BitLocker, and with another volume only.
            (&[volume, "encryption|read"], Some(false)),
            (&[volume, r"encryption|\\?\Volume{0}\|1", "encryption|read"], Some(false)),
            (&[volume], None),
            (&[volume, "encryption|VOLUME|1"], None),
            (&["encryption|VOLUME|1", "encryption|read"], None),
        ];
        for (lines, expected) in table {
            assert_eq!(machine(lines).is_encrypted(0), *expected, "{lines:?}");
            assert_eq!(machine(lines).is_encrypted(1), None, "nothing is known of another directory");
        }
    }

    #[test]
    fn the_used_part_of_a_volume_is_that_of_the_kubelet() {
        for (volume, expected) in [
            // MicrosoftDocs/windows-powershell-docs, `Get-Volume.md`: 23.61 GB of 465.42 GB remain.
            ("volume|0|VOLUME|499740906946|25351044366", Some(95)),
            ("volume|0|VOLUME|1000|1000", Some(0)),
            ("volume|0|VOLUME|1000|149", Some(86)),
            ("volume|0|VOLUME|0|0", None),
            ("volume|0|VOLUME||", None),
            (r"volume|0|\server\share|1000|500", None),
        ] {
            assert_eq!(machine(&[volume]).used_percent(0), expected, "{volume}");
        }
    }

    #[test]
    fn what_the_script_does_not_print_is_not_known() {
        assert_eq!(machine(&[]), MachineAnswers::default());
        let all = machine(&[
            "acl|0|D:P(A;OICI;GA;;;BA)",
            "boot|2026-11-20T07:00:00.5000000Z",
            "domain|False",
            r"pipe|\\.\pipe\csi-proxy-volume-v1",
            r"pipe|\\.\pipe\csi-proxy-disk-v1",
            "pipe|read",
            "a line of a profile",
        ]);
        assert_eq!((all.descriptor(0), all.descriptor(1)), (Some("D:P(A;OICI;GA;;;BA)"), None));
        assert_eq!(all.booted_at, "2026-11-20T07:00:00.5Z".parse().ok());
        assert_eq!(all.domain_joined, Some(false));
        assert_eq!(all.csi_proxy_pipes(), Some(vec!["csi-proxy-disk-v1".to_owned(), "csi-proxy-volume-v1".to_owned()]));
        assert_eq!(machine(&[r"pipe|\\.\pipe\csi-proxy-disk-v1"]).csi_proxy_pipes(), None);
        assert_eq!(machine(&["pipe|read"]).csi_proxy_pipes(), Some(Vec::new()));
    }

    #[test]
    fn the_script_gets_the_paths_as_strings() {
        let host = FakeHost::new("", []);
        host.0.borrow_mut().programs.push(("powershell.exe", "-NoProfile", output(0, "domain|True\r\n", "")));
        let machine = MachineAnswers::read(&host, &[r"C:\var\lib\kubelet".to_owned(), r"D:\it's".to_owned()]);
        assert_eq!(machine.domain_joined, Some(true));
        let run = host.0.borrow().runs[0].clone();
        let begin = format!(
            "{POWERSHELL} -NoProfile -NonInteractive -ExecutionPolicy Bypass -Command $directories = @('C:\\var\\lib\\kubelet', 'D:\\it''s')\n"
        );
        assert!(run.starts_with(&begin), "{run}");
        assert!(!SCRIPT.contains('"'), "double quotes would have to be escaped");
    }
}
