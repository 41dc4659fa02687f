//! A copy that looks whole.

use super::index::{Chunk, Extents};
use super::{Encoded, errno_of};
use crate::label::StoreIndex;
use crate::store::{Node, StoreFile};
use crate::stripes::StripeError;
use env::errno::Errno;
use mount::{AllocateFlags, Attr, Result, SetAttr};
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::sync::Arc;

/// Attempts at a read beside which stripes begin and cease to stand.
const READS_MAX: usize = 64;

/// An open copy; what it has given up is decoded, and what is in differentials comes from there.
pub(super) struct WholeFile {
    bare: Arc<dyn StoreFile>,
    store: StoreIndex,
    node: Node,
    encoded: Arc<Encoded>,
    /// Its encoded chunks, as of this version of the index.
    known: RwLock<(u64, Option<Arc<Extents>>)>,
}

impl WholeFile {
    pub(super) fn new(
        bare: Arc<dyn StoreFile>,
        store: StoreIndex,
        node: Node,
        encoded: Arc<Encoded>,
    ) -> WholeFile {
        let version = encoded.version();
        let extents = encoded.extents(store, &node);
        WholeFile {
            bare,
            store,
            node,
            encoded,
            known: RwLock::new((version, extents)),
        }
    }

    fn extents(&self) -> Option<Arc<Extents>> {
        let version = self.encoded.version();
        {
            let known = self.known.read();
            if known.0 == version {
                return known.1.clone();
            }
        }
        let extents = self.encoded.extents(self.store, &self.node);
        *self.known.write() = (version, extents.clone());
        extents
    }

    /// Whether the copy's own bytes are what a chunk is: it is the base, and nothing of it is in
    /// differentials.
    fn is_own(&self, chunk: Chunk) -> bool {
        chunk.is_base && self.encoded.is_plain(chunk)
    }

    /// The first chunk that ends after `at` and has to be asked for elsewhere.
    fn next_elsewhere(&self, extents: Option<&Extents>, at: u64) -> Option<Chunk> {
        let all_plain = self.encoded.is_all_plain();
        let mut chunks = extents?.from(at);
        chunks.find(|chunk| !(chunk.is_base && all_plain || self.is_own(*chunk)))
    }

    /// Bytes of a chunk that has differentials, or that the copy has given up; `None` where it has
    /// its bytes again.
    fn decode(&self, chunk: Chunk, offset: u64, buffer: &mut [u8]) -> Result<Option<()>> {
        let Some((stripes, delayed)) = self.encoded.layers() else {
            return Err(Errno::NODATA);
        };
        let mut own = None;
        let mut base = |at: u64, bytes: &mut [u8]| {
            if !chunk.is_base {
                return stripes
                    .reconstruct(chunk.stripe, chunk.shard, at, bytes)
                    .or_else(|_| stripes.read(chunk.stripe, chunk.shard, at, bytes));
            }
            match self.bare.read_at(chunk.offset + at, bytes) {
                Ok(got) if got == bytes.len() => return Ok(()),
                Ok(_) => own = Some(Errno::NODATA),
                Err(errno) => own = Some(errno),
            }
            Err(StripeError::Misuse("a base that cannot be read"))
        };
        let at = offset - chunk.offset;
        let decoded = delayed.read_over(chunk.stripe, chunk.shard, (at, buffer), &mut base);
        match (decoded, own) {
            (Ok(()), _) => Ok(Some(())),
            (Err(_), Some(errno)) => Err(errno),
            (Err(StripeError::NoStripe(_)), None) => Ok(None),
            (Err(error), None) => Err(errno_of(&error)),
        }
    }

