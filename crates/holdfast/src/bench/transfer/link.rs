//! Two network namespaces with a link of a given rate between them.

use super::timed::run;
use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The address of the far side.
pub(super) const FAR: &str = "10.117.0.2";
/// The same in /proc/net/tcp.
const FAR_IN_TABLE: &str = "0200750A:";
const NEAR: &str = "10.117.0.1";

/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// The link; namespaces and devices go with it.
pub(super) struct Link {
    near: String,
    far: String,
    certificates: PathBuf,
}

impl Link {
    /// A link that lets `rate` through in each direction (tc-tbf(8)).
    pub(super) fn new(root: &Path, rate: &str) -> anyhow::Result<Link> {
        let id = std::process::id();
        let link = Link {
            near: format!("hfn{id}"),
            far: format!("hff{id}"),
            certificates: root.join("ca"),
        };
        let ip = |words: &[&str]| run(Command::new("ip").args(words));
        let (near, far) = (&link.near, &link.far);
        ip(&["netns", "add", near])?;
        ip(&["netns", "add", far])?;
        ip(&[
            "-n", near, "link", "add", "hf0", "type", "veth", "peer", "name", "hf0", "netns", far,
        ])?;
        for (name, address) in [(near, NEAR), (far, FAR)] {
            ip(&[
                "-n",
                name,
                "address",
                "add",
                &format!("{address}/24"),
                "dev",
                "hf0",
            ])?;
            ip(&["-n", name, "link", "set", "hf0", "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            let mut tc = Command::new("tc");
            tc.args(["-n", name, "qdisc", "replace", "dev", "hf0", "root", "tbf"]);
            run(tc.args(["rate", rate, "burst", "256kb", "latency", "50ms"]))?;
        }
        let program = std::env::current_exe()?;
        let ca = || {
            let mut command = Command::new(&program);
            command.arg("ca");
            command
        };
        run(ca().arg("init").arg(&link.certificates))?;
        for (name, into) in [(FAR, "far"), (NEAR, "near")] {
            let mut issue = ca();
            issue.args(["issue", name, "--ca"]).arg(&link.certificates);
            run(issue.arg("--out").arg(link.certificates(into)))?;
        }
        Ok(link)
    }

    pub(super) fn certificates(&self, side: &str) -> PathBuf {
        self.certificates.join(side)
    }

    pub(super) fn here(&self, program: &Path) -> Command {
        within(&self.near, program)
    }

    pub(super) fn there(&self, program: &Path) -> Command {
        within(&self.far, program)
    }
}

fn within(namespace: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

impl Drop for Link {
    fn drop(&mut self) {
        for name in [&self.near, &self.far] {
            // One that could not be made is not there.
            let _gone = run(Command::new("ip").args(["netns", "delete", name]));
        }
    }
}

/// A server on the far side; stopped with this value, and then its costs are counted.
pub(super) struct Served(Option<Child>);

impl Served {
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Served> {
        let quiet = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut served = Served(Some(
            quiet.spawn().context("the far side cannot be started")?,
        ));
        served.wait()?;
        Ok(served)
    }

    /// Until it listens.
    fn wait(&mut self) -> anyhow::Result<()> {
        let child = self.0.as_mut().context("a server")?;
        let table = format!("/proc/{}/net/tcp", child.id());
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = child.try_wait()? {
                bail!("the far side ended with {status}");
            }
            // State 0A is LISTEN (proc_net_tcp(5)). Until it is in its namespace, the process sees
            // what listens outside.
            let listens = |line: &str| {
                let mut fields = line.split_whitespace().skip(1);
                let here = fields.next().is_some_and(|at| at.starts_with(FAR_IN_TABLE));
                here && fields.nth(1) == Some("0A")
            };
            if std::fs::read_to_string(&table).is_ok_and(|table| table.lines().any(listens)) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        bail!("the far side does not listen")
    }

    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        self.end();
        Ok(())
    }

    fn end(&mut self) {
        if let Some(mut child) = self.0.take() {
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // It may have ended already.
                let _gone = kill_process(pid, Signal::TERM);
            }
            let _ended = child.wait();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}
