//! `winpool recommend` with samples in a file.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::status_page::assert_blocks;

const EXAMPLE: &str = "docs/recommend/web-2022.jsonl";

/// The exit status, and what is printed to stdout and stderr, for a pool and a file.
fn recommend(pool: &str, file: &str, format: &str) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_winpool"))
        .args(["recommend", pool, "--samples", file, "-o", format])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("KUBECONFIG", "no-kubeconfig")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The lines of the example.
fn example() -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(EXAMPLE)).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_page_has_the_output_for_its_example() {
    let (status, printed, error) = recommend("web-2022", EXAMPLE, "text");
    assert_eq!((status, error.as_str()), (0, ""));
    let block = format!("```console\n$ winpool recommend web-2022 --samples {EXAMPLE}\n{printed}```\n");
    assert_blocks("docs/recommend.md", [("example", block)]);
}

#[test]
fn json_and_yaml_have_the_same_recommendation_and_the_patch_is_of_the_profile() {
    let json: Value = serde_json::from_str(&recommend("web-2022", EXAMPLE, "json").1).unwrap();
    let yaml: Value = serde_saphyr::from_str(&recommend("web-2022", EXAMPLE, "yaml").1).unwrap();
    assert_eq!(json, yaml);
    let reserved = json["patch"]["spec"]["kubelet"]["systemReserved"].clone();
    let spec = json!({"kubelet": {"systemReserved": reserved}});
    assert_eq!(json["patch"], json!({"spec": spec}), "nothing else");
    let spec: winpool_api::WindowsRuntimeProfileSpec = serde_json::from_value(spec).unwrap();
    assert!(winpool_render::profile::check(&spec).unwrap().warnings.is_empty());
}

#[test]
fn a_leak_and_too_few_samples_are_problems_and_files_that_cannot_be_read_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("samples");
    let file = file.to_str().unwrap();
    let leak: Vec<_> = example()
        .into_iter()
        .enumerate()
        .map(|(at, line)| {
            let mut line: Value = serde_json::from_str(&line).unwrap();
            if let Some(commit) = line["nodeUsage"]["commit"].as_i64() {
                line["nodeUsage"]["commit"] = json!(commit + (((at as i64 - 1) % 30) << 26));
            }
            line.to_string()
        })
        .collect();
    let edited = |at: usize, text: &str| {
        let mut lines = example();
        text.clone_into(&mut lines[at]);
        lines
    };
    let table: [(Vec<String>, &str, i32, String); 7] = [
        (leak, "web-2022", 1, "leak suspected on 2 nodes: a larger reserve only delays it. See winpool explain node-memory-pressure".into()),
        (
            example()[..59].to_vec(),
            "web-2022",
            1,
            "too little was measured of pool web-2022: 4 CPU, 16Gi: 2 of at least 2 nodes, 58 of at least 60 samples. Measure longer with \
             --for, or more nodes of the same size"
                .into(),
        ),
        (example(), "web", 2, format!("{file}: its samples are of pool web-2022, not of web")),
        (vec![String::new()], "web", 2, format!("{file}:1: EOF while parsing a value at line 1 column 0. Write the file with --save")),
        (edited(2, "{}"), "web-2022", 2, format!("{file}:3: missing field `node` at line 1 column 2. Write the file with --save")),
        (
            edited(1, &example()[1].replace("\"cores\":4", "\"cores\":0")),
            "web-2022",
            2,
            format!("{file}:2: no node has such amounts. Write the file with --save"),
        ),
        (vec![], "web", 2, format!("{file}:1: it is empty. Write the file with --save")),
    ];
    for (lines, pool, status, expected) in table {
        fs::write(file, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        let (found, _, error) = recommend(pool, file, "text");
        assert_eq!((found, error), (status, format!("winpool: {expected}\n")));
    }
    let (status, _, error) = recommend("web", "missing", "text");
    assert_eq!((status, error.as_str()), (2, "winpool: cannot read missing: No such file or directory (os error 2)\n"));
}
