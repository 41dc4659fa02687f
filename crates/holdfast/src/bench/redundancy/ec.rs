//! `holdfast bench redundancy --ec`: what parity in place of copies costs whoever uses the mount.
//!
//! Three stores, 2+1, as a user runs them, beside the same set without encoding and a GlusterFS
//! volume `disperse 3 redundancy 1`. All of them outlive the loss of one store. Whatever
//! `holdfast up` does with a write to encoded data is what is measured.

mod data;
mod metadata;
mod set;

use super::run::{self, Bench, Metric};
use super::side::Side;
use super::{Args, STORES, tell_if_absent};
use crate::bench::gluster::{Gluster, Kind};
use crate::bench::latency::Figures;
use crate::bench::row::{Report, Row};
use data::{Data, Load};
use parity::{Code as _, Geometry, ReedSolomon};
use set::{CHUNK_KIB, Set};
use std::cell::RefCell;
use std::path::Path;
use std::time::Instant;

/// Name of our side.
const OURS: &str = "holdfast";
/// Name of our side without encoding.
const REPLICATION: &str = "replication";
/// Name of our side where each write to encoded data is merged before it is answered.
const NAIVE: &str = "naive method";
/// Rounds of writes in one of reads: a run of writes takes a second, and one round tells little.
const WRITES: usize = 3;
const DISPERSE: Kind = Kind::Disperse(2, 1);
/// Share of the data that is encoded while writes are measured, in percent.
const ENCODED: u8 = 20;

/// Runs all cases.
pub(super) fn run(args: &Args, scratch: &Path, report: &mut Report) -> anyhow::Result<()> {
    let quick = args.runs.quick;
    let mib = args.mib.unwrap_or(if quick { 384 } else { 768 });
    let data = Data::of(mib);
    let rounds = args.runs.rounds();
    let gluster = if !args.no_gluster && Gluster::installed() {
        Some(Gluster::up(&scratch.join("gluster"), DISPERSE)?)
    } else {
        None
    };
    let encoded = RefCell::new(Set::up(&scratch.join("encoded"), STORES, data)?);
    let plain = RefCell::new(Set::up(&scratch.join("plain"), STORES, data)?);
    let naive = RefCell::new(Set::up(&scratch.join("naive"), STORES, data)?);
    naive.borrow_mut().extra = vec!["--encode-at-once".into()];
    let merging = {
        let set = naive.borrow();
        let stores = set.ours.stores().to_vec();
        Side::new(NAIVE.into(), &set.ours.mount(), stores, false)?
    };
    let mut sides = Vec::new();
    for (name, set) in [(OURS, &encoded), (REPLICATION, &plain)] {
        let set = set.borrow();
        let stores = set.ours.stores().to_vec();
        sides.push(Side::new(name.into(), &set.ours.mount(), stores, true)?);
    }
    if !args.no_gluster {
        sides.push(Side::gluster(DISPERSE, gluster.as_ref())?);
    }
    let all = sides.iter().chain([&merging]);
    for side in all.filter(|side| side.present) {
        data.fill(&side.work)?;
        side.sync()?;
    }
    encode_rate(&mut encoded.borrow_mut(), data, rounds, report)?;
    metadata::run(&mut encoded.borrow_mut(), data, report)?;
    {
        let mut bench = Bench::new(sides, report, quick, rounds, scratch);
        encoded.borrow_mut().encode(100, CHUNK_KIB)?;
        reads(&mut bench, data, &encoded.borrow().said()?)?;
        let rounds = if quick { rounds } else { rounds * WRITES };
        let mut bench = bench.with(merging, rounds);
        writes(&mut bench, data, [&encoded, &naive, &plain])?;
    }
    rebuild(&encoded, &plain, data, rounds, scratch, report)?;
    if !args.no_gluster {
        tell_if_absent();
    }
    Ok(())
}

