//! redis-server, to compare with. Needs Debian's package, which `make test` installs.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// redis-server on a socket of its own, which ends with this value.
pub(crate) struct Redis {
    child: Child,
    socket: PathBuf,
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Redis {
    pub(crate) fn start(home: &Path) -> Redis {
        let socket = home.join("redis.socket");
        let mut child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            // A slow machine is no difference.
            .args(["--slowlog-log-slower-than", "100000000"])
            .args(["--enable-debug-command", "yes", "--dir"])
            .arg(home)
            .arg("--unixsocket")
            .arg(&socket)
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server is installed (make test does)");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line.contains("eady to accept")));
        assert!(
            ready || socket.exists(),
            "redis-server says that it is ready"
        );
        std::thread::spawn(move || lines.count());
        while UnixStream::connect(&socket).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "it ended");
        }
        Redis { child, socket }
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        // A request that waits where it should not is told from a slow machine.
        let patience = Some(std::time::Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        stream
    }
}
