//! A line for each object.

use super::Version;
use super::object::{Carried, Digest, Kind, Object, device_words};
use super::text::{Field, digits, escape, hex, number, octal, time, unescape};
use crate::entry::{Time, TreePath};
use crate::level::Level;
use crate::root_sum::RootSum;
use rustix::fs::makedev;

/// Bytes of the longest target of a link (PATH_MAX of Linux, with its NUL).
const TARGET_MAX: usize = 4095;

/// What was proved of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proved {
    /// At which level.
    pub level: Level,
    /// When, in seconds since 1970.
    pub at: i64,
    /// Its length in bytes.
    pub bytes: u64,
    /// When its content last changed.
    pub modified: Time,
    /// The sum of its content.
    pub sum: RootSum,
    /// What else it carries; version 1 says nothing of it.
    pub carried: Option<Carried>,
    /// Where it is.
    pub path: TreePath,
}

/// What a manifest lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listed {
    /// A file.
    File(Proved),
    /// An object that is no file.
    Object(Object),
    /// A further name of an object.
    Name {
        /// The further name.
        path: TreePath,
        /// The name by which the object is listed.
        first: TreePath,
    },
}

/// Why a line is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineError {
    /// A field is missing, or there is one more.
    #[error("a field is missing")]
    Fields,
    /// A field is not what has to be there.
    #[error("the {0} cannot be read")]
    Field(&'static str),
    /// The path leads somewhere else.
    #[error("the path leads elsewhere")]
    Path,
}

impl Listed {
    /// Where it is.
    pub fn path(&self) -> &TreePath {
        match self {
            Listed::File(proved) => &proved.path,
            Listed::Object(object) => &object.path,
            Listed::Name { path, .. } => path,
        }
    }

    /// As a line of version 2, with its end.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = Vec::new();
        match self {
            Listed::File(proved) => proved.write(&mut line),
            Listed::Object(object) => object.write(&mut line),
            Listed::Name { first, .. } => {
                line.extend_from_slice(b"same ");
                escape(first.as_bytes(), Field::Inner, &mut line);
                line.push(b' ');
            }
        }
        match self.path().as_bytes() {
            b"" => line.push(b'.'),
            path => escape(path, Field::Last, &mut line),
        }
        line.push(b'\n');
        line
    }

    /// Reads a line without its end.
    ///
    /// # Errors
    /// It is no such line of this version.
    pub fn parse(version: Version, line: &[u8]) -> Result<Listed, LineError> {
        let mut fields = Fields { rest: Some(line) };
        let word = fields.next()?;
        match (version, word) {
            (_, b"file") => Proved::parse(version, fields).map(Listed::File),
            (Version::Two, b"same") => {
                let first = path(fields.next()?, Field::Inner)?;
                let path = path(fields.last()?, Field::Last)?;
                Ok(Listed::Name { path, first })
            }
            (Version::Two, word) => Object::parse(word, fields).map(Listed::Object),
            (Version::One, _) => Err(LineError::Field("first word")),
        }
    }
}

impl Proved {
    /// All but the path.
    fn write(&self, line: &mut Vec<u8>) {
        let (level, at, bytes, sum) = (self.level, self.at, self.bytes, self.sum);
        let modified = time_words(self.modified);
        let carried = carried_words(self.carried.as_ref());
        let fields = format!("file {level} {at} {bytes} {modified} {sum} {carried} ");
        line.extend_from_slice(fields.as_bytes());
    }

    fn parse(version: Version, mut fields: Fields<'_>) -> Result<Proved, LineError> {
        let level = std::str::from_utf8(fields.next()?).unwrap_or_default();
        let level = level.parse().map_err(|_| LineError::Field("level"))?;
        let at = number(fields.next()?).ok_or(LineError::Field("time"))?;
        let bytes = number(fields.next()?).ok_or(LineError::Field("length"))?;
        let modified = fields.modified()?;
        let sum = hex(fields.next()?).ok_or(LineError::Field("sum"))?;
        let carried = match version {
            Version::One => None,
            Version::Two => fields.carried()?,
        };
        Ok(Proved {
            level,
            at,
            bytes,
            modified,
            sum: RootSum(sum),
            carried,
            path: path(fields.last()?, Field::Last)?,
        })
    }
}

