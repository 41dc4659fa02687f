//! The file of users: a line for each, as ACL LIST shows them.

use super::rules::{has_spaces, merge_selectors};
use super::user::User;
use crate::rdb::Target;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

/// Bytes of a file at most.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A file of users that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AclFileError {
    /// It cannot be read.
    #[error("Error loading ACLs, opening file '{path}': {why}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        why: String,
    },
    /// Some lines are wrong; nothing of it is used.
    #[error(
        "{0}WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
    )]
    Lines(String),
}

/// Reads the users of a file.
pub(super) fn read(path: &Path, all_channels: bool) -> Result<Vec<User>, AclFileError> {
    let shown = path.display().to_string();
    let failed = |why: String| AclFileError::Read {
        path: shown.clone(),
        why,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failed("it is longer than 64 MiB".to_owned()));
    }
    parse(&bytes, &shown, all_channels)
}

/// The users of a file's bytes.
pub(super) fn parse(
    bytes: &[u8],
    path: &str,
    all_channels: bool,
) -> Result<Vec<User>, AclFileError> {
    let (mut users, mut names, mut errors) = (Vec::new(), BTreeSet::new(), String::new());
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        match parse_line(line, path, number, all_channels) {
            Ok(user) if !names.insert(user.name.clone()) => {
                let name = String::from_utf8_lossy(&user.name).into_owned();
                errors.push_str(&format!(
                    "WARNING: Duplicate user '{name}' found on line {number}. "
                ));
            }
            Ok(user) => users.push(user),
            Err(error) => errors.push_str(&error),
        }
    }
    match errors.is_empty() {
        true => Ok(users),
        false => Err(AclFileError::Lines(errors)),
    }
}

fn parse_line(line: &[u8], path: &str, number: u64, all_channels: bool) -> Result<User, String> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let (name, rules) = match words.as_slice() {
        [b"user", name, rules @ ..] => (*name, rules),
        _ => {
            return Err(format!(
                "{path}:{number} should start with user keyword followed by the username. "
            ));
        }
    };
    if has_spaces(name) {
        let name = String::from_utf8_lossy(name);
        return Err(format!(
            "'{path}:{number}: username '{name}' contains invalid characters. "
        ));
    }
    let merged = merge_selectors(rules)
        .map_err(|_| format!("{path}:{number}: Unmatched parenthesis in selector definition."))?;
    let mut user = User::new(name, all_channels);
    let mut errors = String::new();
    for rule in merged {
        if let Err(error) = user.apply(rule.trim_ascii(), all_channels) {
            errors.push_str(&format!("{path}:{number}: {error}. "));
        }
    }
    match errors.is_empty() {
        true => Ok(user),
        false => Err(errors),
    }
}

/// Writes users in place of a file.
pub(super) fn write<'a>(
    path: &Path,
    users: impl Iterator<Item = &'a Arc<User>>,
) -> std::io::Result<()> {
    let mut text = Vec::new();
    for user in users {
        text.extend_from_slice(&user.show());
        text.push(b'\n');
    }
    let mut target = Target::create(path)?;
    target.write_all(&text)?;
    target.commit()
}
