//! Block devices as a user has them: by NBD, as files, at loop devices and by ublk. The binary, the block
//! tools of others, real mounts, and file systems on them. Needs root, /dev/fuse and loop devices.

#[path = "../support/commands.rs"]
mod commands;
mod file;
mod nbd;
#[path = "../support/processes.rs"]
mod processes;
mod record;
#[cfg(feature = "ublk")]
mod ublk;

impl processes::Serving {
    /// Ends it at once: what it had in memory is gone.
    fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }
}
