//! Checks the configurations for Windows nodes with the real containerd for Windows, under Wine: `containerd.exe config dump` reads files as
//! the service does, and prints the resulting configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use anyhow::{Context, Result, anyhow, ensure};
use e2e::{
    assets,
    wine::{Prefix, windows_path},
};
use toml::{Table, Value};
use winpool_api::{Cni, ContainerdSettings, RegistryMirror};
use winpool_facts::{
    ContainerdVersion,
    containerd::{self as facts, CniBin, DIFFERS, DropIn, Keys, RELEASE_LINES, ReleaseLine},
};
use winpool_render::{
    Scope,
    containerd::{ContainerdInput, toml},
    toml_layer,
};

const PAUSE: &str = "mcr.microsoft.com/oss/kubernetes/pause:3.9";

/// The log message of containerd after it has started its plugins.
const BOOTED: &str = "successfully booted";

/// A containerd program.
struct Program {
    program: PathBuf,
    version: ContainerdVersion,
    release_line: &'static ReleaseLine,
}

/// Every version of containerd.
fn programs() -> &'static [Program; 3] {
    static PROGRAMS: LazyLock<[Program; 3]> =
        LazyLock::new(|| assets::windows_containerds().unwrap().map(|program| Program::new(program).unwrap()));
    &PROGRAMS
}

/// The files of a configuration.
#[derive(Clone, Debug, Default)]
struct Files {
    main: String,
    drop_in: Option<String>,
}

impl Files {
    /// The path of the main file. It imports the drop-in, if there is one.
    fn write(&self, directory: &Path) -> Result<PathBuf> {
        let (path, drop_ins) = (directory.join("config.toml"), directory.join("conf.d"));
        let mut main: Table = self.main.parse()?;
        fs::create_dir(&drop_ins)?;
        if let Some(drop_in) = &self.drop_in {
            fs::write(drop_ins.join("50-winpool.toml"), drop_in)?;
            main.insert("imports".into(), Value::from(vec![windows_path(&drop_ins.join("*.toml"))]));
        }
        fs::write(&path, main.to_string())?;
        Ok(path)
    }
}

impl Program {
    fn new(program: PathBuf) -> Result<Self> {
        let output = Prefix::shared()?.command(&program).arg("--version").output()?;
        let text = String::from_utf8(output.stdout)?;
        let version = text.split_whitespace().find_map(|word| word.trim_start_matches('v').parse().ok());
        let version = version.with_context(|| format!("{}: {text}", program.display()))?;
        let release_line =
            facts::release_line(version).with_context(|| format!("containerd {version} is not known"))?;
        Ok(Self { program, version, release_line })
    }

    /// The configuration that containerd reads from files.
    fn dump(&self, files: &Files) -> Result<Table> {
        let directory = tempfile::tempdir()?;
        self.dump_file(&files.write(directory.path())?)
    }

    /// The configuration that containerd reads from a file with this content.
    fn dump_text(&self, text: &str) -> Result<Table> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("config.toml");
        fs::write(&path, text)?;
        self.dump_file(&path)
    }

    fn dump_file(&self, path: &Path) -> Result<Table> {
        let mut command = Prefix::shared()?.command(&self.program);
        let output = command.args(["--config", &windows_path(path), "config", "dump"]).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "rejected: {stderr}");
        ensure!(!stderr.contains("nknown key"), "ignored: {stderr}");
        Ok(String::from_utf8(output.stdout)?.parse()?)
    }

    fn rendered(&self, settings: &ContainerdSettings, scope: Scope) -> Result<String> {
        rendered(self.version, settings, scope)
    }
}

fn rendered(version: ContainerdVersion, settings: &ContainerdSettings, scope: Scope) -> Result<String> {
    let extra = settings.extra_config.parse()?;
    let input = ContainerdInput { version, pause_image: Some(PAUSE), settings, extra: &extra };
    toml(&input, scope).map_err(|problem| anyhow!("{problem}"))
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Result<&'a Value> {
    let (first, rest) = path.split_first().context("a path has keys")?;
    let found = rest.iter().try_fold(table.get(*first), |value, key| Some(value?.get(key)));
    found.flatten().with_context(|| format!("no {path:?}"))
}

