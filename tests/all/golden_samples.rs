//! The files that the shipped samples render to, as golden files in `tests/golden/samples`: for each kubelet minor with
//! a usual containerd, the RuntimeClasses, and the pause image of each pool. All other supported pairs of a kubelet and
//! a containerd must render to the same files.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use winpool::output;
use winpool_check::{
    manifests::{Budget, ManifestSet, Manifests},
    render::{Rendered, render, snapshot},
};
use winpool_core::Objects;
use winpool_facts::{ContainerdVersion, Minor, containerd, support};
use winpool_render::{CONTAINERD_TOML, KUBELET_ARGS, KUBELET_YAML};
use winpool_rules::pool::configs::ExpectedNode;

use crate::golden;

const KUBELETS: [Minor; 3] = [support::OLDEST, Minor(34), support::NEWEST];
const CONTAINERDS: [(u32, u32); 3] = [(1, 7), (2, 1), (2, 3)];
/// The pairs with golden files, with each kubelet and each containerd.
const GOLDEN_PAIRS: [(Minor, (u32, u32)); 3] = [(KUBELETS[0], (1, 7)), (KUBELETS[1], (2, 1)), (KUBELETS[2], (2, 3))];
/// The samples.
const SAMPLES: &str = "config/samples";
/// The pool of the samples with golden files.
const GOLDEN_POOL: &str = "web-2022";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The newest release of a containerd minor, which is what a node of that minor should run.
fn newest((major, minor): (u32, u32)) -> ContainerdVersion {
    containerd::release_line(ContainerdVersion::new(major, minor, 0)).unwrap().newest
}

/// The pairs in which the kubelet supports the containerd.
fn supported_pairs() -> Vec<(Minor, (u32, u32))> {
    let pairs = KUBELETS.into_iter().flat_map(|kubelet| CONTAINERDS.map(|runtime| (kubelet, runtime)));
    let fits = |(kubelet, runtime): &(Minor, (u32, u32))| containerd::minimum_for(*kubelet, newest(*runtime)).is_none();
    pairs.filter(fits).collect()
}

/// The output of `winpool render` for the samples.
fn rendered((kubelet, runtime): (Minor, (u32, u32))) -> Rendered {
    let folder = root().join(SAMPLES);
    let resources = ManifestSet::new(Manifests::read(&[folder], &mut Budget::unbounded()).unwrap()).unwrap();
    let expected_node = ExpectedNode { kubelet, containerd: Some(newest(runtime)) };
    let snapshot = snapshot(&resources, Objects::default(), "winpool-system");
    render(&snapshot, &[expected_node], &resources).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The files for the nodes of each pool, which have one variant.
fn files_of_pools(rendered: &Rendered) -> BTreeMap<&str, BTreeMap<&str, &str>> {
    let mut pools = BTreeMap::new();
    for config in rendered.config_maps.values() {
        let pool = config["metadata"]["labels"]["winpool.dev/pool"].as_str().unwrap();
        let files =
            config["data"].as_object().unwrap().iter().map(|(name, text)| (name.as_str(), text.as_str().unwrap()));
        assert_eq!(pools.insert(pool, files.collect::<BTreeMap<_, _>>()), None, "{pool} has one variant");
    }
    pools
}

/// The pause image of a variant: the sandbox image in its `containerd.toml`.
fn pause_image<'a>(files: &BTreeMap<&str, &'a str>) -> &'a str {
    let is_image = |line: &&str| line.starts_with("sandbox = ") || line.starts_with("sandbox_image = ");
    let images: Vec<&str> = files[CONTAINERD_TOML].lines().filter(is_image).collect();
    let [line] = images[..] else { panic!("one pause image: {images:?}") };
    line.split('"').nth(1).unwrap()
}

/// A file of a variant with a placeholder for its pause image.
fn without_pause_image(files: &BTreeMap<&str, &str>, name: &str) -> String {
    files[name].replace(pause_image(files), "<pause image>")
}

