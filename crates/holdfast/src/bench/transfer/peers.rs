//! The tools of today, each made to end as durable as ours.

use super::Way;
use super::link::{FAR, Link, Served};
use super::timed::{run, shell};
use anyhow::Context as _;
use std::path::Path;
use std::process::Command;

/// Disk to disk.
pub(super) struct Rsync {
    name: &'static str,
    line: &'static str,
}

impl Rsync {
    pub(super) fn plain() -> Rsync {
        Rsync {
            name: "rsync -a; sync -f",
            line: "rsync -a \"$1/\" \"$2/\"; sync -f \"$2\"",
        }
    }

    /// Twice, the second time comparing checksums.
    pub(super) fn and_checksum() -> Rsync {
        Rsync {
            name: "rsync -a; sync -f; rsync -a -c",
            line: "rsync -a \"$1/\" \"$2/\"; sync -f \"$2\"; rsync -a -c \"$1/\" \"$2/\"",
        }
    }

    /// Its algorithm for changed parts, which it leaves out between local directories.
    pub(super) fn delta() -> Rsync {
        Rsync {
            name: "rsync -a --no-whole-file; sync -f",
            line: "rsync -a --no-whole-file \"$1/\" \"$2/\"; sync -f \"$2\"",
        }
    }
}

impl Way for Rsync {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn copy(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        // What bash says of a program that is not there.
        run(Command::new("rsync").arg("--version"))?;
        shell(self.line, &[from, to])
    }
}

/// rclone, comparing checksums.
pub(super) struct Rclone;

impl Way for Rclone {
    fn name(&self) -> String {
        "rclone copy --checksum --metadata; sync -f".to_owned()
    }

    fn copy(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let mut copy = Command::new("rclone");
        copy.args(["copy", "--checksum", "--metadata", "--config", "/dev/null"]);
        run(copy.arg(from).arg(to))?;
        shell("sync -f \"$1\"", &[to])
    }
}

/// tar, and the sums of both trees.
pub(super) struct Tar;

impl Way for Tar {
    fn name(&self) -> String {
        "tar | tar; sync -f; sha256sum on both".to_owned()
    }

    fn copy(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let sums = "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum";
        shell(
            &format!(
                "mkdir \"$2\"; tar -C \"$1\" -cf - . | tar -C \"$2\" -xf -; sync -f \"$2\"
                 cmp <(cd \"$1\"; {sums}) <(cd \"$2\"; {sums})"
            ),
            &[from, to],
        )
    }
}

/// To the daemon at the other end of a link.
pub(super) struct RsyncDaemon<'a> {
    pub(super) link: &'a Link,
    /// Whether it runs again to compare checksums.
    pub(super) check: bool,
}

impl Way for RsyncDaemon<'_> {
    fn name(&self) -> String {
        match self.check {
            true => "rsync -a to its daemon; sync -f; rsync -a -c",
            false => "rsync -a to its daemon; sync -f",
        }
        .to_owned()
    }

    fn copy(&self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let name = to.file_name().context("a name")?.to_string_lossy();
        let root = to.parent().context("a parent")?;
        let config = root.join("rsyncd.conf");
        let lines = format!(
            "use chroot = no\nuid = root\ngid = root\n[tree]\npath = {}\nread only = no\n",
            root.display()
        );
        std::fs::write(&config, lines)?;
        let mut daemon = self.link.there(Path::new("rsync"));
        daemon.args(["--daemon", "--no-detach", "--address", FAR]);
        let served = Served::start(daemon.arg("--config").arg(&config))?;
        let url = format!("rsync://{FAR}/tree/{name}/");
        let from = format!("{}/", from.display());
        let mut send = self.link.here(Path::new("rsync"));
        run(send.args(["-a", &from, &url]))?;
        shell("sync -f \"$1\"", &[to])?;
        if self.check {
            let mut check = self.link.here(Path::new("rsync"));
            run(check.args(["-a", "-c", &from, &url]))?;
        }
        served.stop()
    }
}
