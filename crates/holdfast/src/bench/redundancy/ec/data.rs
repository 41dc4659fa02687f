//! The files that every side has, and what is done with them.

use crate::bench::latency::{Figures, Samples};
use crate::bench::process::check_stop;
use anyhow::Context as _;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

const MIB: u64 = 1 << 20;

/// Bytes of a file: one of the largest chunks.
const FILE_BYTES: u64 = 64 * MIB;

/// Random writes of one size.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) bytes: usize,
    /// fdatasync after each, which is part of its time.
    pub(super) durable: bool,
    pub(super) ops: usize,
}

/// How much there is: files of 64 MiB with bytes that do not repeat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    files: u64,
}

impl Data {
    /// The whole files of `mib` MiB.
    pub(super) fn of(mib: u64) -> Data {
        Data {
            files: (mib * MIB / FILE_BYTES).max(1),
        }
    }

    /// Bytes of all files.
    pub(super) fn bytes(self) -> u64 {
        self.files * FILE_BYTES
    }

    fn paths(self, root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
        let root = root.to_path_buf();
        (0..self.files).map(move |file| root.join(format!("file{file}")))
    }

    /// Makes all files below `root`.
    pub(super) fn fill(self, root: &Path) -> anyhow::Result<()> {
        let mut rng = env::Rng::new(1);
        let mut bytes = vec![0; MIB as usize];
        for path in self.paths(root) {
            check_stop()?;
            let file = File::create_new(&path)?;
            for at in (0..FILE_BYTES).step_by(bytes.len()) {
                rng.fill(&mut bytes);
                file.write_all_at(&bytes, at)?;
            }
        }
        Ok(())
    }

    fn open(self, root: &Path) -> anyhow::Result<Vec<File>> {
        self.paths(root)
            .map(|path| {
                let opened = File::options().read(true).write(true).open(&path);
                opened.with_context(|| format!("cannot open {}", path.display()))
            })
            .collect()
    }

    /// Reads everything, one file after the other; MB a second.
    pub(super) fn read_all(self, root: &Path) -> anyhow::Result<f64> {
        let mut bytes = vec![0; MIB as usize];
        let began = Instant::now();
        for file in self.open(root)? {
            for at in (0..FILE_BYTES).step_by(bytes.len()) {
                file.read_exact_at(&mut bytes, at)?;
            }
        }
        Ok(self.bytes() as f64 / 1e6 / began.elapsed().as_secs_f64())
    }

    /// Reads 8 KiB at a time. All sides of a round read the same places.
    pub(super) fn read_random(
        self,
        root: &Path,
        ops: usize,
        round: usize,
    ) -> anyhow::Result<Figures> {
        let mut bytes = vec![0; 8 << 10];
        let mut places = self.places(bytes.len(), round);
        let files = self.open(root)?;
        let mut samples = Samples::default();
        samples.add(ops, || {
            let (file, at) = places();
            let file = files.get(file).context("a file")?;
            Ok(file.read_exact_at(&mut bytes, at)?)
        })?;
        Ok(samples.figures())
    }

    /// Writes at random. All sides of a round write to the same places.
    pub(super) fn write_random(
        self,
        root: &Path,
        load: Load,
        round: usize,
    ) -> anyhow::Result<Figures> {
        let mut bytes = vec![0; load.bytes];
        let mut places = self.places(load.bytes, round);
        let mut rng = env::Rng::new(7);
        let files = self.open(root)?;
        let mut samples = Samples::default();
        samples.add(load.ops, || {
            let (file, at) = places();
            let file = files.get(file).context("a file")?;
            if let Some(start) = bytes.first_chunk_mut() {
                *start = rng.next_u64().to_le_bytes();
            }
            file.write_all_at(&bytes, at)?;
            if load.durable {
                file.sync_data()?;
            }
            Ok(())
        })?;
        Ok(samples.figures())
    }

    /// Random places for `bytes`, aligned to that: which file, and where.
    fn places(self, bytes: usize, round: usize) -> impl FnMut() -> (usize, u64) {
        let mut rng = env::Rng::new(1000 + round as u64);
        move || {
            let file = rng.index(self.files as usize);
            (file, rng.below(FILE_BYTES / bytes as u64) * bytes as u64)
        }
    }
}

/// MB a second of one new file that is synced at its end, and then removed.
pub(super) fn write_rate(path: &Path, bytes: u64) -> anyhow::Result<f64> {
    let mut part = vec![0; MIB as usize];
    env::Rng::new(5).fill(&mut part);
    let began = Instant::now();
    let file = File::create_new(path)?;
    for at in (0..bytes).step_by(part.len()) {
        file.write_all_at(&part, at)?;
    }
    file.sync_all()?;
    let took = began.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(bytes as f64 / 1e6 / took)
}
