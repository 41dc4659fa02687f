//! What was proved and put in place of a tree, as lines of text: `docs/formats/manifest.md`.

mod line;
mod object;
mod reader;
mod signature;
mod text;
mod writer;

#[cfg(test)]
mod tests;

pub use line::{LineError, Listed, Proved};
pub use object::{Carried, Digest, Kind, Object};
pub(crate) use object::{Inode, device_words};
pub use reader::{Manifest, ManifestError, read};
pub use signature::{Signature, Signer, SignerError};
pub(crate) use writer::Writer;

/// What the first line begins with.
pub const FIRST_WORDS: &str = "holdfast-manifest ";

/// Versions of manifests. The later one is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// Files only, without what they carry.
    One,
    /// All objects.
    Two,
}

impl Version {
    /// As it stands in the first line.
    pub fn number(self) -> u32 {
        match self {
            Version::One => 1,
            Version::Two => 2,
        }
    }
}

/// Bytes of the longest line: two paths of 16 KiB whose bytes are all escaped, and the fields before
/// them.
pub const LINE_BYTES_MAX: usize = 8 * crate::entry::PATH_MAX + 1024;
