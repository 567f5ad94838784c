//! The files that the programs check, in a directory of their own, and the command lines.

use std::time::Duration;

use serde_json::{Map, Value, json};
use winpool_facts::kubelet_fields::fatal_in;

use crate::{
    change_plan::{ChangePlan, Refusal, RefusalReason},
    host::Host,
    layout::{
        FlagsPlace, Layout,
        command_line::{Argument, arguments},
        directory, flags_begin,
    },
    merge::{allowed, flags, text::Text, toml as toml_file, yaml},
    plan::{CONTAINERD_DROP_IN, imported_files, kubelet_drop_in},
    refuse::{list, read, refuse, unreadable},
};

/// The fields of KubeletConfiguration with paths, which are relative to the directory of the configuration file
/// (kubernetes/kubernetes, `KubeletConfigurationPathRefs` in `pkg/kubelet/apis/config/helpers.go`). A path without a
/// drive is relative too: Go's `filepath.IsAbs` on Windows.
const PATHS: &[&[&str]] = &[
    &["staticPodPath"],
    &["authentication", "x509", "clientCAFile"],
    &["tlsCertFile"],
    &["tlsPrivateKeyFile"],
    &["resolvConf"],
    &["volumePluginDir"],
    &["podLogsDir"],
];

/// The directory of the files that the programs check.
pub(super) const DIRECTORY: &str = r"C:\Program Files\winpool\preflight";
/// The time for one program. A kubelet takes less than 3 s.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
const NO_RUNTIME: &str = "npipe:////./pipe/winpool-none";
/// The directory of RKE2 with the drop-ins of the user, below that of the kubelet.
const RKE2_USER: &str = "20-cli-config-dir";
/// The program that removes directories, which kubelets create.
const SHELL: &str = r"C:\Windows\System32\cmd.exe";

