//! The cases of `Disk::submit`, and the deviants that they must find.

use crate::Case;
use holdfast_env::errno::Errno;
use holdfast_env::real::RealDir;
use holdfast_env::sim::World;
use holdfast_env::{BATCH_DEPTH, Dir, Disk, Open, Request, Result, Rng};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(crate) const CASES: &[(&str, Case)] = &[
    ("an empty batch has no results", empty),
    ("a batch writes, and a batch reads it back", read_back),
    ("a batch may be far longer than its depth", long),
    ("each result stands where its request does", positional),
    ("a sync is a barrier for what stands around it", barrier),
    ("a batch on a durable disk, aligned or not", durable),
    ("a request without bytes is done", without_bytes),
    ("a failing request stops no other", failing),
    ("threads may submit to a disk at once", shared),
];

fn write(offset: u64, data: &[u8]) -> Request<'_> {
    Request::Write { offset, data }
}

fn read(offset: u64, buffer: &mut [u8]) -> Request<'_> {
    Request::Read { offset, buffer }
}

fn empty(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(1)).unwrap();
    assert_eq!(disk.submit(&mut []), []);
    assert_eq!(disk.submit(&mut [Request::Sync]), [Ok(())]);
}

fn read_back(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(10_000)).unwrap();
    let results = disk.submit(&mut [
        write(5, b"hello"),
        write(8190, b"across"),
        write(9_998, b"past the end"),
        Request::Sync,
    ]);
    assert_eq!(results, [Ok(()); 4]);
    let (mut first, mut second, mut third) = ([0; 7], [0; 6], [0; 12]);
    let results = disk.submit(&mut [
        read(4, &mut first),
        read(8190, &mut second),
        read(9_998, &mut third),
    ]);
    assert_eq!(results, [Ok(()); 3]);
    assert_eq!(
        (&first, &second, &third),
        (b"\0hello\0", b"across", b"past the end")
    );
    assert_eq!(disk.len().unwrap(), 10_010);
}

fn long(dir: Arc<dyn Dir>) {
    const PIECE: usize = 3000;
    let count = 5 * BATCH_DEPTH + 7;
    let disk = dir.open("f", Open::Create(0)).unwrap();
    let mut content = vec![0; count * PIECE];
    Rng::new(11).fill(&mut content);
    let mut writes: Vec<_> = content
        .chunks(PIECE)
        .enumerate()
        .map(|(index, piece)| write((index * PIECE) as u64, piece))
        .collect();
    // Backwards, so that the file grows by leaps.
    writes.reverse();
    assert_eq!(disk.submit(&mut writes), vec![Ok(()); count]);
    let mut found = vec![0; content.len()];
    let mut reads: Vec<_> = found
        .chunks_mut(PIECE)
        .enumerate()
        .map(|(index, piece)| read((index * PIECE) as u64, piece))
        .collect();
    assert_eq!(disk.submit(&mut reads), vec![Ok(()); count]);
    assert!(found == content);
}

fn positional(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(100)).unwrap();
    let mut buffers = [[0; 10]; 6];
    let [a, b, c, d, e, f] = &mut buffers;
    let results = disk.submit(&mut [
        read(0, a),
        read(95, b),
        read(90, c),
        read(u64::MAX, d),
        read(1 << 40, e),
        read(i64::MAX as u64, f),
    ]);
    let past = Err(Errno::INVAL);
    assert_eq!(results, [Ok(()), past, Ok(()), past, past, past]);
}

fn barrier(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(8192)).unwrap();
    for round in 1..20u8 {
        let (old, new) = ([round; 4096], [round + 100; 4096]);
        let mut found = [[0; 4096]; 3];
        let [before, between, after] = &mut found;
        let results = disk.submit(&mut [
            write(0, &old),
            Request::Sync,
            read(0, before),
            Request::Sync,
            write(0, &new),
            read(4096, between),
            Request::Sync,
            read(0, after),
        ]);
        assert_eq!(results, [Ok(()); 8]);
        assert_eq!((found[0], found[2]), (old, new));
        assert_eq!(found[1], [0; 4096]);
    }
}

fn durable(dir: Arc<dyn Dir>) {
    dir.open("f", Open::Create(64 << 10)).unwrap();
    let disk = dir.open("f", Open::WriteDurable).unwrap();
    let mut memory = vec![0; 32 << 10];
    Rng::new(3).fill(&mut memory);
    let start = memory.as_ptr().align_offset(4096);
    let memory = &memory[start..];
    let results = disk.submit(&mut [
        // Memory that is aligned, memory that is not, and ranges that are not.
        write(0, &memory[..8192]),
        write(8192, &memory[1..4097]),
        write(16_384, &memory[8192..][..4096]),
        write(20_481, &memory[..4096]),
        write(40_000, b"small"),
    ]);
    assert_eq!(results, [Ok(()); 5]);
    let content = dir.read("f").unwrap();
    assert_eq!(content[..8192], memory[..8192]);
    assert_eq!(content[8192..][..4096], memory[1..4097]);
    assert_eq!(content[16_384..][..4096], memory[8192..][..4096]);
    assert_eq!(content[20_481..][..4096], memory[..4096]);
    assert_eq!(&content[40_000..40_006], b"small\0");
}

