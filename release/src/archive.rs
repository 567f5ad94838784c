//! Archives without anything of this machine in them.

use std::io::Write;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

#[derive(Clone, Debug)]
pub struct Entry {
    /// The path, without a leading slash.
    pub path: String,
    pub mode: u32,
    /// The content; `None` for a directory.
    pub content: Option<Vec<u8>>,
}

impl Entry {
    pub fn file(path: impl Into<String>, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode, content: Some(content.into()) }
    }

    /// A directory that everybody may read.
    pub fn directory(path: impl Into<String>) -> Self {
        Self { path: path.into(), mode: 0o755, content: None }
    }
}

/// A tar archive with these entries in this order, owned by root, changed at `time` (seconds since 1970).
pub fn tar(entries: &[Entry], time: u64) -> Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for Entry { path, mode, content } in entries {
        let content = content.as_deref();
        let mut header = Header::new_ustar();
        header.set_entry_type(if content.is_some() { EntryType::Regular } else { EntryType::Directory });
        header.set_mode(*mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(time);
        let content = content.unwrap_or_default();
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, path, content)?;
    }
    Ok(archive.into_inner()?)
}

/// Compresses with gzip, without a name and a time in the header.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}
