//! Power cuts of real programs: what they wrote is recorded below them, and they are started again
//! on what a cut may have left, at many points. Needs root, /dev/fuse and loop devices.
//!
//! `HOLDFAST_CUTS` is the number of cuts of each test, in place of a number that takes a minute.

#[path = "../support/accounts.rs"]
mod accounts;
mod bank;
#[path = "../support/commands.rs"]
mod commands;
mod database;
mod files;
mod mariadb;
mod points;
mod postgresql;
#[path = "../support/processes.rs"]
mod processes;
mod recording;
#[path = "../support/servers.rs"]
mod servers;
mod shown;
mod sqlite;
mod transfer;
