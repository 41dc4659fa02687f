//! `holdfast bench stripes`: what it costs to give up copies, to write to what gave them up, to
//! merge, and to do without a store.
//! The stripes are the real ones, on three directories of one file system; no mount is involved.

use super::row::{Better, Compared, Report, Row, alternate};
use super::runs::Runs;
use anyhow::Context as _;
use env::real::RealDir;
use env::{Dir, Disk, Open, Rng};
use filemeta::{Options, Places, StoreId};
use parity::{Geometry, Shard};
use redundancy::encoding::{ChunkBytes, StripeId};
use redundancy::label::{ObjectId, StoreIndex};
use redundancy::set::SetId;
use redundancy::store::Node;
use redundancy::stripes::{
    Base, Draft, Layout, MERGE_PAGES_MAX, NamedBases, PAGE_BYTES, PageWrite, Site, Slot, Stripes,
};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Name on the command line and in the rows.
pub(super) const NAME: &str = "stripes";

mod delayed;

const MIB: u64 = 1 << 20;
/// Stripes that share their syncs: as many as the engine takes of chunks of this size.
const TOGETHER: usize = 4;
/// Data shards and stores of 2+1.
const DATA: u8 = 2;
const STORES: u8 = 3;

/// Stripes of chunks: encoding, merging, and reading without a store, beside plain files
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    runs: Runs,
    /// MiB of data to encode, at chunks of 4 MiB (default: 512, with --quick 64)
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(8..))]
    mib: Option<u64>,
}

/// A directory that goes away with this.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} is left: {error}", self.0.display());
        }
    }
}

/// Three stores with one file each on the first two.
struct Scene {
    home: Home,
    stripes: Arc<Stripes>,
    chunk: ChunkBytes,
    count: u64,
    /// The file of each store, and a second one that a copy goes to.
    plain: Vec<(Arc<dyn Disk>, Arc<dyn Disk>)>,
    numbers: std::cell::Cell<u64>,
}

fn below(home: &Path, store: u8, name: &str) -> anyhow::Result<RealDir> {
    let home = RealDir::open(home)?.subdirectory(&format!("store{store}"))?;
    Ok(home.subdirectory(name)?)
}

impl Scene {
    fn new(args: &Args) -> anyhow::Result<Scene> {
        let mib = args.mib.unwrap_or(if args.runs.quick { 64 } else { 512 });
        let chunk = ChunkBytes::new(4 * MIB)?;
        let count = (mib * MIB / u64::from(DATA)).div_ceil(chunk.get());
        let home = args
            .runs
            .dir
            .join(format!("holdfast-bench-stripes-{}", std::process::id()));
        std::fs::create_dir(&home).with_context(|| format!("cannot make {}", home.display()))?;
        let home = Home(home);
        let mut sites = Vec::new();
        let mut plain = Vec::new();
        let mut rng = Rng::new(1);
        for store in 0..STORES {
            let data = below(&home.0, store, "data")?;
            let mut make = |name| -> anyhow::Result<Arc<dyn Disk>> {
                let disk = data.open(name, Open::Create(count * chunk.get()))?;
                let mut bytes = vec![0; MIB as usize];
                for at in 0..count * chunk.get() / MIB {
                    rng.fill(&mut bytes);
                    disk.write_at(at * MIB, &bytes)?;
                }
                disk.sync()?;
                Ok(disk)
            };
            plain.push((make("file")?, make("copy")?));
            let _made = below(&home.0, store, "meta")?;
            let places = Places::real(&home.0.join(format!("store{store}/meta")))?;
            let id = StoreId(1 + u128::from(store));
            let options = Options::default();
            let site = Site {
                store: StoreIndex(store),
                shards: Arc::new(below(&home.0, store, "shards")?),
                notes: filemeta::Store::create(&places, id, c"trusted.hfm", options)?,
                bases: Arc::new(NamedBases(Arc::new(data))),
            };
            sites.push((site, Vec::new()));
        }
        let (stripes, _) = Stripes::open(SetId(1), sites, Rng::from_kernel()?)?;
        Ok(Scene {
            home,
            stripes: Arc::new(stripes),
            chunk,
            count,
            plain,
            numbers: std::cell::Cell::new(1),
        })
    }

    fn bytes(&self) -> f64 {
        (self.count * self.chunk.get() * u64::from(DATA)) as f64
    }

    fn layout(&self, chunk: u64) -> anyhow::Result<Layout> {
        let slots = (0..STORES).map(|n| {
            let store = StoreIndex(n);
            if n < DATA {
                Slot::Data {
                    store,
                    object: ObjectId(10 + u64::from(n)),
                    chunk: chunk as u32,
                }
            } else {
                Slot::Parity { store }
            }
        });
        Ok(Layout {
            geometry: Geometry::new(DATA, STORES - DATA)?,
            chunk: self.chunk,
            slots: slots.collect(),
        })
    }

    /// Makes all stripes; their numbers.
    fn encode(&self) -> anyhow::Result<Vec<StripeId>> {
        let mut drafts = Vec::new();
        for chunk in 0..self.count {
            let number = self.numbers.get();
            self.numbers.set(number + 1);
            let id = StripeId(NonZeroU64::new(number).context("a number")?);
            let base = Base {
                node: Node(b"file".as_slice().into()),
                offset: chunk * self.chunk.get(),
                copies: Vec::new(),
            };
            let bases = (0..DATA).map(|shard| (Shard(shard), base.clone()));
            drafts.push(Draft {
                id,
                layout: self.layout(chunk)?,
                bases: bases.collect(),
            });
        }
        let made = drafts.iter().map(|draft| draft.id).collect();
        for together in drafts.chunks(TOGETHER) {
            let prepared = self.stripes.prepare(together.iter().cloned())?;
            prepared.activate(|_| true)?;
        }
        Ok(made)
    }

