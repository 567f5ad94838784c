//! `install.yaml`: the namespace, the CRDs and the operator in one file.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The folder of the operator's manifests. Its kustomization is the only place that names the image.
const OPERATOR: &str = "config/default";
const HEADER: &str = "\
# winpool: its namespace, its CustomResourceDefinitions and the operator.
#
#   kubectl apply -f install.yaml
#   kubectl delete -f install.yaml -l app.kubernetes.io/name=winpool    # the operator alone
#
# Without -l, kubectl delete also deletes all pools, and the configurations that nodes use.
# The nodes pull the operator from the only line that begins with `image:`, the image of the Deployment at the end.
";

/// The operator's image, as `config/default` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorImage {
    /// The name that the manifests have in its place.
    name: String,
    /// The name without a tag, such as `registry.example/winpool`.
    pub repository: String,
    pub tag: String,
}

impl OperatorImage {
    pub fn read(root: &Path) -> Result<Self> {
        let kustomization = kustomization(&root.join(OPERATOR))?;
        let image = &kustomization["images"][0];
        let text = |field: &str| {
            image[field].as_str().map(str::to_owned).with_context(|| format!("{OPERATOR}: images has no {field}"))
        };
        Ok(Self { name: text("name")?, repository: text("newName")?, tag: text("newTag")? })
    }
}

/// `install.yaml` with this image of the operator, such as `registry.example/winpool@sha256:…`; by default with the one that
/// `config/default` names.
pub fn install_yaml(root: &Path, reference: Option<String>) -> Result<String> {
    let operator = root.join(OPERATOR);
    let image = OperatorImage::read(root)?;
    let replacement = reference.unwrap_or_else(|| format!("{}:{}", image.repository, image.tag));
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
            let replaced = line.split_once("image: ").filter(|(_, value)| *value == image.name);
            match replaced {
                Some((indent, _)) => {
                    images += 1;
                    text.push_str(&format!("{indent}image: {replacement}\n"));
                }
                None => text.push_str(&format!("{line}\n")),
            }
        }
    }
    ensure!(images == 1, "{OPERATOR} names the image {} {images} times instead of once", image.name);
    Ok(text)
}

fn kustomization(folder: &Path) -> Result<Value> {
    let file = folder.join("kustomization.yaml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| file.display().to_string())
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
