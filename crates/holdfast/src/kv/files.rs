//! RDB files of Redis: a database is made of one, or written into one.

use super::{directories, explain, has_database, load, paths};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{self, Bar};
use crate::units;
use ::kv::rdb::{Counted, ImportError, Target};
use ::kv::server::ServeError;
use ::kv::{Config, rdb};
use redundancy::status::Progress;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Arguments of `holdfast kv import`.
#[derive(Clone, Debug, clap::Args)]
pub struct ImportArgs {
    /// The RDB file, such as dump.rdb
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The directories of the new database's log, in order; they are made where they are missing
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `holdfast kv export`.
#[derive(Clone, Debug, clap::Args)]
pub struct ExportArgs {
    /// The directories of the database's log, in order
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// The RDB file that is made; none may be there
    #[arg(required = true, value_name = "FILE")]
    pub file: PathBuf,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

/// What an import did.
#[derive(Serialize)]
struct Imported {
    keys: u64,
    libraries: u64,
    by_type: BTreeMap<&'static str, u64>,
    left_out_expired: u64,
    left_out_empty: u64,
    bytes: u64,
}

/// What an export did.
#[derive(Serialize)]
struct Exported {
    keys: u64,
    bytes: u64,
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn refuse(path: &Path, error: &std::io::Error, next: &str) -> Failure {
    Failure::refuse(
        Exit::KvRefused,
        format!("{}: {}", path.display(), crate::os::words(error)),
        next,
    )
}

pub(super) fn import(args: &ImportArgs) -> Outcome<()> {
    let (paths, now_ms, config) = (paths(&args.directories)?, now_ms(), Config::default());
    let open = || {
        File::open(&args.file)
            .map_err(|error| refuse(&args.file, &error, "name an RDB file that can be read"))
    };
    let total = open()?.metadata().map(|about| about.len()).ok();
    let show = |bar: &mut Bar, bytes_done| {
        bar.show(&Progress {
            bytes_done,
            bytes_total: total,
            ..Progress::default()
        });
    };
    // All of the file is read first, so that a damaged one changes nothing.
    let mut bar = Bar::new("checking the file");
    rdb::verify(open()?, &config, now_ms, &mut |at| show(&mut bar, at))
        .map_err(|error| explain_import(&args.file, &error))?;
    drop(bar);
    for path in &args.directories {
        std::fs::create_dir_all(path).map_err(|error| {
            refuse(
                path,
                &error,
                "name a directory that can be made or is there",
            )
        })?;
    }
    let mut bar = Bar::new("importing");
    let log = ::vlog::Options::default();
    let progress = &mut |at| show(&mut bar, at);
    let file = open()?;
    let imported = rdb::import(file, || directories(&paths), log, &config, now_ms, progress)
        .map_err(|error| explain_import(&args.file, &error))?;
    drop(bar);
    match args.json {
        true => screen::print_json(&Imported {
            keys: imported.keys,
            by_type: imported.by_type,
            left_out_expired: imported.expired,
            left_out_empty: imported.empty,
            libraries: imported.functions,
            bytes: imported.bytes,
        }),
        false => screen::print(&in_words(&imported)),
    }
}

fn in_words(imported: &Counted) -> String {
    let kinds = imported.by_type.iter();
    let kinds: Vec<String> = kinds
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    let mut text = format!(
        "imported {} of {}\n",
        units::plural(imported.keys, "key"),
        units::bytes(imported.bytes)
    );
    if !kinds.is_empty() {
        text.push_str(&format!("  {}\n", kinds.join(", ")));
    }
    for (count, what) in [
        (imported.expired, "whose time was over"),
        (imported.empty, "without elements"),
    ] {
        if count > 0 {
            let keys = units::plural(count, "key");
            text.push_str(&format!("  left out: {keys} {what}\n"));
        }
    }
    if imported.functions > 0 {
        let libraries = imported.functions;
        text.push_str(&format!("  libraries of functions: {libraries}\n"));
    }
    text
}

fn explain_import(file: &Path, error: &ImportError) -> Failure {
    let what = format!("{}: {error}", file.display());
    match error {
        ImportError::File(::values::rdb::RdbError::Io(_)) => {
            Failure::refuse(Exit::KvRefused, what, "name an RDB file that can be read")
        }
        ImportError::File(_) | ImportError::Twice { .. } | ImportError::Library { .. } => {
            Failure::refuse(
                Exit::KvDamaged,
                what,
                "take another copy of the file; `holdfast inspect FILE` shows what can be read of it",
            )
        }
        ImportError::Database { .. } => Failure::refuse(
            Exit::KvRefused,
            what,
            "move these keys to a lower database with Redis, and save again",
        ),
        ImportError::Load(::kv::LoadError::Used { .. }) => Failure::refuse(
            Exit::KvRefused,
            error.to_string(),
            "name directories without files of a database (kv.*)",
        ),
        ImportError::Load(error) => explain(&ServeError::Load(error.clone())),
        ImportError::Log(error) => explain(&ServeError::Load(::kv::LoadError::Log(error.clone()))),
    }
}

pub(super) fn export(args: &ExportArgs) -> Outcome<()> {
    has_database(&args.directories)?;
    let paths = paths(&args.directories)?;
    if std::fs::symlink_metadata(&args.file).is_ok() {
        return Err(Failure::refuse(
            Exit::KvRefused,
            format!("{} is there already", args.file.display()),
            "name a file that is not there, or remove it",
        ));
    }
    let next = "name a file in a directory that can be written to and has room";
    let target = Target::create(&args.file).map_err(|error| refuse(&args.file, &error, next))?;
    let loaded = load(&paths)?;
    let mut counted = Counting { target, bytes: 0 };
    let written = rdb::export(&loaded, &mut counted, now_ms()).map(|(keys, _)| keys);
    let keys = written.map_err(|error| refuse(&args.file, &error, next))?;
    let bytes = counted.bytes;
    let committed = counted.target.commit();
    committed.map_err(|error| refuse(&args.file, &error, next))?;
    match args.json {
        true => screen::print_json(&Exported { keys, bytes }),
        false => screen::print(&format!(
            "wrote {} to {}, {}\n",
            units::plural(keys, "key"),
            args.file.display(),
            units::bytes(bytes)
        )),
    }
}

/// Counts what is written.
struct Counting {
    target: Target,
    bytes: u64,
}

impl std::io::Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.target.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.target.flush()
    }
}
