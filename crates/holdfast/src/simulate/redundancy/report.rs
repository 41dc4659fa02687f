//! The result as a table and as JSON.

use super::run::{Outcomes, Row, Setup};
use super::scenario::Choice;
use crate::simulate::trace::{Format, Ticks};
use crate::units;
use redundancy::encoding::Share;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One JSON line.
#[derive(Debug, Serialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub(super) enum Json {
    /// What the trace is: the first line.
    Trace(Trace),
    /// A scenario at one bound of differential pages.
    Row(Box<Figures>),
}

/// What the trace is.
#[derive(Debug, Serialize)]
pub(super) struct Trace {
    format: Format,
    disks: usize,
    seconds: f64,
    requests: u64,
    reads: u64,
    writes: u64,
    /// Reads after the first round.
    reads_counted: u64,
    /// Writes after it.
    writes_counted: u64,
    bytes_read: u128,
    bytes_written: u128,
    /// Operations that neither read nor write, by SCSI code in hexadecimal.
    other: BTreeMap<String, u64>,
    bad_lines: u64,
    requests_of_no_bytes: u64,
    requests_back_in_time: u64,
    extent_bytes: u64,
    capacity_bytes: u64,
    data: usize,
    parity: usize,
    copies: usize,
    stores: usize,
}

/// The figures of one row; shares are from 0 to 1.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    choice: Choice,
    chunk_bytes: u64,
    /// a.
    read_weight: Option<f64>,
    /// L.
    load_limit: Option<f64>,
    /// R.
    target_rate: Option<f64>,
    /// B; null without delayed parity.
    differential_share: Option<f64>,
    /// Null where there were no writes.
    write_hit_ratio: Option<f64>,
    /// Null where there were no reads.
    read_hit_ratio: Option<f64>,
    /// Mean over the rounds.
    encoded_share: f64,
    /// Largest after a round; null where the choice does not look at load.
    load_share_max: Option<f64>,
    /// By formula, for the encoded share.
    capacity_efficiency: f64,
    /// In pages of 4 KiB, those left at the end included.
    parity_updates: u64,
    /// In requests to the parity.
    parity_update_requests: u64,
    /// Null without delayed parity.
    read_modify_writes: Option<u64>,
    /// Null without delayed parity.
    pages_left: Option<u64>,
    rounds: u64,
    chunks_encoded: u64,
    chunks_swapped: u64,
    chunks_returned: u64,
}

/// All lines.
pub(super) fn json(setup: &Setup, result: &Outcomes) -> Vec<Json> {
    let rows = result.rows.iter();
    let mut lines = vec![Json::Trace(trace(setup, result))];
    lines.extend(rows.map(|row| Json::Row(Box::new(figures(setup, result, row)))));
    lines
}

fn trace(setup: &Setup, result: &Outcomes) -> Trace {
    let (read, survey) = (&result.read, &result.survey);
    let other = read.other.iter();
    Trace {
        format: result.format,
        disks: read.disks,
        seconds: seconds(result),
        requests: read.requests,
        reads: survey.reads,
        writes: survey.writes,
        reads_counted: result.counted.reads,
        writes_counted: result.counted.writes,
        bytes_read: survey.bytes_read,
        bytes_written: survey.bytes_written,
        other: other
            .map(|(code, count)| (format!("{code:02x}"), *count))
            .collect(),
        bad_lines: read.bad,
        requests_of_no_bytes: survey.empty,
        requests_back_in_time: read.backwards,
        extent_bytes: setup.extent,
        capacity_bytes: result.capacity,
        data: setup.geometry.data(),
        parity: setup.geometry.parity(),
        copies: setup.geometry.copies(),
        stores: setup.geometry.stores(),
    }
}

fn seconds(result: &Outcomes) -> f64 {
    let (first, last) = result.survey.times.unwrap_or((Ticks(0), Ticks(0)));
    last.seconds_since(first)
}

