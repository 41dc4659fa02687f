//! The one binary: command line, daemon, and the views of what it serves.
//!
//! # Promise
//! Every command says what it did or why not, what is safe, and what to do next, and ends with
//! an exit code of a documented list. A refusal changes nothing. The structs that the command
//! line fills are the structs that the configuration file fills.
//!
//! # What it rests on
//! `redundancy` (the set of stores behind the mount), `mount` (the FUSE edge), and each part's
//! own entries in the registries for `inspect`, `bench` and `torture`.
//!
//! # Invariants
//! - processes that serve one mount <= 1 (a lock, [`control::place::Place`])
//! - control connections served at once <= [`control::server::CONNECTIONS_MAX`]
//! - bytes of a request <= [`control::REQUEST_BYTES_MAX`], of an answer <=
//!   [`control::ANSWER_BYTES_MAX`], seconds of silence <= [`control::TIME_LIMIT`]
//! - every exit code is in [`exit::TABLE`]
//!
//! # On disk
//! The configuration file (docs/operations.md) and the run-time directory with lock and socket
//! ([`control::place`]); both hold no data of users.
//!
//! # How it is tested
//! Each message of [`failure::Failure`] is a snapshot; the control lines run between threads;
//! `tests/commands.rs` runs the binary; `tests/tidy.rs` holds the repository to its rules.
//!
//! ```
//! use clap::Parser;
//! let cli = holdfast::cli::Cli::try_parse_from(["holdfast", "up", "/srv/x", "--copies", "3"]);
//! assert!(cli.is_ok());
//! ```

pub mod bench;
pub mod ca;
pub mod check;
pub mod cli;
pub mod config;
pub mod control;
pub mod down;
pub mod engine;
pub mod exit;
pub mod failure;
pub mod inject;
pub mod inspect;
pub mod kv;
pub mod logs;
pub mod mounts;
pub mod notify;
mod os;
pub mod preflight;
pub mod screen;
pub mod shell;
pub mod signals;
pub mod simulate;
pub mod status;
pub mod store;
pub mod torture;
pub mod transfer;
pub mod units;
pub mod up;
pub mod verify;
pub mod volume;

pub use cli::run;
