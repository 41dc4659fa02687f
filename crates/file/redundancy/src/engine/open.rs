//! Starting a set.

mod journals;

use super::{DirOps, Engine, EngineOptions, Membership, Slot, keeper};
use crate::encoded::Encoded;
use crate::encoding::{Geometry, Parameters};
use crate::inode::{Inode, InodeTable};
use crate::journal::dirty::DirtySet;
use crate::journal::{Journal, log_id};
use crate::label::{Label, ObjectId, StoreIndex, StoreMask};
use crate::set::header::{Departure, FILE_NAME};
use crate::set::{Header, HeaderError, Presence, RefuseReason, SetId, StoreId, Tenure, assemble};
use crate::store::Store;
use env::errno::Errno;
use journals::{Journals, read_dirty, read_journals};
use mount::{Kind, Space};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

/// A place where a store is expected.
pub struct Candidate {
    /// Where it is, for people.
    pub path: String,
    /// The store, or why it cannot be used.
    pub store: Result<Arc<dyn Store>, String>,
}

impl Candidate {
    /// The local directory `path`, laid out as a store where it is empty. Nobody else can use it
    /// while the candidate or the engine made from it lives.
    pub fn local(path: &std::path::Path) -> Candidate {
        let store = crate::store::local::LocalStore::open_exclusive(path);
        Candidate {
            path: path.display().to_string(),
            store: match store {
                Ok(store) => Ok(Arc::new(store)),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

/// Why a set does not start. Nothing has been changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Fewer stores than copies.
    #[error("{stores} stores cannot hold {copies} copies of each file")]
    TooFew {
        /// Stores given.
        stores: usize,
        /// Copies asked for.
        copies: u8,
    },
    /// More stores than a set can have, or than this one has.
    #[error("{stores} stores were given, at most {most} can be used")]
    TooMany {
        /// Stores given.
        stores: usize,
        /// Stores possible.
        most: usize,
    },
    /// A new set needs all of its stores.
    #[error("{path} cannot be used for a new set: {why}")]
    NewSet {
        /// The store.
        path: String,
        /// Why not.
        why: String,
    },
    /// The stores found do not make up the set.
    #[error("{0}")]
    Refused(#[from] RefuseReason),
    /// A header is damaged.
    #[error("the header of {path} cannot be used: {source}")]
    Header {
        /// The store.
        path: String,
        /// What is wrong.
        source: HeaderError,
    },
    /// A journal was written by another version: what is active is not known to this one.
    #[error("the journal of {path} cannot be used: {why}")]
    Journal {
        /// The store.
        path: String,
        /// Which record, and why.
        why: String,
    },
    /// So many stores are images from before their set last stopped that some files may have no
    /// newer copy.
    #[error(
        "{} older than the set: the journal of another store goes on where {} ends",
        paths_are(paths), if paths.len() == 1 { "its" } else { "theirs" }
    )]
    Images {
        /// The stores.
        paths: Vec<String>,
    },
    /// A store failed.
    #[error("{path} failed while {doing}: {errno}")]
    Store {
        /// The store.
        path: String,
        /// What was being done.
        doing: &'static str,
        /// Its answer.
        errno: Errno,
    },
    /// Recovery could not be completed.
    #[error("recovery could not be completed: {0}")]
    Recovery(Errno),
}

fn paths_are(paths: &[String]) -> String {
    let verb = if paths.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", paths.join(" and "))
}

pub(super) fn presence(candidate: &Candidate) -> Result<Presence, OpenError> {
    let store = match &candidate.store {
        Ok(store) => store,
        Err(why) => return Ok(Presence::Missing(why.clone())),
    };
    match store.system().read(FILE_NAME) {
        Ok(bytes) => match Header::decode(&bytes) {
            Ok(header) => Ok(Presence::Header(Box::new(header))),
            Err(source) => Err(OpenError::Header {
                path: candidate.path.clone(),
                source,
            }),
        },
        Err(Errno::NOENT) => Ok(Presence::Empty),
        Err(errno) => Ok(Presence::Missing(format!("it cannot be read ({errno})"))),
    }
}

/// Makes a new set on empty stores.
fn create(
    candidates: &[Candidate],
    options: &EngineOptions,
    random: &mut dyn FnMut() -> u64,
) -> Result<Header, OpenError> {
    let wide = |random: &mut dyn FnMut() -> u64| u128::from(random()) << 64 | u128::from(random());
    let set = SetId(wide(random));
    let stores: Vec<_> = candidates
        .iter()
        .map(|_| (StoreId(wide(random)), Departure::default()))
        .collect();
    let header = Header {
        set,
        store: stores[0].0,
        index: StoreIndex(0),
        copies: options.copies,
        created_s: env::wall_time().seconds,
        mount_count: 0,
        pending_starts: 0,
        members: StoreMask::first(candidates.len()),
        history: vec![Tenure {
            generation: 1,
            epoch: random(),
        }],
        stores,
    };
    for (place, candidate) in candidates.iter().enumerate() {
        let index = StoreIndex(place as u8);
        let failed = |doing| {
            move |errno| OpenError::Store {
                path: candidate.path.clone(),
                doing,
                errno,
            }
        };
        let store = candidate.store.as_ref().map_err(|why| OpenError::NewSet {
            path: candidate.path.clone(),
            why: why.clone(),
        })?;
        let label = Label {
            id: ObjectId::ROOT,
            home: StoreIndex(0),
            copies: header.members,
            set: set.short(),
        };
        let root = store.root().map_err(failed("finding its root"))?;
        store
            .set_label(&root, &label)
            .map_err(failed("labelling its root"))?;
        Journal::create_log(store.system(), log_id(set.0, index, 0))
            .map_err(|e| failed("making its journal")(e.errno()))?;
        store
            .sync_all()
            .map_err(failed("making the new store durable"))?;
        let bytes = header.for_store(index).encode();
        store
            .system()
            .replace(FILE_NAME, &bytes)
            .map_err(failed("writing its header"))?;
    }
    Ok(header)
}

/// Refuses a store for a new set whose tree is not empty: it belonged to a set, and has lost its
/// header. What is in there would not be seen.
fn refuse_used(candidate: &Candidate) -> Result<(), OpenError> {
    let Ok(store) = &candidate.store else {
        return Ok(());
    };
    let mut holds = None;
    let listed = store.root().and_then(|root| {
        store.list(&root, &mut |name, _| {
            holds.get_or_insert_with(|| name.to_os_string());
        })
    });
    let why = match (listed, holds) {
        (Ok(()), None) => return Ok(()),
        (Ok(()), Some(name)) => format!(
            "it has no header, and its data directory is not empty (it holds {})",
            name.display()
        ),
        (Err(errno), _) => format!("its data directory cannot be read ({errno})"),
    };
    Err(OpenError::NewSet {
        path: candidate.path.clone(),
        why,
    })
}

struct Start {
    header: Header,
    present: StoreMask,
    behind: StoreMask,
    places: Vec<Option<usize>>,
    outside: Vec<(StoreIndex, Result<(), RefuseReason>)>,
}

fn judge(
    candidates: &[Candidate],
    options: &EngineOptions,
    random: &mut dyn FnMut() -> u64,
) -> Result<Start, OpenError> {
    let found = candidates
        .iter()
        .map(presence)
        .collect::<Result<Vec<_>, _>>()?;
    // A set that was never started holds nothing yet: making it was interrupted.
    let unused = found.iter().all(|p| match p {
        Presence::Header(h) => h.mount_count == 0,
        Presence::Empty => true,
        Presence::Missing(_) => false,
    });
    if unused {
        for candidate in candidates {
            refuse_used(candidate)?;
        }
        let stores = candidates.len();
        if stores < usize::from(options.copies) || options.copies == 0 {
            return Err(OpenError::TooFew {
                stores,
                copies: options.copies,
            });
        }
        let header = create(candidates, options, random)?;
        let present = header.members;
        let places = (0..stores).map(Some).collect();
        return Ok(Start {
            header,
            present,
            behind: StoreMask::default(),
            places,
            outside: Vec::new(),
        });
    }
    if !found.iter().any(|p| matches!(p, Presence::Header(_))) {
        let missing = candidates
            .iter()
            .find_map(|c| Some((c, c.store.as_ref().err()?)));
        return Err(match missing {
            Some((candidate, why)) => OpenError::NewSet {
                path: candidate.path.clone(),
                why: why.clone(),
            },
            None => OpenError::Refused(RefuseReason::NoHeader),
        });
    }
    let assembly = assemble(&found, options.gone)?;
    let count = assembly.header.stores.len();
    if candidates.len() > count {
        return Err(OpenError::TooMany {
            stores: candidates.len(),
            most: count,
        });
    }
    let mut places: Vec<Option<usize>> = vec![None; count];
    for (candidate, place) in assembly.places.iter().enumerate() {
        if let Some(index) = place {
            places[usize::from(index.0)] = Some(candidate);
        }
    }
    let mut outside = Vec::new();
    for (candidate, verdict) in assembly.outside {
        if let Presence::Header(header) = &found[candidate] {
            places[usize::from(header.index.0)] = Some(candidate);
            outside.push((header.index, verdict.map(|_| ())));
        }
    }
    // What has no header stands for the places that are left, in order.
    let rest = (0..candidates.len())
        .filter(|c| !places.contains(&Some(*c)))
        .collect::<Vec<_>>();
    let mut rest = rest.into_iter();
    for place in &mut places {
        if place.is_none() {
            *place = rest.next();
        }
    }
    Ok(Start {
        header: assembly.header,
        present: assembly.present,
        behind: assembly.behind,
        places,
        outside,
    })
}

impl Engine {
    /// Starts a set on the given stores, or makes one where all are empty: decides which stores
    /// take part, makes them equal in what was active when the set last stopped, and takes
    /// changes from then on.
    pub fn open(
        candidates: Vec<Candidate>,
        options: &EngineOptions,
    ) -> Result<Arc<Engine>, OpenError> {
        if candidates.len() > 64 {
            return Err(OpenError::TooMany {
                stores: candidates.len(),
                most: 64,
            });
        }
        let mut rng = match options.seed {
            Some(seed) => env::Rng::new(seed),
            None => env::Rng::from_kernel().map_err(OpenError::Recovery)?,
        };
        let start = judge(&candidates, options, &mut || rng.next_u64())?;
        let (engine, active, images) = Engine::assemble(candidates, options, start, rng)?;
        let begun = engine.begin_mount(&active, images);
        begun.map_err(OpenError::Recovery)?;
        engine.refresh_space();
        if options.background {
            keeper::start(&engine);
        }
        Ok(engine)
    }

    fn assemble(
        candidates: Vec<Candidate>,
        options: &EngineOptions,
        start: Start,
        rng: env::Rng,
    ) -> Result<(Arc<Engine>, DirtySet, StoreMask), OpenError> {
        let Start {
            mut header,
            present,
            behind,
            places,
            outside,
        } = start;
        let encoded = Arc::new(Encoded::default());
        let mut candidates: Vec<Option<Candidate>> = candidates.into_iter().map(Some).collect();
        let mut slots = Vec::new();
        for (place, candidate) in places.iter().enumerate() {
            let index = StoreIndex(place as u8);
            let candidate = candidate.and_then(|c| candidates.get_mut(c)?.take());
            slots.push(slot(index, candidate, present, &outside, &encoded));
        }
        let Journals {
            logs,
            active,
            checkpoint,
            images,
        } = read_journals(&header, present, &slots)?;
        refuse_too_many(images, present, &slots, header.copies)?;
        for index in behind.iter() {
            let written = slots[usize::from(index.0)].store.read().as_ref().map(|s| {
                s.system()
                    .replace(FILE_NAME, &header.for_store(index).encode())
            });
            if let Some(Err(errno)) = written {
                // The write of the next header fails, too, and fences it.
                tracing::warn!(store = index.0, %errno, "its header cannot be brought up to date");
            }
        }
        let mut dirty = BTreeMap::new();
        for index in StoreMask::first(slots.len()).minus(present).iter() {
            let departure = &mut header.stores[usize::from(index.0)].1;
            if header.members.has(index) {
                *departure = Departure {
                    generation: header.history[0].generation,
                    mount_count: header.mount_count,
                    mark: active.mark.0,
                };
            }
            let mut set = DirtySet::since(ObjectId(departure.mark));
            if header.members.has(index) {
                set.checkpoint = checkpoint.saturating_sub(1);
            }
            read_dirty(&header, index, present, &slots, &mut set);
            set.merge(&active);
            dirty.insert(index, set);
        }
        if header.members != present {
            header.advance(present, rng.clone().next_u64());
        }
        header.mount_count += 1;
        header.pending_starts = header.pending_starts.saturating_add(1);
        let root = Arc::new(Inode::new(
            Label {
                id: ObjectId::ROOT,
                home: StoreIndex(0),
                copies: StoreMask::first(slots.len()),
                set: header.set.short(),
            },
            Kind::Dir,
        ));
        let first_id = ObjectId(header.mount_count << 40);
        let mut options = options.clone();
        options.encoding = options
            .encoding
            .and_then(|wanted| encoding_of(&header, slots.len(), wanted));
        let engine = Engine {
            set: header.set,
            copy_count: header.copies,
            slots,
            members: AtomicU64::new(present.0),
            generation: AtomicU64::new(header.history[0].generation),
            gate: RwLock::new(()),
            journal: Journal::new(logs, first_id, checkpoint, options.background),
            encoded,
            counters: options
                .encoding
                .map(|encoding| super::crawl::Counters::new(encoding.chunk)),
            last_round: Mutex::new(None),
            inodes: InodeTable::new(root.clone()),
            root,
            ids: AtomicU64::new(first_id.0),
            rotation: AtomicU64::new(0),
            read_only: Mutex::new(None),
            is_read_only: AtomicBool::new(false),
            dir_ops: Mutex::new(DirOps::default()),
            holds: AtomicBool::new(false),
            closing: Mutex::default(),
            open_queue: Mutex::default(),
            entropy: Mutex::new(rng),
            keeper: keeper::Keeper::new(),
            started: Instant::now(),
            mounted_at: Mutex::default(),
            last_scrub: Mutex::new(None),
            scrubbing: super::scrub::Scrubbing::default(),
            membership: Mutex::new(Membership {
                header,
                dirty,
                dirty_logs: BTreeMap::new(),
                catching_up: None,
            }),
            options,
        };
        Ok((Arc::new(engine), active, images))
    }

    /// The first writes of a start: headers, then recovery, then a fresh journal. Members that are
    /// older `images` leave before recovery asks anybody.
    fn begin_mount(&self, active: &DirtySet, images: StoreMask) -> mount::Result<()> {
        // First every member learns of the start, then that all have: what is changed later is
        // never changed behind the back of a member that seems to belong to this start.
        for served in [false, true] {
            let header = {
                let mut membership = self.membership.lock();
                if served {
                    membership.header.pending_starts = 0;
                }
                membership.header.clone()
            };
            for (store, errno) in self.write_headers(&header, self.members()) {
                self.fence_for(store, errno)?;
            }
        }
        for store in images.iter() {
            self.leave_older(store)?;
        }
        self.label_roots()?;
        self.open_stripes()?;
        for (index, store) in self.member_stores() {
            if let Err(errno) = self.let_go_of_named(&*store) {
                self.fence_for(index, errno)?;
            }
        }
        if !active.is_empty() || active.is_everything() {
            tracing::info!(
                entries = active.len(),
                "the set was not stopped cleanly; comparing"
            );
            // A store that fails meanwhile is fenced, and the others are compared again.
            for attempt in 0..=self.slots.len() {
                match crate::resync::recover(self, active) {
                    Ok(()) => break,
                    Err(errno) if attempt == self.slots.len() => return Err(errno),
                    Err(errno) => {
                        tracing::warn!(%errno, "recovery met an error");
                        self.refresh_space();
                    }
                }
            }
        }
        self.audit_stripes()?;
        self.checkpoint()
    }
}

/// What was asked for, with a code for the set as it is: it may keep another number of copies than
/// the caller thinks, or have more stores than were given.
fn encoding_of(header: &Header, stores: usize, wanted: Parameters) -> Option<Parameters> {
    let known = wanted.geometry;
    if known.copies() == usize::from(header.copies) && known.stores() == stores {
        return Some(wanted);
    }
    let geometry = Geometry::widest(header.copies, u8::try_from(stores).ok()?)?;
    Some(Parameters { geometry, ..wanted })
}

/// Refuses to go on without members that are older images, where files may have their only newer
/// copy on what they took the place of, or fewer than half of the members would be left.
fn refuse_too_many(
    images: StoreMask,
    present: StoreMask,
    slots: &[Slot],
    copies: u8,
) -> Result<(), OpenError> {
    let left = present.minus(images).count();
    let whole = slots.len() - left < usize::from(copies) && 2 * left >= present.count();
    if images.is_empty() || whole {
        return Ok(());
    }
    let path = |store: StoreIndex| slots[usize::from(store.0)].path.lock().clone();
    Err(OpenError::Images {
        paths: images.iter().map(path).collect(),
    })
}

impl Engine {
    /// Gives the root of each member its label where that is damaged: what it says is known.
    fn label_roots(&self) -> mount::Result<()> {
        let label = self.root.label();
        for (index, store) in self.member_stores() {
            let labelled = store.root().and_then(|root| {
                if store.inspect(&root)?.label == Some(label) {
                    return Ok(());
                }
                tracing::warn!(
                    store = index.0,
                    "its root had no valid label; it gets it again"
                );
                store.set_label(&root, &label)
            });
            if let Err(errno) = labelled {
                self.fence_for(index, errno)?;
            }
        }
        Ok(())
    }
}

fn slot(
    index: StoreIndex,
    candidate: Option<Candidate>,
    present: StoreMask,
    outside: &[(StoreIndex, Result<(), RefuseReason>)],
    encoded: &Arc<Encoded>,
) -> Slot {
    let verdict = outside
        .iter()
        .find(|(s, _)| *s == index)
        .map(|(_, v)| v.clone());
    let (path, store) = match candidate {
        Some(candidate) => (candidate.path, Some(candidate.store)),
        None => (String::new(), None),
    };
    let refused = matches!(verdict, Some(Err(_)));
    let detail = match (present.has(index), verdict, &store) {
        (true, _, _) => String::new(),
        (_, Some(Ok(())), _) => "it was away and is about to be brought up to date".into(),
        (_, Some(Err(reason)), _) => {
            format!("refused: {reason}; to use its place anew attach an empty directory")
        }
        (_, None, Some(Ok(_))) => {
            "an empty directory is in its place; to rebuild onto it: `holdfast attach`".into()
        }
        (_, None, Some(Err(why))) => why.clone(),
        (_, None, None) => "it is missing; bring it back, or attach an empty one".into(),
    };
    let store = if present.has(index) {
        store
            .and_then(Result::ok)
            .map(|store| encoded.wrap(index, store))
    } else {
        None
    };
    Slot {
        path: Mutex::new(path),
        store: RwLock::new(store),
        pending: Mutex::new(None),
        space: Mutex::new(Space::default()),
        errors: AtomicU64::new(0),
        detail: Mutex::new(detail),
        progress: Mutex::new(None),
        last_rebuild: Mutex::new(None),
        retry: Mutex::new((Instant::now(), 0)),
        compare_all: AtomicBool::new(false),
        refused: AtomicBool::new(refused),
        cancel: Arc::default(),
    }
}
