//! Who made a manifest.

use super::text::{digits, hex};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

/// What is signed before the digest, so that no signature for anything else is one of a manifest. It
/// is the same for all versions: which one it is, the digest covers.
const CONTEXT: &[u8] = b"holdfast manifest 1\0";

/// Signs manifests.
pub struct Signer {
    key: Ed25519KeyPair,
    certificate: Option<Vec<u8>>,
}

/// Why a key cannot sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the key is not Ed25519 in PKCS #8")]
pub struct SignerError;

/// The signature of a manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The public key that it fits (Ed25519, RFC 8032).
    pub key: [u8; 32],
    /// The certificate of that key, as X.509 DER, where the signer has one. It is not looked at
    /// here.
    pub certificate: Option<Vec<u8>>,
    bytes: [u8; 64],
}

impl Signer {
    /// Of a private key as PKCS #8 DER, and its certificate as DER.
    ///
    /// # Errors
    /// The key is of another kind.
    pub fn new(key: &[u8], certificate: Option<Vec<u8>>) -> Result<Signer, SignerError> {
        let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key).map_err(|_| SignerError)?;
        Ok(Signer { key, certificate })
    }

    pub(super) fn sign(&self, digest: &[u8]) -> Signature {
        let mut key = [0; 32];
        key.copy_from_slice(self.key.public_key().as_ref());
        let mut bytes = [0; 64];
        bytes.copy_from_slice(self.key.sign(&[CONTEXT, digest].concat()).as_ref());
        Signature {
            key,
            certificate: self.certificate.clone(),
            bytes,
        }
    }
}

impl Signature {
    pub(super) fn fits(&self, digest: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, self.key);
        key.verify(&[CONTEXT, digest].concat(), &self.bytes).is_ok()
    }

    /// The words behind `signed`.
    pub(super) fn to_words(&self) -> String {
        let certificate = self.certificate.as_deref().map(digits);
        format!(
            "{} {} {}",
            digits(&self.key),
            digits(&self.bytes),
            certificate.as_deref().unwrap_or("-")
        )
    }

    pub(super) fn parse(words: &str) -> Option<Signature> {
        let mut words = words.split(' ');
        let (key, bytes) = (
            hex(words.next()?.as_bytes())?,
            hex(words.next()?.as_bytes())?,
        );
        let certificate = match words.next()? {
            "-" => None,
            text => Some(long_hex(text)?),
        };
        words.next().is_none().then_some(Signature {
            key,
            certificate,
            bytes,
        })
    }
}

fn long_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| hex::<1>(pair).map(|[byte]| byte);
    match rest {
        [] => pairs.iter().map(byte).collect(),
        _ => None,
    }
}
