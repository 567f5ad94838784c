//! `install.yaml`: the namespace, the CRDs and the operator in one file.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

const HEADER: &str = "\
# winpool: its namespace, its CustomResourceDefinitions and the operator.
#
#   kubectl apply -f install.yaml
#   kubectl delete -f install.yaml -l app.kubernetes.io/name=winpool    # the operator alone
#
# Without -l, kubectl delete also deletes all pools, and the configurations that nodes use.
";

/// `install.yaml` with the operator's `image`, such as `registry.example/winpool:0.1.0`; by default the one that
/// `config/default` names.
///
/// # Errors
/// When a file of `config` or `crds` in the repository at `root` cannot be read.
pub fn install_yaml(root: &Path, image: Option<&str>) -> Result<String> {
    let operator = root.join("config/default");
    let (name, configured) = image_of(&kustomization(&operator)?)?;
    let image = image.unwrap_or(&configured);
    let mut files = vec![root.join("config/namespace.yaml")];
    for folder in [root.join("crds"), operator] {
        let listed = kustomization(&folder)?;
        files.extend(strings(&listed["resources"]).map(|file| folder.join(file)));
    }
    let mut text = HEADER.to_owned();
    let mut images = 0;
    for file in files {
        let read = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        text.push_str("---\n");
        for line in read.lines() {
            let replaced = line.split_once("image: ").filter(|(_, value)| *value == name);
            match replaced {
                Some((indent, _)) => {
                    images += 1;
                    text.push_str(&format!("{indent}image: {image}\n"));
                }
                None => text.push_str(&format!("{line}\n")),
            }
        }
    }
    ensure!(images == 1, "config/default names the image {name} {images} times instead of once");
    Ok(text)
}

/// The name that the manifests use for the operator's image, and the image that a kustomization puts in its place.
fn image_of(kustomization: &Value) -> Result<(String, String)> {
    let image = &kustomization["images"][0];
    let text = |field: &str| image[field].as_str().with_context(|| format!("config/default: images has no {field}"));
    Ok((text("name")?.to_owned(), format!("{}:{}", text("newName")?, text("newTag")?)))
}

fn kustomization(folder: &Path) -> Result<Value> {
    let file = folder.join("kustomization.yaml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| file.display().to_string())
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
