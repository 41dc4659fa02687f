//! What a request is to do, kept until it is committed: so a request in C's hands borrows nothing.

use env::handle::Handle;
use filemeta::{Request, Tag};

/// One change.
pub(crate) enum Wish {
    Value(Handle, Tag, Vec<u8>),
    Put(Handle, Tag, Vec<u8>),
    Patch(Handle, Tag, u64, Vec<u8>),
    Resize(Handle, Tag, u64),
    Share(Handle, Tag, Vec<u8>),
    Clear(Handle, Tag),
    Forget(Handle),
    Reset(Handle),
}

impl Wish {
    /// Asks for it.
    pub(crate) fn make(&self, request: &mut Request<'_>) -> filemeta::Result<()> {
        match self {
            Wish::Value(file, tag, value) => request.set_value(file, *tag, value),
            Wish::Put(file, tag, content) => request.put(file, *tag, content)?,
            Wish::Patch(file, tag, offset, bytes) => request.patch(file, *tag, *offset, bytes),
            Wish::Resize(file, tag, length) => request.resize(file, *tag, *length),
            Wish::Share(file, tag, content) => request.share(file, *tag, content),
            Wish::Clear(file, tag) => request.clear(file, *tag),
            Wish::Forget(file) => request.forget(file),
            Wish::Reset(file) => request.reset(file),
        };
        Ok(())
    }
}
