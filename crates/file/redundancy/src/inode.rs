//! What the engine knows of the objects that the kernel holds.

use crate::journal::dirty::REGION_BYTES;
use crate::label::{Label, ObjectId, StoreIndex};
use crate::store::{Node, StoreFile};
use mount::{Kind, Timestamp};
use parking_lot::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

mod naming;

/// Directory and name.
type Hint = (Arc<Inode>, Box<[u8]>);

/// An object.
pub(crate) struct Inode {
    /// Its id.
    pub(crate) id: ObjectId,
    /// Its type.
    pub(crate) kind: Kind,
    label: Label,
    hint: Mutex<Option<Hint>>,
    nodes: Mutex<SmallVec<[(StoreIndex, Node); 2]>>,
    content: Mutex<Content>,
    forgotten: AtomicBool,
    /// It was made here and nobody has set its `security.capability` since.
    no_capability: AtomicBool,
    /// It has, or has had since the kernel came to know it, several names.
    several_names: AtomicBool,
    /// Journal epoch of the last change of its names, plus 1.
    renamed: AtomicU64,
    /// Used since the open-file cache last looked.
    pub(crate) used: AtomicBool,
    /// Packed epoch, region and chunk mask of the last touch: most writes hit it.
    touched: AtomicU64,
}

#[derive(Default)]
struct Content {
    open: Option<Arc<OpenFiles>>,
    writing: Vec<(u64, u64)>,
    waiting: Option<Arc<Condvar>>,
    /// Times of the copies may differ since a write.
    stale_times: bool,
    /// Somebody has asked for the times since they became stale.
    seen_times: bool,
    /// Changes of the copies' content that have ended, and how many of them are durable.
    changes: u64,
    durable: u64,
    /// Modification time of writes that no copy's file system has seen.
    late: Late,
    /// The last time that the copies were given so, or are to be given.
    told: Option<Timestamp>,
    /// Its last name is gone: the open files are all that is left.
    nameless: bool,
    naming: naming::Naming,
}

/// The modification time of writes that go elsewhere than to the copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Late {
    /// Nobody has it to be told.
    #[default]
    Unset,
    /// The copies have had one set since anybody looked.
    Set,
    /// The same, and this later one is still to be set.
    At(Timestamp),
}

/// Open copies; the one that decides comes first.
pub(crate) type Files = SmallVec<[(StoreIndex, Arc<dyn StoreFile>); 3]>;

/// The open copies of a file.
pub(crate) struct OpenFiles {
    /// Membership generation at which they were opened.
    pub(crate) generation: u64,
    /// Whether every member copy is open for writing; else one copy is, for reading.
    pub(crate) write: bool,
    /// The copies; the one that decides comes first.
    pub(crate) files: Files,
    /// Whether the first one has been told that who reads through it reads ahead by itself.
    told: AtomicBool,
}

impl OpenFiles {
    pub(crate) fn new(generation: u64, write: bool, files: Files) -> OpenFiles {
        OpenFiles {
            generation,
            write,
            files,
            told: AtomicBool::new(false),
        }
    }

    /// The copy to read from. The kernel reads ahead in the mount; doing it below too would bring
    /// in twice as much as random readers ask for.
    pub(crate) fn reader(&self) -> Option<&(StoreIndex, Arc<dyn StoreFile>)> {
        let first = self.files.first()?;
        if !self.told.load(Ordering::Relaxed) {
            self.told.store(true, Ordering::Relaxed);
            first.1.no_read_ahead();
        }
        Some(first)
    }
}

/// A byte range being written; others that overlap it wait.
pub(crate) struct Writing<'a> {
    inode: &'a Inode,
    range: (u64, u64),
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut content = self.inode.content.lock();
        content.changes += 1;
        if let Some(at) = content.writing.iter().position(|r| *r == self.range) {
            content.writing.swap_remove(at);
        }
        if let Some(waiting) = &content.waiting {
            waiting.notify_all();
        }
    }
}

