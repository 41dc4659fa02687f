//! What stands between C and Rust: results as numbers, texts of errors, panics that stop here, and
//! pointers that become references.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use vlog::VlogError;

/// An argument that no call can work with.
pub(crate) const MISUSE: c_int = 100;
/// A bug in this library.
pub(crate) const PANIC: c_int = 101;

/// A result that is not success.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: c_int,
    text: String,
}

impl Failure {
    pub(crate) fn misuse(what: &str) -> Failure {
        Failure {
            code: MISUSE,
            text: what.to_owned(),
        }
    }

    pub(crate) fn broken() -> Failure {
        Failure {
            code: PANIC,
            text: "the log met a bug in this library and takes no more calls; close it, \
                   and open it again to recover"
                .to_owned(),
        }
    }
}

impl From<VlogError> for Failure {
    fn from(error: VlogError) -> Failure {
        Failure {
            code: error.code(),
            text: error.to_string(),
        }
    }
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

fn remember(text: &str) {
    // A zero would cut the text; there is none but by a bug.
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    TEXT.with(|kept| *kept.borrow_mut() = text);
}

/// The text of this thread's last failure.
pub(crate) fn text() -> *const c_char {
    TEXT.with(|kept| kept.borrow().as_ptr())
}

fn panicked(payload: &(dyn Any + Send)) -> Failure {
    let said = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    Failure {
        code: PANIC,
        text: format!(
            "a bug in this library: {}",
            said.unwrap_or_else(|| "it said nothing".into())
        ),
    }
}

/// Does a call's work and turns whatever becomes of it into a number; `broke` is called after a
/// panic.
///
/// That the work is taken for unwind safe rests on `broke`: what a panic may have left half done is
/// the log, and that one takes no more calls then.
pub(crate) fn call(broke: impl FnOnce(), work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            broke();
            panicked(&*payload)
        }
    };
    remember(&failure.text);
    failure.code
}

/// What a pointer points to.
///
/// # Safety
/// It is null, or points to a value that nobody changes while the result lives.
#[expect(unsafe_code, reason = "C passes pointers")]
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::misuse(&format!("{what} is null")))
}

/// Where a result goes.
///
/// # Safety
/// It is null, or points to a value that nobody else uses while the result lives.
#[expect(unsafe_code, reason = "C passes pointers")]
pub(crate) unsafe fn place<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::misuse(&format!("{what} is null")))
}

fn length_of(length: usize) -> Result<usize, Failure> {
    // A slice may not be longer.
    match isize::try_from(length) {
        Ok(_) => Ok(length),
        Err(_) => Err(Failure::misuse("a length that no memory has")),
    }
}

/// Bytes that C hands in; null is fine for none.
///
/// # Safety
/// `bytes` points to `length` bytes that nobody changes while the result lives, or is null.
#[expect(unsafe_code, reason = "C passes pointers")]
pub(crate) unsafe fn bytes<'a>(bytes: *const u8, length: usize) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    let length = length_of(length)?;
    if bytes.is_null() {
        return Err(Failure::misuse("the bytes are null"));
    }
    // SAFETY: it is not null, the length fits, and the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(bytes, length) })
}

/// A string that C hands in.
///
/// # Safety
/// It is null, or ends with a zero and is not changed while the result lives.
#[expect(unsafe_code, reason = "C passes pointers")]
pub(crate) unsafe fn string<'a>(string: *const c_char, what: &str) -> Result<&'a CStr, Failure> {
    if string.is_null() {
        return Err(Failure::misuse(&format!("{what} is null")));
    }
    // SAFETY: it is not null, and the rest is the caller's promise.
    Ok(unsafe { CStr::from_ptr(string) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> String {
        TEXT.with(|kept| kept.borrow().to_string_lossy().into_owned())
    }

    #[test]
    fn a_panic_stops_at_the_edge_and_is_told_to_the_log() {
        let mut broken = false;
        let code = call(|| broken = true, || panic!("planted {}", 1));
        assert_eq!((code, broken), (PANIC, true));
        assert_eq!(said(), "a bug in this library: planted 1");
    }

    #[test]
    fn a_failure_is_its_number_and_its_text_and_breaks_nothing() {
        let code = call(|| panic!("not broken"), || Err(VlogError::NotLive.into()));
        assert_eq!(code, VlogError::NotLive.code());
        assert_eq!(said(), VlogError::NotLive.to_string());
        assert_eq!(call(|| (), || Ok(())), 0);
    }

    #[test]
    #[expect(unsafe_code, reason = "what C may pass is passed")]
    fn null_and_impossible_lengths_are_misuse() {
        // SAFETY: null, or a byte and a length that is refused before it is used.
        let codes = unsafe {
            [
                bytes(std::ptr::null(), 1).map(drop),
                bytes(&7, usize::MAX).map(drop),
                string(std::ptr::null(), "it").map(drop),
                reference::<u8>(std::ptr::null(), "it").map(drop),
                place::<u8>(std::ptr::null_mut(), "it").map(drop),
            ]
        };
        for code in codes {
            assert_eq!(code.expect_err("refused").code, MISUSE);
        }
        // SAFETY: none is asked for.
        let none = unsafe { bytes(std::ptr::null(), 0) };
        assert_eq!(none.expect("fine"), b"");
    }
}
