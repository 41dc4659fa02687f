//! The block device of a volume by NBD under `qemu-img bench`, beside qemu-nbd with a file on the same file
//! system, both past the page cache. Our writes are atomic and checksummed, the peer's are not.

use super::{Args, NAME};
use crate::bench::process::{self, Running};
use crate::bench::row::{Better, Report, Row, alternate};
use anyhow::{Context as _, bail};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PEER: &str = "qemu-nbd --cache=none, a file";

/// Bound on a start, and on a run.
const LIMIT: Duration = Duration::from_secs(300);

/// What the client does.
struct Load {
    case: &'static str,
    write: bool,
    bytes: u64,
    /// Bytes from one request to the next, modulo the size of the device.
    step: u64,
    /// Requests under way.
    depth: u64,
    /// Requests between two flushes; none in reads.
    flush_interval: u64,
    /// Requests, and with `--quick`.
    count: [u64; 2],
}

/// Requests that go on behind each other end in all parts of the device by this step.
const SCATTERED: u64 = (7 << 20) + 4096;

const LOADS: [Load; 5] = [
    write("nbd-write-4k-each-flushed", 4096, 4096, 1, [2000, 300]),
    write(
        "nbd-write-4k-scattered",
        4096,
        SCATTERED,
        16,
        [20_000, 4000],
    ),
    write("nbd-write-64k-sequential", 65_536, 65_536, 16, [8000, 2000]),
    read("nbd-read-4k-scattered", 4096, SCATTERED, [40_000, 8000]),
    read("nbd-read-1m-sequential", 1 << 20, 1 << 20, [1000, 200]),
];

const fn write(case: &'static str, bytes: u64, step: u64, depth: u64, count: [u64; 2]) -> Load {
    Load {
        case,
        write: true,
        bytes,
        step,
        depth,
        flush_interval: depth,
        count,
    }
}

const fn read(case: &'static str, bytes: u64, step: u64, count: [u64; 2]) -> Load {
    Load {
        case,
        write: false,
        bytes,
        step,
        depth: 16,
        flush_interval: 0,
        count,
    }
}

/// A directory that goes away with this.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} is left: {error}", self.0.display());
        }
    }
}

/// A server, and where its clients find the device.
struct Server {
    uri: String,
    log: PathBuf,
    _running: Running,
}

impl Server {
    fn start(command: &mut Command, home: &Path, name: &str, path: &str) -> anyhow::Result<Server> {
        let socket = home.join(format!("{name}.socket"));
        let log = home.join(format!("{name}.log"));
        let mut running = Running::start(command, &log, Duration::from_secs(30))?;
        process::wait_until("a server to listen", LIMIT, || {
            if let Some(status) = running.ended()? {
                bail!("a server ended ({status}): {}", process::tail(&log));
            }
            Ok(UnixStream::connect(&socket).is_ok())
        })?;
        Ok(Server {
            uri: format!("nbd+unix:///{path}?socket={}", socket.display()),
            log: home.join(format!("{name}.client")),
            _running: running,
        })
    }

    /// Runs the load once; requests per second.
    fn run(&self, load: &Load, quick: bool) -> anyhow::Result<f64> {
        process::check_stop()?;
        // What earlier runs said is not to be read again.
        drop(std::fs::File::create(&self.log)?);
        let count = load.count[usize::from(quick)];
        let mut command = Command::new("qemu-img");
        command.args(["bench", "-f", "raw", "-t", "none"]);
        let mut number = |flag: &str, value: u64| {
            command.args([flag, &value.to_string()]);
        };
        number("-c", count);
        number("-d", load.depth);
        number("-s", load.bytes);
        number("-S", load.step);
        if load.write {
            command.args(["-w", "--pattern=165"]);
            command.arg(format!("--flush-interval={}", load.flush_interval));
        }
        process::run(command.arg(&self.uri), LIMIT, &self.log)?;
        let said = std::fs::read_to_string(&self.log)?;
        let seconds = seconds(&said).with_context(|| format!("qemu-img bench said: {said}"))?;
        Ok(count as f64 / seconds)
    }
}

/// From `Run completed in 0.129 seconds.`
fn seconds(said: &str) -> Option<f64> {
    let (_, rest) = said.split_once("Run completed in ")?;
    rest.split_once(' ')?.0.parse().ok()
}