impl Inode {
    pub(crate) fn new(label: Label, kind: Kind) -> Inode {
        Inode {
            id: label.id,
            kind,
            label,
            hint: Mutex::new(None),
            nodes: Mutex::new(SmallVec::new()),
            content: Mutex::new(Content::default()),
            forgotten: AtomicBool::new(false),
            no_capability: AtomicBool::new(false),
            several_names: AtomicBool::new(false),
            renamed: AtomicU64::new(0),
            used: AtomicBool::new(true),
            touched: AtomicU64::new(0),
        }
    }

    pub(crate) fn label(&self) -> Label {
        self.label
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind == Kind::Dir
    }

    /// Nobody else knows the object yet, so it has no `security.capability`.
    pub(crate) fn set_no_capability(&self) {
        self.no_capability.store(true, Ordering::Release);
    }

    /// From now on it may have one. There is no way back: a reader that found none may be late.
    pub(crate) fn may_have_capability(&self) {
        self.no_capability.store(false, Ordering::Release);
    }

    /// It has several names now.
    pub(crate) fn set_several_names(&self) {
        self.several_names.store(true, Ordering::Release);
    }

    /// Whether it has, or may have had a moment ago, several names.
    pub(crate) fn has_several_names(&self) -> bool {
        self.several_names.load(Ordering::Acquire)
    }

    /// It got, lost or changed a name in this journal epoch.
    pub(crate) fn set_renamed(&self, epoch: u64) {
        self.renamed.store(epoch + 1, Ordering::Release);
    }

    /// Whether a change of its names may not be durable yet: the checkpoint that ends its epoch
    /// need not be complete before the next but one begins.
    pub(crate) fn was_just_renamed(&self, epoch: u64) -> bool {
        let renamed = self.renamed.load(Ordering::Acquire);
        renamed > 0 && epoch.saturating_sub(renamed - 1) <= 1
    }

    pub(crate) fn has_no_capability(&self) -> bool {
        self.no_capability.load(Ordering::Acquire)
    }

    /// Directory and name where it was last seen.
    pub(crate) fn hint(&self) -> Option<(Arc<Inode>, OsString)> {
        let hint = self.hint.lock();
        let (parent, name) = hint.as_ref()?;
        Some((parent.clone(), OsString::from_vec(name.to_vec())))
    }

    pub(crate) fn set_hint(&self, parent: &Arc<Inode>, name: &OsStr) {
        let mut hint = self.hint.lock();
        if let Some((p, n)) = hint.as_ref()
            && Arc::ptr_eq(p, parent)
            && **n == *name.as_bytes()
        {
            return;
        }
        *hint = Some((parent.clone(), name.as_bytes().into()));
    }

    /// Drops the hint where it is this name, so that a stale one misleads nobody.
    pub(crate) fn drop_hint(&self, parent: &Arc<Inode>, name: &OsStr) {
        let mut hint = self.hint.lock();
        let same = hint
            .as_ref()
            .is_some_and(|(p, n)| p.id == parent.id && **n == *name.as_bytes());
        if same {
            *hint = None;
        }
    }

    pub(crate) fn node(&self, store: StoreIndex) -> Option<Node> {
        let nodes = self.nodes.lock();
        nodes
            .iter()
            .find(|(s, _)| *s == store)
            .map(|(_, n)| n.clone())
    }

    pub(crate) fn nodes(&self) -> Vec<(StoreIndex, Node)> {
        self.nodes.lock().to_vec()
    }

    pub(crate) fn set_node(&self, store: StoreIndex, node: Node) {
        let mut nodes = self.nodes.lock();
        match nodes.iter_mut().find(|(s, _)| *s == store) {
            Some(slot) => slot.1 = node,
            None => nodes.push((store, node)),
        }
    }

    /// Lets go of what refers to the object on `store`, which is about to join anew: its file is
    /// another one from then on, though the old one may still be open.
    pub(crate) fn drop_store(&self, store: StoreIndex) {
        self.nodes.lock().retain(|(s, _)| *s != store);
        let mut content = self.content.lock();
        if let Some(open) = &content.open
            && open.files.iter().any(|(s, _)| *s == store)
        {
            let files = open.files.iter().filter(|(s, _)| *s != store).cloned();
            let files = files.collect();
            content.open = Some(Arc::new(OpenFiles::new(open.generation, open.write, files)));
        }
    }