    /// What a copy of the same data costs, durable.
    fn copy(&self) -> anyhow::Result<()> {
        let mut buffer = vec![0; 256 << 10];
        for (from, to) in self.plain.iter().take(usize::from(DATA)) {
            for chunk in 0..self.count {
                let start = chunk * self.chunk.get();
                for at in (start..start + self.chunk.get()).step_by(buffer.len()) {
                    from.read_at(at, &mut buffer)?;
                    to.write_at(at, &buffer)?;
                }
                to.sync()?;
            }
        }
        Ok(())
    }
}

fn mb_per_s(bytes: f64, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(bytes / 1e6 / start.elapsed().as_secs_f64())
}

/// Runs all cases.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let rounds = args.runs.rounds();
    let mut report = Report::new(args.runs.json.as_deref())?;
    let scene = Scene::new(args)?;
    let compared = encode(&scene, rounds)?;
    report.add(row(
        "encode-2+1",
        "mb_per_s",
        compared,
        "copy, synced each 4 MiB",
        "bytes of data; ours computes, writes, syncs, reads again and compares, and leaves half as \
         much behind as the copy",
    ))?;
    let stripes = scene.encode()?;
    for pages in [1, MERGE_PAGES_MAX] {
        let compared = merge(&scene, &stripes, rounds, pages, args.runs.quick)?;
        report.add(row(
            &format!("merge-{pages}-pages"),
            "ops_per_s",
            compared,
            "two copies: pwrite and fdatasync of each",
            "pages a second, on the medium; the peer's pages may be torn, ours may not, nor part \
             from their parity",
        ))?;
    }
    let compared = degraded(&scene, &stripes, rounds)?;
    report.add(row(
        "read-without-a-store",
        "mb_per_s",
        compared,
        "the file itself",
        "bytes of the lost store's chunks; both from the page cache",
    ))?;
    delayed::run(&scene, &stripes, args, &mut report)?;
    drop(scene.home);
    Ok(())
}

fn row(case: &str, metric: &str, compared: Compared, peer: &str, note: &str) -> Row {
    Row {
        bench: NAME.into(),
        case: case.into(),
        metric: metric.into(),
        unit: if metric == "mb_per_s" { "MB/s" } else { "/s" }.into(),
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

fn encode(scene: &Scene, rounds: usize) -> anyhow::Result<Compared> {
    alternate(
        rounds,
        || {
            let mut made = Vec::new();
            let rate = mb_per_s(scene.bytes(), || {
                made = scene.encode()?;
                Ok(())
            });
            for id in made {
                scene.stripes.remove(&[id])?;
            }
            rate
        },
        || mb_per_s(scene.bytes(), || scene.copy()),
    )
}

/// Pages in a random order, merged `pages` at a time; all of a batch in one stripe.
fn merge(
    scene: &Scene,
    stripes: &[StripeId],
    rounds: usize,
    pages: usize,
    quick: bool,
) -> anyhow::Result<Compared> {
    let batches = if pages == 1 { 200 } else { 20 } / if quick { 4 } else { 1 };
    let all = (scene.chunk.get() / PAGE_BYTES as u64) as usize;
    let rng = std::cell::RefCell::new(Rng::from_kernel()?);
    let content = || {
        let mut bytes = vec![0; PAGE_BYTES];
        rng.borrow_mut().fill(&mut bytes);
        bytes
    };
    let total = (batches * pages) as f64;
    alternate(
        rounds,
        || {
            let start = Instant::now();
            for _ in 0..batches {
                let at = rng.borrow_mut().index(stripes.len());
                let id = *stripes.get(at).context("a stripe")?;
                let bytes: Vec<Vec<u8>> = (0..pages).map(|_| content()).collect();
                let mut rng = rng.borrow_mut();
                let writes = bytes.iter().map(|bytes| PageWrite {
                    shard: Shard(rng.below(DATA.into()) as u8),
                    page: rng.index(all) as u32,
                    bytes,
                });
                scene.stripes.merge(id, &writes.collect::<Vec<_>>())?;
            }
            Ok(total / start.elapsed().as_secs_f64())
        },
        || {
            let start = Instant::now();
            let files = scene.plain.last().context("a store")?;
            for _ in 0..batches {
                for _ in 0..pages {
                    let page = rng.borrow_mut().below(scene.count * all as u64);
                    let bytes = content();
                    files.0.write_at(page * PAGE_BYTES as u64, &bytes)?;
                    files.1.write_at(page * PAGE_BYTES as u64, &bytes)?;
                }
                files.0.sync()?;
                files.1.sync()?;
            }
            Ok(total / start.elapsed().as_secs_f64())
        },
    )
}

fn degraded(scene: &Scene, stripes: &[StripeId], rounds: usize) -> anyhow::Result<Compared> {
    let bytes = scene.bytes() / f64::from(DATA);
    let mut buffer = vec![0; MIB as usize];
    let mut other = vec![0; MIB as usize];
    alternate(
        rounds,
        || {
            mb_per_s(bytes, || {
                for id in stripes {
                    for at in (0..scene.chunk.get()).step_by(buffer.len()) {
                        scene.stripes.reconstruct(*id, Shard(0), at, &mut buffer)?;
                    }
                }
                Ok(())
            })
        },
        || {
            let (file, _) = scene.plain.first().context("a store")?;
            mb_per_s(bytes, || {
                for at in (0..scene.count * scene.chunk.get()).step_by(other.len()) {
                    file.read_at(at, &mut other)?;
                }
                Ok(())
            })
        },
    )
}
