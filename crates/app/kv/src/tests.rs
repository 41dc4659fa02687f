//! Tests of the engine as a whole.

mod acl;
mod clients;
mod commands;
mod crash;
mod long;
mod save;
mod scripts;
mod start;

use crate::{Config, Engine, Policy, Token, load};
use std::sync::atomic::AtomicU64;

/// An engine without a log.
fn engine() -> (Engine, Token) {
    let mut engine = Engine::new(Config::default(), env::Rng::new(1));
    engine.serve_from_memory();
    engine.set_time(1_700_000_000_000, 0);
    let client = engine.connect(Default::default()).unwrap();
    (engine, client)
}

/// Words of a line, as a client would send them.
fn words(line: &str) -> Vec<Vec<u8>> {
    crate::protocol::split_words(line.as_bytes()).unwrap()
}

fn send(engine: &mut Engine, client: Token, line: &str) {
    let words = words(line);
    let arguments: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    engine.execute(client, &arguments);
}

/// What a line is answered with.
fn ask(engine: &mut Engine, client: Token, line: &str) -> String {
    send(engine, client, line);
    let session = engine.session_mut(client).unwrap();
    let bytes = session.reply.take();
    String::from_utf8_lossy(&bytes)
        .replace("\r\n", " ")
        .trim()
        .to_owned()
}

/// An engine on the log of a simulated world.
fn open(world: &env::sim::World, policy: Policy) -> (Engine, Token) {
    open_with(world, policy, Config::default())
}

/// As [`open`], with settings.
fn open_with(world: &env::sim::World, policy: Policy, config: Config) -> (Engine, Token) {
    let directories = || {
        Ok(vec![vlog::Directory {
            dir: world.dir("one"),
            path: "/one".to_owned(),
        }])
    };
    let options = vlog::Options {
        segment_bytes: 16 << 10,
        pending_bytes_max: 1 << 20,
        sync: vlog::Sync::Never,
        threads: false,
        recovery_threads: 1,
        ..vlog::Options::default()
    };
    let loaded = load(directories, options, policy, &config, &AtomicU64::new(0)).unwrap();
    let mut engine = Engine::new(config, env::Rng::new(1));
    engine.serve(loaded);
    engine.set_time(1_700_000_000_000, 0);
    let client = engine.connect(Default::default()).unwrap();
    (engine, client)
}
