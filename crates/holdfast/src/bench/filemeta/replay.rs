//! The time of an open after a crash, with few and with many files in the store.

use super::{NAME, Scene, TABLE};
use crate::bench::row::{Better, Compared, Report, Row, alternate, compare};
use env::handle::Handle;
use filemeta::{Options, Places, Store};
use std::path::Path;
use std::time::Instant;

/// Requests that a replay finds.
const REPLAYED: u64 = 1000;

/// Files of the small store that a replay is held against.
const FEW_FILES: u64 = 1000;

/// A store with metadata of 200 bytes on each of its files, closed.
struct Filled {
    /// Keeps the directory.
    _scene: Scene,
    places: Places,
    files: u64,
    /// [`REPLAYED`] of them, or all, evenly spread.
    spread: Vec<Handle>,
    per_s: f64,
    /// Changes with each use, so that each patch changes something.
    turn: u64,
}

impl Filled {
    fn new(dir: &Path, name: &str, files: u64) -> anyhow::Result<Filled> {
        let scene = Scene::new(dir, name)?;
        let places = Places::real(&scene.root.join("meta"))?;
        let store = scene.create()?;
        let mut spread = Vec::new();
        let start = Instant::now();
        for number in 0..files {
            let handle = scene.file(&format!("{number:07x}"))?;
            let mut request = store.request();
            request.put(&handle, TABLE, &number.to_le_bytes().repeat(25))?;
            request.submit()?;
            if number.is_multiple_of((files / REPLAYED).max(1)) {
                spread.push(handle);
            }
        }
        store.close()?;
        Ok(Filled {
            _scene: scene,
            places,
            files,
            spread,
            per_s: files as f64 / start.elapsed().as_secs_f64(),
            turn: 0,
        })
    }

    fn open(&self) -> anyhow::Result<(f64, Store, u64)> {
        let start = Instant::now();
        let opened = Store::open(&self.places, None, Options::default())?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((seconds, opened.store, opened.replay.requests))
    }

    /// Seconds of an open after [`REPLAYED`] requests without a checkpoint.
    fn open_crashed(&mut self) -> anyhow::Result<f64> {
        let (_, store, _) = self.open()?;
        self.turn += 1;
        for (number, owner) in (0..REPLAYED).zip(self.spread.iter().cycle()) {
            // Never what is there: a request that changes nothing is not in the journal.
            let value = u64::MAX - self.turn * REPLAYED - number;
            let mut request = store.request();
            request.patch(owner, TABLE, 8, &value.to_le_bytes());
            request.submit()?;
        }
        store.flush()?;
        drop(store);
        let (seconds, store, requests) = self.open()?;
        anyhow::ensure!(requests == REPLAYED, "{requests} requests were replayed");
        store.close()?;
        Ok(seconds)
    }

    fn open_closed(&self) -> anyhow::Result<f64> {
        let (seconds, store, requests) = self.open()?;
        anyhow::ensure!(requests == 0, "{requests} requests were replayed");
        store.close()?;
        Ok(seconds)
    }

    fn check(&self) -> anyhow::Result<f64> {
        let (_, store, _) = self.open()?;
        let start = Instant::now();
        let checked = store.check()?;
        anyhow::ensure!(checked.findings.is_empty(), "{:?}", checked.findings);
        anyhow::ensure!(checked.objects == self.files, "{} objects", checked.objects);
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Runs the cases.
pub(super) fn run(
    dir: &Path,
    rounds: usize,
    files: u64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut few = Filled::new(dir, "few", FEW_FILES)?;
    let mut many = Filled::new(dir, "many", files)?;
    let note = format!("ours: {files} files with 200 bytes each; the other side: {FEW_FILES}");
    let mut add = |case: &str, better: Better, compared: Compared, note: String| {
        let (metric, unit) = match better {
            Better::Higher => ("ops_per_s", "/s"),
            Better::Lower => ("time_s", "s"),
        };
        report.add(Row {
            bench: NAME.into(),
            case: case.into(),
            metric: metric.into(),
            unit: unit.into(),
            better,
            ours: compared.ours,
            peer: compared.peer,
            peer_name: format!("{FEW_FILES} files"),
            ratio: compared.ratio,
            runs: compared.runs,
            spread: compared.spread,
            note,
        })
    };
    let filled = compare(&[many.per_s], &[few.per_s])?;
    let made = format!("{note}; making the file counts, a sync at the end");
    add("new-file-with-metadata", Better::Higher, filled, made)?;
    let crashed = alternate(rounds, || many.open_crashed(), || few.open_crashed())?;
    let replayed = format!("{note}; {REPLAYED} requests on as many files are replayed and synced");
    add("open-after-a-crash", Better::Lower, crashed, replayed)?;
    let closed = alternate(rounds, || many.open_closed(), || few.open_closed())?;
    add("open-after-a-close", Better::Lower, closed, note.clone())?;
    let checked = compare(&[many.check()?], &[few.check()?])?;
    add("full-check", Better::Lower, checked, note)
}
