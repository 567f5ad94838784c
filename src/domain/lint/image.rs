//! Whether the images of a pod run where it goes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Code, Finding, World,
    path::CONTAINERS,
    world::{Bound, is_of_windows},
};
use crate::domain::{
    image::{Content, Evidence, Host, Known, Lookup, Misfit, Reference, Verdict, judge},
    workload::{
        Container, System, Template,
        judge::{remedy, what_is_wrong},
    },
};

/// Words that only names of Linux images have: distributions, and their releases as tags of images name them.
const LINUX_WORDS: [&str; 16] = [
    "alpine",
    "amazonlinux",
    "azurelinux",
    "bookworm",
    "bullseye",
    "buster",
    "centos",
    "debian",
    "distroless",
    "focal",
    "jammy",
    "linux",
    "noble",
    "trixie",
    "ubi",
    "ubuntu",
];

/// A container's image that could be read.
struct Image<'t> {
    container: &'t Container,
    path: String,
    reference: Reference,
    lookup: Option<Lookup>,
}

pub fn check(template: &Template, spec: &Value, bound: &Bound<'_>, world: &World<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut images = Vec::new();
    for (container, path) in template.containers.iter().zip(container_paths(spec)) {
        let path = format!("{path}.image");
        match container.image.parse::<Reference>() {
            Ok(reference) => {
                let lookup = world.lookup(&reference);
                images.push(Image { container, path, reference, lookup });
            }
            Err(error) => findings.push(invalid(path, &container.image, &error.to_string())),
        }
    }
    if bound.is_windows() {
        findings.extend(images.iter().filter_map(unpinned));
        findings.extend(images.iter().filter_map(node_problem_detector));
    }
    // Where a spec contradicts itself nobody can say what its images should be.
    if !bound.contradicts_itself {
        findings.extend(images.iter().filter(|_| bound.is_windows()).filter_map(|image| misfit(image, bound, world)));
        findings.extend(systems(&images, bound));
    }
    findings
}

/// The paths of the containers, in the order of [`Template::containers`].
pub(super) fn container_paths(spec: &Value) -> impl Iterator<Item = String> {
    CONTAINERS[..2].iter().flat_map(|list| {
        let count = spec[*list].as_array().map_or(0, Vec::len);
        (0..count).map(move |index| format!("{list}[{index}]"))
    })
}

fn invalid(path: String, image: &str, error: &str) -> Finding {
    let finding = Finding::new(
        Code::ImageInvalid,
        path,
        match image {
            "" => "the container has no image".to_owned(),
            _ => format!("{image:?} is no reference of an image, {error}"),
        },
    );
    if image.contains("{{") || image.contains("${") || image.contains("$(") {
        return finding.instead("render the template first: helm template … | winpool lint -f -");
    }
    finding
}

/// A finding about node-problem-detector, unless it is its build for Windows in a HostProcess container.
fn node_problem_detector(image: &Image<'_>) -> Option<Finding> {
    let written = &image.container.image;
    let is_it = image.reference.repository().contains("node-problem-detector");
    let for_windows = system(image) == Some(System::Windows) || written.to_lowercase().contains("windows");
    (is_it && !(for_windows && image.container.host_process))
        .then(|| Finding::new(Code::NodeProblemDetector, &image.path, format!("image {written}")))
}

/// A finding about an image whose name does not say which it is.
fn unpinned(image: &Image<'_>) -> Option<Finding> {
    let written = &image.container.image;
    if written.contains('@') {
        return None;
    }
    let name = written.rsplit('/').next().unwrap_or_default();
    match name.split_once(':') {
        None => Some(Finding::new(Code::ImageUntagged, &image.path, format!("{written} has neither tag nor digest"))),
        Some((_, "latest")) => {
            Some(Finding::new(Code::ImageLatest, &image.path, format!("{written} may be another image tomorrow")))
        }
        Some(_) => None,
    }
}

/// A finding about an image that one of the hosts does not run.
fn misfit(image: &Image<'_>, bound: &Bound<'_>, world: &World<'_>) -> Option<Finding> {
    if bound.places.is_empty() {
        // Of hosts nothing is known but that they have Windows.
        let Some(Lookup::Found(content)) = &image.lookup else { return None };
        let misfit = Misfit::NotFor(content.systems().into_iter().collect());
        let what = format!("{} {misfit}", image.container.image);
        return content.windows().next().is_none().then(|| Finding::new(Code::ImageCannotRun, &image.path, what));
    }
    bound.kinds().find_map(|(pool, kind)| on_host(image, pool, &kind.host, bound, world))
}

