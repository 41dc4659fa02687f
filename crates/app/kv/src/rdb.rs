//! RDB files of Redis, in and out.

use crate::config::Config;
use crate::engine::{Engine, LoadError, Loaded, load_new};
use crate::entry::Entry;
use crate::keyspace::DATABASES;
use crate::marker::{MARKER_NAME, Marker};
use crate::value::Value;
use crate::{LOG_NAME, Policy};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use values::rdb::{Item, RdbError, Reader, Writer};
use vlog::Directory;

mod target;

pub(crate) use target::Background;
pub use target::Target;

/// Entries of an import that are one group of the log at most.
const GROUP_ENTRIES: usize = 256;

/// Why a file is not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read to its end.
    #[error(transparent)]
    File(#[from] RdbError),
    /// It has more databases.
    #[error("at byte {offset}: keys of database {number}; there are {DATABASES} here")]
    Database {
        /// Which.
        number: u64,
        /// Where.
        offset: u64,
    },
    /// A key comes twice.
    #[error("before byte {offset}: the key \"{key}\" is there twice")]
    Twice {
        /// Which, escaped.
        key: String,
        /// Where.
        offset: u64,
    },
    /// A library of functions that cannot be loaded.
    #[error("before byte {offset}: a library of functions cannot be loaded: {why}")]
    Library {
        /// What FUNCTION LOAD would say.
        why: String,
        /// Where.
        offset: u64,
    },
    /// The directory cannot take it.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The log does not take it.
    #[error(transparent)]
    Log(#[from] vlog::VlogError),
}

/// What a file has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Keys.
    pub keys: u64,
    /// Keys whose time was over, which are left out.
    pub expired: u64,
    /// Libraries of functions.
    pub functions: u64,
    /// Keys without elements, which are left out.
    pub empty: u64,
    /// Keys of each type.
    pub by_type: BTreeMap<&'static str, u64>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// What is to be imported.
enum Found<'a> {
    Key(u8, &'a mut values::rdb::KeyItem),
    /// The code of a library of functions.
    Library(&'a [u8]),
}

/// Reads a file to its end, and hands out all keys that are there at `now_ms`. `progress` is told how many
/// bytes were read.
fn walk(
    reader: impl Read,
    config: &Config,
    now_ms: u64,
    progress: &mut dyn FnMut(u64),
    mut take: impl FnMut(Found<'_>, u64) -> Result<(), ImportError>,
) -> Result<Counted, ImportError> {
    let mut reader = Reader::new(reader, config.thresholds)?;
    let (mut counted, mut database) = (Counted::default(), 0);
    while let Some(item) = reader.next_item()? {
        progress(reader.offset());
        match item {
            Item::Note { .. } | Item::Sizes { .. } => {}
            Item::Function(code) => {
                counted.functions += 1;
                take(Found::Library(&code), reader.offset())?;
            }
            Item::Database(number) => {
                let known = u8::try_from(number).ok();
                let known = known.filter(|known| usize::from(*known) < DATABASES);
                database = known.ok_or(ImportError::Database {
                    number,
                    offset: reader.offset(),
                })?;
            }
            Item::Key(mut item) => {
                let at = item.expires_ms;
                if at.is_some_and(|at| u64::try_from(at).is_ok_and(|at| at <= now_ms) || at < 0) {
                    counted.expired += 1;
                    continue;
                }
                counted.keys += 1;
                *counted.by_type.entry(item.value.type_name()).or_default() += 1;
                take(Found::Key(database, &mut item), reader.offset())?;
            }
        }
    }
    counted.empty = reader.skipped_empty();
    counted.bytes = reader.offset();
    Ok(counted)
}

/// Reads all of a file, and says what it has.
///
/// # Errors
/// It cannot be imported.
pub fn verify(
    reader: impl Read,
    config: &Config,
    now_ms: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Counted, ImportError> {
    let mut engine = Engine::new(config.clone(), env::Rng::new(0));
    walk(reader, config, now_ms, progress, |found, offset| {
        learn(&mut engine, &found, offset)
    })
}

/// Has the engine learn a library.
fn learn(engine: &mut Engine, found: &Found<'_>, offset: u64) -> Result<(), ImportError> {
    let Found::Library(code) = found else {
        return Ok(());
    };
    let learned = engine.load_library(code, false);
    learned.map(drop).map_err(|fault| ImportError::Library {
        why: fault.to_string(),
        offset,
    })
}

/// Makes a database of a file, in directories that have none. Until it is whole nothing serves it, also
/// after a crash.
///
/// # Errors
/// The directories have nothing of a database, as before, or a part that is marked as one.
pub fn import(
    reader: impl Read,
    directories: impl Fn() -> vlog::Result<Vec<Directory>>,
    log: vlog::Options,
    config: &Config,
    now_ms: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Counted, ImportError> {
    let loaded = load_new(&directories, log, Policy::No, config)?;
    let imported = fill(reader, loaded, config, now_ms, progress);
    let directories = directories()?;
    match (&imported, directories.first()) {
        (Ok(_), Some(first)) => Marker::Whole.write(first)?,
        // What cannot be removed is marked as a part.
        (Err(_), _) => directories.iter().rev().for_each(remove),
        (Ok(_), None) => {}
    }
    imported
}

/// Removes what an import made; the marker last.
fn remove(directory: &Directory) {
    let names = directory.dir.list().unwrap_or_default();
    let prefix = format!("{LOG_NAME}.");
    let (marker, files): (Vec<_>, Vec<_>) = names
        .into_iter()
        .filter(|name| name.starts_with(&prefix))
        .partition(|name| name == MARKER_NAME);
    let removed = files
        .iter()
        .try_for_each(|name| directory.dir.remove(name))
        .and_then(|()| directory.dir.sync())
        .and_then(|()| {
            marker
                .iter()
                .try_for_each(|name| directory.dir.remove(name))
        });
    if let Err(errno) = removed {
        tracing::warn!(%errno, path = directory.path, "a part of an import is left; remove kv.*");
    }
}

fn fill(
    reader: impl Read,
    loaded: Loaded,
    config: &Config,
    now_ms: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Counted, ImportError> {
    let mut engine = Engine::new(config.clone(), env::Rng::new(0));
    engine.set_time(now_ms, 0);
    engine.serve(loaded);
    let mut waiting = 0;
    let counted = walk(reader, config, now_ms, progress, |found, offset| {
        learn(&mut engine, &found, offset)?;
        let Found::Key(database, item) = found else {
            return Ok(());
        };
        if engine.exists(database, &item.key) {
            return Err(ImportError::Twice {
                key: item.key.escape_ascii().to_string(),
                offset,
            });
        }
        let empty = values::Value::String(values::StringValue::new(b""));
        let value = Value::from(std::mem::replace(&mut item.value, empty));
        let expires = item.expires_ms.and_then(|at| u64::try_from(at).ok());
        let is_large = value.memory_bytes() > 1 << 20;
        engine.put(database, &item.key, value, expires);
        waiting += 1;
        if waiting >= GROUP_ENTRIES || is_large {
            waiting = 0;
            engine.commit()?;
        }
        Ok(())
    })?;
    engine.close()?;
    Ok(counted)
}

/// Writes all entries of a database that was loaded; returns how many.
///
/// # Errors
/// Those of the writer. The file is whole only when this has returned.
pub fn export<W: Write>(loaded: &Loaded, writer: W, now_ms: u64) -> std::io::Result<(u64, W)> {
    let libraries = loaded.libraries.iter().map(|(code, _)| &code[..]);
    let mut file = begin(writer, now_ms, libraries)?;
    let mut keys = 0;
    for database in 0..DATABASES as u8 {
        let tables = || loaded.keyspace.tables(database);
        let count: usize = tables().map(|table| table.len()).sum();
        let expiring: usize = tables().map(|table| table.expiring).sum();
        if count == 0 {
            continue;
        }
        file.database(database.into(), count as u64, expiring as u64)?;
        for entry in tables().flat_map(|table| table.iter()) {
            keys += u64::from(write_entry(&mut file, entry, now_ms)?);
        }
    }
    Ok((keys, file.finish()?))
}

/// Writes what stands in front of the keys: notes, and the code of libraries of functions.
pub(crate) fn begin<'a, W: Write>(
    writer: W,
    now_ms: u64,
    libraries: impl Iterator<Item = &'a [u8]>,
) -> std::io::Result<Writer<W>> {
    let mut file = Writer::new(writer)?;
    file.note(b"redis-ver", crate::command::REDIS_VERSION.as_bytes())?;
    file.note(b"redis-bits", b"64")?;
    file.note(b"ctime", (now_ms / 1000).to_string().as_bytes())?;
    file.note(b"holdfast-ver", env!("CARGO_PKG_VERSION").as_bytes())?;
    for code in libraries {
        file.function(code)?;
    }
    Ok(file)
}

/// Writes an entry, unless its time is over; whether it did.
pub(crate) fn write_entry<W: Write>(
    file: &mut Writer<W>,
    entry: &Entry,
    now_ms: u64,
) -> std::io::Result<bool> {
    let expires = entry.expires_ms();
    if expires.is_some_and(|at| at <= now_ms) {
        return Ok(false);
    }
    let value = match entry.as_text() {
        Some(text) => values::StringValue::new(text).into(),
        None => entry.to_value().into_plain(),
    };
    let expires = expires.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
    file.key(entry.key(), &value, expires)?;
    Ok(true)
}

/// What is written goes to another thread in pieces.
pub(crate) struct Pipe {
    sender: Sender<Vec<u8>>,
    queued: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Pipe {
    /// A pipe, and its other end.
    pub(crate) fn new() -> (Pipe, Outlet) {
        let (sender, receiver) = channel();
        let queued = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
        let outlet = Outlet {
            receiver,
            queued: queued.clone(),
        };
        (Pipe { sender, queued }, outlet)
    }

    /// A look at how many bytes wait.
    pub(crate) fn queued(&self) -> std::sync::Arc<std::sync::atomic::AtomicUsize> {
        self.queued.clone()
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.queued
            .fetch_add(bytes.len(), std::sync::atomic::Ordering::Relaxed);
        let sent = self.sender.send(bytes.to_vec());
        sent.map_err(|_| std::io::Error::from(std::io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The other end of a [`Pipe`].
pub(crate) struct Outlet {
    receiver: Receiver<Vec<u8>>,
    queued: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Outlet {
    /// The next piece; `None` when the pipe is gone.
    pub(crate) fn next(&self) -> Option<Vec<u8>> {
        let piece = self.receiver.recv().ok()?;
        self.queued
            .fetch_sub(piece.len(), std::sync::atomic::Ordering::Relaxed);
        Some(piece)
    }
}
