//! Connections between machines: TLS 1.3, with a certificate on both sides.
//!
//! Who speaks is said by a name in its certificate, and vouched for by one authority that all
//! machines of a set share ([`Authority`]). There is no other way in: no password, no certificate
//! of the public web, no earlier version.

mod authority;
mod credentials;
mod stream;
mod vouched;

#[cfg(test)]
mod tests;

pub use authority::{Authority, AuthorityError, Issued};
pub use credentials::{Credentials, CredentialsError};
pub use stream::TlsStream;
pub use vouched::vouched;

use env::errno::Errno;
use rustls::{AlertDescription, CertificateError, Error};

/// Why one side does not accept the other's certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Distrust {
    /// It is not valid at this time.
    #[error("it has expired, or is not valid yet, or one of the two clocks is wrong")]
    Expired,
    /// Another authority has issued it.
    #[error("it is not from the same authority")]
    Stranger,
    /// There is none.
    #[error("there is none")]
    Missing,
    /// It is somebody else's.
    #[error("it is of another name")]
    Name,
    /// Anything else.
    #[error("it cannot be used")]
    Unusable,
}

impl Distrust {
    /// What this side has found wrong with the peer's certificate.
    fn of(error: &Error) -> Option<Distrust> {
        Some(match error {
            Error::NoCertificatesPresented => Distrust::Missing,
            Error::InvalidCertificate(why) => match why {
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => Distrust::Expired,
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    Distrust::Stranger
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Distrust::Name,
                _ => Distrust::Unusable,
            },
            _ => return None,
        })
    }

    /// What the peer has found wrong with this side's (RFC 8446, 6.2).
    fn told(error: &Error) -> Option<Distrust> {
        let Error::AlertReceived(alert) = error else {
            return None;
        };
        Some(match alert {
            AlertDescription::CertificateExpired => Distrust::Expired,
            AlertDescription::UnknownCA => Distrust::Stranger,
            AlertDescription::CertificateRequired => Distrust::Missing,
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied => Distrust::Unusable,
            _ => return None,
        })
    }

    /// As a stream can say it: a client hears only after its own part of the handshake that the
    /// server does not accept its certificate.
    fn errno(self) -> Errno {
        match self {
            Distrust::Expired => Errno::KEYEXPIRED,
            Distrust::Stranger => Errno::KEYREJECTED,
            Distrust::Missing => Errno::NOKEY,
            Distrust::Name | Distrust::Unusable => Errno::KEYREVOKED,
        }
    }

    /// What a stream has said.
    pub(crate) fn from_errno(errno: Errno) -> Option<Distrust> {
        let all = [
            Distrust::Expired,
            Distrust::Stranger,
            Distrust::Missing,
            Distrust::Unusable,
        ];
        all.into_iter().find(|distrust| distrust.errno() == errno)
    }
}