type Leaves = BTreeMap<Vec<String>, Value>;

/// Every value that is not a table, by its path.
fn leaves(table: &Table) -> Leaves {
    fn visit(table: &Table, path: &mut Vec<String>, leaves: &mut Leaves) {
        for (name, value) in table {
            path.push(name.clone());
            match value {
                Value::Table(inner) => visit(inner, path, leaves),
                value => drop(leaves.insert(path.clone(), value.clone())),
            }
            path.pop();
        }
    }
    let mut found = BTreeMap::new();
    visit(table, &mut Vec::new(), &mut found);
    found
}

/// Reads a whole file with containerd, and compares the result with every value that is expected.
fn check_whole(program: &Program, file: &str, expected: &Table) -> Result<()> {
    let understood = leaves(&program.dump_text(file)?);
    for (path, written) in leaves(expected) {
        let understood = understood.get(&path);
        ensure!(Some(&written) == understood, "{path:?}: the file has {written}, containerd understood {understood:?}");
    }
    Ok(())
}

fn with_mirror() -> ContainerdSettings {
    let mirror = RegistryMirror {
        registry: "docker.io".into(),
        endpoints: vec!["https://mirror.example".into()],
        ..RegistryMirror::default()
    };
    ContainerdSettings { registry_mirrors: vec![mirror], ..ContainerdSettings::default() }
}

#[test]
fn from_2_4_on_containerd_ignores_bin_dir_in_a_file_of_version_3_and_migrates_one_of_version_2() {
    const BINARIES: &str = r"C:\opt\cni\bin";
    let v3 = format!("version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dir = '{BINARIES}'\n");
    let v2 = format!("version = 2\n[plugins.'io.containerd.grpc.v1.cri'.cni]\nbin_dir = '{BINARIES}'\n");
    for program in programs().iter().filter(|program| program.version >= ContainerdVersion::new(2, 0, 0)) {
        let ignores = program.version >= facts::WITHOUT_BIN_DIR;
        let read = |file: &str| -> Result<bool> {
            let dump = program.dump_text(file)?;
            let cni = at(&dump, &["plugins", "io.containerd.cri.v1.runtime", "cni"])?;
            let directories = [cni.get("bin_dir"), cni.get("bin_dirs").and_then(|list| list.get(0))];
            Ok(directories.into_iter().flatten().any(|directory| directory.as_str() == Some(BINARIES)))
        };
        assert!(read(&v2).unwrap(), "{}", program.version);
        match read(&v3) {
            Ok(is_read) => assert!(is_read && !ignores, "{}", program.version),
            Err(error) => assert!(ignores && error.to_string().contains("cni bin_dir"), "{error}"),
        }
    }
}

/// Every setting, and a user-defined scalar, list, table and handler.
fn everything(release_line: &ReleaseLine) -> ContainerdSettings {
    let (images, runtime) = (release_line.keys.snapshotter[1], release_line.keys.runtimes[1]);
    let extra_config = format!(
        "oom_score = -500\n[plugins.'{images}']\nmax_concurrent_downloads = 7\n\
         [plugins.'io.containerd.gc.v1.scheduler']\nschedule_delay = '1s'\n\
         [plugins.'{runtime}'.containerd.runtimes.large]\nruntime_type = 'io.containerd.runhcs.v1'\n\
         pod_annotations = ['io.microsoft.virtualmachine.*']\n\
         [plugins.'{runtime}'.containerd.runtimes.large.options]\nSandboxIsolation = 1\nVmProcessorCount = 4\n\
         VmMemorySizeInMb = 4096\nScaleCpuLimitsToSandbox = true\nScrubLogs = true\n"
    );
    ContainerdSettings {
        cni: Cni { bin_dir: r"C:\it's\cni bin".into(), conf_dir: r"C:\cni\conf".into() },
        root: r"C:\containerd".into(),
        image_pull_progress_timeout: "45m0s".into(),
        extra_config,
        ..with_mirror()
    }
}

