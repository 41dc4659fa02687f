//! A client, and a server in a process of its own that can be killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Set for the child: the directory to serve, and the policy.
pub(crate) const DIRECTORY: &str = "HOLDFAST_KV_TEST_DIRECTORY";

/// A connection to a server.
pub(crate) struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> std::io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        // A server that does not answer is told from a slow machine.
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30)))?;
        let reader = BufReader::new(stream.try_clone()?);
        Ok(Client { stream, reader })
    }

    pub(crate) fn send(&mut self, words: &[&str]) -> std::io::Result<()> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.write_all(request.as_bytes())
    }

    /// A reply: the line of a simple one, the bytes of a string, the parts of an array with commas.
    pub(crate) fn receive(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let number = || line[1..].parse::<i64>().unwrap_or(-1);
        match line.as_bytes().first() {
            Some(b'$') if number() >= 0 => {
                let mut bytes = vec![0; number() as usize + 2];
                self.reader.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Some(b'*') if number() >= 0 => {
                let parts: Result<Vec<String>, _> = (0..number()).map(|_| self.receive()).collect();
                Ok(parts?.join(","))
            }
            _ => Ok(line.to_owned()),
        }
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> std::io::Result<String> {
        self.send(words)?;
        self.receive()
    }
}

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
