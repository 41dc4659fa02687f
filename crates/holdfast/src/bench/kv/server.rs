//! The two servers, each in a process and a directory of its own.

use super::resp::{self, Reply};
use crate::bench::memory::resident_mb;
use crate::bench::process::{Running, wait_until};
use anyhow::{Context as _, bail};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest start.
const START_MAX: Duration = Duration::from_secs(600);

/// Longest time that a server may take for its end before it is killed.
const GRACE: Duration = Duration::from_secs(60);

/// Whose server.
#[derive(Clone, Debug)]
pub(super) enum Program {
    /// Ours.
    Holdfast,
    /// The one at this path.
    Redis(PathBuf),
}

/// How it is to be run.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) program: Program,
    /// `appendfsync`.
    pub(super) sync: &'static str,
    /// Where its files are.
    pub(super) home: PathBuf,
}

/// A server that serves.
pub(super) struct Server {
    running: Running,
    pub(super) address: SocketAddr,
    setup: Setup,
    /// Seconds from its start until it served.
    pub(super) start_s: f64,
    control: TcpStream,
}

impl Server {
    pub(super) fn start(setup: &Setup) -> anyhow::Result<Server> {
        std::fs::create_dir_all(&setup.home)?;
        // Free a moment ago; where somebody else took it the start fails and says so.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let data = setup.home.join("data");
        std::fs::create_dir_all(&data)?;
        let port = port.to_string();
        let mut command = match &setup.program {
            Program::Holdfast => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["kv", "serve", "--port", &port, "--appendfsync", setup.sync]);
                command.arg(&data);
                command
            }
            Program::Redis(path) => {
                let mut command = Command::new(path);
                command.args(["--port", &port, "--bind", "127.0.0.1"]);
                command.args(["--appendonly", "yes", "--appendfsync", setup.sync]);
                // A rewrite begins when the benchmark says so.
                command.args(["--save", "", "--auto-aof-rewrite-percentage", "0"]);
                command.arg("--dir").arg(&data);
                command
            }
        };
        let log = setup.home.join("log");
        let begin = Instant::now();
        let mut running = Running::start(&mut command, &log, GRACE)?;
        let mut control = None;
        wait_until("the server", START_MAX, || {
            if let Some(status) = running.ended()? {
                let words = crate::bench::process::tail(&log);
                bail!("the server ended ({status}): {words}");
            }
            // Finer than the look that the wait takes.
            for _ in 0..100 {
                if let Ok(mut stream) = TcpStream::connect(address)
                    && matches!(ask(&mut stream, &[b"GET", b"none"]), Ok(Some(_)))
                {
                    control = Some(stream);
                    return Ok(true);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(false)
        })?;
        let control = control.context("a server that answers")?;
        control.set_nodelay(true)?;
        Ok(Server {
            running,
            address,
            setup: setup.clone(),
            start_s: begin.elapsed().as_secs_f64(),
            control,
        })
    }

    /// Ends it in good order and starts it again from what it kept.
    pub(super) fn restart(self) -> anyhow::Result<Server> {
        let setup = self.setup.clone();
        self.end()?;
        Server::start(&setup)
    }

    /// Ends it in good order.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        let mut request = Vec::new();
        resp::push(&mut request, &[b"SHUTDOWN"]);
        self.control.write_all(&request)?;
        match self.running.wait(GRACE, true)? {
            Some(_) => Ok(()),
            None => bail!("the server does not end"),
        }
    }

    /// Asks on a connection of its own; the answer's bytes.
    pub(super) fn ask(&mut self, arguments: &[&[u8]]) -> anyhow::Result<Vec<u8>> {
        let answer = ask(&mut self.control, arguments)?;
        answer.context("the server ended the connection")
    }

    /// A number that INFO says.
    pub(super) fn info(&mut self, section: &str, field: &str) -> anyhow::Result<f64> {
        let text = self.ask(&[b"INFO", section.as_bytes()])?;
        let text = String::from_utf8_lossy(&text);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let line = line.with_context(|| format!("INFO {section} has no {field}"))?;
        Ok(line.trim().parse()?)
    }

    /// Bytes of memory that are resident, of the process that answers.
    pub(super) fn resident_bytes(&self) -> anyhow::Result<f64> {
        Ok(resident_mb(self.running.id())? * 1e6)
    }

    /// Seconds of processor time so far.
    pub(super) fn cpu_s(&self) -> anyhow::Result<f64> {
        cpu_s(&format!("/proc/{}/stat", self.running.id()))
    }

    /// Bytes of its files.
    pub(super) fn file_bytes(&self) -> anyhow::Result<f64> {
        bytes_below(&self.setup.home.join("data"))
    }

    /// Has the file system write what it holds back, so that it does not fall into what comes next.
    pub(super) fn settle(&self) -> anyhow::Result<()> {
        let home = std::fs::File::open(&self.setup.home)?;
        Ok(rustix::fs::syncfs(&home)?)
    }
}

/// Seconds of processor time that a `stat` of /proc has.
pub(super) fn cpu_s(path: &str) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(path).context("the process is gone")?;
    // The name is in brackets and may have anything in it.
    let (_, rest) = text.rsplit_once(')').context("a line of stat")?;
    let mut words = rest.split_whitespace().skip(11);
    let mut next = || -> anyhow::Result<f64> {
        let word = words.next().context("times of stat")?;
        Ok(word.parse()?)
    };
    Ok((next()? + next()?) / rustix::param::clock_ticks_per_second() as f64)
}

fn bytes_below(dir: &Path) -> anyhow::Result<f64> {
    let mut bytes = 0.0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path())?,
            Ok(metadata) => metadata.len() as f64,
            // It went meanwhile.
            Err(_) => 0.0,
        };
    }
    Ok(bytes)
}

/// Asks, and waits for the answer; `None` where the connection ends.
fn ask(stream: &mut TcpStream, arguments: &[&[u8]]) -> anyhow::Result<Option<Vec<u8>>> {
    let mut request = Vec::new();
    resp::push(&mut request, arguments);
    stream.write_all(&request)?;
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(None),
            count => input.extend_from_slice(buffer.get(..count).unwrap_or_default()),
        }
        if let Some((reply, _)) = resp::reply(&input)? {
            return Ok(Some(match reply {
                Reply::Line(bytes) | Reply::Bulk(bytes) => bytes.to_vec(),
                Reply::Null | Reply::Array(_) => Vec::new(),
            }));
        }
    }
}
