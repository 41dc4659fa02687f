//! `holdfast send` and `holdfast receive`: trees, and the proof of what arrived.

use crate::ca;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{self, Bar};
use crate::units;
use ::transfer::filter::{Filter, Rule};
use ::transfer::{
    Deletion, Delta, FailureKind, Level, Options, Order, Planned, Problem, Progress, Report,
    Settings, TransferError, TreePath,
};
use env::real::{RealClock, RealNet, stream_of};
use env::{Address, Clock};
use rpc::{Connection, Limits, Role, RpcError};
use serde_json::json;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod destination;
mod listening;
mod security;
mod ssh;

use destination::Destination;
pub use security::SecurityArgs;

/// Problems that are named in text; `--json` names them all.
const PROBLEMS_SHOWN: usize = 20;

/// Bytes of all rules, where the receiver has to know them: they go in one message.
const RULES_MAX: usize = 128 << 10;

/// How long the last words of two sides may take.
const FAREWELL: Duration = Duration::from_secs(30);

/// Arguments of `holdfast send`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
If SRC is a directory, what is in it goes into the directory DST; if it is a file, the file does. \
DST is made where it is missing. It is a path of this machine; or ssh://[USER@]HOST[:PORT]/PATH, \
where holdfast has to be installed; or HOST:DIR, where `holdfast receive --listen` runs, and DIR is \
below the directory that it receives into. What is in DST and not in SRC stays, but with --delete.

Levels, each with what the ones before it claim:
  wire     the bytes arrived as they were sent and were synced; what was stored was not read
  cache    the kernel returned the right bytes after they were synced, perhaps from its page cache
  device   the device returned them: they were dropped from the page cache before
  medium   it did so after more newer data than its write cache holds had been written to it; of the \
last files this can be said only by a later transfer, or with --settle")]
pub struct SendArgs {
    /// A directory or a file
    #[arg(value_name = "SRC")]
    pub source: PathBuf,
    /// Where to
    #[arg(value_name = "DST")]
    pub destination: std::ffi::OsString,
    /// What to prove of each file: wire, cache, device, or medium, which needs --write-cache
    #[arg(long, value_name = "LEVEL", default_value = "device")]
    pub level: Level,
    /// How much the write cache of the destination's disk holds, such as 1G: no interface tells it;
    /// for several disks below one file system, all together
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes)]
    pub write_cache: Option<u64>,
    /// With level medium: write that much scratch data at the end, so that no file has to wait
    #[arg(long, requires = "write_cache")]
    pub settle: bool,
    /// A rule as rsync has them: `- PATTERN` leaves out, `+ PATTERN` sends; the first that fits
    /// decides; may be given more than once
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    pub filter: Vec<Rule>,
    /// Whether to send changed parts alone of files that are on both sides: auto, always or never;
    /// auto measures what is faster, and never does between two directories of this machine
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub delta: Delta,
    /// At the end, and only where nothing of SRC is missing in DST, delete what is in DST and not in
    /// SRC; what a --filter leaves out stays
    #[arg(long)]
    pub delete: bool,
    /// Delete nothing where it would be more than so many objects
    #[arg(long, value_name = "NUMBER", requires = "delete")]
    pub max_delete: Option<u64>,
    /// Change nothing, and tell what would be done
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Send at most so much a second, as rsync has it: in KiB, or with a unit, such as 1.5m or 10MB;
    /// 0 is no limit
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub bwlimit: Option<u64>,
    /// What goes on beside what: batches, files or sequential; for `holdfast bench transfer`
    #[arg(long, value_name = "ORDER", default_value = "batches", hide = true)]
    pub order: Order,
    /// Where to put the receiver's manifest, for `holdfast verify`
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// For a destination on this machine: sign the manifest with what `ca issue` has made
    #[arg(long, value_name = "DIR", requires = "manifest")]
    pub sign: Option<PathBuf>,
    /// The same on the other machine, for ssh:// destinations
    #[arg(long, value_name = "DIR", requires = "manifest")]
    pub remote_sign: Option<PathBuf>,
    /// The program for ssh:// destinations, with its own options
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    pub ssh: String,
    /// What holdfast is called on the other machine
    #[arg(long, value_name = "PATH", default_value = "holdfast")]
    pub remote_holdfast: String,
    /// The port of HOST:DIR destinations; 7411 where it is not given
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// The name in the other machine's certificate, where it is not HOST
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub peer: Option<String>,
    /// How HOST:DIR destinations are spoken to.
    #[command(flatten)]
    pub security: SecurityArgs,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `holdfast receive`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
