//! Scripts: what is known of them, and how one runs. All that a script changes is one group of the log.

use crate::acl::{Context, Denied};
use crate::command::{self, Flags as Does};
use crate::engine::Engine;
use crate::fault::{Answer, Fault};
use crate::protocol::Version;
use crate::session::{Session, Token};
use machine::{Ask, CLOCK, COMMANDS, Machine};
use mlua::{Function, Lua, MultiValue, Value};
use std::cell::RefCell;
use std::collections::HashMap;

mod bits;
mod json;
mod libraries;
mod machine;
mod msgpack;
mod number;
mod raised;
mod reply;
mod shebang;
mod structs;

use libraries::Libraries;
pub(crate) use libraries::Restoring;
pub(crate) use number::format_general;
use shebang::Traits;

/// A script that is known.
#[derive(Clone)]
struct Script {
    traits: Traits,
    function: Function,
}

/// All scripts.
#[derive(Default)]
pub(crate) struct Scripts {
    machine: Option<Machine>,
    known: HashMap<String, Script>,
    pub(crate) libraries: Libraries,
    /// What runs now.
    pub(crate) running: Option<Running>,
    /// A planted fault: each command of a script is a group of its own.
    pub(crate) apart: bool,
}

/// A script that runs.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    /// Who runs it.
    pub(crate) caller: Token,
    /// Its hash, or the name of the function.
    pub(crate) name: String,
    /// What was asked for, of FCALL.
    pub(crate) command: Vec<Vec<u8>>,
    /// Whether it is EVAL, and not FCALL.
    pub(crate) evaluates: bool,
    read_only: bool,
    allow_oom: bool,
    /// Whether there was no memory left when it began.
    no_memory: bool,
    /// Whether it changed something.
    pub(crate) wrote: bool,
    /// When it began, in microseconds of the process.
    pub(crate) since_us: u64,
    /// Whether others are told that it takes long.
    pub(crate) busy: bool,
    /// Whether it has to end.
    pub(crate) killed: bool,
    /// Whether what it changed is to be forgotten: the process ends.
    pub(crate) abandoned: bool,
    /// The caller, as CLIENT INFO shows it, where something may be refused.
    pub(crate) client: String,
}

/// What drives the engine, as a script that takes long needs it: time, and other clients.
pub trait Outside: std::any::Any + Send {
    /// Sets the engine's time.
    fn set_time(&mut self, engine: &mut Engine);

    /// Runs requests of other clients: most are told that a script takes long.
    fn serve(&mut self, engine: &mut Engine);
}

/// SHA-1 in hexadecimal digits: the name of a script.
pub(crate) fn sha1_hex(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, bytes);
    hex(digest.as_ref())
}

/// Hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What Lua itself says of a failure.
fn words_of(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::RuntimeError(text) | mlua::Error::MemoryError(text) => text.clone(),
        mlua::Error::CallbackError { cause, .. } => words_of(cause),
        other => other.to_string(),
    }
}

fn no_machine(error: mlua::Error) -> Fault {
    Fault::text(format!("ERR the interpreter failed: {}", words_of(&error)))
}

impl Scripts {
    /// Has the script that runs end, and what it changed be forgotten: the process ends.
    pub(crate) fn abandon(&mut self) {
        if let Some(running) = &mut self.running {
            running.killed = true;
            running.abandoned = true;
        }
    }

    /// Why a command cannot run, while a script takes long.
    pub(crate) fn may_admit(&self, name: &str, arguments: &[&[u8]]) -> Answer {
        let Some(running) = self.running.as_ref().filter(|running| running.busy) else {
            return Ok(());
        };
        let second = arguments.get(1).copied().unwrap_or_default();
        let is = |word: &[u8]| second.eq_ignore_ascii_case(word);
        let allowed = match name {
            "auth" | "hello" | "quit" | "reset" | "multi" | "discard" | "watch" | "unwatch" => true,
            "script" => is(b"KILL"),
            "function" => is(b"KILL") || is(b"STATS"),
            "shutdown" => is(b"NOSAVE"),
            _ => false,
        };
        match allowed {
            true => Ok(()),
            false => Err(busy(running.evaluates)),
        }
    }