    /// Adds a copy of a file that was open already, on a store that has just joined.
    pub(crate) fn add_open(&self, store: StoreIndex, node: Node, file: Arc<dyn StoreFile>) {
        self.set_node(store, node);
        let mut content = self.content.lock();
        if let Some(open) = &content.open {
            let mut files = open.files.clone();
            files.push((store, file));
            content.open = Some(Arc::new(OpenFiles::new(open.generation, open.write, files)));
        }
    }

    /// Waits until no overlapping range is being written and takes the range.
    pub(crate) fn write_range(&self, offset: u64, length: u64) -> Writing<'_> {
        let range = (offset, offset.saturating_add(length));
        let mut content = self.content.lock();
        while content
            .writing
            .iter()
            .any(|r| r.0 < range.1 && range.0 < r.1)
        {
            let waiting = content.waiting.get_or_insert_with(Default::default).clone();
            self.wait(&waiting, &mut content);
        }
        content.writing.push(range);
        content.stale_times = true;
        content.seen_times = false;
        Writing { inode: self, range }
    }

    fn wait(&self, waiting: &Condvar, content: &mut MutexGuard<'_, Content>) {
        waiting.wait(content);
    }

    pub(crate) fn open_files(&self) -> Option<Arc<OpenFiles>> {
        self.content.lock().open.clone()
    }

    /// Somebody is about to see the times.
    pub(crate) fn see_times(&self) {
        self.content.lock().seen_times = true;
    }

    /// Whether times that may differ between the copies have been seen.
    pub(crate) fn has_seen_times(&self) -> bool {
        let content = self.content.lock();
        content.stale_times && content.seen_times
    }

    pub(crate) fn set_open_files(&self, files: Option<Arc<OpenFiles>>) {
        self.content.lock().open = files;
    }

    pub(crate) fn is_nameless(&self) -> bool {
        self.content.lock().nameless
    }

    pub(crate) fn set_nameless(&self) {
        self.content.lock().nameless = true;
    }

    /// Changes of the copies' content that have ended; the first is what nobody knows of.
    pub(crate) fn changes(&self) -> u64 {
        self.content.lock().changes + 1
    }

    /// So many changes are durable on every copy.
    pub(crate) fn set_durable(&self, changes: u64) {
        let mut content = self.content.lock();
        content.durable = content.durable.max(changes);
    }

    /// Whether all of the copies' content is durable.
    pub(crate) fn is_durable(&self) -> bool {
        let content = self.content.lock();
        content.durable > content.changes
    }

    /// Something was written elsewhere than to the copies: whether these are to be given the time
    /// now. Whoever saw the time before must find another one, also after a crash; what nobody has
    /// seen may be set later.
    pub(crate) fn wrote_elsewhere(&self, now: Timestamp) -> bool {
        let mut content = self.content.lock();
        let first = content.late == Late::Unset;
        content.told = Some(now);
        content.late = if first { Late::Set } else { Late::At(now) };
        first
    }

    /// The copies are to be given this time of modification, from our own clock.
    pub(crate) fn tell_time(&self, now: Timestamp) {
        self.content.lock().told = Some(now);
    }

    /// Whether the time that the copies' file systems are about to set is later than what was
    /// told: their clock goes by the tick of the scheduler (`CLOCK_REALTIME_COARSE`, 10 ms at
    /// most), ours does not. What is still to be set is then forgotten.
    pub(crate) fn copies_set_time(&self, now: impl FnOnce() -> Timestamp) -> bool {
        const TICK_NS: i128 = 10_000_000;
        let ns = |time: Timestamp| i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec);
        let mut content = self.content.lock();
        if content
            .told
            .is_some_and(|told| ns(told) + TICK_NS > ns(now()))
        {
            return false;
        }
        content.told = None;
        content.late = Late::Unset;
        true
    }

    /// The time that the copies are still to be given; the next write sets it at once.
    pub(crate) fn take_late_time(&self) -> Option<Timestamp> {
        let mut content = self.content.lock();
        match std::mem::take(&mut content.late) {
            Late::At(time) => Some(time),
            Late::Unset | Late::Set => None,
        }
    }

    /// The time that the copies are still to be given.
    pub(crate) fn late_time(&self) -> Option<Timestamp> {
        match self.content.lock().late {
            Late::At(time) => Some(time),
            Late::Unset | Late::Set => None,
        }
    }

    /// The copies could not be given the time: later, then.
    pub(crate) fn keep_late_time(&self, time: Timestamp) {
        let mut content = self.content.lock();
        if content.late == Late::Unset {
            content.late = Late::At(time);
        }
    }

    /// Whether times are stale, and no longer once this was asked.
    pub(crate) fn take_stale_times(&self) -> bool {
        std::mem::take(&mut self.content.lock().stale_times)
    }

    pub(crate) fn mark_stale_times(&self) {
        self.content.lock().stale_times = true;
    }

    /// Whether the last touch covers this one. Epochs count modulo 2^24: a stale hit would need
    /// 16 million checkpoints without one write in between.
    pub(crate) fn recently_touched(&self, epoch: u64, region: u32, mask: u8) -> bool {
        let packed = self.touched.load(Ordering::Acquire);
        packed >> 8 == pack(epoch, region) && packed as u8 & mask == mask
    }

    pub(crate) fn set_touched(&self, epoch: u64, region: u32, mask: u8) {
        let packed = self.touched.load(Ordering::Acquire);
        let key = pack(epoch, region);
        let before = if packed >> 8 == key { packed as u8 } else { 0 };
        self.touched
            .store(key << 8 | u64::from(before | mask), Ordering::Release);
    }
}

