//! The file beside a log that says that a database is there: `docs/formats/kv.md`. Without it a
//! directory whose log was deleted would pass for a new one, and a cut import for a whole one.

use crate::engine::LoadError;
use env::errno::Errno;
use vlog::{Directory, VlogError};

/// Its name, in the first directory.
pub const MARKER_NAME: &str = "kv.database";

const BEGIN: &str = "holdfast kv database, version 1: ";

/// What it says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// An import has begun, and has not ended.
    Importing,
    /// There is a database.
    Whole,
}

impl Marker {
    fn word(self) -> &'static str {
        match self {
            Marker::Importing => "importing",
            Marker::Whole => "whole",
        }
    }

    /// The content of the file.
    pub fn to_text(self) -> String {
        format!("{BEGIN}{}\n", self.word())
    }

    /// What a content says; `None` where it is none of this version.
    pub fn parse(content: &[u8]) -> Option<Marker> {
        let all = [Marker::Importing, Marker::Whole];
        all.into_iter()
            .find(|marker| marker.to_text().as_bytes() == content)
    }

    /// Reads it, if it is there.
    pub(crate) fn read(directory: &Directory) -> Result<Option<Marker>, LoadError> {
        let content = match directory.dir.read(MARKER_NAME) {
            Ok(content) => content,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(io("reading", directory, errno)),
        };
        let marker = Marker::parse(&content);
        marker.map(Some).ok_or_else(|| LoadError::Marker {
            file: shown(directory, MARKER_NAME),
        })
    }

    /// Writes it, durably.
    pub(crate) fn write(self, directory: &Directory) -> Result<(), LoadError> {
        let written = directory
            .dir
            .replace(MARKER_NAME, self.to_text().as_bytes());
        written.map_err(|errno| io("writing", directory, errno))
    }
}

/// A file of a directory, for messages.
pub(crate) fn shown(directory: &Directory, name: &str) -> String {
    format!("{}/{name}", directory.path)
}

fn io(doing: &'static str, directory: &Directory, errno: Errno) -> LoadError {
    LoadError::Log(VlogError::Io {
        doing,
        file: shown(directory, MARKER_NAME),
        errno,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_as_it_was_written_and_nothing_else_is() {
        let text = "holdfast kv database, version 1: whole\n";
        assert_eq!(Marker::Whole.to_text(), text);
        assert_eq!(Marker::parse(text.as_bytes()), Some(Marker::Whole));
        let text = "holdfast kv database, version 1: importing\n";
        assert_eq!(Marker::parse(text.as_bytes()), Some(Marker::Importing));
        for wrong in ["", "holdfast kv database, version 2: whole\n", "whole"] {
            assert_eq!(Marker::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
