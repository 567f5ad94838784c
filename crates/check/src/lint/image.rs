//! Whether the images of a pod run on the nodes that it selects.

use std::collections::BTreeSet;

use serde_json::Value;
use winpool_core::{
    ForeignText,
    image::{
        Compatibility, EvidenceSource, HostNode, ImageEvidence, ImagePlatforms, Incompatibility, Lookup, Reference, tag,
    },
    json_path::CONTAINERS,
    placeholder,
};
use winpool_facts::{
    Build, OsVersion,
    builds::RELEASES,
    version_compatibility::{self, VersionCompatibility},
};
use winpool_workload::{Container, System, Template, check::image_issue, image_behind};

use super::{
    Code, Finding, LintContext, class,
    context::PodPlacement,
    image_name::{is_test_image, is_windows_image, suggests_linux},
};

/// The image of a container, with a valid reference.
struct Image<'t> {
    container: &'t Container,
    path: String,
    reference: Reference,
    lookup: Option<Lookup>,
}

pub fn check(
    template: &Template,
    spec: &Value,
    placement: &PodPlacement<'_>,
    context: &LintContext<'_>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut images = Vec::new();
    for (container, path) in template.containers.iter().zip(container_paths(spec)) {
        let path = format!("{path}.image");
        if is_variable(container.image.raw()) || context.replaced_images.contains(container.image.raw()) {
            continue;
        }
        match container.image.raw().parse::<Reference>() {
            Ok(reference) => {
                let lookup = (context.lookups)(&reference);
                images.push(Image { container, path, reference, lookup });
            }
            Err(_) if placeholder::is_in(container.image.raw()) => {}
            Err(error) => findings.push(invalid(path, &container.image, &error.to_string())),
        }
    }
    if placement.is_windows() {
        // Images of HostProcess containers need no matching build.
        findings.extend(images.iter().filter(|image| !image.container.host_process).filter_map(unpinned));
        findings.extend(images.iter().filter_map(node_problem_detector));
    }
    // The nodes of a contradictory spec are unknown.
    if !placement.is_contradictory {
        if placement.is_windows() {
            let incompatible: Vec<_> =
                images.iter().filter_map(|image| incompatible(image, placement, context)).collect();
            findings.extend(mixed_builds(&images, placement).filter(|_| incompatible.is_empty()));
            findings.extend(incompatible);
            findings.extend(images.iter().filter_map(|image| unchecked(image, placement)));
            findings.extend(images.iter().filter_map(|image| behind(image, placement, context)));
        }
        findings.extend(systems(&images, placement));
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

/// Whether another program replaces the image: a variable, a template, a placeholder in capitals, or ko, which builds Go packages.
fn is_variable(image: &str) -> bool {
    let is_placeholder = !image.is_empty() && image.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    image.contains(['$', '{']) || image.starts_with("ko://") || is_placeholder
}

/// The first image that runs on no Windows version together with an image before it.
fn mixed_builds(images: &[Image<'_>], placement: &PodPlacement<'_>) -> Option<Finding> {
    let version = |image: &Image<'_>| tag::suggested(&image.reference)?.os;
    let versions = images.iter().filter(|image| !image.container.host_process);
    let versions: Vec<_> = versions.filter_map(|image| Some((image, version(image)?))).collect();
    let runs = |host: Build, image: OsVersion| {
        let host = OsVersion { build: host, revision: None };
        let image = OsVersion { revision: None, ..image };
        let compatibility = version_compatibility::check(host, Some(image), placement.isolation, None);
        compatibility == VersionCompatibility::Compatible
    };
    let mut hosts: Vec<_> = RELEASES.iter().map(|release| release.build).collect();
    for (image, version) in &versions {
        let remaining: Vec<_> = hosts.iter().copied().filter(|host| runs(*host, *version)).collect();
        if remaining.is_empty() && hosts.len() < RELEASES.len() {
            let (_, other) = versions.first()?;
            let problem = format!("{} is for {version}, and another image is for {other}", image.container.image);
            return Some(Finding::new(Code::MixedBuilds, &image.path, problem));
        }
        hosts = remaining;
    }
    None
}

fn invalid(path: String, image: &ForeignText, error: &str) -> Finding {
    let problem = match image.raw() {
        "" => "the container has no image".to_owned(),
        _ => format!("\"{image}\" is not an image reference: {error}"),
    };
    Finding::new(Code::ImageInvalid, path, problem)
}

/// The image of node-problem-detector, unless it is its Windows build in a HostProcess container.
fn node_problem_detector(image: &Image<'_>) -> Option<Finding> {
    let written = &image.container.image;
    let is_detector = image.reference.repository().contains("node-problem-detector");
    let for_windows = system(image) == Some(System::Windows) || written.raw().to_lowercase().contains("windows");
    (is_detector && !(for_windows && image.container.host_process))
        .then(|| Finding::new(Code::NodeProblemDetector, &image.path, format!("the container runs {written}")))
}

/// An image for a Windows version, of a pod whose class and with it the nodes are unknown.
fn unchecked(image: &Image<'_>, placement: &PodPlacement<'_>) -> Option<Finding> {
    let class = class::undefined(placement).filter(|_| placement.pools.is_empty() && !image.container.host_process)?;
    let version = tag::suggested(&image.reference)?.os?;
    let written = &image.container.image;
    let problem = format!("{written} is for {version}, and RuntimeClass {class} is not in the manifests");
    Some(Finding::new(Code::ImageUnchecked, &image.path, problem))
}

/// An image that is too many updates behind for the first of its pools with a limit.
fn behind(image: &Image<'_>, placement: &PodPlacement<'_>, context: &LintContext<'_>) -> Option<Finding> {
    let Image { container, lookup, reference, .. } = image;
    let evidence = ImageEvidence { report: None, lookup: lookup.as_ref(), reference };
    placement.groups().find_map(|(pool, group)| {
        let os = evidence.selected(&group.host, placement.isolation, container.host_process)?;
        let behind = context.state.behind(pool, os)?;
        let problem = format!("in pool {pool}, {}", image_behind(&container.image, os, behind));
        Some(Finding::new(Code::ImageUpdatesBehind, &image.path, problem))
    })
}

/// An image without a digest or a fixed tag.
fn unpinned(image: &Image<'_>) -> Option<Finding> {
    let written = &image.container.image;
    if written.raw().contains('@') {
        return None;
    }
    let name = written.raw().rsplit('/').next().unwrap_or_default();
    match name.split_once(':') {
        None => Some(Finding::new(Code::ImageUntagged, &image.path, format!("{written} has neither tag nor digest"))),
        Some((_, "latest")) => {
            Some(Finding::new(Code::ImageLatest, &image.path, format!("{written} has the tag latest")))
        }
        Some(_) => None,
    }
}

/// An image that does not run on one of the nodes.
fn incompatible(image: &Image<'_>, placement: &PodPlacement<'_>, context: &LintContext<'_>) -> Option<Finding> {
    if placement.pools.is_empty() {
        // Only the operating system of the nodes is known.
        let Some(Lookup::Found(content)) = &image.lookup else { return None };
        let incompatibility = Incompatibility::OtherSystem(content.systems().into_iter().collect());
        let problem = format!("{} {incompatibility}", image.container.image);
        return content.windows().next().is_none().then(|| Finding::new(Code::ImageCannotRun, &image.path, problem));
    }
    placement.groups().find_map(|(pool, group)| incompatible_with(image, pool, &group.host, placement, context))
}

/// An image that does not run on a node of a pool, with the same message as in the operator.
fn incompatible_with(
    image: &Image<'_>,
    pool: &str,
    host: &HostNode,
    placement: &PodPlacement<'_>,
    context: &LintContext<'_>,
) -> Option<Finding> {
    let evidence = ImageEvidence { report: None, lookup: image.lookup.as_ref(), reference: &image.reference };
    let compatibility = evidence.compatibility(host, placement.isolation, image.container.host_process);
    let Compatibility::Incompatible(source, incompatibility) = compatibility else { return None };
    let code = if source == EvidenceSource::Name { Code::ImageBuild } else { Code::ImageCannotRun };
    let for_windows = placement.system == Some(System::Windows);
    let issue = image_issue(&context.state, &image.container.image, source, incompatibility, host, for_windows);
    let in_pool = if pool.is_empty() { String::new() } else { format!("in pool {pool}, ") };
    let problem = format!("{in_pool}{}", issue.problem());
    Some(Finding::new(code, &image.path, problem).with_remedy(issue.remedy.to_string()))
}

/// An image for another operating system than that of the pod, or images for several operating systems.
fn systems(images: &[Image<'_>], placement: &PodPlacement<'_>) -> Option<Finding> {
    let systems: Vec<_> = images.iter().filter_map(|image| Some((image, system(image)?))).collect();
    let of_pod = if placement.is_windows() { Some(System::Windows) } else { placement.system };
    let distinct: BTreeSet<_> = systems.iter().map(|(_, system)| *system).collect();
    let (image, other) = systems.iter().find(|(_, system)| of_pod.is_some_and(|of_pod| of_pod != *system))?;
    let (written, of_pod) = (&image.container.image, of_pod?);
    if distinct.len() > 1 {
        let problem = format!("{written} is for {other}, and another image of the pod is for {of_pod}");
        return Some(Finding::new(Code::MixedSystems, &image.path, problem));
    }
    // A registry lookup of a pod for Windows results in another finding.
    let is_reported = matches!(image.lookup, Some(Lookup::Found(_))) && placement.is_windows();
    let problem = format!("{written} is for {other}, and the pod is for {of_pod}");
    (!is_reported).then(|| Finding::new(Code::ImageSystem, &image.path, problem))
}

/// The only operating system of an image, according to the registry or else to its name.
fn system(image: &Image<'_>) -> Option<System> {
    match &image.lookup {
        Some(Lookup::Found(content)) => content_system(content),
        _ if is_test_image(&image.reference) => None,
        _ if is_windows_image(&image.reference) => Some(System::Windows),
        _ if suggests_linux(&image.reference) => Some(System::Linux),
        _ => None,
    }
}

fn content_system(content: &ImagePlatforms) -> Option<System> {
    let windows = content.windows().next().is_some();
    let linux = content.platforms.iter().any(|platform| platform.os == "linux");
    match (windows, linux) {
        (true, false) => Some(System::Windows),
        (false, true) => Some(System::Linux),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::is_variable;

    #[test]
    fn an_image_that_another_program_replaces_is_not_judged() {
        for (image, expected) in [
            ("$(IMAGE)", true),
            ("registry.example/{{ .Values.image }}", true),
            ("ko://example.com/web", true),
            ("REPLACE_WITH_TOOLS_IMAGE", true),
            ("IMAGE:1", false),
            ("", false),
            ("web:1", false),
        ] {
            assert_eq!(is_variable(image), expected, "{image}");
        }
    }
}
