//! How fast the log is: `cargo run --release -p holdfast-vlog --example speed -- DIRECTORY [RECORDS]`.
//!
//! Beside each figure of ours stands what a plain file does in the same run: append of the same
//! bytes, and fdatasync where ours is durable.

use holdfast_vlog::{Directory, Options, Position, Result, Sync, Vlog, VlogId};
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAYLOAD: usize = 100;

struct Bench {
    path: String,
    number: u32,
}

impl Bench {
    fn directories(&self) -> Result<Vec<Directory>> {
        Directory::open(&self.path).map(|directory| vec![directory])
    }

    /// A new log.
    fn log(&mut self, sync: Sync, lanes: u32) -> Result<(Vlog, String)> {
        self.number += 1;
        let name = format!("speed-{}", self.number);
        Vlog::create(&name, self.directories()?, VlogId::from_kernel()?)?;
        let log = Vlog::open(&name, self.directories()?, options(sync, lanes), &|_| {})?;
        Ok((log, name))
    }

    fn plain(&mut self) -> std::io::Result<File> {
        self.number += 1;
        File::create(format!("{}/plain-{}", self.path, self.number))
    }
}

fn options(sync: Sync, lanes: u32) -> Options {
    Options {
        lanes,
        sync,
        ..Options::default()
    }
}

fn rate(count: u64, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

/// Each thread appends and waits; records a second.
fn durable(log: &Vlog, threads: u32, each: u64) -> Result<f64> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|stream| {
                scope.spawn(move || -> Result<()> {
                    for _ in 0..each {
                        let (_, receipt) = log.append(stream, &[7; PAYLOAD], None)?;
                        log.durable(receipt)?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or(Ok(())))
    })?;
    Ok(rate(u64::from(threads) * each, start))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which directory?")?;
    let count: u64 = match arguments.next() {
        Some(text) => text.parse()?,
        None => 1_000_000,
    };
    let mut bench = Bench { path, number: 0 };

    for threads in [1, 16] {
        let each = 2000 / u64::from(threads).min(4);
        for round in 0..3 {
            let mut plain = bench.plain()?;
            let start = Instant::now();
            for _ in 0..500 {
                plain.write_all(&[7; PAYLOAD])?;
                plain.sync_data()?;
            }
            let peer = rate(500, start);
            let (log, _) = bench.log(Sync::Always, 1)?;
            let ours = durable(&log, threads, each)?;
            println!(
                "always, {threads} appenders, round {round}: {ours:.0} records/s; one plain file, \
                 write and fdatasync each: {peer:.0}/s; ratio {:.2}",
                ours / peer
            );
        }
    }

    let every = Sync::Every(Duration::from_secs(1));
    let (log, name) = bench.log(every, 1)?;
    let mut positions: Vec<Position> = Vec::with_capacity(count as usize);
    let mut worst = Duration::ZERO;
    let start = Instant::now();
    for _ in 0..count {
        let before = Instant::now();
        positions.push(log.append(0, &[7; PAYLOAD], None)?.0);
        worst = worst.max(before.elapsed());
    }
    let ours = rate(count, start);
    let mut plain = bench.plain()?;
    let start = Instant::now();
    for index in 0..count {
        plain.write_all(&[7; PAYLOAD])?;
        if index % 500_000 == 499_999 {
            plain.sync_data()?;
        }
    }
    let peer = rate(count, start);
    println!(
        "every second, 1 appender: {ours:.0} records/s, worst append {worst:?}; one plain file, a write \
         each: {peer:.0}/s; ratio {:.2}",
        ours / peer
    );

    let (mut worst, mut slow) = (Duration::ZERO, 0);
    let mut rng = env::Rng::new(1);
    let start = Instant::now();
    for _ in 0..2 * count {
        let entry = rng.index(positions.len());
        let place = positions.get_mut(entry).ok_or("an entry")?;
        let before = Instant::now();
        *place = log.append(0, &[8; PAYLOAD], Some(*place))?.0;
        let took = before.elapsed();
        worst = worst.max(took);
        slow += u64::from(took > Duration::from_millis(1));
    }
    let status = log.status();
    println!(
        "overwrites at random while files are compacted: {:.0} records/s, worst append {worst:?}, \
         {slow} over 1 ms; {} compactions read {} MB and wrote {} MB beside {} MB of the lane; \
         {:.3} bytes of memory an entry",
        rate(2 * count, start),
        status.compactions,
        status.compacted_bytes_read >> 20,
        status.compacted_bytes_written >> 20,
        status.bytes_written >> 20,
        6.0 + status.tracking_bytes as f64 / status.records_live as f64,
    );
    for receipt in log.receipts() {
        log.durable(receipt)?;
    }
    let start = Instant::now();
    let mut compacted = 0;
    while let Some(done) = log.compact(10)? {
        compacted += done.bytes_read + done.bytes_written;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "compacting what is 10 percent dead or more: {} MB read and written in {seconds:.2} s",
        compacted >> 20
    );
    drop(log);
    let found = AtomicU64::new(0);
    let start = Instant::now();
    let sink = |_: holdfast_vlog::Record<'_>| {
        found.fetch_add(1, Ordering::Relaxed);
    };
    let log = Vlog::open(&name, bench.directories()?, options(every, 1), &sink)?;
    println!(
        "recovery: {} live records in {:.2} s, {:.0} records/s (page cache warm)",
        found.load(Ordering::Relaxed),
        start.elapsed().as_secs_f64(),
        rate(found.load(Ordering::Relaxed), start)
    );
    drop(log);
    Ok(())
}
