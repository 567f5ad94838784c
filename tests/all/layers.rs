//! The layers inside each crate: the modules that a module may use, the absence of cycles, and the names that a layer
//! forbids; and a name of its own for each public type. Cargo has the order of the crates, and what a crate does not depend on, it does not use.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    Attribute, Expr, File, Item, Macro, Meta, UseTree, Visibility,
    visit::{self, Visit},
};
use walkdir::{DirEntry, WalkDir};

/// The crates, and their sources.
const CRATES: &[(&str, &str)] = &[
    ("api", "crates/winpool-api/src"),
    ("core", "crates/winpool-core/src"),
    ("agent", "crates/winpool-agent/src"),
    ("log", "crates/winpool-log/src"),
    ("winpool", "src"),
];

/// The layers, from the lowest. A module may use the modules of lower layers, but no other entry of its own layer.
const LAYERS: &[&[&str]] = &[
    &["api::named"],
    &["api::facts"],
    &["api"],
    &[
        "core::bounded",
        "core::foreign_text",
        "core::kind",
        "core::objects",
        "core::placeholder",
        "core::problem",
        "core::text",
    ],
    &["core::decode", "core::json_path", "core::kubernetes", "core::tables", "core::toml_layer"],
    &["core::allowances"],
    &["core::profile", "core::record", "core::release_labels", "core::revert"],
    &["core::node"],
    &["core::ownership"],
    &["core::operation"],
    &["core::image", "core::render"],
    &["core::workload"],
    &["core::known_issues"],
    &["core::pool"],
    &["core::status"],
    &["core::adopt", "core::doctor", "core::lint", "core::migrate", "core::upgrade"],
    &["core"],
    &["core::manifests"],
    &["agent"],
    &["log"],
    &["winpool::telemetry"],
    &["winpool::admin", "winpool::policies", "winpool::registry"],
    &["winpool::cluster"],
    &["winpool::controllers"],
    &["winpool::commands"],
    &["winpool"],
];

/// The names that the modules below a path must not contain, with the reason.
struct Rule {
    below: &'static str,
    except: &'static [&'static str],
    forbidden: &'static [&'static str],
    because: &'static str,
}

const IMPURE: &[&str] = &[
    "Timestamp::now",
    "Zoned::now",
    "Instant::now",
    "SystemTime",
    "std::fs",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::env",
    "std::process",
    "println!",
    "await",
    "async",
];
/// Cargo cannot forbid these in winpool-core: a build of the workspace gives it kube with the features of the others.
const CLIENTS: &[&str] = &["kube::Client", "kube::Api", "kube::api", "kube::client", "kube::runtime", "kube::Config"];
const WRITES: &[&str] = &["PatchParams", "PostParams", "DeleteParams", ".patch", ".replace_status"];

const RULES: &[Rule] = &[
    Rule {
        below: "api",
        except: &[],
        forbidden: IMPURE,
        because: "a resource or table does not depend on time and environment",
    },
    Rule { below: "api::facts", except: &[], forbidden: &["kube"], because: "a table does not depend on a cluster" },
    Rule {
        below: "core",
        except: &["core::manifests"],
        forbidden: IMPURE,
        because: "the rules are pure: the same snapshot gives the same plan",
    },
    Rule { below: "core", except: &[], forbidden: CLIENTS, because: "the rules return a plan and write nothing" },
    Rule {
        below: "winpool::cluster",
        except: &[
            "winpool::cluster::writer",
            "winpool::cluster::key",
            "winpool::cluster::election",
            "winpool::cluster::access",
        ],
        forbidden: WRITES,
        because: "only the writer writes objects other than events, the Secret of the ownership key, the Lease and reviews",
    },
    Rule {
        below: "winpool::controllers",
        except: &[],
        forbidden: WRITES,
        because: "controllers pass operations to the writer",
    },
    Rule {
        below: "winpool::controllers",
        except: &[],
        forbidden: &["json!", "serde_json::to_value"],
        because: "the rules build the body of a request",
    },
    Rule {
        below: "winpool::commands",
        except: &[],
        forbidden: WRITES,
        because: "the command line uses the writer too",
    },
    Rule {
        below: "agent",
        except: &[
            "agent::bin",
            "agent::run",
            "agent::windows",
            "agent::windows_service",
            "agent::loopback",
            "agent::runtime",
            "agent::credentials",
        ],
        forbidden: &[
            "Timestamp::now",
            "SystemTime",
            "std::fs",
            "std::net::TcpStream",
            "std::env",
            "tokio",
            "await",
            "async",
        ],
        because: "an action of the agent is a function of the host, so that a simulated host can test it",
    },
    Rule {
        below: "winpool::registry",
        except: &[],
        forbidden: &["kube"],
        because: "a registry client needs no cluster",
    },
];

