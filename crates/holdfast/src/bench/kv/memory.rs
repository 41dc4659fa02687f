//! Bytes of memory for each key.

use super::Scene;
use super::content::Content;
use super::sides::{Samples, Side};
use super::workload::Shape;
use crate::bench::row::{Better, Report};

/// Fields of the hashes; a value of so many bytes is spread over them.
const FIELDS: usize = 4;

/// Measures.
pub(super) fn run(scene: &mut Scene<'_>, report: &mut Report) -> anyhow::Result<()> {
    let args = scene.args;
    for bytes in [16, 100, 1000] {
        for shape in [Shape::Text, Shape::Hash(FIELDS)] {
            let keys = (args.keys() * 2).min(400_000_000 / bytes as u64);
            let each = match shape {
                Shape::Hash(fields) => bytes / fields,
                _ => bytes,
            };
            let mut resident = Samples::new("bytes_per_key", "B", Better::Lower);
            let mut counted = Samples::new("bytes_per_key", "B", Better::Lower);
            let mut servers = scene.servers("everysec")?;
            servers.each(0, |side, server| {
                // Once without counting, so that what the first keys bring along does not count.
                server.ask(&[b"SET", b"first", b"one"])?;
                let before = [
                    server.resident_bytes()?,
                    server.info("memory", "used_memory")?,
                ];
                let mut driver =
                    super::driver::Driver::connect(server.address, 4, Content::new(each))?;
                driver.pipeline = super::throughput::FILL_PIPELINE;
                let mut fill = super::workload::Fill {
                    next: 0,
                    count: keys,
                    shape,
                };
                driver.run(&mut fill, super::driver::Until::Dry, 1)?;
                if shape == Shape::Text && each >= 16 {
                    driver.verify(server.address, super::driver::Key::Text)?;
                } else {
                    driver.verify(server.address, super::driver::Key::Field(FIELDS - 1))?;
                }
                let after = [
                    server.resident_bytes()?,
                    server.info("memory", "used_memory")?,
                ];
                let [now_resident, now_counted] = after;
                let [old_resident, old_counted] = before;
                resident.add(side, (now_resident - old_resident) / keys as f64);
                let own = match side {
                    // What it says of itself leaves out most; the process does not.
                    Side::Ours => now_resident - old_resident,
                    Side::Peer => now_counted - old_counted,
                };
                counted.add(side, own / keys as f64);
                Ok(())
            })?;
            let name = match shape {
                Shape::Hash(_) => "hash",
                _ => "string",
            };
            let case = format!("memory-{name}-16-{bytes}");
            resident.report(
                report,
                &case,
                "growth of the resident set over all keys; keys of 16 bytes",
            )?;
            counted.report(
                report,
                &format!("{case}-counted"),
                "ours as before, the peer by its used_memory",
            )?;
            servers.map(|server| server.end())?;
        }
    }
    Ok(())
}
