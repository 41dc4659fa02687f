//! From the log to entries.

use super::{Engine, Mode};
use crate::acl::User;
use crate::config::Config;
use crate::entry::{Entry, TEXT_BYTES_MAX};
use crate::journal::{Journal, Policy};
use crate::keyspace::{Keyspace, Shard};
use crate::marker::{self, MARKER_NAME, Marker};
use crate::record::{self, Kind, RecordError};
use crate::session::{ClientId, Session, Token};
use crate::slot::{SHARDS, ShardId};
use crate::value::Value;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vlog::{Directory, Options, Position, Record, Vlog, VlogError, VlogId};

/// Name of the log in its directories.
pub const LOG_NAME: &str = "kv";

/// Why what is on disk cannot be served.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// The log does not open.
    #[error(transparent)]
    Log(#[from] VlogError),
    /// The log opens, and this program cannot read what is in it.
    #[error(
        "the log of this directory has {why} (stream {stream}); use the version that wrote it, or a newer one"
    )]
    Record {
        /// Where.
        stream: u32,
        /// What.
        why: RecordError,
    },
    /// There was a database, and its log is gone.
    #[error(
        "{file} says that there was a database here, and its log is missing; put its files back, or \
         remove this file to begin an empty one"
    )]
    Lost {
        /// What is left.
        file: String,
    },
    /// An import did not come to its end.
    #[error(
        "{file} says that an import was cut short, so a part of the data is missing; remove all kv.* \
         files of the directory and import again"
    )]
    Importing {
        /// What says so.
        file: String,
    },
    /// The marker is none of this version.
    #[error("{file} is damaged, or of a newer version; nothing was changed")]
    Marker {
        /// Which file.
        file: String,
    },
    /// What should be new is not.
    #[error("{file} is there already: an import makes a new database; name an empty directory")]
    Used {
        /// What is there.
        file: String,
    },
}

/// What was on disk.
pub struct Loaded {
    pub(crate) keyspace: Keyspace,
    pub(crate) journal: Journal,
    pub(crate) entries: u64,
    pub(crate) has_long: bool,
    /// Code of libraries of functions.
    pub(crate) libraries: Vec<(Vec<u8>, Position)>,
}