/// A finding about an image that a host of a pool does not run, in the words of the operator.
fn on_host(image: &Image<'_>, pool: &str, host: &Host, bound: &Bound<'_>, world: &World<'_>) -> Option<Finding> {
    let known = Known { said: None, lookup: image.lookup.as_ref(), reference: &image.reference };
    let verdict = judge(known, host, bound.isolation, image.container.host_process);
    let Verdict::CannotRun(evidence, misfit) = verdict else { return None };
    let code = if evidence == Evidence::Name { Code::ImageBuild } else { Code::ImageCannotRun };
    let written = &image.container.image;
    let whose = if pool.is_empty() { String::new() } else { format!(" (pool {pool})") };
    let what = format!("{}{whose}", what_is_wrong(written, evidence, &misfit, host));
    let for_windows = bound.system == Some(System::Windows);
    Some(Finding::new(code, &image.path, what).instead(remedy(world.ground(), written, &misfit, host, for_windows)))
}

/// Findings about images for another system than the pod's, or for several systems.
fn systems(images: &[Image<'_>], bound: &Bound<'_>) -> Option<Finding> {
    let known: Vec<_> = images.iter().filter_map(|image| Some((image, system(image)?))).collect();
    let pod = if bound.is_windows() { Some(System::Windows) } else { bound.system };
    let named: BTreeSet<_> = known.iter().map(|(_, system)| *system).collect();
    let (odd, of) = known.iter().find(|(_, system)| pod.is_some_and(|pod| pod != *system))?;
    let written = &odd.container.image;
    if named.len() > 1 {
        let what = format!("{written} is for {}, another image for the other system", told(*of));
        return Some(Finding::new(Code::MixedSystems, &odd.path, what));
    }
    // Where a registry says it and the pod is for Windows, the misfit is told already.
    let certain = matches!(odd.lookup, Some(Lookup::Found(_))) && bound.is_windows();
    let what = format!("{written} is for {}, the pod for {}", told(*of), told(pod?));
    (!certain).then(|| Finding::new(Code::ImageSystem, &odd.path, what))
}

fn told(system: System) -> &'static str {
    match system {
        System::Windows => "Windows",
        System::Linux => "Linux",
    }
}

/// The one system that an image is for, as far as the registry or else the name tells.
fn system(image: &Image<'_>) -> Option<System> {
    match &image.lookup {
        Some(Lookup::Found(content)) => of_content(content),
        _ if is_of_windows(&image.reference) => Some(System::Windows),
        _ if suggests_linux(&image.reference) => Some(System::Linux),
        _ => None,
    }
}

fn of_content(content: &Content) -> Option<System> {
    let windows = content.windows().next().is_some();
    let linux = content.platforms.iter().any(|platform| platform.os == "linux");
    match (windows, linux) {
        (true, false) => Some(System::Windows),
        (false, true) => Some(System::Linux),
        _ => None,
    }
}

/// Whether a word of the tag, or the last part of the repository, names a Linux distribution.
fn suggests_linux(image: &Reference) -> bool {
    let tag = image.tag().unwrap_or_default().to_lowercase();
    let name = image.repository().rsplit('/').next().unwrap_or_default();
    let words = tag.split(['-', '_', '.', '+']).chain(name.split(['-', '_', '.']));
    // Distributions are followed by their version: alpine3, ubi9.
    let plain = |word: &str| word.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned();
    words.map(plain).any(|word| LINUX_WORDS.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_suggest_linux_by_their_distributions() {
        let table = [
            ("nginx:1.27-alpine3.20", true),
            ("python:3.13-slim-bookworm", true),
            ("redhat/ubi9:9.4", true),
            ("example.com/app-linux:7", true),
            ("nginx:1.27", false),
            ("mcr.microsoft.com/windows/nanoserver:ltsc2022", false),
            ("example.com/linuxoid:1", false),
        ];
        for (image, expected) in table {
            assert_eq!(suggests_linux(&image.parse().unwrap()), expected, "{image}");
        }
    }
}
