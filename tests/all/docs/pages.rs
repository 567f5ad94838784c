//! The pages of the documentation, and their blocks of code. `e2e/tests/all/documents.rs` reads them too.

use std::{
    fs,
    path::{Path, PathBuf},
};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

#[derive(Clone, Debug)]
pub struct Page {
    /// Its path below the root of the repository, such as `docs/install.md`.
    pub name: String,
    pub text: String,
}

/// A fenced or indented block.
#[derive(Clone, Debug)]
pub struct Block {
    /// The word after the fence, such as `yaml`; empty without one.
    pub language: String,
    pub text: String,
}

/// The pages of a repository: those in its root, below `docs`, and of the chart.
pub fn pages(root: &Path) -> Vec<Page> {
    let mut paths = vec![root.join("charts/winpool/README.md")];
    paths.extend(entries(root).into_iter().filter(|path| path.is_file()));
    paths.extend(below(&root.join("docs")));
    paths.retain(|path| path.extension().is_some_and(|end| end == "md"));
    let page = |path: PathBuf| Page {
        name: path.strip_prefix(root).unwrap().display().to_string(),
        text: fs::read_to_string(path).unwrap(),
    };
    paths.into_iter().map(page).collect()
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let inner = |path: PathBuf| if path.is_dir() { below(&path) } else { vec![path] };
    entries(folder).into_iter().flat_map(inner).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

impl Page {
    /// The parts of the page, in the Markdown of GitHub.
    pub fn events(&self) -> Parser<'_> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES | Options::ENABLE_GFM)
    }

    /// The blocks of code, in their order.
    pub fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut open) = (Vec::new(), None);
        for event in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let language = match kind {
                        CodeBlockKind::Fenced(language) => language.to_string(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    open = Some(Block { language, text: String::new() });
                }
                Event::Text(text) => open.iter_mut().for_each(|block| block.text.push_str(&text)),
                Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
                _ => {}
            }
        }
        blocks
    }
}