fn reads(bench: &mut Bench<'_>, data: Data, said: &str) -> anyhow::Result<()> {
    let note = |what: &str| format!("{what}; of our data {said}; no store is away");
    for (case, cold) in [
        ("ec_seq_read_1m_cold", true),
        ("ec_seq_read_1m_warm", false),
    ] {
        let what = if cold {
            "all files, pages dropped before"
        } else {
            "all files, just read"
        };
        bench.compare(
            &[Metric::throughput(case)],
            &note(what),
            false,
            |side, _| {
                if cold {
                    side.drop_pages()?;
                } else {
                    data.read_all(&side.work)?;
                }
                Ok(vec![data.read_all(&side.work)?])
            },
        )?;
    }
    for (case, cold) in [
        ("ec_rand_read_8k_cold", true),
        ("ec_rand_read_8k_warm", false),
    ] {
        let ops = if bench.quick() { 2000 } else { 8000 };
        let what = "8 KiB, one reader, buffered";
        bench.compare(&latencies(case), &note(what), false, |side, round| {
            if cold {
                side.drop_pages()?;
            } else {
                data.read_all(&side.work)?;
            }
            Ok(values(data.read_random(&side.work, ops, round)?))
        })?;
    }
    Ok(())
}

fn writes(
    bench: &mut Bench<'_>,
    data: Data,
    [encoded, naive, plain]: [&RefCell<Set>; 3],
) -> anyhow::Result<()> {
    let quick = bench.quick();
    let cases = [
        ("ec_rand_write_8k", 8 << 10, false),
        ("ec_rand_write_2k", 2 << 10, false),
        ("ec_rand_write_8k_fsync_each", 8 << 10, true),
        ("ec_rand_write_2k_fsync_each", 2 << 10, true),
    ];
    for (case, bytes, durable) in cases {
        let ops = match (durable, quick) {
            (false, false) => 20_000,
            (false, true) => 4000,
            (true, false) => 2000,
            (true, true) => 300,
        };
        let worth = if durable {
            "each write and its fdatasync, which is on the medium of as many stores as hold it on every side"
        } else {
            "buffered, no fsync: ours is in the page cache of both copies, glusterfs as shipped (write-behind \
             in the client), the naive method's merges on the medium: not the same durability"
        };
        let note = format!(
            "one writer over all data, {ENCODED} % of ours encoded before each run; {worth}"
        );
        bench.compare(&latencies(case), &note, false, |side, round| {
            // Both begin as just started.
            match side.name.as_str() {
                OURS => encoded.borrow_mut().encode(ENCODED, CHUNK_KIB)?,
                NAIVE => naive.borrow_mut().encode(ENCODED, CHUNK_KIB)?,
                REPLICATION => plain.borrow_mut().ours.restart()?,
                _ => {}
            }
            let ops = if side.is_fast { ops } else { ops / 4 };
            let load = Load {
                bytes,
                durable,
                ops,
            };
            let figures = data.write_random(&side.work, load, round)?;
            side.sync()?;
            Ok(values(figures))
        })?;
    }
    Ok(())
}

fn latencies(case: &'static str) -> Vec<Metric> {
    let names = [
        "latency_us_p50",
        "latency_us_p90",
        "latency_us_p99",
        "latency_us_p999",
        "latency_us_max",
    ];
    let latencies = names.map(|name| Metric::latency(case, name));
    std::iter::once(Metric::ops(case))
        .chain(latencies)
        .collect()
}

fn values(f: Figures) -> Vec<f64> {
    vec![f.ops_per_s, f.p50, f.p90, f.p99, f.p999, f.max]
}

/// All data from copies to parity in one round of `holdfast up`, beside the arithmetic alone.
fn encode_rate(
    set: &mut Set,
    data: Data,
    rounds: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (mut ours, mut alone) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            alone.push(arithmetic(data)?);
        }
        set.plain()?;
        ours.push(set.encode_timed(CHUNK_KIB)?);
        if round % 2 == 1 {
            alone.push(arithmetic(data)?);
        }
    }
    let note = "bytes of data; ours reads, computes, writes the parity, syncs, reads all of it again, compares, and \
                frees the copies, while nothing else is asked of the mount; the peer reads memory, computes and \
                writes memory, more than the caches hold";
    let metric = Metric::throughput("ec_encode_2+1");
    report.add(run::row(&metric, &ours, &alone, "parity in memory", note)?)
}

