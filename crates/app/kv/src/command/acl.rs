//! ACL: users and their rules.

use super::about::{self, CATEGORIES};
use super::{Call, Command, Flags, command};
use crate::acl::{Denied, Selector, User, has_spaces, merge_selectors};
use crate::fault::{Answer, Fault};
use crate::protocol::Reply;
use crate::script::hex;
use ring::rand::{SecureRandom as _, SystemRandom};

pub(super) static COMMANDS: &[Command] = &[command(
    "acl",
    -2,
    Flags::ADMIN
        .and(Flags::NO_SCRIPT)
        .and(Flags::LOADING)
        .and(Flags::CONTAINER),
    "server",
    acl,
)];

/// Bits of a password that ACL GENPASS gives at most.
const PASSWORD_BITS_MAX: i64 = 4096;

const HELP: &[&str] = &[
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Prints this help.",
];

fn acl(call: &mut Call<'_>) -> Answer {
    match call.arg(1).to_ascii_uppercase().as_slice() {
        b"CAT" => categories(call),
        b"DELUSER" => remove(call),
        b"DRYRUN" => dry_run(call),
        b"GENPASS" => password(call),
        b"GETUSER" => user(call),
        b"HELP" => super::introspect::help(call, HELP),
        b"LIST" => list(call, User::show),
        b"LOAD" => load(call),
        b"LOG" => log(call),
        b"SAVE" => save(call),
        b"SETUSER" => set(call),
        b"USERS" => list(call, |user| user.name().to_vec()),
        b"WHOAMI" => {
            let name = call.session.user.name().to_vec();
            call.reply().bulk(&name);
            Ok(())
        }
        _ => Err(call.unknown_subcommand()),
    }
}

/// The refusal of a number of arguments that a subcommand does not take, though its row says at least so many.
fn too_many(call: &Call<'_>) -> Fault {
    let word = String::from_utf8_lossy(call.arg(1)).into_owned();
    Fault::text(format!(
        "ERR unknown subcommand or wrong number of arguments for '{word}'. Try ACL HELP."
    ))
}

fn shown(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}

