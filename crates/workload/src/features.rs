//! What known issues depend on in a pod: see [`winpool_facts::known_issues`].

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};
use winpool_facts::known_issues::{PodFeature, PodFeatures};

/// The features of a pod; `host_process` is that of its security context.
pub(super) fn of(spec: &PodSpec, host_process: bool) -> PodFeatures {
    let containers = || spec.init_containers.iter().flatten().chain(&spec.containers);
    let is_host_process = |container: &Container| {
        let options = container.security_context.as_ref().and_then(|context| context.windows_options.as_ref());
        options.and_then(|options| options.host_process).unwrap_or(host_process)
    };
    let has_volume = |holds: fn(&Volume) -> bool| spec.volumes.iter().flatten().any(holds);
    PodFeatures::of(|feature| match feature {
        PodFeature::ExecProbe => containers().any(has_exec_probe),
        PodFeature::HostProcessExecProbe => containers().any(|one| is_host_process(one) && has_exec_probe(one)),
        PodFeature::HostProcess => containers().any(is_host_process),
        PodFeature::SubPaths => containers().map(sub_paths).sum::<usize>() > 1,
        PodFeature::InTreeVolume => has_volume(is_in_tree),
        PodFeature::VolumeClaim => {
            has_volume(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some())
        }
        PodFeature::ImageVolume => has_volume(|volume| volume.image.is_some()),
        PodFeature::PostStartHook => {
            containers().any(|one| one.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some()))
        }
        PodFeature::RunAsUser => {
            let of_pod = spec.security_context.as_ref().is_some_and(|context| context.run_as_user.is_some());
            let is_set = |one: &Container| one.security_context.as_ref().is_some_and(|own| own.run_as_user.is_some());
            of_pod || containers().any(is_set)
        }
        PodFeature::Gmsa => {
            let of_pod = spec.security_context.as_ref().and_then(|context| context.windows_options.as_ref());
            let own = containers().filter_map(|one| one.security_context.as_ref()?.windows_options.as_ref());
            own.chain(of_pod).any(|options| options.gmsa_credential_spec_name.is_some())
        }
    })
}

fn has_exec_probe(container: &Container) -> bool {
    let probes = [&container.liveness_probe, &container.readiness_probe, &container.startup_probe];
    probes.into_iter().flatten().any(|probe| probe.exec.is_some())
}

fn sub_paths(container: &Container) -> usize {
    let has_path = |path: &Option<String>| path.as_ref().is_some_and(|path| !path.is_empty());
    let mounts = container.volume_mounts.iter().flatten();
    mounts.filter(|mount| has_path(&mount.sub_path) || has_path(&mount.sub_path_expr)).count()
}

/// Whether a plugin in the kubelet mounts a device or a share.
fn is_in_tree(volume: &Volume) -> bool {
    volume.aws_elastic_block_store.is_some()
        || volume.azure_disk.is_some()
        || volume.azure_file.is_some()
        || volume.fc.is_some()
        || volume.flex_volume.is_some()
        || volume.gce_persistent_disk.is_some()
        || volume.iscsi.is_some()
        || volume.nfs.is_some()
        || volume.vsphere_volume.is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_features_of_a_pod_are_read_from_its_spec() {
        use PodFeature::*;
        let exec = json!({"exec": {"command": ["cmd"]}});
        let mount = |path: &str| json!({"name": "a", "mountPath": "C:\\a", "subPath": path});
        let container = |own: Value| json!({"containers": [own]});
        let host_process = json!({"windowsOptions": {"hostProcess": true}});
        let volume = |own: Value| json!({"containers": [{"name": "a"}], "volumes": [own]});
        let table: [(Value, &[PodFeature]); 15] = [
            (container(json!({"name": "a", "readinessProbe": {"httpGet": {"port": 80}}})), &[]),
            (container(json!({"name": "a", "startupProbe": exec})), &[ExecProbe]),
            (
                container(json!({"name": "a", "livenessProbe": exec, "securityContext": host_process})),
                &[ExecProbe, HostProcessExecProbe, HostProcess],
            ),
            (json!({"containers": [{"name": "a"}], "securityContext": host_process}), &[HostProcess]),
            (container(json!({"name": "a", "volumeMounts": [mount("x"), mount("")]})), &[]),
            (container(json!({"name": "a", "volumeMounts": [mount("x"), mount("y")]})), &[SubPaths]),
            (
                json!({"initContainers": [{"name": "i", "volumeMounts": [mount("x")]}],
                    "containers": [{"name": "a", "volumeMounts": [mount("y")]}]}),
                &[SubPaths],
            ),
            (volume(json!({"name": "a", "azureFile": {"secretName": "s", "shareName": "t"}})), &[InTreeVolume]),
            (volume(json!({"name": "a", "persistentVolumeClaim": {"claimName": "c"}})), &[VolumeClaim]),
            (volume(json!({"name": "a", "image": {"reference": "r"}})), &[ImageVolume]),
            (volume(json!({"name": "a", "emptyDir": {}})), &[]),
            (container(json!({"name": "a", "lifecycle": {"postStart": {"exec": {}}}})), &[PostStartHook]),
            (container(json!({"name": "a", "securityContext": {"runAsUser": 1000}})), &[RunAsUser]),
            (json!({"containers": [{"name": "a"}], "securityContext": {"runAsUser": 0}}), &[RunAsUser]),
            (
                container(
                    json!({"name": "a", "securityContext": {"windowsOptions": {"gmsaCredentialSpecName": "web"}}}),
                ),
                &[Gmsa],
            ),
        ];
        for (spec, expected) in table {
            let read: PodSpec = serde_json::from_value(spec.clone()).unwrap();
            let of_pod = spec["securityContext"]["windowsOptions"]["hostProcess"] == json!(true);
            assert_eq!(of(&read, of_pod).iter().collect::<Vec<_>>(), expected, "{spec}");
        }
    }
}