    /// Calls `bare` for each part of a range that the copy has, and `encoded` for the others.
    fn each_part(
        &self,
        offset: u64,
        length: u64,
        mut bare: impl FnMut(u64, u64) -> Result<()>,
        mut encoded: impl FnMut(Chunk, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let end = offset.saturating_add(length);
        let extents = self.extents();
        let mut at = offset;
        while at < end {
            let chunk = extents.as_ref().and_then(|e| e.from(at).next());
            let Some(chunk) = chunk.filter(|chunk| chunk.offset < end) else {
                return bare(at, end - at);
            };
            if chunk.offset > at {
                bare(at, chunk.offset - at)?;
                at = chunk.offset;
            }
            let stop = chunk.end().min(end);
            encoded(chunk, at, stop - at)?;
            at = stop;
        }
        Ok(())
    }

    /// Reads what the copy's own bytes are not; `false` where chunks got their bytes back
    /// meanwhile.
    fn read_elsewhere(&self, chunks: &[Chunk], offset: u64, buffer: &mut [u8]) -> Result<bool> {
        let end = offset + buffer.len() as u64;
        for chunk in chunks {
            let (from, to) = (chunk.offset.max(offset), chunk.end().min(end));
            if from >= to {
                continue;
            }
            let range = (from - offset) as usize..(to - offset) as usize;
            let part = buffer.get_mut(range).ok_or(Errno::IO)?;
            if self.decode(*chunk, from, part)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl StoreFile for WholeFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        for _ in 0..READS_MAX {
            let version = self.encoded.version();
            let extents = self.extents();
            let end = offset.saturating_add(buffer.len() as u64);
            // Asked before the bytes are read: what is merged in between is in them.
            let elsewhere: SmallVec<[Chunk; 2]> = extents
                .iter()
                .flat_map(|extents| extents.from(offset))
                .take_while(|chunk| chunk.offset < end)
                .filter(|chunk| !self.is_own(*chunk))
                .collect();
            // Its length is the bare copy's.
            let got = self.bare.read_at(offset, buffer)?;
            let read = if elsewhere.is_empty() {
                Ok(true)
            } else {
                let buffer = buffer.get_mut(..got).ok_or(Errno::IO)?;
                self.read_elsewhere(&elsewhere, offset, buffer)
            };
            // Chunks may have been encoded meanwhile, or got their bytes back: then neither bytes
            // nor errors say anything.
            if self.encoded.version() == version && read != Ok(false) {
                return read.map(|_| got);
            }
        }
        Err(Errno::AGAIN)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.each_part(
            offset,
            data.len() as u64,
            |at, length| {
                let from = (at - offset) as usize;
                let part = data.get(from..from + length as usize);
                self.bare.write_at(at, part.ok_or(Errno::IO)?)
            },
            |chunk, at, length| self.keep_out(chunk, at, length),
        )
    }

    fn no_read_ahead(&self) {
        self.bare.no_read_ahead();
    }

    fn start_sync(&self) {
        self.bare.start_sync();
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.bare.sync(data_only)
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.bare.set_len(length)
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        self.bare.set_attr(change)
    }

    fn attr(&self) -> Result<Attr> {
        self.bare.attr()
    }

    fn allocate(&self, offset: u64, length: u64, flags: AllocateFlags) -> Result<()> {
        let in_place = AllocateFlags::PUNCH_HOLE | AllocateFlags::ZERO_RANGE;
        if self.extents().is_none() || !flags.intersects(in_place) {
            return self.bare.allocate(offset, length, flags);
        }
        self.each_part(
            offset,
            length,
            |at, length| self.bare.allocate(at, length, flags),
            |chunk, at, length| self.keep_out(chunk, at, length),
        )
    }

    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        let Some(extents) = self.extents() else {
            return self.bare.seek(offset, hole);
        };
        let mut at = offset;
        loop {
            let next = self.next_elsewhere(Some(&extents), at);
            if let Some(chunk) = next.filter(|chunk| chunk.offset <= at) {
                if !hole {
                    return Ok(at);
                }
                at = chunk.end();
                continue;
            }
            let found = match self.bare.seek(at, hole) {
                // Such a chunk goes up to the end, where the last hole begins.
                Err(Errno::NXIO) if hole && at > offset => Ok(at),
                other => other,
            };
            let Some(chunk) = next else {
                return found;
            };
            return match found {
                // What lies elsewhere is data, though the copy may have a hole there.
                Ok(found) if found < chunk.offset => Ok(found),
                Ok(_) | Err(Errno::NXIO) if !hole => Ok(chunk.offset),
                Ok(_) => {
                    at = chunk.end();
                    continue;
                }
                Err(errno) => Err(errno),
            };
        }
    }

    fn forget_cache(&self, offset: u64, length: u64) {
        self.bare.forget_cache(offset, length);
    }
}

impl WholeFile {
    /// Only a resynchronisation writes here without giving the stripe up first, where copies of an
    /// encoded chunk differ: something has rotted. The checksums say what is right.
    fn keep_out(&self, chunk: Chunk, at: u64, length: u64) -> Result<()> {
        tracing::warn!(
            store = self.store.0,
            stripe = chunk.stripe.0,
            at,
            length,
            "copies of an encoded chunk differ; it is made right by its checksums"
        );
        let Some((stripes, _)) = self.encoded.layers() else {
            return Err(Errno::IO);
        };
        match stripes.scrub(chunk.stripe, true) {
            Ok(_) | Err(StripeError::NoStripe(_)) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "a stripe could not be scrubbed");
                Err(Errno::IO)
            }
        }
    }
}
