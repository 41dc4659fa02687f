//! MULTI, EXEC, DISCARD, WATCH.

use super::{Call, Command, Flags, command, find};
use crate::acl::{Context, Denied};
use crate::fault::{Answer, Fault};
use crate::transaction::Queue;

const BASE: Flags = Flags::LOADING.and(Flags::FAST).and(Flags::NO_QUEUE);

pub(super) static COMMANDS: &[Command] = &[
    command(
        "multi",
        1,
        BASE.and(Flags::NO_SCRIPT),
        "transactions",
        multi,
    ),
    command("exec", 1, BASE.and(Flags::NO_SCRIPT), "transactions", exec),
    command(
        "discard",
        1,
        BASE.and(Flags::NO_SCRIPT),
        "transactions",
        discard,
    ),
    command(
        "watch",
        -2,
        BASE.and(Flags::NO_SCRIPT),
        "transactions",
        watch,
    ),
    command(
        "unwatch",
        1,
        Flags::LOADING.and(Flags::FAST),
        "transactions",
        unwatch,
    ),
];

fn multi(call: &mut Call<'_>) -> Answer {
    if call.session.queue.is_some() {
        return Err(Fault::of("ERR MULTI calls can not be nested"));
    }
    call.session.queue = Some(Queue::default());
    call.ok()
}

fn exec(call: &mut Call<'_>) -> Answer {
    let Some(queue) = call.session.queue.take() else {
        return Err(Fault::of("ERR EXEC without MULTI"));
    };
    // What is over by now was changed.
    for (database, key) in call.session.watched.clone() {
        call.engine.exists(database, &key);
    }
    let broken = call.session.watch_broken || call.engine.is_broken(call.session.token);
    call.engine.unwatch(call.session);
    if queue.refused {
        return Err(Fault::of(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    if broken {
        call.reply().null_array();
        return Ok(());
    }
    call.reply().array(queue.commands.len());
    call.engine.in_transaction = true;
    for words in &queue.commands {
        let arguments: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        if let Err(fault) = still_permitted(call, &arguments) {
            call.engine.stats.count_error(&fault);
            call.reply().error(&fault.0);
            continue;
        }
        if let Some(command) = arguments.first().and_then(|name| find(name)) {
            call.engine.run(call.session, command, &arguments);
        }
    }
    call.engine.in_transaction = false;
    Ok(())
}

/// Whether the user may still run what was queued.
fn still_permitted(call: &mut Call<'_>, arguments: &[&[u8]]) -> Answer {
    if call.session.user.is_unrestricted() {
        return Ok(());
    }
    let permitted = call.engine.permit(call.session, Context::Multi, arguments);
    permitted.map_err(|denied| {
        let why = match denied {
            Denied::Command => "no permission to execute the command or subcommand",
            Denied::Key(_) => "no permission to touch the specified keys",
            Denied::Channel(_) => {
                "no permission to access one of the channels used as arguments to the command"
            }
        };
        Fault::text(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
             This command is no longer allowed for the following reason: {why}"
        ))
    })
}

fn discard(call: &mut Call<'_>) -> Answer {
    if call.session.queue.take().is_none() {
        return Err(Fault::of("ERR DISCARD without MULTI"));
    }
    call.engine.unwatch(call.session);
    call.ok()
}

fn watch(call: &mut Call<'_>) -> Answer {
    if call.session.queue.is_some() {
        return Err(Fault::of("ERR WATCH inside MULTI is not allowed"));
    }
    let (database, token) = (call.db(), call.session.token);
    for key in call.rest(1) {
        // One that is over goes now, and does not break anything later.
        call.engine.exists(database, key);
        let place = (database, Box::from(*key));
        if !call.session.watched.contains(&place) {
            call.engine.watchers.add(&place, token);
            call.session.watched.push(place);
        }
    }
    call.ok()
}

fn unwatch(call: &mut Call<'_>) -> Answer {
    call.engine.unwatch(call.session);
    call.ok()
}
