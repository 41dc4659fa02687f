//! The interpreter: Lua 5.1 with what Redis 7.0 leaves of it.

use super::raised::{Raised, explain, located, position_of, raise};
use super::{bits, json, msgpack, structs};
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of memory that all scripts together keep.
const MEMORY_BYTES_MAX: usize = 1 << 30;

/// Instructions between two looks at the time (Redis: LUA_MASKCOUNT 100000).
const LOOK_INSTRUCTIONS: u32 = 100_000;

/// Version of Redis that scripts are told: 7.0.15.
const REDIS_VERSION_NUMBER: u32 = 0x0007_000f;

/// Where Lua keeps what a run lends it: commands, and the look at the time.
pub(super) const COMMANDS: &str = "holdfast.commands";
pub(super) const CLOCK: &str = "holdfast.clock";

/// Name of the part of the environment that is written in Lua.
pub(super) const ENVIRONMENT: &str = "@environment";

/// What a script asks of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Ask {
    Call = 0,
    ProtectedCall = 1,
    SetVersion = 2,
    CheckCommand = 3,
    Register = 4,
}

/// An interpreter.
pub(super) struct Machine {
    pub(super) lua: Lua,
    /// All globals.
    pub(super) globals: Table,
    /// Runs a function; (whether it went well, what it returned or failed with).
    pub(super) run: Function,
}

/// The generator behind `math.random`: that of POSIX's drand48, as Redis has it, so that scripts draw
/// the same numbers.
mod lrand48 {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    /// The state before any seed.
    pub(super) const FIRST: u64 = 0x1234_ABCD_330E;
    const MASK: u64 = (1 << 48) - 1;

    pub(super) fn seeded(seed: i64) -> u64 {
        ((seed as u32 as u64) << 16) | 0x330E
    }

    pub(super) fn next(state: u64) -> u64 {
        state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK
    }

    pub(super) fn value(state: u64) -> u64 {
        state >> 17
    }
}

fn number_at(lua: &Lua, arguments: &[Value], at: usize, name: &str) -> mlua::Result<f64> {
    let value = arguments.get(at);
    let number = value.and_then(|value| lua.coerce_number(value.clone()).ok().flatten());
    number.ok_or_else(|| {
        let found = value.map_or("no value", Value::type_name);
        let place = at + 1;
        located(
            lua,
            &format!("bad argument #{place} to '{name}' (number expected, got {found})"),
        )
    })
}

fn random(lua: &Lua, state: &AtomicU64, arguments: &[Value]) -> mlua::Result<f64> {
    const MAX: u64 = i32::MAX as u64;
    let next = lrand48::next(state.load(Ordering::Relaxed));
    state.store(next, Ordering::Relaxed);
    let share = (lrand48::value(next) % MAX) as f64 / MAX as f64;
    let empty = |place: usize| {
        located(
            lua,
            &format!("bad argument #{place} to 'random' (interval is empty)"),
        )
    };
    let integer = |at| number_at(lua, arguments, at, "random").map(f64::trunc);
    match arguments.len() {
        0 => Ok(share),
        1 => match integer(0)? {
            upper if upper < 1.0 => Err(empty(1)),
            upper => Ok((share * upper).floor() + 1.0),
        },
        2 => match (integer(0)?, integer(1)?) {
            (lower, upper) if lower > upper => Err(empty(2)),
            (lower, upper) => Ok((share * (upper - lower + 1.0)).floor() + lower),
        },
        _ => Err(located(lua, "wrong number of arguments")),
    }
}

