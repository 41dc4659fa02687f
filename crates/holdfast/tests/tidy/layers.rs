//! Which crate may use which: the table of ARCHITECTURE.md.

use super::{none, read, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Crate to the crates that it may use, from the rows `| crate | owns | may use |`.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let text = read("ARCHITECTURE.md");
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut table = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, uses] = cells[..] else {
            panic!("a row has three cells: {row}");
        };
        let uses = uses.split_whitespace().filter(|name| *name != "-");
        table.insert(
            name.trim_matches('`').to_owned(),
            uses.map(|name| name.trim_matches('`').to_owned()).collect(),
        );
    }
    assert!(!table.is_empty(), "ARCHITECTURE.md has the table");
    table
}

fn short(name: &str) -> &str {
    name.strip_prefix("holdfast-").unwrap_or(name)
}

#[test]
fn dependencies_are_those_of_the_table() {
    let table = table();
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for package in packages {
        let name = short(package["name"].as_str().expect("a name")).to_owned();
        let Some(allowed) = table.get(&name) else {
            complaints.push(format!("{name} is not in the table of ARCHITECTURE.md"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let ours = dependency["path"].is_string();
            let in_tests = dependency["kind"] == "dev";
            let used = short(dependency["name"].as_str().expect("a name"));
            if ours && !in_tests && !allowed.contains(used) {
                complaints.push(format!("{name} uses {used}, which the table does not list"));
            }
        }
        seen.insert(name);
    }
    for name in table.keys().filter(|name| !seen.contains(*name)) {
        complaints.push(format!("the table lists {name}, which does not exist"));
    }
    none(complaints);
}

#[test]
fn the_table_only_points_downward() {
    let table = table();
    let order: Vec<&String> = table.keys().collect();
    // A crate is lower than another when it can be reached from it; a cycle reaches itself.
    for start in order {
        let mut open: Vec<&String> = table[start].iter().collect();
        let mut reached = BTreeSet::new();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(table.get(next).into_iter().flatten());
            }
        }
        assert!(!reached.contains(start), "{start} uses itself in a circle");
    }
}

#[test]
fn every_dependency_has_a_line_that_says_why() {
    let document = read("docs/dependencies.md");
    let manifest = read("Cargo.toml");
    let manifest: toml::Table = toml::from_str(&manifest).expect("TOML");
    let dependencies = manifest["workspace"]["dependencies"]
        .as_table()
        .expect("a table");
    let missing = dependencies
        .iter()
        .filter(|(_, value)| value.get("path").is_none())
        .filter(|(name, _)| !document.contains(&format!("| `{name}` |")))
        .map(|(name, _)| format!("docs/dependencies.md has no line for {name}"));
    none(missing.collect());
}
