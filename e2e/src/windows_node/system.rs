//! What Wine does not have of Windows and a kubelet reads: libraries, and values of the registry.

use std::{fs, path::Path, process::Command, sync::OnceLock};

use anyhow::{Context, Result, anyhow};

use crate::{assets, directory::Directory, process::output, wine::Prefix};

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
    static BUILT: OnceLock<Result<Directory, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build_libraries().map_err(|error| format!("{error:#}")));
    let built = built.as_ref().map_err(|text| anyhow!("{text}"))?;
    for (name, folder) in LIBRARIES {
        let file = format!("{name}.dll");
        let library = prefix.file(&format!(r"{folder}\{file}"));
        fs::create_dir_all(library.parent().context("a directory")?)?;
        // Wine's own file is one for all prefixes.
        let _ = fs::remove_file(&library);
        fs::copy(built.path().join(file), library)?;
    }
    Ok(())
}

const SYSTEM: &str = r"C:\windows\system32";
/// Each library with its folder. The first one is beside the kubelet, the only program that is to find it.
const LIBRARIES: [(&str, &str); 3] = [("pdh", r"C:\k"), ("vmcompute", SYSTEM), ("computenetwork", SYSTEM)];

fn build_libraries() -> Result<Directory> {
    let compiler = assets::windows_compiler()?.join("x86_64-w64-mingw32-gcc");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("windows/dll");
    let built = Directory::new()?;
    for (name, _) in LIBRARIES {
        let mut build = Command::new(&compiler);
        build.args(["-O1", "-shared", "-o"]).arg(built.path().join(format!("{name}.dll")));
        output(build.arg(sources.join(format!("{name}.c"))).arg("-lole32"))
            .with_context(|| compiler.display().to_string())?;
    }
    Ok(built)
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