    /// Whether a script or a function says that it changes nothing. `body` is what EVAL, EVALSHA or FCALL name it by.
    pub(crate) fn only_reads(&self, command: &str, body: &[u8]) -> bool {
        let name = String::from_utf8_lossy(body);
        let traits = match command {
            "eval" => shebang::parse(body).ok().map(|(traits, _)| traits),
            "evalsha" => {
                let script = self.known.get(&name.to_ascii_lowercase());
                script.map(|script| script.traits)
            }
            _ => self.libraries.find(&name).map(|declared| declared.traits),
        };
        traits.is_some_and(|traits| !traits.undeclared && traits.no_writes)
    }

    /// Whether a library has a function.
    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.libraries.find(name).is_some()
    }

    /// Forgets all of EVAL.
    pub(crate) fn flush(&mut self) {
        self.known.clear();
        self.machine = None;
    }

    /// Whether a script is known, by its hash.
    pub(crate) fn knows(&self, hash: &[u8]) -> bool {
        std::str::from_utf8(hash)
            .is_ok_and(|hash| self.known.contains_key(&hash.to_ascii_lowercase()))
    }

    /// How many are known, and the bytes of memory of the interpreter.
    pub(crate) fn size(&self) -> (usize, usize) {
        let used = self
            .machine
            .as_ref()
            .map(|machine| machine.lua.used_memory());
        (self.known.len(), used.unwrap_or(0))
    }

    /// Learns a script; its hash.
    pub(crate) fn learn(&mut self, body: &[u8]) -> Result<String, Fault> {
        let hash = sha1_hex(body);
        if self.known.contains_key(&hash) {
            return Ok(hash);
        }
        let (traits, first_line) = shebang::parse(body)?;
        let machine = match &mut self.machine {
            Some(machine) => machine,
            none => none.insert(Machine::new().map_err(no_machine)?),
        };
        let function = compile(machine, body.get(first_line..).unwrap_or_default())?;
        self.known.insert(hash.clone(), Script { traits, function });
        Ok(hash)
    }
}

fn compile(machine: &Machine, body: &[u8]) -> Result<Function, Fault> {
    let chunk = machine.lua.load(body).set_name("@user_script");
    let chunk = chunk.set_mode(mlua::ChunkMode::Text).into_function();
    chunk.map_err(|error| {
        Fault::text(format!(
            "ERR Error compiling script (new function): {}",
            words_of(&error)
        ))
    })
}

/// What a run is given.
struct Given<'a> {
    name: String,
    traits: Traits,
    read_only: bool,
    evaluates: bool,
    keys: &'a [&'a [u8]],
    arguments: &'a [&'a [u8]],
}

impl Given<'_> {
    /// The request, of a function.
    fn command(&self) -> Vec<Vec<u8>> {
        if self.evaluates {
            return Vec::new();
        }
        let name = if self.read_only { "fcall_ro" } else { "fcall" };
        let count = self.keys.len().to_string();
        let head = [name.as_bytes(), self.name.as_bytes(), count.as_bytes()];
        let words = head.iter().chain(self.keys).chain(self.arguments);
        words.map(|word| word.to_vec()).collect()
    }
}

/// Engine and session of a run, while Lua has them.
struct Lent<'a> {
    engine: &'a mut Engine,
    /// The session that commands of the script run in.
    session: Box<Session>,
}

impl Engine {
    /// EVAL and EVALSHA: the script of a hash.
    pub(crate) fn evaluate(
        &mut self,
        session: &mut Session,
        hash: &str,
        keys: &[&[u8]],
        arguments: &[&[u8]],
        read_only: bool,
    ) -> Answer {
        let Some(script) = self.scripts.known.get(hash).cloned() else {
            return Err(Fault::of("NOSCRIPT No matching script. Please use EVAL."));
        };
        let given = Given {
            name: hash.to_owned(),
            traits: script.traits,
            read_only,
            evaluates: true,
            keys,
            arguments,
        };
        let Some(machine) = self.scripts.machine.take() else {
            return Err(Fault::of("NOSCRIPT No matching script. Please use EVAL."));
        };
        let done = self.run_script(session, &machine, &script.function, given);
        self.scripts.machine = Some(machine);
        done
    }

    /// FCALL: a function of a library.
    pub(crate) fn call_function(
        &mut self,
        session: &mut Session,
        name: &str,
        keys: &[&[u8]],
        arguments: &[&[u8]],
        read_only: bool,
    ) -> Answer {
        const NONE: Fault = Fault::of("ERR Function not found");
        let declared = self.scripts.libraries.find(name).ok_or(NONE)?;
        let given = Given {
            name: name.to_owned(),
            traits: declared.traits,
            read_only,
            evaluates: false,
            keys,
            arguments,
        };
        let machine = self.scripts.libraries.machine.take().ok_or(NONE)?;
        let done = self.run_script(session, &machine, &declared.function, given);
        self.scripts.libraries.machine = Some(machine);
        done
    }

