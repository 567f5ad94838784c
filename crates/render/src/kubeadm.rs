//! The KubeadmConfigSpec of Windows machines that Cluster API creates: the layers of a configuration, added to the
//! specification of the platform team.
//!
//! Nothing of theirs is replaced: lists grow, taints and node labels are merged, and any other setting that both have
//! with different values is a problem.

mod arguments;
mod files;
mod patches;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

pub use self::patches::JsonPatches;
use self::{
    arguments::{ARGUMENTS, Arguments, CLOUD_PROVIDER, NODE_LABELS, added_taints, merged_labels, merged_taints},
    files::Files,
};
use winpool_api::{Taint, TaintEffect, TaintKey};
use winpool_facts::{
    ContainerRuntime,
    cluster_api::{
        CLOUD_UNINITIALIZED, CONTAINERD_CONFIG, CONTAINERD_DROP_IN, DIRECTORY, RESTART_KUBELET, UNINITIALIZED,
    },
    containerd::{CERTS_D, DropIn},
    kubelet_fields::HOST_RESOLVERS,
    kubelet_flags::{REGISTER_WITH_TAINTS, RESOLV_CONF, WINDOWS_PRIORITYCLASS},
};

use super::{
    Scope, Variant, containerd, environment, hosts, kubelet, pause, scripts,
    settings::{self, FileSettings},
};
use crate::profile::Profile;
use winpool_core::Problem;

const KUBELET_PATCH: &str = "kubeletconfiguration0+merge.yaml";
/// The endpoint of containerd for kubeadm.
const CRI_SOCKET: &str = ContainerRuntime::Containerd(()).endpoint();

#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    pub taints: &'a [Taint],
    pub node_labels: &'a BTreeMap<String, String>,
    pub profile: &'a Profile,
    pub variant: Variant,
    pub base: Option<Base<'a>>,
}

/// A KubeadmConfigSpec of the platform team.
#[derive(Clone, Copy, Debug)]
pub struct Base<'a> {
    /// The object, for messages: `KubeadmConfigTemplate base-windows`.
    pub object: &'a str,
    /// Its `spec.template.spec`.
    pub spec: &'a Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KubeadmTemplate {
    /// Everything except the name of the Secret.
    spec: Value,
    /// The content of large files, by key. They need a Secret.
    pub secret: BTreeMap<String, String>,
}

impl KubeadmTemplate {
    pub fn spec(&self, name: &str) -> Value {
        let mut spec = self.spec.clone();
        for file in spec["files"].as_array_mut().into_iter().flatten() {
            let from = file.pointer_mut("/contentFrom/secret");
            let own = from.filter(|from| {
                from["name"] == "" && self.secret.contains_key(from["key"].as_str().unwrap_or_default())
            });
            if let Some(from) = own {
                from["name"] = json!(secret_name(name));
            }
        }
        spec
    }

    /// The patches that turn a template with this specification into this one. The default has only the endpoint of
    /// containerd in `joinConfiguration.nodeRegistration`.
    pub fn patches(&self, base: Option<&Value>, name: &str) -> JsonPatches {
        let base = base.cloned().unwrap_or_else(default_spec);
        JsonPatches::between(&base, &self.spec(name))
    }

    /// Everything that decides whether two templates are equal, by name, regardless of bytes that are no settings.
    pub fn settings(&self) -> FileSettings {
        let mut found = settings_of(&self.spec(""));
        found.extend(settings::settings(&self.secret));
        found
    }
}

/// The name of the Secret with the large files of a template. Cluster API gives the name of a KubeadmConfig to its own Secret.
pub fn secret_name(template: &str) -> String {
    format!("{template}-files")
}

/// The settings of a specification: of its files, and of everything else.
pub fn settings_of(spec: &Value) -> FileSettings {
    let mut spec = spec.clone();
    for file in spec["files"].as_array_mut().into_iter().flatten() {
        let parsed = file["path"].as_str().zip(file["content"].as_str());
        let parsed = parsed.filter(|_| file.get("encoding").is_none()).map(|(path, text)| settings::parse(path, text));
        if let Some(parsed) = parsed {
            file["content"] = parsed;
        }
    }
    FileSettings::from([("spec".to_owned(), spec)])
}

/// The taint of a specification that its template leaves out: a kubelet with an external cloud provider adds it by itself, and the API
/// server refuses a Node with two.
pub fn omitted_taint(spec: &Value) -> Option<&'static str> {
    let arguments = Arguments::read(spec);
    let flag = arguments.get(REGISTER_WITH_TAINTS).filter(|_| arguments.has_external_cloud_provider());
    flag.is_some_and(|taints| taints.contains(CLOUD_UNINITIALIZED)).then_some(CLOUD_UNINITIALIZED)
}

