//! Replies of commands as values of Lua, and values of Lua as replies.

use super::number::format_general;
use crate::protocol::{Reply, Version};
use mlua::{Lua, Table, Value};

/// Tables in tables that a reply may have.
const DEPTH_MAX: usize = 128;

fn line<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let end = bytes.windows(2).position(|two| two == b"\r\n");
    let end = end.unwrap_or(bytes.len());
    let line = bytes.get(..end).unwrap_or_default();
    *bytes = bytes.get(end + 2..).unwrap_or_default();
    line
}

fn number(line: &[u8]) -> i64 {
    values::number::parse_integer(line).unwrap_or(-1)
}

fn single(lua: &Lua, field: &str, value: impl mlua::IntoLua) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(field, value)?;
    Ok(Value::Table(table))
}

/// Takes one reply of a command off the front of `bytes`.
///
/// # Errors
/// There is no memory.
pub(super) fn to_lua(lua: &Lua, bytes: &mut &[u8]) -> mlua::Result<Value> {
    let head = line(bytes);
    let (kind, text) = match head.split_first() {
        Some((kind, text)) => (*kind, text),
        None => return Ok(Value::Nil),
    };
    Ok(match kind {
        b'+' => single(lua, "ok", lua.create_string(text)?)?,
        b'-' => {
            let error = single(lua, "err", lua.create_string(text)?)?;
            if let Value::Table(table) = &error {
                table.raw_set("ignore_error_stats_update", true)?;
            }
            error
        }
        b':' => Value::Number(number(text) as f64),
        b'$' | b'=' => match usize::try_from(number(text)) {
            Err(_) => Value::Boolean(false),
            Ok(length) => {
                let body = bytes.get(..length).unwrap_or_default();
                *bytes = bytes.get(length + 2..).unwrap_or_default();
                match (kind, body.get(..3), body.get(4..)) {
                    (b'=', Some(format), Some(text)) => {
                        let parts = lua.create_table()?;
                        parts.raw_set("format", lua.create_string(format)?)?;
                        parts.raw_set("string", lua.create_string(text)?)?;
                        single(lua, "verbatim_string", parts)?
                    }
                    _ => Value::String(lua.create_string(body)?),
                }
            }
        },
        b'*' | b'>' => match usize::try_from(number(text)) {
            Err(_) => Value::Boolean(false),
            Ok(length) => {
                let list = lua.create_table()?;
                for index in 1..=length {
                    list.raw_set(index, to_lua(lua, bytes)?)?;
                }
                Value::Table(list)
            }
        },
        b'%' => {
            let pairs = lua.create_table()?;
            for _ in 0..number(text).max(0) {
                let key = to_lua(lua, bytes)?;
                let value = to_lua(lua, bytes)?;
                if !key.is_nil() {
                    pairs.raw_set(key, value)?;
                }
            }
            single(lua, "map", pairs)?
        }
        b'~' => {
            let members = lua.create_table()?;
            for _ in 0..number(text).max(0) {
                let member = to_lua(lua, bytes)?;
                if !member.is_nil() {
                    members.raw_set(member, true)?;
                }
            }
            single(lua, "set", members)?
        }
        b',' => {
            let text = std::str::from_utf8(text).unwrap_or_default();
            single(lua, "double", text.parse::<f64>().unwrap_or(0.0))?
        }
        b'#' => Value::Boolean(text == b"t"),
        b'(' => single(lua, "big_number", lua.create_string(text)?)?,
        // Nothing, in version 3.
        _ => Value::Nil,
    })
}

/// The text of a field, if it is one.
fn text(table: &Table, field: &str) -> Option<mlua::String> {
    match table.raw_get(field) {
        Ok(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn table(table: &Table, field: &str) -> Option<Table> {
    match table.raw_get(field) {
        Ok(Value::Table(inner)) => Some(inner),
        _ => None,
    }
}

fn single_line(text: &mlua::String) -> String {
    let text = String::from_utf8_lossy(&text.as_bytes()).into_owned();
    text.replace(['\r', '\n'], " ")
}

/// A number as Redis answers one in a reply.
fn push_double(reply: &mut Reply, value: f64) {
    let shown = match value {
        value if value.is_infinite() => if value < 0.0 { "-inf" } else { "inf" }.to_owned(),
        value => format_general(value, 17),
    };
    reply.double(shown.as_bytes());
}

/// Writes what a script returned. `version` is that of the script, which REDIS.SETRESP chose.
pub(super) fn from_lua(reply: &mut Reply, value: &Value, version: Version) {
    write(reply, value, version, 0);
}

fn write(reply: &mut Reply, value: &Value, version: Version, depth: usize) {
    if depth > DEPTH_MAX {
        return reply.error("ERR reached lua stack limit");
    }
    match value {
        Value::String(text) => reply.bulk(&text.as_bytes()),
        Value::Boolean(value) => match (version, value) {
            (Version::Two, true) => reply.integer(1),
            (Version::Two, false) => reply.null(),
            (Version::Three, value) => reply.boolean(*value),
        },
        Value::Integer(number) => reply.integer(*number),
        Value::Number(number) => reply.integer(*number as i64),
        Value::Table(found) => write_table(reply, found, version, depth),
        _ => reply.null(),
    }
}

fn write_table(reply: &mut Reply, found: &Table, version: Version, depth: usize) {
    if let Some(error) = text(found, "err") {
        return reply.error(&single_line(&error));
    }
    if let Some(word) = text(found, "ok") {
        return reply.simple(&single_line(&word));
    }
    match found.raw_get("double") {
        Ok(Value::Number(value)) => return push_double(reply, value),
        Ok(Value::Integer(value)) => return push_double(reply, value as f64),
        _ => {}
    }
    if let Some(digits) = text(found, "big_number") {
        return reply.big_number(&single_line(&digits));
    }
    if let Some(parts) = table(found, "verbatim_string")
        && let (Some(format), Some(text)) = (text(&parts, "format"), text(&parts, "string"))
    {
        return reply.verbatim_of(&format.as_bytes(), &text.as_bytes());
    }
    let pairs = |inner: &Table| -> Vec<(Value, Value)> {
        inner
            .pairs::<Value, Value>()
            .filter_map(Result::ok)
            .collect()
    };
    if let Some(map) = table(found, "map") {
        let pairs = pairs(&map);
        reply.map(pairs.len());
        for (key, value) in pairs {
            write(reply, &key, version, depth + 1);
            write(reply, &value, version, depth + 1);
        }
        return;
    }
    if let Some(set) = table(found, "set") {
        let pairs = pairs(&set);
        reply.set(pairs.len());
        for (key, _) in pairs {
            write(reply, &key, version, depth + 1);
        }
        return;
    }
    let values: Vec<Value> = (1i64..)
        .map_while(|index| match found.raw_get::<Value>(index) {
            Ok(Value::Nil) | Err(_) => None,
            Ok(value) => Some(value),
        })
        .collect();
    reply.array(values.len());
    for value in values {
        write(reply, &value, version, depth + 1);
    }
}