/// Configurations like those that bootstrap tools write.
fn bootstraps(keys: &Keys, version: u32, reads: ContainerdVersion) -> Vec<(&'static str, Table)> {
    let old = version == 2;
    // From 2.4 on, containerd ignores the older setting for CNI plugins.
    let plugins = |folder: &str| match reads < ContainerdVersion::new(2, 4, 0) {
        true => format!("bin_dir = '{folder}'"),
        false => format!("bin_dirs = ['{folder}']"),
    };
    let [of_image_builder, of_aks] = [plugins(r"C:\opt\cni\bin"), plugins(r"C:\k\cni")];
    let [images, runtime] = match old {
        true => ["io.containerd.grpc.v1.cri"; 2],
        false => ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"],
    };
    let sandbox = if old {
        "sandbox_image = 'registry.k8s.io/pause:3.6'".to_owned()
    } else {
        format!("[plugins.'{images}'.pinned_images]\nsandbox = 'registry.k8s.io/pause:3.6'")
    };
    let head = format!("version = {version}\nroot = 'C:\\ProgramData\\containerd\\root'\n");
    // image-builder: the older setting for CNI plugins, and a header for registries.
    let image_builder = format!(
        "{head}[grpc]\naddress = '\\\\.\\pipe\\containerd-containerd'\n[plugins.'{images}']\n{sandbox}\n\
         [plugins.'{images}'.registry.headers]\nX-Meta-Source-Client = ['azure/capz']\n\
         [plugins.'{runtime}'.cni]\n{of_image_builder}\nconf_dir = 'C:\\etc\\cni\\net.d'\n"
    );
    // AKS: handlers with options, registries, message size limits, garbage collection.
    let aks = format!(
        "{head}[grpc]\nmax_recv_message_size = 20000000\n[metrics]\naddress = '0.0.0.0:10257'\n\
         [plugins.'{images}']\n{sandbox}\n[plugins.'{images}'.registry]\nconfig_path = 'C:\\certs'\n\
         [plugins.'{runtime}'.cni]\n{of_aks}\nconf_dir = 'C:\\k\\cni\\config'\n\
         [plugins.'{runtime}'.containerd]\ndefault_runtime_name = 'default_runtime'\n\
         [plugins.'{runtime}'.containerd.runtimes.default_runtime]\nruntime_type = 'io.containerd.runhcs.v1'\n\
         [plugins.'{runtime}'.containerd.runtimes.runhcs-wcow-process]\nruntime_type = 'io.containerd.runhcs.v1'\n\
         [plugins.'{runtime}'.containerd.runtimes.runhcs-wcow-process.options]\nDebug = true\nDebugType = 2\n\
         [plugins.'io.containerd.gc.v1.scheduler']\nschedule_delay = '0s'\nstartup_delay = '200ms'\n"
    );
    // sig-windows-tools: the defaults, with other folders for CNI.
    let folders = match keys.cni_bin {
        CniBin::Directories(_) => r"bin_dirs = ['C:\opt\cni\bin']",
        CniBin::Directory(_) => r"bin_dir = 'C:\opt\cni\bin'",
    };
    let sig_windows_tools =
        format!("version = {version}\n[plugins.'{runtime}'.cni]\n{folders}\nconf_dir = 'C:\\etc\\cni\\net.d'\n");
    let parsed = |text: String| text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
    let files = [("image-builder", image_builder), ("AKS", aks), ("sig-windows-tools", sig_windows_tools)];
    files.map(|(name, text)| (name, parsed(text))).into()
}

/// The bootstrap's file and the layer, combined as described in the first lines of the layer.
fn combined(program: &Program, bootstrap: &Table, layer: &str) -> Files {
    match program.release_line.drop_in {
        DropIn::DeepMerge => Files { main: bootstrap.to_string(), drop_in: Some(layer.to_owned()) },
        DropIn::ReplacesSection => {
            let mut merged = bootstrap.clone();
            toml_layer::merge(&mut merged, &layer.parse().unwrap()).unwrap();
            Files { main: merged.to_string(), drop_in: None }
        }
    }
}

