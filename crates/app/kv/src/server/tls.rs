//! TLS 1.3 for clients: who is served, and one connection.

use mio::net::TcpStream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How many of them may be under way at a time.
const HANDSHAKES_MAX: usize = 1024;

/// Bytes of replies that are sealed before the socket takes them.
const SEALED_BYTES: usize = 256 << 10;

/// Which clients have to have a certificate (Redis: `tls-auth-clients`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientAuth {
    /// All.
    #[default]
    Yes,
    /// None: nobody is asked for one.
    No,
    /// None, and who has one has to have a right one.
    Optional,
}

/// Why there is no TLS.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no PEM of its kind.
    #[error("there is no {0} in PEM")]
    Unreadable(&'static str),
    /// Certificates of clients are to be looked at, and nothing says who vouches for them.
    #[error("no certificate of an authority is named that vouches for clients")]
    NoAuthority,
    /// They do not fit together, or are of a kind that is not supported.
    #[error("certificate, key and authority do not fit: {0}")]
    Unfit(String),
}

/// What the server shows to clients, and holds against them.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ServerConfig>,
    /// How long a client may take to say who it is.
    #[doc(hidden)]
    pub handshake: Duration,
    /// Clients that have not said who they are, at a time; then the one that came first is let go.
    #[doc(hidden)]
    pub handshakes_max: usize,
}

impl Tls {
    /// Of a certificate (with those that vouch for it, if any, behind it), its key, and the certificates of authorities
    /// of clients, all as PEM.
    ///
    /// # Errors
    /// They cannot be used. Whether they are valid today is seen when they are shown.
    pub fn new(
        certificates: &[u8],
        key: &[u8],
        authorities: Option<&[u8]>,
        auth: ClientAuth,
    ) -> Result<Tls, TlsError> {
        let unfit = |error: &dyn std::error::Error| TlsError::Unfit(error.to_string());
        let chain = all(certificates, "certificate")?;
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|_| TlsError::Unreadable("private key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| unfit(&error))?;
        let builder = match auth {
            ClientAuth::No => builder.with_no_client_auth(),
            ClientAuth::Yes | ClientAuth::Optional => {
                let authorities = authorities.ok_or(TlsError::NoAuthority)?;
                let mut roots = RootCertStore::empty();
                for authority in all(authorities, "certificate of an authority")? {
                    roots.add(authority).map_err(|error| unfit(&error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = match auth {
                    ClientAuth::Optional => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                builder.with_client_cert_verifier(verifier.build().map_err(|error| unfit(&error))?)
            }
        };
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| unfit(&error))?;
        // Each connection proves anew who it is.
        config.send_tls13_tickets = 0;
        Ok(Tls {
            config: Arc::new(config),
            handshake: HANDSHAKE,
            handshakes_max: HANDSHAKES_MAX,
        })
    }
}

fn all(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    found.ok_or(TlsError::Unreadable(what))
}

/// A connection whose bytes nobody on the way can read or change.
pub(super) struct TlsStream {
    pub(super) socket: TcpStream,
    session: ServerConnection,
    /// When the handshake has to be done.
    deadline: Instant,
}

impl TlsStream {
    pub(super) fn new(socket: TcpStream, tls: &Tls) -> std::io::Result<TlsStream> {
        let session = ServerConnection::new(tls.config.clone()).map_err(std::io::Error::other)?;
        let mut stream = TlsStream {
            socket,
            session,
            deadline: Instant::now() + tls.handshake,
        };
        stream.session.set_buffer_limit(Some(SEALED_BYTES));
        Ok(stream)
    }

    /// Whether it is not known yet who the client is.
    pub(super) fn shakes_hands(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Whether the client took too long to say who it is.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.shakes_hands() && self.deadline <= now
    }

    /// Bytes of requests; 0 at the end. Nothing comes from a client that was not let in.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The socket ended and the client did not say that it would: no request is cut by that.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            let ended = self.session.read_tls(&mut self.socket)? == 0;
            let processed = self.session.process_new_packets();
            // Answers of the handshake, and what is wrong with the client.
            let pushed = self.push();
            if let Err(error) = processed {
                tracing::info!(%error, "a client of TLS is let go");
                return Err(std::io::Error::other(error));
            }
            pushed?;
            if ended && self.shakes_hands() {
                return Ok(0);
            }
        }
    }

    /// Takes bytes of replies, as many as there is room for. What the socket did not take is pushed later.
    pub(super) fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let count = self.session.writer().write(rest)?;
            taken += count;
            if !self.push()? || count == 0 {
                break;
            }
        }
        match taken {
            0 => Err(ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }
    }

    /// Whether the socket has not taken all.
    pub(super) fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    /// Gives the socket what is sealed; whether it took all.
    pub(super) fn push(&mut self) -> std::io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says that nothing more comes.
    pub(super) fn end(&mut self) {
        self.session.send_close_notify();
        // Who does not hear it sees the connection end.
        let _ = self.push();
    }
}
