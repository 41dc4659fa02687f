//! Holds the repository to its own rules: layers, sizes, documents that are true.

#[path = "tidy/code.rs"]
mod code;
#[path = "tidy/docs.rs"]
mod docs;
#[path = "tidy/layers.rs"]
mod layers;

use std::path::{Path, PathBuf};

/// The repository's root.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).expect("crates/holdfast has a root");
    root.to_path_buf()
}

fn read(relative: impl AsRef<Path>) -> String {
    let path = root().join(relative);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file of the repository, relative to its root, without what is built or fetched.
fn files() -> Vec<PathBuf> {
    const NOT_OURS: [&str; 5] = ["target", ".git", ".cache", "artifacts", "corpus"];
    let root = root();
    let mut found = Vec::new();
    let mut dirs = vec![root.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).expect("a readable directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| NOT_OURS.contains(&name)) {
                continue;
            }
            if path.is_dir() {
                dirs.push(path);
            } else {
                let relative = path.strip_prefix(&root).expect("below the root");
                found.push(relative.to_path_buf());
            }
        }
    }
    found.sort();
    found
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| extensions.contains(&extension))
}

/// Fails with every complaint, one a line.
fn none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
