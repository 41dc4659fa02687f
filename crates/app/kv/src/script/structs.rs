//! The library `struct`: numbers and strings as the bytes of C's structures.

use super::raised::located;
use mlua::{Lua, MultiValue, Table, Value, Variadic};

/// Widest integer, in bytes.
const INTEGER_BYTES_MAX: usize = 32;

/// Where numbers lie: order and alignment.
#[derive(Clone, Copy)]
struct Layout {
    little: bool,
    align: usize,
}

/// One letter of a format.
#[derive(Clone, Copy)]
struct Letter {
    letter: u8,
    size: usize,
}

struct Format<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    layout: Layout,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, text: &'a [u8]) -> Format<'a> {
        let layout = Layout {
            little: cfg!(target_endian = "little"),
            align: 1,
        };
        Format {
            lua,
            text,
            at: 0,
            layout,
        }
    }

    fn wrong(&self, why: &str) -> mlua::Error {
        located(self.lua, why)
    }

    /// A number in the format, or another.
    fn number(&mut self, otherwise: usize) -> mlua::Result<usize> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Ok(otherwise);
        }
        self.at += count;
        let digits = std::str::from_utf8(rest.get(..count).unwrap_or_default());
        let number = digits.ok().and_then(|digits| digits.parse::<i32>().ok());
        match number {
            Some(number) => Ok(number as usize),
            None => Err(self.wrong("integral size overflow")),
        }
    }

    /// The next letter that stands for bytes; those before it set the layout.
    fn next(&mut self, name: &str) -> mlua::Result<Option<Letter>> {
        while let Some(letter) = self.text.get(self.at).copied() {
            self.at += 1;
            let size = match letter {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'f' => 4,
                b'i' | b'I' => {
                    let size = self.number(4)?;
                    if size > INTEGER_BYTES_MAX {
                        return Err(self.wrong(&format!(
                            "integral size {size} is larger than limit of {INTEGER_BYTES_MAX}"
                        )));
                    }
                    size
                }
                b'c' => self.number(1)?,
                b's' => 0,
                b' ' => continue,
                b'<' => {
                    self.layout.little = true;
                    continue;
                }
                b'>' => {
                    self.layout.little = false;
                    continue;
                }
                b'!' => {
                    let align = self.number(8)?;
                    if !align.is_power_of_two() {
                        return Err(self.wrong("alignment is not a power of 2"));
                    }
                    self.layout.align = align;
                    continue;
                }
                _ => {
                    let letter = char::from(letter);
                    return Err(self.wrong(&format!(
                        "bad argument #1 to '{name}' (invalid format option '{letter}')"
                    )));
                }
            };
            return Ok(Some(Letter { letter, size }));
        }
        Ok(None)
    }

    /// Bytes in front of a number so that it is aligned.
    fn padding(&self, option: Letter, at: usize) -> usize {
        if option.size == 0 || matches!(option.letter, b'c' | b'x' | b's') {
            return 0;
        }
        let align = option.size.min(self.layout.align);
        match align.is_power_of_two() {
            true => (align - (at & (align - 1))) & (align - 1),
            false => 0,
        }
    }
}

fn bad(lua: &Lua, place: usize, name: &str, expected: &str, value: Option<&Value>) -> mlua::Error {
    let found = value.map_or("no value", Value::type_name);
    located(
        lua,
        &format!("bad argument #{place} to '{name}' ({expected} expected, got {found})"),
    )
}

fn number(lua: &Lua, arguments: &[Value], at: usize, name: &str) -> mlua::Result<f64> {
    let value = arguments.get(at);
    let number = value.and_then(|value| lua.coerce_number(value.clone()).ok().flatten());
    // What is missing is nil here, in the original too.
    let missing = Value::Nil;
    number.ok_or_else(|| bad(lua, at + 1, name, "number", Some(value.unwrap_or(&missing))))
}

fn text(lua: &Lua, arguments: &[Value], at: usize, name: &str) -> mlua::Result<Vec<u8>> {
    let value = arguments.get(at);
    let text = value.and_then(|value| lua.coerce_string(value.clone()).ok().flatten());
    let text = text.ok_or_else(|| bad(lua, at + 1, name, "string", value))?;
    Ok(text.as_bytes().to_vec())
}

fn push_ordered(out: &mut Vec<u8>, little: bool, bytes: impl DoubleEndedIterator<Item = u8>) {
    match little {
        true => out.extend(bytes),
        false => out.extend(bytes.rev()),
    }
}

