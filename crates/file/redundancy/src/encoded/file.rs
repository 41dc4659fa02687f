//! A copy that looks whole.

use super::index::{Chunk, Extents};
use super::{Encoded, errno_of};
use crate::label::StoreIndex;
use crate::store::{Node, StoreFile};
use env::errno::Errno;
use mount::{AllocateFlags, Attr, Result, SetAttr};
use parking_lot::RwLock;
use std::sync::Arc;

/// Attempts at a read beside which stripes begin and cease to stand.
const READS_MAX: usize = 64;

/// An open copy; what it has given up is decoded.
pub(super) struct WholeFile {
    bare: Arc<dyn StoreFile>,
    store: StoreIndex,
    node: Node,
    encoded: Arc<Encoded>,
    /// What it has given up, as of this version of the index.
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

    /// Bytes of a given-up chunk; `None` where it has its bytes again.
    fn decode(&self, chunk: Chunk, offset: u64, buffer: &mut [u8]) -> Result<Option<()>> {
        let Some(stripes) = self.encoded.stripes() else {
            return Err(Errno::NODATA);
        };
        let at = offset - chunk.offset;
        let decoded = stripes
            .reconstruct(chunk.stripe, chunk.shard, at, buffer)
            .or_else(|_| stripes.read(chunk.stripe, chunk.shard, at, buffer));
        match decoded {
            Ok(()) => Ok(Some(())),
            Err(crate::stripes::StripeError::NoStripe(_)) => Ok(None),
            Err(error) => Err(errno_of(&error)),
        }
    }

    /// Calls `bare` for each part of a range that the copy has, and `given_up` for the others.
    fn each_part(
        &self,
        offset: u64,
        length: u64,
        mut bare: impl FnMut(u64, u64) -> Result<()>,
        mut given_up: impl FnMut(Chunk, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let end = offset.saturating_add(length);
        let extents = self.extents();
        let mut at = offset;
        while at < end {
            let chunk = extents.as_ref().and_then(|e| e.from(at));
            let Some(chunk) = chunk.filter(|chunk| chunk.offset < end) else {
                return bare(at, end - at);
            };
            if chunk.offset > at {
                bare(at, chunk.offset - at)?;
                at = chunk.offset;
            }
            let stop = chunk.end().min(end);
            given_up(chunk, at, stop - at)?;
            at = stop;
        }
        Ok(())
    }
}

impl StoreFile for WholeFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        for _ in 0..READS_MAX {
            let version = self.encoded.version();
            // Its length is the bare copy's.
            let got = self.bare.read_at(offset, buffer)?;
            if self.encoded.version() != version {
                // What was read may have been given up meanwhile.
                continue;
            }
            if self.extents().is_none() {
                return Ok(got);
            }
            let mut gone = false;
            let Some(buffer) = buffer.get_mut(..got) else {
                return Err(Errno::IO);
            };
            self.each_part(
                offset,
                got as u64,
                |_, _| Ok(()),
                |chunk, at, length| {
                    let from = (at - offset) as usize;
                    let part = buffer.get_mut(from..from + length as usize);
                    let part = part.ok_or(Errno::IO)?;
                    gone |= self.decode(chunk, at, part)?.is_none();
                    Ok(())
                },
            )?;
            if !gone {
                return Ok(got);
            }
            // The stripe was given up meanwhile: the copy has its bytes again.
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
            let next = extents.from(at);
            if let Some(chunk) = next.filter(|chunk| chunk.offset <= at) {
                if !hole {
                    return Ok(at);
                }
                at = chunk.end();
                continue;
            }
            let found = match self.bare.seek(at, hole) {
                // A given-up chunk goes up to the end, where the last hole begins.
                Err(Errno::NXIO) if hole && at > offset => Ok(at),
                other => other,
            };
            let Some(chunk) = next else {
                return found;
            };
            return match found {
                // What is given up is data, though the copy has a hole there.
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
    /// Only a resynchronisation writes here without giving the stripe up first, where the base
    /// and what decodes differ: a base that has rotted. The stripe is what is right.
    #[expect(clippy::unnecessary_wraps, reason = "the other kind of part can fail")]
    fn keep_out(&self, chunk: Chunk, at: u64, length: u64) -> Result<()> {
        tracing::warn!(
            store = self.store.0,
            stripe = chunk.stripe.0,
            at,
            length,
            "what an encoded chunk decodes to and its base differ; the stripe is kept"
        );
        Ok(())
    }
}
