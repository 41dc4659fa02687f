//! The line that every benchmark reports, and how two sides become one.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Which direction is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better (rates).
    Higher,
    /// Less is better (times, sizes).
    Lower,
}

/// One measurement of ours beside one of a peer's, taken in the same run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The benchmark, as on the command line.
    pub bench: String,
    /// What was done.
    pub case: String,
    /// What was measured: a name of ARCHITECTURE.md "Benchmarks".
    pub metric: String,
    /// Unit of `ours` and `peer`.
    pub unit: String,
    /// Which direction is good.
    pub better: Better,
    /// Median of our runs.
    pub ours: f64,
    /// Median of the peer's runs; `None` where the peer is not installed or has no such thing.
    pub peer: Option<f64>,
    /// The peer.
    pub peer_name: String,
    /// `ours / peer`.
    pub ratio: Option<f64>,
    /// Runs of the side that ran least often.
    pub runs: usize,
    /// (max - min) / median over the runs of a side, the larger of both sides; 0 for one run.
    pub spread: f64,
    /// How the two sides differ, or what the number leaves out; empty where there is nothing
    /// to say.
    pub note: String,
}

/// Two sides' samples reduced to what a [`Row`] carries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compared {
    /// Median of ours.
    pub ours: f64,
    /// Median of the peer's, where it has any.
    pub peer: Option<f64>,
    /// As [`Row::ratio`].
    pub ratio: Option<f64>,
    /// As [`Row::runs`].
    pub runs: usize,
    /// As [`Row::spread`].
    pub spread: f64,
}

/// Middle value; the mean of the two middle ones for an even number; `None` for none.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(middle.checked_sub(1)?)?;
    Some(lower.midpoint(upper))
}

fn spread(samples: &[f64]) -> f64 {
    let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let high = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match median(samples) {
        Some(middle) if middle > 0.0 => (high - low) / middle,
        _ => 0.0,
    }
}

/// Reduces two sides' samples.
///
/// # Errors
/// Ours are empty: a benchmark that did not measure Holdfast has nothing to report.
pub fn compare(ours: &[f64], peer: &[f64]) -> anyhow::Result<Compared> {
    let own = median(ours).context("no run of ours was measured")?;
    let other = median(peer);
    Ok(Compared {
        ours: own,
        peer: other,
        ratio: other.filter(|value| *value > 0.0).map(|value| own / value),
        runs: if peer.is_empty() {
            ours.len()
        } else {
            ours.len().min(peer.len())
        },
        spread: spread(ours).max(spread(peer)),
    })
}

/// Runs both sides `rounds` times in turn (the one that begins changes each round, so that drift
/// of the machine falls on both) and compares the medians.
///
/// # Errors
/// Those of either side.
pub fn alternate(
    rounds: usize,
    mut ours: impl FnMut() -> anyhow::Result<f64>,
    mut peer: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<Compared> {
    let mut own = Vec::with_capacity(rounds);
    let mut other = Vec::with_capacity(rounds);
    for round in 0..rounds {
        if round % 2 == 0 {
            own.push(ours()?);
            other.push(peer()?);
        } else {
            other.push(peer()?);
            own.push(ours()?);
        }
    }
    compare(&own, &other)
}

/// Where rows go: a line for people on standard output each, and a JSON line each where a file
/// was named; `-` names standard output, and then nothing else is printed there.
pub struct Report {
    json: Option<Box<dyn Write>>,
    text: bool,
    rows: Vec<Row>,
}

impl Report {
    /// Starts a report; the file `json` is replaced.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(json: Option<&Path>) -> anyhow::Result<Report> {
        let to_stdout = json.is_some_and(|path| path == "-");
        let json: Option<Box<dyn Write>> = match json {
            None => None,
            Some(_) if to_stdout => Some(Box::new(std::io::stdout())),
            Some(path) => Some(Box::new(File::create(path).with_context(|| {
                format!("cannot write the results to {}", path.display())
            })?)),
        };
        Ok(Report {
            json,
            text: !to_stdout,
            rows: Vec::new(),
        })
    }

    /// Prints and keeps a row.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, row: Row) -> anyhow::Result<()> {
        if self.text {
            writeln!(std::io::stdout(), "{}", text(&row))?;
        }
        if let Some(json) = &mut self.json {
            writeln!(json, "{}", serde_json::to_string(&row)?)?;
            json.flush()?;
        }
        self.rows.push(row);
        Ok(())
    }

    /// What was added so far.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

/// A row for people.
fn text(row: &Row) -> String {
    let peer = row.peer.map_or_else(|| "-".to_owned(), significant);
    let ratio = row
        .ratio
        .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    format!(
        "{:<30} {:<16} {:>9} {:<4}  {}: {peer}  ratio {ratio}  spread {:.0}%",
        row.case,
        row.metric,
        significant(row.ours),
        row.unit,
        row.peer_name,
        row.spread * 100.0,
    )
}

/// Three significant digits or so, without an exponent.
fn significant(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_takes_the_middle_and_the_mean_of_two_middles() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn alternate_changes_who_begins_and_compares_the_medians() {
        let order = std::cell::RefCell::new(String::new());
        let compared = alternate(
            3,
            || {
                order.borrow_mut().push('o');
                Ok(10.0)
            },
            || {
                order.borrow_mut().push('p');
                Ok(5.0)
            },
        )
        .unwrap();
        assert_eq!(*order.borrow(), "oppoop");
        assert_eq!(compared.ratio, Some(2.0));
        assert_eq!((compared.runs, compared.spread), (3, 0.0));
    }

    #[test]
    fn a_missing_peer_leaves_ratio_and_peer_empty() {
        let compared = compare(&[1.0, 3.0], &[]).unwrap();
        assert_eq!((compared.peer, compared.ratio), (None, None));
        assert_eq!(
            (compared.ours, compared.runs, compared.spread),
            (2.0, 2, 1.0)
        );
    }

    #[test]
    fn a_row_is_one_json_object_with_the_agreed_names() {
        let row = Row {
            bench: "redundancy".into(),
            case: "seq_read_1m_warm".into(),
            metric: "mb_per_s".into(),
            unit: "MB/s".into(),
            better: Better::Higher,
            ours: 2.0,
            peer: None,
            peer_name: "glusterfs".into(),
            ratio: None,
            runs: 1,
            spread: 0.0,
            note: "apt-get install glusterfs-server".into(),
        };
        let line = serde_json::to_string(&row).unwrap();
        assert!(line.contains(r#""better":"higher","ours":2.0,"peer":null"#));
        assert_eq!(serde_json::from_str::<Row>(&line).unwrap(), row);
    }
}
