//! `files`: those of the platform team, and those of winpool.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use winpool_core::Problem;
use winpool_facts::cluster_api::{MAX_CONTENT, MAX_FILES};

/// Files in the form of `files`, and the entries of the Secret with the content of the large ones.
#[derive(Clone, Debug, Default)]
pub struct Files {
    pub list: Vec<Value>,
    pub secret: BTreeMap<String, String>,
}

impl Files {
    pub fn read(value: Option<&Value>) -> Self {
        Self { list: value.and_then(Value::as_array).cloned().unwrap_or_default(), secret: BTreeMap::new() }
    }

    /// The position of the file with a path, which Windows compares without case and with either slash.
    pub fn position(&self, path: &str) -> Option<usize> {
        let normal = |path: &str| path.replace('\\', "/").to_lowercase();
        let wanted = normal(path);
        self.list.iter().position(|file| file["path"].as_str().is_some_and(|path| normal(path) == wanted))
    }

    /// Adds a file.
    pub fn add(&mut self, prefix: &str, path: &str, content: &str) -> Result<(), Problem> {
        if let Some(position) = self.position(path) {
            let wrong = format!("the template has the file {path}, which winpool adds");
            return Err(Problem::new(format!("{prefix}.files[{position}].path"), wrong, "remove the file"));
        }
        let file = self.file(path, content);
        self.list.push(file);
        Ok(())
    }

    pub fn replace(&mut self, position: usize, content: &str) {
        let path = self.list[position]["path"].as_str().unwrap_or_default().to_owned();
        let file = self.file(&path, content);
        if let (Some(fields), Value::Object(new)) = (self.list[position].as_object_mut(), file) {
            fields.retain(|key, _| !["content", "contentFrom", "encoding", "path"].contains(&&**key));
            fields.extend(new);
        }
    }

    /// A file. Large content is in the Secret, and content that the template engine of cloud-init would change is encoded.
    fn file(&mut self, path: &str, content: &str) -> Value {
        let encoded = needs_encoding(content);
        let text = if encoded { STANDARD.encode(content) } else { content.to_owned() };
        let mut file = json!({"path": path});
        if encoded {
            file["encoding"] = json!("base64");
        }
        if text.chars().count() <= MAX_CONTENT {
            file["content"] = json!(text);
        } else {
            let key = secret_key(path);
            file["contentFrom"] = json!({"secret": {"name": "", "key": key}});
            self.secret.insert(key, text);
        }
        file
    }

    pub fn problem(&self, prefix: &str) -> Option<Problem> {
        (self.list.len() > MAX_FILES).then(|| {
            let wrong = format!("there are {} files, and Cluster API accepts {MAX_FILES}", self.list.len());
            Problem::new(format!("{prefix}.files"), wrong, "remove files of the template, or registry mirrors")
        })
    }
}

/// Whether the content contains a delimiter of Jinja, which cloud-init would evaluate, or begins with a space, which would
/// end the block of YAML. Source: kubernetes-sigs/cluster-api v1.14.0, `bootstrap/kubeadm/pkg/cloudinit`.
pub fn needs_encoding(content: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|delimiter| content.contains(delimiter)) || content.starts_with([' ', '\t'])
}

/// The key of a Secret for a path: letters, digits, dots, dashes and underscores.
fn secret_key(path: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || "-._".contains(character) { character } else { '-' }
    };
    path.trim_start_matches("C:/").chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(content: &str) -> Files {
        let mut files = Files::default();
        files.add("spec", "C:/k/a b.txt", content).unwrap();
        files
    }

    #[test]
    fn content_is_written_as_it_is_unless_it_is_large_or_looks_like_a_template() {
        assert_eq!(added("text\n").list, [json!({"path": "C:/k/a b.txt", "content": "text\n"})]);
        for (content, encoded) in
            [("{{ x }}", "e3sgeCB9fQ=="), ("{% x %}", "eyUgeCAlfQ=="), (" x", "IHg="), ("{# x", "eyMgeA==")]
        {
            let expected = json!({"path": "C:/k/a b.txt", "content": encoded, "encoding": "base64"});
            assert_eq!(added(content).list, [expected], "{content}");
        }
    }

    #[test]
    fn content_of_more_than_10240_characters_is_in_the_secret() {
        assert!(added(&"x".repeat(10_240)).secret.is_empty());
        let large = "x".repeat(10_241);
        let files = added(&large);
        let expected = json!({"path": "C:/k/a b.txt", "contentFrom": {"secret": {"name": "", "key": "k-a-b.txt"}}});
        assert_eq!(files.list, [expected]);
        assert_eq!(files.secret, BTreeMap::from([("k-a-b.txt".to_owned(), large)]));
        // The encoding makes content longer.
        let encoded = added(&format!("{{{{{}", "x".repeat(10_000)));
        assert_eq!(encoded.list[0]["encoding"], "base64");
        assert_eq!(encoded.secret.len(), 1);
    }

    #[test]
    fn a_path_of_the_template_is_not_written_twice() {
        let mut files = Files::read(Some(&json!([{"path": "c:\\K\\A B.txt", "content": "x"}])));
        let problem = files.add("spec", "C:/k/a b.txt", "y").unwrap_err();
        assert_eq!(problem.path, "spec.files[0].path");
    }

    #[test]
    fn replaced_content_keeps_the_other_fields() {
        let file = json!({"path": "C:/a", "owner": "me", "encoding": "base64", "content": "eA=="});
        let mut files = Files::read(Some(&json!([file])));
        files.replace(0, "y");
        assert_eq!(files.list, [json!({"path": "C:/a", "owner": "me", "content": "y"})]);
    }
}
