//! DEBUG, as far as tools need it.

use super::{Call, Command, Flags, command};
use crate::fault::{Answer, Fault, NO_SUCH_KEY};
use crate::protocol::Version;
use std::time::Duration;
use values::number::parse_double;

pub(super) static COMMANDS: &[Command] = &[command(
    "debug",
    -2,
    Flags::ADMIN.and(Flags::NO_SCRIPT).and(Flags::LOADING),
    "server",
    debug,
)];

/// Keys that DEBUG POPULATE makes at most, and bytes of their values: they go to the log at once.
const POPULATE_MAX: (usize, usize) = (1_000_000, 1 << 30);

/// Seconds that DEBUG SLEEP takes at most.
const SLEEP_S_MAX: f64 = 60.0;

fn debug(call: &mut Call<'_>) -> Answer {
    let word = call.arg(1).to_ascii_uppercase();
    match (word.as_slice(), call.len()) {
        (b"OBJECT", 3) => object(call),
        (b"SET-ACTIVE-EXPIRE", 3) => {
            call.engine.sweeps = call.arg(2) != b"0";
            call.ok()
        }
        (b"SLEEP", 3) => {
            let asked_s = parse_double(call.arg(2)).unwrap_or(0.0);
            // Nobody is served meanwhile: that is what it is for.
            std::thread::sleep(Duration::from_secs_f64(asked_s.clamp(0.0, SLEEP_S_MAX)));
            call.ok()
        }
        (b"ERROR", 3) => Err(Fault::text(String::from_utf8_lossy(call.arg(2)).into())),
        (b"LOG", 3) => {
            let text = String::from_utf8_lossy(call.arg(2));
            tracing::warn!(%text, "DEBUG LOG");
            call.ok()
        }
        (b"PROTOCOL", 3) => protocol(call),
        (b"POPULATE", 3..=5) => populate(call),
        (b"JMAP" | b"CHANGE-REPL-ID", 2) | (b"QUICKLIST-PACKED-THRESHOLD", 3) => call.ok(),
        (b"HELP", 2) => super::introspect::help(
            call,
            &[
                "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "ERROR <text>",
                "    Answer an error with this text.",
                "LOG <text>",
                "    Write a line to the log of the server.",
                "OBJECT <key>",
                "    Show what an entry takes.",
                "POPULATE <count> [<prefix> [<size>]]",
                "    Make keys prefix:0 and so on, where there are none.",
                "PROTOCOL <type>",
                "    Answer an example of a type of reply.",
                "SET-ACTIVE-EXPIRE <0|1>",
                "    Whether entries whose time is over are looked for.",
                "SLEEP <seconds>",
                "    Serve nobody for so long, for 60 seconds at most.",
                "HELP",
                "    Prints this help.",
            ],
        ),
        _ => {
            let word = String::from_utf8_lossy(call.arg(1));
            Err(Fault::text(format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try DEBUG HELP."
            )))
        }
    }
}

fn object(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(2));
    let entry = call.engine.peek(database, key).ok_or(NO_SUCH_KEY)?;
    let line = format!(
        "Value at:0 refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:0",
        entry.encoding(),
        entry.memory_bytes(),
        entry.access()
    );
    call.reply().simple(&line);
    Ok(())
}

fn populate(call: &mut Call<'_>) -> Answer {
    let number = |at: usize| {
        let number = call.integer(at).ok();
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.ok_or(Fault::of("ERR value is out of range, must be positive"))
    };
    let count = number(2)?;
    let prefix = match call.len() {
        3 => b"key",
        _ => call.arg(3),
    };
    let size = match call.len() {
        5 => number(4)?,
        _ => 0,
    };
    let (keys_max, bytes_max) = POPULATE_MAX;
    if count > keys_max || count.saturating_mul(size) > bytes_max {
        return Err(Fault::of(
            "ERR that is more than 1000000 keys, or more than 1 GiB of values",
        ));
    }
    call.engine.may_write()?;
    let database = call.db();
    for number in 0..count {
        call.engine.may_grow()?;
        let key = [prefix, format!(":{number}").as_bytes()].concat();
        if call.engine.exists(database, &key) {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        call.engine.put_text(database, &key, &value, None);
    }
    call.ok()
}

fn protocol(call: &mut Call<'_>) -> Answer {
    let word = call.arg(2).to_ascii_lowercase();
    let reply = call.reply();
    let is_three = reply.version == Version::Three;
    match word.as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(b"3.141"),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if is_three {
                reply.raw(b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n");
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if !is_three => {
            return Err(Fault::of("ERR RESP2 is not supported by this command"));
        }
        b"push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"verbatim" => reply.verbatim("This is a verbatim\nstring"),
        _ => {
            return Err(Fault::of(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}
