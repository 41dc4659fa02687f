//! What becomes of a write to an encoded chunk: the methods that \[F\] compares (section 5.1.3).

use super::record::Span;
use super::{Chunk, Delayed};
use crate::encoding::StripeId;
use crate::label::StoreIndex;
use crate::stripes::shard::OpenShard;
use crate::stripes::site::Pages;
use crate::stripes::{MERGE_PAGES_MAX, PAGE_BYTES, PageWrite, Result, Slot, Stripe, StripeError};
use env::Disk;
use parity::{Code, Shard};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Method {
    /// To differentials, merged later.
    #[default]
    Delayed,
    /// Every write is a merge at once, durable when it returns.
    Naive,
    /// The base is written in place, and what the write changes in parity is appended to a log
    /// on each store with parity. For comparison only: base and logs change one after the other,
    /// so a power cut, or a crash and then the loss of a store, loses data; nothing reads the log
    /// after a start. Until [`Delayed::settle_parity_log`] the stripe does not decode.
    ParityLogging,
}

/// A shard of a stripe.
type Key = (StripeId, u8);

/// What parity logging keeps.
#[derive(Default)]
pub(super) struct ParityLog {
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    /// Files that stay open, so that the method is not slowed by opening them.
    shards: HashMap<Key, OpenShard>,
    logs: HashMap<StoreIndex, (Arc<dyn Disk>, u64)>,
    /// Differences in the order of writes: parity shard, page, store and place of the log.
    pending: Vec<(Key, u32, StoreIndex, u64)>,
}

impl Delayed {
    /// Reads the rest of the pages, and merges.
    pub(super) fn write_at_once(&self, chunk: &Chunk, offset: u64, bytes: &[u8]) -> Result<()> {
        // Two writes to one page must not both begin with what it was.
        let _alone = chunk.state.write();
        let pages = self.whole_pages(chunk, offset, bytes)?;
        for batch in pages.chunks(MERGE_PAGES_MAX) {
            let writes = batch.iter().map(|(page, bytes)| PageWrite {
                shard: chunk.shard,
                page: *page,
                bytes,
            });
            let writes: Vec<PageWrite<'_>> = writes.collect();
            self.stripes.merge(chunk.stripe, &writes)?;
        }
        Ok(())
    }

    /// The pages that a write touches, as they are to be.
    fn whole_pages(&self, chunk: &Chunk, offset: u64, bytes: &[u8]) -> Result<Vec<(u32, Vec<u8>)>> {
        let span = Span {
            stripe: chunk.stripe,
            shard: chunk.shard,
            offset: offset as u32,
            length: bytes.len() as u32,
        };
        let mut pages = Vec::new();
        for part in span.parts().filter(|part| part.bytes() > 0) {
            let mut page = vec![0; PAGE_BYTES];
            if part.bytes() < PAGE_BYTES {
                let at = u64::from(part.page) * PAGE_BYTES as u64;
                self.stripes
                    .read(chunk.stripe, chunk.shard, at, &mut page)?;
            }
            let from = &bytes[part.at as usize..part.at as usize + part.bytes()];
            page[usize::from(part.start)..usize::from(part.end)].copy_from_slice(from);
            pages.push((part.page, page));
        }
        Ok(pages)
    }

    pub(super) fn write_parity_log(&self, chunk: &Chunk, offset: u64, bytes: &[u8]) -> Result<()> {
        let stripe = self.stripes.get(chunk.stripe)?;
        let span = Span {
            stripe: chunk.stripe,
            shard: chunk.shard,
            offset: offset as u32,
            length: bytes.len() as u32,
        };
        let mut log = self.parity_log.state.lock();
        for part in span.parts().filter(|part| part.bytes() > 0) {
            let old = self.open_shard(&mut log, &stripe, chunk.shard)?;
            let old = old.read(one(part.page))?;
            let mut new = old.clone();
            let from = &bytes[part.at as usize..part.at as usize + part.bytes()];
            new[usize::from(part.start)..usize::from(part.end)].copy_from_slice(from);
            let mut difference = vec![0; PAGE_BYTES];
            parity::difference(&old, &new, &mut difference)?;
            for (shard, slot) in stripe.layout.shards() {
                let Slot::Parity { store } = slot else {
                    continue;
                };
                let mut delta = vec![0; PAGE_BYTES];
                stripe
                    .code
                    .update(chunk.shard, &difference, &mut [(shard, &mut delta)])?;
                let at = self.log_delta(&mut log, store, &delta)?;
                let key = (chunk.stripe, shard.0);
                log.pending.push((key, part.page, store, at));
            }
            let open = self.open_shard(&mut log, &stripe, chunk.shard)?;
            open.write(part.page, &new)?;
        }
        Ok(())
    }

    fn open_shard<'a>(
        &self,
        log: &'a mut LogState,
        stripe: &Stripe,
        shard: Shard,
    ) -> Result<&'a OpenShard> {
        match log.shards.entry((stripe.id, shard.0)) {
            std::collections::hash_map::Entry::Occupied(open) => Ok(open.into_mut()),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let store = stripe.layout.slot(shard)?.store();
                let store = store.ok_or(StripeError::Misuse("a page of a vacant place"))?;
                let site = self.stripes.site(store)?;
                let open = OpenShard::open(self.stripes.set, &site, stripe, shard)?;
                Ok(entry.insert(open))
            }
        }
    }

    /// Appends a difference to the log of a store; where it lies.
    fn log_delta(&self, log: &mut LogState, store: StoreIndex, delta: &[u8]) -> Result<u64> {
        let io = |doing| StripeError::io(store, doing);
        let (disk, end) = match log.logs.entry(store) {
            std::collections::hash_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let dir = &self.journal(store)?.dir;
                match dir.remove(PARITY_LOG) {
                    Ok(()) | Err(env::errno::Errno::NOENT) => {}
                    Err(errno) => return Err(io("removing a parity log")(errno)),
                }
                let made = dir.make(PARITY_LOG).map_err(io("making a parity log"))?;
                entry.insert((made, 0))
            }
        };
        let at = *end;
        disk.write_at(at, delta).map_err(io("logging parity"))?;
        *end += delta.len() as u64;
        Ok(at)
    }

    /// Brings the logs of parity into parity, in the order of the writes.
    ///
    /// # Errors
    /// A store failed.
    pub fn settle_parity_log(&self) -> Result<()> {
        let mut log = self.parity_log.state.lock();
        for ((id, shard), page, store, at) in std::mem::take(&mut log.pending) {
            let stripe = self.stripes.get(id)?;
            let mut delta = vec![0; PAGE_BYTES];
            if let Some((disk, _)) = log.logs.get(&store) {
                let read = disk.read_at(at, &mut delta);
                read.map_err(StripeError::io(store, "reading a parity log"))?;
            }
            let open = self.open_shard(&mut log, &stripe, Shard(shard))?;
            let mut bytes = open.read(one(page))?;
            for (byte, delta) in bytes.iter_mut().zip(delta) {
                *byte ^= delta;
            }
            open.write(page, &bytes)?;
        }
        log.logs.clear();
        for open in log.shards.values() {
            open.sync()?;
        }
        Ok(())
    }
}

/// Name of a log of parity; no segment of differentials has it.
const PARITY_LOG: &str = "parity-log";

fn one(page: u32) -> Pages {
    Pages {
        first: page,
        count: 1,
    }
}
