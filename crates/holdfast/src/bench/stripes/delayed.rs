//! Random writes to encoded chunks: delayed parity beside replication, and the methods that it
//! replaces ([F] section 5.3.1).

use super::{Args, Better, DATA, NAME, PAGE_BYTES, Report, Row, STORES, Scene, below};
use crate::bench::latency::{Figures, Samples};
use crate::bench::row::compare;
use anyhow::Context as _;
use env::{Disk, Rng};
use parity::Shard;
use redundancy::encoding::StripeId;
use redundancy::label::StoreIndex;
use redundancy::stripes::delayed::{Delayed, LogSite, Method, Options};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which of [`Figures`] a row shows.
type Metric = (&'static str, Better, fn(&Figures) -> f64);

const P50: Metric = ("latency_us_p50", Better::Lower, |f| f.p50);
const P99: Metric = ("latency_us_p99", Better::Lower, |f| f.p99);
const P999: Metric = ("latency_us_p999", Better::Lower, |f| f.p999);
const RATE: Metric = ("ops_per_s", Better::Higher, |f| f.ops_per_s);

/// Pages of a set that no run of a writer reaches: nothing is merged meanwhile.
const MANY_PAGES: u64 = 1 << 32;

/// Pages above which a merge runs beside the writer.
const FEW_PAGES: u64 = 512;

/// Turns that the writes of a round are cut into, so that what else the machine does falls on all
/// sides alike.
const TURNS: usize = 5;

/// Who writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Delayed,
    Replication,
    Naive,
    ParityLogging,
}

/// What is written, and how.
#[derive(Clone, Copy)]
struct Load {
    bytes: usize,
    ops: usize,
    /// Writes in a hundred that go to encoded chunks; the others are replicated.
    encoded: u64,
    /// Each write is made durable.
    synced: bool,
    /// A merge runs all the while.
    merging: bool,
}

struct Writers<'a> {
    scene: &'a Scene,
    stripes: &'a [StripeId],
    delayed: Arc<Delayed>,
    merging: Arc<Delayed>,
    naive: Delayed,
    parity_logging: Delayed,
    rng: RefCell<Rng>,
    content: Vec<u8>,
    turn: Cell<usize>,
}