fn without_bytes(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(4)).unwrap();
    let results = disk.submit(&mut [write(2, b""), read(4, &mut []), write(0, b"abcd")]);
    assert_eq!(results, [Ok(()); 3]);
    assert_eq!(dir.read("f").unwrap(), b"abcd");
}

fn failing(dir: Arc<dyn Dir>) {
    dir.replace("f", b"content").unwrap();
    let disk = dir.open("f", Open::Read).unwrap();
    let (mut first, mut second) = ([0; 7], [0; 3]);
    let results = disk.submit(&mut [
        read(0, &mut first),
        write(0, b"x"),
        write(1, b"y"),
        read(4, &mut second),
    ]);
    let refused = Err(Errno::BADF);
    assert_eq!(results, [Ok(()), refused, refused, Ok(())]);
    assert_eq!((&first, &second), (b"content", b"ent"));
    let results = disk.submit(&mut [Request::Sync, read(0, &mut second)]);
    assert_eq!(results, [refused, Ok(())], "poisoned by the refused write");
    assert_eq!(dir.read("f").unwrap(), b"content");
}

fn shared(dir: Arc<dyn Dir>) {
    let disk = dir.open("f", Open::Create(256 << 10)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let disk = &disk;
            scope.spawn(move || {
                let data = [thread + 1; 4096];
                let offset = |index: u64| (u64::from(thread) * 16 + index) * 4096;
                let mut batch: Vec<_> = (0..16).map(|i| write(offset(i), &data)).collect();
                batch.push(Request::Sync);
                assert_eq!(disk.submit(&mut batch), [Ok(()); 17]);
            });
        }
    });
    let content = dir.read("f").unwrap();
    for (thread, part) in content.chunks(64 << 10).enumerate() {
        assert!(part.iter().all(|byte| usize::from(*byte) == thread + 1));
    }
}

/// How the disks of a [`Wrapped`] directory run batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// By the provided method.
    Provided,
    /// Syncs first, then the rest in any order, here the last first: no sync covers its writes.
    SyncsFirst,
    /// The last request first, with no regard to syncs.
    Backwards,
    /// Right, with the results in the order of completion.
    ResultsMoved,
    /// What is past the depth is left out.
    CutShort,
}

struct Wrapped(Arc<dyn Dir>, Way);
struct WrappedDisk(Arc<dyn Disk>, Way);

impl Dir for Wrapped {
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn Disk>> {
        let disk = self.0.open(name, how)?;
        Ok(Arc::new(WrappedDisk(disk, self.1)))
    }
    fn read(&self, name: &str) -> Result<Vec<u8>> {
        self.0.read(name)
    }
    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        self.0.replace(name, content)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.0.list()
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
}

impl WrappedDisk {
    fn one(&self, request: &mut Request<'_>) -> Result<()> {
        match request {
            Request::Read { offset, buffer } => self.0.read_at(*offset, buffer),
            Request::Write { offset, data } => self.0.write_at(*offset, data),
            Request::Sync => self.0.sync(),
        }
    }
}

impl Disk for WrappedDisk {
    fn len(&self) -> Result<u64> {
        self.0.len()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.0.write_at(offset, data)
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.0.discard(offset, length)
    }
    fn submit(&self, batch: &mut [Request<'_>]) -> Vec<Result<()>> {
        let mut order: Vec<usize> = (0..batch.len()).collect();
        match self.1 {
            Way::Provided => return holdfast_env::batch::one_by_one(self, batch),
            Way::SyncsFirst => {
                order.reverse();
                order.sort_by_key(|index| !matches!(batch[*index], Request::Sync));
            }
            Way::Backwards => order.reverse(),
            Way::ResultsMoved => {}
            Way::CutShort => order.truncate(BATCH_DEPTH),
        }
        let mut results = vec![Ok(()); batch.len()];
        for index in order {
            results[index] = self.one(&mut batch[index]);
        }
        if self.1 == Way::ResultsMoved {
            results.reverse();
        }
        results
    }
}

#[test]
fn the_provided_method_keeps_the_contract() {
    for (name, case) in CASES {
        println!("{name}");
        case(Arc::new(Wrapped(World::new(1).dir("store"), Way::Provided)));
    }
}

/// The canary: which cases complain about a deviant.
fn complaints(way: Way, dir: impl Fn() -> Arc<dyn Dir>) -> Vec<&'static str> {
    let found = CASES.iter().filter(|(_, case)| {
        let deviant = Arc::new(Wrapped(dir(), way));
        catch_unwind(AssertUnwindSafe(|| case(deviant))).is_err()
    });
    found.map(|(name, _)| *name).collect()
}

#[test]
fn every_deviant_is_found_on_both() {
    let home = tempfile::tempdir().unwrap();
    let counter = std::cell::Cell::new(0);
    let real = || -> Arc<dyn Dir> {
        counter.set(counter.get() + 1);
        let path = home.path().join(counter.get().to_string());
        std::fs::create_dir(&path).unwrap();
        Arc::new(RealDir::open(path).unwrap())
    };
    let simulated = || -> Arc<dyn Dir> { World::new(1).dir("store") };
    for way in [
        Way::SyncsFirst,
        Way::Backwards,
        Way::ResultsMoved,
        Way::CutShort,
    ] {
        let (on_real, on_sim) = (complaints(way, real), complaints(way, simulated));
        println!("{way:?}: {on_real:?} / {on_sim:?}");
        assert!(!on_real.is_empty() && !on_sim.is_empty(), "{way:?}");
    }
}
