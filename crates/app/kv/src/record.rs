//! What the log keeps of an entry: `docs/formats/kv.md`.

use crate::keyspace::DATABASES;
use crate::value::Value;

/// Bytes in front of the key.
pub const HEADER_BYTES: usize = 14;

/// Most arguments of a change.
const ARGUMENTS_MAX: usize = 1 << 20;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A string: all of it.
    Text = 1,
    /// Another value: all of it, as DUMP writes it.
    Object = 2,
    /// A command on a value whose whole is another record of the same key.
    Change = 3,
    /// The code of a library of functions, under its name.
    Library = 4,
}

/// A record, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// What it is.
    pub kind: Kind,
    /// Number of the database.
    pub database: u8,
    /// When the entry goes, in milliseconds since 1970, if it does. A change has none.
    pub expires_ms: Option<u64>,
    /// The key.
    pub key: &'a [u8],
    /// What the kind says.
    pub body: &'a [u8],
}

/// A record that this program cannot read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// Of a newer version, or none of ours.
    #[error("a record of the unknown kind {0}")]
    Kind(u8),
    /// Too short for what it says.
    #[error("a record of {found} bytes that should have {expected}")]
    Short {
        /// Bytes that it would need.
        expected: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// There are fewer databases.
    #[error("a record of database {0}; there are 16")]
    Database(u8),
    /// The value cannot be decoded.
    #[error("a value that cannot be decoded")]
    Value,
    /// The change cannot be made.
    #[error("a change that does not fit what it changes")]
    Change,
    /// A change without what it changes.
    #[error("a change of an entry that is not there")]
    Base,
    /// Two records of one entry.
    #[error("two records of one entry")]
    Twice,
    /// On the stream of another shard.
    #[error("a record on stream {found} that belongs on {expected}")]
    Stream {
        /// The shard of its key.
        expected: u32,
        /// Where it is.
        found: u32,
    },
}

/// Writes the part in front of the body.
pub fn begin(into: &mut Vec<u8>, kind: Kind, database: u8, expires_ms: Option<u64>, key: &[u8]) {
    assert!(
        usize::from(database) < DATABASES && key.len() <= u32::MAX as usize,
        "a record has a database and a key"
    );
    into.push(kind as u8);
    into.push(database);
    into.extend_from_slice(&expires_ms.unwrap_or(0).to_le_bytes());
    into.extend_from_slice(&(key.len() as u32).to_le_bytes());
    into.extend_from_slice(key);
}

/// Writes the body of a change.
pub fn push_arguments(into: &mut Vec<u8>, arguments: &[&[u8]]) {
    into.extend_from_slice(&(arguments.len() as u32).to_le_bytes());
    for argument in arguments {
        into.extend_from_slice(&(argument.len() as u32).to_le_bytes());
        into.extend_from_slice(argument);
    }
}

fn split<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], RecordError> {
    let short = RecordError::Short {
        expected: length,
        found: bytes.len(),
    };
    let (head, rest) = bytes.split_at_checked(length).ok_or(short)?;
    *bytes = rest;
    Ok(head)
}

fn split_u32(bytes: &mut &[u8]) -> Result<usize, RecordError> {
    let head = split(bytes, 4)?;
    let number = head.try_into().map(u32::from_le_bytes);
    Ok(number.map_or(0, |number| number as usize))
}

/// Reads a record.
///
/// # Errors
/// It is none of this version.
pub fn decode(bytes: &[u8]) -> Result<Record<'_>, RecordError> {
    let mut rest = bytes;
    let head = split(&mut rest, 10)?;
    let (kind, database) = match head {
        [kind, database, ..] => (*kind, *database),
        _ => return Err(RecordError::Kind(0)),
    };
    let kind = match kind {
        1 => Kind::Text,
        2 => Kind::Object,
        3 => Kind::Change,
        4 => Kind::Library,
        other => return Err(RecordError::Kind(other)),
    };
    if usize::from(database) >= DATABASES {
        return Err(RecordError::Database(database));
    }
    let expires = head.get(2..10).and_then(|bytes| bytes.try_into().ok());
    let expires = expires.map_or(0, u64::from_le_bytes);
    let length = split_u32(&mut rest)?;
    let key = split(&mut rest, length)?;
    Ok(Record {
        kind,
        database,
        expires_ms: (expires != 0).then_some(expires),
        key,
        body: rest,
    })
}