pub fn node_labels(spec: &Value) -> BTreeMap<String, String> {
    let arguments = Arguments::read(spec);
    arguments.get(NODE_LABELS).map(arguments::labels).unwrap_or_default()
}

/// Renders the template of a machine.
pub fn template(machine: &Machine) -> Result<KubeadmTemplate, Vec<Problem>> {
    let base = machine.base.map(|base| (format!("{} spec.template.spec", base.object), base.spec));
    let path = base.as_ref().map_or("spec.template.spec", |(path, _)| path);
    let spec = base.as_ref().map_or_else(default_spec, |(_, spec)| (*spec).clone());
    let mut problems: Vec<Problem> = unsupported(path, &spec).collect();
    problems.extend(kubelet::problems(&machine.profile.kubelet, machine.variant.kubelet));
    problems.extend(containerd::snapshotter_problem(&machine.profile.containerd_extra, machine.variant.host));
    let image = match pause::image(machine.profile, &machine.variant) {
        Ok(image) => image,
        Err(problem) => return Err(problems.into_iter().chain([problem]).collect()),
    };
    let mut builder = Builder { machine: *machine, path, spec, image: image.as_deref(), problems };
    let mut arguments = builder.arguments();
    let flag = arguments.get(REGISTER_WITH_TAINTS).and_then(arguments::taints);
    let taints = builder.first_taints(&arguments, flag.as_deref().unwrap_or_default());
    if flag.is_some() {
        arguments.replace(REGISTER_WITH_TAINTS, kubelet::taints_flag(&taints));
    }
    let files = builder.files(&arguments, &taints);
    builder.commands();
    let Builder { mut spec, problems, .. } = builder;
    if !problems.is_empty() {
        return Err(problems);
    }
    spec["files"] = files.list.into();
    remove_empty_lists(&mut spec);
    arguments.write(&mut spec["joinConfiguration"]["nodeRegistration"]);
    Ok(KubeadmTemplate { spec, secret: files.secret })
}

/// The API accepts no empty list at these fields. An empty list of taints is another thing than none.
fn remove_empty_lists(spec: &mut Value) {
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    }
}

fn default_spec() -> Value {
    json!({"joinConfiguration": {"nodeRegistration": {"criSocket": CRI_SOCKET}}})
}

/// Properties of a specification that winpool cannot add to.
fn unsupported(path: &str, spec: &Value) -> impl Iterator<Item = Problem> {
    let ignition = spec["format"] == "ignition" || !spec["ignition"].is_null();
    let ignition = ignition.then(|| {
        let wrong = "the format is ignition, which Windows machines do not read";
        Problem::new(format!("{path}.format"), wrong, "use the format cloud-config")
    });
    let arguments = spec.pointer(ARGUMENTS).filter(|arguments| !arguments.is_array());
    let arguments = arguments.map(|_| {
        let path = format!("{path}{}", ARGUMENTS.replace('/', "."));
        Problem::new(path, "the arguments are not a list", "write each as an entry with name and value")
    });
    let worker = !spec["joinConfiguration"].is_object();
    let worker = worker.then(|| {
        let wrong = "there is no joinConfiguration, so the template is not one of workers";
        Problem::new(format!("{path}.joinConfiguration"), wrong, "add joinConfiguration.nodeRegistration")
    });
    ignition.into_iter().chain(worker).chain(arguments)
}

/// Adds to a specification, and collects the problems.
struct Builder<'a> {
    machine: Machine<'a>,
    path: &'a str,
    spec: Value,
    /// The pause image; `None` leaves that of the machine.
    image: Option<&'a str>,
    problems: Vec<Problem>,
}

