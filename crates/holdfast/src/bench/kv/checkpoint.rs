//! What a checkpoint costs: BGREWRITEAOF, which is a compaction of ours and a rewrite of Redis.

use super::content::Content;
use super::driver::{Driver, Until};
use super::keys::Keys;
use super::server::Server;
use super::sides::{Samples, Side};
use super::throughput::Driven;
use super::workload::{Letter, Shape, Ycsb};
use super::{Scene, VALUE_BYTES};
use crate::bench::process::check_stop;
use crate::bench::row::{Better, Report};
use anyhow::ensure;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often memory and progress are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Longest checkpoint.
const PATIENCE: Duration = Duration::from_secs(900);

/// What was seen of a checkpoint from beside the load.
struct Seen {
    seconds: f64,
    /// Bytes over what was resident before.
    over: f64,
    resident: f64,
    files_before: f64,
    files_after: f64,
}

/// Measures.
pub(super) fn run(scene: &mut Scene<'_>, report: &mut Report) -> anyhow::Result<()> {
    let args = scene.args;
    let keys = args.keys() * 2;
    let servers = scene.servers("everysec")?;
    let mut sides = servers.map(|server| {
        let content = Content::new(VALUE_BYTES);
        Driven::fill(
            server,
            usize::from(args.connections),
            keys,
            content,
            Shape::Text,
        )
    })?;
    for (name, drawn) in [
        ("zipfian", Keys::zipfian as fn(u64) -> Keys),
        ("uniform", Keys::uniform),
    ] {
        let mut idle = Samples::new("latency_us_max", "us", Better::Lower);
        let mut during = Samples::new("latency_us_max", "us", Better::Lower);
        let mut p999 = Samples::new("latency_us_p999", "us", Better::Lower);
        let mut time = Samples::new("time_s", "s", Better::Lower);
        let mut over = Samples::new("share", "", Better::Lower);
        let mut before = Samples::new("own_files_mb", "MB", Better::Lower);
        let mut after = Samples::new("own_files_mb", "MB", Better::Lower);
        for round in 0..args.runs.rounds() {
            sides.each(round, |side, driven| {
                let mut ycsb = Ycsb::new(Letter::A, drawn(keys), round as u64 + 1);
                driven.driver.pipeline = 1;
                let idle_time = Duration::from_secs(args.seconds());
                let phase = AtomicUsize::new(0);
                let Driven { server, driver } = driven;
                let (outcome, seen) = beside(driver, &mut ycsb, &phase, || {
                    watch(server, side, idle_time, &phase)
                })?;
                idle.add(side, outcome.quantile(0, 1.0));
                during.add(side, outcome.quantile(1, 1.0));
                p999.add(side, outcome.quantile(1, 0.999));
                time.add(side, seen.seconds);
                over.add(side, seen.over / seen.resident);
                before.add(side, seen.files_before / 1e6);
                after.add(side, seen.files_after / 1e6);
                driven.server.settle()
            })?;
        }
        let case = |what: &str| format!("checkpoint-{name}-{what}");
        idle.report(report, &case("idle"), "YCSB A before the checkpoint")?;
        during.report(report, &case("under-way"), "YCSB A while it runs")?;
        p999.report(report, &case("under-way"), "")?;
        time.report(report, &case("time"), "from the command to its end")?;
        over.report(
            report,
            &case("memory"),
            "most resident memory over that before, as a share of it; of Redis with what its child copied",
        )?;
        before.report(report, &case("files-before"), "")?;
        after.report(report, &case("files-after"), "")?;
    }
    sides.each(0, |_, side| {
        side.verify()?;
        Ok(())
    })?;
    sides.map(|side| side.server.end()).map(|_| ())
}

/// Runs a load until `watch`, on a thread of its own, is done.
fn beside<T: Send>(
    driver: &mut Driver,
    load: &mut Ycsb,
    phase: &AtomicUsize,
    watch: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<(super::driver::Outcome, T)> {
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let seen = watch();
            // Also after an error: the load has to end.
            phase.store(2, Ordering::Release);
            seen
        });
        let outcome = driver.run(load, Until::Phase { phase, last: 2 }, 2);
        let seen = watching
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((outcome?, seen?))
    })
}

fn watch(
    server: &mut Server,
    side: Side,
    idle: Duration,
    phase: &AtomicUsize,
) -> anyhow::Result<Seen> {
    std::thread::sleep(idle);
    let resident = server.resident_bytes()?;
    let files_before = server.file_bytes()?;
    let mut most = resident;
    let begin = Instant::now();
    server.ask(&[b"BGREWRITEAOF"])?;
    phase.store(1, Ordering::Release);
    loop {
        std::thread::sleep(LOOK);
        check_stop()?;
        most = most.max(server.resident_bytes()?);
        if server.info("persistence", "aof_rewrite_in_progress")? == 0.0 {
            break;
        }
        ensure!(begin.elapsed() < PATIENCE, "the checkpoint does not end");
    }
    let seconds = begin.elapsed().as_secs_f64();
    let copied = match side {
        Side::Ours => 0.0,
        // What the child had for itself in the end.
        Side::Peer => server.info("persistence", "aof_last_cow_size")?,
    };
    Ok(Seen {
        seconds,
        over: most - resident + copied,
        resident,
        files_before,
        files_after: server.file_bytes()?,
    })
}
