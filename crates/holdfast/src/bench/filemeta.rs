//! `holdfast bench filemeta`: metadata requests beside the bare system calls that come nearest, and
//! the time of a replay at a thousand and at a million files.

mod replay;

use super::row::{Better, Report, Row, alternate};
use super::runs::Runs;
use anyhow::Context as _;
use env::Dir;
use env::handle::Handle;
use env::real::RealDir;
use filemeta::{Options, Places, Store, StoreId, Tag};
use rustix::fs::XattrFlags;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Name on the command line and in the rows.
pub(super) const NAME: &str = "filemeta";

const TABLE: Tag = match Tag::new(1) {
    Some(tag) => tag,
    None => Tag::MAX,
};
const TINY: Tag = match Tag::new(2) {
    Some(tag) => tag,
    None => Tag::MAX,
};

/// The least number that [`rate`] has not handed out; 0 is what tables hold at first.
static FRESH: AtomicU64 = AtomicU64::new(1);

/// Bytes of the table that is patched in place.
const TABLE_BYTES: u64 = 1 << 20;

/// Metadata requests, beside bare system calls; replay at a thousand and at a million files
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    runs: Runs,
    /// How many files the large store of the replay has (default: 1000000, with --quick 20000)
    #[arg(long, value_name = "N")]
    files: Option<u64>,
}

/// A store in a directory of its own, which goes with it.
struct Scene {
    root: PathBuf,
    user: RealDir,
}

impl Scene {
    fn new(dir: &Path, name: &str) -> anyhow::Result<Scene> {
        let name = format!("holdfast-bench-filemeta-{}-{name}", std::process::id());
        let below =
            RealDir::open(dir).with_context(|| format!("cannot work in {}", dir.display()))?;
        let user = below.subdirectory(&name)?.subdirectory("user")?;
        Ok(Scene {
            root: dir.join(name),
            user,
        })
    }

    fn create(&self) -> anyhow::Result<Store> {
        let places = Places::real(&self.root.join("meta"))?;
        let options = Options::default();
        Ok(Store::create(&places, StoreId(1), c"trusted.hfm", options)?)
    }

    fn file(&self, name: &str) -> anyhow::Result<Handle> {
        self.user.make(name)?;
        Ok(self.user.handle(name)?)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.root) {
            eprintln!("{} is left: {error}", self.root.display());
        }
    }
}

/// Runs all cases.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let rounds = args.runs.rounds();
    let files = args
        .files
        .unwrap_or(if args.runs.quick { 20_000 } else { 1_000_000 });
    let count = if args.runs.quick { 200 } else { 1000 };
    let mut report = Report::new(args.runs.json.as_deref())?;
    small_patches(args, rounds, count, 1, &mut report)?;
    small_patches(args, rounds, count, 8, &mut report)?;
    pairs(args, rounds, count, &mut report)?;
    unsynced(args, rounds, 20 * count, &mut report)?;
    replay::run(&args.runs.dir, rounds, files, &mut report)
}

/// Rate of `work`, called `count` times by each of `threads` threads, each time with a number that
/// this thread has not had before: a request that changes nothing would cost nothing.
fn rate(
    threads: u64,
    count: u64,
    work: impl Fn(u64, u64) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<f64> {
    let first = FRESH.fetch_add(count, Ordering::Relaxed);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|thread| {
                let work = &work;
                let numbers = first..first + count;
                scope.spawn(move || numbers.into_iter().try_for_each(|n| work(thread, n)))
            })
            .collect();
        all.into_iter().try_for_each(|one| {
            one.join()
                .unwrap_or_else(|_| anyhow::bail!("a thread failed"))
        })
    })?;
    Ok((threads * count) as f64 / start.elapsed().as_secs_f64())
}

fn place(number: u64) -> u64 {
    number.wrapping_mul(7919 * 16) % (TABLE_BYTES - 16)
}