fn figures(setup: &Setup, result: &Outcomes, row: &Row) -> Figures {
    let layout = &result.layouts[row.layout];
    let buffer = row.buffer.map(|buffer| &layout.buffers[buffer]);
    let (left, updates) = match buffer {
        Some(buffer) => {
            let (left, updates) = buffer.finish();
            (Some(left), updates)
        }
        None => (None, layout.direct),
    };
    let rounds = layout.rounds;
    let encoded = rounds.encoded / rounds.count.max(1) as f64;
    let adaptive = row.scenario.choice == Choice::Adaptive;
    Figures {
        choice: row.scenario.choice,
        chunk_bytes: row.scenario.chunk.get(),
        read_weight: adaptive.then(|| row.scenario.read_weight.value()),
        load_limit: row.scenario.load_limit.map(Share::fraction),
        target_rate: row.scenario.target_rate.map(Share::fraction),
        differential_share: row.differential.map(Share::fraction),
        write_hit_ratio: layout.writes.ratio(),
        read_hit_ratio: layout.reads.ratio(),
        encoded_share: encoded,
        load_share_max: adaptive.then_some(rounds.load_share_max),
        capacity_efficiency: setup
            .geometry
            .capacity_efficiency(Share::new(encoded.min(1.0)).unwrap_or_default()),
        parity_updates: updates.pages,
        parity_update_requests: updates.requests,
        read_modify_writes: buffer.map(|buffer| buffer.read_modify_writes),
        pages_left: left,
        rounds: rounds.count,
        chunks_encoded: rounds.chunks_encoded,
        chunks_swapped: rounds.chunks_swapped,
        chunks_returned: rounds.chunks_returned,
    }
}

/// The table for people: a line for each scenario, with a column for each B.
pub(super) fn text(setup: &Setup, result: &Outcomes) -> String {
    let mut text = head(setup, result);
    let mut table: Vec<Vec<String>> = vec![headings(setup)];
    for rows in result.rows.chunk_by(|a, b| a.scenario == b.scenario) {
        let all: Vec<Figures> = rows.iter().map(|row| figures(setup, result, row)).collect();
        if let Some((plain, delayed)) = all.split_first() {
            table.push(cells(plain, delayed));
        }
    }
    let widths: Vec<usize> = (0..table[0].len())
        .map(|column| table.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    for row in &table {
        let cells = row.iter().zip(&widths).enumerate();
        let line: Vec<String> = cells
            .map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn head(setup: &Setup, result: &Outcomes) -> String {
    let (read, survey, geometry) = (&result.read, &result.survey, setup.geometry);
    let mut text = format!(
        "{}, {:.0} s: {} of {}, {} of {}\n",
        units::plural(read.disks as u64, "disk"),
        seconds(result),
        units::plural(survey.writes, "write"),
        units::bytes(u64::try_from(survey.bytes_written).unwrap_or(u64::MAX)),
        units::plural(survey.reads, "read"),
        units::bytes(u64::try_from(survey.bytes_read).unwrap_or(u64::MAX)),
    );
    for (code, count) in &read.other {
        let count = units::plural(*count, "operation");
        let _ = writeln!(text, "left out: {count} of SCSI code {code:02x}");
    }
    let counted = [
        (read.bad, "line", "not understood"),
        (survey.empty, "request", "of no bytes"),
    ];
    for (count, noun, which) in counted.iter().filter(|(count, ..)| *count > 0) {
        let _ = writeln!(text, "left out: {} {which}", units::plural(*count, noun));
    }
    if read.backwards > 0 {
        let count = units::plural(read.backwards, "request");
        let _ = writeln!(
            text,
            "taken as later: {count} with a time before the one above it"
        );
    }
    let _ = writeln!(
        text,
        "capacity {} in touched extents of {}; {}+{} beside {} copies on {} stores",
        units::bytes(result.capacity),
        units::bytes(setup.extent),
        geometry.data(),
        geometry.parity(),
        geometry.copies(),
        geometry.stores(),
    );
    let watched = match setup.interval {
        None => "six sevenths of the time are watched".to_owned(),
        Some(interval) => format!(
            "a round after each {} s",
            interval as f64 / Ticks::SECOND as f64
        ),
    };
    let counted = result.counted;
    let _ = writeln!(
        text,
        "{watched}; then {} and {} are counted",
        units::plural(counted.writes, "write"),
        units::plural(counted.reads, "read"),
    );
    text.push('\n');
    text
}

fn headings(setup: &Setup) -> Vec<String> {
    let fixed = [
        "choice",
        "chunk",
        "a",
        "L",
        "R",
        "write hits",
        "read hits",
        "encoded",
        "parity updates",
    ];
    let bounds = setup.differential.iter();
    let bounds = bounds.map(|share| format!("B={}%", share.fraction() * 100.0));
    fixed
        .iter()
        .map(|name| (*name).to_owned())
        .chain(bounds)
        .collect()
}

fn cells(plain: &Figures, delayed: &[Figures]) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
    let share = |value: Option<f64>| value.map_or("-".to_owned(), percent);
    let mut cells = vec![
        plain.choice.name().to_owned(),
        units::bytes(plain.chunk_bytes).replace(".0 ", " "),
        number(plain.read_weight),
        number(plain.load_limit),
        number(plain.target_rate),
        share(plain.write_hit_ratio),
        share(plain.read_hit_ratio),
        percent(plain.encoded_share),
        units::count(plain.parity_updates),
    ];
    cells.extend(delayed.iter().map(|row| units::count(row.parity_updates)));
    cells
}

/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
