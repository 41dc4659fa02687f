//! The library `bit`: operations on 32 bits.

use super::raised::located;
use mlua::{Lua, Table, Value, Variadic};

/// A number as its lowest 32 bits, as LuaBitOp takes it.
fn bits(number: f64) -> u32 {
    // Adding 2^52 + 2^51 leaves the integer in the low bits, rounded to even.
    (number + 6_755_399_441_055_744.0).to_bits() as u32
}

fn at(lua: &Lua, arguments: &[Value], index: usize, name: &str) -> mlua::Result<u32> {
    let value = arguments.get(index);
    let number = value.and_then(|value| lua.coerce_number(value.clone()).ok().flatten());
    number.map(bits).ok_or_else(|| {
        let found = value.map_or("no value", Value::type_name);
        let place = index + 1;
        located(
            lua,
            &format!("bad argument #{place} to '{name}' (number expected, got {found})"),
        )
    })
}

/// An operation of one number, or of two.
type One = fn(u32) -> u32;
type Two = fn(u32, u32) -> u32;

/// The library.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let unary: [(&'static str, One); 3] = [
        ("tobit", |value| value),
        ("bnot", |value| !value),
        ("bswap", u32::swap_bytes),
    ];
    for (name, operation) in unary {
        let function = move |lua: &Lua, arguments: Variadic<Value>| {
            Ok(operation(at(lua, &arguments, 0, name)?) as i32)
        };
        library.raw_set(name, lua.create_function(function)?)?;
    }
    let many: [(&'static str, Two); 3] = [
        ("band", |one, other| one & other),
        ("bor", |one, other| one | other),
        ("bxor", |one, other| one ^ other),
    ];
    for (name, operation) in many {
        let function = move |lua: &Lua, arguments: Variadic<Value>| {
            let mut result = at(lua, &arguments, 0, name)?;
            for index in 1..arguments.len() {
                result = operation(result, at(lua, &arguments, index, name)?);
            }
            Ok(result as i32)
        };
        library.raw_set(name, lua.create_function(function)?)?;
    }
    let shifts: [(&'static str, Two); 5] = [
        ("lshift", |value, by| value << by),
        ("rshift", |value, by| value >> by),
        ("arshift", |value, by| (value as i32 >> by) as u32),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, operation) in shifts {
        let function = move |lua: &Lua, arguments: Variadic<Value>| {
            let value = at(lua, &arguments, 0, name)?;
            let by = at(lua, &arguments, 1, name)? & 31;
            Ok(operation(value, by) as i32)
        };
        library.raw_set(name, lua.create_function(function)?)?;
    }
    let to_hex = |lua: &Lua, arguments: Variadic<Value>| {
        let value = at(lua, &arguments, 0, "tohex")?;
        let digits = match arguments.len() {
            0 | 1 => 8,
            _ => at(lua, &arguments, 1, "tohex")? as i32,
        };
        let text = match digits < 0 {
            true => format!("{value:08X}"),
            false => format!("{value:08x}"),
        };
        let count = (digits.unsigned_abs() as usize).min(8);
        Ok(text.get(8 - count..).unwrap_or_default().to_owned())
    };
    library.raw_set("tohex", lua.create_function(to_hex)?)?;
    Ok(library)
}
