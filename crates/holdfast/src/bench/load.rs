//! A mixed load that runs as long as wanted on a tree of bounded size.

use super::process::check_stop;
use anyhow::Context as _;
use std::fs;
use std::io::ErrorKind::NotFound;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A mixed load on `root` for `time`, from two threads, on a tree of bounded size: `files` files of
/// at most 256 KiB. Gives the number of operations.
pub(crate) fn mixed_load(root: &Path, files: u64, time: Duration) -> anyhow::Result<u64> {
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2u64)
            .map(|worker| {
                let failed = &failed;
                let directory = root.join(format!("w{worker}"));
                scope.spawn(move || {
                    let result = one_worker(&directory, worker, files / 2, time, failed);
                    if result.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        let mut operations = 0;
        for worker in workers {
            operations += match worker.join() {
                Ok(count) => count?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
        }
        Ok(operations)
    })
}

fn one_worker(
    directory: &Path,
    seed: u64,
    files: u64,
    time: Duration,
    failed: &AtomicBool,
) -> anyhow::Result<u64> {
    fs::create_dir_all(directory)?;
    let deadline = Instant::now() + time;
    let mut random = Random::new(seed);
    let mut buffer = vec![0x5a; 64 << 10];
    let mut operations = 0;
    while Instant::now() < deadline && !failed.load(Ordering::Relaxed) {
        check_stop()?;
        let place = |number: u64| directory.join(format!("d{}/f{number}", number % 32));
        let path = place(random.below(files.max(1)));
        let parent = directory.join(format!("d{}", random.below(32)));
        match random.below(16) {
            0 => unless_absent(fs::remove_file(&path))?,
            1 => unless_absent(fs::rename(&path, place(random.below(files.max(1)))))?,
            2 => {
                if let Ok(entries) = fs::read_dir(&parent) {
                    for entry in entries {
                        // Another operation may have removed it in between.
                        let _ = entry?.metadata();
                    }
                }
            }
            3..=8 => {
                if let Ok(file) = fs::File::open(&path) {
                    file.read_at(&mut buffer, random.below(256 << 10))?;
                }
            }
            what => {
                fs::create_dir_all(path.parent().context("a file has a directory")?)?;
                let file = fs::OpenOptions::new()
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .open(&path)?;
                let length = usize::try_from(1 + random.below(64 << 10))?;
                let piece = buffer.get(..length).unwrap_or(&buffer);
                file.write_all_at(piece, random.below(192 << 10))?;
                if what == 15 {
                    file.sync_all()?;
                }
            }
        }
        operations += 1;
    }
    Ok(operations)
}

/// The load removes and renames at random: that a file is not there is no failure.
fn unless_absent(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == NotFound => Ok(()),
        other => other,
    }
}

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled",
/// 2016): a load needs variety, not quality.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 0 to `bound` - 1; `bound` must not be 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixed_load_runs_on_a_plain_directory() {
        let root = tempfile::tempdir().unwrap();
        let operations = mixed_load(root.path(), 64, Duration::from_millis(200)).unwrap();
        assert!(operations > 0);
    }
}
