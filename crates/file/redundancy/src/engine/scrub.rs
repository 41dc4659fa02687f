//! Holding what is encoded against its checksums, and mending what is wrong.

use super::Engine;
use crate::check::{CheckReport, Difference, SHOWN_MAX};
use crate::label::StoreIndex;
use crate::resync::pace::Pace;
use crate::status::{Progress, ScrubStatus};
use crate::stripes::{Damage, Stripe, StripeError};
use env::errno::Errno;
use mount::Result;
use std::path::PathBuf;

impl Engine {
    /// Reads every page of every stripe, and makes what its checksum does not fit anew from the
    /// other shards; at most as fast as a rebuild may be. Files with plain copies are left alone:
    /// they have no checksums.
    ///
    /// # Errors
    /// A store failed meanwhile; what was mended stays so.
    pub fn scrub(&self, on_progress: &mut dyn FnMut(&Progress) -> bool) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let Some(stripes) = self.encoded.stripes() else {
            return Ok(report);
        };
        let pace = Pace::new(self.keeper.stop_flag(), self.options.rebuild_bytes_per_s);
        pace.set_phase("scrubbing");
        let all = stripes.all();
        let bytes = |stripe: &Stripe| {
            let shards = stripe
                .layout
                .shards()
                .filter(|(_, slot)| slot.store().is_some());
            stripe.layout.chunk.get() * shards.count() as u64
        };
        pace.set_total(all.iter().map(|stripe| bytes(stripe)).sum());
        for stripe in all {
            if !on_progress(&pace.progress()) {
                report.stopped = true;
                return Ok(report);
            }
            let found = match stripes.scrub(stripe.id, true) {
                Ok(found) => found,
                // Given up meanwhile.
                Err(StripeError::NoStripe(_)) => continue,
                Err(error) => {
                    tracing::warn!(%error, "a stripe could not be scrubbed");
                    if let Some(store) = error.failed() {
                        self.fence_for(store, Errno::IO)?;
                    }
                    report.differ(&stripe, None, error.to_string());
                    continue;
                }
            };
            report.objects += 1;
            report.bytes += bytes(&stripe);
            report.mended += found.mended;
            for damage in &found.damaged {
                if damage.mended {
                    report.show(&stripe, Some(damage), "damaged, and right again".into());
                } else {
                    let why = "damaged, and too little is left to make it anew";
                    report.differ(&stripe, Some(damage), why.into());
                }
            }
            if found.contradictions > 0 {
                let what = format!("{} pages do not belong together", found.contradictions);
                report.differ(&stripe, None, what);
            }
            pace.bytes(
                bytes(&stripe),
                found.mended * crate::stripes::PAGE_BYTES as u64,
            )?;
        }
        *self.last_scrub.lock() = Some(ScrubStatus {
            finished_s: env::wall_time().seconds,
            objects: report.objects,
            differences: report.differences,
        });
        Ok(report)
    }
}

impl CheckReport {
    /// Notes down what is wrong with a stripe and stays so.
    fn differ(&mut self, stripe: &Stripe, damage: Option<&Damage>, detail: String) {
        self.differences += 1;
        self.show(stripe, damage, detail);
    }

    fn show(&mut self, stripe: &Stripe, damage: Option<&Damage>, detail: String) {
        if self.shown.len() >= SHOWN_MAX {
            return;
        }
        let page = crate::stripes::PAGE_BYTES as u64;
        let place = damage.map(|damage| {
            let at = u64::from(damage.page) * page;
            let slot = stripe
                .layout
                .shards()
                .find(|(shard, _)| *shard == damage.shard);
            let chunk = slot.and_then(|(_, slot)| slot.chunk());
            match (chunk, stripe.base(damage.shard)) {
                (Some(chunk), Some(base)) => {
                    format!("inode {}, byte {}", chunk.object.0, base.offset + at)
                }
                _ => format!("parity of stripe {:#x}, byte {at}", stripe.id.0),
            }
        });
        let path = place.unwrap_or_else(|| format!("stripe {:#x}", stripe.id.0));
        let stores: Vec<StoreIndex> = damage.map(|damage| damage.store).into_iter().collect();
        self.shown.push(Difference {
            path: PathBuf::from(path),
            stores,
            detail,
        });
    }
}