    /// Whether a script may begin.
    fn may_run(&mut self, given: &Given<'_>, no_memory: bool) -> Answer {
        let traits = given.traits;
        if traits.undeclared {
            return Ok(());
        }
        if !traits.allow_oom && no_memory {
            return Err(Fault::of(
                "OOM allow-oom flag is not set on the script, can not run it when used memory > \
                 'maxmemory'",
            ));
        }
        if !traits.no_writes {
            if let Some(error) = self.refuses() {
                return Err(Fault::text(format!(
                    "MISCONF Writable scripts are refused, those with the flag no-writes run: {error}"
                )));
            }
            if given.read_only {
                return Err(Fault::of(
                    "ERR Can not execute a script with write flag using *_ro command.",
                ));
            }
        }
        Ok(())
    }

    fn run_script(
        &mut self,
        session: &mut Session,
        machine: &Machine,
        function: &Function,
        given: Given<'_>,
    ) -> Answer {
        let no_memory = self.config.maxmemory > 0 && self.may_grow().is_err();
        self.may_run(&given, no_memory)?;
        let mut inner = Box::new(Session::new(
            session.id,
            session.token,
            ["lua".to_owned(), String::new()],
            self.now_ms,
            session.user.clone(),
        ));
        inner.database = session.database;
        inner.authenticated = true;
        self.scripts.running = Some(Running {
            caller: session.token,
            name: given.name.clone(),
            command: given.command(),
            evaluates: given.evaluates,
            read_only: given.read_only || (!given.traits.undeclared && given.traits.no_writes),
            allow_oom: !given.traits.undeclared && given.traits.allow_oom,
            no_memory,
            wrote: false,
            since_us: self.now_us,
            busy: false,
            killed: false,
            abandoned: false,
            client: match session.user.is_unrestricted() {
                true => String::new(),
                false => command::describe_client(self, session),
            },
        });
        let in_transaction = std::mem::replace(&mut self.in_transaction, true);
        let lent = RefCell::new(Lent {
            engine: self,
            session: inner,
        });
        let outcome = machine.lua.scope(|scope| {
            let lua = &machine.lua;
            let commands = scope.create_function(|lua, arguments: MultiValue| {
                let mut lent = lent.try_borrow_mut().map_err(mlua::Error::external)?;
                lent.answer(lua, arguments)
            })?;
            lua.set_named_registry_value(COMMANDS, commands)?;
            let clock = scope.create_function(|lua, ()| match lent.try_borrow_mut() {
                Ok(mut lent) => lent.look(lua),
                Err(_) => Ok(()),
            })?;
            lua.set_named_registry_value(CLOCK, clock)?;
            let keys = array(lua, given.keys)?;
            let arguments = array(lua, given.arguments)?;
            let (done, value): (bool, Value) = match given.evaluates {
                true => {
                    machine.globals.raw_set("KEYS", keys)?;
                    machine.globals.raw_set("ARGV", arguments)?;
                    machine.run.call(function)?
                }
                false => machine.run.call((function, keys, arguments))?,
            };
            let version = lent.borrow().session.reply.version;
            Ok(match done {
                true => {
                    reply::from_lua(&mut session.reply, &value, version);
                    None
                }
                false => Some(failure(&given.name, &value)),
            })
        });
        self.in_transaction = in_transaction;
        let ended = self.scripts.running.take();
        if ended.as_ref().is_some_and(|ended| ended.abandoned) {
            // The process ends, and the log has nothing of this script. Nobody sees what it left.
            self.changes = crate::changes::Changes::default();
            self.waiters.ready.clear();
            self.mode = crate::engine::Mode::Loading;
        }
        // What lent the engine is gone; a function that outlived the run finds nothing.
        let lua = &machine.lua;
        let cleared = lua
            .set_named_registry_value(COMMANDS, Value::Nil)
            .and_then(|()| lua.set_named_registry_value(CLOCK, Value::Nil));
        cleared.map_err(no_machine)?;
        if ended.is_some_and(|ended| ended.killed) {
            machine.look_often(false).map_err(no_machine)?;
        }
        match outcome {
            Ok(None) => Ok(()),
            Ok(Some((text, true))) => {
                session.reply.error(&text);
                Ok(())
            }
            Ok(Some((text, false))) => Err(Fault::text(text)),
            Err(error) => Err(Fault::text(format!(
                "ERR Error running script {}, {}",
                given.name,
                words_of(&error)
            ))),
        }
    }

