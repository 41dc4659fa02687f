//! Running one case on all sides in turn and turning the samples into rows.

use super::side::Side;
use crate::bench::gluster;
use crate::bench::process;
use crate::bench::row::{Better, Report, Row, compare};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What one run of a case yields, one value each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    case: &'static str,
    metric: &'static str,
    unit: &'static str,
    better: Better,
}

impl Metric {
    /// Operations a second.
    pub(super) fn ops(case: &'static str) -> Metric {
        Metric {
            case,
            metric: "ops_per_s",
            unit: "1/s",
            better: Better::Higher,
        }
    }

    /// 10^6 bytes a second.
    pub(super) fn throughput(case: &'static str) -> Metric {
        Metric {
            case,
            metric: "mb_per_s",
            unit: "MB/s",
            better: Better::Higher,
        }
    }

    /// Seconds.
    pub(super) fn time(case: &'static str) -> Metric {
        Metric {
            case,
            metric: "time_s",
            unit: "s",
            better: Better::Lower,
        }
    }

    /// Part of a whole, 0 to 1; less is better.
    pub(super) fn share(case: &'static str) -> Metric {
        Metric {
            case,
            metric: "share",
            unit: "1",
            better: Better::Lower,
        }
    }

    /// Microseconds; `metric` is `latency_us_p50` or another of that family.
    pub(super) fn latency(case: &'static str, metric: &'static str) -> Metric {
        Metric {
            case,
            metric,
            unit: "us",
            better: Better::Lower,
        }
    }
}

/// The sides and how hard to press them.
pub(super) struct Bench<'a> {
    sides: Vec<Side>,
    report: &'a mut Report,
    quick: bool,
    rounds: usize,
    scratch: PathBuf,
}

impl<'a> Bench<'a> {
    /// `sides`: ours first.
    pub(super) fn new(
        sides: Vec<Side>,
        report: &'a mut Report,
        quick: bool,
        rounds: usize,
        scratch: &Path,
    ) -> Bench<'a> {
        Bench {
            sides,
            report,
            quick,
            rounds,
            scratch: scratch.to_path_buf(),
        }
    }

    /// The same for further cases, with one more side and this many rounds.
    pub(super) fn with(self, side: Side, rounds: usize) -> Bench<'a> {
        let mut sides = self.sides;
        sides.insert(sides.len().min(2), side);
        Bench {
            sides,
            rounds,
            ..self
        }
    }

    /// Whether a quick run was asked for.
    pub(super) fn quick(&self) -> bool {
        self.quick
    }

    /// A directory for logs and the like.
    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Runs `once` (side, round) on all present sides in turn, the first side changing from round
    /// to round, and reports one row for each metric and peer. `slow` cases run once on a side
    /// that takes a minute for them.
    pub(super) fn compare(
        &mut self,
        metrics: &[Metric],
        note: &str,
        slow: bool,
        mut once: impl FnMut(&Side, usize) -> anyhow::Result<Vec<f64>>,
    ) -> anyhow::Result<()> {
        let count = self.sides.len();
        // By side, then metric, then round.
        let mut samples = vec![vec![Vec::new(); metrics.len()]; count];
        for round in 0..self.rounds {
            for index in order(round, count) {
                let (Some(side), Some(kept)) = (self.sides.get(index), samples.get_mut(index))
                else {
                    continue;
                };
                if !side.present || (slow && !side.is_fast && round > 0) {
                    continue;
                }
                process::check_stop()?;
                let values = once(side, round)?;
                anyhow::ensure!(values.len() == metrics.len(), "a case lost a value");
                for (all, value) in kept.iter_mut().zip(values) {
                    all.push(value);
                }
            }
        }
        let Some((own, others)) = samples.split_first() else {
            return Ok(());
        };
        for (index, metric) in metrics.iter().enumerate() {
            for (side, theirs) in self.sides.iter().skip(1).zip(others) {
                let (Some(own), Some(theirs)) = (own.get(index), theirs.get(index)) else {
                    continue;
                };
                let absent = format!(
                    "{note}; peer not measured, apt-get install {}",
                    gluster::PACKAGES
                );
                let note = if side.present { note } else { &absent };
                self.report
                    .add(row(metric, own, theirs, &side.name, note)?)?;
            }
        }
        Ok(())
    }
}

