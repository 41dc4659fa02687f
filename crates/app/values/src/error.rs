//! What a method on a value can refuse, in the words that Redis 7.0 answers with.

use thiserror::Error;

/// Why a method refused. The text is the whole error reply, its code word included; nothing was
/// changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ValueError {
    /// A number was wanted in an argument or a value.
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    /// A floating point number was wanted in an argument or a value.
    #[error("ERR value is not a valid float")]
    NotFloat,
    /// A hash's field holds no integer.
    #[error("ERR hash value is not an integer")]
    FieldNotInteger,
    /// A hash's field holds no floating point number.
    #[error("ERR hash value is not a float")]
    FieldNotFloat,
    /// The sum does not fit 64 bits.
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    /// The sum is not finite.
    #[error("ERR increment would produce NaN or Infinity")]
    NotFinite,
    /// The score's sum is not a number (inf - inf).
    #[error("ERR resulting score is not a number (NaN)")]
    ScoreNotNumber,
    /// A string would be longer than [`crate::StringValue::BYTES_MAX`].
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    TooLong,
    /// A list has no element of this index.
    #[error("ERR index out of range")]
    IndexOutOfRange,
    /// A bound of a score range is no number.
    #[error("ERR min or max is not a float")]
    ScoreBound,
    /// A bound of a range of members lacks its `[` or `(`.
    #[error("ERR min or max not valid string range item")]
    LexBound,
    /// An id of a stream's entry has the wrong form.
    #[error("ERR Invalid stream ID specified as stream command argument")]
    StreamId,
    /// An id is not above the stream's last one.
    #[error("ERR The ID specified in XADD is equal or smaller than the target stream top item")]
    StreamIdSmall,
    /// 0-0 is no id of an entry.
    #[error("ERR The ID specified in XADD must be greater than 0-0")]
    StreamIdZero,
    /// The stream's last id is the highest there is.
    #[error("ERR The stream has exhausted the last possible ID, unable to add more items")]
    StreamExhausted,
    /// A stream's last id may not go below its top entry's.
    #[error("ERR The ID specified in XSETID is smaller than the target stream top item")]
    SetIdSmall,
    /// A string is no HyperLogLog.
    #[error("WRONGTYPE Key is not a valid HyperLogLog string value.")]
    NotHyperLogLog,
    /// A HyperLogLog's bytes are damaged.
    #[error("INVALIDOBJ Corrupted HLL object detected")]
    CorruptHyperLogLog,
    /// A DUMP payload's version or checksum does not match.
    #[error("ERR DUMP payload version or checksum are wrong")]
    Payload,
    /// A DUMP payload's checksum matches, but not its content.
    #[error("ERR Bad data format")]
    PayloadContent,
}