impl Object {
    /// All but the path.
    fn write(&self, line: &mut Vec<u8>) {
        let (word, modified) = (self.kind.word(), time_words(self.modified));
        let carried = carried_words(Some(&self.carried));
        line.extend_from_slice(format!("{word} {modified} {carried} ").as_bytes());
        match &self.kind {
            Kind::Link(target) => {
                escape(target, Field::Inner, line);
                line.push(b' ');
            }
            Kind::Character(number) | Kind::Block(number) => {
                line.extend_from_slice(format!("{} ", device_words(*number)).as_bytes());
            }
            Kind::File | Kind::Directory | Kind::Pipe | Kind::Socket => {}
        }
    }

    fn parse(word: &[u8], mut fields: Fields<'_>) -> Result<Object, LineError> {
        let modified = fields.modified()?;
        let carried = fields.carried()?.ok_or(LineError::Field("permissions"))?;
        let kind = match word {
            b"directory" => Kind::Directory,
            b"link" => Kind::Link(fields.target()?),
            b"pipe" => Kind::Pipe,
            b"socket" => Kind::Socket,
            b"character" => Kind::Character(fields.device()?),
            b"block" => Kind::Block(fields.device()?),
            _ => return Err(LineError::Field("first word")),
        };
        let path = match (&kind, fields.last()?) {
            (Kind::Directory, b".") => TreePath::root(),
            (_, text) => path(text, Field::Last)?,
        };
        Ok(Object {
            path,
            kind,
            modified,
            carried,
        })
    }
}

/// The fields of a line that are left.
struct Fields<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<&'a [u8], LineError> {
        let rest = self.rest.take().ok_or(LineError::Fields)?;
        let mut halves = rest.splitn(2, |byte| *byte == b' ');
        let field = halves.next().ok_or(LineError::Fields)?;
        self.rest = halves.next();
        Ok(field)
    }

    /// All that is left.
    fn last(self) -> Result<&'a [u8], LineError> {
        self.rest.ok_or(LineError::Fields)
    }

    fn modified(&mut self) -> Result<Time, LineError> {
        time(self.next()?).ok_or(LineError::Field("time of change"))
    }

    fn carried(&mut self) -> Result<Option<Carried>, LineError> {
        let mut all = [&b""[..]; 5];
        for field in &mut all {
            *field = self.next()?;
        }
        if all == [b"-"; 5] {
            return Ok(None);
        }
        let [mode, uid, gid, acl, attributes] = all;
        Ok(Some(Carried {
            mode: octal(mode).ok_or(LineError::Field("permissions"))?,
            uid: number(uid).ok_or(LineError::Field("owner"))?,
            gid: number(gid).ok_or(LineError::Field("group"))?,
            acl: digest(acl).ok_or(LineError::Field("ACL sum"))?,
            attributes: digest(attributes).ok_or(LineError::Field("attribute sum"))?,
        }))
    }

    fn target(&mut self) -> Result<Vec<u8>, LineError> {
        let target = unescape(self.next()?, Field::Inner).ok_or(LineError::Field("target"))?;
        let fits = (1..=TARGET_MAX).contains(&target.len()) && !target.contains(&0);
        fits.then_some(target).ok_or(LineError::Field("target"))
    }

    fn device(&mut self) -> Result<u64, LineError> {
        let text = self.next()?;
        let mut halves = text.splitn(2, |byte| *byte == b':').map(number);
        let (major, minor) = (halves.next().flatten(), halves.next().flatten());
        let device = major.zip(minor).map(|(major, minor)| makedev(major, minor));
        device.ok_or(LineError::Field("number of the device"))
    }
}

fn digest(text: &[u8]) -> Option<Option<Digest>> {
    match text {
        b"-" => Some(None),
        text => hex(text).map(Some),
    }
}

/// A path that leads nowhere else, and is not the root.
fn path(text: &[u8], field: Field) -> Result<TreePath, LineError> {
    let path = unescape(text, field).ok_or(LineError::Field("path"))?;
    let path = TreePath::from_bytes(path);
    if !path.is_allowed() || path.is_root() {
        return Err(LineError::Path);
    }
    Ok(path)
}

fn time_words(time: Time) -> String {
    format!("{}.{:09}", time.seconds, time.nanoseconds)
}

fn carried_words(carried: Option<&Carried>) -> String {
    let Some(carried) = carried else {
        return "- - - - -".to_owned();
    };
    let Carried {
        mode,
        uid,
        gid,
        acl,
        attributes,
    } = carried;
    let sum = |sum: &Option<Digest>| sum.map_or("-".to_owned(), |sum| digits(&sum));
    format!("{mode:o} {uid} {gid} {} {}", sum(acl), sum(attributes))
}
