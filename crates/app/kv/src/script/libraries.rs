//! Libraries of functions. They are in the log: a start finds them again.

use super::machine::{Ask, CLOCK, COMMANDS, Machine};
use super::raised::{Raised, raise};
use super::shebang::{Traits, parse_library};
use super::{no_machine, words_of};
use crate::engine::Engine;
use crate::fault::Fault;
use crate::slot::ShardId;
use mlua::{Function, MultiValue, Table, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use vlog::Position;

/// How long a library may take to say what it has (Redis: LOAD_TIMEOUT_MS).
const LOAD_TIMEOUT: Duration = Duration::from_millis(500);

/// A function of a library.
#[derive(Clone)]
pub(crate) struct Declared {
    pub(super) function: Function,
    pub(crate) traits: Traits,
    pub(crate) description: Option<Vec<u8>>,
}

/// A library.
pub(crate) struct Library {
    pub(crate) code: Vec<u8>,
    pub(crate) functions: BTreeMap<String, Declared>,
    /// Where the log has it.
    pub(crate) position: Option<Position>,
}

/// All libraries.
#[derive(Default)]
pub(crate) struct Libraries {
    pub(super) machine: Option<Machine>,
    pub(crate) all: BTreeMap<String, Library>,
}

/// Whether a name has letters, digits and underscores only.
fn check_name(name: &[u8]) -> Result<String, &'static str> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match String::from_utf8(name.to_vec()) {
        Ok(text) if !name.is_empty() && name.iter().all(fits) => Ok(text),
        _ => Err(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at \
             least one character long",
        ),
    }
}

/// What `redis.register_function` was given.
fn declared(arguments: MultiValue) -> Result<(Vec<u8>, Declared), &'static str> {
    let arguments: Vec<Value> = arguments.into_iter().collect();
    match &arguments[..] {
        [Value::Table(named)] => declared_by_name(named),
        [_] => Err(
            "ERR calling redis.register_function with a single argument is only applicable to Lua \
             table (representing named arguments).",
        ),
        [name, Value::Function(function)] => {
            let name = name
                .to_string()
                .map_err(|_| "ERR first argument to redis.register_function must be a string")?;
            let declared = Declared {
                function: function.clone(),
                traits: Traits::default(),
                description: None,
            };
            Ok((name.into_bytes(), declared))
        }
        [_, _] => Err("ERR second argument to redis.register_function must be a function"),
        _ => Err("ERR wrong number of arguments to redis.register_function"),
    }
}

fn declared_by_name(named: &Table) -> Result<(Vec<u8>, Declared), &'static str> {
    let (mut name, mut function, mut description) = (None, None, None);
    let mut traits = Traits::default();
    for pair in named.pairs::<Value, Value>() {
        let Ok((Value::String(key), value)) = pair else {
            return Err("ERR named argument key given to redis.register_function is not a string");
        };
        match (&*key.as_bytes(), value) {
            (b"function_name", Value::String(text)) => name = Some(text.as_bytes().to_vec()),
            (b"function_name", _) => {
                return Err(
                    "ERR function_name argument given to redis.register_function must be a string",
                );
            }
            (b"description", Value::String(text)) => description = Some(text.as_bytes().to_vec()),
            (b"description", _) => {
                return Err(
                    "ERR description argument given to redis.register_function must be a string",
                );
            }
            (b"callback", Value::Function(given)) => function = Some(given),
            (b"callback", _) => {
                return Err(
                    "ERR callback argument given to redis.register_function must be a function",
                );
            }
            (b"flags", Value::Table(flags)) => {
                for flag in flags.sequence_values::<Value>() {
                    let known = match flag {
                        Ok(Value::String(word)) => traits.add(&word.as_bytes()),
                        _ => false,
                    };
                    if !known {
                        return Err("ERR unknown flag given");
                    }
                }
            }
            (b"flags", _) => {
                return Err(
                    "ERR flags argument to redis.register_function must be a table \
                            representing function flags",
                );
            }
            _ => return Err("ERR unknown argument given to redis.register_function"),
        }
    }
    let name = name.ok_or("ERR redis.register_function must get a function name argument")?;
    let function = function.ok_or("ERR redis.register_function must get a callback argument")?;
    let declared = Declared {
        function,
        traits,
        description,
    };
    Ok((name, declared))
}