With --listen it serves until SIGINT or SIGTERM, and prints the address once it does. A transfer that \
is cut by its end goes on when the same `send` is called again.")]
pub struct ReceiveArgs {
    /// The directory; made where it is missing
    #[arg(
        value_name = "DST",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    pub destination: Option<PathBuf>,
    /// Speak through standard input and output: `send` starts it like this through ssh
    #[arg(long, required_unless_present = "listen", conflicts_with = "listen")]
    pub stdio: bool,
    /// Sign manifests with what `ca issue` has made for this machine; --tls does so too
    #[arg(long, value_name = "DIR", conflicts_with = "tls")]
    pub sign: Option<PathBuf>,
    /// Wait for connections, such as 0.0.0.0:7411
    #[arg(long, value_name = "HOST:PORT", requires = "root", value_parser = security::address)]
    pub listen: Option<Address>,
    /// With --listen: below this directory trees are received, and nowhere else
    #[arg(long, value_name = "DIR", requires = "listen")]
    pub root: Option<PathBuf>,
    /// With --listen and --tls: only these machines may send, not all of the same authority; may
    /// be given more than once
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub allow: Vec<String>,
    /// How it is spoken to.
    #[command(flatten)]
    pub security: SecurityArgs,
}

/// Sends a tree.
///
/// # Errors
/// Source or destination cannot be used, or the transfer stopped before its end.
pub fn send(args: &SendArgs) -> Outcome<Exit> {
    env::descriptors::raise_limit();
    if (args.level == Level::Medium) != args.write_cache.is_some() {
        return Err(Failure::refuse(
            Exit::Usage,
            "level medium and the size of the disk's write cache belong together, and one is \
             missing",
            "`--level medium --write-cache BYTES`: look into the disk's data sheet, and take more \
             where it does not say; where nobody knows, as for virtual disks: `--level device`",
        ));
    }
    let options = Options {
        level: args.level,
        write_cache: args.write_cache,
        settle: args.settle,
        manifest: args.manifest.clone(),
        order: args.order,
        filter: Filter::new(args.filter.clone()),
        delta: args.delta,
        delete: args.delete.then_some(Deletion {
            max: args.max_delete,
        }),
        dry: args.dry_run,
        rate: args.bwlimit,
        ..Options::default()
    };
    let rules = args.filter.iter().map(|rule| rule.text().len() + 8);
    if args.delete && rules.sum::<usize>() > RULES_MAX {
        return Err(Failure::refuse(
            Exit::Usage,
            "the filter is too long for --delete: the other side has to know it",
            "give fewer or shorter rules",
        ));
    }
    let mut bar = Bar::new("sending");
    let mut show = |progress: Progress| {
        bar.show(&redundancy::status::Progress {
            phase: "sending".to_owned(),
            objects_done: progress.files,
            bytes_done: progress.bytes_sent,
            ..redundancy::status::Progress::default()
        });
    };
    let begun = Instant::now();
    let report = match Destination::parse(&args.destination)? {
        Destination::Local(path) => {
            destination::need_apart(&args.source, &path)?;
            let signer = args.sign.as_deref().map(ca::signer).transpose()?;
            let settings = Settings {
                signer: signer.map(Arc::new),
                ..Settings::default()
            };
            ::transfer::local(&args.source, &path, &options, &settings, &mut show)
                .map_err(|error| explain(&error))?
        }
        Destination::Ssh(host) => ssh::send(args, &host, &options, &mut show)?,
        Destination::Listening(to) => listening::send(args, &to, &options, &mut show)?,
    };
    drop(bar);
    let seconds = begun.elapsed().as_secs_f64();
    if args.json {
        let mut object = json(&report, seconds);
        if args.dry_run {
            object["dry_run"] = plan_json(&report);
        }
        screen::print_json(&object)?;
    } else if args.dry_run {
        screen::print(&plan_words(&report))?;
    } else {
        screen::print(&words(&report, seconds))?;
    }
    Ok(match report.is_whole() {
        true => Exit::Done,
        false => Exit::TransferIncomplete,
    })
}