fn categories(call: &mut Call<'_>) -> Answer {
    let names: Vec<&str> = match call.len() {
        2 => CATEGORIES.to_vec(),
        3 => {
            let name = call.arg(2);
            let unknown = || {
                let cut = name.get(..128).unwrap_or(name);
                Fault::text(format!("ERR Unknown category '{}'", shown(cut)))
            };
            let category = about::category(name).ok_or_else(unknown)?;
            let of_it = about::all().iter().filter(|about| about.is_in(category));
            of_it.map(|about| about.name).collect()
        }
        _ => return Err(too_many(call)),
    };
    let reply = call.reply();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

fn list(call: &mut Call<'_>, show: fn(&User) -> Vec<u8>) -> Answer {
    let users = call.engine.acl.users();
    let reply = &mut call.session.reply;
    reply.array(users.len());
    users.for_each(|user| reply.bulk(&show(user)));
    Ok(())
}

fn set(call: &mut Call<'_>) -> Answer {
    let name = call.arg(2);
    if has_spaces(name) {
        return Err(Fault::of(
            "ERR Usernames can't contain spaces or null characters",
        ));
    }
    let rules = merge_selectors(call.rest(3)).map_err(|at| {
        Fault::text(format!(
            "ERR Unmatched parenthesis in acl selector starting at '{}'.",
            shown(call.arg(at + 3))
        ))
    })?;
    let all_channels = call.engine.config.channels_by_default();
    let known = call.engine.acl.user(name);
    let mut user = match known {
        Some(user) => (**user).clone(),
        None => User::new(name, all_channels),
    };
    for rule in rules {
        user.apply(&rule, all_channels).map_err(|error| {
            Fault::text(format!(
                "ERR Error in ACL SETUSER modifier '{}': {error}",
                shown(&rule)
            ))
        })?;
    }
    call.engine.put_user(call.session, user);
    call.ok()
}

fn remove(call: &mut Call<'_>) -> Answer {
    if call.rest(2).contains(&crate::acl::DEFAULT) {
        return Err(Fault::of("ERR The 'default' user cannot be removed"));
    }
    let names = call.rest(2).iter();
    let acl = &mut call.engine.acl;
    let count = names.filter(|name| acl.remove(name)).count();
    call.engine.refresh_users(call.session, false);
    call.answer_count(count)
}

fn selector(reply: &mut Reply, selector: &Selector) {
    reply.bulk(b"commands");
    reply.bulk(&selector.show_commands());
    reply.bulk(b"keys");
    reply.bulk(&selector.show_keys());
    reply.bulk(b"channels");
    reply.bulk(&selector.show_channels());
}

fn user(call: &mut Call<'_>) -> Answer {
    let Some(user) = call.engine.acl.user(call.arg(2)) else {
        call.session.reply.null();
        return Ok(());
    };
    let reply = &mut call.session.reply;
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    let hashes = user.hashes();
    reply.array(hashes.len());
    hashes.for_each(|hash| reply.bulk(hash.as_bytes()));
    let (root, more) = user.rules();
    selector(reply, root);
    reply.bulk(b"selectors");
    reply.array(more.len());
    for one in more {
        reply.map(3);
        selector(reply, one);
    }
    Ok(())
}

fn dry_run(call: &mut Call<'_>) -> Answer {
    let arguments = call.rest(3);
    let Some(user) = call.engine.acl.user(call.arg(2)) else {
        let name = shown(call.arg(2));
        return Err(Fault::text(format!("ERR User '{name}' not found")));
    };
    let Some(about) = about::look_up(arguments) else {
        let name = shown(call.arg(3));
        return Err(Fault::text(format!("ERR Command '{name}' not found")));
    };
    if !about.takes(arguments.len()) {
        return Err(Fault::arity(about.name));
    }
    let argument = |at: usize| shown(arguments.get(at).copied().unwrap_or_default());
    let text = match user.check(about, arguments) {
        Ok(()) => return call.ok(),
        Err(Denied::Command) => format!(
            "This user has no permissions to run the '{}' command",
            about.name
        ),
        Err(Denied::Key(at)) => format!(
            "This user has no permissions to access the '{}' key",
            argument(at)
        ),
        Err(Denied::Channel(at)) => format!(
            "This user has no permissions to access the '{}' channel",
            argument(at)
        ),
    };
    call.reply().bulk(text.as_bytes());
    Ok(())
}

fn password(call: &mut Call<'_>) -> Answer {
    let bits = match call.len() {
        2 => 256,
        3 => call.integer(2)?,
        _ => return Err(too_many(call)),
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(Fault::of(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive \
             number up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    let failed = Fault::of("ERR the system has no random numbers");
    SystemRandom::new().fill(&mut bytes).map_err(|_| failed)?;
    let text = hex(&bytes);
    call.reply().bulk(&text.as_bytes()[..digits]);
    Ok(())
}

fn log(call: &mut Call<'_>) -> Answer {
    let count = match call.len() {
        2 => 10,
        3 if call.is(2, "RESET") => {
            call.engine.acl.log.entries.clear();
            return call.ok();
        }
        3 => usize::try_from(call.integer(2)?).unwrap_or(0),
        _ => return Err(too_many(call)),
    };
    let now_ms = call.engine.now_ms;
    let entries = &call.engine.acl.log.entries;
    let reply = &mut call.session.reply;
    reply.array(count.min(entries.len()));
    for entry in entries.iter().take(count) {
        reply.map(7);
        reply.bulk(b"count");
        reply.integer(entry.count as i64);
        for (name, value) in [
            ("reason", entry.reason.name().as_bytes()),
            ("context", entry.context.name().as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        }
        reply.bulk(b"age-seconds");
        let age_s = now_ms.saturating_sub(entry.at_ms) as f64 / 1000.0;
        let digits = crate::script::format_general(age_s, 17);
        reply.double(digits.as_bytes());
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
    }
    Ok(())
}

/// The file of users.
fn path(call: &Call<'_>) -> Result<String, Fault> {
    let path = call.engine.config.aclfile().map(str::to_owned);
    path.ok_or(Fault::of(
        "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the \
         ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file \
         set) in order to store users in the Redis configuration.",
    ))
}

fn load(call: &mut Call<'_>) -> Answer {
    let path = path(call)?;
    let engine = &mut *call.engine;
    let loaded = engine.acl.load(&engine.config, &path);
    loaded.map_err(|error| Fault::text(format!("ERR {error}")))?;
    engine.refresh_users(call.session, true);
    call.ok()
}

fn save(call: &mut Call<'_>) -> Answer {
    let path = path(call)?;
    if let Err(error) = call.engine.acl.save(&path) {
        tracing::warn!(%error, path, "the users were not saved; the file is as it was");
        return Err(Fault::of(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        ));
    }
    call.ok()
}
