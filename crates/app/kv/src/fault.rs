//! What a command is refused with, in the words of Redis: programs look at them.

use std::borrow::Cow;

/// A refusal; the text is the whole error reply.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub Cow<'static, str>);

/// What a command does.
pub(crate) type Answer = Result<(), Fault>;

impl Fault {
    /// With a text of its own.
    pub fn text(text: String) -> Fault {
        Fault(Cow::Owned(text))
    }

    /// With a fixed text.
    pub const fn of(text: &'static str) -> Fault {
        Fault(Cow::Borrowed(text))
    }

    /// The number of arguments.
    pub fn arity(command: &str) -> Fault {
        let command = command.to_ascii_lowercase();
        Fault::text(format!(
            "ERR wrong number of arguments for '{command}' command"
        ))
    }
}

/// The value is of another type.
pub(crate) const WRONG_TYPE: Fault =
    Fault::of("WRONGTYPE Operation against a key holding the wrong kind of value");
/// The arguments do not fit together.
pub(crate) const SYNTAX: Fault = Fault::of("ERR syntax error");
/// No integer.
pub(crate) const NOT_INTEGER: Fault = Fault::of("ERR value is not an integer or out of range");
/// No number.
pub(crate) const NOT_FLOAT: Fault = Fault::of("ERR value is not a valid float");
/// Nothing has that key.
pub(crate) const NO_SUCH_KEY: Fault = Fault::of("ERR no such key");
/// Longer than a string may be.
pub(crate) const TOO_LONG: Fault =
    Fault::of("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

impl From<values::ValueError> for Fault {
    fn from(error: values::ValueError) -> Fault {
        Fault::text(error.to_string())
    }
}