fn pack(epoch: u64, region: u32) -> u64 {
    (epoch & 0xff_ffff) << 32 | u64::from(region)
}

const _: () = assert!(REGION_BYTES == 4 << 20);

const SHARDS: usize = 64;

/// All inodes by id.
pub(crate) struct InodeTable {
    shards: Vec<Mutex<HashMap<ObjectId, Arc<Inode>>>>,
}

impl InodeTable {
    /// A table with the root in it, which stays.
    pub(crate) fn new(root: Arc<Inode>) -> InodeTable {
        let table = InodeTable {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        };
        table.shard(root.id).lock().insert(root.id, root);
        table
    }

    fn shard(&self, id: ObjectId) -> &Mutex<HashMap<ObjectId, Arc<Inode>>> {
        &self.shards[(id.0 as usize) % SHARDS]
    }

    pub(crate) fn get(&self, id: ObjectId) -> Option<Arc<Inode>> {
        self.shard(id).lock().get(&id).cloned()
    }

    /// The inode of `label`, made where it is not known; the kernel is about to hold it.
    pub(crate) fn obtain(&self, label: Label, kind: Kind) -> Arc<Inode> {
        let mut shard = self.shard(label.id).lock();
        let inode = shard
            .entry(label.id)
            .or_insert_with(|| Arc::new(Inode::new(label, kind)))
            .clone();
        inode.forgotten.store(false, Ordering::Release);
        inode
    }

    /// The kernel let go of `id`; what others still refer to stays until a sweep.
    pub(crate) fn forget(&self, id: ObjectId) -> Option<Arc<Inode>> {
        let mut shard = self.shard(id).lock();
        if id == ObjectId::ROOT {
            return None;
        }
        let inode = shard.get(&id)?;
        inode.forgotten.store(true, Ordering::Release);
        if Arc::strong_count(inode) == 1 {
            return shard.remove(&id);
        }
        None
    }

    /// Drops the forgotten that nobody refers to any more; returns them.
    pub(crate) fn sweep(&self) -> Vec<Arc<Inode>> {
        let mut gone = Vec::new();
        for shard in &self.shards {
            shard.lock().retain(|_, inode| {
                let drop = inode.forgotten.load(Ordering::Acquire) && Arc::strong_count(inode) == 1;
                if drop {
                    gone.push(inode.clone());
                }
                !drop
            });
        }
        gone
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }

    /// Every inode.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().values().cloned());
        }
        all
    }
}

#[cfg(test)]
mod tests;
