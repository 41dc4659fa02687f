//! The library `cmsgpack`, as Redis has it: lua-cmsgpack 0.4.

use super::raised::located;
use mlua::{Lua, MultiValue, Table, Value, Variadic};

/// Tables in tables that are written: deeper ones become nil, as in the original.
const WRITE_DEPTH_MAX: usize = 16;

/// Tables in tables that are read.
const READ_DEPTH_MAX: usize = 128;

fn push_head(out: &mut Vec<u8>, length: usize, fix: (u8, usize), wide: [u8; 3]) {
    let [byte, short, long] = wide;
    if length < fix.1 {
        out.push(fix.0 | length as u8);
    } else if length <= 0xff && byte != 0 {
        out.extend_from_slice(&[byte, length as u8]);
    } else if length <= 0xffff {
        out.push(short);
        out.extend_from_slice(&(length as u16).to_be_bytes());
    } else {
        out.push(long);
        out.extend_from_slice(&(length as u32).to_be_bytes());
    }
}

fn push_integer(out: &mut Vec<u8>, value: i64) {
    let bytes = value.to_be_bytes();
    let (code, width) = match value {
        0..=127 => return out.push(value as u8),
        -32..=-1 => return out.push(value as u8),
        128..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..=-33 => (0xd0, 1),
        -0x8000..=-0x81 => (0xd1, 2),
        -0x8000_0000..=-0x8001 => (0xd2, 4),
        _ => (0xd3, 8),
    };
    out.push(code);
    out.extend_from_slice(bytes.get(8 - width..).unwrap_or_default());
}

