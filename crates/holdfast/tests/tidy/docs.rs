//! Documents that say what the code does.

use super::{files, has_extension, none, read, root};
use std::path::{Path, PathBuf};

fn documents() -> Vec<PathBuf> {
    let all = files().into_iter();
    all.filter(|path| has_extension(path, &["md"])).collect()
}

/// Lines of code blocks (not of those marked `text`) and text between backquotes, with their
/// line numbers.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block: Option<&str> = None;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = match block {
                None => Some(language),
                Some(_) => None,
            };
        } else if let Some(language) = block {
            if language != "text" {
                let line = line.trim_start().trim_start_matches("$ ");
                found.push((number, line.to_owned()));
            }
        } else {
            let quoted = line.split('`').skip(1).step_by(2);
            found.extend(quoted.map(|code| (number, code.to_owned())));
        }
    }
    found
}

/// Whether a word stands for something that the reader puts in.
fn is_placeholder(word: &str) -> bool {
    word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

#[test]
fn commands_in_documents_are_understood() {
    let mut wrong = Vec::new();
    for path in documents() {
        for (number, command) in commands(&read(&path)) {
            let command = command
                .split(" #")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned();
            let command = command.strip_prefix("sudo ").unwrap_or(&command);
            let words: Vec<&str> = command.split_whitespace().collect();
            let open = words.iter().any(|word| {
                ["|", "...", "[", "<", ">", "$", "("]
                    .iter()
                    .any(|mark| word.contains(mark))
            });
            if words.first() != Some(&"holdfast") || words.len() < 2 || open {
                continue;
            }
            // A placeholder for a number, a store or a shell.
            let words = words.iter().map(|word| match *word {
                "SHELL" => "bash",
                "N" | "INDEX" | "SECONDS" => "1",
                word => word,
            });
            let parsed = holdfast::cli::command().try_get_matches_from(words);
            if let Err(error) = parsed {
                use clap::error::ErrorKind::{DisplayHelp, DisplayVersion, InvalidSubcommand};
                let named_by_a_placeholder = error.kind() == InvalidSubcommand
                    && command
                        .split_whitespace()
                        .nth(2)
                        .is_some_and(is_placeholder);
                if !matches!(error.kind(), DisplayHelp | DisplayVersion) && !named_by_a_placeholder
                {
                    wrong.push(format!("{}:{number}: {command}: {error}", path.display()));
                }
            }
        }
    }
    none(wrong);
}

#[test]
fn make_targets_in_documents_exist() {
    let makefile = read("Makefile");
    let exists = |target: &str| {
        let head = format!("{target}:");
        makefile.lines().any(|line| line.starts_with(&head))
    };
    let mut wrong = Vec::new();
    for path in documents() {
        for (number, command) in commands(&read(&path)) {
            let mut words = command.split_whitespace();
            if words.next() == Some("make") {
                let target = words.next().unwrap_or("help");
                if !exists(target) {
                    wrong.push(format!("{}:{number}: make {target}", path.display()));
                }
            }
        }
    }
    none(wrong);
}

#[test]
fn files_named_in_documents_exist() {
    let mut missing = Vec::new();
    for path in documents() {
        for (number, name) in commands(&read(&path)) {
            let is_path = [
                "crates/",
                "scripts/",
                "docs/",
                "tests/",
                "tour/",
                "packaging/",
            ]
            .iter()
            .any(|dir| name.starts_with(dir));
            if is_path && !name.contains(' ') && !root().join(&name).exists() {
                missing.push(format!("{}:{number}: {name}", path.display()));
            }
        }
    }
    none(missing);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for path in documents() {
        let text = read(&path);
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let base = path.parent().unwrap_or(Path::new(""));
            if !root().join(base).join(target).exists() {
                dead.push(format!("{}: {target}", path.display()));
            }
        }
    }
    none(dead);
}

#[test]
fn every_exit_code_is_documented_as_it_is() {
    let document = read("docs/exit-codes.md");
    let rows: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| code"))
        .collect();
    let table: Vec<String> = holdfast::exit::TABLE
        .iter()
        .map(|(exit, name, meaning)| format!("| {} | `{name}` | {meaning} |", exit.number()))
        .collect();
    assert_eq!(rows, table);
}

#[test]
fn what_inspect_knows_has_a_page_of_its_format() {
    let missing = holdfast::inspect::KINDS
        .iter()
        .filter(|kind| !root().join(kind.document).exists())
        .map(|kind| format!("{}: {} does not exist", kind.name, kind.document));
    none(missing.collect());
}

#[test]
fn every_setting_is_in_the_operators_manual() {
    let manual = read("docs/operations.md");
    let settings = holdfast::config::Settings::default();
    let all = toml::Table::try_from(settings).expect("TOML");
    let mut missing = Vec::new();
    for (section, keys) in &all {
        for key in keys.as_table().expect("a section").keys() {
            if !manual.contains(&format!("| `{key}` |")) {
                missing.push(format!(
                    "docs/operations.md has no row for [{section}] {key}"
                ));
            }
        }
    }
    none(missing);
}