/// MB of data a second that `parity` encodes, 2+1, from memory to memory.
fn arithmetic(data: Data) -> anyhow::Result<f64> {
    const PART: usize = 256 << 10;
    let code = ReedSolomon::new(Geometry::new(2, 1)?);
    let bytes = usize::try_from(data.bytes() / 2)?;
    let mut rng = env::Rng::new(3);
    let mut shards = [vec![0; bytes], vec![0; bytes], vec![0; bytes]];
    shards.iter_mut().for_each(|shard| rng.fill(shard));
    let [one, two, parity] = &mut shards;
    let began = Instant::now();
    let parts = one.chunks(PART).zip(two.chunks(PART));
    for ((one, two), parity) in parts.zip(parity.chunks_mut(PART)) {
        code.encode(&[one, two], &mut [parity])?;
    }
    Ok(2.0 * bytes as f64 / 1e6 / began.elapsed().as_secs_f64())
}

/// A store is lost, an empty one takes its place.
fn rebuild(
    encoded: &RefCell<Set>,
    plain: &RefCell<Set>,
    data: Data,
    rounds: usize,
    scratch: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (mut ours, mut copies, mut disk) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        encoded.borrow_mut().encode(100, CHUNK_KIB)?;
        let mut sides: [(&RefCell<Set>, &mut Vec<f64>); 2] =
            [(encoded, &mut ours), (plain, &mut copies)];
        if round % 2 == 1 {
            sides.reverse();
        }
        for (set, rates) in sides {
            rates.push(set.borrow_mut().rebuild_timed(round % STORES)?);
        }
        disk.push(data::write_rate(&scratch.join("disk"), data.bytes())?);
    }
    let note = "bytes of the lost store's files, from `holdfast attach` of an empty directory until the set is \
                redundant; 500 ms between two looks at the stores are part of it";
    let metric = Metric::throughput("ec_rebuild");
    let all = format!("all data encoded; {note}");
    report.add(run::row(
        &metric,
        &ours,
        &disk,
        "one new file, synced",
        &all,
    )?)?;
    report.add(run::row(&metric, &ours, &copies, REPLICATION, &all)?)?;
    let metric = Metric::throughput("rebuild");
    let none = format!("nothing encoded; {note}");
    report.add(run::row(
        &metric,
        &copies,
        &disk,
        "one new file, synced",
        &none,
    )?)
}

/// Says for each aim of issue and page whether the rows meet it.
pub(super) fn aims(rows: &[Row]) -> Vec<(bool, String)> {
    rows.iter()
        .filter(|row| row.case.starts_with("ec_"))
        .filter_map(|row| {
            let ratio = row.ratio?;
            if row.peer_name == NAIVE && row.metric == "latency_us_p99" {
                let case = &row.case;
                let text =
                    format!("{case} latency_us_p99: {ratio:.2} of the {NAIVE}, aim 0.25 or less");
                return Some((ratio <= 0.25, text));
            }
            if row.peer_name != REPLICATION {
                return None;
            }
            let read = row.case.contains("_read_");
            let (met, aim) = match row.metric.as_str() {
                "mb_per_s" | "ops_per_s" if read => (ratio >= 0.95, "0.95 or better"),
                "ops_per_s" => (ratio >= 0.9, "0.9 or better"),
                "latency_us_p99" if !read => (ratio <= 1.2, "1.2 or less"),
                _ => return None,
            };
            let (case, metric) = (&row.case, &row.metric);
            let text = format!("{case} {metric}: {ratio:.2} of {REPLICATION}, aim {aim}");
            Some((met, text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::Better;

    #[test]
    fn aims_are_judged_beside_replication_only() {
        let row = |case: &str, metric: &str, peer: &str, ratio| Row {
            ratio: Some(ratio),
            peer_name: peer.into(),
            better: Better::Higher,
            ..run::alone(case, metric, "1/s", 1.0, "")
        };
        let judged = aims(&[
            row("ec_rand_read_8k_cold", "ops_per_s", REPLICATION, 0.94),
            row("ec_rand_write_8k", "ops_per_s", REPLICATION, 0.94),
            row("ec_rand_write_8k", "latency_us_p99", REPLICATION, 1.3),
            row(
                "ec_rand_write_8k",
                "latency_us_p99",
                "glusterfs-disperse-2+1",
                1.3,
            ),
            row("ec_rand_write_8k", "latency_us_p99", NAIVE, 0.2),
            row("rand_write_8k", "ops_per_s", REPLICATION, 0.1),
        ]);
        let met: Vec<bool> = judged.iter().map(|(met, _)| *met).collect();
        assert_eq!(met, [false, true, false, true]);
    }
}
