//! The library `cjson`, as Redis has it: lua-cjson 2.1.

use super::number::format_general;
use super::raised::located;
use mlua::{Lua, Table, Value, Variadic};
use parking_lot::Mutex;
use std::sync::Arc;

mod decode;

/// What scripts can set.
#[derive(Clone, Copy, Debug)]
struct Settings {
    sparse_convert: bool,
    sparse_ratio: usize,
    sparse_safe: usize,
    encode_depth_max: usize,
    decode_depth_max: usize,
    digits: usize,
    keep_buffer: bool,
    encode_invalid: Invalid,
    decode_invalid: bool,
}

/// What becomes of a number that JSON does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Invalid {
    Refused,
    Written,
    Null,
}

const DEFAULTS: Settings = Settings {
    sparse_convert: false,
    sparse_ratio: 2,
    sparse_safe: 10,
    encode_depth_max: 1000,
    decode_depth_max: 1000,
    digits: 14,
    keep_buffer: true,
    encode_invalid: Invalid::Refused,
    decode_invalid: true,
};

/// Tables in tables that are followed at most, whatever scripts set: each takes stack.
const DEPTH_MAX: usize = 200;

fn push_text(into: &mut Vec<u8>, text: &[u8]) {
    into.push(b'"');
    for byte in text {
        match byte {
            b'"' => into.extend_from_slice(b"\\\""),
            b'\\' => into.extend_from_slice(b"\\\\"),
            b'/' => into.extend_from_slice(b"\\/"),
            8 => into.extend_from_slice(b"\\b"),
            9 => into.extend_from_slice(b"\\t"),
            10 => into.extend_from_slice(b"\\n"),
            12 => into.extend_from_slice(b"\\f"),
            13 => into.extend_from_slice(b"\\r"),
            0..32 | 127 => into.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => into.push(*byte),
        }
    }
    into.push(b'"');
}

struct Encoder<'a> {
    lua: &'a Lua,
    settings: Settings,
    out: Vec<u8>,
}

