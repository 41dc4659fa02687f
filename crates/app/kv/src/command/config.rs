//! CONFIG.

use super::{Call, Command, Flags, command};
use crate::fault::{Answer, Fault};

pub(super) static COMMANDS: &[Command] = &[command(
    "config",
    -2,
    Flags::ADMIN
        .and(Flags::NO_SCRIPT)
        .and(Flags::LOADING)
        .and(Flags::CONTAINER),
    "server",
    config,
)];

fn config(call: &mut Call<'_>) -> Answer {
    if call.sub("GET", -3)? {
        let mut found = std::collections::BTreeMap::new();
        for pattern in call.rest(2) {
            found.extend(call.engine.config.matching(pattern));
        }
        let reply = &mut call.session.reply;
        reply.map(found.len());
        for (name, value) in found {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        return Ok(());
    }
    if call.sub("SET", -4)? {
        let pairs = call.rest(2);
        if !pairs.len().is_multiple_of(2) {
            return Err(Fault::arity("config|set"));
        }
        // All or none.
        let mut changed = call.engine.config.clone();
        let mut names: Vec<String> = Vec::new();
        for pair in pairs.chunks_exact(2) {
            let [name, value] = [pair[0], pair[1]].map(String::from_utf8_lossy);
            let lower = name.to_ascii_lowercase();
            if names.contains(&lower) {
                return Err(Fault::text(format!(
                    "ERR CONFIG SET failed (possibly related to argument '{lower}') - duplicate \
                     parameter"
                )));
            }
            changed.set(&lower, &value)?;
            names.push(lower);
        }
        call.engine.config = changed;
        if names.iter().any(|name| name == "requirepass") {
            let password = call.engine.config.password().unwrap_or_default();
            let mut user = (**call.engine.acl.default_user()).clone();
            user.set_only_password(password.as_bytes());
            call.engine.put_user(call.session, user);
        }
        return call.ok();
    }
    if call.sub("RESETSTAT", 2)? {
        call.engine.stats.reset();
        call.engine.acl.log.reset_counts();
        return call.ok();
    }
    if call.sub("REWRITE", 2)? {
        return Err(Fault::of("ERR The server is running without a config file"));
    }
    if call.sub("HELP", 2)? {
        return super::introspect::help(
            call,
            &[
                "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "GET <pattern>",
                "    Return parameters matching the glob-like <pattern> and their values.",
                "SET <directive> <value>",
                "    Set the configuration <directive> to <value>.",
                "RESETSTAT",
                "    Reset statistics reported by the INFO command.",
            ],
        );
    }
    Err(call.unknown_subcommand())
}
