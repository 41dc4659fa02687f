//! How errors of `filemeta` become numbers of the header.

pub(crate) use ffi::{buffer, bytes, place, reference, string, text};

use filemeta::MetaError;
use std::ffi::c_int;

/// The buffer is shorter than what there is; the length needed was stored.
const TOO_SMALL: c_int = 101;
/// A bug in this library.
const PANIC: c_int = 102;

/// A result that is not success.
#[derive(Debug)]
pub(crate) struct Failure(ffi::Failure);

impl Failure {
    pub(crate) fn misuse(what: &str) -> Failure {
        Failure(ffi::Failure::misuse(what))
    }

    pub(crate) fn too_small(needed: usize) -> Failure {
        Failure(ffi::Failure {
            code: TOO_SMALL,
            text: format!("the metadata has {needed} bytes, and the buffer fewer"),
        })
    }

    pub(crate) fn broken() -> Failure {
        Failure(ffi::Failure {
            code: PANIC,
            text:
                "the metadata store met a bug in this library and takes no more calls; close it, \
                   and open it again to recover"
                    .to_owned(),
        })
    }
}

impl From<ffi::Failure> for Failure {
    fn from(failure: ffi::Failure) -> Failure {
        Failure(failure)
    }
}

impl From<MetaError> for Failure {
    fn from(error: MetaError) -> Failure {
        Failure(ffi::Failure {
            code: error.code(),
            text: error.to_string(),
        })
    }
}

/// Does a call's work and turns whatever becomes of it into a number; `broke` is called after a
/// panic, and has the metadata store take no more calls.
pub(crate) fn call(broke: impl FnOnce(), work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    ffi::call(PANIC, broke, || work().map_err(|failure| failure.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_its_number_and_a_panic_is_its_own() {
        let error = || MetaError::NoSuchEntry;
        let code = call(|| panic!("not broken"), || Err(error().into()));
        assert_eq!(code, error().code());
        let mut broken = false;
        assert_eq!(call(|| broken = true, || panic!("planted")), PANIC);
        assert!(broken);
    }
}
