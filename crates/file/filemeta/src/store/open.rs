//! Making and opening a store; replay.

use super::{Medium, Options, Places, State, Store, Ticket};
use crate::action::{Action, Assembly, Checkpoint, RECORD_CHECKPOINT, RECORD_DONE, RECORD_PART};
use crate::cursor::Cursor;
use crate::key::StoreId;
use crate::superblock::{STORE_FILE, Superblock, is_attribute_name};
use crate::{MetaError, Result};
use codec::Corruption;
use env::errno::Errno;
use env::real::{RealDir, RealFiles};
use env::{Dir, Lock};
use log::{Log, LogId, Record, Sequence};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashSet};
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Name of the log: its segments are `metadata.NUMBER.segment`.
const LOG: &str = "metadata";
pub(super) const LOCK: &str = "lock";

/// What a replay did: it depends on the journal, not on the number of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Replay {
    /// Records that the journal held.
    pub records: u64,
    /// Requests applied.
    pub requests: u64,
    /// Objects and owners that they touched.
    pub touched: u64,
    /// Of these, owners that were gone.
    pub owners_gone: u64,
}

/// A note of a request that was not said to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenNote {
    /// The request's ticket; several notes may have the same.
    pub ticket: Ticket,
    /// What it means to the caller.
    pub kind: u16,
    /// Its content.
    pub payload: Vec<u8>,
}

/// A store that was opened.
pub struct Opened {
    /// The store.
    pub store: Store,
    /// Notes that are open, in the order of their requests. The caller does what they say, makes
    /// it durable, and calls [`Store::done`].
    pub notes: Vec<OpenNote>,
    /// What the replay did.
    pub replay: Replay,
}

impl Places {
    /// In the directory `root`, which is made if it is missing: `root/objects` and
    /// `root/journal`, for the files of the file system that it is on.
    ///
    /// # Errors
    /// [`MetaError::NoHandles`] where that file system has no file handles.
    pub fn real(root: &Path) -> Result<Places> {
        let (parent, name) = root
            .parent()
            .zip(root.file_name().and_then(|name| name.to_str()))
            .ok_or(MetaError::Io {
                doing: "naming the metadata directory",
                errno: Errno::INVAL,
            })?;
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        let io = |errno| MetaError::io("opening the metadata directory")(errno);
        let dir = RealDir::open(parent)
            .and_then(|parent| parent.subdirectory(name))
            .map_err(io)?;
        let files = RealFiles::open(root).map_err(|errno| match errno {
            Errno::OPNOTSUPP | Errno::PERM | Errno::STALE | Errno::OVERFLOW => {
                MetaError::NoHandles { errno }
            }
            errno => io(errno),
        })?;
        Ok(Places {
            files: Arc::new(files),
            objects: Arc::new(dir.subdirectory("objects").map_err(io)?),
            journal: Arc::new(dir.subdirectory("journal").map_err(io)?),
        })
    }
}

impl Store {
    /// Makes an empty store, durably. `attribute` is the name of the extended attribute that every
    /// file with metadata gets, such as `trusted.hfm`: with more than 4 characters behind the dot
    /// it costs a block for each file on ext4 with inodes of 256 bytes.
    ///
    /// # Errors
    /// [`MetaError::Exists`], [`MetaError::AttributeName`], [`MetaError::Busy`].
    pub fn create(
        places: &Places,
        id: StoreId,
        attribute: &CStr,
        options: Options,
    ) -> Result<Store> {
        if !is_attribute_name(attribute) {
            return Err(MetaError::AttributeName);
        }
        let lock = lock(places.objects.as_ref())?;
        match places.objects.read(STORE_FILE) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(MetaError::io("looking for a metadata store")(errno)),
            Ok(_) => return Err(MetaError::Exists),
        }
        remove_old_journal(places.journal.as_ref())
            .map_err(MetaError::io("removing a journal that has no store"))?;
        let log = Log::create(
            places.journal.clone(),
            LOG,
            LogId(id.0),
            log_options(options),
        )?;
        let superblock = Superblock {
            store: id,
            writes: 1,
            numbers: 1,
            attribute: attribute.to_owned(),
        };
        // Last, so that a crash in between leaves no store.
        let written = places.objects.replace(STORE_FILE, &superblock.encode());
        written.map_err(MetaError::io("writing the file of a metadata store"))?;
        Ok(assemble(places, superblock, log, options, lock))
    }

    /// Opens a store: applies what the journal has and the files may not have. `expected` refuses
    /// every other store.
    ///
    /// # Errors
    /// [`MetaError::NoStore`], [`MetaError::WrongStore`], [`MetaError::Busy`],
    /// [`MetaError::StoreCorrupt`], [`MetaError::Log`] for a damaged journal; nothing was changed
    /// then. [`MetaError::NoSpace`] where a replay finds the disk full: the journal keeps
    /// everything, and another open goes on.
    pub fn open(places: &Places, expected: Option<StoreId>, options: Options) -> Result<Opened> {
        let read = || match places.objects.read(STORE_FILE) {
            Ok(bytes) => Ok(bytes),
            Err(Errno::NOENT) => Err(MetaError::NoStore),
            Err(errno) => Err(MetaError::io("reading the file of a metadata store")(errno)),
        };
        // Once to leave a directory alone that is no store, and again when nobody changes it.
        read()?;
        let lock = lock(places.objects.as_ref())?;
        let bytes = read()?;
        let superblock = Superblock::decode(&bytes).map_err(MetaError::StoreCorrupt)?;
        if let Some(expected) = expected
            && expected != superblock.store
        {
            return Err(MetaError::WrongStore {
                expected,
                found: superblock.store,
            });
        }
        let id = LogId(superblock.store.0);
        let (log, records) = Log::open(places.journal.clone(), LOG, id, log_options(options))?;
        let held = Held::read(&records)?;
        let mut store = assemble(places, superblock, log, options, lock);
        let replay = Replay {
            records: records.len() as u64,
            ..store.replay(&held)?
        };
        store.replay = replay;
        let notes = store.reopen_notes(&held);
        if replay.requests > 0 {
            store.checkpoint()?;
        }
        Ok(Opened {
            store,
            notes,
            replay,
        })
    }

    /// Applies the requests that no checkpoint has covered.
    fn replay(&self, held: &Held) -> Result<Replay> {
        let mut replay = Replay::default();
        let mut touched = HashSet::new();
        let mut state = self.state.lock();
        for request in held.requests.iter().filter(|r| r.last.0 >= held.upto) {
            replay.requests += 1;
            for action in &request.actions {
                let applied = state.medium.apply(action);
                let applied = applied.map_err(|(doing, errno)| MetaError::io(doing)(errno))?;
                replay.owners_gone += u64::from(!applied);
                touched.insert(match action {
                    Action::Write { object, .. }
                    | Action::Fill { object, .. }
                    | Action::Remove { object }
                    | Action::Discard { object, .. } => object.file_name().into_bytes(),
                    Action::Attribute { owner, .. } | Action::Clear { owner } => {
                        owner.as_bytes().to_vec()
                    }
                    Action::Note { .. } => continue,
                });
            }
        }
        replay.touched = touched.len() as u64;
        Ok(replay)
    }

    fn reopen_notes(&self, held: &Held) -> Vec<OpenNote> {
        let mut state = self.state.lock();
        let mut notes = Vec::new();
        for request in &held.requests {
            let last = request.last.0;
            let closed = last < held.upto && !held.open.contains(&last);
            if closed || held.done.contains(&last) {
                continue;
            }
            for action in &request.actions {
                if let Action::Note { kind, payload } = action {
                    state.open.insert(request.last, request.first);
                    notes.push(OpenNote {
                        ticket: Ticket(request.last.0),
                        kind: *kind,
                        payload: payload.clone(),
                    });
                }
            }
        }
        notes
    }
}

