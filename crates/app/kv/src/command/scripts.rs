//! EVAL and its kin, SCRIPT.

use super::{Call, Command, Flags, command};
use crate::fault::{Answer, Fault};

const BASE: Flags = Flags::NO_SCRIPT.and(Flags::MOVABLE_KEYS);
const READS: Flags = BASE.and(Flags::READONLY);

pub(super) static COMMANDS: &[Command] = &[
    command("eval", -3, BASE, "scripting", eval),
    command("evalsha", -3, BASE, "scripting", evalsha),
    command("eval_ro", -3, READS, "scripting", eval_ro),
    command("evalsha_ro", -3, READS, "scripting", evalsha_ro),
    command(
        "script",
        -2,
        Flags::NO_SCRIPT.and(Flags::CONTAINER),
        "scripting",
        script,
    ),
];

/// Words of a request.
type Words<'a> = &'a [&'a [u8]];

/// Keys and other arguments, behind their number.
pub(super) fn split<'a>(call: &Call<'a>) -> Result<(Words<'a>, Words<'a>), Fault> {
    let count = call.integer(2)?;
    let rest = call.rest(3);
    if count > rest.len() as i64 {
        return Err(Fault::of(
            "ERR Number of keys can't be greater than number of args",
        ));
    }
    let count =
        usize::try_from(count).map_err(|_| Fault::of("ERR Number of keys can't be negative"))?;
    Ok(rest.split_at(count))
}

fn by_text(call: &mut Call<'_>, read_only: bool) -> Answer {
    let (keys, arguments) = split(call)?;
    let body = call.arg(1);
    let hash = call.engine.scripts.learn(body)?;
    call.engine
        .evaluate(call.session, &hash, keys, arguments, read_only)
}

fn by_hash(call: &mut Call<'_>, read_only: bool) -> Answer {
    const NONE: Fault = Fault::of("NOSCRIPT No matching script. Please use EVAL.");
    let hash = std::str::from_utf8(call.arg(1)).map_err(|_| NONE)?;
    if hash.len() != 40 {
        return Err(NONE);
    }
    let (keys, arguments) = split(call)?;
    let hash = hash.to_ascii_lowercase();
    call.engine
        .evaluate(call.session, &hash, keys, arguments, read_only)
}

fn eval(call: &mut Call<'_>) -> Answer {
    by_text(call, false)
}

fn eval_ro(call: &mut Call<'_>) -> Answer {
    by_text(call, true)
}

fn evalsha(call: &mut Call<'_>) -> Answer {
    by_hash(call, false)
}

fn evalsha_ro(call: &mut Call<'_>) -> Answer {
    by_hash(call, true)
}

/// Whether a flush is to be done in the background: it is done at once in either way.
pub(super) fn flush_mode(call: &Call<'_>, name: &str) -> Answer {
    if call.len() > 3 || (call.len() == 3 && !call.is(2, "SYNC") && !call.is(2, "ASYNC")) {
        // Redis says the one so and the other so.
        let says = if name == "SCRIPT" {
            "support"
        } else {
            "supports"
        };
        return Err(Fault::text(format!(
            "ERR {name} FLUSH only {says} SYNC|ASYNC option"
        )));
    }
    Ok(())
}

fn script(call: &mut Call<'_>) -> Answer {
    if call.sub("LOAD", 3)? {
        let hash = call.engine.scripts.learn(call.arg(2))?;
        call.reply().bulk(hash.as_bytes());
        return Ok(());
    }
    if call.sub("EXISTS", -3)? {
        let hashes = call.rest(2);
        call.reply().array(hashes.len());
        for hash in hashes {
            let known = call.engine.scripts.knows(hash);
            call.reply().flag(known);
        }
        return Ok(());
    }
    if call.sub("FLUSH", -2)? {
        flush_mode(call, "SCRIPT")?;
        call.engine.scripts.flush();
        return call.ok();
    }
    if call.sub("KILL", 2)? {
        return call.engine.kill_script(true).and_then(|()| call.ok());
    }
    if call.sub("DEBUG", 3)? {
        return match call.is(2, "NO") {
            true => call.ok(),
            false => Err(Fault::of("ERR scripts cannot be debugged here")),
        };
    }
    if call.sub("HELP", 2)? {
        return super::introspect::help(
            call,
            &[
                "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "DEBUG (YES|SYNC|NO)",
                "    Set the debug mode for subsequent scripts executed.",
                "EXISTS <sha1> [<sha1> ...]",
                "    Return information about the existence of the scripts in the script cache.",
                "FLUSH [ASYNC|SYNC]",
                "    Flush the Lua scripts cache. Very dangerous on replicas.",
                "    When called without the optional mode argument, the behavior is determined \
                 by the",
                "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
                "    * ASYNC: Asynchronously flush the scripts cache.",
                "    * SYNC: Synchronously flush the scripts cache.",
                "KILL",
                "    Kill the currently executing Lua script.",
                "LOAD <script>",
                "    Load a script into the scripts cache without executing it.",
                "HELP",
                "    Prints this help.",
            ],
        );
    }
    Err(call.unknown_subcommand())
}

#[cfg(test)]
mod tests {
    use crate::script::sha1_hex;

    #[test]
    fn the_name_of_a_script_is_its_sha1() {
        assert_eq!(
            sha1_hex(b"return 1"),
            "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
        );
    }
}
