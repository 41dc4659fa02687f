//! DEBUG, as far as tools need it.

use super::{Call, Command, Flags, command};
use crate::fault::{Answer, NO_SUCH_KEY};

pub(super) static COMMANDS: &[Command] = &[command(
    "debug",
    -2,
    Flags::ADMIN.and(Flags::NO_SCRIPT).and(Flags::LOADING),
    "server",
    debug,
)];

fn debug(call: &mut Call<'_>) -> Answer {
    if call.sub("OBJECT", 3)? {
        let (database, key) = (call.db(), call.arg(2));
        let entry = call.engine.peek(database, key).ok_or(NO_SUCH_KEY)?;
        let line = format!(
            "Value at:0 refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:0",
            entry.encoding(),
            entry.memory_bytes(),
            entry.access()
        );
        call.reply().simple(&line);
        return Ok(());
    }
    if call.sub("SET-ACTIVE-EXPIRE", 3)? {
        call.engine.sweeps = call.arg(2) != b"0";
        return call.ok();
    }
    if call.sub("JMAP", 2)? || call.sub("QUICKLIST-PACKED-THRESHOLD", 3)? {
        return call.ok();
    }
    Err(call.unknown_subcommand())
}
