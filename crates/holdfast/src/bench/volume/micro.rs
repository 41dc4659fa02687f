//! The microbenchmark of Ouyang et al., "Beyond Block I/O" (HPCA 2011),
//! section 6.2: 64 blocks of 512 bytes or 16 KiB, as one atomic and durable group on a volume,
//! beside direct I/O in place, which is not atomic. Then what the cleaner, headers, tables and
//! checkpoints add to what is written, on a volume that is four fifths full.

use super::{Args, NAME};
use crate::bench::row::{Better, Compared, Report, Row, alternate, compare, median};
use ::volume::{Change, ObjectId, Options, Volume, VolumeId};
use anyhow::Context as _;
use env::real::{RealDir, RealDisk};
use env::{Dir, Disk, Open, Request, Rng};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const MIB: u64 = 1 << 20;
const OBJECT: ObjectId = ObjectId(1);
/// Blocks of a group, as in the source.
const BLOCKS: u64 = 64;
/// Bytes that the groups are spread over.
const AREA_BYTES: u64 = 128 * MIB;

/// A directory that goes away with this.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} is left: {error}", self.0.display());
        }
    }
}

/// Where the blocks of a group lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pattern {
    Scattered,
    Strided,
    Sequential,
}

impl Pattern {
    const ALL: [Pattern; 3] = [Pattern::Scattered, Pattern::Strided, Pattern::Sequential];

    fn offsets(self, rng: &mut Rng, bytes: u64) -> Vec<u64> {
        let places = AREA_BYTES / bytes;
        let stride = match self {
            Pattern::Sequential => 1,
            Pattern::Strided | Pattern::Scattered => 8,
        };
        let start = rng.below(places - BLOCKS * stride);
        let place = |block| match self {
            Pattern::Scattered => rng.below(places),
            Pattern::Strided | Pattern::Sequential => start + block * stride,
        };
        (0..BLOCKS).map(place).map(|place| place * bytes).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Pattern::Scattered => "scattered",
            Pattern::Strided => "strided",
            Pattern::Sequential => "sequential",
        }
    }
}

/// A volume, and a file of the same size whose blocks are all written.
struct Scene {
    _home: Home,
    volume: Volume,
    /// Past the page cache.
    direct: RealDisk,
    /// Memory as direct I/O wants it: the content of one group begins at `start`.
    memory: Vec<u8>,
    start: usize,
}

impl Scene {
    fn new(args: &Args) -> anyhow::Result<Scene> {
        let home = (args.runs.dir).join(format!("holdfast-bench-volume-{}", std::process::id()));
        std::fs::create_dir(&home).with_context(|| format!("cannot make {}", home.display()))?;
        let home = Home(home);
        let dir = RealDir::open(&home.0)?;
        drop(dir.open("volume", Open::Create(4 * AREA_BYTES))?);
        drop(dir.open("file", Open::Create(AREA_BYTES))?);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_exclusive(home.0.join("volume"), true)?);
        let volume = Volume::overwrite(vec![disk], VolumeId(1), Options::default())?;
        let direct = RealDisk::open_exclusive(home.0.join("file"), true)?;
        let mut memory = vec![0; 2 * MIB as usize];
        Rng::from_kernel()?.fill(&mut memory);
        let start = memory.as_ptr().align_offset(4096);
        let scene = Scene {
            _home: home,
            volume,
            direct,
            memory,
            start,
        };
        for at in 0..AREA_BYTES / MIB {
            let content = scene.content(MIB as usize)?;
            scene.volume.atomic_write(&[(OBJECT, at * MIB, content)])?;
            scene.direct.write_at(at * MIB, content)?;
        }
        scene.volume.sync()?;
        scene.direct.sync()?;
        Ok(scene)
    }

    fn content(&self, bytes: usize) -> anyhow::Result<&[u8]> {
        let content = self.memory.get(self.start..self.start + bytes);
        content.context("memory for a group")
    }

    /// One group, durable; microseconds.
    fn group(&self, offsets: &[u64], bytes: usize) -> anyhow::Result<f64> {
        let content = self.content(bytes * BLOCKS as usize)?;
        let start = Instant::now();
        let writes: Vec<(ObjectId, u64, &[u8])> = (offsets.iter().zip(content.chunks(bytes)))
            .map(|(offset, block)| (OBJECT, *offset, block))
            .collect();
        self.volume.atomic_write(&writes)?;
        self.volume.sync()?;
        Ok(micros(start))
    }

    /// The same blocks in place, one after the other, then synced.
    fn one_by_one(&self, offsets: &[u64], bytes: usize) -> anyhow::Result<f64> {
        let content = self.content(bytes * BLOCKS as usize)?;
        let start = Instant::now();
        for (offset, block) in offsets.iter().zip(content.chunks(bytes)) {
            self.direct.write_at(*offset, block)?;
        }
        self.direct.sync()?;
        Ok(micros(start))
    }

    /// The same blocks in place, all at once, then synced.
    fn at_once(&self, offsets: &[u64], bytes: usize) -> anyhow::Result<f64> {
        let content = self.content(bytes * BLOCKS as usize)?;
        let start = Instant::now();
        let mut batch: Vec<Request<'_>> = (offsets.iter().zip(content.chunks(bytes)))
            .map(|(offset, data)| Request::Write {
                offset: *offset,
                data,
            })
            .collect();
        batch.push(Request::Sync);
        self.direct
            .submit(&mut batch)
            .into_iter()
            .collect::<env::Result<()>>()?;
        Ok(micros(start))
    }
}

fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

/// The median of so many groups.
fn typical(groups: usize, mut one: impl FnMut() -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    let times = (0..groups)
        .map(|_| one())
        .collect::<anyhow::Result<Vec<f64>>>()?;
    median(&times).context("no group was measured")
}

/// Runs all cases.
pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let rounds = args.runs.rounds();
    let groups = if args.runs.quick { 20 } else { 100 };
    let scene = Scene::new(args)?;
    let rng = std::cell::RefCell::new(Rng::from_kernel()?);
    for bytes in [512, 16 << 10] {
        for pattern in Pattern::ALL {
            let offsets = || pattern.offsets(&mut rng.borrow_mut(), bytes as u64);
            let ours = || typical(groups, || scene.group(&offsets(), bytes));
            let case = |peer| format!("64x{bytes}-{}-{peer}", pattern.name());
            let compared = alternate(rounds, ours, || {
                typical(groups, || scene.one_by_one(&offsets(), bytes))
            })?;
            report.add(latency(
                &case("sync"),
                compared,
                "O_DIRECT pwrites, one fdatasync",
            ))?;
            let compared = alternate(rounds, ours, || {
                typical(groups, || scene.at_once(&offsets(), bytes))
            })?;
            report.add(latency(
                &case("async"),
                compared,
                "io_uring O_DIRECT, one fdatasync",
            ))?;
        }
    }
    report.add(steady(&scene, args.runs.quick)?)?;
    Ok(())
}

fn latency(case: &str, compared: Compared, peer: &str) -> Row {
    Row {
        bench: NAME.into(),
        case: case.into(),
        metric: "latency_us_p50".into(),
        unit: "us".into(),
        better: Better::Lower,
        ours: compared.ours,
        peer: compared.peer,
        peer_name: peer.into(),
        ratio: compared.ratio,
        runs: compared.runs,
        spread: compared.spread,
        note: "64 blocks, durable; ours is atomic and checksummed, the peer's is neither".into(),
    }
}

/// Random overwrites of the whole volume, 16 blocks to a group.
fn steady(scene: &Scene, quick: bool) -> anyhow::Result<Row> {
    let volume = &scene.volume;
    let blocks = volume.stats().capacity_blocks * 8 / 10;
    let block = scene.content(4096)?;
    for start in (AREA_BYTES / 4096..blocks).step_by(256) {
        let count = (blocks - start).min(256);
        volume.atomic_write(&[(OBJECT, start * 4096, scene.content(count as usize * 4096)?)])?;
    }
    let mut rng = Rng::new(1);
    // Nine of ten writes go to one tenth of the blocks.
    let mut overwrite = |count: u64| -> anyhow::Result<()> {
        for _ in 0..count / 16 {
            let changes: Vec<Change<'_>> = (0..16)
                .map(|_| {
                    let tenth = blocks / 10;
                    let at = if rng.chance(9, 10) {
                        rng.below(tenth)
                    } else {
                        tenth + rng.below(blocks - tenth)
                    };
                    Change::Write {
                        object: OBJECT,
                        offset: at * 4096,
                        bytes: block,
                    }
                })
                .collect();
            volume.commit(&changes)?;
        }
        Ok(())
    };
    overwrite(blocks * if quick { 1 } else { 3 })?;
    let all = |counters: &serde_json::Value| -> (f64, f64) {
        let of = |name: &str| counters["counters"][name].as_f64().unwrap_or(0.0);
        let written = of("written_blocks");
        let more = [
            "moved_blocks",
            "header_blocks",
            "table_blocks",
            "checkpoint_blocks",
        ];
        (
            written,
            written + more.iter().map(|name| of(name)).sum::<f64>(),
        )
    };
    let before = all(&serde_json::to_value(volume.stats())?);
    overwrite(blocks * if quick { 1 } else { 2 })?;
    let after = all(&serde_json::to_value(volume.stats())?);
    let compared = compare(&[4096.0 * (after.1 - before.1) / (after.0 - before.0)], &[])?;
    Ok(Row {
        bench: NAME.into(),
        case: "steady-80%-full-90/10".into(),
        metric: "bytes_written_per_op".into(),
        unit: "B".into(),
        better: Better::Lower,
        ours: compared.ours,
        peer: None,
        peer_name: "-".into(),
        ratio: None,
        runs: 1,
        spread: 0.0,
        note:
            "an op is a block of 4096 bytes: 16 to a group, nine of ten to a tenth of the blocks, \
               at four fifths of what the volume may hold"
                .into(),
    })
}