/// What a function of `redis` that needs the engine does.
fn asks(lua: &Lua, ask: Ask) -> mlua::Result<Function> {
    lua.create_function(move |lua, arguments: MultiValue| {
        let commands: Value = lua.named_registry_value(COMMANDS)?;
        let Value::Function(commands) = commands else {
            return Err(raise(
                "ERR redis.call/pcall can only be called inside a script invocation",
            ));
        };
        let mut all = arguments;
        all.push_front(Value::Integer(ask as i64));
        let answer: Value = match commands.call(all) {
            // The run that lent it is over: a coroutine was kept.
            Err(mlua::Error::CallbackDestructed) => {
                return Err(raise(
                    "ERR redis.call/pcall can only be called inside a script invocation",
                ));
            }
            answer => answer?,
        };
        if ask != Ask::ProtectedCall
            && let Value::Table(table) = &answer
            && let Ok(Value::String(text)) = table.raw_get("err")
        {
            let counted = table.raw_get("ignore_error_stats_update").unwrap_or(false);
            let text = text.as_bytes().to_vec();
            return Err(mlua::Error::external(Raised { text, counted }));
        }
        Ok(answer)
    })
}

/// An error in the form of `redis.error_reply`: with a code in front.
pub(super) fn coded(text: &[u8]) -> Vec<u8> {
    let end = text.iter().rposition(|byte| !b"\r\n".contains(byte));
    let text = text.get(..end.map_or(0, |end| end + 1)).unwrap_or_default();
    match text.strip_prefix(b"-") {
        Some(text) if text.contains(&b' ') => text.to_vec(),
        Some(text) => [b"ERR ", text].concat(),
        None => [b"ERR ", text].concat(),
    }
}

fn field(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set(name, lua.create_string(text)?)?;
    Ok(table)
}

fn redis(lua: &Lua) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    redis.raw_set("call", asks(lua, Ask::Call)?)?;
    redis.raw_set("pcall", asks(lua, Ask::ProtectedCall)?)?;
    redis.raw_set("setresp", asks(lua, Ask::SetVersion)?)?;
    redis.raw_set("acl_check_cmd", asks(lua, Ask::CheckCommand)?)?;
    let sha1hex = |lua: &Lua, arguments: Variadic<Value>| match &arguments[..] {
        [text] => {
            let text = lua.coerce_string(text.clone())?;
            let bytes = text.map(|text| text.as_bytes().to_vec());
            lua.create_string(super::sha1_hex(&bytes.unwrap_or_default()))
        }
        _ => Err(raise("ERR wrong number of arguments")),
    };
    redis.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    let single = |name: &'static str| {
        move |lua: &Lua, arguments: Variadic<Value>| match &arguments[..] {
            [Value::String(text)] if name == "ok" => field(lua, name, &text.as_bytes()),
            [Value::String(text)] => {
                let bytes = text.as_bytes();
                let text: &[u8] = &bytes;
                let with_dash = match text.starts_with(b"-") {
                    true => text.to_vec(),
                    false => [b"-", text].concat(),
                };
                field(lua, name, &coded(&with_dash))
            }
            _ => field(lua, "err", b"ERR wrong number or type of arguments"),
        }
    };
    redis.raw_set("error_reply", lua.create_function(single("err"))?)?;
    redis.raw_set("status_reply", lua.create_function(single("ok"))?)?;
    redis.raw_set("log", lua.create_function(log)?)?;
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"]
        .into_iter()
        .enumerate()
    {
        redis.raw_set(name, level)?;
    }
    let set_repl = |lua: &Lua, arguments: Variadic<Value>| match &arguments[..] {
        [flags] => match lua.coerce_number(flags.clone())?.unwrap_or(0.0) as i64 & !3 {
            0 => Ok(()),
            _ => Err(raise(
                "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            )),
        },
        _ => Err(raise("ERR redis.set_repl() requires two arguments.")),
    };
    redis.raw_set("set_repl", lua.create_function(set_repl)?)?;
    for (name, value) in [
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        redis.raw_set(name, value)?;
    }
    redis.raw_set("REDIS_VERSION", crate::command::REDIS_VERSION)?;
    redis.raw_set("REDIS_VERSION_NUM", REDIS_VERSION_NUMBER)?;
    Ok(redis)
}

fn log(lua: &Lua, arguments: Variadic<Value>) -> mlua::Result<()> {
    let [level, words @ ..] = &arguments[..] else {
        return Err(raise("ERR redis.log() requires two arguments or more."));
    };
    if words.is_empty() {
        return Err(raise("ERR redis.log() requires two arguments or more."));
    }
    let level = lua.coerce_number(level.clone())?;
    let level = level.ok_or_else(|| raise("ERR First argument must be a number (log level)."))?;
    let mut line = Vec::new();
    for word in words {
        if let Ok(Some(text)) = lua.coerce_string(word.clone()) {
            line.push(String::from_utf8_lossy(&text.as_bytes()).into_owned());
        }
    }
    let line = line.join(" ");
    match level as i64 {
        0 | 1 => tracing::debug!(script = %line),
        2 => tracing::info!(script = %line),
        3 => tracing::warn!(script = %line),
        _ => return Err(raise("ERR Invalid debug level.")),
    }
    Ok(())
}

/// Has the clock be looked at: now and then, or at every line, where a script has to end.
pub(super) fn look_often(lua: &Lua, every_line: bool) -> mlua::Result<()> {
    let look = |lua: &Lua, _: &mlua::Debug<'_>| {
        if let Value::Function(clock) = lua.named_registry_value(CLOCK)? {
            clock.call::<()>(())?;
        }
        Ok(mlua::VmState::Continue)
    };
    let triggers = match every_line {
        true => mlua::HookTriggers::EVERY_LINE,
        false => mlua::HookTriggers::new().every_nth_instruction(LOOK_INSTRUCTIONS),
    };
    lua.remove_global_hook();
    lua.set_global_hook(triggers, look)
}

