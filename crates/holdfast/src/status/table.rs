//! A [`Status`] as a table of at most 80 columns.

use crate::units::{bytes, count, duration, plural, shorten};
use redundancy::status::{
    EncodingStatus, LastRebuild, Progress, ScrubScheduleStatus, ScrubStatus, Status, StoreState,
    StoreStatus,
};

const WIDTH: usize = 80;
const PATH_WIDTH: usize = 36;
const BAR_WIDTH: usize = 20;

/// The whole table.
pub fn render(status: &Status) -> String {
    let mut lines = vec![
        sides(
            &shorten(&status.mount, 44),
            &format!("up {}, pid {}", duration(status.uptime_s), status.pid),
        ),
        headline(status),
    ];
    if !status.writable {
        lines.push("writes are refused; the stores below say why".to_owned());
    }
    lines.push(String::new());
    lines.push(row(
        &["#", "STORE", "STATE", "FREE", "OF", "DIRTY"].map(str::to_owned)
    ));
    for store in &status.stores {
        lines.extend(store_lines(store));
    }
    lines.push(String::new());
    lines.extend(status.encoding.as_ref().map(encoding));
    lines.extend(status.scrub.as_ref().map(schedule));
    lines.push(scrub(status.last_scrub.as_ref()));
    lines.push(format!(
        "set {}, generation {}",
        status.set, status.generation
    ));
    lines.join("\n") + "\n"
}

/// The line that says whether the data is safe.
pub fn headline(status: &Status) -> String {
    let (left, right) = facts(status);
    sides(&left, &right)
}

/// Redundancy, and the copies that are kept.
pub fn facts(status: &Status) -> (String, String) {
    let redundant = if status.redundant { "yes" } else { "no" };
    let lose = match status.may_lose {
        0 => "may lose no more store".to_owned(),
        1 => "may lose 1 more store".to_owned(),
        n => format!("may lose {n} more stores"),
    };
    let copies = match status.copies {
        1 => "1 copy of each file".to_owned(),
        n => format!("{n} copies of each file"),
    };
    (format!("redundant: {redundant}, {lose}"), copies)
}

/// One word or two for a state.
pub fn state(state: StoreState) -> &'static str {
    match state {
        StoreState::InSync => "in sync",
        StoreState::Rebuilding => "rebuilding",
        StoreState::Fenced => "fenced",
    }
}

fn store_lines(store: &StoreStatus) -> Vec<String> {
    let known = store.total_bytes > 0;
    let size = |value: u64| {
        if known { bytes(value) } else { "-".to_owned() }
    };
    let mut lines = vec![row(&[
        store.index.to_string(),
        shorten(&store.path, PATH_WIDTH),
        state(store.state).to_owned(),
        size(store.free_bytes),
        size(store.total_bytes),
        count(store.dirty_entries),
    ])];
    if let Some(progress) = &store.rebuild {
        lines.push(format!("     {}", rebuild(progress)));
    } else if let Some(last) = &store.last_rebuild {
        lines.push(format!("     {}", last_rebuild(last)));
    }
    for line in wrap(&store.detail, WIDTH - 5) {
        lines.push(format!("     {line}"));
    }
    if store.errors > 0 {
        lines.push(format!("     {}", plural(store.errors, "error")));
    }
    lines
}

fn rebuild(progress: &Progress) -> String {
    let rate = format!("{}/s", bytes(progress.bytes_per_s));
    match progress.bytes_total {
        Some(total) => {
            let share = if total == 0 {
                1.0
            } else {
                (progress.bytes_done as f64 / total as f64).clamp(0.0, 1.0)
            };
            // The share is in 0..=1, so the product fits.
            let full = (share * BAR_WIDTH as f64) as usize;
            let left = progress
                .eta_s
                .map_or(String::new(), |eta| format!(", {} left", duration(eta)));
            format!(
                "{} [{}{}] {:.0} %, {rate}{left}",
                progress.phase,
                "#".repeat(full),
                ".".repeat(BAR_WIDTH - full),
                (share * 100.0).floor()
            )
        }
        None => format!(
            "{}: {}, {}, {rate}",
            progress.phase,
            plural(progress.objects_done, "object"),
            bytes(progress.bytes_done)
        ),
    }
}

fn last_rebuild(last: &LastRebuild) -> String {
    format!(
        "brought up to date {}: {} written in {}",
        moment(last.finished_s),
        bytes(last.bytes_written),
        duration(last.seconds)
    )
}

