//! Giving stripes up: their chunks get their copies back.
//!
//! The order is what keeps it safe (`docs/decisions/0014-stores-that-look-whole.md`): no more writes
//! to the stripe; the copies filled, durably; a note that they are; the bases written, durably; the
//! stripe removed; its differentials forgotten; changes go on. Many stripes share the syncs.
//!
//! The caller of everything here holds the gate for reading where it says so, and no lock of the
//! engine besides.

use super::Engine;
use crate::encoded;
use crate::encoding::StripeId;
use crate::journal::Failed;
use crate::journal::dirty::{Entry, Place, regions};
use crate::label::{ObjectId, StoreIndex, StoreMask};
use crate::store::{Node, Store, StoreFile, fill_at};
use crate::stripes::delayed::{Delayed, Found};
use crate::stripes::{Base, PAGE_BYTES, Recovered, Stripe, StripeError, Stripes};
use env::errno::{Errno, Fault, fault};
use mount::AllocateFlags;
use parity::Shard;
use std::collections::HashMap;
use std::sync::Arc;

type Result<T, E = Errno> = core::result::Result<T, E>;

/// Bytes that are read and written at once where copies get their bytes again.
const RUN_BYTES: u64 = 256 << 10;

/// Stripes that share syncs: about 64 MiB of copies with chunks of 512 KiB. Who writes to one of
/// them waits for all.
pub(crate) const BATCH: usize = 32;

/// A chunk that nothing decodes any more, in part or whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost {
    pub(crate) object: ObjectId,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Where chunks go that are lost, where that is accepted.
type Losses<'a> = Option<&'a mut Vec<Lost>>;

/// Files that are to be synced.
type Files = HashMap<(StoreIndex, Node), Arc<dyn StoreFile>>;

/// A stripe whose copies are filled.
struct Filled {
    stripe: Arc<Stripe>,
    /// Whether the logs of differentials have anything of it.
    written: bool,
    /// By chunk, the stores that have its bytes.
    holders: Vec<StoreMask>,
}

/// Why a base did not get what is in differentials.
enum FillError {
    Store(Errno),
    Stripe(StripeError),
}

impl From<StripeError> for FillError {
    fn from(error: StripeError) -> FillError {
        FillError::Stripe(error)
    }
}

/// Writes what is in differentials of a chunk into its base.
fn fill_base(
    delayed: &Delayed,
    stripe: &Stripe,
    shard: Shard,
    (home, base): (StoreIndex, &Base),
    bare: &Arc<dyn Store>,
    files: &mut Files,
) -> Result<(), FillError> {
    let mut file = None;
    delayed.each_run(stripe.id, shard, |at, bytes| {
        if file.is_none() {
            file = Some(bare.open(&base.node, true).map_err(FillError::Store)?);
        }
        let file = file.as_ref().ok_or(FillError::Store(Errno::IO))?;
        let written = file.write_at(base.offset + at, bytes);
        written.map_err(FillError::Store)
    })?;
    files.extend(file.map(|file| ((home, base.node.clone()), file)));
    Ok(())
}

impl Engine {
    /// A range of a file is about to change: encoded chunks in it get their copies back first. The
    /// caller holds the gate for reading.
    pub(crate) fn before_change(&self, object: ObjectId, offset: u64, length: u64) -> Result<()> {
        if self.encoded.is_idle() {
            return Ok(());
        }
        self.encoded.watch().change(object, offset, length);
        loop {
            let ids = self.encoded.stripes_in(object, offset, length, BATCH);
            if ids.is_empty() {
                return Ok(());
            }
            self.restore_copies(&ids)?;
        }
    }

    /// The same for one who does not hold the gate: others go on in between.
    pub(crate) fn give_up_range(&self, object: ObjectId, offset: u64, length: u64) -> Result<()> {
        if self.encoded.is_idle() {
            return Ok(());
        }
        loop {
            self.go_on()?;
            let _gate = self.begin()?;
            let ids = self.encoded.stripes_in(object, offset, length, BATCH);
            if ids.is_empty() {
                return Ok(());
            }
            self.restore_copies(&ids)?;
        }
    }

    /// Gives every chunk of stripes its copies back, durably, and gives the stripes up. The caller
    /// holds the gate for reading, or nobody else is there yet.
    ///
    /// # Errors
    /// ENOSPC where the copies have no room, EIO where a chunk cannot be decoded, or no store with a
    /// copy of it is there: that stripe stands; the others were given up.
    pub(crate) fn restore_copies(&self, ids: &[StripeId]) -> Result<()> {
        let mut first = Ok(());
        for batch in ids.chunks(BATCH) {
            let _one = self.encoded.changing.lock();
            first = first.and(self.restore_batch(batch, None));
        }
        first
    }

