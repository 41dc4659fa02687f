//! The server: time, saving, slow commands.

use super::{Call, Command, Flags, command};
use crate::engine::Order;
use crate::fault::{Answer, Fault, SYNTAX};

const ADMIN: Flags = Flags::ADMIN.and(Flags::NO_SCRIPT);
const BASE: Flags = Flags::LOADING.and(Flags::FAST);

pub(super) static COMMANDS: &[Command] = &[
    command("time", 1, BASE, "server", time),
    command("lolwut", -1, Flags::FAST, "server", lolwut),
    command("bgrewriteaof", 1, ADMIN, "server", compact),
    command("bgsave", -1, ADMIN, "server", bgsave),
    command("save", 1, ADMIN, "server", save),
    command("lastsave", 1, BASE, "server", lastsave),
    command(
        "shutdown",
        -1,
        ADMIN.and(Flags::LOADING),
        "server",
        shutdown,
    ),
    command(
        "slowlog",
        -2,
        ADMIN.and(Flags::LOADING).and(Flags::CONTAINER),
        "server",
        slowlog,
    ),
    command(
        "monitor",
        1,
        ADMIN.and(Flags::LOADING).and(Flags::NO_MULTI),
        "server",
        monitor,
    ),
    command("module", -2, ADMIN.and(Flags::CONTAINER), "server", module),
];

fn time(call: &mut Call<'_>) -> Answer {
    let (seconds, micros) = (call.engine.now_ms / 1000, call.engine.now_ms % 1000 * 1000);
    let reply = call.reply();
    reply.array(2);
    reply.bulk(seconds.to_string().as_bytes());
    reply.bulk(micros.to_string().as_bytes());
    Ok(())
}

fn lolwut(call: &mut Call<'_>) -> Answer {
    call.reply().verbatim("Redis ver. 7.0.15\n");
    Ok(())
}

/// The log is compacted beside the work; a request makes it look now.
fn compact(call: &mut Call<'_>) -> Answer {
    call.engine.orders.push(Order::Compact);
    call.reply()
        .simple("Background append only file rewriting started");
    Ok(())
}

fn bgsave(call: &mut Call<'_>) -> Answer {
    if call.len() > 2 || (call.len() == 2 && !call.is(1, "SCHEDULE")) {
        return Err(SYNTAX);
    }
    begin_save(call)?;
    call.reply().simple("Background saving started");
    Ok(())
}

fn begin_save(call: &mut Call<'_>) -> Answer {
    if call.engine.is_saving() {
        return Err(Fault::of("ERR Background save already in progress"));
    }
    let begun = call.engine.begin_save();
    begun.map_err(|error| Fault::text(format!("ERR the RDB file cannot be written: {error}")))
}

/// Writes the file at once; all commands wait. The log is durable too when it answers.
fn save(call: &mut Call<'_>) -> Answer {
    if let Some(log) = call.engine.log() {
        for receipt in log.receipts() {
            log.durable(receipt)
                .map_err(|error| Fault::text(format!("ERR {error}")))?;
        }
    }
    begin_save(call)?;
    let saved = call.engine.finish_save();
    saved.map_err(|error| Fault::text(format!("ERR the RDB file cannot be written: {error}")))?;
    call.ok()
}

fn lastsave(call: &mut Call<'_>) -> Answer {
    let at = call.engine.stats.last_save_s;
    call.answer(at as i64)
}

fn shutdown(call: &mut Call<'_>) -> Answer {
    for word in call.rest(1) {
        match word.to_ascii_uppercase().as_slice() {
            b"NOSAVE" | b"SAVE" | b"NOW" | b"FORCE" => {}
            b"ABORT" => return Err(Fault::of("ERR No shutdown in progress.")),
            _ => return Err(SYNTAX),
        }
    }
    if call
        .rest(1)
        .iter()
        .any(|word| word.eq_ignore_ascii_case(b"SAVE"))
    {
        let failed = |_| Fault::of("ERR Errors trying to SHUTDOWN. Check logs.");
        if !call.engine.is_saving() {
            call.engine.begin_save().map_err(failed)?;
        }
        call.engine.finish_save().map_err(failed)?;
    }
    call.engine.scripts.abandon();
    call.engine.orders.push(Order::Shutdown);
    call.session.closing = true;
    Ok(())
}

fn slowlog(call: &mut Call<'_>) -> Answer {
    if call.sub("LEN", 2)? {
        let count = call.engine.stats.slow.len();
        return call.answer_count(count);
    }
    if call.sub("RESET", 2)? {
        call.engine.stats.slow.clear();
        return call.ok();
    }
    if call.sub("HELP", 2)? {
        return super::introspect::subcommands(call);
    }
    if !call.sub("GET", -2)? {
        return Err(call.unknown_subcommand());
    }
    let count = match call.len() {
        2 => 10,
        _ => {
            let wrong = Fault::of("ERR count should be greater than or equal to -1");
            match call.integer(2)? {
                -1 => usize::MAX,
                count => usize::try_from(count).map_err(|_| wrong)?,
            }
        }
    };
    let slow = &call.engine.stats.slow;
    let count = count.min(slow.len());
    let reply = &mut call.session.reply;
    reply.array(count);
    for one in slow.iter().take(count) {
        reply.array(6);
        reply.integer(one.id as i64);
        reply.integer(one.at_s as i64);
        reply.integer(one.micros as i64);
        reply.array(one.arguments.len());
        one.arguments
            .iter()
            .for_each(|argument| reply.bulk(argument));
        reply.bulk(one.address.as_bytes());
        reply.bulk(&one.name);
    }
    Ok(())
}

fn monitor(call: &mut Call<'_>) -> Answer {
    if !std::mem::replace(&mut call.session.monitor, true) {
        call.engine.monitors += 1;
    }
    call.ok()
}

fn module(call: &mut Call<'_>) -> Answer {
    if call.sub("LIST", 2)? {
        call.reply().array(0);
        return Ok(());
    }
    if call.sub("HELP", 2)? {
        return super::introspect::subcommands(call);
    }
    Err(Fault::of("ERR this server has no modules"))
}
