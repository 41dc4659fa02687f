//! `holdfast check` compares all copies, and changes none; `holdfast repair` then gives a store that
//! lacks some what it lacks; `holdfast scrub` mends what is encoded by its checksums.

use crate::config::InForce;
use crate::control::{Answer, Request, TIME_LIMIT, client};
use crate::engine::{self, CheckReport, Comparing};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::preflight::{self, Machine};
use crate::screen::{self, Bar};
use crate::units;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a running comparison is asked how far it is.
const POLL: Duration = Duration::from_millis(250);

/// Compares, through the running holdfast where one serves the mount.
///
/// # Errors
/// The stores cannot be opened, or the comparison broke off. Copies that differ are no error
/// here: the exit code says so.
pub fn run(in_force: &InForce, runtime: &Path, json: bool) -> Outcome<Exit> {
    let config = &in_force.settings.redundancy;
    preflight::need_root(&Machine::look())?;
    let mut bar = Bar::new("comparing");
    let mount = meant(in_force, runtime)?;
    let report = match client::ask(
        runtime,
        &mount,
        &Request::Check {
            how: Comparing::Check,
        },
        TIME_LIMIT,
    ) {
        Ok(_) => follow(runtime, &mount, &mut bar)?,
        Err(failure) if failure.exit == Exit::NotRunning => {
            preflight::check_stores(in_force)?;
            engine::check(config, &mut |progress| {
                bar.show(progress);
                true
            })?
        }
        Err(failure) => return Err(failure),
    };
    drop(bar);
    show(&report, json)
}

/// Compares through the running holdfast, and has a store that merely lacks copies brought up to
/// date.
///
/// # Errors
/// As [`run`]; no holdfast runs.
pub fn repair(in_force: &InForce, runtime: &Path, accept_loss: bool, json: bool) -> Outcome<Exit> {
    preflight::need_root(&Machine::look())?;
    let (how, doing) = if accept_loss {
        (Comparing::AcceptLoss, "giving up")
    } else {
        (Comparing::Repair, "comparing")
    };
    let mut bar = Bar::new(doing);
    let mount = meant(in_force, runtime)?;
    client::ask(runtime, &mount, &Request::Check { how }, TIME_LIMIT)?;
    let report = follow(runtime, &mount, &mut bar)?;
    drop(bar);
    if accept_loss && !json {
        screen::print(&loss_text(&report))?;
        return Ok(exit_of(&report));
    }
    show(&report, json)
}

/// What was given up, for people.
fn loss_text(report: &CheckReport) -> String {
    if report.objects == 0 {
        return "nothing was given up: whatever is encoded can be read\n".to_owned();
    }
    let mut text = format!(
        "gave up {} of which too little was left: {} lost, and zeros from now on\n",
        units::plural(report.objects, "stripe"),
        match report.lost_chunks {
            1 => "1 chunk of a file is".to_owned(),
            chunks => format!("{} chunks of files are", units::count(chunks)),
        }
    );
    list(report, &mut text);
    more(report, &mut text);
    if report.lost_chunks > 0 {
        text.push_str(
            "`find MOUNT -inum INODE` names the file, if a name is left: bring it back from your backup\n",
        );
    }
    text
}

/// Holds what is encoded against its checksums, and mends it, through the running holdfast.
///
/// # Errors
/// As [`run`]; no holdfast runs.
pub fn scrub(in_force: &InForce, runtime: &Path, json: bool) -> Outcome<Exit> {
    preflight::need_root(&Machine::look())?;
    let mut bar = Bar::new("scrubbing");
    let mount = meant(in_force, runtime)?;
    let how = Comparing::Scrub;
    client::ask(runtime, &mount, &Request::Check { how }, TIME_LIMIT)?;
    let report = follow(runtime, &mount, &mut bar)?;
    drop(bar);
    if json {
        screen::print_json(&report)?;
    } else {
        screen::print(&scrub_text(&report))?;
    }
    Ok(exit_of(&report))
}

