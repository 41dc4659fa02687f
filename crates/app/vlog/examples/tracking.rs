//! Memory that tracking takes for each entry: `cargo run --release -p holdfast-vlog --example
//! tracking -- DIRECTORY [ENTRIES]`.
//!
//! Entries of 16 bytes are written, then overwritten at random while files are compacted, then
//! all but one in sixteen are killed. Printed is what the log counts, and what the process has grown by
//! besides (the positions are the example's, 6 bytes each).

use env::Rng;
use holdfast_vlog::{Directory, Options, Position, Sync, Vlog, VlogId};

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1);
    let pages: u64 = pages.and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which directory?")?;
    let count: u64 = match arguments.next() {
        Some(text) => text.parse()?,
        None => 2_000_000,
    };
    let directory = || Directory::open(&path).map(|directory| vec![directory]);
    Vlog::create("tracking", directory()?, VlogId::from_kernel()?)?;
    let options = Options {
        sync: Sync::Never,
        threads: false,
        ..Options::default()
    };
    let mut positions: Vec<Position> = Vec::with_capacity(count as usize);
    let log = Vlog::open("tracking", directory()?, options, &|_| {})?;
    let start = resident_bytes();
    let show = |what: &str, positions: &[Position]| {
        let status = log.status();
        let live = status.records_live as f64;
        let set = status.tracking_bytes as f64 / live;
        println!(
            "{what}: {live} live entries of {} records in {} segments; {:.3} bytes each with \
             positions ({set:.3} without); the process grew by {:.2} bytes an entry in all, {} \
             positions and file buffers included; {} compactions wrote {} MB beside {} MB",
            status.records,
            status.segments,
            6.0 + set,
            resident_bytes().saturating_sub(start) as f64 / live,
            positions.len(),
            status.compactions,
            status.compacted_bytes_written >> 20,
            status.bytes_written >> 20,
        );
    };
    let mut rng = Rng::new(1);
    for entry in 0..count {
        let (position, _) = log.append((entry % 256) as u32, &[entry as u8; 16], None)?;
        positions.push(position);
        if entry % 65536 == 0 {
            log.flush(0)?;
        }
    }
    log.flush(0)?;
    show("written", &positions);
    for round in 1..=4 {
        for step in 0..count {
            let entry = rng.index(positions.len());
            let place = positions.get_mut(entry).ok_or("an entry")?;
            let (position, _) =
                log.append((entry % 256) as u32, &[step as u8; 16], Some(*place))?;
            *place = position;
            if step % 65536 == 0 {
                log.flush(0)?;
                while log.compact(50)?.is_some() {}
            }
        }
        show(&format!("overwritten {round} times over"), &positions);
    }
    for (entry, position) in positions.iter().enumerate() {
        if entry % 16 != 0 {
            log.kill((entry % 256) as u32, *position)?;
        }
        if entry % 65536 == 0 {
            log.flush(0)?;
        }
    }
    log.flush(0)?;
    while log.compact(50)?.is_some() {}
    show("killed but for one in sixteen", &positions);
    log.close()?;
    Ok(())
}