    /// Why the log takes no changes, if it takes none.
    fn refuses(&self) -> Option<vlog::VlogError> {
        self.journal.as_ref()?.refuses()
    }

    /// Whether a command of a script may run; it is looked up.
    fn may_call(
        &mut self,
        session: &Session,
        arguments: &[&[u8]],
    ) -> Result<&'static command::Command, Fault> {
        let name = arguments.first().copied().unwrap_or_default();
        let command =
            command::find(name).ok_or(Fault::of("ERR Unknown Redis command called from script"))?;
        command
            .check_arity(arguments)
            .map_err(|_| Fault::of("ERR Wrong number of args calling Redis command from script"))?;
        if command.does(Does::NO_SCRIPT) {
            return Err(Fault::of(
                "ERR This Redis command is not allowed from script",
            ));
        }
        if !session.user.is_unrestricted() {
            let permitted = self.permit(session, Context::Lua, arguments);
            permitted.map_err(|denied| match denied {
                Denied::Command => {
                    Fault::of("ERR The user executing the script can't run this command or subcommand")
                }
                Denied::Key(_) => Fault::of(
                    "ERR The user executing the script can't access at least one of the keys mentioned in the \
                     command arguments",
                ),
                Denied::Channel(_) => Fault::of(
                    "ERR The user executing the script can't publish to the channel mentioned in the command",
                ),
            })?;
        }
        let Some(running) = self.scripts.running.clone() else {
            return Err(Fault::of("ERR no script runs"));
        };
        if command.does(Does::WRITE) {
            if running.read_only {
                return Err(Fault::of(
                    "ERR Write commands are not allowed from read-only scripts.",
                ));
            }
            // In the middle of a script there is no way back.
            if !running.wrote
                && let Some(error) = self.refuses()
            {
                return Err(Fault::text(format!(
                    "MISCONF Writes are refused, reads are served: {error}"
                )));
            }
        }
        if command.does(Does::DENY_OOM) && running.no_memory && !running.allow_oom && !running.wrote
        {
            return Err(Fault::of(
                "OOM command not allowed when used memory > 'maxmemory'.",
            ));
        }
        if command.does(Does::WRITE)
            && let Some(running) = &mut self.scripts.running
        {
            running.wrote = true;
        }
        Ok(command)
    }
}

/// The text of a failed script, and whether INFO has counted it.
fn failure(name: &str, value: &Value) -> (String, bool) {
    let Value::Table(table) = value else {
        let text = value.to_string().unwrap_or_default();
        return (format!("ERR Error running script {name}, {text}"), false);
    };
    let shown = |field: &str| match table.raw_get::<Value>(field) {
        Ok(Value::String(text)) => Some(String::from_utf8_lossy(&text.as_bytes()).into_owned()),
        Ok(Value::Integer(number)) => Some(number.to_string()),
        _ => None,
    };
    let mut text = shown("err").unwrap_or_else(|| "ERR unknown error".to_owned());
    if let (Some(source), Some(line)) = (shown("source"), shown("line")) {
        text.push_str(&format!(" script: {name}, on {source}:{line}."));
    }
    let counted = table.raw_get("ignore_error_stats_update").unwrap_or(false);
    (text, counted)
}

fn array(lua: &Lua, words: &[&[u8]]) -> mlua::Result<mlua::Table> {
    let table = lua.create_table_with_capacity(words.len(), 0)?;
    for (index, word) in (1..).zip(words) {
        table.raw_set(index, lua.create_string(word)?)?;
    }
    Ok(table)
}

/// Arguments of `redis.call` as words.
fn words(arguments: MultiValue) -> Result<Vec<Vec<u8>>, &'static str> {
    if arguments.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    arguments
        .into_iter()
        .map(|argument| match argument {
            Value::String(text) => Ok(text.as_bytes().to_vec()),
            Value::Integer(value) => Ok(number::format_general(value as f64, 17).into_bytes()),
            Value::Number(value) => Ok(number::format_general(value, 17).into_bytes()),
            _ => Err("ERR Lua redis lib command arguments must be strings or integers"),
        })
        .collect()
}

fn error(lua: &Lua, text: &str, counted: bool) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set("err", lua.create_string(text)?)?;
    if counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(Value::Table(table))
}

