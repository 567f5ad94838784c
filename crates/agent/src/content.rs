//! The content of files in the JSON files of the agent: text if it is UTF-8, so that a person can read it, else Base64.
//!
//! `#[serde(with = "content")]` writes a field of type `Option<Vec<u8>>` so; `None` is a file that does not exist.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileContent(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Encoded {
    Text(String),
    Base64(String),
}

impl Encoded {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    fn decode(self) -> Result<Vec<u8>, base64::DecodeError> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Base64(text) => STANDARD.decode(text),
        }
    }
}

impl Serialize for FileContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Encoded::of(&self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FileContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Encoded::deserialize(deserializer)?.decode().map(Self).map_err(serde::de::Error::custom)
    }
}

pub(super) fn serialize<S: Serializer>(content: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    content.as_deref().map(Encoded::of).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
    Ok(Option::<FileContent>::deserialize(deserializer)?.map(|FileContent(bytes)| bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_text_if_it_is_utf_8_and_base64_otherwise() {
        for (bytes, json) in [
            (&b"a: 1\r\n"[..], r#"{"text":"a: 1\r\n"}"#),
            (&[0xEF, 0xBB, 0xBF, b'a'][..], "{\"text\":\"\u{feff}a\"}"),
            (&[0xFF, 0xFE, b'a', 0][..], r#"{"base64":"//5hAA=="}"#),
        ] {
            assert_eq!(serde_json::to_string(&FileContent(bytes.to_vec())).unwrap(), json);
            assert_eq!(serde_json::from_str::<FileContent>(json).unwrap(), FileContent(bytes.to_vec()));
        }
    }
}
