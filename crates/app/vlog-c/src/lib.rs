//! The C interface of `vlog`: the log of an in-memory database that is not written in Rust.
//!
//! # Promise
//! That of `vlog`, for C. No panic crosses into the caller: it becomes `HVL_PANIC`, and the log then takes
//! no more calls but `hvl_close`. (A program built with `panic = "abort"`, as this workspace's
//! release profile is, ends instead; profile `unwind` is there for libraries.)
//!
//! # What it rests on
//! `vlog`, and a caller who keeps to `include/holdfast_vlog.h`: pointers are null or point to what
//! they say, a log is not used after it was closed, and no other call on it is under way while it
//! is.
//!
//! # Invariants
//! - a result is 0 or a number of the header; numbers never change their meaning
//! - bytes read from a caller's payload = the length that it gave
//!
//! # On disk
//! Nothing of its own: `docs/formats/vlog.md`.
//!
//! # How it is tested
//! A C program, compiled against the header with all warnings as errors, makes every call and is run
//! several times on one log; the numbers of the header are compared with those of `vlog`; a planted
//! panic is stopped at the edge.
//!
//! ```
//! use holdfast_vlog_c::call::{hvl_create, hvl_error};
//! use std::ffi::CStr;
//! let nowhere = [c"/nowhere".as_ptr()];
//! // SAFETY: strings that end with zero, and one pointer to one.
//! let code = unsafe { hvl_create(c"db".as_ptr(), nowhere.as_ptr(), 1) };
//! assert_ne!(code, 0);
//! // SAFETY: the text is this thread's until its next call.
//! assert!(!unsafe { CStr::from_ptr(hvl_error()) }.to_bytes().is_empty());
//! ```

pub mod call;
mod edge;