fn pair_name((kubelet, (major, minor)): (Minor, (u32, u32))) -> String {
    format!("kubelet-{kubelet}-containerd-{major}.{minor}")
}

/// The golden files, by path in `tests/golden/samples`.
fn expected() -> BTreeMap<PathBuf, String> {
    let mut golden = BTreeMap::new();
    for pair in GOLDEN_PAIRS {
        let rendered = rendered(pair);
        for (name, text) in &files_of_pools(&rendered)[GOLDEN_POOL] {
            golden.insert(PathBuf::from(pair_name(pair)).join(name), (*text).to_owned());
        }
    }
    let classes = rendered(GOLDEN_PAIRS[0]).runtime_classes;
    let documents: Vec<String> = classes.values().map(output::yaml).collect();
    golden.insert("runtime-classes.yaml".into(), documents.join("---\n"));
    golden.insert("pause-images.txt".into(), pause_images());
    golden
}

/// The pause image of each pool, as a table.
fn pause_images() -> String {
    let mut table = format!("{:<12}{:<9}{:<12}PAUSE IMAGE\n", "POOL", "KUBELET", "CONTAINERD");
    for pair @ (kubelet, (major, minor)) in supported_pairs() {
        for (pool, files) in files_of_pools(&rendered(pair)) {
            let image = pause_image(&files);
            let (kubelet_text, runtime) = (kubelet.to_string(), format!("{major}.{minor}"));
            let _ = writeln!(table, "{pool:<12}{kubelet_text:<9}{runtime:<12}{image}");
        }
    }
    table
}

#[test]
fn the_samples_render_to_the_golden_files() {
    golden::check(&root().join("tests/golden/samples"), &expected(), "golden_samples");
}

#[test]
fn all_pairs_and_pools_render_to_the_golden_files_except_for_the_pause_image() {
    let golden: BTreeMap<_, _> = GOLDEN_PAIRS.into_iter().map(|pair| (pair, rendered(pair))).collect();
    let golden_file = |wanted: &dyn Fn(&(Minor, (u32, u32))) -> bool, name: &str| {
        let (_, rendered) = golden.iter().find(|(pair, _)| wanted(pair)).unwrap();
        without_pause_image(&files_of_pools(rendered)[GOLDEN_POOL], name)
    };
    for pair @ (kubelet, runtime) in supported_pairs() {
        let rendered = rendered(pair);
        let pools = files_of_pools(&rendered);
        assert_eq!(pools.keys().map(|pool| (*pool).to_owned()).collect::<Vec<_>>(), pools_of_the_samples());
        for (pool, files) in pools {
            let title = format!("{pool} for {}", pair_name(pair));
            assert_eq!(
                files.keys().copied().collect::<Vec<_>>(),
                [CONTAINERD_TOML, KUBELET_ARGS, KUBELET_YAML],
                "{title}"
            );
            for name in [KUBELET_ARGS, KUBELET_YAML] {
                assert_eq!(
                    without_pause_image(&files, name),
                    golden_file(&|pair| pair.0 == kubelet, name),
                    "{title}: {name}"
                );
            }
            let toml = golden_file(&|pair| pair.1 == runtime, CONTAINERD_TOML);
            assert_eq!(without_pause_image(&files, CONTAINERD_TOML), toml, "{title}");
        }
    }
}

/// The names of the pools in the samples.
fn pools_of_the_samples() -> Vec<String> {
    let files = fs::read_dir(root().join(SAMPLES)).unwrap().map(|entry| entry.unwrap().path());
    let documents =
        files.flat_map(|file| serde_saphyr::from_multiple::<Value>(&fs::read_to_string(file).unwrap()).unwrap());
    let pools = documents.filter(|object| object["kind"] == "WindowsNodePool");
    let mut names: Vec<String> = pools.map(|pool| pool["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}
