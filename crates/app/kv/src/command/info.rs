//! INFO and MEMORY.

use super::{Call, Command, Flags, command};
use crate::acl::Reason;
use crate::engine::{Engine, Mode};
use crate::fault::{Answer, SYNTAX};
use crate::keyspace::DATABASES;
use std::fmt::Write as _;

/// The version of Redis whose commands these are.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

pub(super) static COMMANDS: &[Command] = &[
    command("info", -1, Flags::LOADING, "server", info),
    command(
        "memory",
        -2,
        Flags::READONLY.and(Flags::CONTAINER),
        "server",
        memory,
    ),
];

const SECTIONS: [&str; 9] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "errorstats",
    "keyspace",
];

fn info(call: &mut Call<'_>) -> Answer {
    let words: Vec<String> = call
        .rest(1)
        .iter()
        .map(|word| String::from_utf8_lossy(word).to_ascii_lowercase())
        .collect();
    let everything = words
        .iter()
        .any(|word| word == "all" || word == "everything");
    let default = words.is_empty() || everything || words.iter().any(|word| word == "default");
    let mut text = String::new();
    for section in SECTIONS {
        if default || words.iter().any(|word| word == section) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            call.engine.section(section, &mut text);
        }
    }
    if everything || words.iter().any(|word| word == "commandstats") {
        call.engine.command_stats(&mut text);
    }
    call.reply().verbatim(&text);
    Ok(())
}

/// Lines of a section.
struct Lines<'a>(&'a mut String);

impl Lines<'_> {
    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        // A string takes all.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }
}

impl Engine {
    fn section(&mut self, section: &str, text: &mut String) {
        let mut title = section.to_owned();
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let _ = write!(text, "# {title}\r\n");
        let mut lines = Lines(text);
        match section {
            "server" => self.server(&mut lines),
            "clients" => {
                lines.line("connected_clients", self.clients);
                lines.line("maxclients", self.config.maxclients());
                lines.line("blocked_clients", self.waiters.count);
                lines.line("tracking_clients", self.tracking.counts()[0]);
            }
            "memory" => self.memory(&mut lines),
            "persistence" => self.persistence(&mut lines),
            "stats" => self.counters(&mut lines),
            "replication" => {
                lines.line("role", "master");
                lines.line("connected_slaves", 0);
            }
            "cpu" => {}
            "errorstats" => {
                for (code, count) in &self.stats.errors {
                    lines.line(&format!("errorstat_{code}"), format_args!("count={count}"));
                }
            }
            _ => self.keyspace_lines(&mut lines),
        }
    }

    fn server(&self, lines: &mut Lines<'_>) {
        lines.line("redis_version", REDIS_VERSION);
        lines.line("redis_mode", "standalone");
        lines.line("os", "Linux");
        lines.line("arch_bits", usize::BITS);
        lines.line("holdfast_version", env!("CARGO_PKG_VERSION"));
        lines.line("process_id", std::process::id());
        lines.line("tcp_port", self.config.number("port"));
        lines.line("uptime_in_seconds", self.now_us / 1_000_000);
        lines.line("uptime_in_days", self.now_us / 1_000_000 / 86_400);
    }

    fn memory(&mut self, lines: &mut Lines<'_>) {
        let used = self.keyspace.memory_bytes();
        lines.line("used_memory", used);
        lines.line("used_memory_dataset", used);
        let (scripts, bytes) = self.scripts.size();
        lines.line("used_memory_vm_eval", bytes);
        lines.line("number_of_cached_scripts", scripts);
        lines.line("maxmemory", self.config.maxmemory);
        let names = crate::eviction::Eviction::NAMES;
        let mut names = names
            .iter()
            .filter(|(_, policy)| *policy == self.config.eviction);
        lines.line(
            "maxmemory_policy",
            names.next().map_or("noeviction", |(name, _)| name),
        );
        let tracking = self.log().map_or(0, |log| log.status().tracking_bytes);
        lines.line("log_tracking_bytes", tracking);
    }

    fn persistence(&self, lines: &mut Lines<'_>) {
        lines.line("loading", u8::from(self.mode == Mode::Loading));
        let Some(journal) = &self.journal else {
            return;
        };
        let status = journal.log.status();
        lines.line("aof_enabled", 1);
        lines.line("aof_rewrite_in_progress", u8::from(self.compacts));
        let saves = self.saves;
        let changes = self.stats.changes.saturating_sub(saves.changes);
        lines.line("rdb_changes_since_last_save", changes);
        lines.line("rdb_bgsave_in_progress", u8::from(self.is_saving()));
        lines.line("rdb_last_save_time", self.stats.last_save_s);
        let ended = if saves.last_failed { "err" } else { "ok" };
        lines.line("rdb_last_bgsave_status", ended);
        let last = saves.last_s.map_or(-1, |seconds| seconds as i64);
        lines.line("rdb_last_bgsave_time_sec", last);
        lines.line("rdb_saves", saves.count);
        let refuses = status.refuses.as_deref();
        lines.line(
            "aof_last_write_status",
            if refuses.is_some() { "err" } else { "ok" },
        );
        lines.line("appendfsync", journal.policy.name());
        lines.line("log_refuses", refuses.unwrap_or("no"));
        lines.line(
            "log_compaction_failed",
            status.compaction_failed.as_deref().unwrap_or("no"),
        );
        let live = match status.records {
            0 => 1.0,
            records => status.records_live as f64 / records as f64,
        };
        lines.line("log_live_share", format_args!("{live:.3}"));
        lines.line("log_records_live", status.records_live);
        lines.line("log_records", status.records);
        lines.line("log_files", status.files);
        lines.line("log_bytes", status.bytes);
        lines.line("log_bytes_pending", status.bytes_pending);
        lines.line("log_bytes_written", status.bytes_written);
        lines.line("log_syncs", status.syncs);
        lines.line("log_compactions", status.compactions);
        lines.line("log_compacted_bytes_read", status.compacted_bytes_read);
        lines.line(
            "log_compacted_bytes_written",
            status.compacted_bytes_written,
        );
        lines.line("log_tracking_bytes", status.tracking_bytes);
        lines.line("log_replies_held", u8::from(journal.waits()));
    }