/// What the journal holds, put together.
struct Held {
    requests: Vec<HeldRequest>,
    /// Of the last checkpoint.
    upto: u64,
    open: BTreeSet<u64>,
    /// Requests whose notes are done.
    done: BTreeSet<u64>,
}

struct HeldRequest {
    first: Sequence,
    last: Sequence,
    actions: Vec<Action>,
}

impl Held {
    fn read(records: &[Record]) -> Result<Held> {
        let mut held = Held {
            requests: Vec::new(),
            upto: 0,
            open: BTreeSet::new(),
            done: BTreeSet::new(),
        };
        let mut assembly = Assembly::default();
        let mut first = None;
        for record in records {
            let wrong = |corruption| MetaError::Record {
                sequence: record.sequence.0,
                corruption,
            };
            match record.kind {
                RECORD_PART => {
                    if record.payload.first_chunk() == Some(&[0; 4]) {
                        first = Some(record.sequence);
                    }
                    // Without a first part the journal was truncated inside a request, which a
                    // checkpoint had covered.
                    let Some(began) = first else { continue };
                    if let Some(actions) = assembly.take(&record.payload).map_err(wrong)? {
                        held.requests.push(HeldRequest {
                            first: began,
                            last: record.sequence,
                            actions,
                        });
                        first = None;
                    }
                }
                RECORD_CHECKPOINT => {
                    let checkpoint = Checkpoint::decode(&record.payload).map_err(wrong)?;
                    held.upto = checkpoint.upto;
                    held.open = checkpoint.open.into_iter().collect();
                }
                RECORD_DONE => {
                    let done = Cursor::new(&record.payload).integer("sequence that is done", 8);
                    held.done.insert(done.map_err(wrong)?);
                }
                kind => {
                    return Err(wrong(Corruption {
                        what: "kind of a record",
                        offset: 4,
                        expected: RECORD_DONE.into(),
                        found: kind.into(),
                    }));
                }
            }
        }
        Ok(held)
    }
}

fn assemble(
    places: &Places,
    superblock: Superblock,
    log: Log,
    options: Options,
    lock: Option<Lock>,
) -> Store {
    let id = superblock.store;
    let medium = Medium::new(
        id,
        superblock.attribute.clone(),
        places.files.clone(),
        places.objects.clone(),
    );
    Store {
        id,
        files: places.files.clone(),
        objects: places.objects.clone(),
        log,
        options,
        state: Mutex::new(State::new(medium, superblock)),
        checkpointing: Mutex::new(()),
        journaled: AtomicU64::new(0),
        replay: Replay::default(),
        _lock: lock,
    }
}

/// A directory without locks has a caller who keeps others out.
fn lock(objects: &dyn Dir) -> Result<Option<Lock>> {
    match objects.lock(LOCK) {
        Ok(lock) => Ok(Some(lock)),
        Err(Errno::OPNOTSUPP) => Ok(None),
        Err(Errno::AGAIN) => Err(MetaError::Busy),
        Err(errno) => Err(MetaError::io("locking a metadata store")(errno)),
    }
}

/// What a crash in `create` left.
fn remove_old_journal(journal: &dyn Dir) -> env::Result<()> {
    for file in journal.list()? {
        if file.starts_with("metadata.") {
            journal.remove(&file)?;
        }
    }
    journal.sync()
}

fn log_options(options: Options) -> log::Options {
    log::Options {
        segment_bytes: options.segment_bytes,
    }
}
