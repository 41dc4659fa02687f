//! The asking side.

use super::{ANSWER_BYTES_MAX, Answer, Request, TIME_LIMIT, parse, place, receive, send};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::PidfdFlags;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Asks whoever serves `mount`, and waits at most `limit` for the answer.
///
/// # Errors
/// Nobody serves it, no answer in time, or the answer is a failure.
pub fn ask(runtime: &Path, mount: &Path, request: &Request, limit: Duration) -> Outcome<Answer> {
    ask_over(&connect(runtime, mount)?, mount, request, limit)
}

/// Stops whoever serves `mount`, and waits until the process is gone and its locks with it, so
/// that the next start finds everything free.
///
/// # Errors
/// As [`ask`].
pub fn stop(runtime: &Path, mount: &Path, force: bool, limit: Duration) -> Outcome<()> {
    let until = Instant::now() + limit;
    let stream = connect(runtime, mount)?;
    let process = rustix::net::sockopt::socket_peercred(&stream)
        .and_then(|peer| rustix::process::pidfd_open(peer.pid, PidfdFlags::empty()));
    ask_over(&stream, mount, &Request::Down { force }, limit)?;
    // A process that has ended already cannot be waited for.
    let Ok(process) = process else {
        return Ok(());
    };
    let left = until.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left.max(TIME_LIMIT))
        .map_err(|error| Failure::unexpected("waiting for the end", &error))?;
    match rustix::event::poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
        Ok(0) => Err(unanswered(mount, &ErrorKind::TimedOut.into(), limit)),
        _ => Ok(()),
    }
}

fn connect(runtime: &Path, mount: &Path) -> Outcome<UnixStream> {
    place::connect(runtime, mount).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => not_running(mount),
        ErrorKind::PermissionDenied => need_root(),
        _ => Failure::unexpected("control socket", &crate::os::words(&error)),
    })
}

fn ask_over(
    mut stream: &UnixStream,
    mount: &Path,
    request: &Request,
    limit: Duration,
) -> Outcome<Answer> {
    let limited = stream
        .set_read_timeout(Some(limit))
        .and_then(|()| stream.set_write_timeout(Some(TIME_LIMIT)));
    let line = limited
        .and_then(|()| send(&mut stream, request))
        .and_then(|()| receive(stream, ANSWER_BYTES_MAX))
        .map_err(|error| unanswered(mount, &error, limit))?;
    let line = line.ok_or_else(|| unanswered(mount, &ErrorKind::ConnectionReset.into(), limit))?;
    match parse(&line)? {
        Answer::Failed(failure) => Err(failure),
        answer => Ok(answer),
    }
}

/// The mount that is meant: the given one, or the only one that is served.
///
/// # Errors
/// None is served, or several are.
pub fn choose(runtime: &Path, given: Option<&Path>) -> Outcome<PathBuf> {
    if let Some(mount) = given {
        return std::path::absolute(mount)
            .map(|path| path.components().collect())
            .map_err(|error| Failure::unexpected("mount point", &error));
    }
    let all = place::all(runtime).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => need_root(),
        _ => Failure::unexpected(format_args!("reading {}", runtime.display()), &error),
    })?;
    // One that may not be asked is one all the same: asking it says why not.
    let is_served = |mount: &PathBuf| !matches!(connect(runtime, mount), Err(failure) if failure.exit == Exit::NotRunning);
    let mut alive = all.into_iter().filter(is_served);
    let Some(first) = alive.next() else {
        return Err(Failure {
            what: "no holdfast is running on this machine".to_owned(),
            safe: "what was synced is on its stores, as plain files".to_owned(),
            next: "start one: `holdfast up`".to_owned(),
            exit: Exit::NotRunning,
        });
    };
    let others: Vec<PathBuf> = alive.collect();
    if others.is_empty() {
        return Ok(first);
    }
    let names: Vec<String> = [first]
        .iter()
        .chain(&others)
        .map(|mount| mount.display().to_string())
        .collect();
    Err(Failure::refuse(
        Exit::Usage,
        format!("several mounts are served: {}", names.join(", ")),
        "name one of them in the command",
    ))
}

fn not_running(mount: &Path) -> Failure {
    Failure {
        what: format!("no holdfast serves {}", mount.display()),
        safe: "what was synced is on its stores, as plain files".to_owned(),
        next: format!("start one: `holdfast up {}`", mount.display()),
        exit: Exit::NotRunning,
    }
}

fn need_root() -> Failure {
    Failure::refuse(
        Exit::NoPermission,
        "only root may talk to a running holdfast",
        "run the command with sudo",
    )
}

fn unanswered(mount: &Path, error: &std::io::Error, limit: Duration) -> Failure {
    let what = match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!(
            "the holdfast that serves {} did not answer within {} s",
            mount.display(),
            limit.as_secs()
        ),
        _ => format!(
            "the holdfast that serves {} ended before it answered",
            mount.display()
        ),
    };
    Failure {
        what,
        safe: "what was synced is on its stores".to_owned(),
        next: "look at its log, and whether a store's disk hangs: `dmesg`\n\
               ask again: `holdfast status`"
            .to_owned(),
        exit: Exit::NoAnswer,
    }
}
