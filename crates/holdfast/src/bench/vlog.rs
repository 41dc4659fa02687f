//! `holdfast bench vlog`: the log of an in-memory database, beside plain files that are appended to.

use super::row::{Better, Compared, Report, Row, alternate};
use super::runs::Runs;
use anyhow::Context as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vlog::{Directory, Options, Position, Record, Sync, Vlog, VlogId};

/// Name on the command line and in the rows.
pub(super) const NAME: &str = "vlog";

/// Bytes of every record's content.
const PAYLOAD: [u8; 100] = [7; 100];

/// Appends to the log of an in-memory database, compaction and recovery, beside plain files
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    runs: Runs,
}

/// A directory that goes with this.
struct Scene {
    root: PathBuf,
    made: AtomicU64,
}

impl Scene {
    fn new(dir: &Path) -> anyhow::Result<Scene> {
        let root = dir.join(format!("holdfast-bench-vlog-{}", std::process::id()));
        std::fs::create_dir(&root).with_context(|| format!("cannot work in {}", dir.display()))?;
        Ok(Scene {
            root,
            made: AtomicU64::new(0),
        })
    }

    /// A new place for one run.
    fn place(&self) -> anyhow::Result<PathBuf> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let place = self.root.join(number.to_string());
        std::fs::create_dir(&place)?;
        Ok(place)
    }

    fn log(&self, sync: Sync) -> anyhow::Result<(Vlog, PathBuf)> {
        let place = self.place()?;
        Vlog::create("db", directory(&place)?, VlogId(1))?;
        Ok((open(&place, sync, &|_| {})?, place))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.root) {
            eprintln!("{} is left: {error}", self.root.display());
        }
    }
}

fn directory(place: &Path) -> anyhow::Result<Vec<Directory>> {
    let path = place.to_str().context("a path that is UTF-8")?;
    Ok(vec![Directory::open(path)?])
}

fn open(place: &Path, sync: Sync, sink: &vlog::Sink<'_>) -> anyhow::Result<Vlog> {
    let options = Options {
        sync,
        ..Options::default()
    };
    Ok(Vlog::open("db", directory(place)?, options, sink)?)
}

/// Runs all cases.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let rounds = args.runs.rounds();
    let scene = Scene::new(&args.runs.dir)?;
    let mut report = Report::new(args.runs.json.as_deref())?;
    let (durable, unsynced) = match args.runs.quick {
        true => (200, 100_000),
        false => (4000, 1_000_000),
    };
    for threads in [1, 16] {
        let compared = always(&scene, rounds, threads, durable / threads.min(4))?;
        report.add(row(
            format!("append-durable-{threads}-threads"),
            "ops_per_s",
            compared,
            "write+fdatasync, a file for each thread",
            "records of 100 bytes, each durable before the thread goes on",
        ))?;
    }
    let compared = every_second(&scene, rounds, unsynced)?;
    report.add(row(
        "append-everysec".into(),
        "ops_per_s",
        compared,
        "write to a plain file",
        "one thread; both are synced in the end, in the time measured; the peer writes in the calling \
         thread and has no checksums",
    ))?;
    let compared = overwrite(&scene, rounds, unsynced)?;
    report.add(row(
        "overwrite-everysec-compacted".into(),
        "ops_per_s",
        compared,
        "write to a plain file",
        "each record replaces another, at random, and files that are half dead are compacted until none \
         is; the peer's file only grows",
    ))?;
    let compared = recovery(&scene, rounds, unsynced)?;
    report.add(row(
        "recovery".into(),
        "mb_per_s",
        compared,
        "reading as many bytes of a plain file",
        "megabytes of files a second, page cache warm; ours verifies every block and hands out every \
         live record once, on two threads",
    ))
}

fn row(case: String, metric: &str, compared: Compared, peer: &str, note: &str) -> Row {
    Row {
        bench: NAME.into(),
        case,
        metric: metric.into(),
        unit: if metric == "ops_per_s" { "/s" } else { "MB/s" }.into(),
        better: Better::Higher,
        ours: compared.ours,
        peer: compared.peer,
        peer_name: peer.into(),
        ratio: compared.ratio,
        runs: compared.runs,
        spread: compared.spread,
        note: note.into(),
    }
}

/// Records a second of so many threads.
fn rate(
    threads: u64,
    count: u64,
    work: impl Fn(u64) -> anyhow::Result<()> + std::marker::Sync,
) -> anyhow::Result<f64> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let work = &work;
        let all: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || (0..count).try_for_each(|_| work(thread))))
            .collect();
        all.into_iter().try_for_each(|one| {
            one.join()
                .unwrap_or_else(|_| anyhow::bail!("a thread failed"))
        })
    })?;
    Ok((threads * count) as f64 / start.elapsed().as_secs_f64())
}