fn push_number(out: &mut Vec<u8>, value: f64) {
    if value == (value as i64) as f64 && value.abs() < 9.2e18 {
        return push_integer(out, value as i64);
    }
    if f64::from(value as f32) == value {
        out.push(0xca);
        out.extend_from_slice(&(value as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// The length of a table whose keys are 1 to that length.
fn array_length(pairs: &[(Value, Value)]) -> Option<usize> {
    let mut most = 0;
    for (key, _) in pairs {
        let Value::Integer(key) = key else {
            return None;
        };
        most = most.max(usize::try_from(*key).ok().filter(|key| *key > 0)?);
    }
    Some(most).filter(|most| *most == pairs.len())
}

fn push(out: &mut Vec<u8>, value: &Value, depth: usize) -> mlua::Result<()> {
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            push_head(out, text.len(), (0xa0, 32), [0xd9, 0xda, 0xdb]);
            out.extend_from_slice(&text);
        }
        Value::Boolean(flag) => out.push(if *flag { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => push_integer(out, *number),
        Value::Number(number) => push_number(out, *number),
        Value::Table(table) if depth < WRITE_DEPTH_MAX => {
            let pairs: mlua::Result<Vec<_>> = table.pairs::<Value, Value>().collect();
            let pairs = pairs?;
            if let Some(length) = array_length(&pairs) {
                push_head(out, length, (0x90, 16), [0, 0xdc, 0xdd]);
                for index in 1..=length {
                    push(out, &table.raw_get(index)?, depth + 1)?;
                }
            } else {
                push_head(out, pairs.len(), (0x80, 16), [0, 0xde, 0xdf]);
                for (key, value) in &pairs {
                    push(out, key, depth + 1)?;
                    push(out, value, depth + 1)?;
                }
            }
        }
        _ => out.push(0xc0),
    }
    Ok(())
}

/// Why bytes are no value.
#[derive(Clone, Copy)]
enum Wrong {
    Bad,
    Missing,
    Memory,
}

struct Reader<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], Wrong> {
        let end = self.at.checked_add(count).ok_or(Wrong::Missing)?;
        let taken = self.bytes.get(self.at..end).ok_or(Wrong::Missing)?;
        self.at = end;
        Ok(taken)
    }

    fn unsigned(&mut self, width: usize) -> Result<u64, Wrong> {
        let bytes = self.take(width)?;
        Ok(bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn length(&mut self, width: usize) -> Result<usize, Wrong> {
        usize::try_from(self.unsigned(width)?).map_err(|_| Wrong::Missing)
    }

    fn text(&mut self, length: usize) -> Result<Value, Wrong> {
        let lua = self.lua;
        let text = lua.create_string(self.take(length)?);
        text.map(Value::String).map_err(|_| Wrong::Memory)
    }

    fn array(&mut self, length: usize, depth: usize) -> Result<Value, Wrong> {
        let table = self.lua.create_table().map_err(|_| Wrong::Memory)?;
        for index in 1..=length {
            let value = self.value(depth + 1)?;
            table.raw_set(index, value).map_err(|_| Wrong::Memory)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, length: usize, depth: usize) -> Result<Value, Wrong> {
        let table = self.lua.create_table().map_err(|_| Wrong::Memory)?;
        for _ in 0..length {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            table.raw_set(key, value).map_err(|_| Wrong::Bad)?;
        }
        Ok(Value::Table(table))
    }

    fn value(&mut self, depth: usize) -> Result<Value, Wrong> {
        if depth > READ_DEPTH_MAX {
            return Err(Wrong::Bad);
        }
        let code = self.take(1)?.first().copied().unwrap_or(0);
        let signed = |value: u64, width: u32| (value << (64 - width) as i64) as i64 >> (64 - width);
        Ok(match code {
            0..=0x7f => Value::Number(f64::from(code)),
            0xe0..=0xff => Value::Number(f64::from(code as i8)),
            0x80..=0x8f => self.map(usize::from(code & 15), depth)?,
            0x90..=0x9f => self.array(usize::from(code & 15), depth)?,
            0xa0..=0xbf => self.text(usize::from(code & 31))?,
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xca => Value::Number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xcf => Value::Number(self.unsigned(1 << (code - 0xcc))? as f64),
            0xd0..=0xd3 => {
                let width = 1 << (code - 0xd0);
                Value::Number(signed(self.unsigned(width)?, width as u32 * 8) as f64)
            }
            0xc4 | 0xd9 => {
                let length = self.length(1)?;
                self.text(length)?
            }
            0xc5 | 0xda => {
                let length = self.length(2)?;
                self.text(length)?
            }
            0xc6 | 0xdb => {
                let length = self.length(4)?;
                self.text(length)?
            }
            0xdc | 0xdd => {
                let length = self.length(if code == 0xdc { 2 } else { 4 })?;
                self.array(length, depth)?
            }
            0xde | 0xdf => {
                let length = self.length(if code == 0xde { 2 } else { 4 })?;
                self.map(length, depth)?
            }
            _ => return Err(Wrong::Bad),
        })
    }
}

/// Reads values: at most `limit` of them, from an offset on; where it stopped, unless that is the end.
fn unpack(
    lua: &Lua,
    bytes: &[u8],
    limit: usize,
    offset: usize,
) -> mlua::Result<(Vec<Value>, Option<usize>)> {
    let mut reader = Reader {
        lua,
        bytes,
        at: offset,
    };
    let mut values = Vec::new();
    while reader.at < bytes.len() && values.len() < limit {
        let value = reader.value(0).map_err(|wrong| match wrong {
            Wrong::Bad => located(lua, "Bad data format in input."),
            Wrong::Missing => located(lua, "Missing bytes in input."),
            Wrong::Memory => located(lua, "not enough memory"),
        })?;
        values.push(value);
    }
    let rest = Some(reader.at).filter(|at| *at < bytes.len());
    Ok((values, rest))
}

fn text_of(lua: &Lua, arguments: &[Value], name: &str) -> mlua::Result<Vec<u8>> {
    let value = arguments.first();
    let text = value.and_then(|value| lua.coerce_string(value.clone()).ok().flatten());
    text.map(|text| text.as_bytes().to_vec()).ok_or_else(|| {
        let found = value.map_or("no value", Value::type_name);
        located(
            lua,
            &format!("bad argument #1 to '{name}' (string expected, got {found})"),
        )
    })
}

fn unpack_part(
    lua: &Lua,
    arguments: &[Value],
    name: &str,
    limit: i64,
    offset: i64,
) -> mlua::Result<MultiValue> {
    let bytes = text_of(lua, arguments, name)?;
    let (Ok(offset), Ok(limit)) = (usize::try_from(offset), usize::try_from(limit)) else {
        return Err(located(
            lua,
            &format!(
                "Invalid request to unpack with offset of {offset} and limit of {}.",
                bytes.len()
            ),
        ));
    };
    if offset > bytes.len() {
        return Err(located(
            lua,
            &format!(
                "Start offset {offset} greater than input length {}.",
                bytes.len()
            ),
        ));
    }
    let limit = if limit == 0 { usize::MAX } else { limit };
    let (values, rest) = unpack(lua, &bytes, limit, offset)?;
    let next = rest.map_or(-1, |rest| rest as i64);
    let mut all = MultiValue::from_vec(values);
    all.push_front(Value::Integer(next));
    Ok(all)
}

fn integer(lua: &Lua, value: Option<&Value>, otherwise: i64) -> i64 {
    let number = value.and_then(|value| lua.coerce_number(value.clone()).ok().flatten());
    number.map_or(otherwise, |number| number as i64)
}

/// The library.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let pack = |lua: &Lua, arguments: Variadic<Value>| {
        if arguments.is_empty() {
            return Err(located(
                lua,
                "bad argument #0 to 'pack' (MessagePack pack needs input.)",
            ));
        }
        let mut out = Vec::new();
        for value in arguments.iter() {
            push(&mut out, value, 0)?;
        }
        lua.create_string(out)
    };
    library.raw_set("pack", lua.create_function(pack)?)?;
    let all = |lua: &Lua, arguments: Variadic<Value>| {
        let bytes = text_of(lua, &arguments, "unpack")?;
        Ok(MultiValue::from_vec(unpack(lua, &bytes, usize::MAX, 0)?.0))
    };
    library.raw_set("unpack", lua.create_function(all)?)?;
    let one = |lua: &Lua, arguments: Variadic<Value>| {
        let offset = integer(lua, arguments.get(1), 0);
        unpack_part(lua, &arguments, "unpack_one", 1, offset)
    };
    library.raw_set("unpack_one", lua.create_function(one)?)?;
    let some = |lua: &Lua, arguments: Variadic<Value>| {
        let limit = integer(lua, arguments.get(1), 0);
        let offset = integer(lua, arguments.get(2), 0);
        unpack_part(lua, &arguments, "unpack_limit", limit, offset)
    };
    library.raw_set("unpack_limit", lua.create_function(some)?)?;
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.raw_set("_COPYRIGHT", "")?;
    library.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(library)
}
