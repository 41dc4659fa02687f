//! Holding what is encoded against its checksums, and mending what is wrong.
//!
//! One pass at a time goes through the stripes in the order of their numbers. How far it is, is kept
//! on the stores ([`ScrubPosition`]), so a pass that a stop or a crash interrupts goes on there.

use super::Engine;
use crate::check::{CheckReport, Difference, SHOWN_MAX};
use crate::label::StoreIndex;
use crate::resync::pace::Pace;
use crate::status::{Progress, ScrubPassStatus, ScrubScheduleStatus, ScrubStatus};
use crate::stripes::{Damage, ScrubEnd, ScrubPass, ScrubPosition, Stripe, StripeError, Stripes};
use env::errno::Errno;
use mount::Result;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes after which the position is kept: what a crash makes a scrub read twice.
const KEEP_BYTES: u64 = 64 << 20;

/// Time after which it is kept where that comes first.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// How often one who waits for a pass that runs already looks at it.
const LOOK: Duration = Duration::from_millis(100);

/// Rest after a pass by itself that broke off.
const RETRY: Duration = Duration::from_secs(10);

/// The scrub of a set.
#[derive(Default)]
pub(crate) struct Scrubbing {
    /// Held by the one who runs a pass.
    running: Mutex<()>,
    pace: Mutex<Option<Arc<Pace>>>,
    /// As it was kept last; `None` before it was read.
    position: Mutex<Option<ScrubPosition>>,
    /// What the last pass that came to its end found.
    report: Mutex<Option<CheckReport>>,
    /// Earliest next pass by itself.
    retry: Mutex<Option<Instant>>,
}

impl Scrubbing {
    fn position(&self, stripes: &Stripes) -> ScrubPosition {
        let known = *self.position.lock();
        known.unwrap_or_else(|| {
            let kept = stripes.scrub_position();
            *self.position.lock().get_or_insert(kept)
        })
    }

    /// Remembers where it is. A store that cannot keep it costs reading something twice.
    fn keep(&self, stripes: &Stripes, position: &mut ScrubPosition) {
        position.sequence = position.sequence.saturating_add(1);
        if let Err(error) = stripes.keep_scrub_position(position) {
            tracing::warn!(%error, "the position of the scrub was not kept everywhere");
        }
        *self.position.lock() = Some(*position);
    }
}

/// Bytes of all shards of a stripe that are anywhere.
fn bytes_of(stripe: &Stripe) -> u64 {
    let shards = stripe.layout.shards();
    let shards = shards.filter(|(_, slot)| slot.store().is_some());
    stripe.layout.chunk.get() * shards.count() as u64
}

impl Engine {
    /// Reads every page of every stripe, and makes what its checksum does not fit anew from the
    /// other shards; at most as fast as the set is told. Files with plain copies are left alone:
    /// they have no checksums. A pass that was interrupted goes on; where one runs already, its end
    /// is waited for.
    ///
    /// # Errors
    /// A store failed meanwhile; what was mended stays so.
    pub fn scrub(&self, on_progress: &mut dyn FnMut(&Progress) -> bool) -> Result<CheckReport> {
        let Some(stripes) = self.encoded.stripes() else {
            return Ok(CheckReport::default());
        };
        let mut waited = false;
        loop {
            if let Some(_one) = self.scrubbing.running.try_lock_for(LOOK) {
                let ended = self.scrubbing.report.lock().clone().filter(|_| waited);
                return match ended {
                    Some(report) => Ok(report),
                    None => self.scrub_pass(&stripes, on_progress),
                };
            }
            if !std::mem::replace(&mut waited, true) {
                *self.scrubbing.report.lock() = None;
            }
            let progress = self
                .scrubbing
                .pace
                .lock()
                .as_ref()
                .map(|pace| pace.progress());
            if !on_progress(&progress.unwrap_or_default()) {
                return Ok(CheckReport {
                    stopped: true,
                    ..CheckReport::default()
                });
            }
        }
    }

    /// Begins a pass when it is time, or goes on with one, while every store is there.
    pub(crate) fn keep_scrubbing(&self) {
        let Some(stripes) = self.encoded.stripes() else {
            return;
        };
        // Also where nothing begins by itself: the status shows it.
        let _read = self.scrubbing.position(&stripes);
        let interval_s = self.options.scrub_interval_s;
        let whole = || self.members().count() == self.slots.len();
        let rests = self
            .scrubbing
            .retry
            .lock()
            .is_some_and(|at| Instant::now() < at);
        if interval_s == 0 || rests || !whole() || stripes.all().is_empty() {
            return;
        }
        let now_s = env::wall_time().seconds;
        let Some(_one) = self.scrubbing.running.try_lock() else {
            return;
        };
        let mut position = self.scrubbing.position(&stripes);
        if position.since_s == 0 {
            position.since_s = now_s;
            self.scrubbing.keep(&stripes, &mut position);
        }
        if !position.is_due(now_s, interval_s) {
            return;
        }
        match self.scrub_pass(&stripes, &mut |_| whole()) {
            Ok(report) if report.stopped => {}
            Ok(report) => {
                tracing::info!(
                    mended = report.mended,
                    lost = report.differences,
                    "everything that is encoded was scrubbed"
                );
                return;
            }
            Err(errno) => tracing::warn!(%errno, "a scrub was left off; it goes on later"),
        }
        *self.scrubbing.retry.lock() = Some(Instant::now() + RETRY);
    }

