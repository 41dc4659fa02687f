//! A server that speaks the Redis protocol, and keeps its data in memory and in a validity-tracked log.
//!
//! # Promise
//! Clients of Redis 7.0 work with it. Under the policy `always` no reply tells of a change, or of what
//! a change left, before that change would survive a power cut. After a crash at any point every entry
//! is as some prefix of the changes left it, with transactions whole or absent; no fork and no second
//! copy of the data in memory is ever needed. While the log takes no changes, reads are served.
//!
//! # What it rests on
//! `vlog` (what is durable, groups, recovery) and `values` (what the types do).
//!
//! # Invariants
//! - records of an entry in the log: one of the whole, and as many changes as its bytes allow: bytes of
//!   changes <= bytes of the whole
//! - replies that went out before what they tell of was durable, under `always` = 0
//! - bytes of a request <= [`protocol::Limits`], of replies that wait for a client <=
//!   [`Config::output_bytes_max`]
//! - entries whose stream is not their shard = 0
//! - requests that run though the rules of their user do not allow them = 0
//!
//! # On disk
//! `docs/formats/kv.md` says what is in the records, `docs/formats/vlog.md` where they are; why it is
//! so: `docs/decisions/0019-kv.md`.
//!
//! # How it is tested
//! The engine has no sockets: it runs on a simulated disk that is cut at every point, with the planted
//! fault that replies do not wait, which has to be found. A real server is killed under load. The
//! parser, the records and the rules of users have properties and fuzz targets; replies, and what is said of
//! each command, are compared with those of Redis.
//!
//! ```
//! # use holdfast_kv as kv;
//! use kv::{Config, Engine, Policy, load};
//! # let home = tempfile::tempdir()?;
//! # let path = home.path().to_str().unwrap().to_owned();
//! let config = Config::default();
//! let directories = || Ok(vec![vlog::Directory::open(&path)?]);
//! let seen = Default::default();
//! let loaded = load(directories, vlog::Options::default(), Policy::No, &config, &seen)?;
//! let mut engine = Engine::new(config, env::Rng::new(1));
//! engine.serve(loaded);
//! let client = engine.connect(Default::default()).unwrap();
//! engine.execute(client, &[b"SET", b"colour", b"red"]);
//! engine.execute(client, &[b"GET", b"colour"]);
//! assert_eq!(engine.session(client).unwrap().reply.bytes(), b"+OK\r\n$3\r\nred\r\n");
//! engine.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod acl;
mod blocking;
mod changes;
pub mod command;
mod config;
mod engine;
mod entry;
mod eviction;
mod fault;
mod journal;
mod keyspace;
mod latency;
pub mod marker;
pub mod protocol;
mod pubsub;
pub mod rdb;
pub mod record;
mod script;
pub mod server;
mod session;
pub mod slot;
mod stats;
#[cfg(test)]
mod tests;
mod tracking;
mod transaction;
mod value;

pub use config::{Config, parse_bytes};
pub use engine::{Engine, LOG_NAME, LoadError, Loaded, Mode, Order, Saving, load};
pub use journal::Policy;
pub use script::Outside;
pub use session::{ClientId, Session, Token};
pub use stats::Stats;