impl Loaded {
    /// How many entries there are.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The log.
    pub fn log(&self) -> &Vlog {
        &self.journal.log
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

/// A change that waits for the whole that it changes.
struct Pending {
    order: u64,
    position: Position,
    database: u8,
    key: Vec<u8>,
    body: Vec<u8>,
}

struct Part {
    shard: Shard,
    changes: Vec<Pending>,
    libraries: Vec<(Vec<u8>, Position)>,
    /// Records of it that were not counted yet.
    uncounted: u64,
}

/// Records of a shard that are counted at once, so that threads do not wait for each other's counting.
const COUNT_STEP: u64 = 64;

impl Part {
    fn count(&mut self, seen: &AtomicU64) {
        self.uncounted += 1;
        if self.uncounted == COUNT_STEP {
            seen.fetch_add(std::mem::take(&mut self.uncounted), Ordering::Relaxed);
        }
    }
}

/// Opens the log of a server, or makes one where there is none, and reads all entries. `seen` counts
/// them meanwhile.
///
/// # Errors
/// Nothing was changed.
pub fn load(
    directories: impl Fn() -> vlog::Result<Vec<Directory>>,
    options: Options,
    policy: Policy,
    config: &Config,
    seen: &AtomicU64,
) -> Result<Loaded, LoadError> {
    let marked = match directories()?.first() {
        Some(first) => Marker::read(first)?,
        None => None,
    };
    let file = |name| {
        let directories = directories()?;
        let first = directories.first().map(|first| marker::shown(first, name));
        Ok::<_, LoadError>(first.unwrap_or_default())
    };
    if marked == Some(Marker::Importing) {
        let file = file(MARKER_NAME)?;
        return Err(LoadError::Importing { file });
    }
    let opened = read(
        &directories,
        options,
        policy,
        config,
        seen,
        marked.is_none(),
    );
    match opened {
        Err(LoadError::Log(VlogError::Missing { .. })) if marked.is_some() => {
            let file = file(MARKER_NAME)?;
            Err(LoadError::Lost { file })
        }
        Ok(loaded) if marked.is_none() => {
            if let Some(first) = directories()?.first() {
                Marker::Whole.write(first)?;
            }
            Ok(loaded)
        }
        opened => opened,
    }
}

/// Makes a database for an import, in directories that have nothing of one.
pub(crate) fn load_new(
    directories: &impl Fn() -> vlog::Result<Vec<Directory>>,
    options: Options,
    policy: Policy,
    config: &Config,
) -> Result<Loaded, LoadError> {
    let prefix = format!("{LOG_NAME}.");
    for directory in directories()? {
        let names = directory.dir.list().map_err(|errno| VlogError::Io {
            doing: "listing",
            file: directory.path.clone(),
            errno,
        })?;
        if let Some(name) = names.iter().find(|name| name.starts_with(&prefix)) {
            let file = marker::shown(&directory, name);
            return Err(LoadError::Used { file });
        }
    }
    if let Some(first) = directories()?.first() {
        Marker::Importing.write(first)?;
    }
    read(
        directories,
        options,
        policy,
        config,
        &AtomicU64::new(0),
        true,
    )
}

fn read(
    directories: &impl Fn() -> vlog::Result<Vec<Directory>>,
    options: Options,
    policy: Policy,
    config: &Config,
    seen: &AtomicU64,
    may_make: bool,
) -> Result<Loaded, LoadError> {
    let shards = Keyspace::default().into_shards();
    let parts: Arc<Vec<Mutex<Part>>> = Arc::new(
        shards
            .into_iter()
            .map(|shard| {
                Mutex::new(Part {
                    shard,
                    changes: Vec::new(),
                    libraries: Vec::new(),
                    uncounted: 0,
                })
            })
            .collect(),
    );
    let expecting = parts.clone();
    let options = Options {
        // Most are in database 0, and shards are about as large as each other.
        expect: Some(Arc::new(move |records| {
            let each = usize::try_from(records).unwrap_or(0) / SHARDS;
            for part in expecting.iter() {
                part.lock().shard.reserve(0, each);
            }
        })),
        ..options
    };
    let failed: Mutex<Option<LoadError>> = Mutex::new(None);
    let has_long = AtomicBool::new(false);
    let sink = |record: Record<'_>| {
        if record.payload.len() > config.entry_bytes_max / 2 {
            has_long.store(true, Ordering::Relaxed);
        }
        if let Err(why) = take(&parts, &record, config, seen) {
            let stream = record.stream;
            failed
                .lock()
                .get_or_insert(LoadError::Record { stream, why });
        }
    };
    let log = match Vlog::open(LOG_NAME, directories()?, options.clone(), &sink) {
        Err(VlogError::Missing { .. }) if may_make => {
            let id = match Vlog::unfinished(LOG_NAME, directories()?)? {
                Some(id) => id,
                None => VlogId::from_kernel()?,
            };
            Vlog::create(LOG_NAME, directories()?, id)?;
            Vlog::open(LOG_NAME, directories()?, options, &sink)?
        }
        opened => opened?,
    };
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    let mut changes = Vec::new();
    let mut shards = Vec::new();
    let mut libraries = Vec::new();
    for (stream, part) in (0..).zip(parts.iter()) {
        let empty = Part {
            shard: Shard::default(),
            changes: Vec::new(),
            libraries: Vec::new(),
            uncounted: 0,
        };
        let mut part = std::mem::replace(&mut *part.lock(), empty);
        seen.fetch_add(part.uncounted, Ordering::Relaxed);
        part.shard.fit(0);
        part.changes.sort_by_key(|change| change.order);
        changes.extend(part.changes.into_iter().map(|change| (stream, change)));
        libraries.extend(part.libraries);
        shards.push(part.shard);
    }
    let keyspace = replay(Keyspace::from_shards(shards), config, changes)?;
    let entries = (0..16).map(|database| keyspace.len(database) as u64).sum();
    Ok(Loaded {
        keyspace,
        journal: Journal::new(log, policy),
        entries,
        has_long: has_long.into_inner(),
        libraries,
    })
}

/// Takes a record in.
fn take(
    parts: &[Mutex<Part>],
    record: &Record<'_>,
    config: &Config,
    seen: &AtomicU64,
) -> Result<(), RecordError> {
    let decoded = record::decode(record.payload)?;
    let shard = ShardId::of(decoded.key);
    let stream = |expected: ShardId| RecordError::Stream {
        expected: u32::from(expected.0),
        found: record.stream,
    };
    if u32::from(shard.0) != record.stream {
        return Err(stream(shard));
    }
    let part = parts.get(shard.index()).ok_or_else(|| stream(shard))?;
    let (key, expires) = (decoded.key, decoded.expires_ms);
    let mut entry = match decoded.kind {
        Kind::Text if decoded.body.len() <= TEXT_BYTES_MAX => {
            Entry::text(key, decoded.body, expires, 0)
        }
        Kind::Text => Entry::new(key, Value::Text(decoded.body.to_vec()), expires, 0),
        Kind::Object => {
            let value =
                Value::decode(decoded.body, &config.thresholds).ok_or(RecordError::Value)?;
            Entry::new(key, value, expires, 0)
        }
        Kind::Library => {
            let library = (decoded.body.to_vec(), record.position);
            part.lock().libraries.push(library);
            return Ok(());
        }
        Kind::Change => {
            let change = Pending {
                order: record.order,
                position: record.position,
                database: decoded.database,
                key: key.to_vec(),
                body: decoded.body.to_vec(),
            };
            let mut part = part.lock();
            part.count(seen);
            part.changes.push(change);
            return Ok(());
        }
    };
    entry.set_position(Some(record.position));
    if let Entry::Object(object) = &mut entry {
        object.whole_bytes = record.payload.len() as u64;
    }
    let mut part = part.lock();
    part.count(seen);
    match part.shard.insert(decoded.database, entry) {
        None => Ok(()),
        Some(_) => Err(RecordError::Twice),
    }
}

/// Makes changes again, in the order of each stream.
fn replay(
    keyspace: Keyspace,
    config: &Config,
    changes: Vec<(u32, Pending)>,
) -> Result<Keyspace, LoadError> {
    let mut engine = Engine::new(config.clone(), env::Rng::new(0));
    engine.keyspace = keyspace;
    engine.mode = Mode::Replaying;
    let user = Arc::new(User::default_user());
    let nobody = Token(usize::MAX);
    let mut session = Session::new(ClientId(0), nobody, Default::default(), 0, user);
    session.authenticated = true;
    for (stream, change) in changes {
        engine
            .remake(&mut session, &change)
            .map_err(|why| LoadError::Record { stream, why })?;
    }
    Ok(engine.keyspace)
}

impl Engine {
    fn remake(&mut self, session: &mut Session, change: &Pending) -> Result<(), RecordError> {
        let (at_ms, arguments) = record::decode_change(&change.body)?;
        self.set_time(at_ms, 0);
        let shard = ShardId::of(&change.key);
        if self
            .keyspace
            .shard(shard)
            .get(change.database, &change.key)
            .is_none()
        {
            return Err(RecordError::Base);
        }
        session.database = change.database;
        session.reply.clear();
        self.request(session, &arguments);
        if session.reply.bytes().first() == Some(&b'-') {
            return Err(RecordError::Change);
        }
        self.changes = crate::changes::Changes::default();
        let shard = self.keyspace.shard_mut(shard);
        match shard.get_mut(change.database, &change.key) {
            Some(Entry::Object(object)) => {
                object.changes.push(change.position);
                object.changes_bytes += change.body.len() as u64;
                Ok(())
            }
            _ => Err(RecordError::Change),
        }
    }
}
