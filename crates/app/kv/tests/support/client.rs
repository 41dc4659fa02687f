//! A client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

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