    /// The same, where what cannot be decoded becomes zeros and is told.
    pub(crate) fn restore_or_lose(&self, ids: &[StripeId], lost: &mut Vec<Lost>) -> Result<()> {
        let _one = self.encoded.changing.lock();
        self.restore_batch(ids, Some(lost))
    }

    fn restore_batch(&self, ids: &[StripeId], mut lost: Losses<'_>) -> Result<()> {
        let Some((stripes, delayed)) = self.encoded.layers() else {
            return Ok(());
        };
        let layers = (&*stripes, &*delayed);
        let mut first = Ok(());
        let (mut batch, mut files) = (Vec::new(), Files::new());
        for id in ids {
            let (Ok(stripe), Ok(written)) = (stripes.get(*id), delayed.close_stripe(*id)) else {
                continue;
            };
            match self.fill_stripe(layers, &stripe, &mut files, lost.as_deref_mut()) {
                Ok(holders) => batch.push(Filled {
                    stripe,
                    written,
                    holders,
                }),
                Err(errno) => {
                    delayed.reopen_stripe(*id);
                    first = first.and(Err(errno));
                }
            }
        }
        let synced = self.sync_files(&files);
        batch.retain(|filled| {
            let members = self.members();
            let mut holders = filled.holders.iter();
            let stays = synced.is_ok() && holders.all(|stores| !stores.and(members).is_empty());
            if !stays {
                delayed.reopen_stripe(filled.stripe.id);
                first = first.and(Err(Errno::IO));
            }
            stays
        });
        synced?;
        let written = batch.iter().filter(|filled| filled.written);
        let written: Vec<StripeId> = written.map(|filled| filled.stripe.id).collect();
        if !written.is_empty() {
            // A base that has changed no longer decodes the others: a start after a crash must
            // know that they need not be decoded any more.
            self.until_it_holds(|| delayed.note_given_up(&written))?;
        }
        let batch: Vec<Arc<Stripe>> = batch.into_iter().map(|filled| filled.stripe).collect();
        for stripe in &batch {
            self.encoded.refill(stripe);
        }
        self.finish_give_up(layers, &batch)?;
        first
    }

    /// Syncs files, and fences the stores of those that fail.
    fn sync_files(&self, files: &Files) -> Result<()> {
        files.values().for_each(|file| file.start_sync());
        for ((index, _), file) in files {
            if let Err(errno) = file.sync(true) {
                self.fence_for(*index, errno)?;
            }
        }
        Ok(())
    }

    /// Fills the copies of all chunks of a stripe; by chunk, who has its bytes.
    fn fill_stripe(
        &self,
        layers: (&Stripes, &Delayed),
        stripe: &Stripe,
        files: &mut Files,
        mut lost: Losses<'_>,
    ) -> Result<Vec<StoreMask>> {
        let mut holders = Vec::new();
        for (shard, slot) in stripe.layout.shards() {
            if let (Some(chunk), Some(home), Some(base)) =
                (slot.chunk(), slot.store(), stripe.base(shard))
            {
                let of = (chunk.object, home);
                let losses = lost.as_deref_mut();
                holders.push(self.fill_copies(layers, (stripe, shard), of, base, files, losses)?);
            }
        }
        Ok(holders)
    }

    /// Does something of which every store that fails is fenced, until the others have done it.
    pub(crate) fn until_it_holds(
        &self,
        mut act: impl FnMut() -> Result<(), StripeError>,
    ) -> Result<()> {
        for _ in 0..=self.slots.len() {
            match act() {
                Ok(()) => return Ok(()),
                Err(error) => self.fence_of(&error)?,
            }
        }
        Err(Errno::IO)
    }

