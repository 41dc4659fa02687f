//! Holding every page of a stripe against its checksum and its parity, and mending what is wrong.

use super::decode::{Known, Run};
use super::shard::{OpenShard, Slot, rebuilt_name};
use super::{PAGE_BYTES, Result, State, Stripe, StripeError, Stripes};
use crate::encoding::StripeId;
use crate::label::StoreIndex;
use parity::{Code, Shard};

/// What a scrub of one stripe found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubReport {
    /// Pages read, of all shards.
    pub pages: u64,
    /// Pages that were damaged and are right again.
    pub mended: u64,
    /// Pages that are damaged and could not be mended.
    pub lost: u64,
    /// Pages at which all checksums are right and the shards do not belong together. That is a
    /// bug, or somebody forged it; nothing was changed.
    pub contradictions: u64,
    /// Pages of shards whose file is missing, damaged at its head or cannot be read, on stores that
    /// are there; nothing was changed.
    pub unread: u64,
    /// The damaged pages, the first [`DAMAGE_MAX`].
    pub damaged: Vec<Damage>,
    /// Whether it was stopped before the end of the stripe.
    pub stopped: bool,
}

/// Most damaged pages of a stripe that are told one by one.
pub const DAMAGE_MAX: usize = 64;

/// A damaged page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The shard, and the store that has it.
    pub shard: Shard,
    /// The store.
    pub store: StoreIndex,
    /// The page in the shard.
    pub page: u32,
    /// Whether it is right again.
    pub mended: bool,
}

impl Stripes {
    /// Reads all shards that are there, and where `mend`, mends what is damaged from the others.
    ///
    /// # Errors
    /// A store failed while something was mended. What cannot be read counts as lost.
    pub fn scrub(&self, id: StripeId, mend: bool) -> Result<ScrubReport> {
        self.scrub_while(id, mend, &mut |_| true)
    }

    /// As [`Stripes::scrub`], some pages after the other; in between others may read and merge.
    /// After each part `go_on` gets the bytes that were read for it, and `false` stops.
    ///
    /// # Errors
    /// As [`Stripes::scrub`].
    pub fn scrub_while(
        &self,
        id: StripeId,
        mend: bool,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<ScrubReport> {
        let stripe = self.get(id)?;
        let mut report = ScrubReport::default();
        for pages in stripe.layout.all_pages().runs() {
            let before = report.pages;
            {
                // Nobody merges meanwhile.
                let state = stripe.state.write();
                match *state {
                    State::Sound => {}
                    State::Undecided => return Err(StripeError::Undecided(id)),
                    State::Removed => return Err(StripeError::NoStripe(id)),
                }
                let run = self.look_at_all(&stripe, pages);
                self.scrub_run(&stripe, &run, mend, &mut report)?;
            }
            if !go_on((report.pages - before) * PAGE_BYTES as u64) {
                report.stopped = true;
                break;
            }
        }
        Ok(report)
    }

    fn scrub_run(
        &self,
        stripe: &Stripe,
        run: &Run,
        mend: bool,
        report: &mut ScrubReport,
    ) -> Result<()> {
        for (shard, slot) in stripe.layout.shards() {
            let Some(Known::Read(_, right)) = run.shards.get(usize::from(shard.0)) else {
                let is_there = slot.store().is_some_and(|store| self.site(store).is_ok());
                report.unread += u64::from(is_there) * u64::from(run.pages.count);
                continue;
            };
            report.pages += u64::from(run.pages.count);
            for at in (0..right.len()).filter(|at| !right[*at]) {
                let mended = mend && self.mend(stripe, run, (shard, slot), at)?;
                report.mended += u64::from(mended);
                report.lost += u64::from(!mended);
                if let (Some(store), true) = (slot.store(), report.damaged.len() < DAMAGE_MAX) {
                    report.damaged.push(Damage {
                        shard,
                        store,
                        page: run.pages.first + at as u32,
                        mended,
                    });
                }
            }
        }
        for at in 0..run.pages.count as usize {
            let right = run.right(at);
            if right.len() <= usize::from(stripe.layout.geometry.data()) {
                continue;
            }
            let present: Vec<(Shard, &[u8])> = right
                .iter()
                .map(|shard| (*shard, run.bytes(*shard, at..at + 1)))
                .collect();
            report.contradictions += u64::from(stripe.code.verify(&present).is_err());
        }
        Ok(())
    }

    /// Mends one page of one shard; whether that was possible.
    fn mend(
        &self,
        stripe: &Stripe,
        run: &Run,
        (shard, slot): (Shard, Slot),
        at: usize,
    ) -> Result<bool> {
        let mut right = run.right(at);
        let needed = usize::from(stripe.layout.geometry.data());
        if right.len() < needed {
            return Ok(false);
        }
        right.truncate(needed);
        let present: Vec<(Shard, &[u8])> = right
            .iter()
            .map(|shard| (*shard, run.bytes(*shard, at..at + 1)))
            .collect();
        let mut bytes = vec![0; PAGE_BYTES];
        stripe
            .code
            .reconstruct(&present, &mut [(shard, &mut bytes)])?;
        let Some(store) = slot.store() else {
            return Ok(false);
        };
        let site = self.site(store)?;
        let open = OpenShard::open(self.set, &site, stripe, shard)?;
        let page = run.pages.first + at as u32;
        tracing::warn!(
            stripe = stripe.id.0,
            shard = shard.0,
            page,
            store = store.0,
            "a damaged page is made anew from the others"
        );
        open.write(page, &bytes)?;
        open.sync()?;
        Ok(true)
    }

    /// Makes a parity shard anew, on the store that is to have it, after its file was lost.
    ///
    /// # Errors
    /// [`StripeError::TooFew`], or the store failed.
    pub fn rebuild_parity(&self, id: StripeId, shard: Shard) -> Result<()> {
        let stripe = self.get(id)?;
        let state = stripe.state.write();
        if *state != State::Sound {
            return Err(StripeError::Undecided(id));
        }
        let Slot::Parity { store } = stripe.layout.slot(shard)? else {
            return Err(StripeError::Misuse("not a parity shard"));
        };
        let site = self.site(store)?;
        let file = rebuilt_name(id, shard);
        let open = self.make_file(&stripe, shard, &site, &file)?;
        for pages in stripe.layout.all_pages().runs() {
            let run = self.look_at_all(&stripe, pages);
            let mut bytes = vec![0; pages.bytes()];
            run.decode(&stripe, shard, &mut bytes)?;
            open.write_parity(pages, &bytes)?;
            open.seal(pages, &bytes)?;
        }
        open.sync()?;
        site.finish(&file, id, shard)
    }
}
