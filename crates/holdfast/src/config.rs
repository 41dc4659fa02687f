//! Where each setting comes from: the built-in value, then the file, then the command line.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Read where no other file is named, and then it may be absent.
pub const DEFAULT_FILE: &str = "/etc/holdfast/holdfast.toml";

/// Largest configuration file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The whole file: one section for each part.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The main job.
    pub redundancy: redundancy::Config,
}

/// Where a value was set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Built in.
    Default,
    /// In this file.
    File(PathBuf),
    /// On the command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => write!(f, "default"),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Flag => write!(f, "command line"),
        }
    }
}

/// The main job's flags and which of them were given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// The values.
    pub config: redundancy::Config,
    /// The keys that the command line set.
    pub given: BTreeSet<String>,
}

/// What is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InForce {
    /// The values.
    pub settings: Settings,
    /// Section and key to origin.
    pub origins: BTreeMap<(String, String), Origin>,
}

impl InForce {
    /// Whether `key` of the main job has its built-in value.
    pub fn is_default(&self, key: &str) -> bool {
        let place = ("redundancy".to_owned(), key.to_owned());
        matches!(self.origins.get(&place), None | Some(Origin::Default))
    }

    /// The values as TOML, each with its origin behind it.
    pub fn to_toml(&self) -> Outcome<String> {
        let mut text = String::new();
        for (section, keys) in &tables(&self.settings)? {
            text.push_str(&format!("[{section}]\n"));
            let lines: Vec<(String, String)> = keys
                .iter()
                .map(|(key, value)| {
                    let place = (section.clone(), key.clone());
                    let origin = self.origins.get(&place).unwrap_or(&Origin::Default);
                    (format!("{key} = {value}"), origin.to_string())
                })
                .collect();
            let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
            for (line, origin) in lines {
                text.push_str(&format!(
                    "{line:<width$}  # {origin}\n",
                    width = width.min(44)
                ));
            }
        }
        Ok(text)
    }

    /// The values as JSON: `{section: {key: {value, origin}}}`.
    pub fn to_json(&self) -> Outcome<serde_json::Value> {
        let mut sections = serde_json::Map::new();
        for (section, keys) in tables(&self.settings)? {
            let mut shown = serde_json::Map::new();
            for (key, value) in keys {
                let place = (section.clone(), key.clone());
                let origin = self.origins.get(&place).unwrap_or(&Origin::Default);
                let entry = serde_json::json!({"value": value, "origin": origin.to_string()});
                shown.insert(key, entry);
            }
            sections.insert(section, shown.into());
        }
        Ok(sections.into())
    }
}

/// Puts the three layers on each other. `file` is the file that was named; without one the
/// default file counts where it exists. Paths from the command line are made absolute.
///
/// # Errors
/// A file that cannot be read, an unknown key, a value of the wrong type. Ranges are not looked
/// at: [`redundancy::Config::validate`] does that.
pub fn load(file: Option<&Path>, flags: &Flags) -> Outcome<InForce> {
    let from_file = read(file)?;
    let path = file.unwrap_or(Path::new(DEFAULT_FILE)).to_path_buf();
    let mut settings: Settings = match &from_file {
        Some(text) => toml::from_str(text).map_err(|error| misread(&path, &error.to_string()))?,
        None => Settings::default(),
    };
    let mut origins = BTreeMap::new();
    if let Some(text) = &from_file {
        let given: toml::Table =
            toml::from_str(text).map_err(|error| misread(&path, &error.to_string()))?;
        for (section, keys) in given {
            for key in keys.as_table().into_iter().flat_map(toml::Table::keys) {
                let place = (section.clone(), key.clone());
                origins.insert(place, Origin::File(path.clone()));
            }
        }
    }
    lay_flags_over(&mut settings.redundancy, flags)?;
    for key in &flags.given {
        let place = ("redundancy".to_owned(), key.clone());
        origins.insert(place, Origin::Flag);
    }
    Ok(InForce { settings, origins })
}

fn lay_flags_over(below: &mut redundancy::Config, flags: &Flags) -> Outcome<()> {
    let mut absolute = flags.config.clone();
    for path in absolute.stores.iter_mut().chain([&mut absolute.mount]) {
        *path = std::path::absolute(&*path).map_err(|error| {
            Failure::unexpected(format_args!("path {}", path.display()), &error)
        })?;
    }
    let internal = |error: &dyn fmt::Display| Failure::unexpected("configuration", error);
    let mut merged = toml::Table::try_from(&*below).map_err(|error| internal(&error))?;
    let above = toml::Table::try_from(&absolute).map_err(|error| internal(&error))?;
    merged.extend(
        above
            .into_iter()
            .filter(|(key, _)| flags.given.contains(key)),
    );
    *below = merged.try_into().map_err(|error| internal(&error))?;
    below.without = absolute.without;
    Ok(())
}

fn read(file: Option<&Path>) -> Outcome<Option<String>> {
    let path = file.unwrap_or(Path::new(DEFAULT_FILE));
    let unreadable = |why: &dyn fmt::Display| {
        Failure::refuse(
            Exit::Config,
            format!(
                "the configuration file {} cannot be read: {why}",
                path.display()
            ),
            "correct the path given by --config or HOLDFAST_CONFIG, or the file's permissions\n\
             without a configuration file the built-in values hold: `holdfast config show`",
        )
    };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && file.is_none() => return Ok(None),
        Err(error) => return Err(unreadable(&crate::os::words(&error))),
        Ok(found) if !found.is_file() => return Err(unreadable(&"it is not a file")),
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            return Err(unreadable(&"it is larger than 1 MiB"));
        }
        Ok(_) => {}
    }
    std::fs::read_to_string(path)
        .map(Some)
        .map_err(|error| unreadable(&crate::os::words(&error)))
}

fn misread(path: &Path, message: &str) -> Failure {
    Failure::refuse(
        Exit::Config,
        format!(
            "the configuration file {} is not understood:\n{}",
            path.display(),
            indent(message)
        ),
        "correct the line shown; `holdfast config show` without the file prints every key",
    )
}

fn indent(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| format!("    {line}").trim_end().to_owned())
        .collect();
    lines.join("\n")
}

fn tables(settings: &Settings) -> Outcome<Vec<(String, toml::Table)>> {
    let all = toml::Table::try_from(settings)
        .map_err(|error| Failure::unexpected("configuration", &error))?;
    let sections = all.into_iter().map(|(name, value)| match value {
        toml::Value::Table(table) => (name, table),
        other => (name.clone(), toml::Table::from_iter([(name, other)])),
    });
    Ok(sections.collect())
}

#[cfg(test)]
mod tests;