/// Receives a tree through standard input and output, or trees over the network.
///
/// # Errors
/// The destination cannot be used, or the sender went away; nobody can listen there.
pub fn receive(args: &ReceiveArgs) -> Outcome<Exit> {
    env::descriptors::raise_limit();
    match (&args.listen, &args.root, &args.destination) {
        (Some(at), Some(root), _) => listening::receive(args, at, root),
        (_, _, Some(destination)) => through_pipes(args, destination),
        _ => Err(Failure::refuse(
            Exit::Usage,
            "there is no destination",
            "`holdfast receive --help` shows the two forms",
        )),
    }
}

fn through_pipes(args: &ReceiveArgs, destination: &Path) -> Outcome<Exit> {
    if std::io::stdin().is_terminal() || std::io::stdout().is_terminal() {
        return Err(Failure::refuse(
            Exit::Usage,
            "standard input and output are a terminal",
            "`holdfast send SRC ssh://HOST/DST` starts this command by itself",
        ));
    }
    let signer = args.sign.as_deref().map(ca::signer).transpose()?;
    let unexpected =
        |error: &dyn std::fmt::Display| Failure::unexpected("standard input and output", error);
    let own = |file: &dyn AsFd| file.as_fd().try_clone_to_owned();
    let input = own(&std::io::stdin()).map_err(|error| unexpected(&error))?;
    let output = own(&std::io::stdout()).map_err(|error| unexpected(&error))?;
    // Whatever else prints must not get into the conversation, and its end has to be seen.
    let nothing = std::fs::File::open("/dev/null").map_err(|error| unexpected(&error))?;
    rustix::stdio::dup2_stdin(&nothing).map_err(|error| unexpected(&error))?;
    rustix::stdio::dup2_stdout(std::io::stderr()).map_err(|error| unexpected(&error))?;
    let stream = stream_of(input, output).map_err(|error| unexpected(&error))?;
    let connection = Connection::start(stream, &RealNet, Role::Server, Limits::default())
        .map_err(|error| unexpected(&error))?;
    let settings = Settings {
        signer: signer.map(Arc::new),
        ..Settings::default()
    };
    let destination = ::transfer::Destination::At(destination);
    let received = ::transfer::receive(destination, &connection, &RealClock, &settings);
    // Where the sender has gone nobody waits for it.
    let _ended = connection.close(RealClock.now().after(FAREWELL));
    received.map_err(|error| explain(&error))?;
    Ok(Exit::Done)
}

/// A failure for people.
fn explain(error: &TransferError) -> Failure {
    const SAFE: &str = "every file under its own name in the destination is whole";
    const AGAIN: &str = "the same command again goes on where it stopped";
    let (exit, next) = match error {
        TransferError::Rpc(RpcError::Distrusts(_) | RpcError::Distrusted(_) | RpcError::Tls(_)) => {
            (
                Exit::BadCertificate,
                "see that both have certificates of one authority, that their clocks are right, and \
             that --peer names the other; `holdfast ca issue` makes new ones",
            )
        }
        TransferError::Failed { kind, .. } => match kind {
            FailureKind::Destination => (
                Exit::TransferRefused,
                "name a directory, or one to be made in a directory that is there",
            ),
            FailureKind::Level => (
                Exit::TransferRefused,
                "ask for less: `--level cache`, and know that it proves less",
            ),
            FailureKind::Version => (
                Exit::TransferRefused,
                "install the same version of holdfast on both machines",
            ),
            FailureKind::Busy => (Exit::TransferStopped, "wait until that one has ended"),
            FailureKind::Full => (
                Exit::TransferStopped,
                "make room; the same command again goes on where it stopped",
            ),
            FailureKind::Medium => (
                Exit::TransferStopped,
                "look at the destination's disk: `dmesg`; nothing that it returned was trusted",
            ),
        },
        TransferError::Manifest(_) => (
            Exit::TransferRefused,
            "name a file for the manifest that this user may write",
        ),
        TransferError::Io { .. } => (
            Exit::TransferRefused,
            "name a source that this user may read",
        ),
        _ => (Exit::TransferStopped, AGAIN),
    };
    Failure {
        what: error.to_string(),
        safe: SAFE.to_owned(),
        next: next.to_owned(),
        exit,
    }
}