impl Machine {
    /// Looks at the clock at every line, or as ever.
    pub(super) fn look_often(&self, every_line: bool) -> mlua::Result<()> {
        look_often(&self.lua, every_line)
    }

    /// One for EVAL.
    pub(super) fn new() -> mlua::Result<Machine> {
        Machine::with(|lua, redis| {
            redis.raw_set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
            let nothing = lua.create_function(|_, _: MultiValue| Ok(()))?;
            redis.raw_set("debug", nothing)?;
            let always = lua.create_function(|_, _: MultiValue| Ok(true))?;
            redis.raw_set("replicate_commands", always)
        })
    }

    /// One for libraries of functions.
    pub(super) fn for_libraries() -> mlua::Result<Machine> {
        Machine::with(|lua, redis| redis.raw_set("register_function", asks(lua, Ask::Register)?))
    }

    fn with(more: impl FnOnce(&Lua, &Table) -> mlua::Result<()>) -> mlua::Result<Machine> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let options = LuaOptions::new().catch_rust_panics(false);
        let lua = Lua::new_with(libraries, options)?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        let redis = redis(&lua)?;
        more(&lua, &redis)?;
        let given = lua.create_table()?;
        given.raw_set("redis", redis)?;
        given.raw_set("bit", bits::library(&lua)?)?;
        given.raw_set("cjson", json::library(&lua)?)?;
        given.raw_set("cmsgpack", msgpack::library(&lua)?)?;
        given.raw_set("struct", structs::library(&lua)?)?;
        let state = Arc::new(AtomicU64::new(lrand48::FIRST));
        let math = lua.create_table()?;
        let drawn = state.clone();
        let draw = move |lua: &Lua, arguments: Variadic<Value>| random(lua, &drawn, &arguments);
        math.raw_set("random", lua.create_function(draw)?)?;
        let seed = move |lua: &Lua, arguments: Variadic<Value>| {
            let seed = number_at(lua, &arguments, 0, "randomseed")?;
            state.store(lrand48::seeded(seed as i64), Ordering::Relaxed);
            Ok(())
        };
        math.raw_set("randomseed", lua.create_function(seed)?)?;
        given.raw_set("math", math)?;
        let host = lua.create_table()?;
        host.raw_set("explain", lua.create_function(explain)?)?;
        host.raw_set(
            "where",
            lua.create_function(|lua, ()| Ok(position_of(lua)))?,
        )?;
        let chunk = lua.load(include_str!("environment.lua"));
        let (globals, run) = chunk.set_name(ENVIRONMENT).call((host, given))?;
        look_often(&lua, false)?;
        Ok(Machine { lua, globals, run })
    }
}
