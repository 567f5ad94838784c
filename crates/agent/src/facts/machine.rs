//! The facts about a machine that PowerShell reads: one script, which changes nothing, and prints a line for each value. The values do
//! not depend on the language of Windows.
//!
//! Sources, read in 2026-11: MicrosoftDocs/win32, `desktop-src/SecProv/win32-encryptablevolume.md` (`DeviceID` is that of
//! `Win32_Volume`; the class comes with the feature BitLocker, so that without its namespace no volume is protected),
//! msdn.microsoft.com, `aa394239` (`Win32_OperatingSystem`) and `aa394102` (`Win32_ComputerSystem`);
//! MicrosoftDocs/windows-driver-docs, `storage/msft-volume.md`; MicrosoftDocs/windows-powershell-docs, `storage/Get-Volume.md`;
//! kubernetes-csi/csi-proxy, README (the names of the pipes); learn.microsoft.com, `cimwin32prov/win32-process` (read 2026-11-29).

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;

use super::{MAX_FLAGS, MAX_GATES, MAX_NAME, is_gate, network::NetworkReading};
use crate::{
    host::Host,
    script::{self, Lines},
};

const SCRIPT: &str = include_str!("machine.ps1");
const LIMIT: Duration = Duration::from_secs(60);
/// `ProtectionStatus` of a volume.
const PROTECTED: &str = "1";
const UNPROTECTED: &str = "0";
/// What the path of a volume of this machine begins with, such as `\\?\Volume{…}\`.
const VOLUME_PATH: &str = r"\\?\";

/// The answers: directories by their index.
pub struct MachineAnswers(Lines);

/// A volume: its path, and its sizes in bytes.
struct Volume<'a> {
    path: &'a str,
    size: u64,
    free: u64,
}

impl MachineAnswers {
    pub fn read(host: &dyn Host, directories: &[String]) -> Self {
        let script = format!("$directories = {}\n{SCRIPT}", script::array(directories));
        Self(Lines::parse(&script::output(host, &script, LIMIT)))
    }

    /// The answer about a directory.
    fn of_directory(&self, name: &str, index: usize) -> Option<&str> {
        let index = index.to_string();
        self.0
            .values(name)
            .filter_map(|line| line.split_once('|'))
            .find(|(of, _)| *of == index)
            .map(|(_, answer)| answer)
    }

    pub fn descriptor(&self, index: usize) -> Option<&str> {
        self.of_directory("acl", index)
    }

    fn volume(&self, index: usize) -> Option<Volume<'_>> {
        let &[path, size, free] = &self.of_directory("volume", index)?.split('|').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (size, free) = (size.parse().ok()?, free.parse().ok()?);
        path.starts_with(VOLUME_PATH).then_some(Volume { path, size, free })
    }

    /// Whether BitLocker protects the volume of a directory. It can only protect the volumes that it lists.
    pub fn is_encrypted(&self, index: usize) -> Option<bool> {
        let volume = self.volume(index).filter(|_| self.0.is_read("encryption"))?;
        let mut statuses = self.0.values("encryption").filter_map(|line| line.split_once('|'));
        match statuses.find(|(path, _)| path.eq_ignore_ascii_case(volume.path)) {
            Some((_, PROTECTED)) => Some(true),
            Some((_, UNPROTECTED)) | None => Some(false),
            Some(_) => None,
        }
    }

    pub fn booted_at(&self) -> Option<Timestamp> {
        self.0.values("boot").next()?.parse().ok()
    }

    pub fn domain_joined(&self) -> Option<bool> {
        self.0.values("domain").next()?.to_ascii_lowercase().parse().ok()
    }

    /// How much of the volume of a directory is used, in percent, as the kubelet computes it: kubernetes/kubernetes,
    /// `pkg/kubelet/images/image_gc_manager.go`.
    pub fn used_percent(&self, index: usize) -> Option<u64> {
        let volume = self.volume(index)?;
        Some(100_u64.saturating_sub(volume.free.checked_mul(100)?.checked_div(volume.size)?))
    }

    /// The names of the flags of the kubelets that run, sorted; `None` if none does.
    pub fn kubelet_flags(&self) -> Option<Vec<String>> {
        self.0.is_read("flag").then(|| flag_names(self.0.values("flag").map(str::to_owned)))
    }

    /// The feature gates in the flags of the kube-proxies that run without a configuration file, sorted; `None` if none does.
    pub fn kube_proxy_gates(&self) -> Option<Vec<String>> {
        let gates = self.0.values("proxygate").flat_map(|gates| gates.split(',')).filter(|gate| is_gate(gate));
        let gates = gates.map(str::to_owned).collect::<BTreeSet<_>>();
        self.0.is_read("proxygate").then(|| gates.into_iter().take(MAX_GATES).collect())
    }

    /// What was read of HNS after a former reading.
    pub fn network(&self, before: Option<&NetworkReading>) -> Option<NetworkReading> {
        NetworkReading::parse(&self.0, before)
    }

    /// The names of the pipes of csi-proxy, sorted.
    pub fn csi_proxy_pipes(&self) -> Option<Vec<String>> {
        let mut pipes: Vec<_> =
            self.0.values("pipe").filter_map(|path| path.rsplit('\\').next()).map(str::to_owned).collect();
        pipes.sort();
        self.0.is_read("pipe").then_some(pipes)
    }
}