/// Checks that containerd reads the layer's values from a bootstrap's file with a layer, and all other values as from
/// the bootstrap's file alone.
fn check_layer(program: &Program, bootstrap: &Table, alone: &Leaves, settings: &ContainerdSettings) -> Result<()> {
    let layer = program.rendered(settings, Scope::Layer)?;
    let both = leaves(&program.dump(&combined(program, bootstrap, &layer))?);
    let layer = leaves(&layer.parse()?);

    // A handler has more values than the layer.
    let runtimes: Vec<&str> = program.release_line.keys.runtimes.to_vec();
    let handlers: BTreeSet<String> = layer
        .keys()
        .filter(|path| has_prefix(path, &runtimes))
        .filter_map(|path| path.get(runtimes.len()).cloned())
        .collect();
    let of_handler = |path: &[String]| {
        has_prefix(path, &runtimes) && path.get(runtimes.len()).is_some_and(|name| handlers.contains(name))
    };
    for (path, value) in &layer {
        if path == &["version"] {
            continue;
        }
        let understood = both.get(path).with_context(|| format!("{path:?} of the layer is lost"))?;
        ensure!(understood == value, "{path:?}: the layer says {value}, containerd understood {understood}");
    }
    for path in alone.keys().chain(both.keys()).filter(|path| !layer.contains_key(*path)) {
        if path[0] == "imports" || of_handler(path) {
            continue;
        }
        let (before, after) = (alone.get(path), both.get(path));
        ensure!(before == after, "{path:?}: {before:?} became {after:?}");
    }
    Ok(())
}

fn has_prefix(path: &[String], prefix: &[&str]) -> bool {
    path.len() > prefix.len() && path.iter().zip(prefix).all(|(a, b)| a == b)
}

#[test]
fn containerd_understands_the_whole_file_for_its_own_version() {
    for program in programs() {
        let odd = program.rendered(&everything(program.release_line), Scope::Whole).unwrap();
        check_whole(program, &odd, &odd.parse().unwrap()).unwrap();
        let file = program.rendered(&with_mirror(), Scope::Whole).unwrap();
        let expected = file.parse().unwrap();
        check_whole(program, &file, &expected).unwrap();

        // A wrong file is detected.
        let version_line = format!("version = {}", program.release_line.config_version);
        let broken = [
            ("a number for a text", format!("\"{PAUSE}\""), "5"),
            ("a text for a number", version_line, "version = \"two\""),
            ("a setting of another name", "default_runtime_name".into(), "default_runtime"),
            ("a table that is not closed", "[plugins".into(), "plugins"),
        ];
        for (what, right, wrong) in broken {
            assert!(file.contains(&right), "{right} is in the file");
            let file = file.replacen(&right, wrong, 1);
            assert!(check_whole(program, &file, &expected).is_err(), "{what} is not detected by {}", program.version);
        }
        let newer = RELEASE_LINES.iter().find(|newer| newer.config_version > program.release_line.config_version);
        if let Some(newer) = newer {
            let file = rendered(newer.first, &with_mirror(), Scope::Whole).unwrap();
            assert!(check_whole(program, &file, &expected).is_err(), "the file for {} is not detected", newer.first);
        }
    }
}