fn json(report: &Report, seconds: f64) -> serde_json::Value {
    let problem = |problem: &Problem| {
        json!({
            "path": problem.path.to_string(),
            "what": problem.what,
            "missing": problem.missing,
        })
    };
    json!({
        "level": report.proved(),
        "claim": report.proved().claim(),
        "whole": report.is_whole(),
        "files": report.files,
        "files_unchanged": report.kept,
        "bytes": report.bytes,
        "others": report.others,
        "bytes_sent": report.bytes_sent,
        "bytes_resumed": report.bytes_resumed,
        "bytes_reused": report.bytes_reused,
        "pages_resent": report.pages_resent,
        "files_resent": report.files_resent,
        "deleted": report.deleted,
        "at_medium": report.settled,
        "pending": report.pending,
        "problems": report.problems.iter().map(problem).collect::<Vec<_>>(),
        "problems_more": report.problems_more,
        "seconds": seconds,
    })
}

fn plan_json(report: &Report) -> serde_json::Value {
    let step = |(path, planned): &(TreePath, Planned)| json!({ "path": path.to_string(), "what": planned });
    json!({
        "plan": report.plan.iter().map(step).collect::<Vec<_>>(),
        "plan_more": report.plan_more,
        "to_delete": report.extra,
    })
}

fn plan_words(report: &Report) -> String {
    let mut text = String::new();
    for (path, planned) in &report.plan {
        text.push_str(&format!("{:<8} {path}\n", planned.word()));
    }
    if report.plan_more > 0 {
        text.push_str(&format!("and {} more\n", units::count(report.plan_more)));
    }
    text.push_str(&format!(
        "nothing was changed; {} of {} would be sent or searched for changes, {} compared, \
         {} deleted\n",
        units::plural(report.files, "file"),
        units::bytes(report.bytes),
        units::count(report.kept),
        units::count(report.extra),
    ));
    text.push_str(&problems(report));
    text
}

fn words(report: &Report, seconds: f64) -> String {
    let mut text = format!(
        "{} of {} in place, proved at level {}\n  that is: {}\n",
        units::plural(report.files, "file"),
        units::bytes(report.bytes),
        report.proved(),
        report.proved().claim(),
    );
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<11}{value}\n"));
    let rate = (report.bytes_sent as f64 / seconds.max(0.001)) as u64;
    line(
        "sent:",
        format!(
            "{} in {seconds:.1} s, {}/s",
            units::bytes(report.bytes_sent),
            units::bytes(rate)
        ),
    );
    if report.kept > 0 {
        line(
            "unchanged:",
            format!("{}, compared", units::plural(report.kept, "file")),
        );
    }
    if report.bytes_resumed > 0 {
        line(
            "resumed:",
            format!("{} were proved before", units::bytes(report.bytes_resumed)),
        );
    }
    if report.bytes_reused > 0 {
        let reused = units::bytes(report.bytes_reused);
        line("reused:", format!("{reused} of the files that were there"));
    }
    if report.pages_resent > 0 {
        line(
            "repaired:",
            format!(
                "{} read back wrong and were sent again: look at the destination's disk",
                units::plural(report.pages_resent, "page")
            ),
        );
    }
    if report.files_resent > 0 {
        let again = units::plural(report.files_resent, "file");
        line(
            "sent again:",
            format!("{again} read wrong once they were in place: look at the destination's disk"),
        );
    }
    if report.deleted > 0 {
        let deleted = units::plural(report.deleted, "object");
        line(
            "deleted:",
            format!("{deleted} that the source does not have"),
        );
    }
    if report.settled > 0 {
        let settled = units::plural(report.settled, "file");
        line(
            "at medium:",
            format!("{settled}, of this transfer or earlier ones"),
        );
    }
    if report.pending > 0 {
        line(
            "waiting:",
            format!(
                "{} at level device until more was written; a later transfer to the same place \
                 proves more, or --settle",
                units::plural(report.pending, "file")
            ),
        );
    }
    text.push_str(&problems(report));
    text
}