impl<'a> Writers<'a> {
    fn new(scene: &'a Scene, stripes: &'a [StripeId]) -> anyhow::Result<Writers<'a>> {
        let open = |method, limit, name: &str| -> anyhow::Result<Delayed> {
            let sites = (0..STORES).map(|store| {
                Ok(LogSite {
                    store: StoreIndex(store),
                    dir: Arc::new(below(&scene.home.0, store, name)?),
                })
            });
            let sites: Vec<LogSite> = sites.collect::<anyhow::Result<_>>()?;
            let options = Options {
                method,
                ..Options::new(limit)
            };
            Ok(Delayed::open(scene.stripes.clone(), sites, options)?.0)
        };
        let mut content = vec![0; 1 << 20];
        let mut rng = Rng::from_kernel()?;
        rng.fill(&mut content);
        Ok(Writers {
            scene,
            stripes,
            delayed: Arc::new(open(Method::Delayed, MANY_PAGES, "delayed")?),
            merging: Arc::new(open(Method::Delayed, FEW_PAGES, "merging")?),
            naive: open(Method::Naive, MANY_PAGES, "naive")?,
            parity_logging: open(Method::ParityLogging, MANY_PAGES, "logging")?,
            rng: RefCell::new(rng),
            content,
            turn: Cell::new(0),
        })
    }

    /// One write to both files of the store that has no bases.
    fn replicate(&self, load: Load, copies: &(Arc<dyn Disk>, Arc<dyn Disk>)) -> anyhow::Result<()> {
        let mut rng = self.rng.borrow_mut();
        let bytes = load.bytes as u64;
        let places = self.scene.count * self.scene.chunk.get() / bytes;
        let at = rng.below(places) * bytes;
        let from = rng.index(self.content.len() - load.bytes);
        let content = &self.content[from..from + load.bytes];
        for copy in [&copies.0, &copies.1] {
            copy.write_at(at, content)?;
        }
        if load.synced {
            copies.0.sync()?;
            copies.1.sync()?;
        }
        Ok(())
    }

    fn write(&self, load: Load, to: &Delayed) -> anyhow::Result<()> {
        let mut rng = self.rng.borrow_mut();
        let bytes = load.bytes as u64;
        let at = rng.below(self.scene.chunk.get() / bytes) * bytes;
        let from = rng.index(self.content.len() - load.bytes);
        let content = &self.content[from..from + load.bytes];
        let index = rng.index(self.stripes.len());
        let id = *self.stripes.get(index).context("a stripe")?;
        let shard = Shard(rng.below(DATA.into()) as u8);
        to.write(id, shard, at, content)?;
        if load.synced {
            to.sync(id, shard)?;
        }
        Ok(())
    }

    fn run(&self, side: Side, load: Load, samples: &mut Samples) -> anyhow::Result<()> {
        let copies = self.scene.plain.last().context("a store")?;
        let to = match side {
            Side::Delayed if load.merging => &*self.merging,
            Side::Delayed => &*self.delayed,
            Side::Naive => &self.naive,
            Side::ParityLogging => &self.parity_logging,
            Side::Replication => {
                samples.add(load.ops, || self.replicate(load, copies))?;
                return self.settle(copies);
            }
        };
        let ops = match side {
            // A merge of a page takes milliseconds.
            Side::Naive => (load.ops / 100).max(20),
            _ => load.ops,
        };
        let done = AtomicBool::new(false);
        let measured = std::thread::scope(|scope| {
            // It also makes segments ahead, where it has nothing to merge.
            let merger = (side == Side::Delayed).then(|| {
                scope.spawn(|| -> anyhow::Result<()> {
                    while !done.load(Ordering::Relaxed) {
                        to.merge_some(240)?;
                        std::thread::sleep(PAUSE);
                    }
                    Ok(())
                })
            });
            let measured = samples.add(ops, || {
                let encoded = self.rng.borrow_mut().below(100) < load.encoded;
                if encoded {
                    self.write(load, to)
                } else {
                    self.replicate(load, copies)
                }
            });
            done.store(true, Ordering::Relaxed);
            match merger.map(std::thread::ScopedJoinHandle::join) {
                Some(Ok(merged)) => merged?,
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                None => {}
            }
            measured
        });
        to.settle_parity_log()?;
        to.forget(self.stripes)?;
        to.merge_some(0)?;
        self.settle(copies)?;
        measured
    }

    /// The next side is not to wait for what this one left in the page cache.
    fn settle(&self, copies: &(Arc<dyn Disk>, Arc<dyn Disk>)) -> anyhow::Result<()> {
        copies.0.sync()?;
        copies.1.sync()?;
        for (file, _) in &self.scene.plain {
            file.sync()?;
        }
        Ok(())
    }

    /// All sides in turn, each round beginning with another.
    fn measure(
        &self,
        rounds: usize,
        load: Load,
        sides: &[Side],
    ) -> anyhow::Result<Vec<Vec<Figures>>> {
        let mut measured = vec![Vec::new(); sides.len()];
        let load = Load {
            ops: load.ops / TURNS,
            ..load
        };
        for _ in 0..rounds {
            let mut samples: Vec<Samples> = sides.iter().map(|_| Samples::default()).collect();
            for _ in 0..TURNS {
                let first = self.turn.replace(self.turn.get() + 1);
                for step in 0..sides.len() {
                    let at = (first + step) % sides.len();
                    self.run(sides[at], load, &mut samples[at])?;
                }
            }
            for (round, samples) in measured.iter_mut().zip(samples) {
                round.push(samples.figures());
            }
        }
        Ok(measured)
    }
}

