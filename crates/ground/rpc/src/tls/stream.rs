//! TLS over any stream that carries bytes in order.

use super::{Credentials, Distrust};
use crate::RpcError;
use env::errno::Errno;
use env::{Address, Moment, Stream};
use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ServerConnection};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 256 << 10;

/// Bytes that are sealed at once.
const SEND_BYTES: usize = 256 << 10;

/// What a side that was refused may still send before it hears of it.
const UNHEARD_BYTES: usize = 64 << 10;

/// A stream whose bytes nobody on the way can read or change, to a peer whose certificate was
/// looked at.
///
/// The end of the peer is believed only where the peer has said so itself: a connection that is
/// cut answers ECONNRESET. One thread may send while another receives.
pub struct TlsStream {
    stream: Arc<dyn Stream>,
    session: Mutex<rustls::Connection>,
    /// Only one thread receives, so that nobody waits for this while it is held.
    arrived: Mutex<Arrived>,
    peer: CertificateDer<'static>,
}

/// Bytes as they came, before they are opened.
struct Arrived {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Why nothing more can be opened.
    failed: Option<Errno>,
}

impl Arrived {
    fn new() -> Arrived {
        Arrived {
            bytes: vec![0; RECEIVE_BYTES],
            start: 0,
            end: 0,
            failed: None,
        }
    }

    /// Waits for more; false at the end of the stream.
    fn receive(&mut self, stream: &dyn Stream, deadline: Moment) -> Result<bool, Errno> {
        self.start = 0;
        self.end = 0;
        self.end = stream.receive(&mut self.bytes, deadline)?;
        Ok(self.end > 0)
    }

    /// Gives some of the bytes to the session; false where there are none.
    fn feed(&mut self, session: &mut rustls::Connection) -> Result<bool, rustls::Error> {
        let mut rest = self.bytes.get(self.start..self.end).unwrap_or_default();
        if rest.is_empty() {
            return Ok(false);
        }
        let before = rest.len();
        // It fails only where what it has was not taken: then it takes no more.
        let _taken = session.read_tls(&mut rest);
        self.start += before - rest.len();
        session.process_new_packets()?;
        Ok(self.start < self.end || before > rest.len())
    }
}

impl TlsStream {
    /// Speaks first. The peer has to have a certificate of `name`.
    ///
    /// # Errors
    /// [`RpcError::Distrusts`] the peer, or is [`RpcError::Distrusted`], or the connection is
    /// lost, or not done by the deadline. What the peer thinks of this side's certificate is
    /// heard with the first bytes from it.
    pub fn connect(
        stream: Arc<dyn Stream>,
        credentials: &Credentials,
        name: &str,
        deadline: Moment,
    ) -> Result<TlsStream, RpcError> {
        TlsStream::connect_with(stream, credentials.client(), name, deadline)
    }

    pub(super) fn connect_with(
        stream: Arc<dyn Stream>,
        config: Arc<ClientConfig>,
        name: &str,
        deadline: Moment,
    ) -> Result<TlsStream, RpcError> {
        let name = ServerName::try_from(name.to_owned());
        let name = name.map_err(|_| RpcError::Distrusts(Distrust::Name))?;
        let session = ClientConnection::new(config, name).map_err(|error| wrong(&error))?;
        TlsStream::shake(stream, session.into(), deadline)
    }

    /// Answers. The peer has to have a certificate of the same authority.
    ///
    /// # Errors
    /// As [`TlsStream::connect`].
    pub fn accept(
        stream: Arc<dyn Stream>,
        credentials: &Credentials,
        deadline: Moment,
    ) -> Result<TlsStream, RpcError> {
        let session = ServerConnection::new(credentials.server()).map_err(|error| wrong(&error))?;
        TlsStream::shake(stream, session.into(), deadline)
    }

    fn shake(
        stream: Arc<dyn Stream>,
        mut session: rustls::Connection,
        deadline: Moment,
    ) -> Result<TlsStream, RpcError> {
        session.set_buffer_limit(None);
        let mut arrived = Arrived::new();
        loop {
            flush(&mut session, stream.as_ref(), deadline)?;
            if !session.is_handshaking() {
                break;
            }
            if !arrived.receive(stream.as_ref(), deadline)? {
                return Err(RpcError::Ended);
            }
            while session.is_handshaking() {
                match arrived.feed(&mut session) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        part(&mut session, stream.as_ref(), deadline);
                        return Err(wrong(&error));
                    }
                }
            }
        }
        let peer = session.peer_certificates().and_then(|chain| chain.first());
        let peer = peer.map(|first| first.clone().into_owned());
        let peer = peer.ok_or(RpcError::Distrusts(Distrust::Missing))?;
        Ok(TlsStream {
            stream,
            session: Mutex::new(session),
            arrived: Mutex::new(arrived),
            peer,
        })
    }

    /// The name in the peer's certificate, for messages; of several the first.
    pub fn peer_name(&self) -> Option<String> {
        name_in(&self.peer)
    }

    /// Whether the peer's certificate is of this name.
    pub fn peer_is(&self, name: &str) -> bool {
        let Ok(name) = ServerName::try_from(name) else {
            return false;
        };
        let certificate = webpki::EndEntityCert::try_from(&self.peer);
        certificate.is_ok_and(|certificate| {
            let fits = certificate.verify_is_valid_for_subject_name(&name);
            fits.is_ok()
        })
    }
}

