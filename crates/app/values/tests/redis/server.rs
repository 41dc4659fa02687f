//! A `redis-server` of Debian, on a socket in a directory of its own.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
};

/// A reply of RESP2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(String),
    Integer(i64),
    Bytes(Vec<u8>),
    Nothing,
    List(Vec<Reply>),
}

impl Reply {
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.into_bytes(),
            Self::Integer(value) => value.to_string().into_bytes(),
            other => panic!("no bytes: {other:?}"),
        }
    }

    pub(crate) fn list(self) -> Vec<Reply> {
        match self {
            Self::List(list) => list,
            other => panic!("no list: {other:?}"),
        }
    }
}

pub(crate) struct Server {
    child: Child,
    stream: BufReader<UnixStream>,
}

impl Server {
    /// Starts a server whose file is `dump.rdb` in `home`; it has loaded it when this returns.
    pub(crate) fn start(home: &Path) -> Self {
        let socket = home.join("socket");
        let mut child = Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--daemonize",
                "no",
            ])
            .args(["--sanitize-dump-payload", "yes", "--dbfilename", "dump.rdb"])
            .arg("--dir")
            .arg(home)
            .arg("--unixsocket")
            .arg(&socket)
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server, of Debian's package redis-server");
        let mut log = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        while !log.contains("ready to accept connections at")
            && !log.contains("The server is now ready")
        {
            let read = lines.read_line(&mut log).unwrap();
            assert!(read > 0, "the server has ended:\n{log}");
        }
        // The pipe has to stay open, or the server's next line would end it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let stream = BufReader::new(UnixStream::connect(&socket).unwrap());
        Self { child, stream }
    }

    pub(crate) fn call(&mut self, arguments: &[&[u8]]) -> Result<Reply, String> {
        let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            request.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            request.extend_from_slice(argument);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).unwrap();
        self.reply()
    }

    /// A command of words without spaces.
    pub(crate) fn say(&mut self, words: &str) -> Reply {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.call(&words).unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn reply(&mut self) -> Result<Reply, String> {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        Ok(match kind {
            "+" => Reply::Text(rest.into()),
            "-" => return Err(rest.into()),
            ":" => Reply::Integer(rest.parse().unwrap()),
            "$" if rest == "-1" => Reply::Nothing,
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(bytes)
            }
            "*" if rest == "-1" => Reply::Nothing,
            "*" => {
                let count: usize = rest.parse().unwrap();
                Reply::List((0..count).map(|_| self.reply()).collect::<Result<_, _>>()?)
            }
            other => panic!("a reply of kind {other}"),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
