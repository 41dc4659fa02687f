//! Write amplification of a volume that is kept four fifths full, in memory: how much the cleaner,
//! headers, tables and checkpoints add to what is written.
//!
//! `cargo run --release -p holdfast-volume --example steady_state`; with a number only so many cases.

use env::errno::Errno;
use env::{Disk, Rng};
use holdfast_volume::{Change, ObjectId, Options, Ticket, Volume, VolumeId};
use std::sync::{Arc, RwLock};

/// A disk in memory.
struct Memory(RwLock<Vec<u8>>);

impl Disk for Memory {
    fn len(&self) -> env::Result<u64> {
        Ok(self.0.read().map_err(|_| Errno::IO)?.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> env::Result<()> {
        let content = self.0.read().map_err(|_| Errno::IO)?;
        let range = offset as usize..offset as usize + buffer.len();
        buffer.copy_from_slice(content.get(range).ok_or(Errno::INVAL)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> env::Result<()> {
        let mut content = self.0.write().map_err(|_| Errno::IO)?;
        let range = offset as usize..offset as usize + data.len();
        let room = content.get_mut(range).ok_or(Errno::NOSPC)?;
        room.copy_from_slice(data);
        Ok(())
    }

    fn sync(&self) -> env::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> env::Result<()> {
        Ok(())
    }
}

/// Ranks by Zipf's law with exponent `theta` below 1 (Gray et al., "Quickly Generating
/// Billion-Record Synthetic Databases", SIGMOD 1994), spread over the blocks.
struct Zipf {
    count: f64,
    theta: f64,
    zeta: f64,
}

impl Zipf {
    fn new(count: u64, theta: f64) -> Zipf {
        let zeta = (1..=count).map(|rank| (rank as f64).powf(-theta)).sum();
        Zipf {
            count: count as f64,
            theta,
            zeta,
        }
    }

    fn next(&self, rng: &mut Rng) -> u64 {
        let chance = rng.below(1 << 53) as f64 / (1u64 << 53) as f64;
        let scaled = chance * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        let alpha = 1.0 / (1.0 - self.theta);
        let two = 2f64.powf(-self.theta);
        if scaled < 1.0 + two {
            return 1;
        }
        let eta =
            (1.0 - (2.0 / self.count).powf(1.0 - self.theta)) / (1.0 - (1.0 + two) / self.zeta);
        let rank = self.count * (eta * chance - eta + 1.0).powf(alpha);
        (rank as u64).min(self.count as u64 - 1)
    }
}

fn run(theta: Option<f64>, full: f64, group: u64) -> holdfast_volume::Result<()> {
    let disk = Arc::new(Memory(RwLock::new(vec![0; 1 << 28])));
    let options = Options {
        segment_blocks: 128,
        ..Options::default()
    };
    let volume = Volume::create(vec![disk], VolumeId(1), options)?;
    let stats = volume.stats();
    let blocks = (stats.capacity_blocks as f64 * full) as u64;
    let raw = blocks as f64 / (stats.segments as f64 * 128.0);
    let object = ObjectId(1);
    // What compresses would be packed, and be fewer blocks.
    let mut content = vec![0; 4096 * 64];
    Rng::new(1).fill(&mut content);
    for start in (0..blocks).step_by(64) {
        let bytes = &content[..4096 * (blocks - start).min(64) as usize];
        volume.atomic_write(&[(object, start * 4096, bytes)])?;
    }
    let zipf = theta.map(|theta| Zipf::new(blocks, theta));
    let mut rng = Rng::new(3);
    let mut pick = || match &zipf {
        // A fixed order that has nothing to do with rank.
        Some(zipf) => zipf.next(&mut rng).wrapping_mul(0x9e37_79b1) % blocks,
        None => rng.below(blocks),
    };
    let mut number = 0_u64;
    let mut write = |count: u64| -> holdfast_volume::Result<()> {
        let mut last: Option<Ticket> = None;
        for at in 0..count {
            // What is written again as it was would be left out.
            content[..8].copy_from_slice(&number.to_le_bytes());
            number += 1;
            let change = Change::Write {
                object,
                offset: pick() * 4096,
                bytes: &content[..4096],
            };
            let ticket = volume.begin(&[change])?;
            last = Some(ticket);
            if at % group == group - 1 {
                volume.wait(ticket)?;
            }
        }
        last.map_or(Ok(()), |last| volume.wait(last))
    };
    write(blocks * 3)?;
    let before = volume.stats().counters;
    let start = std::time::Instant::now();
    write(blocks * 2)?;
    let time_s = start.elapsed().as_secs_f64();
    let after = volume.stats();
    let written = (after.counters.written_blocks - before.written_blocks) as f64;
    let share = |now: u64, then: u64| (now - then) as f64 / written;
    let counters = after.counters;
    let parts = [
        share(counters.moved_blocks, before.moved_blocks),
        share(counters.header_blocks, before.header_blocks),
        share(counters.table_blocks, before.table_blocks),
        share(counters.checkpoint_blocks, before.checkpoint_blocks),
    ];
    let all: f64 = 1.0 + parts.iter().sum::<f64>();
    println!(
        "theta {theta:?} full {full} ({raw:.2} of the disk) groups of {group}: amplification {all:.3} \
         (moved {:.3}, headers {:.3}, tables {:.3}, checkpoints {:.3}); {:.0} blocks/s; map {:.2} \
         bytes a block",
        parts[0],
        parts[1],
        parts[2],
        parts[3],
        written / time_s,
        after.map_memory_bytes as f64 / after.mapped_blocks as f64,
    );
    Ok(())
}

fn main() -> holdfast_volume::Result<()> {
    let cases = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let all = [
        (Some(0.99), 0.8, 64),
        (Some(0.99), 0.8, 4),
        (Some(0.99), 1.0, 64),
        (Some(0.8), 0.8, 64),
        (None, 0.8, 64),
        (None, 1.0, 64),
    ];
    for (theta, full, group) in all.into_iter().take(cases.unwrap_or(usize::MAX)) {
        run(theta, full, group)?;
    }
    Ok(())
}