#[test]
fn a_module_uses_only_modules_of_lower_layers() {
    let code = Code::read();
    let mut upward = Vec::new();
    for (module, used) in code.edges() {
        let (from, to) = (layer(&module), layer(&used));
        let same_part = part(&module) == part(&used);
        if !same_part && from.1 <= to.1 {
            upward.push(format!("{module} uses {used}, which is not in a lower layer than {}", from.0));
        }
    }
    assert!(upward.is_empty(), "\n{}\n", upward.join("\n"));
}

#[test]
fn no_modules_use_each_other_in_a_cycle() {
    let code = Code::read();
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, used) in code.edges() {
        uses.entry(module).or_default().insert(used);
    }
    // A module that uses only removed modules is in no cycle.
    loop {
        let leaves: BTreeSet<String> = uses
            .iter()
            .filter(|(_, used)| used.iter().all(|used| !uses.contains_key(used)))
            .map(|(module, _)| module.clone())
            .collect();
        if leaves.is_empty() {
            break;
        }
        uses.retain(|module, _| !leaves.contains(module));
    }
    let known: BTreeSet<String> = uses.keys().cloned().collect();
    uses.values_mut().for_each(|used| used.retain(|used| known.contains(used)));
    assert!(uses.is_empty(), "these modules are in a cycle, or use modules in a cycle: {uses:#?}");
}

#[test]
fn a_module_does_not_contain_names_that_its_layer_forbids() {
    let code = Code::read();
    let mut violations = Vec::new();
    for rule in RULES {
        let below = code.modules.iter().filter(|(module, _)| is_below(module, rule.below));
        let modules: Vec<_> =
            below.filter(|(module, _)| !rule.except.iter().any(|one| is_below(module, one))).collect();
        assert!(!modules.is_empty(), "there is no module {}", rule.below);
        for (module, found) in modules {
            let forbidden = rule.forbidden.iter().filter(|name| found.mentions(name));
            violations.extend(forbidden.map(|name| format!("{module} has `{name}`, but {}", rule.because)));
        }
    }
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn a_public_type_has_a_name_of_its_own() {
    let code = Code::read();
    let mut modules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (module, found) in &code.modules {
        found.types.iter().for_each(|name| modules.entry(name).or_default().push(module));
    }
    assert!(modules.contains_key("WindowsNode") && modules.contains_key("NodeComponent"), "no types: {modules:?}");
    modules.retain(|_, modules| modules.len() > 1);
    assert!(modules.is_empty(), "types of the same name, with their modules: {modules:#?}");
}

/// All modules of the crates, without their tests.
struct Code {
    modules: BTreeMap<String, Module>,
}

/// A module: one file.
#[derive(Debug, Default)]
struct Module {
    /// Paths into this crate, with the name of the crate instead of `crate`.
    paths: BTreeSet<String>,
    /// Paths of other crates, macros as `name!`, methods as `.name`, and `await` and `async`.
    names: BTreeSet<String>,
    /// The names that it re-exports, with their original paths.
    exports: BTreeMap<String, String>,
    /// The public types that it defines.
    types: Vec<String>,
    current: String,
}

impl Code {
    fn read() -> Self {
        let modules = CRATES.iter().flat_map(|(crate_name, folder)| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
            rust_files(&source).into_iter().filter_map(move |file| {
                let name = module_name(crate_name, file.strip_prefix(&source).unwrap());
                let parsed = syn::parse_file(&fs::read_to_string(&file).unwrap()).unwrap();
                (!name.split("::").any(|part| part == "tests")).then(|| (name.clone(), Module::of(&parsed, &name)))
            })
        });
        Self { modules: modules.collect() }
    }

    /// Each module with each other module that it uses.
    fn edges(&self) -> BTreeSet<(String, String)> {
        let edges = self.modules.iter().flat_map(|(module, found)| {
            let used = found.paths.iter().filter_map(|path| self.defined_in(path, 0));
            used.filter(move |used| used != module).map(move |used| (module.clone(), used))
        });
        edges.collect()
    }

    /// The module that defines the item of a path, with re-exports resolved.
    fn defined_in(&self, path: &str, depth: usize) -> Option<String> {
        let parts: Vec<&str> = path.split("::").collect();
        let longest = (1..=parts.len()).rev().find(|end| self.modules.contains_key(&parts[..*end].join("::")))?;
        let module = parts[..longest].join("::");
        let exported = parts.get(longest).and_then(|name| self.modules[&module].exports.get(*name));
        match exported.filter(|_| depth < 8) {
            Some(target) => self.defined_in(target, depth + 1),
            None => Some(module),
        }
    }
}

impl Module {
    fn of(file: &File, name: &str) -> Self {
        let mut module = Self { current: name.to_owned(), ..Self::default() };
        module.visit_file(file);
        module
    }

    fn mentions(&self, name: &str) -> bool {
        let found = |known: &String| {
            known == name
                || known.starts_with(&format!("{name}::"))
                || known.ends_with(&format!("::{name}"))
                || known.contains(&format!("::{name}::"))
        };
        self.names.iter().any(found)
    }

