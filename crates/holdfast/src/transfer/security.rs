//! How two machines that are joined by a network know each other.

use crate::ca;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use env::{Address, Moment, Stream};
use rpc::RpcError;
use rpc::tls::{Credentials, TlsStream};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The port that is taken where none is named.
pub(super) const PORT: u16 = 7411;

/// Whether, and how, a connection is secured.
#[derive(Clone, Debug, clap::Args)]
pub struct SecurityArgs {
    /// What `holdfast ca issue` has made for this machine
    #[arg(long, value_name = "DIR", conflicts_with = "without_tls")]
    pub tls: Option<PathBuf>,
    /// Speak in the clear with another machine: whoever is on the way can read and change
    /// everything, and anybody can be the other side
    #[arg(long)]
    pub without_tls: bool,
}

/// How a connection is secured.
pub(super) enum Security {
    /// By certificates.
    Tls(Credentials),
    /// Not at all.
    None,
}

impl SecurityArgs {
    /// What they say, for a peer or a listener at `host`.
    ///
    /// # Errors
    /// There is no TLS, and nobody has said that this is meant; or certificates cannot be used.
    pub(super) fn security(&self, host: &str) -> Outcome<Security> {
        match &self.tls {
            Some(dir) => Ok(Security::Tls(ca::credentials(dir)?)),
            None if self.without_tls || is_loopback(host) => Ok(Security::None),
            None => Err(Failure::refuse(
                Exit::Usage,
                format!("{host} is another machine, and there is no --tls"),
                "on one machine: `holdfast ca init DIR`, and `holdfast ca issue NAME --ca DIR` for \
                 both; then --tls on each\nwhere everybody on the network is trusted: --without-tls",
            )),
        }
    }
}

impl Security {
    /// Secures a connection that was made to the machine called `name`.
    pub(super) fn connect(
        &self,
        stream: Arc<dyn Stream>,
        name: &str,
        deadline: Moment,
    ) -> Result<Arc<dyn Stream>, RpcError> {
        Ok(match self {
            Security::None => stream,
            Security::Tls(own) => Arc::new(TlsStream::connect(stream, own, name, deadline)?),
        })
    }

    /// Secures a connection that was accepted. Who the peer is, where that is known; an error for
    /// one that is in none of `allowed`, where there are any.
    pub(super) fn accept(
        &self,
        stream: Arc<dyn Stream>,
        allowed: &[String],
        deadline: Moment,
    ) -> Result<(Arc<dyn Stream>, Peer), RpcError> {
        Ok(match self {
            Security::None => (stream, Peer::Unknown),
            Security::Tls(own) => {
                let tls = TlsStream::accept(stream, own, deadline)?;
                let name = tls.peer_name().unwrap_or_default();
                let is_allowed = allowed.is_empty() || allowed.iter().any(|one| tls.peer_is(one));
                let peer = match is_allowed {
                    true => Peer::Known(name),
                    false => Peer::NotAllowed(name),
                };
                (Arc::new(tls), peer)
            }
        })
    }
}

/// Who the other side is.
pub(super) enum Peer {
    /// Anybody.
    Unknown,
    /// The one of this name.
    Known(String),
    /// The one of this name, who may not.
    NotAllowed(String),
}

/// Whether this is surely this machine itself.
fn is_loopback(host: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

/// What somebody listens on: `HOST:PORT`, or `HOST` with the port that is ours.
pub(super) fn address(text: &str) -> Result<Address, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let with_port = format!("{text}:{PORT}");
    let parsed = with_port.parse();
    parsed.map_err(|_| "the form is HOST:PORT, such as 0.0.0.0:7411 or [::]:7411".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_only_this_machine_is_spoken_to_unless_somebody_says_so() {
        let args = |tls, without_tls| SecurityArgs { tls, without_tls };
        for host in ["localhost", "127.0.0.1", "127.1.2.3", "::1"] {
            assert!(args(None, false).security(host).is_ok(), "{host}");
        }
        for host in ["10.0.0.7", "0.0.0.0", "::", "localhost.example", "db"] {
            let refused = args(None, false).security(host).err();
            assert_eq!(
                refused.map(|failure| failure.exit),
                Some(Exit::Usage),
                "{host}"
            );
            assert!(args(None, true).security(host).is_ok(), "{host}");
        }
        let nowhere = args(Some("/does/not/exist".into()), false).security("127.0.0.1");
        let refused = nowhere.err().map(|failure| failure.exit);
        assert_eq!(refused, Some(Exit::BadCertificate));
    }

    #[test]
    fn a_port_may_be_left_out() {
        let default = Address::new("0.0.0.0", PORT);
        assert_eq!(address("0.0.0.0"), Ok(default));
        assert_eq!(address("[::1]:9"), Ok(Address::new("::1", 9)));
        assert!(address("a b:c:d").is_err());
    }
}