/// The files of a check.
pub(super) struct Candidate<'a> {
    pub host: &'a dyn Host,
    pub layout: &'a Layout,
    pub plan: &'a ChangePlan,
    written: Vec<String>,
    runs_kubelet: bool,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(host: &'a dyn Host, layout: &'a Layout, plan: &'a ChangePlan) -> Self {
        Self { host, layout, plan, written: Vec::new(), runs_kubelet: false }
    }

    /// The fields that the plan removes from the main file of the kubelet, because it does not start with them: the path of the
    /// file, and the name of the field.
    pub(super) fn removed_fields(&self) -> Vec<(&'a str, &'static str)> {
        let main = self.layout.kubelet.config.as_deref().unwrap_or_default();
        let Some(edit) = self.plan.files.iter().find(|edit| edit.path.eq_ignore_ascii_case(main)) else {
            return Vec::new();
        };
        let settings = |content: &Option<Vec<u8>>| {
            let text = content.as_deref().and_then(|bytes| Text::decode(bytes).ok());
            text.and_then(|text| yaml::parse(&text.content).ok()).unwrap_or_default()
        };
        let (before, after) = (settings(&edit.before), settings(&edit.after));
        let is_removed = |name: &&str| before.contains_key(*name) && !after.contains_key(*name);
        let fields = fatal_in(self.layout.kubelet.minor).map(|field| field.name);
        fields.filter(is_removed).map(|name| (edit.path.as_str(), name)).collect()
    }

    /// The arguments for containerd; `None` if its configuration does not change.
    pub(super) fn containerd(&mut self) -> Result<Option<Vec<String>>, Refusal> {
        let config = &self.layout.containerd.config;
        let drop_in = self.plan.files.iter().find(|edit| edit.path.rsplit('\\').next() == Some(CONTAINERD_DROP_IN));
        if drop_in.is_none() && !self.differs(config) {
            return Ok(None);
        }
        let Some(text) = self.text(config)? else { return Ok(None) };
        let settings = toml_file::parse(&text.content).map_err(|error| unreadable(config, error))?;
        let mut files = imported_files(self.host, &self.layout.containerd, &settings)?;
        if let Some(edit) = drop_in {
            files.retain(|path| !path.eq_ignore_ascii_case(&edit.path));
            files.push(self.write(CONTAINERD_DROP_IN, edit.after.as_deref().unwrap_or_default())?);
        }
        let content = match files.is_empty() {
            true => text.content,
            false => {
                toml_file::set_list(&text.content, "imports", &files).map_err(|error| unreadable(config, error))?
            }
        };
        let path = self.write("config.toml", content.as_bytes())?;
        Ok(Some(["--config", &path, "config", "dump"].map(str::to_owned).to_vec()))
    }

    /// The arguments for the kubelet; `None` if its configuration and flags do not change.
    pub(super) fn kubelet(&mut self) -> Result<Option<Vec<String>>, Refusal> {
        let kubelet = &self.layout.kubelet;
        let flags_file = match &kubelet.flags {
            FlagsPlace::Service => None,
            FlagsPlace::EnvironmentFile { path, .. } | FlagsPlace::Rke2 { path } => Some(path),
        };
        let drop_in = kubelet_drop_in(self.layout);
        let files = [kubelet.config.as_ref(), flags_file, drop_in.as_ref()];
        let command = self.plan.services.iter().any(|edit| {
            edit.after.name.eq_ignore_ascii_case(&kubelet.service) && edit.before.command != edit.after.command
        });
        if !command && !files.into_iter().flatten().any(|path| self.differs(path)) {
            return Ok(None);
        }
        let mut arguments = Vec::new();
        if let Some(config) = &kubelet.config {
            arguments.push(format!("--config={}", self.kubelet_file(config)?));
        }
        if let Some(folder) = &kubelet.drop_ins {
            arguments.push(format!("--config-dir={}", self.kubelet_drop_ins(folder, drop_in)?));
        }
        arguments.push(format!(r"--root-dir={DIRECTORY}\root"));
        arguments.push(format!(r"--cert-dir={DIRECTORY}\pki"));
        arguments.push(format!("--container-runtime-endpoint={NO_RUNTIME}"));
        arguments.extend(self.flags()?);
        self.runs_kubelet = true;
        Ok(Some(arguments))
    }

    /// Writes the kubelet's file with absolute paths.
    fn kubelet_file(&mut self, config: &str) -> Result<String, Refusal> {
        let Some(text) = self.text(config)? else { return Err(unreadable(config, "the file does not exist")) };
        let settings = Value::Object(yaml::parse(&text.content).map_err(|error| unreadable(config, error))?);
        let mut absolute = Map::new();
        for keys in PATHS {
            let value = keys.iter().try_fold(&settings, |value, key| value.get(key)).and_then(Value::as_str);
            let path = value
                .filter(|path| !path.is_empty() && path.as_bytes().get(1) != Some(&b':') && !path.starts_with(r"\\"));
            if let Some(path) = path {
                let path = path.replace('/', "\\");
                let path = format!(r"{}\{}", directory(config), path.trim_start_matches('\\'));
                let nested = keys.iter().rev().fold(json!(path), |value, key| json!({ *key: value }));
                yaml::merge_maps(&mut absolute, nested.as_object().unwrap_or(&Map::new()));
            }
        }
        let content = yaml::merge(&text.content, &absolute).map_err(|error| unreadable(config, error))?;
        self.write("kubelet.yaml", &text.encode(&content))
    }

    /// Copies the drop-ins of the kubelet, with the changed one.
    fn kubelet_drop_ins(&mut self, folder: &str, drop_in: Option<String>) -> Result<String, Refusal> {
        const NAME: &str = "kubelet.conf.d";
        let mut paths = drop_in.into_iter().collect::<Vec<_>>();
        for folder in [folder.to_owned(), format!(r"{folder}\{RKE2_USER}")] {
            let names = list(self.host, &folder)?.into_iter().filter(|name| name.ends_with(".conf"));
            paths.extend(names.map(|name| format!(r"{folder}\{name}")));
        }
        paths.sort();
        paths.dedup();
        for path in paths {
            let relative = path.get(folder.len()..).unwrap_or_default();
            if let Some(content) = self.content(&path)? {
                self.write(&format!("{NAME}{relative}"), &content)?;
            }
        }
        Ok(format!(r"{DIRECTORY}\{NAME}"))
    }

    /// The flags after the changes that the agent writes. The others are not relevant for the check, or must not be
    /// used (`--kubeconfig`, `--windows-service`).
    fn flags(&self) -> Result<Vec<String>, Refusal> {
        let all: Vec<Argument> = match &self.layout.kubelet.flags {
            FlagsPlace::Service => {
                let edited = self
                    .plan
                    .services
                    .iter()
                    .find(|edit| edit.after.name.eq_ignore_ascii_case(&self.layout.kubelet.service));
                let command = edited.map(|edit| edit.after.command.as_str()).unwrap_or_default();
                flags_begin(command).map_or_else(Vec::new, |from| arguments(command, from))
            }
            FlagsPlace::EnvironmentFile { path, .. } => {
                let text = self.text(path)?.map(|text| text.content).unwrap_or_default();
                flags::environment_file(&text).map_or_else(Vec::new, |range| arguments(&text[range], 0))
            }
            FlagsPlace::Rke2 { path } => {
                let text = self.text(path)?.map(|text| text.content).unwrap_or_default();
                let settings = yaml::parse(&text).map_err(|error| unreadable(path, error))?;
                let list = settings.get("kubelet-arg+").and_then(Value::as_array).into_iter().flatten();
                return Ok(list.filter_map(Value::as_str).map(|flag| format!("--{flag}")).collect());
            }
        };
        let flag = |name: &&str| flags::value(&all, name).map(|value| format!("--{name}={value}"));
        Ok(allowed::FLAGS.iter().filter_map(flag).collect())
    }

    /// Whether the plan changes a file.
    fn differs(&self, path: &str) -> bool {
        self.plan.files.iter().any(|edit| edit.path.eq_ignore_ascii_case(path))
    }

    /// The content of a file after the changes.
    fn content(&self, path: &str) -> Result<Option<Vec<u8>>, Refusal> {
        match self.plan.files.iter().find(|edit| edit.path.eq_ignore_ascii_case(path)) {
            Some(edit) => Ok(edit.after.clone()),
            None => read(self.host, path),
        }
    }

    fn text(&self, path: &str) -> Result<Option<Text>, Refusal> {
        let content = self.content(path)?;
        content.map(|bytes| Text::decode(&bytes).map_err(|error| unreadable(path, error))).transpose()
    }

    /// Writes a file below the directory. Returns its path.
    fn write(&mut self, name: &str, content: &[u8]) -> Result<String, Refusal> {
        let path = format!(r"{DIRECTORY}\{name}");
        let written = self.host.replace(&path, content);
        written.map_err(|error| {
            refuse(
                RefusalReason::PreflightFailed,
                format!("{path} cannot be written: {error}"),
                "Free space on drive C:",
            )
        })?;
        self.written.push(path.clone());
        Ok(path)
    }

    /// Removes all files. What is left by an error is overwritten by the next check.
    pub(super) fn remove(&self) {
        for path in &self.written {
            let _ = self.host.remove(path);
        }
        if self.runs_kubelet {
            let arguments = ["/d", "/c", "rmdir", "/s", "/q", DIRECTORY].map(str::to_owned);
            let _ = self.host.run(SHELL, &arguments, LIMIT);
        }
    }
}
