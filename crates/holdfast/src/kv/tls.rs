//! The options of `holdfast kv serve` for TLS.

use crate::ca;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use ::kv::Config;
use ::kv::server::{ClientAuth, Tls, TlsError};
use std::path::PathBuf;

/// Which clients have to have a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum AuthClients {
    /// All
    Yes,
    /// None; nobody is asked for one
    No,
    /// None; who has one has to have a right one
    Optional,
}

impl AuthClients {
    fn auth(self) -> ClientAuth {
        match self {
            AuthClients::Yes => ClientAuth::Yes,
            AuthClients::No => ClientAuth::No,
            AuthClients::Optional => ClientAuth::Optional,
        }
    }

    fn name(self) -> &'static str {
        match self {
            AuthClients::Yes => "yes",
            AuthClients::No => "no",
            AuthClients::Optional => "optional",
        }
    }
}

/// Whether, and how, clients are served with TLS.
#[derive(Clone, Debug, clap::Args)]
pub struct TlsArgs {
    /// The TCP port to listen on for TLS 1.3; 0 for any that is free, which is said
    #[arg(long, value_name = "PORT", requires_all = ["tls_cert_file", "tls_key_file"])]
    pub tls_port: Option<u16>,
    /// The server's certificate, and those that vouch for it, as PEM; `holdfast ca issue` makes one
    #[arg(long, value_name = "PATH", requires = "tls_port")]
    pub tls_cert_file: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(long, value_name = "PATH", requires = "tls_port")]
    pub tls_key_file: Option<PathBuf>,
    /// The certificates of authorities that vouch for clients, as PEM
    #[arg(long, value_name = "PATH", requires = "tls_port")]
    pub tls_ca_cert_file: Option<PathBuf>,
    /// Which clients have to have a certificate
    #[arg(long, value_enum, default_value = "yes")]
    pub tls_auth_clients: AuthClients,
}

impl TlsArgs {
    /// The port, and what clients are shown there.
    ///
    /// # Errors
    /// A file is missing, others may read the key, or they do not fit together.
    pub(super) fn tls(&self) -> Outcome<Option<(u16, Tls)>> {
        let (Some(port), Some(certificate), Some(key)) =
            (self.tls_port, &self.tls_cert_file, &self.tls_key_file)
        else {
            return Ok(None);
        };
        let authorities = self.tls_ca_cert_file.as_deref().map(ca::read).transpose()?;
        let (own, secret) = (ca::read(certificate)?, ca::read_secret(key)?);
        let auth = self.tls_auth_clients.auth();
        let tls = Tls::new(&own, &secret, authorities.as_deref(), auth).map_err(|error| {
            let next = match error {
                TlsError::NoAuthority => {
                    "give --tls-ca-cert-file, or let anybody in: --tls-auth-clients no"
                }
                _ => "make them anew: `holdfast ca issue NAME`, where the authority is",
            };
            let what = format!("TLS cannot be served: {error}");
            Failure::refuse(Exit::BadCertificate, what, next)
        })?;
        Ok(Some((port, tls)))
    }

    /// Whether every client of TLS has a certificate.
    pub(super) fn knows_clients(&self) -> bool {
        self.tls_auth_clients == AuthClients::Yes
    }

    /// CONFIG GET answers what was chosen.
    pub(super) fn show_in(&self, config: &mut Config) {
        let path = |path: &Option<PathBuf>| {
            let path = path.as_ref().map(|path| path.display().to_string());
            path.unwrap_or_default()
        };
        config.fix("tls-cert-file", &path(&self.tls_cert_file));
        config.fix("tls-key-file", &path(&self.tls_key_file));
        config.fix("tls-ca-cert-file", &path(&self.tls_ca_cert_file));
        config.fix("tls-auth-clients", self.tls_auth_clients.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(tls_auth_clients: AuthClients) -> TlsArgs {
        TlsArgs {
            tls_port: Some(0),
            tls_cert_file: Some("/does/not/exist".into()),
            tls_key_file: Some("/does/not/exist".into()),
            tls_ca_cert_file: None,
            tls_auth_clients,
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_what_to_do() {
        let home = tempfile::tempdir().expect("a directory");
        let missing = args(AuthClients::Yes).tls().expect_err("no such file");
        assert_eq!(missing.exit, Exit::BadCertificate);
        let authority = rpc::tls::Authority::new().expect("an authority");
        let now = std::time::SystemTime::now();
        let issued = authority.issue("localhost", now, now + std::time::Duration::from_secs(60));
        let issued = issued.expect("a certificate");
        let (own, key) = (home.path().join("own"), home.path().join("key"));
        std::fs::write(&own, issued.certificate).expect("written");
        std::fs::write(&key, issued.key).expect("written");
        let of = |auth| TlsArgs {
            tls_cert_file: Some(own.clone()),
            tls_key_file: Some(key.clone()),
            ..args(auth)
        };
        let open = of(AuthClients::No).tls().expect_err("others may read it");
        assert!(open.what.contains("others may read the key"), "{open}");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&key, mode).expect("a mode");
        let alone = of(AuthClients::Yes).tls().expect_err("no authority");
        assert!(alone.next.contains("--tls-ca-cert-file"), "{alone}");
        assert!(of(AuthClients::No).tls().expect("it fits").is_some());
        let mut junk = of(AuthClients::Optional);
        junk.tls_ca_cert_file = Some(key.clone());
        let junk = junk.tls().expect_err("a key is no certificate");
        assert!(junk.what.contains("certificate of an authority"), "{junk}");
        let mut none = of(AuthClients::Yes);
        none.tls_port = None;
        assert!(none.tls().expect("nothing is asked for").is_none());
    }
}
