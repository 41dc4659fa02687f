//! What stands beside the data so that parity can stand for copies, in bytes on the disk.

use super::data::Data;
use super::set::Set;
use crate::bench::redundancy::run::{self, Metric};
use crate::bench::redundancy::side;
use crate::bench::row::Report;
use crate::bench::tree;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Chunks that are tried, in KiB, and their rows.
const CHUNKS: [(u32, &str); 3] = [
    (512, "ec_metadata_512k"),
    (4096, "ec_metadata_4m"),
    (65_536, "ec_metadata_64m"),
];

/// Bytes of chunk and parity metadata of one stripe of 2+1 in the thesis ([F] table 5.3, row DRC-AE:
/// 0.38 KB). It does not depend on the chunk.
const THESIS_STRIPE_BYTES: f64 = 380.0;
/// Bytes that its differential bitmaps add for each MiB of user data at pages of 4 KiB ([F] table
/// 5.3, 0.66 KB less 0.38 KB).
const THESIS_BITMAP_BYTES: f64 = 280.0;

const MIB: f64 = 1_048_576.0;
const TIB: f64 = MIB * MIB;

/// Parts of the system directory whose size has to do with what is encoded.
const SHARDS: &str = "shards";

/// Bytes that files take on their disk, by the directory of Holdfast's own that they are in.
type Taken = BTreeMap<String, u64>;

/// Runs all chunk sizes.
pub(super) fn run(set: &mut Set, data: Data, report: &mut Report) -> anyhow::Result<()> {
    let user = data.bytes() as f64;
    for (chunk_kib, case) in CHUNKS {
        set.encode(100, chunk_kib)?;
        // Each chunk is asked for, so that each has its counts.
        let files = set.ours.mount().join(side::WORK);
        tree::sync(&files)?;
        tree::drop_pages(&files)?;
        data.read_all(&files)?;
        let Some(encoding) = set.ours.status()?.encoding else {
            anyhow::bail!("a set that encodes says nothing of it");
        };
        let mut taken = Taken::new();
        for store in set.ours.stores() {
            of_store(&store.join(redundancy::store::local::SYSTEM), &mut taken)?;
        }
        let parity = encoding.parity_bytes;
        let shards = taken.remove(SHARDS).unwrap_or(0).saturating_sub(parity) as f64;
        let encoded = encoding.bytes as f64;
        let chunk = f64::from(chunk_kib) * 1024.0;
        let thesis =
            encoded / (2.0 * chunk) * THESIS_STRIPE_BYTES + encoded / MIB * THESIS_BITMAP_BYTES;
        let total = encoded + parity as f64;
        let note = format!(
            "{} stripes of 2+1; headers and page checksums of shards as they take up the disk; the thesis's figure is \
             computed from table 5.3 (pages of 4 KiB) and has no checksums",
            encoding.stripes
        );
        report.add(run::row(
            &Metric::share(case),
            &[shards / total],
            &[thesis / total],
            "thesis",
            &note,
        )?)?;
        let mut add = |bytes: f64, what: &str| {
            let ours = bytes * TIB / user / 1e6;
            report.add(run::alone(
                case,
                "metadata_mb_per_tib",
                "MB/TiB",
                ours,
                what,
            ))
        };
        add(shards, "files of shards without their parity")?;
        add(
            encoding.counter_bytes as f64,
            "memory, counts of requests while every chunk has some",
        )?;
        for (part, bytes) in &taken {
            let mb = *bytes as f64 / 1e6;
            let what =
                format!("{part}: {mb:.1} MB on all stores, whatever the data; shown as it is");
            report.add(run::alone(case, "own_files_peak_mb", "MB", mb, &what))?;
        }
    }
    Ok(())
}

fn of_store(system: &Path, taken: &mut Taken) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(system)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let sum = taken.entry(name).or_default();
        tree::walk(&entry.path(), &[], &mut |_, metadata| {
            *sum += metadata.blocks() * 512;
            Ok(())
        })?;
    }
    Ok(())
}