/// Reads the body of a change.
///
/// # Errors
/// It is none of this version.
pub fn decode_arguments(mut body: &[u8]) -> Result<Vec<&[u8]>, RecordError> {
    let count = split_u32(&mut body)?;
    // Each has 4 bytes at least, so a wrong count reserves no more than there is.
    if count > ARGUMENTS_MAX || count > body.len() / 4 {
        return Err(RecordError::Change);
    }
    let mut arguments = Vec::with_capacity(count);
    for _ in 0..count {
        let length = split_u32(&mut body)?;
        arguments.push(split(&mut body, length)?);
    }
    match body {
        [] => Ok(arguments),
        _ => Err(RecordError::Change),
    }
}

/// Reads the body of a change: when it was made, in milliseconds since 1970, where it goes by that (0
/// where it does not), and the command.
///
/// # Errors
/// It is none of this version.
pub fn decode_change(body: &[u8]) -> Result<(u64, Vec<&[u8]>), RecordError> {
    let mut arguments = decode_arguments(body)?;
    let time = arguments.first().and_then(|word| word.strip_prefix(b"@"));
    let Some(time) = time else {
        return Ok((0, arguments));
    };
    let time = values::number::parse_unsigned(time).ok_or(RecordError::Change)?;
    arguments.remove(0);
    Ok((time, arguments))
}

/// The first word of a change that goes by the time.
pub fn time_word(now_ms: u64) -> Vec<u8> {
    format!("@{now_ms}").into_bytes()
}

/// What a record is, for people.
///
/// # Errors
/// It is none of this version.
pub fn describe(bytes: &[u8]) -> Result<String, RecordError> {
    let record = decode(bytes)?;
    let what = match record.kind {
        Kind::Text => format!("a string of {} bytes", record.body.len()),
        Kind::Object => {
            let value = Value::decode(record.body, &values::Thresholds::REDIS);
            let value = value.ok_or(RecordError::Value)?;
            format!("a {} of {} elements", value.type_name(), value.len())
        }
        Kind::Change => {
            let (_, arguments) = decode_change(record.body)?;
            let name = arguments.first().copied().unwrap_or_default();
            format!("a change by {}", name.escape_ascii())
        }
        Kind::Library => format!("the code of a library of {} bytes", record.body.len()),
    };
    let key = record.key.escape_ascii();
    Ok(format!(
        "database {}, key \"{key}\", {what}",
        record.database
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_back_what_it_was_made_of() {
        let mut bytes = Vec::new();
        begin(&mut bytes, Kind::Change, 3, Some(77), b"key");
        push_arguments(&mut bytes, &[b"HSET", b"key", b"", b"value"]);
        let record = decode(&bytes).unwrap();
        assert_eq!((record.kind, record.database), (Kind::Change, 3));
        assert_eq!((record.expires_ms, record.key), (Some(77), &b"key"[..]));
        let said = describe(&bytes).unwrap();
        assert_eq!(said, "database 3, key \"key\", a change by HSET");
        let arguments = decode_arguments(record.body).unwrap();
        assert_eq!(arguments, [&b"HSET"[..], b"key", b"", b"value"]);
        assert_eq!(decode_change(record.body).unwrap().0, 0);
        for end in 0..bytes.len() {
            if let Ok(record) = decode(&bytes[..end]) {
                assert!(decode_arguments(record.body).is_err(), "{end}");
            }
        }
    }

    #[test]
    fn a_change_knows_when_it_was_made() {
        let mut body = Vec::new();
        push_arguments(&mut body, &[&time_word(1234), b"XCLAIM", b"key"]);
        let (at_ms, arguments) = decode_change(&body).unwrap();
        assert_eq!(
            (at_ms, arguments),
            (1234, vec![&b"XCLAIM"[..], &b"key"[..]])
        );
        body.clear();
        push_arguments(&mut body, &[b"@soon", b"XCLAIM", b"key"]);
        assert_eq!(decode_change(&body), Err(RecordError::Change));
    }

    #[test]
    fn a_library_is_its_name_and_its_code() {
        let mut bytes = Vec::new();
        begin(&mut bytes, Kind::Library, 0, None, b"lib");
        bytes.extend_from_slice(b"#!lua");
        assert_eq!(
            bytes,
            b"\x04\0\0\0\0\0\0\0\0\0\x03\0\0\0lib#!lua".as_slice()
        );
        let said = describe(&bytes).unwrap();
        assert_eq!(
            said,
            "database 0, key \"lib\", the code of a library of 5 bytes"
        );
    }

    #[test]
    fn what_is_none_is_refused() {
        let mut bytes = Vec::new();
        begin(&mut bytes, Kind::Text, 0, None, b"k");
        bytes[0] = 9;
        assert_eq!(decode(&bytes), Err(RecordError::Kind(9)));
        bytes[0] = 1;
        bytes[1] = 16;
        assert_eq!(decode(&bytes), Err(RecordError::Database(16)));
        assert_eq!(decode_arguments(&[255; 12]), Err(RecordError::Change));
    }
}
