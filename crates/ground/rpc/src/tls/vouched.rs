//! Who a key belongs to, by a certificate that was kept.

use super::Distrust;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// What stands before the 32 bytes of an Ed25519 key in a certificate (RFC 8410, 4), behind the
/// head of the sequence.
const ED25519: [u8; 10] = [0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// Whose certificate this is, if the authority vouches for it and for this Ed25519 key, and it was
/// valid at `at`, in seconds since 1970. The name is the first in the certificate; empty where it
/// is an address.
///
/// # Errors
/// It is another key's, or nobody vouches for it.
pub fn vouched(
    authority: &[u8],
    certificate: &[u8],
    key: &[u8; 32],
    at: u64,
) -> Result<String, Distrust> {
    let unusable = |_| Distrust::Unusable;
    let authority = CertificateDer::from_pem_slice(authority).map_err(|_| Distrust::Unusable)?;
    let anchors = [anchor_from_trusted_cert(&authority).map_err(unusable)?];
    let certificate = CertificateDer::from(certificate);
    let entity = EndEntityCert::try_from(&certificate).map_err(unusable)?;
    let spki = entity.subject_public_key_info();
    let expected = [&ED25519[..], key].concat();
    if !spki.ends_with(&expected) {
        return Err(Distrust::Name);
    }
    let time = UnixTime::since_unix_epoch(Duration::from_secs(at));
    let usage = KeyUsage::client_auth();
    let algorithms = [webpki::ring::ED25519];
    entity
        .verify_for_usage(&algorithms, &anchors, &[], time, usage, None, None)
        .map_err(|error| match error {
            webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. } => {
                Distrust::Expired
            }
            webpki::Error::UnknownIssuer => Distrust::Stranger,
            _ => Distrust::Unusable,
        })?;
    Ok(super::stream::name_in(&certificate).unwrap_or_default())
}