impl Encoder<'_> {
    fn refuse(&self, what: &str, why: &str) -> mlua::Error {
        located(self.lua, &format!("Cannot serialise {what}: {why}"))
    }

    fn number(&mut self, value: f64) -> mlua::Result<()> {
        if value.is_finite() {
            let text = format_general(value, self.settings.digits);
            self.out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        match self.settings.encode_invalid {
            Invalid::Refused => return Err(self.refuse("number", "must not be NaN or Inf")),
            Invalid::Null => self.out.extend_from_slice(b"null"),
            Invalid::Written => {
                let text = format_general(value, self.settings.digits);
                let text = if value.is_nan() {
                    "nan".to_owned()
                } else {
                    text
                };
                self.out.extend_from_slice(text.as_bytes());
            }
        }
        Ok(())
    }

    /// The length of a table that is an array; `None` for one that is an object.
    fn array_length(&self, table: &Table) -> mlua::Result<Option<usize>> {
        let (mut most, mut count) = (0usize, 0usize);
        for pair in table.pairs::<Value, Value>() {
            let (key, _) = pair?;
            let key = match key {
                Value::Integer(key) => usize::try_from(key).unwrap_or(0),
                _ => 0,
            };
            if key == 0 {
                return Ok(None);
            }
            most = most.max(key);
            count += 1;
        }
        let settings = &self.settings;
        if settings.sparse_ratio > 0
            && most > count.saturating_mul(settings.sparse_ratio)
            && most > settings.sparse_safe
        {
            if !settings.sparse_convert {
                return Err(self.refuse("table", "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(Some(most).filter(|most| *most > 0))
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let most = self.settings.encode_depth_max.min(DEPTH_MAX);
        if depth > most {
            return Err(located(
                self.lua,
                &format!("Cannot serialise, excessive depth ({depth})"),
            ));
        }
        if let Some(length) = self.array_length(table)? {
            self.out.push(b'[');
            for index in 1..=length {
                if index > 1 {
                    self.out.push(b',');
                }
                self.value(&table.raw_get::<Value>(index)?, depth)?;
            }
            self.out.push(b']');
            return Ok(());
        }
        self.out.push(b'{');
        let mut first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::take(&mut first) {
                self.out.push(b',');
            }
            match key {
                Value::String(text) => push_text(&mut self.out, &text.as_bytes()),
                Value::Integer(_) | Value::Number(_) => {
                    let number = self.lua.coerce_number(key)?.unwrap_or(0.0);
                    self.out.push(b'"');
                    self.number(number)?;
                    self.out.push(b'"');
                }
                _ => {
                    let found = key.type_name();
                    return Err(self.refuse(found, "table key must be a number or string"));
                }
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        match value {
            Value::String(text) => push_text(&mut self.out, &text.as_bytes()),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Nil => self.out.extend_from_slice(b"null"),
            value if value.is_null() => self.out.extend_from_slice(b"null"),
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return Err(self.refuse(other.type_name(), "type not supported")),
        }
        Ok(())
    }
}

/// One argument, or the refusal.
fn only<'a>(lua: &Lua, name: &str, arguments: &'a [Value]) -> mlua::Result<&'a Value> {
    match arguments {
        [one] => Ok(one),
        _ => Err(located(
            lua,
            &format!("bad argument #1 to '{name}' (expected 1 argument)"),
        )),
    }
}

/// The library, with settings of its own.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let settings = Arc::new(Mutex::new(DEFAULTS));
    let with = settings.clone();
    let encode = move |lua: &Lua, arguments: Variadic<Value>| {
        let value = only(lua, "encode", &arguments)?;
        let settings = *with.lock();
        let mut encoder = Encoder {
            lua,
            settings,
            out: Vec::new(),
        };
        encoder.value(value, 0)?;
        lua.create_string(&encoder.out)
    };
    library.raw_set("encode", lua.create_function(encode)?)?;
    let with = settings.clone();
    let decode = move |lua: &Lua, arguments: Variadic<Value>| {
        let text = lua.coerce_string(only(lua, "decode", &arguments)?.clone())?;
        let text = text.ok_or_else(|| {
            let found = arguments.first().map_or("no value", Value::type_name);
            located(
                lua,
                &format!("bad argument #1 to 'decode' (string expected, got {found})"),
            )
        })?;
        let settings = *with.lock();
        let bytes = text.as_bytes();
        decode::decode(
            lua,
            &bytes,
            settings.decode_depth_max.min(DEPTH_MAX),
            settings.decode_invalid,
        )
    };
    library.raw_set("decode", lua.create_function(decode)?)?;
    setters(lua, &library, &settings)?;
    library.raw_set("new", lua.create_function(|lua, ()| self::library(lua))?)?;
    library.raw_set("null", Value::NULL)?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    Ok(library)
}

/// A number that a script sets; what it was where there is none.
fn set_number(
    lua: &Lua,
    value: Option<&Value>,
    bounds: std::ops::RangeInclusive<usize>,
    place: &mut usize,
) -> mlua::Result<usize> {
    if let Some(value) = value.filter(|value| !value.is_nil()) {
        let number = lua.coerce_number(value.clone())?.unwrap_or(-1.0);
        let number = number as i64;
        let fits = usize::try_from(number).ok().filter(|n| bounds.contains(n));
        *place = fits.ok_or_else(|| {
            let (least, most) = (bounds.start(), bounds.end());
            located(
                lua,
                &format!("bad argument #1 to '?' (expected integer between {least} and {most})"),
            )
        })?;
    }
    Ok(*place)
}

fn set_flag(value: Option<&Value>, place: &mut bool) -> bool {
    match value {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(flag)) => *place = *flag,
        Some(Value::String(word)) => *place = &*word.as_bytes() == b"on",
        Some(_) => {}
    }
    *place
}

type Shared = Arc<Mutex<Settings>>;

/// A setting that is a number.
type Place = fn(&mut Settings) -> &mut usize;

fn setters(lua: &Lua, library: &Table, settings: &Shared) -> mlua::Result<()> {
    const MOST: usize = i32::MAX as usize;
    let numbers: [(&str, Place, usize, usize); 3] = [
        ("encode_max_depth", |all| &mut all.encode_depth_max, 1, MOST),
        ("decode_max_depth", |all| &mut all.decode_depth_max, 1, MOST),
        ("encode_number_precision", |all| &mut all.digits, 1, 14),
    ];
    for (name, place, least, most) in numbers {
        let settings = settings.clone();
        let set = move |lua: &Lua, arguments: Variadic<Value>| {
            let mut settings = settings.lock();
            set_number(lua, arguments.first(), least..=most, place(&mut settings))
        };
        library.raw_set(name, lua.create_function(set)?)?;
    }
    let all = settings.clone();
    let set = move |_: &Lua, arguments: Variadic<Value>| {
        Ok(set_flag(arguments.first(), &mut all.lock().keep_buffer))
    };
    library.raw_set("encode_keep_buffer", lua.create_function(set)?)?;
    let all = settings.clone();
    let set = move |_: &Lua, arguments: Variadic<Value>| {
        Ok(set_flag(arguments.first(), &mut all.lock().decode_invalid))
    };
    library.raw_set("decode_invalid_numbers", lua.create_function(set)?)?;
    let all = settings.clone();
    let set = move |lua: &Lua, arguments: Variadic<Value>| {
        let place = &mut all.lock().encode_invalid;
        match arguments.first() {
            None | Some(Value::Nil) => {}
            Some(Value::String(word)) if &*word.as_bytes() == b"null" => *place = Invalid::Null,
            value => {
                let mut on = *place == Invalid::Written;
                *place = match set_flag(value, &mut on) {
                    true => Invalid::Written,
                    false => Invalid::Refused,
                };
            }
        }
        match *place {
            Invalid::Null => Ok(Value::String(lua.create_string("null")?)),
            place => Ok(Value::Boolean(place == Invalid::Written)),
        }
    };
    library.raw_set("encode_invalid_numbers", lua.create_function(set)?)?;
    let all = settings.clone();
    let set = move |lua: &Lua, arguments: Variadic<Value>| {
        let all = &mut *all.lock();
        let convert = set_flag(arguments.first(), &mut all.sparse_convert);
        let ratio = set_number(lua, arguments.get(1), 0..=MOST, &mut all.sparse_ratio)?;
        let safe = set_number(lua, arguments.get(2), 0..=MOST, &mut all.sparse_safe)?;
        Ok((convert, ratio, safe))
    };
    library.raw_set("encode_sparse_array", lua.create_function(set)?)
}
