//! The Windows version that the name of an image suggests. Names are arbitrary, so this is not proof.

use winpool_facts::{OsVersion, builds};

use super::Reference;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The part of the name that suggests it, such as `ltsc2019`.
    pub part: String,
    /// The Windows version; `None` where the name suggests Windows without a version.
    pub os: Option<OsVersion>,
}

/// Substrings that only occur in names of Windows images.
const WINDOWS_NAMES: [&str; 4] = ["nanoserver", "servercore", "windows", "hostprocess"];
/// The lowest number that is a Windows build and not part of another version number, as in `10.0.1`.
const MIN_BUILD: u32 = 14393;

/// The suggestion of the tag of an image, or else of its repository; `None` if neither suggests Windows.
pub fn suggested(image: &Reference) -> Option<Suggestion> {
    let (tag, repository) = (image.tag().unwrap_or_default().to_lowercase(), image.repository());
    let windows_name = |text: &str| WINDOWS_NAMES.into_iter().find(|name| text.contains(name));
    let unversioned_name = windows_name(&tag).or_else(|| windows_name(repository));
    let versioned = |text: &str| {
        let suggestion = |part| Some((part, version(part, unversioned_name.is_some())?));
        let (part, os) = parts(text).find_map(suggestion)?;
        Some(Suggestion { part: part.to_owned(), os: Some(os) })
    };
    versioned(&tag).or_else(|| versioned(repository)).or_else(|| {
        let part = parts(&tag).find(|part| is_update(part)).or(unversioned_name)?;
        Some(Suggestion { part: part.to_owned(), os: None })
    })
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(['-', '_', '+', '/']).filter(|part| !part.is_empty())
}

/// The Windows version that a part of a name stands for. Digits only, such as `1809`, count only if another part
/// suggests Windows, because they may be a year.
fn version(part: &str, suggests_windows: bool) -> Option<OsVersion> {
    let parsed = part.parse::<OsVersion>().ok().filter(|version| version.build.0 >= MIN_BUILD);
    let named = || {
        // `windowsservercoreltsc2022` is a single part.
        let name = part.find("ltsc").map_or(part, |begin| &part[begin..]);
        let is_unambiguous = suggests_windows || name.bytes().any(|byte| byte.is_ascii_alphabetic());
        builds::named(name).filter(|_| is_unambiguous).map(|build| OsVersion { build, revision: None })
    };
    parsed.or_else(named)
}

/// Whether a part is the number of a Windows update, such as `kb5036896`.
fn is_update(part: &str) -> bool {
    part.strip_prefix("kb").is_some_and(|number| number.len() >= 6 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_suggests_the_windows_version_that_it_contains() {
        let table = [
            ("mcr.microsoft.com/windows/servercore:ltsc2019", "ltsc2019 10.0.17763"),
            ("mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2022", "ltsc2022 10.0.20348"),
            ("mcr.microsoft.com/windows/nanoserver:1809", "1809 10.0.17763"),
            ("mcr.microsoft.com/dotnet/core/runtime:3.1-nanoserver-1809", "1809 10.0.17763"),
            ("mcr.microsoft.com/windows/nanoserver:20H2", "20h2 10.0.19042"),
            ("mcr.microsoft.com/windows/servercore:10.0.20348.5499", "10.0.20348.5499 10.0.20348.5499"),
            ("mcr.microsoft.com/windows/servercore:ltsc2019-KB5036896-amd64", "ltsc2019 10.0.17763"),
            ("example.com/team/app:windowsservercoreltsc2025", "windowsservercoreltsc2025 10.0.26100"),
            ("example.com/team/app-ltsc2022:v7", "ltsc2022 10.0.20348"),
            ("example.com/team/app:v7_ltsc2016", "ltsc2016 10.0.14393"),
            ("example.com/team/app:kb5036896", "kb5036896 ?"),
            ("example.com/team/app:7-nanoserver", "nanoserver ?"),
            ("mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0", "windows ?"),
            ("example.com/team/app:1809", "-"),
            ("example.com/team/app:2004", "-"),
            ("example.com/team/app:10.0.1", "-"),
            ("mcr.microsoft.com/dotnet/sdk:10.0.100", "-"),
            ("nginx:1.27-alpine", "-"),
            ("nginx", "-"),
        ];
        for (image, expected) in table {
            let found = match suggested(&image.parse().unwrap()) {
                Some(Suggestion { part, os: Some(os) }) => format!("{part} {os}"),
                Some(Suggestion { part, os: None }) => format!("{part} ?"),
                None => "-".to_owned(),
            };
            assert_eq!(found, expected, "{image}");
        }
    }
}
