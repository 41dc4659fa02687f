//! What stands between C and Rust in the libraries with a C interface: results as numbers, texts of
//! errors, panics that stop at the edge, and pointers that become references.
//!
//! # Promise
//! No panic crosses into the caller, and no text ends before its own end. A null pointer or a length
//! that no memory has is [`MISUSE`], not undefined behaviour.
//!
//! # What it rests on
//! A caller who keeps to the library's header: pointers are null or point to what they say.
//!
//! # Invariants
//! - a result is 0 or a number of the library's header
//! - the text of the last failure is each thread's own, and stays until that thread's next failure
//!
//! # On disk
//! Nothing.
//!
//! # How it is tested
//! Planted panics and impossible arguments, here; by the libraries with a C program that makes every
//! call.
//!
//! ```
//! use holdfast_ffi::{Failure, MISUSE, call};
//! const PANIC: core::ffi::c_int = 101;
//! assert_eq!(call(PANIC, || (), || Ok(())), 0);
//! assert_eq!(call(PANIC, || (), || Err(Failure::misuse("no log"))), MISUSE);
//! assert_eq!(call(PANIC, || (), || panic!("a bug")), PANIC);
//! // SAFETY: the text is this thread's until its next call.
//! let text = unsafe { std::ffi::CStr::from_ptr(holdfast_ffi::text()) };
//! assert_eq!(text, c"a bug in this library: a bug");
//! ```

#[cfg(feature = "testing")]
pub mod testing;

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An argument that no call can work with.
pub const MISUSE: c_int = 100;

/// A result that is not success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its number in the library's header.
    pub code: c_int,
    /// What happened, for people.
    pub text: String,
}

impl Failure {
    /// An argument that cannot be.
    pub fn misuse(what: &str) -> Failure {
        Failure {
            code: MISUSE,
            text: what.to_owned(),
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

/// The text of this thread's last failure; it stays until the thread's next call.
pub fn text() -> *const c_char {
    TEXT.with(|kept| kept.borrow().as_ptr())
}

fn panicked(code: c_int, payload: &(dyn Any + Send)) -> Failure {
    let said = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    Failure {
        code,
        text: format!(
            "a bug in this library: {}",
            said.unwrap_or_else(|| "it said nothing".into())
        ),
    }
}

/// Does a call's work and turns whatever becomes of it into a number; after a panic that is `panic`,
/// and `broke` is called.
///
/// That the work is taken for unwind safe rests on `broke`: what a panic may have left half done
/// must take no more calls then.
pub fn call(
    panic: c_int,
    broke: impl FnOnce(),
    work: impl FnOnce() -> Result<(), Failure>,
) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            broke();
            panicked(panic, &*payload)
        }
    };
    remember(&failure.text);
    failure.code
}

/// What a pointer points to.
///
/// # Errors
/// It is null.
///
/// # Safety
/// It is null, or points to a value that nobody changes while the result lives.
#[expect(unsafe_code, reason = "C passes pointers")]
pub unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::misuse(&format!("{what} is null")))
}

/// Where a result goes.
///
/// # Errors
/// It is null.
///
/// # Safety
/// It is null, or points to a value that nobody else uses while the result lives.
#[expect(unsafe_code, reason = "C passes pointers")]
pub unsafe fn place<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
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
/// # Errors
/// They are null, or longer than memory can be.
///
/// # Safety
/// `bytes` points to `length` bytes that nobody changes while the result lives, or is null.
#[expect(unsafe_code, reason = "C passes pointers")]
pub unsafe fn bytes<'a>(bytes: *const u8, length: usize) -> Result<&'a [u8], Failure> {
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

/// A buffer that C wants filled; null is fine for none. What C left in it may be anything: it is
/// only written.
///
/// # Errors
/// It is null, or longer than memory can be.
///
/// # Safety
/// `buffer` points to `length` bytes that nobody else uses while the result lives, or is null.
#[expect(unsafe_code, reason = "C passes pointers")]
pub unsafe fn buffer<'a>(buffer: *mut u8, length: usize) -> Result<&'a mut [u8], Failure> {
    if length == 0 {
        return Ok(&mut []);
    }
    let length = length_of(length)?;
    if buffer.is_null() {
        return Err(Failure::misuse("the buffer is null"));
    }
    // SAFETY: it is not null, the length fits, and the rest is the caller's promise. C may not have
    // written to the bytes before, so they are given a value first: a reference needs one.
    unsafe {
        buffer.write_bytes(0, length);
        Ok(std::slice::from_raw_parts_mut(buffer, length))
    }
}

/// A string that C hands in.
///
/// # Errors
/// It is null.
///
/// # Safety
/// It is null, or ends with a zero and is not changed while the result lives.
#[expect(unsafe_code, reason = "C passes pointers")]
pub unsafe fn string<'a>(string: *const c_char, what: &str) -> Result<&'a CStr, Failure> {
    if string.is_null() {
        return Err(Failure::misuse(&format!("{what} is null")));
    }
    // SAFETY: it is not null, and the rest is the caller's promise.
    Ok(unsafe { CStr::from_ptr(string) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANIC: c_int = 101;

    fn said() -> String {
        TEXT.with(|kept| kept.borrow().to_string_lossy().into_owned())
    }

    #[test]
    fn a_panic_stops_at_the_edge_and_is_told() {
        let mut broken = false;
        let code = call(PANIC, || broken = true, || panic!("planted {}", 1));
        assert_eq!((code, broken), (PANIC, true));
        assert_eq!(said(), "a bug in this library: planted 1");
    }

    #[test]
    fn a_failure_is_its_number_and_its_text_and_breaks_nothing() {
        let failure = Failure {
            code: 7,
            text: "cut\0here".to_owned(),
        };
        let code = call(PANIC, || panic!("not broken"), || Err(failure));
        assert_eq!((code, said()), (7, "cut here".to_owned()));
        assert_eq!(call(PANIC, || (), || Ok(())), 0);
    }

    #[test]
    #[expect(unsafe_code, reason = "what C may pass is passed")]
    fn null_and_impossible_lengths_are_misuse() {
        let mut byte = 0;
        // SAFETY: null, or a byte and a length that is refused before it is used.
        let codes = unsafe {
            [
                bytes(std::ptr::null(), 1).map(drop),
                bytes(&raw const byte, usize::MAX).map(drop),
                buffer(std::ptr::null_mut(), 1).map(drop),
                buffer(&raw mut byte, usize::MAX).map(drop),
                string(std::ptr::null(), "it").map(drop),
                reference(std::ptr::null::<u8>(), "it").map(drop),
                place(std::ptr::null_mut::<u8>(), "it").map(drop),
            ]
        };
        for code in codes {
            assert_eq!(code.map_err(|failure| failure.code), Err(MISUSE));
        }
        // SAFETY: none is asked for.
        let none = unsafe { (bytes(std::ptr::null(), 0), buffer(std::ptr::null_mut(), 0)) };
        assert_eq!(none, (Ok(&[][..]), Ok(&mut [][..])));
    }
}