/// The report of a scrub for people.
pub fn scrub_text(report: &CheckReport) -> String {
    let before = match report.before {
        0 => String::new(),
        before => format!(
            "; {} had been done before it was interrupted",
            units::plural(before, "stripe")
        ),
    };
    let mut text = format!(
        "scrubbed {} ({}){before}\n",
        units::plural(report.objects, "stripe"),
        units::bytes(report.bytes)
    );
    // Writing to a String cannot fail.
    let _ok = match (report.mended, report.differences) {
        (0, 0) => writeln!(text, "every page is as it was written"),
        (mended, 0) => writeln!(
            text,
            "{} damaged: made right again from the other shards",
            were(mended)
        ),
        (mended, lost) => writeln!(
            text,
            "{} damaged and right again, {} not be mended",
            were(mended),
            match lost {
                1 => "1 could".to_owned(),
                lost => format!("{} could", units::count(lost)),
            }
        ),
    };
    list(report, &mut text);
    if !report.shown.is_empty() {
        text.push_str("`find MOUNT -inum INODE` names the file\n");
    }
    text
}

fn were(pages: u64) -> String {
    let verb = if pages == 1 { "was" } else { "were" };
    format!("{} {verb}", units::plural(pages, "page"))
}

fn exit_of(report: &CheckReport) -> Exit {
    if report.differences == 0 {
        Exit::Done
    } else {
        Exit::Differences
    }
}

fn list(report: &CheckReport, text: &mut String) {
    for one in &report.shown {
        let stores: Vec<String> = one.stores.iter().map(u8::to_string).collect();
        let (path, stores) = (one.path.display(), stores.join(", "));
        let _ok = match stores.as_str() {
            "" => writeln!(text, "  {path}: {}", one.detail),
            stores => writeln!(text, "  {path}: {} on store {stores}", one.detail),
        };
    }
}

fn show(report: &CheckReport, json: bool) -> Outcome<Exit> {
    if json {
        screen::print_json(report)?;
    } else {
        screen::print(&text(report))?;
    }
    Ok(exit_of(report))
}

/// The mount to compare: where neither mount nor stores are configured, the one that is served.
fn meant(in_force: &InForce, runtime: &Path) -> Outcome<PathBuf> {
    let configured = &in_force.settings.redundancy.mount;
    if !in_force.is_default("mount") || !in_force.is_default("stores") {
        return Ok(configured.clone());
    }
    match client::choose(runtime, None) {
        Err(failure) if failure.exit == Exit::NotRunning => Ok(configured.clone()),
        other => other,
    }
}

fn follow(runtime: &Path, mount: &Path, bar: &mut Bar) -> Outcome<CheckReport> {
    loop {
        match client::ask(runtime, mount, &Request::CheckProgress, TIME_LIMIT)? {
            Answer::Checking(progress) => bar.show(&progress),
            Answer::Checked(report) => return Ok(report),
            other => return Err(Failure::unexpected("check", &format!("{other:?}"))),
        }
        std::thread::sleep(POLL);
    }
}

/// The report for people.
pub fn text(report: &CheckReport) -> String {
    let mut text = format!(
        "compared {} ({})\n",
        units::plural(report.objects, "object"),
        units::bytes(report.bytes)
    );
    for index in &report.absent {
        // Writing to a String cannot fail.
        let _ok = writeln!(text, "store {index} was not there to be compared");
    }
    if report.foreign > 0 {
        let _ok = writeln!(
            text,
            "{} below STORE/data without a label of this set: nobody sees that through the mount;\n\
             `getfattr -Rn trusted.holdfast STORE/data` tells which, and what is worth keeping is \
             copied into the mount",
            units::plural(report.foreign, "object")
        );
    }
    if report.encoded_chunks > 0 {
        let _ok = writeln!(
            text,
            "{} of files have parity in the place of copies, which only a running set can compare: \
             `holdfast up`, then `holdfast check`",
            units::plural(report.encoded_chunks, "chunk")
        );
    }
    if report.differences == 0 {
        text.push_str("all copies are equal\n");
        return text;
    }
    let _ok = writeln!(
        text,
        "{} found:",
        units::plural(report.differences, "difference")
    );
    list(report, &mut text);
    more(report, &mut text);
    if report.differences > report.lost_chunks {
        text.push_str(&advice(report));
    }
    if report.lost_chunks > 0 {
        text.push_str(
            "What cannot be read has too little left on the stores that are there: bring back those that\n\
             are away. Where they are gone for good, `holdfast repair --accept-loss` makes zeros of it, so\n\
             that all else gets its copies again; `find MOUNT -inum INODE` names the file\n",
        );
    }
    text
}