/// Names of flags, each once.
pub fn flag_names(names: impl Iterator<Item = String>) -> Vec<String> {
    let is_name = |name: &String| {
        (1..=MAX_NAME).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    names.filter(is_name).collect::<BTreeSet<_>>().into_iter().take(MAX_FLAGS).collect()
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
        MachineAnswers(Lines::parse(&lines.join("\r\n").replace("VOLUME", C)))
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
        let none = machine(&[]);
        assert_eq!((none.descriptor(0), none.booted_at(), none.domain_joined()), (None, None, None));
        assert_eq!((none.is_encrypted(0), none.used_percent(0), none.csi_proxy_pipes()), (None, None, None));
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
        assert_eq!(all.booted_at(), "2026-11-20T07:00:00.5Z".parse().ok());
        assert_eq!(all.domain_joined(), Some(false));
        assert_eq!(all.csi_proxy_pipes(), Some(vec!["csi-proxy-disk-v1".to_owned(), "csi-proxy-volume-v1".to_owned()]));
        assert_eq!(machine(&[r"pipe|\\.\pipe\csi-proxy-disk-v1"]).csi_proxy_pipes(), None);
        assert_eq!(machine(&["pipe|read"]).csi_proxy_pipes(), Some(Vec::new()));
        assert_eq!(none.kubelet_flags(), None);
        let flags = machine(&["flag|v", "flag|cloud-config", "flag|v", "flag|not a name", "flag|read"]).kubelet_flags();
        assert_eq!(flags, Some(vec!["cloud-config".to_owned(), "v".to_owned()]));
        assert_eq!(none.kube_proxy_gates(), None);
        let gates = machine(&["proxygate|WinOverlay=true,WinDSR=true,Odd=1,", "proxygate|read"]).kube_proxy_gates();
        assert_eq!(gates, Some(vec!["WinDSR=true".to_owned(), "WinOverlay=true".to_owned()]));
    }

    #[test]
    fn the_script_gets_the_paths_as_strings() {
        let host = FakeHost::new("", []);
        host.0.borrow_mut().programs.push(("powershell.exe", "-NoProfile", output(0, "domain|True\r\n", "")));
        let machine = MachineAnswers::read(&host, &[r"C:\var\lib\kubelet".to_owned(), r"D:\it's".to_owned()]);
        assert_eq!(machine.domain_joined(), Some(true));
        let run = host.0.borrow().runs[0].clone();
        let begin = format!(
            "{POWERSHELL} -NoProfile -NonInteractive -ExecutionPolicy Bypass -Command $directories = @('C:\\var\\lib\\kubelet', 'D:\\it''s')\n"
        );
        assert!(run.starts_with(&begin), "{run}");
        assert!(!SCRIPT.contains('"'), "double quotes would have to be escaped");
    }
}
