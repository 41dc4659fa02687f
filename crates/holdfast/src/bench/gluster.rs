//! A GlusterFS volume on this machine alone, as a peer.
//!
//! `volume create` refuses 127.0.0.0/8, so the daemons live in a network namespace of their own
//! with 10.77.0.1 on its loopback. The mount namespace stays the host's: everybody sees the mount.
//! Sockets, state and logs are in the work directory, so a GlusterFS that the machine runs for
//! other purposes is not touched.

use super::process::{self, Running};
use anyhow::Context as _;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The Debian packages that bring the peer.
pub(crate) const PACKAGES: &str = "glusterfs-server glusterfs-client";

const ADDRESS: &str = "10.77.0.1";
const VOLUME: &str = "bench";
/// Bring-up was measured at 3 to 12 seconds on two cores.
const LIMIT: Duration = Duration::from_secs(60);

/// How a volume is redundant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// So many copies, a brick each.
    Replica(usize),
    /// Erasure coded: data and redundancy bricks.
    Disperse(usize, usize),
}

impl Kind {
    /// Name in the rows.
    pub(crate) fn name(self) -> String {
        match self {
            Kind::Replica(copies) => format!("glusterfs-replica-{copies}"),
            Kind::Disperse(data, redundancy) => format!("glusterfs-disperse-{data}+{redundancy}"),
        }
    }

    fn bricks(self) -> usize {
        match self {
            Kind::Replica(copies) => copies,
            Kind::Disperse(data, redundancy) => data + redundancy,
        }
    }

    /// As `volume create` takes it.
    fn arguments(self) -> Vec<String> {
        let bricks = self.bricks().to_string();
        match self {
            Kind::Replica(_) => vec!["replica".into(), bricks],
            Kind::Disperse(_, redundancy) => vec![
                "disperse".into(),
                bricks,
                "redundancy".into(),
                redundancy.to_string(),
            ],
        }
    }
}

/// A started, mounted volume; taken down when dropped.
pub(crate) struct Gluster {
    namespace: String,
    directory: PathBuf,
    kind: Kind,
    bricks: Vec<PathBuf>,
    daemon: Option<Running>,
}

impl Gluster {
    /// Whether the programs are here.
    pub(crate) fn installed() -> bool {
        ["glusterd", "gluster", "glusterfs", "ip", "nsenter"]
            .iter()
            .all(|name| process::installed(name))
    }

    /// Brings up a volume, each brick a directory below `directory` (absolute, on a disk file
    /// system), and mounts it.
    pub(crate) fn up(directory: &Path, kind: Kind) -> anyhow::Result<Gluster> {
        let mut gluster = Gluster {
            namespace: format!("holdfast-bench-{}", std::process::id()),
            directory: directory.to_path_buf(),
            kind,
            bricks: (0..kind.bricks())
                .map(|index| directory.join(format!("brick{index}")))
                .collect(),
            daemon: None,
        };
        gluster.bring_up().with_context(|| {
            format!(
                "the GlusterFS peer did not come up (logs were in {}); \
                 --no-gluster measures the rest",
                directory.display()
            )
        })?;
        Ok(gluster)
    }

    /// Where the volume is mounted.
    pub(crate) fn mount(&self) -> PathBuf {
        self.directory.join("mnt")
    }

    /// The directories that hold the copies.
    pub(crate) fn bricks(&self) -> &[PathBuf] {
        &self.bricks
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log/commands.log")
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("sock")
    }