    /// Ends the giving up of stripes whose copies have their bytes: what is in differentials goes
    /// into the bases, the stripes and then the differentials go.
    fn finish_give_up(
        &self,
        (stripes, delayed): (&Stripes, &Delayed),
        batch: &[Arc<Stripe>],
    ) -> Result<()> {
        let mut files = Files::new();
        for stripe in batch {
            for (shard, slot) in stripe.layout.shards() {
                let (Some(home), Some(base)) = (slot.store(), stripe.base(shard)) else {
                    continue;
                };
                let bare = self.encoded.bare(home);
                let Some(bare) = bare.filter(|_| self.members().has(home)) else {
                    // It gets the bytes from the copies when it is back.
                    continue;
                };
                match fill_base(delayed, stripe, shard, (home, base), &bare, &mut files) {
                    // The file is gone.
                    Ok(()) | Err(FillError::Store(Errno::STALE | Errno::NOENT)) => {}
                    Err(FillError::Store(errno)) => self.fence_for(home, errno)?,
                    Err(FillError::Stripe(error)) => {
                        tracing::warn!(%error, "a base cannot be completed; its copies are whole");
                        self.fence_for(home, Errno::UCLEAN)?;
                    }
                }
            }
        }
        self.sync_files(&files)?;
        let ids: Vec<StripeId> = batch.iter().map(|stripe| stripe.id).collect();
        if let Err(error) = stripes.remove(&ids) {
            self.fence_of(&error)?;
        }
        self.until_it_holds(|| delayed.forget(&ids))?;
        batch.iter().for_each(|stripe| self.encoded.remove(stripe));
        Ok(())
    }

    /// Goes on with what a crash has cut.
    pub(crate) fn finish_given_up(&self, found: &Found) -> Result<()> {
        let Some((stripes, delayed)) = self.encoded.layers() else {
            return Ok(());
        };
        let (mut stand, mut gone) = (Vec::new(), Vec::new());
        for id in &found.given_up {
            match stripes.get(*id) {
                Ok(stripe) => stand.push(stripe),
                // Its bases had everything before it went.
                Err(_) => gone.push(*id),
            }
        }
        self.finish_give_up((&stripes, &delayed), &stand)?;
        self.until_it_holds(|| delayed.forget(&gone))?;
        for id in &found.unknown {
            tracing::error!(
                stripe = id.0,
                "writes to a stripe are there and its shards are not; they are kept"
            );
        }
        Ok(())
    }

    fn fill_copies(
        &self,
        layers: (&Stripes, &Delayed),
        (stripe, shard): (&Stripe, Shard),
        (object, home): (ObjectId, StoreIndex),
        base: &Base,
        files: &mut Files,
        lost: Losses<'_>,
    ) -> Result<StoreMask> {
        let length = stripe.layout.chunk.get();
        let all = Lost {
            object,
            offset: base.offset,
            bytes: length,
        };
        let mut holders = std::iter::once(home).chain(base.copies.iter().map(|(store, _)| *store));
        if !holders.any(|store| self.members().has(store)) {
            if let Some(lost) = lost {
                // Nobody has anything of the file.
                lost.push(all);
                return Ok(self.members());
            }
            // Before anything is written down: a change that no member can tell of would keep the
            // stores that can from coming back.
            return Err(Errno::IO);
        }
        // A store that is away has not seen that its copy is needed again.
        self.touch_copies(object, base.offset, length, || Place {
            nodes: std::iter::once((home, base.node.clone()))
                .chain(base.copies.iter().cloned())
                .collect(),
            ..Place::default()
        })?;
        let mut held = StoreMask::only(home).and(self.members());
        let mut is_lost = false;
        for (index, node) in &base.copies {
            let Some(bare) = self
                .encoded
                .bare(*index)
                .filter(|_| self.members().has(*index))
            else {
                continue;
            };
            if self.is_only_held(object, (*index, node))? {
                held = held.with(*index);
                continue;
            }
            let key = (*index, node.clone());
            let open = match files.get(&key) {
                Some(file) => Ok(file.clone()),
                None => bare.open(node, true),
            };
            let filled = open.and_then(|file| {
                let zeroes = self.fill(layers, stripe, shard, (home, base), &*file, lost.is_some());
                is_lost |= zeroes?;
                files.insert(key, file);
                Ok(())
            });
            match filled {
                // The copy was removed, or made anew with all of its bytes.
                Ok(()) | Err(Errno::STALE | Errno::NOENT) => held = held.with(*index),
                Err(errno) if fault(errno) == Fault::Medium => self.fence_for(*index, errno)?,
                Err(Errno::NODATA) => return Err(Errno::IO),
                Err(errno) => return Err(errno),
            }
        }
        if let Some(lost) = lost.filter(|_| is_lost) {
            lost.push(all);
        }
        // Every store with a copy is away: one of them would come back with a hole that seems to
        // be the content, and without the stripe nothing would say otherwise.
        if held.is_empty() {
            Err(Errno::IO)
        } else {
            Ok(held)
        }
    }

