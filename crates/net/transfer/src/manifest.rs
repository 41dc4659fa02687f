//! What was proved of a tree, as lines of text: `docs/formats/manifest.md`.

mod line;
mod reader;
mod signature;
mod writer;

#[cfg(test)]
mod tests;

pub use line::{LineError, Proved};
pub use reader::{Manifest, ManifestError, read};
pub use signature::{Signature, Signer, SignerError};
pub(crate) use writer::Writer;

/// The first line, without its end.
pub const FIRST_LINE: &str = "holdfast-manifest 1";

/// Bytes of the longest line: a path of 16 KiB whose bytes are all escaped, and the fields before
/// it.
pub const LINE_BYTES_MAX: usize = 4 * crate::entry::PATH_MAX + 1024;