    fn counters(&self, lines: &mut Lines<'_>) {
        let stats = &self.stats;
        lines.line("total_connections_received", stats.connections);
        lines.line("total_commands_processed", stats.commands);
        lines.line("total_net_input_bytes", stats.input_bytes);
        lines.line("total_net_output_bytes", stats.output_bytes);
        lines.line("rejected_connections", stats.rejected_connections);
        lines.line("expired_keys", stats.expired);
        lines.line("evicted_keys", stats.evicted);
        lines.line("keyspace_hits", stats.hits);
        lines.line("keyspace_misses", stats.misses);
        lines.line(
            "pubsub_channels",
            self.pubsub.of(crate::pubsub::Kind::Channel).len(),
        );
        lines.line(
            "pubsub_patterns",
            self.pubsub.of(crate::pubsub::Kind::Pattern).len(),
        );
        lines.line(
            "pubsubshard_channels",
            self.pubsub.of(crate::pubsub::Kind::Shard).len(),
        );
        lines.line("watched_keys", self.watchers.keys());
        let [_, keys, items, prefixes] = self.tracking.counts();
        lines.line("tracking_total_keys", keys);
        lines.line("tracking_total_items", items);
        lines.line("tracking_total_prefixes", prefixes);
        lines.line("total_error_replies", stats.errors.values().sum::<u64>());
        for reason in Reason::ALL {
            let word = match reason {
                Reason::Command => "cmd",
                other => other.name(),
            };
            lines.line(
                &format!("acl_access_denied_{word}"),
                self.acl.log.count(reason),
            );
        }
        lines.line("refused_writes", stats.refused_writes);
        lines.line("entries_loaded", stats.loaded);
    }

    fn keyspace_lines(&self, lines: &mut Lines<'_>) {
        for database in 0..DATABASES as u8 {
            let keys = self.keyspace.len(database);
            if keys > 0 {
                let tables = self.keyspace.tables(database);
                let expires: usize = tables.map(|table| table.expiring).sum();
                lines.line(
                    &format!("db{database}"),
                    format_args!("keys={keys},expires={expires},avg_ttl=0"),
                );
            }
        }
    }

    fn command_stats(&self, text: &mut String) {
        text.push_str("\r\n# Commandstats\r\n");
        let mut lines = Lines(text);
        let mut all: Vec<_> = self.stats.by_command.iter().collect();
        all.sort_unstable_by_key(|(name, _)| **name);
        for (name, calls) in all {
            lines.line(
                &format!("cmdstat_{name}"),
                format_args!(
                    "calls={},usec={},usec_per_call={:.2},rejected_calls=0,failed_calls={}",
                    calls.calls,
                    calls.micros,
                    calls.micros as f64 / calls.calls.max(1) as f64,
                    calls.failed
                ),
            );
        }
    }
}

fn memory(call: &mut Call<'_>) -> Answer {
    if call.sub("USAGE", -3)? {
        match call.len() {
            3 => {}
            5 if call.is(3, "SAMPLES") => {
                if call.integer(4)? < 0 {
                    return Err(SYNTAX);
                }
            }
            _ => return Err(SYNTAX),
        }
        let (database, key) = (call.db(), call.arg(2));
        match call
            .engine
            .peek(database, key)
            .map(|entry| entry.memory_bytes())
        {
            Some(bytes) => call.reply().count(bytes + size_of::<crate::entry::Entry>()),
            None => call.reply().null(),
        }
        return Ok(());
    }
    if call.sub("HELP", 2)? {
        return super::introspect::subcommands(call);
    }
    if call.sub("DOCTOR", 2)? {
        call.reply()
            .verbatim("INFO memory and INFO persistence say what there is.\n");
        return Ok(());
    }
    if call.sub("PURGE", 2)? {
        return call.ok();
    }
    if call.sub("MALLOC-STATS", 2)? {
        call.reply().verbatim("The system's allocator is in use.\n");
        return Ok(());
    }
    if call.sub("STATS", 2)? {
        let (used, keys) = (
            call.engine.keyspace.memory_bytes(),
            call.engine.keyspace.len(0),
        );
        let reply = call.reply();
        reply.map(3);
        reply.bulk(b"total.allocated");
        reply.count(used);
        reply.bulk(b"dataset.bytes");
        reply.count(used);
        reply.bulk(b"keys.count");
        reply.count(keys);
        return Ok(());
    }
    Err(call.unknown_subcommand())
}