    /// A command that runs in the namespace.
    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.namespace))
            .arg(program);
        command
    }

    fn gluster(&self) -> Command {
        let mut command = self.inside("gluster");
        command
            .arg("--mode=script")
            .arg(format!("--glusterd-sock={}", self.socket().display()));
        command
    }

    fn ip(&self, arguments: &[&str]) -> anyhow::Result<()> {
        process::run(Command::new("ip").args(arguments), LIMIT, &self.log())
    }

    fn bring_up(&mut self) -> anyhow::Result<()> {
        // The bricks and the mount detach themselves from whoever started them; as our children
        // they can be waited for at the end.
        set_child_subreaper(Some(getpid()))?;
        for name in ["wd", "run", "log", "mnt"] {
            std::fs::create_dir_all(self.directory.join(name))?;
        }
        for brick in &self.bricks {
            std::fs::create_dir_all(brick)?;
        }
        let namespace = self.namespace.clone();
        self.ip(&["netns", "add", &namespace])?;
        self.ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
        let address = format!("{ADDRESS}/32");
        self.ip(&["-n", &namespace, "addr", "add", &address, "dev", "lo"])?;

        let settings = self.directory.join("glusterd.vol");
        std::fs::write(&settings, self.settings())?;
        self.daemon = Some(Running::start(
            self.inside("glusterd")
                .arg("-N")
                .arg("-f")
                .arg(&settings)
                .arg("-p")
                .arg(self.directory.join("glusterd.pid"))
                .arg("-l")
                .arg(self.directory.join("log/glusterd.log")),
            &self.log(),
            Duration::from_secs(10),
        )?);
        process::wait_until("glusterd to answer", LIMIT, || {
            let mut ask = self.gluster();
            Ok(process::run(ask.args(["volume", "info"]), LIMIT, &self.log()).is_ok())
        })?;

        let mut create = self.gluster();
        create
            .args(["volume", "create", VOLUME])
            .args(self.kind.arguments())
            .args(["transport", "tcp"]);
        for brick in &self.bricks {
            create.arg(format!("{ADDRESS}:{}", brick.display()));
        }
        process::run(create.arg("force"), LIMIT, &self.log())?;
        let mut start = self.gluster();
        process::run(start.args(["volume", "start", VOLUME]), LIMIT, &self.log())?;
        let mut mount = self.inside("mount");
        mount
            .args(["-t", "glusterfs", "-o"])
            .arg(format!(
                "log-file={}",
                self.directory.join("log/mount.log").display()
            ))
            .arg(format!("{ADDRESS}:/{VOLUME}"))
            .arg(self.mount());
        process::run(&mut mount, LIMIT, &self.log())?;
        // The mount helper returns before the client has found its bricks.
        process::wait_until("the GlusterFS mount to take a file", LIMIT, || {
            let probe = self.mount().join("probe");
            let written = std::fs::write(&probe, b"x").is_ok();
            Ok(written && std::fs::remove_file(&probe).is_ok())
        })
    }

    fn settings(&self) -> String {
        let base = self.directory.display();
        format!(
            "volume management\n    \
             type mgmt/glusterd\n    \
             option working-directory {base}/wd\n    \
             option run-directory {base}/run\n    \
             option glusterd-sockfile {base}/sock\n    \
             option transport-type socket\n    \
             option transport.address-family inet\n    \
             option transport.socket.bind-address {ADDRESS}\n    \
             option transport.socket.listen-port 24007\n    \
             option ping-timeout 0\n    \
             option event-threads 1\n    \
             option max-port 60999\nend-volume\n"
        )
    }

    /// Processes in our namespace: all were started by us, as nobody else knows it.
    fn residents(&self) -> Vec<Pid> {
        let Ok(ours) = std::fs::metadata(format!("/run/netns/{}", self.namespace)) else {
            return Vec::new();
        };
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        entries
            .flatten()
            .filter(|entry| {
                std::fs::metadata(entry.path().join("ns/net"))
                    .is_ok_and(|theirs| (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()))
            })
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(Pid::from_raw)
            .collect()
    }

    /// Sends `signal` to all residents and waits at most `limit` for them to be gone; says
    /// whether they are.
    fn end_residents(&self, signal: Signal, limit: Duration) -> bool {
        let residents = self.residents();
        for pid in &residents {
            let _ = kill_process(*pid, signal);
        }
        let deadline = Instant::now() + limit;
        loop {
            if self.residents().is_empty() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Gluster {
    fn drop(&mut self) {
        // Every step is tried, whatever became of the one before.
        let _ = Command::new("umount").arg("-l").arg(self.mount()).output();
        // Ends glusterd first, and waits for it: the others are its to restart.
        self.daemon = None;
        let limit = Duration::from_secs(10);
        if !self.end_residents(Signal::TERM, limit) {
            self.end_residents(Signal::KILL, limit);
        }
        reap();
        let _ = Command::new("ip")
            .args(["netns", "del", &self.namespace])
            .output();
    }
}

/// Waits for the ended GlusterFS processes that became our children when whoever started them
/// ended, so that none is left as a zombie.
fn reap() {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return;
    };
    let us = getpid().as_raw_nonzero().get();
    for entry in entries.flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // "pid (name) state parent ...", proc_pid_stat(5); a name may hold blanks and brackets.
        let Some((front, rest)) = stat.rsplit_once(") ") else {
            continue;
        };
        let mut fields = rest.split(' ');
        let ended = fields.next() == Some("Z");
        let ours = fields.next().and_then(|parent| parent.parse().ok()) == Some(us);
        let Some((pid, name)) = front.split_once(" (") else {
            continue;
        };
        if ended
            && ours
            && name.starts_with("gluster")
            && let Some(pid) = pid.parse().ok().and_then(Pid::from_raw)
        {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}
