//! Reading bases, also those that are lost.

use super::shard::OpenShard;
use super::site::Pages;
use super::{PAGE_BYTES, Result, State, Stripe, StripeError, Stripes};
use crate::encoding::StripeId;
use parity::{Code, Shard};
use std::ops::Range;

/// What is known of one shard over a run of pages.
pub(super) enum Known {
    /// Its bytes, and which of its pages are right.
    Read(Vec<u8>, Vec<bool>),
    /// It is zeros, and always right.
    Zeros,
    /// Nothing.
    Lost,
}

impl Known {
    pub(super) fn is_right(&self, at: usize) -> bool {
        match self {
            Known::Read(_, right) => right.get(at).copied().unwrap_or_default(),
            Known::Zeros => true,
            Known::Lost => false,
        }
    }
}

/// All shards of a stripe over a run of pages, as far as they were read.
pub(super) struct Run {
    pub(super) pages: Pages,
    pub(super) shards: Vec<Known>,
    zeros: Vec<u8>,
}

impl Run {
    /// The bytes of some pages of a shard, by their place in the run.
    pub(super) fn bytes(&self, shard: Shard, at: Range<usize>) -> &[u8] {
        let range = at.start * PAGE_BYTES..at.end * PAGE_BYTES;
        match self.shards.get(usize::from(shard.0)) {
            Some(Known::Read(bytes, _)) => bytes.get(range).unwrap_or_default(),
            _ => self.zeros.get(..range.len()).unwrap_or_default(),
        }
    }

    /// The shards that are right on a page.
    pub(super) fn right(&self, at: usize) -> Vec<Shard> {
        let shards = (0u8..).zip(&self.shards);
        shards
            .filter(|(_, known)| known.is_right(at))
            .map(|(n, _)| Shard(n))
            .collect()
    }

    /// Computes pages of one shard from the others, where enough are right; `without` says whether
    /// to leave out what the shard itself has.
    pub(super) fn decode(&self, stripe: &Stripe, shard: Shard, into: &mut [u8]) -> Result<()> {
        let count = self.pages.count as usize;
        let mut at = 0;
        while at < count {
            let mut right = self.right(at);
            right.retain(|s| *s != shard);
            let mut end = at + 1;
            while end < count {
                let mut next = self.right(end);
                next.retain(|s| *s != shard);
                if next != right {
                    break;
                }
                end += 1;
            }
            let needed = stripe.layout.geometry.data();
            if right.len() < usize::from(needed) {
                return Err(StripeError::TooFew {
                    stripe: stripe.id,
                    page: self.pages.first + at as u32,
                    right: right.len(),
                    needed,
                });
            }
            right.truncate(usize::from(needed));
            let present: Vec<(Shard, &[u8])> = right
                .iter()
                .map(|s| (*s, self.bytes(*s, at..end)))
                .collect();
            let output = into.get_mut(at * PAGE_BYTES..end * PAGE_BYTES);
            let output = output.ok_or(StripeError::Misuse("a buffer that is too short"))?;
            stripe.code.reconstruct(&present, &mut [(shard, output)])?;
            at = end;
        }
        Ok(())
    }
}

impl Stripes {
    /// Reads from the base of a data shard: as it is where that is there and right, else computed
    /// from the other shards.
    ///
    /// # Errors
    /// [`StripeError::TooFew`] where too much is lost or damaged.
    pub fn read(&self, id: StripeId, shard: Shard, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_from(id, shard, offset, buffer, true)
    }

    /// As [`Stripes::read`], without asking the store that has the base.
    ///
    /// # Errors
    /// As [`Stripes::read`].
    pub fn reconstruct(
        &self,
        id: StripeId,
        shard: Shard,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        self.read_from(id, shard, offset, buffer, false)
    }

    fn read_from(
        &self,
        id: StripeId,
        shard: Shard,
        offset: u64,
        buffer: &mut [u8],
        own: bool,
    ) -> Result<()> {
        let stripe = self.get(id)?;
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > stripe.layout.chunk.get()) {
            return Err(StripeError::Misuse("a range beyond the shard"));
        }
        let state = stripe.state.read();
        if *state == State::Removed {
            return Err(StripeError::NoStripe(id));
        }
        let all = Pages::of(offset, buffer.len())?;
        let mut done = 0;
        for pages in all.runs() {
            let bytes = self.read_run(&stripe, shard, pages, own, *state)?;
            let skip = (offset + done - pages.offset()) as usize;
            let part = bytes.get(skip..).unwrap_or_default();
            let into = buffer.get_mut(done as usize..).unwrap_or_default();
            let length = part.len().min(into.len());
            into[..length].copy_from_slice(&part[..length]);
            done += length as u64;
        }
        Ok(())
    }

    fn read_run(
        &self,
        stripe: &Stripe,
        shard: Shard,
        pages: Pages,
        own: bool,
        state: State,
    ) -> Result<Vec<u8>> {
        if own && let Known::Read(bytes, right) = self.look(stripe, shard, pages) {
            if !right.contains(&false) {
                return Ok(bytes);
            }
            tracing::warn!(stripe = stripe.id.0, shard = shard.0, "a base is damaged");
        }
        if state == State::Undecided {
            return Err(StripeError::Undecided(stripe.id));
        }
        let run = self.look_at_all(stripe, pages);
        let mut bytes = vec![0; pages.bytes()];
        run.decode(stripe, shard, &mut bytes)?;
        if own {
            // Pages of its own that are right need not be computed, and may be more than can be.
            for at in 0..pages.count as usize {
                if run
                    .shards
                    .get(usize::from(shard.0))
                    .is_some_and(|known| known.is_right(at))
                {
                    let page = at * PAGE_BYTES..(at + 1) * PAGE_BYTES;
                    bytes[page].copy_from_slice(run.bytes(shard, at..at + 1));
                }
            }
        }
        Ok(bytes)
    }

    /// Every shard over some pages.
    pub(super) fn look_at_all(&self, stripe: &Stripe, pages: Pages) -> Run {
        let shards = stripe.layout.shards();
        Run {
            pages,
            shards: shards
                .map(|(shard, _)| self.look(stripe, shard, pages))
                .collect(),
            zeros: vec![0; pages.bytes()],
        }
    }

    /// One shard over some pages, as far as it can be read.
    fn look(&self, stripe: &Stripe, shard: Shard, pages: Pages) -> Known {
        let Ok(slot) = stripe.layout.slot(shard) else {
            return Known::Lost;
        };
        let Some(store) = slot.store() else {
            return Known::Zeros;
        };
        let read = self.site(store).and_then(|site| {
            let open = OpenShard::open(self.set, &site, stripe, shard)?;
            let bytes = open.read(pages)?;
            let right = open.right(pages, &bytes)?;
            #[cfg(test)]
            if self.plants(super::tests::Planted::BelievesEveryPage) {
                return Ok(Known::Read(bytes, vec![true; pages.count as usize]));
            }
            Ok(Known::Read(bytes, right))
        });
        read.unwrap_or_else(|error| {
            if !matches!(error, StripeError::Away(_)) {
                tracing::warn!(stripe = stripe.id.0, shard = shard.0, %error, "a shard is lost");
            }
            Known::Lost
        })
    }
}