#[test]
fn a_whole_file_differs_from_the_defaults_for_windows_only_by_what_winpool_chooses() {
    for program in programs() {
        let keys = program.release_line.keys;
        let empty = format!("version = {}", program.release_line.config_version);
        let whole = program.rendered(&with_mirror(), Scope::Whole).unwrap();
        let [defaults, whole] = [empty, whole].map(|text| leaves(&program.dump_text(&text).unwrap()));
        let differs = |path: &&Vec<String>| path[0] != "imports" && defaults.get(*path) != whole.get(*path);
        let differing: BTreeSet<_> = defaults.keys().chain(whole.keys()).filter(differs).map(Vec::as_slice).collect();
        let chosen = [keys.sandbox_image, keys.pull_progress_timeout, keys.registry_config_path, DIFFERS];
        let chosen = chosen.map(|path| path.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(differing, chosen.iter().map(Vec::as_slice).collect(), "containerd {}", program.version);
    }
}

/// What `config dump` does not report.
#[test]
fn the_cri_plugin_starts_with_a_layer_beside_the_older_setting_for_cni_plugins() {
    let prefix = Prefix::new().unwrap();
    let failure = |program: &Program, files: &Files| {
        let directory = tempfile::tempdir().unwrap();
        let mut command = prefix.command(&program.program);
        command.args(["--config", &windows_path(&files.write(directory.path()).unwrap())]);
        let output = prefix.output_until(&mut command, |output| output.contains(BOOTED)).unwrap();
        assert!(output.contains(BOOTED), "{output}");
        let failed = |line: &&str| line.contains("failed to load plugin") && line.contains("io.containerd.grpc.v1.cri");
        output.lines().find(failed).map(str::to_owned)
    };
    for program in programs() {
        let line = program.release_line;
        let version = if line.drop_in == DropIn::DeepMerge { 3 } else { 2 };
        let older = bootstraps(line.keys, version, ContainerdVersion::new(1, 7, 0));
        let (_, image_builder) = &older[0];
        let layer = program.rendered(&everything(line), Scope::Layer).unwrap();
        assert_eq!(failure(program, &combined(program, image_builder, &layer)), None);

        // 1.7 reads `bin_dir` only, and 2.4 `bin_dirs` only.
        let unset = "bin_dir = \"\"\n";
        let is_unset = matches!(line.keys.cni_bin, CniBin::Directories(_)) && line.first < facts::WITHOUT_BIN_DIR;
        assert_eq!(layer.contains(unset), is_unset);
        if is_unset {
            let refusal = failure(program, &combined(program, image_builder, &layer.replace(unset, ""))).unwrap();
            assert!(refusal.contains("`cni.bin_dir` and `cni.bin_dirs` cannot be set at the same time"), "{refusal}");
        }
    }
}

#[test]
fn a_layer_changes_what_it_names_and_keeps_everything_else_of_the_bootstrap() {
    for program in programs() {
        let version = if program.release_line.drop_in == DropIn::DeepMerge { 3 } else { 2 };
        for (name, bootstrap) in bootstraps(program.release_line.keys, version, program.version) {
            let alone = leaves(&program.dump(&Files { main: bootstrap.to_string(), drop_in: None }).unwrap());
            for settings in [ContainerdSettings::default(), everything(program.release_line)] {
                check_layer(program, &bootstrap, &alone, &settings).unwrap_or_else(|wrong| {
                    let layer = program.rendered(&settings, Scope::Layer).unwrap();
                    panic!("containerd {} with the file of {name}: {wrong:#}\n{layer}", program.version)
                });
            }
        }
    }
}

/// The reason for the warning in the first lines of a layer.
#[test]
fn a_drop_in_of_containerd_1_loses_the_network_of_the_bootstrap() {
    for program in programs() {
        // Imported by containerd 1.x; beside a main file of version 2 with containerd 2.0 to 2.2.
        if program.release_line.config_version > 3 {
            continue;
        }
        let wrong = 2;
        let keys = facts::release_line(ContainerdVersion::new(1, 7, 0)).unwrap().keys;
        let (_, bootstrap) = bootstraps(keys, wrong, program.version).into_iter().next().unwrap();
        let alone = program.dump(&Files { main: bootstrap.to_string(), drop_in: None }).unwrap();
        let network = program.release_line.keys.cni_conf_dir;
        assert_eq!(at(&alone, network).unwrap().as_str(), Some(r"C:\etc\cni\net.d"), "{}", program.version);
        let layer = program.rendered(&ContainerdSettings::default(), Scope::Layer).unwrap();
        let both = program.dump(&Files { main: bootstrap.to_string(), drop_in: Some(layer) });
        let lost = both.map(|both| at(&both, network).unwrap().as_str() != Some(r"C:\etc\cni\net.d"));
        assert!(lost.unwrap_or(true), "containerd {} keeps the network: remove the warning", program.version);
    }
}
