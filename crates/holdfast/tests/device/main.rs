//! Block devices as files and loop devices, as a user has them: the binary, real mounts, and file
//! systems on them. Needs root, /dev/fuse and loop devices.

mod file;
#[path = "../support/processes.rs"]
mod processes;
mod record;
