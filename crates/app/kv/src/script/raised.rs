//! What scripts fail with.

use super::machine::ENVIRONMENT;
use mlua::{Error, Lua, Value};

/// Raised by a function of `redis`: scripts see a table with this text.
#[derive(Clone, Debug)]
pub(super) struct Raised {
    /// A code and words.
    pub(super) text: Vec<u8>,
    /// Whether INFO has counted it.
    pub(super) counted: bool,
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl std::error::Error for Raised {}

/// A failure with a text of its own.
pub(super) fn raise(text: &str) -> Error {
    Error::external(Raised {
        text: text.as_bytes().to_vec(),
        counted: false,
    })
}

/// A failure with the place of the script in front, as functions of libraries have it.
pub(super) fn located(lua: &Lua, text: &str) -> Error {
    let place = lua.inspect_stack(1, |frame| {
        let source = frame.source().short_src?.into_owned();
        Some(format!("{source}:{}: ", frame.current_line()?))
    });
    Error::RuntimeError(place.flatten().unwrap_or_default() + text)
}

/// Where the script was when the handler of its failure was called: its source and line.
pub(super) fn position_of(lua: &Lua) -> (Option<String>, Option<usize>) {
    // Above this function and the handler: what failed. Functions of libraries are passed over.
    for level in 2..6 {
        let frame = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let name = source.source.map(|name| name.into_owned());
            (source.what == "C", name, frame.current_line())
        });
        match frame {
            None => break,
            Some((false, Some(name), line)) if name != ENVIRONMENT => {
                return (Some(name), line);
            }
            Some(_) => {}
        }
    }
    (None, None)
}

/// What a script is to see in place of a failure that Rust raised.
pub(super) fn explain(lua: &Lua, value: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &value else {
        return Ok(value);
    };
    let mut error = &**error;
    while let Error::CallbackError { cause, .. } = error {
        error = cause;
    }
    if let Some(raised) = error.downcast_ref::<Raised>() {
        let table = lua.create_table()?;
        table.raw_set("err", lua.create_string(&raised.text)?)?;
        if raised.counted {
            table.raw_set("ignore_error_stats_update", true)?;
        }
        return Ok(Value::Table(table));
    }
    let text = match error {
        Error::RuntimeError(text) | Error::MemoryError(text) => text.clone(),
        other => other.to_string(),
    };
    Ok(Value::String(lua.create_string(text)?))
}
