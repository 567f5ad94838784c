//! What the name of an image suggests. Anybody may name an image as they like, so this is a suspicion and no more.

use super::Reference;
use crate::facts::{OsVersion, builds};

/// What a name suggests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The part of the name that suggests it, such as `ltsc2019`.
    pub word: String,
    /// The Windows that it is for; `None` where the name speaks of Windows and not of which.
    pub os: Option<OsVersion>,
}

/// Words that only names of Windows images have.
const WINDOWS_WORDS: [&str; 4] = ["nanoserver", "servercore", "windows", "hostprocess"];
/// The least number that is a build and not a part of somebody's version, as in `10.0.1`.
const LEAST_BUILD: u32 = 14393;

/// What the tag of an image suggests, or else the rest of its name; `None` if nothing suggests Windows.
pub fn suggested(image: &Reference) -> Option<Suggestion> {
    let (tag, repository) = (image.tag().unwrap_or_default().to_lowercase(), image.repository());
    let of_windows = |text: &str| WINDOWS_WORDS.into_iter().find(|word| text.contains(word));
    let certain = of_windows(&tag).is_some() || of_windows(repository).is_some();
    let version = |text: &str| {
        let words: Vec<&str> = words(text).collect();
        words
            .iter()
            .find_map(|word| version(word, certain).map(|os| Suggestion { word: (*word).to_owned(), os: Some(os) }))
    };
    let unversioned = |word: &str| Suggestion { word: word.to_owned(), os: None };
    version(&tag)
        .or_else(|| version(repository))
        .or_else(|| words(&tag).find(|word| is_update(word)).map(unversioned))
        .or_else(|| of_windows(&tag).or_else(|| of_windows(repository)).map(unversioned))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(['-', '_', '+', '/']).filter(|word| !word.is_empty())
}

/// The version of Windows that a word means. Names that are only digits, such as `1809`, count beside a word of Windows:
/// alone they may be a year or anything else.
fn version(word: &str, certain: bool) -> Option<OsVersion> {
    let parsed = word.parse::<OsVersion>().ok().filter(|version| version.build.0 >= LEAST_BUILD);
    let named = || {
        // `windowsservercoreltsc2022` is one word too.
        let name = word.find("ltsc").map_or(word, |begin| &word[begin..]);
        let counts = certain || name.bytes().any(|byte| byte.is_ascii_alphabetic());
        builds::named(name).filter(|_| counts).map(|build| OsVersion { build, revision: None })
    };
    parsed.or_else(named)
}

/// Whether a word is the number of an update of Windows, `kb5036896`.
fn is_update(word: &str) -> bool {
    word.strip_prefix("kb").is_some_and(|number| number.len() >= 6 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_suggests_the_windows_it_speaks_of() {
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
            let told = match suggested(&image.parse().unwrap()) {
                Some(Suggestion { word, os: Some(os) }) => format!("{word} {os}"),
                Some(Suggestion { word, os: None }) => format!("{word} ?"),
                None => "-".to_owned(),
            };
            assert_eq!(told, expected, "{image}");
        }
    }
}
