//! The C interface of `filemeta`: custom metadata of files for programs that are not written in
//! Rust.
//!
//! # Promise
//! That of `filemeta`, for C: a request is whole or absent after a crash, and durable once
//! [`hfm_commit`](call::hfm_commit) has returned 0. No panic crosses into the caller: it becomes
//! `HFM_PANIC`, and the store then takes no more calls but `hfm_close`. (A program built with
//! `panic = "abort"`, as this workspace's release profile is, ends instead; profile `unwind` is
//! there for libraries.)
//!
//! # What it rests on
//! `filemeta`, and a caller who keeps to `include/holdfast_filemeta.h`: pointers are null or point
//! to what they say, nothing is used after it was closed, committed, submitted or abandoned, and no
//! other call on a store is under way while it is closed.
//!
//! # Invariants
//! - a result is 0 or a number of the header; numbers never change their meaning
//! - requests that are open on a store >= 0; it closes at 0 only
//! - bytes written to a caller's buffer <= the length that it gave
//!
//! # On disk
//! Nothing of its own: `docs/formats/filemeta.md`.
//!
//! # How it is tested
//! A C program, compiled against the header with all warnings as errors, makes every call; the
//! numbers of the header are compared with those of `filemeta`; a planted panic is stopped at the
//! edge.
//!
//! ```
//! use holdfast_filemeta_c::call::{hfm_error, hfm_open};
//! use std::ffi::CStr;
//! let mut store = std::ptr::null_mut();
//! // SAFETY: a string that ends with zero, and room for a pointer.
//! let code = unsafe { hfm_open(c"/nowhere/metadata".as_ptr(), &mut store) };
//! assert_ne!(code, 0);
//! // SAFETY: the text is this thread's until its next call.
//! let text = unsafe { CStr::from_ptr(hfm_error()) };
//! assert!(!text.to_bytes().is_empty() && store.is_null());
//! ```

pub mod call;
mod edge;
mod wish;