/// What a failed load is answered with.
fn registering(error: &mlua::Error) -> Fault {
    let mut cause = error;
    while let mlua::Error::CallbackError { cause: inner, .. } = cause {
        cause = inner;
    }
    let words = match cause.downcast_ref::<Raised>() {
        Some(raised) => raised.to_string(),
        None => {
            let words = words_of(cause);
            // Where Lua was, for its authors alone.
            let words = words.split("\nstack traceback:").next().unwrap_or_default();
            format!("ERR {words}")
        }
    };
    Fault::text(format!("ERR Error registering functions: {words}"))
}

impl Libraries {
    /// Reads the code of a library: its name and functions. Nothing is changed.
    pub(crate) fn read(&mut self, code: &[u8]) -> Result<(String, Library), Fault> {
        let (name, first_line) = parse_library(code)?;
        let name = check_name(&name).map_err(Fault::of)?;
        let machine = match &mut self.machine {
            Some(machine) => machine,
            none => none.insert(Machine::for_libraries().map_err(no_machine)?),
        };
        let lua = &machine.lua;
        let body = code.get(first_line..).unwrap_or_default();
        let chunk = lua.load(body).set_name("@user_function");
        let chunk = chunk.set_mode(mlua::ChunkMode::Text).into_function();
        let chunk = chunk.map_err(|error| {
            Fault::text(format!(
                "ERR Error compiling function: {}",
                words_of(&error)
            ))
        })?;
        let functions: RefCell<BTreeMap<String, Declared>> = RefCell::default();
        let until = Instant::now() + LOAD_TIMEOUT;
        let ran = lua.scope(|scope| {
            let register = scope.create_function(|_, mut arguments: MultiValue| {
                let ask = arguments.pop_front().and_then(|ask| ask.as_integer());
                if ask != Some(Ask::Register as i64) {
                    return Err(raise(
                        "ERR redis.call/pcall can only be called inside a script invocation",
                    ));
                }
                let (name, declared) = declared(arguments).map_err(raise)?;
                let name = check_name(&name).map_err(raise)?;
                match functions.borrow_mut().insert(name, declared) {
                    None => Ok(()),
                    Some(_) => Err(raise("ERR Function already exists in the library")),
                }
            })?;
            let clock = scope.create_function(|_, ()| match Instant::now() < until {
                true => Ok(()),
                false => Err(raise("ERR FUNCTION LOAD timeout")),
            })?;
            lua.set_named_registry_value(COMMANDS, register)?;
            lua.set_named_registry_value(CLOCK, clock)?;
            chunk.call::<()>(())
        });
        lua.set_named_registry_value(COMMANDS, Value::Nil)
            .and_then(|()| lua.set_named_registry_value(CLOCK, Value::Nil))
            .map_err(no_machine)?;
        ran.map_err(|error| registering(&error))?;
        let functions = functions.into_inner();
        if functions.is_empty() {
            return Err(Fault::of("ERR No functions registered"));
        }
        let library = Library {
            code: code.to_vec(),
            functions,
            position: None,
        };
        Ok((name, library))
    }

    /// Whether another library than `own` has a function of this one.
    pub(crate) fn collision(&self, own: &str, library: &Library) -> Option<String> {
        let others = self.all.iter().filter(|(name, _)| *name != own);
        let mut taken = others.flat_map(|(_, other)| other.functions.keys());
        taken
            .find(|name| library.functions.contains_key(*name))
            .cloned()
    }

    /// A function.
    pub(super) fn find(&self, name: &str) -> Option<Declared> {
        let mut libraries = self.all.values();
        libraries.find_map(|library| library.functions.get(name).cloned())
    }
}

