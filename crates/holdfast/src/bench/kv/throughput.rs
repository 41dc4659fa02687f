//! Operations a second, and how long they take.

use super::content::Content;
use super::driver::{Driver, Key, Outcome, Until};
use super::keys::Keys;
use super::server::{Server, cpu_s};
use super::sides::{Pair, Samples, Side};
use super::workload::{Fill, Letter, Shape, Ycsb};
use super::{Scene, VALUE_BYTES};
use crate::bench::row::{Better, Report};
use std::time::Duration;

/// Requests that are on their way at once while a database is filled.
pub(super) const FILL_PIPELINE: usize = 32;

/// A server with the connections of a driver.
pub(super) struct Driven {
    pub(super) server: Server,
    pub(super) driver: Driver,
}

impl Driven {
    /// Fills a server that is empty.
    pub(super) fn fill(
        server: Server,
        connections: usize,
        keys: u64,
        content: Content,
        shape: Shape,
    ) -> anyhow::Result<Driven> {
        let driver = Driver::connect(server.address, connections, content)?;
        let mut driven = Driven { server, driver };
        driven.put(keys, shape)?;
        Ok(driven)
    }

    pub(super) fn put(&mut self, keys: u64, shape: Shape) -> anyhow::Result<()> {
        self.driver.pipeline = FILL_PIPELINE;
        let mut fill = Fill {
            next: 0,
            count: keys,
            shape,
        };
        self.driver.run(&mut fill, Until::Dry, 1)?;
        self.server.settle()
    }

    /// Compares all that the server has with what was written.
    pub(super) fn verify(&self) -> anyhow::Result<u64> {
        self.driver.verify(self.server.address, Key::Text)
    }
}

/// A load and how its keys are drawn.
struct Load {
    name: &'static str,
    letter: Letter,
    keys: fn(u64) -> Keys,
}

const fn load(name: &'static str, letter: Letter, keys: fn(u64) -> Keys) -> Load {
    Load { name, letter, keys }
}

const EVERYSEC: [Load; 8] = [
    load("a", Letter::A, Keys::zipfian),
    load("a-uniform", Letter::A, Keys::uniform),
    load("b", Letter::B, Keys::zipfian),
    load("c", Letter::C, Keys::zipfian),
    load("d", Letter::D, Keys::latest),
    load("e", Letter::E, Keys::zipfian),
    load("f", Letter::F, Keys::zipfian),
    load("updates-uniform", Letter::Updates, Keys::uniform),
];

const ALWAYS: [Load; 3] = [
    load("a", Letter::A, Keys::zipfian),
    load("a-uniform", Letter::A, Keys::uniform),
    load("updates-uniform", Letter::Updates, Keys::uniform),
];

/// Measures all loads under a policy.
pub(super) fn run(
    scene: &mut Scene<'_>,
    report: &mut Report,
    sync: &'static str,
) -> anyhow::Result<()> {
    let args = scene.args;
    let (keys, connections) = (args.keys(), usize::from(args.connections));
    let servers = scene.servers(sync)?;
    let mut sides = servers.map(|server| {
        let content = Content::new(VALUE_BYTES);
        Driven::fill(server, connections, keys, content, Shape::Text)
    })?;
    let loads: &[Load] = if sync == "always" { &ALWAYS } else { &EVERYSEC };
    let wanted =
        |load: &&Load| args.loads.is_empty() || args.loads.iter().any(|name| name == load.name);
    for load in loads.iter().filter(wanted) {
        if load.letter == Letter::E {
            sides.each(0, |_, side| {
                let count = side.driver.versions.count();
                side.put(count, Shape::Indexed)
            })?;
        }
        for pipeline in [1, 16] {
            measure(scene, report, sync, load, pipeline, &mut sides)?;
        }
    }
    sides.each(0, |_, side| {
        side.verify()?;
        Ok(())
    })?;
    sides.map(|side| side.server.end()).map(|_| ())
}

fn measure(
    scene: &Scene<'_>,
    report: &mut Report,
    sync: &str,
    load: &Load,
    pipeline: usize,
    sides: &mut Pair<Driven>,
) -> anyhow::Result<()> {
    let mut rates = Samples::new("ops_per_s", "/s", Better::Higher);
    let mut p99 = Samples::new("latency_us_p99", "us", Better::Lower);
    let mut p999 = Samples::new("latency_us_p999", "us", Better::Lower);
    let mut busy = Samples::new("share", "cores", Better::Lower);
    let mut driver_busy = [0.0f64; 2];
    for round in 0..scene.args.runs.rounds() {
        sides.each(round, |side, driven| {
            let keys = (load.keys)(scene.args.keys());
            let mut ycsb = Ycsb::new(load.letter, keys, round as u64 + 1);
            driven.driver.pipeline = pipeline;
            let before = [driven.server.cpu_s()?, cpu_s("/proc/thread-self/stat")?];
            let until = Until::After(Duration::from_secs(scene.args.seconds()));
            let outcome: Outcome = driven.driver.run(&mut ycsb, until, 1)?;
            let after = [driven.server.cpu_s()?, cpu_s("/proc/thread-self/stat")?];
            rates.add(side, outcome.per_second());
            p99.add(side, outcome.quantile(0, 0.99));
            p999.add(side, outcome.quantile(0, 0.999));
            let [server, driver] = [0, 1].map(|at: usize| {
                let used = after.get(at).zip(before.get(at));
                used.map_or(0.0, |(after, before)| (after - before) / outcome.seconds)
            });
            busy.add(side, server);
            if let Some(most) = driver_busy.get_mut(usize::from(side == Side::Peer)) {
                *most = most.max(driver);
            }
            driven.server.settle()
        })?;
    }
    let case = format!("{sync}-{}-p{pipeline}", load.name);
    let [ours, peer] = driver_busy;
    let note = format!(
        "strings of {VALUE_BYTES} bytes, {} connections of one thread, which was busy {:.0} % (ours) and {:.0} \
         % (peer) of the time",
        scene.args.connections,
        ours * 100.0,
        peer * 100.0
    );
    rates.report(report, &case, note)?;
    p99.report(report, &case, "")?;
    p999.report(report, &case, "")?;
    busy.report(report, &case, "cores that the server's process used")
}