fn always(scene: &Scene, rounds: usize, threads: u64, count: u64) -> anyhow::Result<Compared> {
    alternate(
        rounds,
        || {
            let (log, _) = scene.log(Sync::Always)?;
            rate(threads, count, |thread| {
                let (_, receipt) = log.append(thread as u32, &PAYLOAD, None)?;
                Ok(log.durable(receipt)?)
            })
        },
        || {
            let place = scene.place()?;
            let files = (0..threads).map(|thread| File::create(place.join(thread.to_string())));
            let files: Vec<File> = files.collect::<Result<_, _>>()?;
            rate(threads, count, |thread| {
                let mut file = files.get(thread as usize).context("a file")?;
                file.write_all(&PAYLOAD)?;
                Ok(file.sync_data()?)
            })
        },
    )
}

fn wait(log: &Vlog) -> anyhow::Result<()> {
    for receipt in log.receipts() {
        log.durable(receipt)?;
    }
    Ok(())
}

/// Writes so many records to a plain file and syncs it once a second.
fn plain(scene: &Scene, count: u64) -> anyhow::Result<f64> {
    let mut file = File::create(scene.place()?.join("plain"))?;
    let start = Instant::now();
    let mut synced = start;
    for index in 0..count {
        file.write_all(&PAYLOAD)?;
        if index % 1024 == 0 && synced.elapsed() >= Duration::from_secs(1) {
            file.sync_data()?;
            synced = Instant::now();
        }
    }
    file.sync_data()?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

fn every_second(scene: &Scene, rounds: usize, count: u64) -> anyhow::Result<Compared> {
    alternate(
        rounds,
        || {
            let (log, _) = scene.log(Sync::Every(Duration::from_secs(1)))?;
            let start = Instant::now();
            for _ in 0..count {
                log.append(0, &PAYLOAD, None)?;
            }
            wait(&log)?;
            Ok(count as f64 / start.elapsed().as_secs_f64())
        },
        || plain(scene, count),
    )
}

fn overwrite(scene: &Scene, rounds: usize, count: u64) -> anyhow::Result<Compared> {
    alternate(
        rounds,
        || {
            let (log, _) = scene.log(Sync::Every(Duration::from_secs(1)))?;
            let mut positions: Vec<Position> = Vec::new();
            for _ in 0..count / 2 {
                positions.push(log.append(0, &PAYLOAD, None)?.0);
            }
            wait(&log)?;
            let mut rng = env::Rng::new(1);
            let start = Instant::now();
            for _ in 0..count * 2 {
                let entry = rng.index(positions.len());
                let place = positions.get_mut(entry).context("an entry")?;
                *place = log.append(0, &PAYLOAD, Some(*place))?.0;
            }
            wait(&log)?;
            while log.compact(50)?.is_some() {}
            Ok((count * 2) as f64 / start.elapsed().as_secs_f64())
        },
        || plain(scene, count * 2),
    )
}

fn recovery(scene: &Scene, rounds: usize, count: u64) -> anyhow::Result<Compared> {
    let (log, place) = scene.log(Sync::Never)?;
    for _ in 0..count {
        log.append(0, &PAYLOAD, None)?;
    }
    log.close()?;
    let mut megabytes = 0.0;
    for entry in std::fs::read_dir(&place)? {
        megabytes += entry?.metadata()?.len() as f64 / 1e6;
    }
    let copy = scene.place()?.join("plain");
    let bytes = vec![7; (megabytes * 1e6) as usize];
    std::fs::write(&copy, &bytes)?;
    drop(bytes);
    let found = AtomicU64::new(0);
    alternate(
        rounds,
        || {
            found.store(0, Ordering::Relaxed);
            let start = Instant::now();
            let sink = |_: Record<'_>| {
                found.fetch_add(1, Ordering::Relaxed);
            };
            let log = open(&place, Sync::Never, &sink)?;
            let seconds = start.elapsed().as_secs_f64();
            log.close()?;
            anyhow::ensure!(
                found.load(Ordering::Relaxed) == count,
                "records are missing"
            );
            Ok(megabytes / seconds)
        },
        || {
            let start = Instant::now();
            let mut file = File::open(&copy)?;
            let mut buffer = vec![0; 1 << 20];
            while std::io::Read::read(&mut file, &mut buffer)? > 0 {}
            Ok(megabytes / start.elapsed().as_secs_f64())
        },
    )
}