impl Lent<'_> {
    /// Looks at the time, and serves others where the script takes long.
    fn look(&mut self, lua: &Lua) -> mlua::Result<()> {
        let engine = &mut *self.engine;
        let Some(mut outside) = engine.outside.take() else {
            return Ok(());
        };
        // A script sees one time from its begin to its end.
        let (began_ms, began_us) = (engine.now_ms, engine.now_us);
        outside.set_time(engine);
        let threshold_us = engine.config.busy_reply_us();
        let now_us = engine.now_us;
        let mut killed = false;
        if let Some(running) = &mut engine.scripts.running {
            let took_us = now_us.saturating_sub(running.since_us);
            if threshold_us > 0 && took_us >= threshold_us && !running.busy {
                running.busy = true;
                tracing::warn!(
                    script = %running.name,
                    "a script takes long: SCRIPT KILL or FUNCTION KILL ends it"
                );
            }
            if running.busy {
                // What others ask for is no part of this script's reply.
                let due = engine.due;
                outside.serve(engine);
                engine.due = due;
                killed = engine
                    .scripts
                    .running
                    .as_ref()
                    .is_some_and(|running| running.killed);
            }
        }
        engine.set_time(began_ms, began_us);
        engine.outside = Some(outside);
        if !killed {
            return Ok(());
        }
        // From here on every line fails, so that no pcall keeps the script alive.
        machine::look_often(lua, true)?;
        Err(raised::raise(
            "ERR Script killed by user with SCRIPT KILL...",
        ))
    }

    /// What a script asks of the engine. A failure is a table with its text.
    fn answer(&mut self, lua: &Lua, mut arguments: MultiValue) -> mlua::Result<Value> {
        let ask = match arguments.pop_front() {
            Some(Value::Integer(ask)) => ask,
            _ => -1,
        };
        if ask == Ask::SetVersion as i64 {
            return self.set_version(lua, arguments);
        }
        if ask == Ask::Register as i64 {
            return error(
                lua,
                "ERR redis.register_function can only be called on FUNCTION LOAD command",
                false,
            );
        }
        let words = match words(arguments) {
            Ok(words) => words,
            Err(text) => return error(lua, text, false),
        };
        let arguments: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        if ask == Ask::CheckCommand as i64 {
            return match command::about::look_up(&arguments) {
                Some(about) => Ok(Value::Boolean(
                    self.session.user.check(about, &arguments).is_ok(),
                )),
                None => error(
                    lua,
                    "ERR Invalid command passed to redis.acl_check_cmd()",
                    false,
                ),
            };
        }
        let command = match self.engine.may_call(&self.session, &arguments) {
            Ok(command) => command,
            Err(fault) => return error(lua, &fault.0, true),
        };
        self.session.reply.clear();
        self.engine.run(&mut self.session, command, &arguments);
        if self.engine.scripts.apart {
            // What fails is tried again with the whole.
            let _ = self.engine.commit();
        }
        let bytes = self.session.reply.take();
        reply::to_lua(lua, &mut bytes.as_slice())
    }

    fn set_version(&mut self, lua: &Lua, arguments: MultiValue) -> mlua::Result<Value> {
        if arguments.len() != 1 {
            return error(lua, "ERR redis.setresp() requires one argument.", false);
        }
        let version = match arguments.front().cloned() {
            Some(value) => lua.coerce_number(value)?.unwrap_or(0.0) as i64,
            None => 0,
        };
        self.session.reply.version = match version {
            2 => Version::Two,
            3 => Version::Three,
            _ => return error(lua, "ERR RESP version must be 2 or 3.", false),
        };
        Ok(Value::Nil)
    }
}

impl Engine {
    /// Has the script that takes long end.
    ///
    /// # Errors
    /// In the words of SCRIPT KILL and FUNCTION KILL.
    pub(crate) fn kill_script(&mut self, evaluates: bool) -> Answer {
        let Some(running) = &mut self.scripts.running else {
            return Err(Fault::of("NOTBUSY No scripts in execution right now."));
        };
        if running.wrote {
            return Err(Fault::of(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. \
                 You can either wait the script termination or kill the server in a hard way using \
                 the SHUTDOWN NOSAVE command.",
            ));
        }
        if running.evaluates != evaluates {
            return Err(busy(running.evaluates));
        }
        running.killed = true;
        Ok(())
    }
}

/// What others are told while a script takes long.
pub(crate) fn busy(evaluates: bool) -> Fault {
    match evaluates {
        true => Fault::of(
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        ),
        false => Fault::of(
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN \
             NOSAVE.",
        ),
    }
}
