//! `holdfast inspect FILE`: what is in a file that Holdfast wrote, for people.
//!
//! Each part registers a recogniser and a printer in [`KINDS`].

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen;
use serde::Serialize;
use std::io::Read;
use std::path::{Path, PathBuf};

mod differential;
mod intent;
mod kv;
mod label;
mod manifest;
mod metadata;
mod object;
mod rdb;
mod shard;
mod store;
mod trace;
mod transfer;
mod vlog;
mod volume;

/// Bytes of a file's start that recognisers see.
pub const HEAD_BYTES_MAX: u64 = 4 << 20;

/// What recognisers see of a file.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Its path.
    pub path: PathBuf,
    /// Its length in bytes.
    pub length: u64,
    /// Its start: all of it up to [`HEAD_BYTES_MAX`]; empty for what is not a regular file.
    pub head: Vec<u8>,
    /// The extended attribute `trusted.holdfast`, where it has one.
    pub label: Option<Vec<u8>>,
    /// The extended attribute `trusted.hfm`, where it has one.
    pub metadata: Option<Vec<u8>>,
}

/// What a printer found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Finding {
    /// Whether every checksum and every bound holds.
    pub valid: bool,
    /// Name and value, in the order of the bytes.
    pub fields: Vec<(String, String)>,
}

impl Finding {
    /// Adds a field.
    pub fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        self.fields.push((name.to_owned(), value.to_string()));
    }
}

/// A kind of file that Holdfast writes.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// The page that describes its bytes.
    pub document: &'static str,
    /// Whether this is one: looks at the magic bytes only.
    pub is: fn(&Sample) -> bool,
    /// What is in it.
    pub read: fn(&Sample) -> Finding,
}

/// All kinds; the first that says yes reads the file.
pub static KINDS: &[Kind] = &[
    label::KIND,
    store::KIND,
    intent::KIND,
    metadata::ATTRIBUTE,
    metadata::OBJECT,
    metadata::STORE,
    metadata::JOURNAL,
    shard::KIND,
    differential::KIND,
    volume::DISK,
    volume::BLOCK,
    trace::KIND,
    vlog::SEGMENT,
    vlog::MANIFEST,
    vlog::VALIDITY,
    vlog::DIRECTORY,
    transfer::NOTE,
    kv::MARKER,
    rdb::KIND,
    manifest::KIND,
    object::SEGMENT,
    object::OBJECT,
];

/// Arguments of `holdfast inspect`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// One JSON object a file in place of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    path: &'a Path,
    kind: &'a str,
    document: &'a str,
    #[serde(flatten)]
    finding: &'a Finding,
}

/// Prints each file.
///
/// # Errors
/// The only file cannot be read, or no part of Holdfast wrote it; among several, the exit code
/// says so.
pub fn run(args: &Args) -> Outcome<Exit> {
    let mut exit = Exit::Done;
    let mut refused = None;
    for path in &args.files {
        match one(path, args.json) {
            Ok(true) => {}
            Ok(false) => exit = Exit::Corrupt,
            Err(failure) if args.files.len() == 1 => return Err(failure),
            Err(failure) => {
                eprintln!("{}: {}", path.display(), failure.what);
                refused = refused.or(Some(failure.exit));
            }
        }
    }
    Ok(refused.unwrap_or(exit))
}

/// Prints one file; whether it is whole.
fn one(path: &Path, json: bool) -> Outcome<bool> {
    let sample = sample(path)?;
    let kind = KINDS
        .iter()
        .find(|kind| (kind.is)(&sample))
        .ok_or_else(|| unrecognised(path))?;
    let finding = (kind.read)(&sample);
    if json {
        screen::print_json(&Report {
            path,
            kind: kind.name,
            document: kind.document,
            finding: &finding,
        })?;
    } else {
        screen::print(&text(path, kind, &finding))?;
    }
    Ok(finding.valid)
}

fn sample(path: &Path) -> Outcome<Sample> {
    let fault = |error: &std::io::Error| {
        Failure::refuse(
            Exit::Failed,
            format!("{}: {}", path.display(), crate::os::words(error)),
            "name a file that this user may read; stores are root's",
        )
    };
    let found = std::fs::symlink_metadata(path).map_err(|error| fault(&error))?;
    let mut head = Vec::new();
    if found.is_file() {
        std::fs::File::open(path)
            .and_then(|file| file.take(HEAD_BYTES_MAX).read_to_end(&mut head))
            .map_err(|error| fault(&error))?;
    }
    Ok(Sample {
        path: path.to_path_buf(),
        length: found.len(),
        head,
        label: label::attribute(path).map_err(|error| fault(&error))?,
        metadata: metadata::attribute(path).map_err(|error| fault(&error))?,
    })
}

fn unrecognised(path: &Path) -> Failure {
    Failure::refuse(
        Exit::Unrecognised,
        format!("{} is not a file that Holdfast wrote", path.display()),
        "user files carry a label in their copies under STORE/data, which only root can see;\n\
         Holdfast's own files are under STORE/.holdfast",
    )
}

fn text(path: &Path, kind: &Kind, finding: &Finding) -> String {
    let state = if finding.valid { "valid" } else { "DAMAGED" };
    let mut text = format!(
        "{}: {}, {state} ({})\n",
        path.display(),
        kind.name,
        kind.document
    );
    let names = finding.fields.iter().map(|(name, _)| name.len());
    let width = names.max().unwrap_or(0);
    for (name, value) in &finding.fields {
        text.push_str(&format!("  {name:<width$}  {value}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_others_is_not_recognised() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("letter.txt");
        std::fs::write(&path, "x").expect("a new file");
        let files = vec![path.clone()];
        let failure = run(&Args { files, json: false }).expect_err("not ours");
        let shown = failure.to_string();
        let dir = dir.path().to_str().expect("a UTF-8 path");
        insta::assert_snapshot!(shown.replace(dir, "/DIR"));
    }

    #[test]
    fn no_kind_panics_on_any_prefix_of_random_bytes() {
        let mut seed = 1u64;
        for length in 0..600 {
            let mut next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            };
            let bytes: Vec<u8> = (0..length).map(|_| next()).collect();
            let sample = Sample {
                length: length as u64,
                label: Some(bytes.clone()),
                // A random tail can be an attribute without entries: its form is all that is seen.
                metadata: None,
                head: bytes,
                ..Sample::default()
            };
            for kind in KINDS {
                let finding = (kind.read)(&sample);
                assert!(!finding.valid, "{}", kind.name);
            }
        }
    }
}