    /// Records a path; a path that begins with `crate`, `self` or `super` is in this crate.
    fn note(&mut self, path: &[String]) -> Option<String> {
        let mut base: Vec<String> = self.current.split("::").map(str::to_owned).collect();
        match path.first()?.as_str() {
            "crate" => self.add([&base[..1], &path[1..]].concat()),
            "self" if path.len() > 1 => self.add([&base[..], &path[1..]].concat()),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                base.truncate(base.len().saturating_sub(ups));
                self.add([&base[..], &path[ups..]].concat())
            }
            _ => {
                self.names.insert(path.join("::"));
                None
            }
        }
    }

    fn add(&mut self, path: Vec<String>) -> Option<String> {
        let path = path.join("::");
        self.paths.insert(path.clone());
        Some(path)
    }

    fn note_use(&mut self, tree: &UseTree, prefix: &[String], public: bool) {
        let with = |name: String| [prefix, &[name]].concat();
        let mut leaf = |path: Vec<String>, name: String| {
            // A path without such a prefix may begin with a submodule of this module.
            let own = self.note(&path).or_else(|| public.then(|| format!("{}::{}", self.current, path.join("::"))));
            if let Some(target) = own.filter(|_| public) {
                self.exports.insert(name, target);
            }
        };
        match tree {
            UseTree::Path(path) => self.note_use(&path.tree, &with(path.ident.to_string()), public),
            UseTree::Name(name) if name.ident == "self" => {
                leaf(prefix.to_vec(), prefix.last().cloned().unwrap_or_default());
            }
            UseTree::Name(name) => leaf(with(name.ident.to_string()), name.ident.to_string()),
            UseTree::Rename(name) => leaf(with(name.ident.to_string()), name.rename.to_string()),
            UseTree::Glob(_) => drop(self.note(prefix)),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_use(tree, prefix, public)),
        }
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        self.types.extend(public_type(item));
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !attributes.iter().any(is_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note_use(&item.tree, &[], !matches!(item.vis, Visibility::Inherited));
    }

    // The path in `pub(super)` is not a use.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&parts);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        if let Some(name) = item.path.segments.last() {
            self.names.insert(format!("{}!", name.ident));
        }
        // Arguments of format macros are expressions.
        let parser = syn::punctuated::Punctuated::<Expr, syn::Token![,]>::parse_terminated;
        if let Ok(arguments) = item.parse_body_with(parser) {
            arguments.iter().for_each(|argument| self.visit_expr(argument));
        }
        visit::visit_macro(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.names.insert(format!(".{}", call.method));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_await(&mut self, expression: &'ast syn::ExprAwait) {
        self.names.insert("await".to_owned());
        visit::visit_expr_await(self, expression);
    }

    fn visit_expr_async(&mut self, expression: &'ast syn::ExprAsync) {
        self.names.insert("async".to_owned());
        visit::visit_expr_async(self, expression);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if signature.asyncness.is_some() {
            self.names.insert("async".to_owned());
        }
        visit::visit_signature(self, signature);
    }
}

/// The name of a public type that an item defines, also as argument of a macro.
fn public_type(item: &Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Union(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Macro(item) => {
            let tokens: Vec<_> = item.mac.tokens.clone().into_iter().map(|token| token.to_string()).collect();
            return tokens.windows(3).find(|three| three[..2] == ["pub", "enum"]).map(|three| three[2].clone());
        }
        _ => return None,
    };
    matches!(visibility, Visibility::Public(_)).then(|| name.to_string())
}

fn is_test(attribute: &Attribute) -> bool {
    let cfg =
        matches!(&attribute.meta, Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test");
    cfg || attribute.path().is_ident("test")
}

fn is_below(module: &str, path: &str) -> bool {
    module.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The entry of [`LAYERS`] for a module, with the number of its layer.
fn layer(module: &str) -> (&'static str, usize) {
    let entries = LAYERS.iter().enumerate().flat_map(|(number, layer)| layer.iter().map(move |entry| (*entry, number)));
    let found = entries.filter(|(entry, _)| is_below(module, entry)).max_by_key(|(entry, _)| entry.len());
    found.unwrap_or_else(|| panic!("module {module} is in no layer: add it to LAYERS"))
}

fn part(module: &str) -> &'static str {
    layer(module).0
}

/// `pool/plan.rs` of crate `core` is `core::pool::plan`; a root has the name of its crate.
fn module_name(crate_name: &str, file: &Path) -> String {
    let path = file.with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy().into_owned());
    let parts = parts.filter(|part| !matches!(part.as_str(), "lib" | "main"));
    [crate_name.to_owned()].into_iter().chain(parts).collect::<Vec<_>>().join("::")
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let files = WalkDir::new(folder).into_iter().flatten().map(DirEntry::into_path);
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}