/// 16 bytes in a table of 1 MiB, durable, each thread its own table.
fn small_patches(
    args: &Args,
    rounds: usize,
    count: u64,
    threads: u64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let scene = Scene::new(&args.runs.dir, "patch")?;
    let store = scene.create()?;
    let mut owners = Vec::new();
    let mut plain = Vec::new();
    for thread in 0..threads {
        let owner = scene.file(&format!("f{thread}"))?;
        let mut request = store.request();
        request.put(&owner, TABLE, &vec![0; TABLE_BYTES as usize])?;
        request.commit()?;
        owners.push(owner);
        let file = File::create(scene.root.join(format!("plain{thread}")))?;
        file.write_all_at(&vec![0; TABLE_BYTES as usize], 0)?;
        file.sync_all()?;
        plain.push(file);
    }
    let count = count / threads.min(4);
    let compared = alternate(
        rounds,
        || {
            rate(threads, count, |thread, number| {
                let mut request = store.request();
                let owner = owners.get(thread as usize).context("an owner")?;
                request.patch(owner, TABLE, place(number), &number.to_le_bytes().repeat(2));
                request.commit()?;
                Ok(())
            })
        },
        || {
            rate(threads, count, |thread, number| {
                let file = plain.get(thread as usize).context("a file")?;
                file.write_all_at(&number.to_le_bytes().repeat(2), place(number))?;
                file.sync_data()?;
                Ok(())
            })
        },
    )?;
    report.add(Row {
        bench: NAME.into(),
        case: format!("patch-16B-of-1MiB-{threads}-threads"),
        metric: "ops_per_s".into(),
        unit: "/s".into(),
        better: Better::Higher,
        ours: compared.ours,
        peer: compared.peer,
        peer_name: "pwrite+fdatasync".into(),
        ratio: compared.ratio,
        runs: compared.runs,
        spread: compared.spread,
        note: "both durable when they return; the peer has no checksum and may be torn".into(),
    })
}

/// 16 bytes of a table of 1 MiB, changed without a sync, and read.
fn unsynced(args: &Args, rounds: usize, count: u64, report: &mut Report) -> anyhow::Result<()> {
    let scene = Scene::new(&args.runs.dir, "unsynced")?;
    let store = scene.create()?;
    let owner = scene.file("f")?;
    let mut request = store.request();
    request.put(&owner, TABLE, &vec![0; TABLE_BYTES as usize])?;
    request.commit()?;
    let plain = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(scene.root.join("plain"))?;
    plain.write_all_at(&vec![0; TABLE_BYTES as usize], 0)?;
    let written = alternate(
        rounds,
        || {
            rate(1, count, |_, number| {
                let mut request = store.request();
                request.patch(
                    &owner,
                    TABLE,
                    place(number),
                    &number.to_le_bytes().repeat(2),
                );
                request.submit()?;
                Ok(())
            })
        },
        || {
            rate(1, count, |_, number| {
                Ok(plain.write_all_at(&number.to_le_bytes().repeat(2), place(number))?)
            })
        },
    )?;
    store.checkpoint()?;
    let read = alternate(
        rounds,
        || {
            rate(1, count, |_, number| {
                Ok(store.read(&owner, TABLE, place(number), &mut [0; 16])?)
            })
        },
        || {
            rate(1, count, |_, number| {
                Ok(plain.read_exact_at(&mut [0; 16], place(number))?)
            })
        },
    )?;
    let cases = [
        ("patch-16B-submitted", "pwrite", written),
        ("read-16B-of-1MiB", "pread", read),
    ];
    for (case, peer, compared) in cases {
        report.add(Row {
            bench: NAME.into(),
            case: case.into(),
            metric: "ops_per_s".into(),
            unit: "/s".into(),
            better: Better::Higher,
            ours: compared.ours,
            peer: compared.peer,
            peer_name: peer.into(),
            ratio: compared.ratio,
            runs: compared.runs,
            spread: compared.spread,
            note: "nothing is synced; ours finds the file by its handle and checks a block of \
                   4 KiB each time, the peer has the file open"
                .into(),
        })?;
    }
    Ok(())
}

/// A tiny value on each of two files, durable.
fn pairs(args: &Args, rounds: usize, count: u64, report: &mut Report) -> anyhow::Result<()> {
    let scene = Scene::new(&args.runs.dir, "pairs")?;
    let store = scene.create()?;
    let owners = [scene.file("a")?, scene.file("b")?];
    let plain = ["c", "d"].map(|name| File::create(scene.root.join(name)));
    let compared = alternate(
        rounds,
        || {
            rate(1, count, |_, number| {
                let mut request = store.request();
                for owner in &owners {
                    request.set_value(owner, TINY, &number.to_le_bytes());
                }
                request.commit()?;
                Ok(())
            })
        },
        || {
            rate(1, count, |_, number| {
                for file in plain.iter().flatten() {
                    let name = c"trusted.hfp";
                    rustix::fs::fsetxattr(
                        file.as_fd(),
                        name,
                        &number.to_le_bytes(),
                        XattrFlags::empty(),
                    )?;
                    file.sync_all()?;
                }
                Ok(())
            })
        },
    )?;
    report.add(Row {
        bench: NAME.into(),
        case: "value-on-two-files".into(),
        metric: "ops_per_s".into(),
        unit: "/s".into(),
        better: Better::Higher,
        ours: compared.ours,
        peer: compared.peer,
        peer_name: "2x fsetxattr+fsync".into(),
        ratio: compared.ratio,
        runs: compared.runs,
        spread: compared.spread,
        note: "both durable when they return; the peer may leave one file changed".into(),
    })
}