    /// Writes what a chunk is into one copy; with `zeroes` zeros where nothing decodes it, and
    /// whether there were such.
    fn fill(
        &self,
        (stripes, delayed): (&Stripes, &Delayed),
        stripe: &Stripe,
        shard: Shard,
        (home, base): (StoreIndex, &Base),
        file: &dyn StoreFile,
        zeroes: bool,
    ) -> Result<bool> {
        let length = stripe.layout.chunk.get();
        let mut buffer = vec![0; length.min(RUN_BYTES) as usize];
        let (mut at, mut is_lost) = (0, false);
        let mut unread = |at: u64, bytes: &mut [u8]| {
            let Err(error) = stripes.read(stripe.id, shard, at, bytes) else {
                return Ok(());
            };
            // What is left of the stripe does not say what is right. The file itself does, as
            // it did before it was encoded.
            tracing::warn!(%error, "a chunk is taken from its home as it is");
            let bare = self.encoded.bare(home).filter(|_| self.members().has(home));
            let own = bare.and_then(|bare| bare.open(&base.node, false).ok());
            match own.map(|own| own.read_at(base.offset + at, bytes)) {
                Some(Ok(got)) if got == bytes.len() => Ok(()),
                _ => Err(error),
            }
        };
        while at < length {
            let part = (length - at).min(RUN_BYTES);
            let buffer = &mut buffer[..part as usize];
            let read = delayed.read_over(stripe.id, shard, (at, &mut *buffer), &mut unread);
            if let Err(error) = read {
                if !zeroes {
                    tracing::warn!(%error, "a chunk cannot be given its copies back");
                    return Err(Errno::NODATA);
                }
                let mut page_at = at;
                for page in buffer.chunks_mut(PAGE_BYTES) {
                    let of = (page_at, &mut *page);
                    if delayed
                        .read_over(stripe.id, shard, of, &mut unread)
                        .is_err()
                    {
                        page.fill(0);
                        is_lost = true;
                    }
                    page_at += page.len() as u64;
                }
            }
            let zeros = buffer.iter().all(|byte| *byte == 0);
            let punch = AllocateFlags::PUNCH_HOLE | AllocateFlags::KEEP_SIZE;
            if !zeros || file.allocate(base.offset + at, part, punch).is_err() {
                fill_at(file, base.offset + at, buffer)?;
            }
            at += part;
        }
        Ok(is_lost)
    }

    fn touch_copies(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
        place: impl Fn() -> Place,
    ) -> Result<()> {
        if self.journal.implicit(object) {
            return Ok(());
        }
        for (region, mask) in regions(offset, length) {
            let entry = Entry::Region(object, region);
            let mut tries = 0..=self.slots.len();
            loop {
                tries.next().ok_or(Errno::IO)?;
                match self.journal.touch(entry, mask, &place) {
                    Ok(()) => break,
                    Err(Failed(stores)) => {
                        for (store, error) in stores {
                            self.fence(store, &format!("its journal cannot be written: {error}"))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives up every stripe that has a part on a store that is away, whose own word is not to be
    /// believed, and takes away what it has of them. A stripe of which too little is left without
    /// the store keeps it out: what it has may be all that there is.
    pub(crate) fn give_up_shards_of(&self, index: StoreIndex, bare: &Arc<dyn Store>) -> Result<()> {
        let ids: Vec<StripeId> = self.stripes_on(index).iter().map(|s| s.id).collect();
        for batch in ids.chunks(BATCH) {
            let _gate = self.gate.read();
            self.restore_copies(batch)?;
        }
        encoded::clear_site(bare)
    }

    /// Gives up what stands in part. Where too little of a stripe is there it stays as it is: a
    /// store that is away may bring what is missing.
    pub(crate) fn give_up_incomplete(&self, report: &Recovered) -> Result<()> {
        for (store, file, wrong) in &report.damaged {
            tracing::warn!(store = store.0, file, %wrong, "a shard file is damaged; it is kept");
        }
        for id in &report.incomplete {
            tracing::warn!(stripe = id.0, "a stripe stands in part and is given up");
        }
        self.give_up_if_possible(&report.incomplete)
    }

    pub(crate) fn give_up_if_possible(&self, ids: &[StripeId]) -> Result<()> {
        match self.restore_copies(ids) {
            Err(Errno::IO | Errno::NOSPC) => {
                tracing::warn!(
                    "not all stripes can be given up now: too little of them is there, or no room \
                     for copies"
                );
                Ok(())
            }
            other => other,
        }
    }
}
