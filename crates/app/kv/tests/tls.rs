//! TLS: who is let in, and what becomes of those who are not.

#[path = "support/begins.rs"]
mod begins;

use begins::begins;
use holdfast_kv::server::{ClientAuth, Handle, Options, Server, Tls};
use holdfast_kv::{Config, Policy};
use rpc::tls::{Authority, Issued};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

const HOUR: Duration = Duration::from_secs(3600);

/// An authority, and where its certificates are.
struct Known {
    authority: Authority,
    home: tempfile::TempDir,
}

impl Known {
    fn new() -> Known {
        let authority = Authority::new().unwrap();
        let home = tempfile::tempdir().unwrap();
        let certificate = authority.certificate(HOUR).unwrap();
        std::fs::write(home.path().join("ca.pem"), certificate).unwrap();
        Known { authority, home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn issue(&self, from: SystemTime, to: SystemTime) -> Issued {
        self.authority.issue("localhost", from, to).unwrap()
    }

    /// A client's certificate and key, in files of this name.
    fn client(&self, name: &str, from: SystemTime, to: SystemTime) {
        let issued = self.issue(from, to);
        std::fs::write(self.path(&format!("{name}.pem")), issued.certificate).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), issued.key).unwrap();
    }

    fn tls(&self, auth: ClientAuth) -> Tls {
        let now = SystemTime::now();
        let own = self.issue(now - HOUR, now + HOUR);
        let authorities = std::fs::read(self.path("ca.pem")).unwrap();
        let (certificate, key) = (own.certificate.as_bytes(), own.key.as_bytes());
        Tls::new(certificate, key, Some(&authorities), auth).unwrap()
    }
}

/// A server in a thread, which ends with this value.
struct Served {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    plain: u16,
    tls: u16,
    _home: tempfile::TempDir,
}

