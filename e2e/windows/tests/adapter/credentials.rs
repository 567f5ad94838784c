//! The files of a HostProcess container.

use std::fs;

use tempfile::TempDir;
use winpool_agent::credentials::in_cluster;

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";

#[test]
fn the_files_of_the_service_account_are_read_below_the_mount_point() {
    let root = TempDir::new().unwrap();
    let directory = root.path().join(r"var\run\secrets\kubernetes.io\serviceaccount");
    fs::create_dir_all(&directory).unwrap();
    for (name, content) in [("token", "secret"), ("ca.crt", CERTIFICATE), ("namespace", "winpool-agent")] {
        fs::write(directory.join(name), content).unwrap();
    }
    let variable = |name: &str| match name {
        "CONTAINER_SANDBOX_MOUNT_POINT" => Some(format!(r"{}\", root.path().display())),
        "KUBERNETES_SERVICE_HOST" => Some("10.96.0.1".to_owned()),
        "KUBERNETES_SERVICE_PORT" => Some("443".to_owned()),
        _ => None,
    };
    let config = in_cluster(variable, |path| fs::read(path)).unwrap();
    assert_eq!(config.cluster_url, "https://10.96.0.1:443/");
    assert_eq!(config.default_namespace, "winpool-agent");
    assert_eq!(fs::read(config.auth_info.token_file.unwrap()).unwrap(), b"secret");
    assert_eq!(fs::read(config.root_cert_file.unwrap()).unwrap(), CERTIFICATE.as_bytes());

    fs::remove_file(directory.join("token")).unwrap();
    let error = in_cluster(variable, |path| fs::read(path)).unwrap_err().to_string();
    assert!(error.contains(r"\var\run\secrets\kubernetes.io\serviceaccount\token"), "{error}");
}