fn problems(report: &Report) -> String {
    let mut text = String::new();
    if !report.is_whole() {
        let all = report.problems.len() as u64 + report.problems_more;
        text.push_str(&format!("NOT AS IN THE SOURCE: {}\n", units::count(all)));
        for problem in report.problems.iter().take(PROBLEMS_SHOWN) {
            let state = if problem.missing {
                "missing"
            } else {
                "differs"
            };
            text.push_str(&format!("  {state}: {}: {}\n", problem.path, problem.what));
        }
        let shown = report.problems.len().min(PROBLEMS_SHOWN) as u64;
        if all > shown {
            text.push_str(&format!(
                "  and {} more; --json names them\n",
                units::count(all - shown)
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(level: Level) -> Report {
        Report {
            level,
            files: 1204,
            kept: 1000,
            bytes: 3 << 30,
            others: 17,
            bytes_sent: 1 << 30,
            bytes_resumed: 32 << 20,
            bytes_reused: 5 << 20,
            pages_resent: 1,
            files_resent: 0,
            settled: 0,
            pending: 0,
            extra: 0,
            deleted: 12,
            plan: Vec::new(),
            plan_more: 0,
            problems: Vec::new(),
            problems_more: 0,
        }
    }

    #[test]
    fn a_report_says_what_was_proved() {
        insta::assert_snapshot!(words(&report(Level::Device), 2.0));
    }

    #[test]
    fn a_report_says_what_waits() {
        let report = Report {
            settled: 1100,
            pending: 104,
            ..report(Level::Medium)
        };
        insta::assert_snapshot!(words(&report, 2.0));
    }

    #[test]
    fn a_dry_run_says_what_would_be_done() {
        let path = |name: &[u8]| TreePath::root().join(name);
        let report = Report {
            plan: vec![
                (path(b"a"), Planned::New),
                (path(b"b"), Planned::Replace),
                (path(b"c\n"), Planned::Delete),
            ],
            plan_more: 3,
            extra: 2,
            ..report(Level::Device)
        };
        insta::assert_snapshot!(plan_words(&report));
        assert_eq!(plan_json(&report)["plan"][2]["what"], "delete");
    }

    #[test]
    fn what_is_not_in_place_is_named() {
        let problem = |name: &[u8], what: &str, missing| Problem {
            path: TreePath::root().join(name),
            what: what.to_owned(),
            missing,
        };
        let report = Report {
            problems: vec![
                problem(b"a\nb", "a directory is in its place", true),
                problem(
                    b"c\xff",
                    "its owner could not be kept: operation not permitted",
                    false,
                ),
            ],
            problems_more: 3,
            ..report(Level::Cache)
        };
        insta::assert_snapshot!(words(&report, 2.0));
        assert_eq!(json(&report, 2.0)["problems"][1]["path"], "c\\xff");
    }

    #[test]
    fn every_failure_says_what_to_do() {
        let failed = |kind| TransferError::Failed {
            kind,
            what: "what happened".to_owned(),
        };
        let all = [
            FailureKind::Destination,
            FailureKind::Level,
            FailureKind::Version,
            FailureKind::Busy,
            FailureKind::Full,
            FailureKind::Medium,
        ];
        let shown: Vec<String> = all
            .into_iter()
            .map(|kind| explain(&failed(kind)).to_string())
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }
}
