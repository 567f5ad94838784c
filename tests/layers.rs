//! The walls between the modules: what each may not know, in words.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A part of `src` may not contain these pieces of code, for this reason.
struct Wall {
    part: &'static str,
    except: &'static [&'static str],
    forbidden: &'static [&'static str],
    because: &'static str,
}

const OUTER: &[&str] =
    &["crate::cluster", "crate::controllers", "crate::commands", "crate::admin", "crate::registry", "crate::telemetry"];
const CLOCKS_AND_INPUT: &[&str] = &[
    "Timestamp::now",
    "Zoned::now",
    "Instant::now",
    "SystemTime",
    "std::fs",
    "std::net::Tcp",
    "std::net::ToSocketAddrs",
    "std::env",
    "std::process",
    "println!",
];
const WAITING_AND_LOGS: &[&str] = &[".await", "async fn", "async move", "tokio::", "futures::", "tracing::"];
const CLIENTS: &[&str] = &["kube::Client", "kube::Api", "kube::api", "kube::client", "kube::runtime", "kube::Config"];

const WALLS: &[Wall] = &[
    Wall {
        part: "facts",
        except: &[],
        forbidden: &["crate::api", "crate::domain", "kube::"],
        because: "a table knows nothing of those who read it",
    },
    Wall { part: "facts", except: &[], forbidden: OUTER, because: "a table knows nothing of those who read it" },
    Wall {
        part: "facts",
        except: &[],
        forbidden: CLOCKS_AND_INPUT,
        because: "a fact is the same at any time and in any place",
    },
    Wall { part: "facts", except: &[], forbidden: WAITING_AND_LOGS, because: "a fact is there at once, and silent" },
    Wall {
        part: "domain",
        except: &[],
        forbidden: OUTER,
        because: "the rules serve the operator, the command line and the tests alike, and know none of them",
    },
    Wall {
        part: "domain",
        except: &[],
        forbidden: CLOCKS_AND_INPUT,
        because: "the rules are told the time and the world: the same snapshot gives the same plan",
    },
    Wall {
        part: "domain",
        except: &[],
        forbidden: WAITING_AND_LOGS,
        because: "the rules are pure: what they have to say is in what they return",
    },
    Wall {
        part: "domain",
        except: &[],
        forbidden: CLIENTS,
        because: "the rules do not know a client: a plan is a value that others carry out",
    },
    Wall {
        part: "api",
        except: &[],
        forbidden: &["crate::domain"],
        because: "the resources are what the rules are about, not the other way round",
    },
    Wall { part: "api", except: &[], forbidden: OUTER, because: "the resources are plain types" },
    Wall {
        part: "cluster",
        except: &[],
        forbidden: &["crate::controllers", "crate::commands"],
        because: "the cluster's doors do not know who goes through them",
    },
    Wall {
        part: "cluster",
        except: &["writer.rs", "events.rs", "key.rs"],
        forbidden: WRITES,
        because: "only the writer writes; events are told by events.rs, and key.rs creates the Secret of the key",
    },
    Wall {
        part: "registry",
        except: &[],
        forbidden: &[
            "crate::cluster",
            "crate::controllers",
            "crate::commands",
            "crate::admin",
            "crate::telemetry",
            "crate::api",
            "kube::",
        ],
        because: "who asks a registry knows images, and no cluster and nobody who wants to know",
    },
    Wall {
        part: "controllers",
        except: &[],
        forbidden: WRITES,
        because: "controllers never write: they hand operations to the writer",
    },
    Wall {
        part: "controllers",
        except: &[],
        forbidden: &["json!", "serde_json::to_value"],
        because: "controllers never build a request body: the rules do",
    },
    Wall {
        part: "controllers",
        except: &[],
        forbidden: &["crate::commands"],
        because: "the operator does not know how it was started",
    },
    Wall {
        part: "commands",
        except: &[],
        forbidden: WRITES,
        because: "only the writer writes, also for the command line",
    },
];

const WRITES: &[&str] = &["PatchParams", "PostParams", "DeleteParams", ".patch(", ".replace_status("];

#[test]
fn every_module_keeps_to_its_side_of_the_walls() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut breaches = Vec::new();
    for wall in WALLS {
        let files = rust_files(&source.join(wall.part));
        assert!(!files.is_empty(), "there is no src/{}", wall.part);
        for file in files.iter().filter(|file| !wall.except.iter().any(|except| file.ends_with(except))) {
            let text = code(&fs::read_to_string(file).unwrap());
            let found = wall.forbidden.iter().filter(|piece| text.contains(**piece));
            let file = file.strip_prefix(&source).unwrap().display();
            breaches.extend(found.map(|piece| format!("src/{file} has `{piece}`, but {}", wall.because)));
        }
    }
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}

#[test]
fn a_breach_is_seen_through_every_way_to_write_a_use() {
    let text = "use crate::{\n    cluster::{self, Writer},\n    domain,\n};\nuse kube::{Api, core::X};\nfn a() {}\n";
    for piece in ["crate::cluster", "crate::cluster::Writer", "crate::domain", "kube::Api", "kube::core::X", "fn a"] {
        assert!(code(text).contains(piece), "{piece} in\n{}", code(text));
    }
    let quiet = "//! crate::cluster\n/// [`crate::cluster`]\nfn a() {} // crate::cluster\n#[cfg(test)]\nmod tests { use crate::cluster; }";
    assert!(!code(quiet).contains("crate::cluster"));
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The code of a file without comments and tests, with one line for each path that a `use` names.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let text: String = text.lines().map(|line| format!("{}\n", line.split("//").next().unwrap_or_default())).collect();
    let mut out = text.clone();
    for statement in text.split("use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let statement: String = statement.split_whitespace().collect();
        for path in paths(&statement) {
            out.push_str(&format!("{path}\n"));
        }
    }
    out
}

/// The paths of a `use`: `a::{b,c::{self,d}}` is `a::b`, `a::c::self`, `a::c::d`.
fn paths(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in inner.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match (letter, depth, parts.last_mut()) {
            (',', 0, _) => parts.push(String::new()),
            (letter, _, Some(part)) => part.push(letter),
            (_, _, None) => {}
        }
    }
    parts
        .iter()
        .filter(|part| !part.is_empty())
        .flat_map(|part| paths(part))
        .map(|path| format!("{prefix}{path}"))
        .collect()
}