fn more(report: &CheckReport, text: &mut String) {
    let more = report.differences.saturating_sub(report.shown.len() as u64);
    if more > 0 {
        // Writing to a String cannot fail.
        let _ok = writeln!(text, "  and {} more", units::count(more));
    }
}

fn advice(report: &CheckReport) -> String {
    match report.healing {
        Some(store) => format!(
            "store {store} lacked copies that the others hold: it gets them now; \
             `holdfast status --watch` shows when it is in sync\n"
        ),
        None => "nothing was changed. What is missing on one store, `holdfast repair` brings back.\n\
                 Where content differs, two copies cannot tell which of them is right: look at both\n\
                 below STORE/data, and write the right one through the mount\n"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Difference;

    #[test]
    fn differences_are_named() {
        let report = CheckReport {
            objects: 1234,
            bytes: 5_000_000,
            encoded_chunks: 12,
            before: 0,
            mended: 0,
            lost_chunks: 1,
            differences: 3,
            shown: vec![
                Difference {
                    path: "/docs/a".into(),
                    stores: vec![1, 2],
                    detail: "content at 4096".to_owned(),
                },
                Difference {
                    path: "inode 7, bytes 0 to 65536".into(),
                    stores: Vec::new(),
                    detail: "cannot be read".to_owned(),
                },
            ],
            foreign: 2,
            absent: vec![2],
            healing: None,
        };
        insta::assert_snapshot!(text(&report));
    }

    #[test]
    fn a_store_that_gets_what_it_lacks_is_named() {
        let report = CheckReport {
            objects: 2,
            differences: 1,
            shown: vec![Difference {
                path: "/docs/a".into(),
                stores: vec![2],
                detail: "missing".to_owned(),
            }],
            healing: Some(2),
            ..CheckReport::default()
        };
        insta::assert_snapshot!(text(&report));
    }

    #[test]
    fn a_scrub_says_what_it_has_mended() {
        let damaged = |path: &str, store, detail: &str| Difference {
            path: path.into(),
            stores: vec![store],
            detail: detail.to_owned(),
        };
        let report = CheckReport {
            objects: 812,
            bytes: 1_277_000_000,
            before: 3,
            mended: 1,
            differences: 1,
            shown: vec![
                damaged(
                    "inode 1099511627776, byte 8192",
                    1,
                    "damaged, and right again",
                ),
                damaged(
                    "parity of stripe 0x11, byte 0",
                    2,
                    "damaged, and too little is left",
                ),
            ],
            ..CheckReport::default()
        };
        insta::assert_snapshot!(scrub_text(&report));
    }

    #[test]
    fn what_was_given_up_is_named() {
        let report = CheckReport {
            objects: 2,
            lost_chunks: 1,
            differences: 1,
            shown: vec![Difference {
                path: "inode 7, bytes 0 to 65536".into(),
                stores: Vec::new(),
                detail: "lost: zeros from now on".to_owned(),
            }],
            ..CheckReport::default()
        };
        insta::assert_snapshot!(loss_text(&report));
        insta::assert_snapshot!(loss_text(&CheckReport::default()));
    }

    #[test]
    fn equal_copies_are_said_to_be_equal() {
        let report = CheckReport {
            objects: 1,
            ..CheckReport::default()
        };
        insta::assert_snapshot!(text(&report));
    }
}