/// Who runs when. What runs before leaves its mark (write-back, the host's cache), so both the
/// first side and everyone's predecessor change: 0 1 2, then 2 1 0, then 1 2 0, ...
fn order(round: usize, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.rotate_left((round / 2) % count.max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// A row of the samples of both sides.
pub(super) fn row(
    metric: &Metric,
    ours: &[f64],
    theirs: &[f64],
    peer: &str,
    note: &str,
) -> anyhow::Result<Row> {
    let compared = compare(ours, theirs)?;
    Ok(Row {
        bench: super::NAME.into(),
        case: metric.case.into(),
        metric: metric.metric.into(),
        unit: metric.unit.into(),
        better: metric.better,
        ours: compared.ours,
        peer: compared.peer,
        peer_name: peer.into(),
        ratio: compared.ratio,
        runs: compared.runs,
        spread: compared.spread,
        note: note.into(),
    })
}

/// A row of something that no peer has.
pub(super) fn alone(case: &str, metric: &str, unit: &str, ours: f64, note: &str) -> Row {
    Row {
        bench: super::NAME.into(),
        case: case.into(),
        metric: metric.into(),
        unit: unit.into(),
        better: Better::Lower,
        ours,
        peer: None,
        peer_name: "none".into(),
        ratio: None,
        runs: 1,
        spread: 0.0,
        note: note.into(),
    }
}

/// Runs a program to its end and gives the seconds it took.
pub(super) fn timed(command: &mut Command, log: &Path) -> anyhow::Result<f64> {
    let start = Instant::now();
    process::run(command, Duration::from_secs(600), log)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Says for each aim of docs/benchmarks.md whether the rows meet it.
pub(super) fn print_aims(rows: &[Row]) {
    let mut aims = aims(rows);
    aims.extend(super::ec::aims(rows));
    if !aims.is_empty() {
        eprintln!("\naims (docs/benchmarks.md):");
    }
    for (met, text) in aims {
        eprintln!("  {} {text}", if met { "met   " } else { "MISSED" });
    }
}

fn aims(rows: &[Row]) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    for row in rows.iter().filter(|row| !row.case.starts_with("ec_")) {
        let gluster = row.peer_name.starts_with("glusterfs");
        let read = row.case.contains("_read_") && row.better == Better::Higher;
        let least = match row.case.as_str() {
            _ if read && !gluster => 0.9,
            case if case.starts_with("rand_write") && row.metric == "ops_per_s" && gluster => 5.0,
            "create_1k" if gluster => 10.0,
            "memory_walk" => {
                let limit = super::MEMORY_LIMIT_MB;
                found.push((
                    row.ours < limit,
                    format!("{}: {:.0} MB, aim under {limit:.0}", row.case, row.ours),
                ));
                continue;
            }
            _ => continue,
        };
        if let Some(ratio) = row.ratio {
            found.push((
                ratio >= least,
                format!(
                    "{}: {ratio:.2} of {}, aim {least} or better",
                    row.case, row.peer_name
                ),
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str, present: bool, is_fast: bool) -> Side {
        Side::for_test(name, present, is_fast)
    }

    #[test]
    fn sides_take_turns_at_being_first_and_an_absent_one_leaves_empty_rows() {
        let mut report = Report::new(None).unwrap();
        let sides = vec![
            side("holdfast", true, true),
            side("ext4", true, true),
            side("glusterfs-replica-2", false, false),
        ];
        let mut bench = Bench::new(sides, &mut report, false, 3, Path::new("/"));
        let mut order = Vec::new();
        bench
            .compare(&[Metric::ops("create_1k")], "", false, |side, _| {
                order.push(side.name.clone());
                Ok(vec![if side.name == "holdfast" { 9.0 } else { 3.0 }])
            })
            .unwrap();
        assert_eq!(
            order,
            ["holdfast", "ext4", "ext4", "holdfast", "ext4", "holdfast"]
        );
        let rows = report.rows();
        assert_eq!(rows[0].ratio, Some(3.0));
        assert_eq!((rows[1].peer, rows[1].ratio), (None, None));
        assert!(rows[1].note.contains("apt-get install glusterfs-server"));
    }

    #[test]
    fn aims_are_judged_against_the_peer_that_they_name() {
        let rows = |case: &str, peer: &str, ratio: f64| Row {
            ratio: Some(ratio),
            peer_name: peer.into(),
            better: Better::Higher,
            ..alone(case, "ops_per_s", "1/s", 1.0, "")
        };
        let judged = aims(&[
            rows("rand_read_8k_qd1_warm", "ext4", 0.95),
            rows("rand_read_8k_qd1_warm", "glusterfs-replica-2", 0.5),
            rows("rand_write_8k_qd1_direct", "ext4", 0.5),
            rows("rand_write_8k_qd1_direct", "glusterfs-replica-2", 4.0),
            rows("create_1k", "glusterfs-replica-2", 11.0),
        ]);
        let met: Vec<bool> = judged.iter().map(|(met, _)| *met).collect();
        assert_eq!(met, [true, false, true]);
    }
}