impl Builder<'_> {
    fn files(&mut self, arguments: &Arguments, taints: &[Taint]) -> Files {
        let Machine { profile, variant, .. } = self.machine;
        let mut files = Files::read(self.spec.get("files"));
        let directory = self.patches_directory();
        let patch = format!("{directory}/{KUBELET_PATCH}");
        let layer = kubelet::yaml(taints, profile, &variant, Scope::Layer);
        self.add(&mut files, &patch, &kubelet::kubeadm_patch(&layer, variant.kubelet));
        self.containerd(&mut files);
        let environment: Vec<_> = environment::variables(&profile.proxy).collect();
        let name = self.spec.pointer("/joinConfiguration/nodeRegistration/name").and_then(Value::as_str);
        let first = first_arguments(arguments, name);
        self.add(&mut files, &script_path("containerd"), &scripts::containerd(&environment, &first));
        if !self.restarts_kubelet() {
            self.add(&mut files, &script_path("kubelet"), &scripts::kubelet(&environment));
        }
        self.problems.extend(files.problem(self.path));
        files
    }

    /// The directory of kubeadm's patches: that of the template, or winpool's.
    fn patches_directory(&mut self) -> String {
        let own = format!("{DIRECTORY}/patches");
        let existing = self.spec.pointer("/joinConfiguration/patches/directory").and_then(Value::as_str);
        let directory = existing.map_or(own, |directory| directory.trim_end_matches(['/', '\\']).to_owned());
        if let Some(join) = self.object(&["joinConfiguration"]) {
            join.insert("patches".to_owned(), json!({"directory": directory}));
        }
        directory
    }

    fn add(&mut self, files: &mut Files, path: &str, content: &str) {
        self.problems.extend(files.add(self.path, path, content).err());
    }

    fn containerd(&mut self, files: &mut Files) {
        let Machine { profile, variant, .. } = self.machine;
        let ContainerRuntime::Containerd(line) = variant.runtime else { return };
        let has_main_file = files.position(CONTAINERD_CONFIG).is_some();
        let (settings, extra, version) = (&profile.containerd, &profile.containerd_extra, line.release(0));
        let input = containerd::ContainerdInput { version, pause_image: self.image, settings, extra };
        let added = match containerd::drop_in(version) {
            // A main file of the template need not import drop-ins.
            Ok(DropIn::DeepMerge) if !has_main_file => {
                containerd::toml(&input, Scope::Layer).map(|text| self.add(files, CONTAINERD_DROP_IN, &text))
            }
            // A drop-in of containerd 1.x replaces all settings of the plugin.
            Ok(DropIn::DeepMerge | DropIn::ReplacesSection) => self.containerd_main_file(files, &input),
            Err(problem) => Err(problem),
        };
        self.problems.extend(added.err());
        for mirror in &settings.registry_mirrors {
            let path = format!("{CERTS_D}/{}/hosts.toml", hosts::directory(&mirror.registry)).replace('\\', "/");
            self.add(files, &path, &hosts::hosts(mirror).1);
        }
    }

    /// Merges into the main file of the template, or writes a complete one.
    fn containerd_main_file(&self, files: &mut Files, input: &containerd::ContainerdInput) -> Result<(), Problem> {
        let Some(position) = files.position(CONTAINERD_CONFIG) else {
            if input.settings.cni.bin_dir.is_empty() || input.settings.cni.conf_dir.is_empty() {
                let wrong = format!(
                    "containerd {} needs a complete configuration file, which replaces the network directories of the image",
                    input.version
                );
                let remedy = "set spec.containerd.cni.binDir and confDir of the profile to those of the image, or add \
                              config.toml to the files of the template";
                return Err(Problem::new("spec.containerd.cni", wrong, remedy));
            }
            if input.pause_image.is_none() {
                let wrong = format!(
                    "containerd {} needs a complete configuration file, which replaces the pause image of the image of the machine",
                    input.version
                );
                let remedy = "set another source with that image, or add config.toml to the files of the template";
                return Err(Problem::new("spec.pauseImage.source", wrong, remedy));
            }
            let text = containerd::toml(input, Scope::Whole)?;
            return files.add(self.path, CONTAINERD_CONFIG, &text);
        };
        let path = format!("{}.files[{position}]", self.path);
        let file = &files.list[position];
        let readable = file.get("encoding").is_none() && file["append"] != true;
        let Some(main) = file["content"].as_str().filter(|text| readable && !files::needs_encoding(text)) else {
            let wrong = format!(
                "containerd {} needs its settings in this file, whose content is not plain text",
                input.version
            );
            return Err(Problem::new(path, wrong, "write the content without Jinja, encoding, append and contentFrom"));
        };
        let merged = containerd::merged_into(main, &path, input)?;
        files.replace(position, &merged);
        Ok(())
    }

    fn arguments(&mut self) -> Arguments {
        let Machine { taints, node_labels, profile, variant, .. } = self.machine;
        let registration = format!("{}.joinConfiguration.nodeRegistration", self.path);
        let path = format!("{registration}.kubeletExtraArgs");
        let existing = self.spec.pointer("/joinConfiguration/nodeRegistration");
        let mut arguments = Arguments::read(&self.spec);
        let merged = added_taints(
            &format!("{registration}.taints"),
            existing.and_then(|existing| existing.get("taints")),
            taints,
        );
        self.problems.extend(arguments.overriding(&path, profile));
        // kubeadm writes the field resolvConf into the main file, where no kubelet loses it.
        let flags = kubelet::flags(profile, variant.kubelet);
        for (name, value) in flags.into_iter().filter(|(name, value)| *name != RESOLV_CONF || value == HOST_RESOLVERS) {
            self.problems.extend(arguments.set(&path, name, &value).err());
        }
        // The flag overrides the taints of nodeRegistration.
        let flag = arguments.get(REGISTER_WITH_TAINTS).map(|text| merged_taints(&path, text, taints));
        let replaced = flag.map(|flag| flag.map(|text| arguments.replace(REGISTER_WITH_TAINTS, text)));
        self.problems.extend(replaced.and_then(Result::err));
        if !node_labels.is_empty() {
            let merged = merged_labels(&path, arguments.get(NODE_LABELS).unwrap_or_default(), node_labels);
            self.problems.extend(merged.map(|text| arguments.replace(NODE_LABELS, text)).err());
        }
        self.problems.extend(arguments.problems(&path, variant.kubelet));
        match merged {
            Ok(Some(list)) => {
                if let Some(registration) = self.object(&["joinConfiguration", "nodeRegistration"]) {
                    registration.insert("taints".to_owned(), list);
                }
            }
            Ok(None) => {}
            Err(problem) => self.problems.push(problem),
        }
        arguments
    }

    /// The taints with which a kubelet registers its node: those of the flag, of the registration, and of Cluster API. A kubelet
    /// of a service of Windows reads no flags of kubeadm at its first start, so the configuration has to have all of them.
    fn first_taints(&self, arguments: &Arguments, flag: &[Taint]) -> Vec<Taint> {
        let registration = self.spec.pointer("/joinConfiguration/nodeRegistration/taints").and_then(Value::as_array);
        let registration = registration.into_iter().flatten().filter_map(|taint| Taint::deserialize(taint).ok());
        let of_system = |key: &str, value: &str| {
            let effect = TaintEffect::NoSchedule;
            Taint { key: key.to_owned(), value: value.to_owned(), effect }
        };
        let mut seen = BTreeSet::new();
        if arguments.has_external_cloud_provider() {
            // The kubelet adds it without looking for it, and the API server refuses a Node with two.
            seen.insert(TaintKey::from(&of_system(CLOUD_UNINITIALIZED, "true")));
        }
        let all = flag.iter().cloned().chain(registration).chain([of_system(UNINITIALIZED, "")]);
        all.filter(|taint| seen.insert(TaintKey::from(taint))).collect()
    }

    fn commands(&mut self) {
        let restarts = self.restarts_kubelet();
        self.append("preKubeadmCommands", &script_path("containerd"));
        if !restarts {
            self.append("postKubeadmCommands", &script_path("kubelet"));
        }
    }

    fn append(&mut self, field: &str, script: &str) {
        let mut commands = self.spec.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
        commands.push(json!(scripts::command(script)));
        self.spec[field] = commands.into();
    }

    /// Whether the template starts the kubelet with the flags of kubeadm by itself.
    fn restarts_kubelet(&self) -> bool {
        let commands = self.spec.get("postKubeadmCommands").and_then(Value::as_array);
        commands
            .into_iter()
            .flatten()
            .any(|command| command.as_str().is_some_and(|text| text.contains(RESTART_KUBELET)))
    }

    /// The object at a path of fields, which is created if it is absent.
    fn object(&mut self, path: &[&str]) -> Option<&mut Map<String, Value>> {
        let mut value = &mut self.spec;
        for field in path {
            let fields = value.as_object_mut()?;
            value = fields.entry(*field).or_insert_with(|| json!({}));
        }
        value.as_object_mut()
    }
}

/// The arguments that have no field of the configuration and decide how a node registers.
const REGISTERING: [&str; 4] = [CLOUD_PROVIDER, "hostname-override", "node-ip", WINDOWS_PRIORITYCLASS];

/// The arguments for the first start of a kubelet that is a service of Windows, without those that cloud-init evaluates on the
/// machine. `name` is that of the registration, which kubeadm turns into an argument.
fn first_arguments(arguments: &Arguments, name: Option<&str>) -> Vec<String> {
    let labels = arguments.get(NODE_LABELS).map(arguments::labels).unwrap_or_default();
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let labels = (!labels.is_empty()).then(|| format!("--{NODE_LABELS}={}", labels.join(",")));
    let value = |flag: &str| arguments.get(flag).or(name.filter(|_| flag == "hostname-override"));
    let plain = |value: &&str| !value.is_empty() && !value.contains(['{', ' ', '"']);
    let others = REGISTERING.into_iter().filter_map(|flag| Some(format!("--{flag}={}", value(flag).filter(plain)?)));
    labels.into_iter().chain(others).collect()
}

fn script_path(name: &str) -> String {
    format!("{DIRECTORY}/{name}.ps1")
}

#[cfg(test)]
mod tests;