    fn scrub_pass(
        &self,
        stripes: &Stripes,
        on_progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<CheckReport> {
        let all = stripes.all();
        let mut position = self.scrubbing.position(stripes);
        let mut pass = position.pass.unwrap_or_else(|| ScrubPass {
            started_s: env::wall_time().seconds,
            last: all.last().map_or(0, |stripe| stripe.id.0.get()),
            ..ScrubPass::default()
        });
        let mut report = CheckReport {
            before: pass.counts.stripes,
            mended: pass.counts.mended,
            differences: pass.counts.lost,
            ..CheckReport::default()
        };
        let pace = Arc::new(Pace::new(
            self.keeper.stop_flag(),
            self.options.scrub_bytes_per_s,
        ));
        pace.set_phase("scrubbing");
        let all: Vec<_> = all
            .into_iter()
            .filter(|stripe| pass.wants(stripe.id))
            .collect();
        pace.set_total(all.iter().map(|stripe| bytes_of(stripe)).sum());
        *self.scrubbing.pace.lock() = Some(pace.clone());
        position.pass = Some(pass);
        self.scrubbing.keep(stripes, &mut position);
        let mut kept = (Instant::now(), report.bytes);
        let mut walk = || {
            for stripe in &all {
                let done = on_progress(&pace.progress())
                    && self.scrub_stripe(stripes, stripe, &pace, on_progress, &mut report)?;
                pass.counts.mended = report.mended;
                if !done {
                    report.stopped = true;
                    break;
                }
                pass.next = stripe.id.0.get().saturating_add(1);
                pass.counts.stripes = report.before + report.objects;
                pass.counts.lost = report.differences;
                if kept.0.elapsed() >= KEEP_EVERY || report.bytes - kept.1 >= KEEP_BYTES {
                    pass.counts.bytes += report.bytes - kept.1;
                    kept = (Instant::now(), report.bytes);
                    position.pass = Some(pass);
                    self.scrubbing.keep(stripes, &mut position);
                }
            }
            Ok(())
        };
        let walked = walk();
        *self.scrubbing.pace.lock() = None;
        pass.counts.bytes += report.bytes - kept.1;
        position.pass = Some(pass);
        if walked.is_ok() && !report.stopped {
            let finished_s = env::wall_time().seconds;
            position.pass = None;
            position.end = Some(ScrubEnd {
                finished_s,
                counts: pass.counts,
            });
            *self.scrubbing.report.lock() = Some(report.clone());
            *self.last_scrub.lock() = Some(ScrubStatus {
                finished_s,
                objects: pass.counts.stripes,
                differences: report.differences,
            });
        }
        self.scrubbing.keep(stripes, &mut position);
        walked.map(|()| report)
    }

    /// Scrubs one stripe; whether it came to its end.
    fn scrub_stripe(
        &self,
        stripes: &Stripes,
        stripe: &Stripe,
        pace: &Pace,
        on_progress: &mut dyn FnMut(&Progress) -> bool,
        report: &mut CheckReport,
    ) -> Result<bool> {
        let mut read = 0;
        let found = stripes.scrub_while(stripe.id, true, &mut |bytes| {
            read += bytes;
            pace.bytes(bytes, 0).is_ok() && on_progress(&pace.progress())
        });
        report.bytes += read;
        let found = match found {
            Ok(found) => found,
            // Given up meanwhile.
            Err(StripeError::NoStripe(_)) => return Ok(true),
            Err(error) => {
                tracing::warn!(%error, "a stripe could not be scrubbed");
                if let Some(store) = error.failed() {
                    self.fence_for(store, Errno::IO)?;
                }
                report.differ(stripe, None, error.to_string());
                return Ok(true);
            }
        };
        report.mended += found.mended;
        for damage in found.damaged.iter().filter(|damage| damage.mended) {
            report.show(stripe, Some(damage), "damaged, and right again".into());
        }
        if found.stopped {
            // It is read once more, and what is lost is counted then.
            return Ok(false);
        }
        report.objects += 1;
        for damage in found.damaged.iter().filter(|damage| !damage.mended) {
            let why = "damaged, and too little is left to make it anew";
            report.differ(stripe, Some(damage), why.into());
        }
        for (pages, what) in [
            (found.contradictions, "do not belong together"),
            (found.unread, "cannot be read"),
        ] {
            if pages > 0 {
                report.differ(stripe, None, format!("{pages} pages {what}"));
            }
        }
        Ok(true)
    }

    /// What the status says of the scrub; `None` where nothing was ever encoded, and in the first
    /// moments.
    pub(crate) fn scrub_status(&self) -> Option<ScrubScheduleStatus> {
        let position = (*self.scrubbing.position.lock())?;
        let interval_s = self.options.scrub_interval_s;
        let ended = position.end;
        Some(ScrubScheduleStatus {
            interval_s,
            next_s: (interval_s > 0 && position.since_s > 0 && position.pass.is_none())
                .then(|| position.next_s(interval_s)),
            last_finished_s: ended.map(|end| end.finished_s),
            last_stripes: ended.map_or(0, |end| end.counts.stripes),
            last_mended: ended.map_or(0, |end| end.counts.mended),
            last_lost: ended.map_or(0, |end| end.counts.lost),
            pass: position.pass.map(|pass| ScrubPassStatus {
                started_s: pass.started_s,
                stripes: pass.counts.stripes,
                mended: pass.counts.mended,
                lost: pass.counts.lost,
                progress: self
                    .scrubbing
                    .pace
                    .lock()
                    .as_ref()
                    .map(|pace| pace.progress()),
            }),
        })
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