/// What the merging thread rests between two looks.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

fn peer(side: Side) -> (&'static str, &'static str) {
    match side {
        Side::Replication => (
            "replication",
            "page cache only, both; the peer writes to two plain files, ours to two logs",
        ),
        Side::Naive => (
            "naive",
            "every write of the peer is a merge at once, which is on the medium when it returns; \
             ours is in the page cache",
        ),
        Side::ParityLogging => (
            "parity logging",
            "page cache only, both; the peer is not safe: base and log change one after the other",
        ),
        Side::Delayed => ("delayed", ""),
    }
}

/// Runs all cases.
pub(super) fn run(
    scene: &Scene,
    stripes: &[StripeId],
    args: &Args,
    report: &mut Report,
) -> anyhow::Result<()> {
    let writers = Writers::new(scene, stripes)?;
    let rounds = args.runs.rounds();
    let ops = if args.runs.quick { 4000 } else { 20_000 };
    let all = [
        Side::Delayed,
        Side::Replication,
        Side::Naive,
        Side::ParityLogging,
    ];
    for bytes in [2 * PAGE_BYTES, PAGE_BYTES / 2] {
        let load = Load {
            bytes,
            ops,
            encoded: 100,
            synced: false,
            merging: false,
        };
        let size = format!("{}k", bytes >> 10);
        let measured = writers.measure(rounds, load, &all)?;
        let name = format!("write-{size}-encoded");
        add(report, &name, "", &all, &measured, &[P50, P99, P999, RATE])?;

        let mixed = Load {
            encoded: 20,
            ..load
        };
        let measured = writers.measure(rounds, mixed, &all[..3])?;
        let note = "; 20 of 100 writes go to encoded chunks, the others to two plain files";
        let name = format!("write-{size}-20-percent-encoded");
        add(report, &name, note, &all[..3], &measured, &[P99, RATE])?;

        let merging = Load {
            merging: true,
            ..load
        };
        let measured = writers.measure(rounds, merging, &all[..2])?;
        let note = "; beside ours a thread merges all the time, and is outrun: a writer that never \
                    rests writes more than parity can take";
        let name = format!("write-{size}-while-merging");
        add(report, &name, note, &all[..2], &measured, &[P50, P99, RATE])?;

        let synced = Load {
            synced: true,
            ops: ops / 40,
            ..load
        };
        let measured = writers.measure(rounds, synced, &all[..2])?;
        let note = "; each write is synced on both copies, one after the other";
        let name = format!("write-{size}-synced");
        add(report, &name, note, &all[..2], &measured, &[P50, P99, RATE])?;
    }
    Ok(())
}

fn add(
    report: &mut Report,
    case: &str,
    note: &str,
    sides: &[Side],
    measured: &[Vec<Figures>],
    metrics: &[Metric],
) -> anyhow::Result<()> {
    let ours = measured.first().context("a run of ours")?;
    for (side, theirs) in sides.iter().zip(measured).skip(1) {
        for (metric, better, of) in metrics {
            let ours: Vec<f64> = ours.iter().map(of).collect();
            let theirs: Vec<f64> = theirs.iter().map(of).collect();
            let compared = compare(&ours, &theirs)?;
            let (name, differs) = peer(*side);
            let differs = match note.contains("synced") {
                true => "the peer writes to two plain files, ours to two logs",
                false => differs,
            };
            report.add(Row {
                bench: NAME.into(),
                case: case.into(),
                metric: (*metric).into(),
                unit: if *metric == "ops_per_s" { "/s" } else { "us" }.into(),
                better: *better,
                ours: compared.ours,
                peer: compared.peer,
                peer_name: name.into(),
                ratio: compared.ratio,
                runs: compared.runs,
                spread: compared.spread,
                note: format!("{differs}{note}"),
            })?;
        }
    }
    Ok(())
}
