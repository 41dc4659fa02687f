//! Ours.

use super::link::{FAR, Link, Served};
use super::timed::run;
use super::{WRITE_CACHE, Way};
use anyhow::Context as _;
use std::path::Path;
use std::process::Command;

/// Disk to disk.
pub(super) struct Local(&'static str);

impl Local {
    pub(super) fn at(level: &'static str) -> Local {
        Local(level)
    }
}

fn send(command: &mut Command, from: &Path, level: &str) {
    command
        .arg("send")
        .arg(from)
        .args(["--level", level, "--json"]);
    if level == "medium" {
        command.args(["--write-cache", WRITE_CACHE, "--settle"]);
    }
}

/// Disk to disk at level device, in the orders with which the source of verified transfer compares
/// its own.
pub(super) struct InOrder {
    pub(super) order: &'static str,
    pub(super) name: &'static str,
}

impl Way for InOrder {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn copy(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        send(&mut command, from, "device");
        run(command.args(["--order", self.order]).arg(to))
    }
}

impl Way for Local {
    fn name(&self) -> String {
        format!("level {}", self.0)
    }

    fn copy(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        send(&mut command, from, self.0);
        run(command.arg(to))
    }
}

/// To the other end of a link, within TLS.
pub(super) struct Listening<'a> {
    pub(super) link: &'a Link,
    pub(super) level: &'static str,
}

impl Way for Listening<'_> {
    fn name(&self) -> String {
        format!("level {}", self.level)
    }

    fn copy(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let (root, name) = (
            to.parent().context("a parent")?,
            to.file_name().context("a name")?,
        );
        let program = std::env::current_exe()?;
        let mut receive = self.link.there(&program);
        receive
            .args(["receive", "--listen", FAR, "--root"])
            .arg(root);
        let served = Served::start(receive.arg("--tls").arg(self.link.certificates("far")))?;
        let mut command = self.link.here(&program);
        send(&mut command, from, self.level);
        let mut to = std::ffi::OsString::from(format!("{FAR}:"));
        to.push(name);
        run(command
            .arg(to)
            .arg("--tls")
            .arg(self.link.certificates("near")))?;
        served.stop()
    }
}