/// Runs all loads.
pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    if let Some(program) = ["qemu-img", "qemu-nbd"]
        .into_iter()
        .find(|program| !process::installed(program))
    {
        println!("left out: NBD: {program} is not installed (Debian: qemu-utils)");
        return Ok(());
    }
    let home = (args.runs.dir).join(format!("holdfast-bench-nbd-{}", std::process::id()));
    std::fs::create_dir(&home).with_context(|| format!("cannot make {}", home.display()))?;
    let home = Home(home);
    let quick = args.runs.quick;
    let mib = if quick { 64 } else { 256 };
    let ours = ours(&home.0, mib)?;
    let peer = peer(&home.0, mib)?;
    // Nothing is a hole any more.
    let fill = Load {
        count: [mib; 2],
        ..write("fill", 1 << 20, 1 << 20, 16, [0; 2])
    };
    for server in [&ours, &peer] {
        server.run(&fill, quick)?;
    }
    for load in &LOADS {
        let compared = alternate(
            args.runs.rounds(),
            || ours.run(load, quick),
            || peer.run(load, quick),
        )?;
        let flushes = match (load.write, load.flush_interval) {
            (false, _) => "no flushes".to_owned(),
            (true, 1) => "a flush behind each".to_owned(),
            (true, interval) => format!("a flush behind {interval}"),
        };
        report.add(Row {
            bench: NAME.into(),
            case: load.case.into(),
            metric: "ops_per_s".into(),
            unit: "1/s".into(),
            better: Better::Higher,
            ours: compared.ours,
            peer: compared.peer,
            peer_name: PEER.into(),
            ratio: compared.ratio,
            runs: compared.runs,
            spread: compared.spread,
            note: format!(
                "qemu-img bench, {} in flight, {flushes}; each write of ours is atomic and its blocks \
                 have checksums, the peer's are neither; both by a Unix socket and direct I/O",
                load.depth
            ),
        })?;
    }
    Ok(())
}

fn ours(home: &Path, mib: u64) -> anyhow::Result<Server> {
    let holdfast = std::env::current_exe()?;
    let volume = home.join("volume");
    // A volume that is a little more than half full.
    written(&volume, mib * 5 / 2)?;
    let mut create = Command::new(&holdfast);
    create.args(["volume", "create", "--device-bytes"]);
    create.arg(format!("{mib}M")).arg(&volume);
    process::run(&mut create, LIMIT, &home.join("create.log"))?;
    let mut serve = Command::new(&holdfast);
    serve.args(["volume", "serve"]).arg(&volume);
    serve.arg("--socket").arg(home.join("ours.socket"));
    Server::start(&mut serve, home, "ours", "1")
}

fn peer(home: &Path, mib: u64) -> anyhow::Result<Server> {
    let file = home.join("file");
    written(&file, mib)?;
    let mut serve = Command::new("qemu-nbd");
    serve.args(["--persistent", "--shared=4", "--format=raw"]);
    serve.args(["--cache=none", "--aio=native", "--discard=unmap"]);
    serve.arg("--socket").arg(home.join("peer.socket"));
    Server::start(serve.arg(&file), home, "peer", "")
}

/// A file whose blocks are all written.
fn written(path: &Path, mib: u64) -> anyhow::Result<()> {
    let mut file =
        std::fs::File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    for _ in 0..mib {
        process::check_stop()?;
        file.write_all(&[0; 1 << 20])?;
    }
    Ok(file.sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_run_is_read_from_what_qemu_img_says() {
        let said = "Sending 300 write requests, 4096 bytes each, 1 in parallel (starting at offset 0, step size 4096)\n\
                    Sending flush every 1 requests\nRun completed in 0.129 seconds.\n";
        assert_eq!(seconds(said), Some(0.129));
        assert_eq!(seconds("qemu-img: Could not open"), None);
    }

    #[test]
    fn scattered_requests_end_in_all_parts_of_the_device() {
        let sizes = [64_u64 << 20, 256 << 20];
        for size in sizes {
            let parts = (0..4000).map(|request| request * SCATTERED % size / (1 << 20));
            let parts: std::collections::BTreeSet<u64> = parts.collect();
            assert_eq!(parts.len() as u64, size >> 20);
        }
    }
}
