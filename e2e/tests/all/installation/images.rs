//! The images of a release: their archives, and the way of the agent's image into a registry by the commands of its page.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use e2e::{
    assets,
    certificates::Authority,
    containerd::Containerd,
    images::digest,
    operator::workspace,
    registry::{Access, Registry},
};
use release::image::{AgentImage, Archive, Image};
use serde_json::{Value, json};

use crate::documents::pages::pages;

const VERSION: &str = "1.2.3";
const TIME: u64 = 1_700_000_000;
const PROGRAM: &[u8] = b"MZ: the program of the agent";
/// The layer of the agent's image.
const AGENT_LAYER: [&str; 10] = [
    "Files",
    "Files/Windows",
    "Files/Windows/System32",
    "Files/Windows/System32/config",
    "Files/Windows/System32/config/DEFAULT",
    "Files/Windows/System32/config/SAM",
    "Files/Windows/System32/config/SECURITY",
    "Files/Windows/System32/config/SOFTWARE",
    "Files/Windows/System32/config/SYSTEM",
    "Files/winpool-agent.exe",
];

fn agent_image() -> Archive {
    AgentImage { version: VERSION, time: TIME, program: PROGRAM }.archive().unwrap()
}

/// Runs a program, and returns its output.
fn output(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The paths in a tar archive, which may be compressed.
fn paths(archive: &Path) -> Vec<String> {
    let text = String::from_utf8(output(Command::new("tar").arg("-tf").arg(archive))).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// A file of a tar archive, which may be compressed.
fn file(archive: &Path, path: &str) -> Vec<u8> {
    output(Command::new("tar").arg("-xOf").arg(archive).arg(path))
}

/// An extracted OCI image layout.
struct Layout(tempfile::TempDir);

impl Layout {
    fn new(archive: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("image.tar"), archive).unwrap();
        output(Command::new("tar").current_dir(folder.path()).args(["-xf", "image.tar"]));
        Self(folder)
    }

    /// What `index.json` refers to: one image, or one index.
    fn root(&self) -> Value {
        let index: Value = serde_json::from_slice(&fs::read(self.0.path().join("index.json")).unwrap()).unwrap();
        assert_eq!(index["manifests"].as_array().map(Vec::len), Some(1), "{index}");
        index["manifests"][0].clone()
    }

    /// The file of a descriptor, whose digest and size are verified.
    fn blob(&self, descriptor: &Value) -> PathBuf {
        let name = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let path = self.0.path().join("blobs/sha256").join(name);
        let bytes = fs::read(&path).unwrap();
        assert_eq!((&descriptor["digest"], &descriptor["size"]), (&json!(digest(&bytes)), &json!(bytes.len())));
        path
    }

    fn json(&self, descriptor: &Value) -> Value {
        serde_json::from_slice(&fs::read(self.blob(descriptor)).unwrap()).unwrap()
    }

    /// Configuration and layer of an image with one layer, whose uncompressed digest is verified.
    fn image(&self, descriptor: &Value) -> (Value, PathBuf) {
        let manifest = self.json(descriptor);
        assert_eq!(manifest["layers"].as_array().map(Vec::len), Some(1), "{manifest}");
        let (configuration, layer) = (self.json(&manifest["config"]), self.blob(&manifest["layers"][0]));
        let unpacked = output(Command::new("gzip").arg("-dc").arg(&layer));
        assert_eq!(configuration["rootfs"]["diff_ids"], json!([digest(&unpacked)]));
        (configuration, layer)
    }
}

#[test]
fn the_operators_image_has_a_part_for_each_platform_that_runs_the_program_without_root() {
    let image = Image {
        version: VERSION,
        time: TIME,
        certificates: b"certificates",
        programs: &[("amd64", b"program for amd64"), ("arm64", b"program for arm64")],
    };
    let layout = Layout::new(&image.archive().unwrap().bytes);
    let root = layout.root();
    assert_eq!(root["annotations"]["org.opencontainers.image.ref.name"], VERSION);
    let index = layout.json(&root);
    let platforms: Vec<_> = index["manifests"].as_array().unwrap().iter().map(|part| &part["platform"]).collect();
    let platform = |arch: &str| json!({"os": "linux", "architecture": arch});
    assert_eq!(platforms, [&platform("amd64"), &platform("arm64")]);
    for (part, arch) in index["manifests"].as_array().unwrap().iter().zip(["amd64", "arm64"]) {
        let (configuration, layer) = layout.image(part);
        assert_eq!((&configuration["os"], &configuration["architecture"]), (&json!("linux"), &json!(arch)));
        let config = &configuration["config"];
        let start = (&config["User"], &config["Entrypoint"], &config["Cmd"]);
        assert_eq!(start, (&json!("65532:65532"), &json!(["/winpool"]), &json!(["run"])));
        assert_eq!(file(&layer, "winpool"), format!("program for {arch}").into_bytes());
        assert_eq!(file(&layer, "etc/ssl/certs/ca-certificates.crt"), b"certificates");
    }
}

#[test]
fn the_agents_image_runs_on_every_windows_as_a_host_process_container() {
    let image = agent_image();
    let layout = Layout::new(&image.bytes);
    let root = layout.root();
    assert_eq!(root["digest"], image.digest);
    assert_eq!(root["mediaType"], "application/vnd.oci.image.manifest.v1+json", "no index");
    assert_eq!(root.get("platform"), None, "{root}");
    let (configuration, layer) = layout.image(&root);
    assert_eq!((&configuration["os"], &configuration["architecture"]), (&json!("windows"), &json!("amd64")));
    assert_eq!(configuration.get("os.version"), None, "{configuration}");
    let config = &configuration["config"];
    let start = (config.get("User"), &config["Entrypoint"], &config["Cmd"]);
    assert_eq!(start, (None, &json!(["winpool-agent.exe"]), &json!(["run"])));
    assert_eq!(paths(&layer), AGENT_LAYER);
    assert_eq!(file(&layer, "Files/winpool-agent.exe"), PROGRAM);
}

/// The cells of the only bin of a hive, from its header to its end: the first two bytes of each that is in use.
fn cells(hive: &[u8]) -> Vec<&[u8]> {
    let (mut offset, mut found) = (4096 + 32, Vec::new());
    while offset < hive.len() {
        let size = i32::from_le_bytes(hive[offset..offset + 4].try_into().unwrap());
        assert!(size != 0 && size % 8 == 0, "{size} at {offset}");
        found.extend((size < 0).then(|| &hive[offset + 4..offset + 6]));
        offset += usize::try_from(size.unsigned_abs()).unwrap();
    }
    assert_eq!(offset, hive.len());
    found
}

/// The base block of a registry hive ends with the exclusive or of its first 127 words.
#[test]
fn the_layer_of_the_agent_has_valid_registry_hives() {
    let layout = Layout::new(&agent_image().bytes);
    let (_, layer) = layout.image(&layout.root());
    for path in AGENT_LAYER.iter().filter(|path| path.contains("config/")) {
        let hive = file(&layer, path);
        let words: Vec<u32> = hive.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!((&hive[..4], &hive[4096..4100], hive.len()), (&b"regf"[..], &b"hbin"[..], 8192), "{path}");
        assert_eq!(words[127], words[..127].iter().fold(0u32, |sum, word| sum ^ word), "{path}");
        assert_eq!(cells(&hive), [b"nk", b"sk"], "{path}: the root key and who may use it");
    }
}

/// A machine with containerd, and a shell whose `ctr` uses it.
struct Machine(Containerd);

/// It only stores: no CRI, and a snapshotter that needs nothing of the kernel.
const WITHOUT_CRI: &str = "disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.cri.v1.runtime\", \
                           \"io.containerd.cri.v1.images\"]";

impl Machine {
    async fn start(containerd: &Path, ctr: &Path, registry: &str) -> Self {
        let containerd = Containerd::start(containerd, registry, |_| WITHOUT_CRI.to_owned()).await.unwrap();
        let bin = containerd.folder().join("bin");
        fs::create_dir(&bin).unwrap();
        let script = format!(
            "#!/bin/sh\nset -e\nhosts=\n[ \"$2\" != push ] || hosts='--hosts-dir {}'\ngroup=$1 verb=$2\nshift 2\nexec '{}' --address '{}' \
             \"$group\" \"$verb\" $hosts \"$@\"\n",
            containerd.hosts().display(),
            ctr.display(),
            containerd.socket().display()
        );
        fs::write(bin.join("ctr"), script).unwrap();
        fs::set_permissions(bin.join("ctr"), fs::Permissions::from_mode(0o755)).unwrap();
        Self(containerd)
    }

    /// The output of commands, run in the folder.
    fn shell(&self, script: &str) -> Vec<u8> {
        let path = format!("{}:{}", self.0.folder().join("bin").display(), std::env::var("PATH").unwrap());
        output(Command::new("bash").args(["-ec", script]).current_dir(self.0.folder()).env("PATH", path))
    }

    /// A blob of its content store, as a file.
    fn blob(&self, digest: &str) -> PathBuf {
        let file = self.0.folder().join("blob");
        fs::write(&file, self.shell(&format!("ctr content get {digest}"))).unwrap();
        file
    }
}

/// The commands of the page that begin with this word.
fn commands_of_the_page(word: &str) -> Vec<String> {
    let page = pages(workspace()).into_iter().find(|page| page.name == "docs/delivery/agent.md").unwrap();
    let blocks = page.blocks().into_iter().filter(|block| block.language == "sh");
    let lines = blocks.flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.filter(|line| line.split(' ').next() == Some(word)).collect()
}

/// Writes what `make agent-image` writes, with another program: only Windows looks into it. Returns the digest of the image.
fn make_agent_image(folder: &Path) -> String {
    assert_eq!(commands_of_the_page("make"), ["make agent-image"]);
    let image = AgentImage { version: env!("CARGO_PKG_VERSION"), time: TIME, program: PROGRAM };
    let archive = image.archive().unwrap();
    fs::create_dir(folder.join("dist")).unwrap();
    fs::write(folder.join("dist").join(image.file_name()), archive.bytes).unwrap();
    archive.digest
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_bring_the_agents_image_into_a_registry_with_every_containerd() {
    let commands = commands_of_the_page("ctr");
    assert_eq!(commands.len(), 2, "{commands:?}");
    let authority = Authority::new().unwrap();
    for (containerd, ctr) in assets::containerds().unwrap().iter().zip(&assets::ctrs().unwrap()) {
        let registry = Registry::start(&authority, &Access::Anonymous).await.unwrap();
        let machine = Machine::start(containerd, ctr, &registry.host()).await;
        let digest = make_agent_image(machine.0.folder());
        machine.shell(&commands.join("\n").replace("registry.example", &registry.host()));

        let name = format!("{}/winpool-agent:{}", registry.host(), env!("CARGO_PKG_VERSION"));
        let images = String::from_utf8(machine.shell("ctr images list")).unwrap();
        let image = images.lines().find(|line| line.starts_with(&name)).unwrap_or_else(|| panic!("{images}"));
        assert!(image.contains(&digest) && image.contains("windows/amd64"), "{image}");
        let manifest: Value = serde_json::from_slice(&fs::read(machine.blob(&digest)).unwrap()).unwrap();
        let layer = machine.blob(manifest["layers"][0]["digest"].as_str().unwrap());
        assert_eq!(paths(&layer), AGENT_LAYER, "{}", containerd.display());
        assert_eq!(file(&layer, "Files/winpool-agent.exe"), PROGRAM);

        let url = format!("https://{}/v2/winpool-agent/manifests/{}", registry.host(), env!("CARGO_PKG_VERSION"));
        let accept = "application/vnd.oci.image.manifest.v1+json";
        let answer = authority.client().unwrap().get(url).header("accept", accept).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["docker-content-digest"].to_str().unwrap(), digest);
        let served: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(served, manifest);
    }
}
