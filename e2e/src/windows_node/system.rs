//! What Wine does not have of Windows and a kubelet reads: libraries, and values of the registry.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result};

use super::output;
use crate::{assets, wine::Prefix};

/// A release of Windows, as its registry shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    pub build: u32,
    pub revision: u32,
    pub product: &'static str,
}

impl Release {
    pub const LTSC2022: Self = Self { build: 20348, revision: 4529, product: "Windows Server 2022 Datacenter" };
    pub const LTSC2025: Self = Self { build: 26100, revision: 4652, product: "Windows Server 2025 Datacenter" };

    /// The version of the kernel, as the kubelet reports it.
    pub fn kernel(self) -> String {
        format!("10.0.{}.{}", self.build, self.revision)
    }
}

/// Installs the stand-ins for libraries that Wine does not have, or not complete.
pub(super) fn install_libraries(prefix: &Prefix) -> Result<()> {
    let compiler = assets::windows_compiler()?.join("x86_64-w64-mingw32-gcc");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("windows/dll");
    let system = r"C:\windows\system32";
    // The first one is beside the kubelet, the only program that is to find it.
    for (name, folder) in [("pdh", r"C:\k"), ("vmcompute", system), ("computenetwork", system)] {
        let library = prefix.file(&format!(r"{folder}\{name}.dll"));
        fs::create_dir_all(library.parent().context("a directory")?)?;
        let mut build = Command::new(&compiler);
        build.args(["-O1", "-shared", "-o"]).arg(library).arg(sources.join(format!("{name}.c"))).arg("-lole32");
        output(&mut build).with_context(|| compiler.display().to_string())?;
    }
    Ok(())
}

/// Writes the release of Windows, and what identifies the machine and its start.
pub(super) fn set_registry(prefix: &Prefix, release: Release, boot: u32) -> Result<()> {
    let Release { build, revision, product } = release;
    let text = format!(
        r#"Windows Registry Editor Version 5.00

[HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\Windows NT\CurrentVersion]
"CurrentBuild"="{build}"
"CurrentBuildNumber"="{build}"
"ProductName"="{product}"
"UBR"=dword:{revision:08x}

[HKEY_LOCAL_MACHINE\SYSTEM\HardwareConfig]
"LastConfig"="{{7ea2ebb8-5c2f-4c93-a6b3-1d8f2c1f4a11}}"

[HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters]
"BootId"=dword:{boot:08x}

[HKEY_CURRENT_USER\Software\Wine\DllOverrides]
"computenetwork"="native,builtin"
"pdh"="native,builtin"
"vmcompute"="native,builtin"
"#
    );
    prefix.write(r"C:\node.reg", &text)?;
    let mut command = prefix.command(Path::new("regedit.exe"));
    output(command.args(["/S", r"C:\node.reg"])).context("regedit").map(drop)
}
