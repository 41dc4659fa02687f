//! From the start of the process to the first answer.

use super::content::Content;
use super::server::Server;
use super::sides::{Pair, Samples};
use super::throughput::Driven;
use super::workload::Shape;
use super::{Scene, VALUE_BYTES};
use crate::bench::process::wait_until;
use crate::bench::row::{Better, Report};
use std::time::Duration;

/// Longest rewrite.
const PATIENCE: Duration = Duration::from_secs(900);

/// Measures.
pub(super) fn run(scene: &mut Scene<'_>, report: &mut Report) -> anyhow::Result<()> {
    let args = scene.args;
    for (name, bytes, keys) in [
        ("1000-bytes", VALUE_BYTES, args.keys()),
        ("100-bytes", 100, args.keys() * 4),
    ] {
        let servers = scene.servers("everysec")?;
        let mut sides = servers.map(|server| {
            let connections = usize::from(args.connections);
            let content = Content::new(bytes);
            Driven::fill(server, connections, keys, content, Shape::Text)
        })?;
        sides = measure(scene, report, &format!("restart-{name}"), sides)?;
        sides.each(0, |_, side| rewrite(&mut side.server))?;
        sides = measure(scene, report, &format!("restart-{name}-rewritten"), sides)?;
        sides.each(0, |_, side| {
            side.verify()?;
            Ok(())
        })?;
        sides.map(|side| side.server.end())?;
    }
    Ok(())
}

fn measure(
    scene: &Scene<'_>,
    report: &mut Report,
    case: &str,
    mut sides: Pair<Driven>,
) -> anyhow::Result<Pair<Driven>> {
    let mut times = Samples::new("time_s", "s", Better::Lower);
    for _ in 0..scene.args.runs.rounds() {
        sides = sides.map(|side| {
            let server = side.server.restart()?;
            Ok(Driven { server, ..side })
        })?;
        sides.each(0, |side, driven| {
            times.add(side, driven.server.start_s);
            Ok(())
        })?;
    }
    times.report(
        report,
        case,
        "the files were read before, so no disk is waited for; two cores",
    )?;
    Ok(sides)
}

fn rewrite(server: &mut Server) -> anyhow::Result<()> {
    server.ask(&[b"BGREWRITEAOF"])?;
    wait_until("the end of the rewrite", PATIENCE, || {
        Ok(server.info("persistence", "aof_rewrite_in_progress")? == 0.0)
    })
}
