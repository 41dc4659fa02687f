//! What a machine shows to others, and what it holds against them.

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::sync::Arc;

/// The one version of TLS that is spoken.
const VERSIONS: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

/// What is spoken inside (RFC 7301), so that no other protocol is taken for it.
const INSIDE: &[u8] = b"holdfast-rpc/1";

/// The certificate and key of a machine, and the authority that it trusts.
pub struct Credentials {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    /// The certificate that others see.
    pub(super) own: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

/// Why they cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CredentialsError {
    /// There is no PEM of its kind.
    #[error("the {0} is not readable as PEM")]
    Unreadable(&'static str),
    /// They do not fit together, or are of a kind that is not supported.
    #[error("certificate, key and authority do not fit: {0}")]
    Unfit(String),
}

impl Credentials {
    /// Of a certificate, its key, and the authority's certificate, all as PEM.
    ///
    /// # Errors
    /// They cannot be used. Whether they are valid today is seen when they are shown.
    pub fn new(
        certificate: &[u8],
        key: &[u8],
        authority: &[u8],
    ) -> Result<Credentials, CredentialsError> {
        let one = |what, pem| {
            CertificateDer::from_pem_slice(pem).map_err(|_| CredentialsError::Unreadable(what))
        };
        let own = one("certificate", certificate)?;
        let authority = one("authority's certificate", authority)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| CredentialsError::Unreadable("private key"))?;
        Credentials::of(own, key, authority)
            .map_err(|error| CredentialsError::Unfit(error.to_string()))
    }

    fn of(
        own: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
        authority: CertificateDer<'static>,
    ) -> Result<Credentials, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let roots = Arc::new(roots);
        let chain = vec![own.clone()];
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(chain.clone(), key.clone_key())?;
        client.alpn_protocols = vec![INSIDE.to_vec()];
        // Each connection proves anew who it is.
        client.resumption = Resumption::disabled();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key.clone_key())?;
        server.alpn_protocols = vec![INSIDE.to_vec()];
        server.send_tls13_tickets = 0;
        Ok(Credentials {
            client: Arc::new(client),
            server: Arc::new(server),
            own,
            key,
        })
    }

    /// The name in the certificate.
    pub fn name(&self) -> Option<String> {
        super::stream::name_in(&self.own)
    }

    /// The certificate, as DER.
    pub fn certificate(&self) -> &[u8] {
        &self.own
    }

    /// The private key, as DER (PKCS #8): a secret.
    pub fn key(&self) -> &[u8] {
        self.key.secret_der()
    }

    pub(super) fn client(&self) -> Arc<ClientConfig> {
        self.client.clone()
    }

    pub(super) fn server(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }

    /// As somebody who has no certificate, to see that they are not let in.
    #[cfg(test)]
    pub(super) fn without_certificate(authority: &[u8]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(authority).expect("an authority");
        roots.add(authority).expect("an authority");
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)
            .expect("TLS 1.3");
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![INSIDE.to_vec()];
        Arc::new(config)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