impl Stream for TlsStream {
    fn peer(&self) -> &Address {
        self.stream.peer()
    }

    fn receive(&self, buffer: &mut [u8], deadline: Moment) -> env::Result<usize> {
        if buffer.is_empty() {
            return Err(Errno::INVAL);
        }
        let mut arrived = self.arrived.lock();
        loop {
            let mut done = 0;
            {
                let mut session = self.session.lock();
                loop {
                    let rest = buffer.get_mut(done..).unwrap_or_default();
                    match session.reader().read(rest) {
                        Ok(0) => return Ok(done),
                        Ok(count) => done += count,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            match arrived.feed(&mut session) {
                                Ok(true) => {}
                                Ok(false) => break,
                                // What came before it was right.
                                Err(error) => {
                                    let told = Distrust::told(&error);
                                    let errno = told.map_or(Errno::CONNRESET, Distrust::errno);
                                    arrived.failed = Some(errno);
                                    break;
                                }
                            }
                        }
                        Err(_) if done > 0 => break,
                        Err(_) => return Err(Errno::CONNRESET),
                    }
                }
            }
            if done > 0 {
                return Ok(done);
            }
            if let Some(errno) = arrived.failed {
                return Err(errno);
            }
            if !arrived.receive(self.stream.as_ref(), deadline)? {
                // The session says whether the peer has said that it ends.
                let mut session = self.session.lock();
                let _end = session.read_tls(&mut &[][..]);
                let _state = session.process_new_packets();
            }
        }
    }

    fn send(&self, data: &[u8], deadline: Moment) -> env::Result<()> {
        for piece in data.chunks(SEND_BYTES) {
            let mut sealed = Vec::with_capacity(piece.len() + (SEND_BYTES >> 6));
            {
                let mut session = self.session.lock();
                let written = session.writer().write_all(piece);
                written.map_err(|_| Errno::CONNRESET)?;
                seal(&mut session, &mut sealed)?;
            }
            self.stream.send(&sealed, deadline)?;
        }
        Ok(())
    }

    fn finish(&self) -> env::Result<()> {
        let mut sealed = Vec::new();
        {
            let mut session = self.session.lock();
            session.send_close_notify();
            seal(&mut session, &mut sealed)?;
        }
        self.stream.send(&sealed, Moment::NEVER)?;
        self.stream.finish()
    }

    fn close(&self) {
        self.stream.close();
    }
}

/// What the session has to send.
fn seal(session: &mut rustls::Connection, sealed: &mut Vec<u8>) -> Result<(), Errno> {
    while session.wants_write() {
        // Memory takes everything.
        session.write_tls(sealed).map_err(|_| Errno::IO)?;
    }
    Ok(())
}

fn flush(
    session: &mut rustls::Connection,
    stream: &dyn Stream,
    deadline: Moment,
) -> Result<(), Errno> {
    let mut sealed = Vec::new();
    seal(session, &mut sealed)?;
    match sealed.is_empty() {
        true => Ok(()),
        false => stream.send(&sealed, deadline),
    }
}

/// Tells the peer why, and lets it hear that: a connection that is closed while bytes of the peer
/// have not been received is lost for it, with all that was said.
fn part(session: &mut rustls::Connection, stream: &dyn Stream, deadline: Moment) {
    let told = flush(session, stream, deadline).and_then(|()| stream.finish());
    let mut unheard = vec![0; UNHEARD_BYTES];
    let mut left = UNHEARD_BYTES;
    while told.is_ok() && left > 0 {
        match stream.receive(&mut unheard, deadline) {
            Ok(0) | Err(_) => break,
            Ok(count) => left = left.saturating_sub(count),
        }
    }
}

fn wrong(error: &rustls::Error) -> RpcError {
    if let Some(why) = Distrust::of(error) {
        return RpcError::Distrusts(why);
    }
    match Distrust::told(error) {
        Some(why) => RpcError::Distrusted(why),
        None => RpcError::Tls(error.to_string()),
    }
}

/// The first name in a certificate.
pub(super) fn name_in(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    certificate.valid_dns_names().next().map(str::to_owned)
}