/// What FUNCTION RESTORE does with libraries that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Restoring {
    /// They go.
    Flush,
    /// They stay, and none may have the name of one that comes.
    Append,
    /// They stay, but for those whose names come.
    Replace,
}

impl Engine {
    /// Learns a library, which the log gets; its name.
    pub(crate) fn load_library(&mut self, code: &[u8], replace: bool) -> Result<String, Fault> {
        let libraries = &mut self.scripts.libraries;
        let (name, library) = libraries.read(code)?;
        if !replace && libraries.all.contains_key(&name) {
            return Err(Fault::text(format!("ERR Library '{name}' already exists")));
        }
        if let Some(function) = libraries.collision(&name, &library) {
            return Err(Fault::text(format!(
                "ERR Function {function} already exists"
            )));
        }
        self.put_library(name.clone(), library);
        Ok(name)
    }

    /// Puts a library into the place of its name.
    fn put_library(&mut self, name: String, mut library: Library) {
        // The new record takes the old one's place.
        let old = self.scripts.libraries.all.get(&name);
        library.position = old.and_then(|old| old.position);
        if !self.changes.libraries.contains(&name) {
            self.changes.libraries.push(name.clone());
        }
        self.scripts.libraries.all.insert(name, library);
    }

    /// Learns all these libraries, or none.
    pub(crate) fn restore_libraries(
        &mut self,
        codes: &[Vec<u8>],
        how: Restoring,
    ) -> Result<(), Fault> {
        let libraries = &mut self.scripts.libraries;
        let mut found = std::collections::BTreeMap::new();
        for code in codes {
            let (name, library) = libraries.read(code)?;
            if found.contains_key(&name) {
                return Err(Fault::text(format!("ERR Library '{name}' already exists")));
            }
            found.insert(name, library);
        }
        let stays = |name: &String| match how {
            Restoring::Flush => false,
            Restoring::Replace => !found.contains_key(name),
            Restoring::Append => true,
        };
        let mut taken: std::collections::HashSet<&String> = std::collections::HashSet::new();
        let old = libraries.all.iter().filter(|(name, _)| stays(name));
        taken.extend(old.flat_map(|(_, library)| library.functions.keys()));
        for (name, library) in &found {
            if how == Restoring::Append && libraries.all.contains_key(name) {
                return Err(Fault::text(format!("ERR Library {name} already exists")));
            }
            if let Some(function) = library.functions.keys().find(|key| !taken.insert(key)) {
                return Err(Fault::text(format!(
                    "ERR Function {function} already exists"
                )));
            }
        }
        if how == Restoring::Flush {
            let gone = libraries
                .all
                .keys()
                .filter(|name| !found.contains_key(*name));
            for name in gone.cloned().collect::<Vec<String>>() {
                self.remove_library(&name);
            }
        }
        for (name, library) in found {
            self.put_library(name, library);
        }
        Ok(())
    }

    /// Forgets a library; whether there was one.
    pub(crate) fn remove_library(&mut self, name: &str) -> bool {
        let Some(library) = self.scripts.libraries.all.remove(name) else {
            return false;
        };
        self.changes.libraries.retain(|changed| changed != name);
        if let Some(position) = library.position {
            let shard = ShardId::of(name.as_bytes());
            self.changes.graves.push((shard, position));
        }
        true
    }

    /// Forgets all libraries.
    pub(crate) fn remove_libraries(&mut self) {
        let names: Vec<String> = self.scripts.libraries.all.keys().cloned().collect();
        for name in names {
            self.remove_library(&name);
        }
    }

    /// Takes libraries that the log had.
    pub(crate) fn take_libraries(&mut self, found: Vec<(Vec<u8>, Position)>) {
        for (code, position) in found {
            match self.scripts.libraries.read(&code) {
                Ok((name, mut library)) => {
                    library.position = Some(position);
                    self.scripts.libraries.all.insert(name, library);
                }
                // It stays in the log, for the version that can read it.
                Err(fault) => tracing::warn!(%fault, "a library of functions cannot be loaded"),
            }
        }
    }
}