/// Seconds since the epoch for people.
fn moment(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(
        |_| "at an unknown time".to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

fn scrub(last: Option<&ScrubStatus>) -> String {
    let Some(scrub) = last else {
        return "last check: none yet".to_owned();
    };
    let when = moment(scrub.finished_s);
    let found = match scrub.differences {
        0 => "no difference".to_owned(),
        n => plural(n, "difference"),
    };
    format!(
        "last check: {when}, {}, {found}",
        plural(scrub.objects, "object")
    )
}

/// The scrub that is under way, else the last one and the next.
fn schedule(scrub: &ScrubScheduleStatus) -> String {
    if let Some(pass) = &scrub.pass {
        let done = plural(pass.stripes, "stripe");
        return match &pass.progress {
            Some(progress) => rebuild(progress),
            None => format!("scrub: interrupted after {done}, goes on there"),
        };
    }
    let last = match scrub.last_finished_s {
        None => "none yet".to_owned(),
        Some(at) => match (scrub.last_mended, scrub.last_lost) {
            (0, 0) => format!("{}, no damage", moment(at)),
            (mended, 0) => format!("{}, {mended} mended", moment(at)),
            (mended, lost) => format!("{}, {mended} mended, {lost} LOST", moment(at)),
        },
    };
    let next = scrub
        .next_s
        .map_or_else(|| "when asked for".to_owned(), moment);
    format!("last scrub: {last}; next: {next}")
}

fn encoding(encoding: &EncodingStatus) -> String {
    let code = match encoding.code.as_str() {
        "" => "no more".to_owned(),
        code => format!("as {code}"),
    };
    let saved = encoding.freed_bytes.saturating_sub(encoding.parity_bytes);
    let waits = match encoding.differential_bytes {
        0 => String::new(),
        waits => format!(", {} to merge", bytes(waits)),
    };
    let mut text = format!(
        "encoded ({code}): {} in {}, {} saved{waits}",
        bytes(encoding.bytes),
        plural(encoding.stripes, "stripe"),
        bytes(saved)
    );
    if encoding.lost_chunks > 0 {
        text.push_str(&format!(
            "\n  {} cannot be read, too little is left: `holdfast check` names them",
            plural(encoding.lost_chunks, "chunk")
        ));
    }
    if let Some(shares) = &encoding.shares {
        text.push_str(&format!(
            "\n  data for each byte kept: {:.2} (by the code alone {:.2}), metadata {:.2} %",
            shares.capacity_efficiency,
            shares.capacity_formula,
            100.0 * shares.metadata
        ));
        if let Some(load) = encoding.load_share {
            text.push_str(&format!(", {:.1} % of requests", 100.0 * load));
        }
    }
    text
}

fn row(cells: &[String; 6]) -> String {
    let [index, path, state, free, of, dirty] = cells;
    format!("{index:>2} {path:<PATH_WIDTH$} {state:<10} {free:>9} {of:>9} {dirty:>7}")
        .trim_end()
        .to_owned()
}

fn sides(left: &str, right: &str) -> String {
    let gap = WIDTH.saturating_sub(left.chars().count() + right.chars().count());
    format!("{left}{}{right}", " ".repeat(gap.max(2)))
}

/// Lines of at most `width` characters, broken between words.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::double;

    fn fits(text: &str) {
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn a_healthy_set() {
        let text = render(&double::status());
        fits(&text);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_set_that_encodes() {
        let mut status = double::status();
        status.encoding = Some(EncodingStatus {
            code: "4+2".to_owned(),
            stripes: 1000,
            chunks: 4000,
            bytes: 4000 << 19,
            parity_bytes: 2000 << 19,
            freed_bytes: 8000 << 19,
            differential_bytes: 12 << 20,
            lost_chunks: 3,
            ..EncodingStatus::default()
        });
        status.scrub = Some(ScrubScheduleStatus {
            interval_s: 2_592_000,
            next_s: Some(1_797_835_699),
            last_finished_s: Some(1_795_243_699),
            last_stripes: 1000,
            last_mended: 2,
            ..ScrubScheduleStatus::default()
        });
        let text = render(&status);
        fits(&text);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_degraded_set() {
        let mut status = double::status();
        status.redundant = false;
        status.may_lose = 0;
        status.last_scrub = Some(ScrubStatus {
            finished_s: 1_795_243_699,
            objects: 12_345,
            differences: 0,
        });
        status.stores[0].last_rebuild = Some(LastRebuild {
            finished_s: 1_795_243_000,
            seconds: 75,
            objects: 12_345,
            bytes: 700_000_000,
            bytes_written: 676_000_000,
        });
        status.stores[1].state = StoreState::Rebuilding;
        status.stores[1].rebuild = Some(Progress {
            phase: "copying".to_owned(),
            objects_done: 100,
            bytes_done: 4_500_000_000,
            bytes_total: Some(10_000_000_000),
            bytes_written: 4_000_000_000,
            bytes_per_s: 120_000_000,
            eta_s: Some(46),
        });
        let lost = &mut status.stores[2];
        lost.path = "/mnt/a-disk-with-a-rather-long-name/holdfast/store".to_owned();
        lost.state = StoreState::Fenced;
        lost.detail = "it answered with EIO; look at the disk (dmesg), then put it back or an \
                       empty directory in its place: holdfast attach DIR"
            .to_owned();
        (lost.total_bytes, lost.free_bytes) = (0, 0);
        (lost.dirty_entries, lost.errors) = (1_234_567, 3);
        let text = render(&status);
        fits(&text);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_rebuild_of_unknown_size_and_a_set_that_takes_no_writes() {
        let mut status = double::status();
        status.writable = false;
        status.stores[0].rebuild = Some(Progress {
            phase: "comparing".to_owned(),
            objects_done: 1,
            ..Progress::default()
        });
        let text = render(&status);
        fits(&text);
        insta::assert_snapshot!(text);
    }
}