fn pack(lua: &Lua, arguments: &[Value]) -> mlua::Result<Vec<u8>> {
    const NAME: &str = "pack";
    let format = text(lua, arguments, 0, NAME)?;
    let mut format = Format::new(lua, &format);
    let mut out = Vec::new();
    let mut at = 1;
    while let Some(option) = format.next(NAME)? {
        let padding = format.padding(option, out.len());
        out.resize(out.len() + padding, 0);
        let little = format.layout.little;
        match option.letter {
            b'x' => out.push(0),
            b'f' => {
                let bytes = (number(lua, arguments, at, NAME)? as f32).to_le_bytes();
                push_ordered(&mut out, little, bytes.into_iter());
            }
            b'd' => {
                let bytes = number(lua, arguments, at, NAME)?.to_le_bytes();
                push_ordered(&mut out, little, bytes.into_iter());
            }
            b'c' | b's' => {
                let text = text(lua, arguments, at, NAME)?;
                let size = match option.size {
                    0 => text.len(),
                    size => size,
                };
                if text.len() < size {
                    let place = at + 1;
                    return Err(located(
                        lua,
                        &format!("bad argument #{place} to 'pack' (string too short)"),
                    ));
                }
                out.extend(text.iter().take(size));
                if option.letter == b's' {
                    out.push(0);
                }
            }
            _ => {
                let value = number(lua, arguments, at, NAME)?;
                let value = match value < 0.0 {
                    true => (value as i64) as u64,
                    false => value as u64,
                };
                let bytes = value.to_le_bytes();
                let filled = (0..option.size).map(|at| bytes.get(at).copied().unwrap_or(0));
                push_ordered(&mut out, little, filled);
            }
        }
        if option.letter != b'x' {
            at += 1;
        }
    }
    Ok(out)
}

fn integer_of(bytes: &[u8], little: bool, signed: bool) -> f64 {
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = match little {
        true => bytes.iter().rev().fold(0, fold),
        false => bytes.iter().fold(0, fold),
    };
    match (signed, bytes.len()) {
        (false, _) => value as f64,
        (true, 1..8) => {
            let shift = 64 - bytes.len() as u32 * 8;
            (((value << shift) as i64) >> shift) as f64
        }
        (true, _) => (value as i64) as f64,
    }
}

fn unpack(lua: &Lua, arguments: &[Value]) -> mlua::Result<MultiValue> {
    const NAME: &str = "unpack";
    let format = text(lua, arguments, 0, NAME)?;
    let data = text(lua, arguments, 1, NAME)?;
    let mut at = match arguments.len() {
        0..=2 => 0,
        _ => match number(lua, arguments, 2, NAME)? as i64 {
            offset if offset >= 1 => (offset - 1) as usize,
            _ => {
                return Err(located(
                    lua,
                    "bad argument #3 to 'unpack' (offset must be 1 or greater)",
                ));
            }
        },
    };
    let short = || located(lua, "bad argument #2 to 'unpack' (data string too short)");
    let mut format = Format::new(lua, &format);
    let mut values: Vec<Value> = Vec::new();
    while let Some(option) = format.next(NAME)? {
        at = at
            .checked_add(format.padding(option, at))
            .ok_or_else(short)?;
        let rest = data.get(at..).ok_or_else(short)?;
        let mut size = option.size;
        if option.letter == b'c' && size == 0 {
            // The length is what was read last.
            let length = match values.pop() {
                Some(Value::Number(length)) => length,
                _ => return Err(located(lua, "format 'c0' needs a previous size")),
            };
            size = length as usize;
        }
        if option.letter == b's' {
            let end = rest.iter().position(|byte| *byte == 0);
            let end = end.ok_or_else(|| located(lua, "unfinished string in data"))?;
            values.push(Value::String(
                lua.create_string(rest.get(..end).unwrap_or_default())?,
            ));
            at += end + 1;
            continue;
        }
        let bytes = rest.get(..size).ok_or_else(short)?;
        let little = format.layout.little;
        match option.letter {
            b'x' => {}
            b'f' => {
                let bits = integer_of(bytes, little, false) as u32;
                values.push(Value::Number(f64::from(f32::from_bits(bits))));
            }
            b'd' => {
                let mut eight: [u8; 8] = bytes.try_into().map_err(|_| short())?;
                if !little {
                    eight.reverse();
                }
                values.push(Value::Number(f64::from_le_bytes(eight)));
            }
            b'c' => values.push(Value::String(lua.create_string(bytes)?)),
            letter => {
                let signed = letter.is_ascii_lowercase();
                values.push(Value::Number(integer_of(bytes, little, signed)));
            }
        }
        at += size;
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(values))
}

fn size(lua: &Lua, arguments: &[Value]) -> mlua::Result<usize> {
    const NAME: &str = "size";
    let format = text(lua, arguments, 0, NAME)?;
    let mut format = Format::new(lua, &format);
    let mut total = 0usize;
    while let Some(option) = format.next(NAME)? {
        let variable = match option.letter {
            b's' => true,
            b'c' => option.size == 0,
            _ => false,
        };
        if variable {
            let letter = char::from(option.letter);
            return Err(located(
                lua,
                &format!("bad argument #1 to 'size' (option '{letter}' has no fixed size)"),
            ));
        }
        total = total
            .saturating_add(format.padding(option, total))
            .saturating_add(option.size);
    }
    Ok(total)
}

/// The library.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let packed = |lua: &Lua, arguments: Variadic<Value>| lua.create_string(pack(lua, &arguments)?);
    library.raw_set("pack", lua.create_function(packed)?)?;
    let unpacked = |lua: &Lua, arguments: Variadic<Value>| unpack(lua, &arguments);
    library.raw_set("unpack", lua.create_function(unpacked)?)?;
    let sized = |lua: &Lua, arguments: Variadic<Value>| size(lua, &arguments);
    library.raw_set("size", lua.create_function(sized)?)?;
    Ok(library)
}
