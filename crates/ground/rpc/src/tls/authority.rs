//! Issues the certificates of a set of machines.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519, PublicKeyData, date_time_ymd,
};
use rustls::pki_types::ServerName;
use std::time::{Duration, SystemTime};

/// Bytes of a key's number in the name of its authority.
const NUMBER_BYTES: usize = 8;

/// The key that vouches for all others, and its own certificate.
pub struct Authority {
    params: CertificateParams,
    key: KeyPair,
}

/// A certificate with its key, as PEM. The key is a secret.
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its private key (PKCS #8, Ed25519).
    pub key: String,
}

/// Why no certificate was made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AuthorityError {
    /// Neither a DNS name nor an IP address.
    #[error("{0} is neither a name as DNS has them nor an IP address")]
    Name(String),
    /// The key of the authority cannot be read.
    #[error("the authority's key cannot be used: {0}")]
    Key(rcgen::Error),
    /// Something else.
    #[error("no certificate could be made: {0}")]
    Made(rcgen::Error),
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new() -> Result<Authority, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(AuthorityError::Made)?;
        Ok(Authority::of(key))
    }

    /// The one of this key, as PEM.
    ///
    /// # Errors
    /// It is none.
    pub fn from_key(pem: &str) -> Result<Authority, AuthorityError> {
        let key = KeyPair::from_pem(pem).map_err(AuthorityError::Key)?;
        Ok(Authority::of(key))
    }

    /// Its name follows from its key, so that the key is all that has to be kept, and no two
    /// authorities have the same.
    fn of(key: KeyPair) -> Authority {
        let mut params = CertificateParams::default();
        let raw = key.der_bytes();
        let number: String = raw
            .iter()
            .take(NUMBER_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        params.distinguished_name = named(&format!("Holdfast authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Authority { params, key }
    }

    /// Its own certificate, as PEM, which is no secret: valid from now, for `validity`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn certificate(&self, validity: Duration) -> Result<String, AuthorityError> {
        let mut params = self.params.clone();
        let now = SystemTime::now();
        valid(&mut params, now, now + validity);
        let made = params.self_signed(&self.key);
        Ok(made.map_err(AuthorityError::Made)?.pem())
    }

    /// Its key, as PEM: who has it can be anybody.
    pub fn key(&self) -> String {
        self.key.serialize_pem()
    }

    /// A certificate with a new key for a machine, valid from `from` until `to`. `name` is what
    /// others connect to: a DNS name or an IP address.
    ///
    /// # Errors
    /// The name is none.
    pub fn issue(
        &self,
        name: &str,
        from: SystemTime,
        to: SystemTime,
    ) -> Result<Issued, AuthorityError> {
        if ServerName::try_from(name).is_err() {
            return Err(AuthorityError::Name(name.to_owned()));
        }
        let made = AuthorityError::Made;
        let mut params = CertificateParams::new([name.to_owned()]).map_err(made)?;
        params.distinguished_name = named(name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, from, to);
        let key = without_public_key(&KeyPair::generate_for(&PKCS_ED25519).map_err(made)?)?;
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).map_err(made)?;
        Ok(Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// What stands before the 32 bytes of an Ed25519 key in PKCS #8 without the public key (RFC 8410, 7).
const KEY_HEAD: [u8; 16] = [
    0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
];

/// The key as version one of PKCS #8 has it. Version two has the public key too, and OpenSSL 3.0 does not read it.
fn without_public_key(key: &KeyPair) -> Result<KeyPair, AuthorityError> {
    let whole = key.serialized_der();
    // Both versions have the key behind as many bytes.
    let secret = whole.get(KEY_HEAD.len()..KEY_HEAD.len() + 32);
    let der = [&KEY_HEAD[..], secret.unwrap_or_default()].concat();
    let short = KeyPair::try_from(der).map_err(AuthorityError::Made)?;
    assert_eq!(short.der_bytes(), key.der_bytes(), "the same key");
    Ok(short)
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn valid(params: &mut CertificateParams, from: SystemTime, to: SystemTime) {
    let since_epoch = |time: SystemTime| {
        let seconds = time.duration_since(SystemTime::UNIX_EPOCH);
        Duration::from_secs(seconds.unwrap_or_default().as_secs())
    };
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch(from);
    params.not_after = epoch + since_epoch(to);
}
