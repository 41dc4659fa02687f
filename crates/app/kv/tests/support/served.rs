//! A server in a process of its own that can be killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Set for the child: the directory to serve, and the policy.
const DIRECTORY: &str = "HOLDFAST_KV_TEST_DIRECTORY";

/// A server in a child process, which ends with this value.
pub(crate) struct Served {
    child: Child,
    pub(crate) port: u16,
}

impl Served {
    /// Starts a server by running the test `child` of this program again, and waits until it serves.
    pub(crate) fn start(home: &Path) -> Served {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, home)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| line.unwrap().split("serving ").nth(1)?.parse().ok())
            .expect("the child says where it serves");
        // What else it says is nobody's concern.
        std::thread::spawn(move || lines.count());
        Served { child, port }
    }

    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What the child does: serves until it is killed.
pub(crate) fn serve(policy: holdfast_kv::Policy) {
    let Some(home) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let options = holdfast_kv::server::Options {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        tls: None,
        unix_socket: None,
        directories: vec![home.to_str().unwrap().to_owned()],
        policy,
        config: holdfast_kv::Config::default(),
        log: vlog::Options {
            segment_bytes: 256 << 10,
            pending_bytes_max: 256 << 10,
            ..vlog::Options::default()
        },
    };
    let server = holdfast_kv::server::Server::bind(&options).unwrap();
    let address = server.addresses().remove(0).unwrap();
    let ended = server.run(|_| println!("serving {}", address.port()));
    ended.unwrap();
}
