//! A set of ours that encodes as much as it is told.

use super::data::Data;
use crate::bench::ours::Ours;
use crate::bench::process::{self, check_stop};
use anyhow::Context as _;
use redundancy::status::{EncodingStatus, Status};
use std::path::Path;
use std::time::{Duration, Instant};

/// KiB of a chunk, as `holdfast up` has it where nothing else is said.
pub(super) const CHUNK_KIB: u32 = 512;

/// Bound on encoding, giving back and rebuilding, each a matter of seconds.
const LIMIT: Duration = Duration::from_secs(180);

/// A set that has encoded nothing more for so long, with a round each second, is done.
const RESTS: Duration = Duration::from_secs(5);

/// How far from what was asked for the share may be, as parts of one.
const SLACK: f64 = 0.03;

/// Time between two looks at a round.
const LOOK: Duration = Duration::from_millis(50);

/// A mounted set, and what is in it.
pub(super) struct Set {
    pub(super) ours: Ours,
    data: Data,
    chunk_kib: u32,
    /// Flags of its own.
    pub(super) extra: Vec<String>,
}

fn encoding(status: &Status) -> EncodingStatus {
    status.encoding.clone().unwrap_or_default()
}

fn flags(percent: u8, chunk_kib: u32, interval_s: u32) -> Vec<String> {
    vec![
        format!("--encode-percent={percent}"),
        "--encode-load-percent=100".into(),
        format!("--encode-chunk-kb={chunk_kib}"),
        format!("--encode-interval-s={interval_s}"),
    ]
}

/// Longer than any benchmark: nothing is encoded meanwhile.
const NEVER_S: u32 = 1_000_000;

impl Set {
    /// A set that encodes nothing.
    pub(super) fn up(directory: &Path, stores: usize, data: Data) -> anyhow::Result<Set> {
        let mut ours = Ours::up(directory, stores, super::super::COPIES)?;
        ours.restart_with(&flags(0, CHUNK_KIB, NEVER_S))?;
        Ok(Set {
            ours,
            data,
            chunk_kib: CHUNK_KIB,
            extra: Vec::new(),
        })
    }

    fn restart_with(&mut self, percent: u8, chunk_kib: u32, every_s: u32) -> anyhow::Result<()> {
        let mut flags = flags(percent, chunk_kib, every_s);
        flags.extend(self.extra.iter().cloned());
        self.ours.restart_with(&flags)
    }

    fn share(&self, status: &Status) -> f64 {
        encoding(status).bytes as f64 / self.data.bytes() as f64
    }

    /// What is encoded now, for a note.
    pub(super) fn said(&self) -> anyhow::Result<String> {
        let share = self.share(&self.ours.status()?);
        Ok(format!("{:.0} % are encoded", share * 100.0))
    }

    /// Gives everything its copies back.
    pub(super) fn plain(&mut self) -> anyhow::Result<()> {
        if encoding(&self.ours.status()?).stripes == 0 {
            return Ok(());
        }
        self.restart_with(0, self.chunk_kib, NEVER_S)?;
        let none = |status: &Status| encoding(status).stripes == 0;
        self.ours.until("copies of everything", LIMIT, none)
    }

    /// Sees to it that `percent` of the data is encoded, and that it stays as it is from then on.
    pub(super) fn encode(&mut self, percent: u8, chunk_kib: u32) -> anyhow::Result<()> {
        let wanted = f64::from(percent) / 100.0;
        let share = self.share(&self.ours.status()?);
        let enough = move |share: f64| share >= wanted - SLACK;
        if !(enough(share) && share <= wanted + SLACK && chunk_kib == self.chunk_kib) {
            if share > wanted + SLACK || chunk_kib != self.chunk_kib {
                self.plain()?;
            }
            self.chunk_kib = chunk_kib;
            self.restart_with(percent, chunk_kib, 1)?;
            let bytes = self.data.bytes() as f64;
            let mut grown = (Instant::now(), 0);
            self.ours.until("data to be encoded", LIMIT, |status| {
                let encoded = encoding(status).bytes;
                if encoded != grown.1 {
                    grown = (Instant::now(), encoded);
                }
                // A chunk may be left without a partner on another store.
                let rests = encoded > 0 && grown.0.elapsed() > RESTS;
                enough(encoded as f64 / bytes) || rests
            })?;
        }
        self.restart_with(percent, chunk_kib, NEVER_S)
    }

    /// Encodes everything, and gives MB of data a second from the first stripe to the last.
    pub(super) fn encode_timed(&mut self, chunk_kib: u32) -> anyhow::Result<f64> {
        self.chunk_kib = chunk_kib;
        self.restart_with(100, chunk_kib, 1)?;
        let began = Instant::now();
        let mut seen: Option<(Instant, u64)> = None;
        loop {
            check_stop()?;
            anyhow::ensure!(began.elapsed() < LIMIT, "nothing was encoded in {LIMIT:?}");
            let now = Instant::now();
            let status = self.ours.status()?;
            let bytes = encoding(&status).bytes;
            match seen {
                None if bytes > 0 => seen = Some((now, bytes)),
                Some((first, before)) if self.share(&status) >= 1.0 - SLACK => {
                    let mb = (bytes - before) as f64 / 1e6;
                    anyhow::ensure!(mb > 0.0, "too little data to see how fast it is encoded");
                    self.encode(100, chunk_kib)?;
                    return Ok(mb / (now - first).as_secs_f64());
                }
                _ => {}
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Loses a store, puts an empty one in its place, and gives MB of its files a second.
    pub(super) fn rebuild_timed(&mut self, store: usize) -> anyhow::Result<f64> {
        let place = self.ours.stores().get(store).context("a store")?.clone();
        let away = place.with_extension("away");
        std::fs::rename(&place, &away)?;
        let lost = |status: &Status| !status.redundant;
        self.ours
            .until("the loss of a store to be seen", LIMIT, lost)?;
        std::fs::create_dir(&place)?;
        let began = Instant::now();
        self.ours.attach(&place)?;
        process::wait_until("the store to be rebuilt", LIMIT, || {
            Ok(self.ours.status()?.redundant)
        })?;
        let took = began.elapsed().as_secs_f64();
        std::fs::remove_dir_all(&away)?;
        let mut bytes = 0;
        let data = place.join(redundancy::store::local::DATA);
        crate::bench::tree::walk(&data, &[], &mut |_, metadata| {
            bytes += metadata.len();
            Ok(())
        })?;
        Ok(bytes as f64 / 1e6 / took)
    }
}