impl Served {
    fn start(tls: Tls) -> Served {
        let home = tempfile::tempdir().unwrap();
        let any = || vec!["127.0.0.1:0".parse().unwrap()];
        let options = Options {
            listen: any(),
            tls: Some((any(), tls)),
            unix_socket: None,
            directories: vec![home.path().to_str().unwrap().to_owned()],
            policy: Policy::No,
            config: Config::default(),
            log: vlog::Options::default(),
        };
        let server = Server::bind(&options).unwrap();
        let port = |addresses: Vec<std::io::Result<std::net::SocketAddr>>| {
            addresses.into_iter().next().unwrap().unwrap().port()
        };
        let (plain, tls) = (port(server.addresses()), port(server.tls_addresses()));
        let handle = server.handle();
        let alone = begins();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            server.run(|_| ready.send(()).unwrap()).unwrap();
        });
        is_ready.recv().unwrap();
        drop(alone);
        Served {
            handle,
            thread: Some(thread),
            plain,
            tls,
            _home: home,
        }
    }

    /// redis-cli on the port for TLS.
    fn cli(&self, arguments: &[&str], files: &[(&str, &Path)], input: &[u8]) -> Output {
        let mut command = Command::new("redis-cli");
        command.args(["-h", "localhost", "-p", &self.tls.to_string(), "--tls"]);
        for (option, file) in files {
            command.arg(option).arg(file);
        }
        command.args(arguments).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let alone = begins();
        let mut child = command.spawn().expect("redis-cli (make test installs it)");
        drop(alone);
        // One that is not let in reads nothing.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// What the port without TLS answers.
    fn ask(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.plain)).unwrap();
        stream
            .write_all(format!("{line}\r\nQUIT\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn who_has_a_certificate_of_the_authority_is_served() {
    let known = Known::new();
    let now = SystemTime::now();
    known.client("right", now - HOUR, now + HOUR);
    let served = Served::start(known.tls(ClientAuth::Yes));
    let (ca, own, key) = (
        known.path("ca.pem"),
        known.path("right.pem"),
        known.path("right.key"),
    );
    let files: [(&str, &Path); 3] = [("--cacert", &ca), ("--cert", &own), ("--key", &key)];
    assert_eq!(text(&served.cli(&["SET", "k", "v"], &files, b"")), "OK\n");
    assert_eq!(served.ask("GET k"), "$1\r\nv\r\n+OK\r\n");
    // More than any buffer on the way holds, in both directions.
    let large: Vec<u8> = (0..12 << 20).map(|at| b'a' + (at % 23) as u8).collect();
    assert_eq!(
        text(&served.cli(&["-x", "SET", "large"], &files, &large)),
        "OK\n"
    );
    let back = served.cli(&["GET", "large"], &files, b"").stdout;
    assert_eq!(back.len(), large.len() + 1);
    assert!(back.starts_with(&large));
    // Many requests at once.
    let requests: String = (0..5000).map(|n| format!("SET key:{n} {n}\r\n")).collect();
    let piped = served.cli(&["--pipe"], &files, requests.as_bytes());
    assert!(
        text(&piped).contains("errors: 0, replies: 5000"),
        "{}",
        text(&piped)
    );
    assert_eq!(served.ask("DBSIZE"), ":5002\r\n+OK\r\n");
    let waits = served.cli(&["BLPOP", "none", "0.05"], &files, b"");
    assert_eq!(text(&waits), "\n");
}

#[test]
fn nobody_else_has_a_command_run() {
    let (known, other) = (Known::new(), Known::new());
    let now = SystemTime::now();
    known.client("old", now - 2 * HOUR, now - HOUR);
    known.client("early", now + HOUR, now + 2 * HOUR);
    other.client("strange", now - HOUR, now + HOUR);
    let served = Served::start(known.tls(ClientAuth::Yes));
    let ca = known.path("ca.pem");
    let of = |known: &Known, name: &str| {
        let path = |end: &str| known.path(&format!("{name}.{end}"));
        vec![("--cert", path("pem")), ("--key", path("key"))]
    };
    let cases = [
        ("no certificate", vec![]),
        ("one whose time is over", of(&known, "old")),
        ("one whose time is to come", of(&known, "early")),
        ("one of another authority", of(&other, "strange")),
    ];
    for (name, files) in &cases {
        let own = files.iter().map(|(option, path)| (*option, path.as_path()));
        let files: Vec<(&str, &Path)> = own.chain([("--cacert", ca.as_path())]).collect();
        let refused = served.cli(&["SET", "k", "v"], &files, b"");
        let said = text(&refused);
        assert!(!said.contains("OK"), "{name}: {said}");
        // It was the server that refused, and not the client its own files.
        assert!(!said.contains("Invalid"), "{name}: {said}");
        assert_eq!(served.ask("EXISTS k"), ":0\r\n+OK\r\n", "{name}");
    }
    // In the clear.
    let mut plain = TcpStream::connect(("127.0.0.1", served.tls)).unwrap();
    plain
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    plain
        .write_all(b"SET k v\r\nSET k v\r\nSET k v\r\n")
        .unwrap();
    let mut answer = Vec::new();
    // The end of the connection may be hard.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"+OK"), "{}", answer.escape_ascii());
    assert_eq!(served.ask("EXISTS k"), ":0\r\n+OK\r\n");
    let clients = served.ask("INFO clients");
    assert!(clients.contains("connected_clients:1\r\n"), "{clients}");
}

#[test]
fn certificates_may_be_left_to_the_client_and_a_wrong_one_is_refused_still() {
    let (known, other) = (Known::new(), Known::new());
    let now = SystemTime::now();
    other.client("strange", now - HOUR, now + HOUR);
    let ca = known.path("ca.pem");
    let (own, key) = (other.path("strange.pem"), other.path("strange.key"));
    for (auth, strangers) in [(ClientAuth::Optional, false), (ClientAuth::No, true)] {
        let served = Served::start(known.tls(auth));
        let files: [(&str, &Path); 3] = [("--cacert", &ca), ("--cert", &own), ("--key", &key)];
        let without = served.cli(&["PING"], &files[..1], b"");
        assert_eq!(text(&without), "PONG\n");
        let with = served.cli(&["PING"], &files, b"");
        assert_eq!(text(&with) == "PONG\n", strangers, "{}", text(&with));
    }
}

#[test]
fn who_does_not_say_who_it_is_is_let_go_and_keeps_nobody_out() {
    let known = Known::new();
    let ca = known.path("ca.pem");
    let mut tls = known.tls(ClientAuth::No);
    tls.handshakes_max = 10;
    tls.handshake = Duration::from_secs(100_000);
    let served = Served::start(tls.clone());
    let silent = || {
        let stream = TcpStream::connect(("127.0.0.1", served.tls)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
    };
    let mut many: Vec<TcpStream> = (0..30).map(|_| silent()).collect();
    let files: [(&str, &Path); 1] = [("--cacert", &ca)];
    assert_eq!(text(&served.cli(&["PING"], &files, b"")), "PONG\n");
    // The first have been let go, the last have not.
    for stream in &mut many[..20] {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
    many[29].set_nonblocking(true).unwrap();
    let waits = many[29].read(&mut [0]).unwrap_err();
    assert_eq!(waits.kind(), std::io::ErrorKind::WouldBlock);
    drop((served, many));

    tls.handshake = Duration::from_millis(50);
    let served = Served::start(tls);
    let mut late = TcpStream::connect(("127.0.0.1", served.tls)).unwrap();
    late.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    assert_eq!(late.read(&mut [0]).unwrap(), 0);
}
