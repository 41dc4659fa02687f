//! Settings, under the names of Redis: CONFIG GET and SET know them.

use crate::eviction::Eviction;
use crate::fault::Fault;
use crate::journal::Policy;
use crate::protocol::Limits;
use std::collections::BTreeMap;
use values::Thresholds;

/// Classes of events that `notify-keyspace-events` asks for: a bit for each letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Events(u128);

impl Events {
    /// Whether a class is asked for.
    pub fn has(self, class: u8) -> bool {
        let asked = |letter: u8| self.0 >> letter & 1 == 1;
        let in_all = !matches!(class, b'K' | b'E' | b'm' | b'n');
        asked(class & 127) || (in_all && asked(b'A'))
    }

    fn parse(text: &str) -> Option<Events> {
        let known = |letter: &u8| b"KEg$lshzxeAtmdn".contains(letter);
        let bits = text.bytes().try_fold(0, |bits, letter| {
            known(&letter).then_some(bits | 1u128 << letter)
        });
        bits.map(Events)
    }
}

/// All settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// As they were given, or their defaults.
    values: BTreeMap<&'static str, String>,
    /// `notify-keyspace-events`.
    pub notify: Events,
    /// `maxmemory-policy`.
    pub eviction: Eviction,
    /// `maxmemory`, in bytes; 0 for no bound.
    pub maxmemory: usize,
    /// `maxmemory-samples`.
    pub maxmemory_samples: usize,
    /// Up to where collections are compact.
    pub thresholds: Thresholds,
    /// `client-output-buffer-limit` of ordinary clients: bytes of replies that wait.
    pub output_bytes_max: usize,
    /// `slowlog-log-slower-than`, in microseconds; `None` for never.
    pub slowlog_us: Option<u64>,
    /// `latency-monitor-threshold`, in milliseconds; 0 for never.
    pub(crate) latency_ms: u64,
    /// `slowlog-max-len`.
    pub slowlog_len: usize,
    /// Bytes that an entry written as a whole may take: what a record of the log may have, with room for
    /// what is not counted to the byte.
    pub entry_bytes_max: usize,
    /// Where RDB files are written, if anywhere.
    pub directory: Option<String>,
    /// `timeout`: seconds that a client may be idle; 0 for no bound.
    pub timeout_s: u64,
    /// `tracking-table-max-keys`; 0 for no bound.
    pub tracking_keys_max: usize,
    maxclients: usize,
    bulk_bytes_max: usize,
}

/// How a setting behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Kept and answered; nothing here goes by it.
    Kept,
    /// Bytes, with a unit.
    Bytes,
    /// A number.
    Number,
    /// Yes or no; nothing here goes by it.
    Flag,
    /// Set at the start alone.
    Fixed,
    /// Something of its own.
    Own,
}

/// Names, defaults, and kinds.
static SETTINGS: &[(&str, &str, Kind)] = &[
    ("acl-pubsub-default", "resetchannels", Kind::Own),
    ("aclfile", "", Kind::Fixed),
    ("acllog-max-len", "128", Kind::Number),
    ("activedefrag", "no", Kind::Flag),
    ("active-expire-effort", "1", Kind::Number),
    ("aof-use-rdb-preamble", "yes", Kind::Flag),
    ("appendfilename", "appendonly.aof", Kind::Fixed),
    ("appendfsync", "everysec", Kind::Fixed),
    ("appendonly", "yes", Kind::Fixed),
    ("auto-aof-rewrite-min-size", "67108864", Kind::Bytes),
    ("auto-aof-rewrite-percentage", "100", Kind::Number),
    ("bind", "127.0.0.1", Kind::Fixed),
    ("busy-reply-threshold", "5000", Kind::Number),
    (
        "client-output-buffer-limit",
        "normal 1073741824 0 0",
        Kind::Kept,
    ),
    ("client-query-buffer-limit", "1073741824", Kind::Bytes),
    ("cluster-enabled", "no", Kind::Fixed),
    ("databases", "16", Kind::Fixed),
    ("dbfilename", "dump.rdb", Kind::Own),
    ("dir", ".", Kind::Fixed),
    ("hash-max-listpack-entries", "128", Kind::Number),
    ("hash-max-listpack-value", "64", Kind::Bytes),
    ("hash-max-ziplist-entries", "128", Kind::Number),
    ("hash-max-ziplist-value", "64", Kind::Bytes),
    ("hll-sparse-max-bytes", "3000", Kind::Bytes),
    ("hz", "10", Kind::Number),
    ("io-threads", "1", Kind::Fixed),
    ("latency-monitor-threshold", "0", Kind::Number),
    ("latency-tracking", "yes", Kind::Flag),
    ("lazyfree-lazy-eviction", "no", Kind::Flag),
    ("lazyfree-lazy-expire", "no", Kind::Flag),
    ("lazyfree-lazy-server-del", "no", Kind::Flag),
    ("lazyfree-lazy-user-del", "no", Kind::Flag),
    ("lfu-decay-time", "1", Kind::Number),
    ("lfu-log-factor", "10", Kind::Number),
    ("list-compress-depth", "0", Kind::Number),
    ("list-max-listpack-size", "-2", Kind::Number),
    ("list-max-ziplist-size", "-2", Kind::Number),
    ("loglevel", "notice", Kind::Kept),
    ("lua-time-limit", "5000", Kind::Number),
    ("maxclients", "10000", Kind::Number),
    ("maxmemory", "0", Kind::Bytes),
    ("maxmemory-policy", "noeviction", Kind::Own),
    ("maxmemory-samples", "5", Kind::Number),
    ("min-replicas-to-write", "0", Kind::Number),
    ("no-appendfsync-on-rewrite", "no", Kind::Flag),
    ("notify-keyspace-events", "", Kind::Own),
    ("port", "6379", Kind::Fixed),
    ("proto-max-bulk-len", "536870912", Kind::Bytes),
    ("replica-read-only", "yes", Kind::Flag),
    ("requirepass", "", Kind::Own),
    ("save", "", Kind::Kept),
    ("set-max-intset-entries", "512", Kind::Number),
    ("slave-read-only", "yes", Kind::Flag),
    ("slowlog-log-slower-than", "10000", Kind::Number),
    ("slowlog-max-len", "128", Kind::Number),
    ("stop-writes-on-bgsave-error", "yes", Kind::Flag),
    ("stream-node-max-bytes", "4096", Kind::Bytes),
    ("stream-node-max-entries", "100", Kind::Number),
    ("tcp-backlog", "511", Kind::Fixed),
    ("tcp-keepalive", "300", Kind::Number),
    ("timeout", "0", Kind::Number),
    ("tls-auth-clients", "yes", Kind::Fixed),
    ("tls-ca-cert-file", "", Kind::Fixed),
    ("tls-cert-file", "", Kind::Fixed),
    ("tls-key-file", "", Kind::Fixed),
    ("tls-port", "0", Kind::Fixed),
    ("tracking-table-max-keys", "1000000", Kind::Number),
    ("unixsocket", "", Kind::Fixed),
    ("zset-max-listpack-entries", "128", Kind::Number),
    ("zset-max-listpack-value", "64", Kind::Bytes),
    ("zset-max-ziplist-entries", "128", Kind::Number),
    ("zset-max-ziplist-value", "64", Kind::Bytes),
];

impl Default for Config {
    fn default() -> Config {
        let values = SETTINGS
            .iter()
            .map(|(name, value, _)| (*name, (*value).to_owned()));
        Config {
            values: values.collect(),
            notify: Events::default(),
            eviction: Eviction::None,
            maxmemory: 0,
            maxmemory_samples: 5,
            thresholds: Thresholds::REDIS,
            output_bytes_max: 1 << 30,
            slowlog_us: Some(10_000),
            latency_ms: 0,
            slowlog_len: 128,
            entry_bytes_max: vlog::RECORD_BYTES_MAX - 48,
            directory: None,
            timeout_s: 0,
            tracking_keys_max: 1_000_000,
            maxclients: 10_000,
            bulk_bytes_max: 512 << 20,
        }
    }
}

/// Bytes with a unit, as Redis reads them.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match lower.get(digits.len()..)? {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

impl Config {
    /// Names and values that match a pattern.
    pub fn matching(&self, pattern: &[u8]) -> Vec<(&'static str, &str)> {
        self.values
            .iter()
            .filter(|(name, _)| values::glob::matches(pattern, name.as_bytes(), true))
            .map(|(name, value)| (*name, value.as_str()))
            .collect()
    }

    fn text(&self, name: &str) -> &str {
        self.values
            .get(name)
            .map(String::as_str)
            .unwrap_or_default()
    }

    /// A setting that is a number; 0 where it is none.
    pub(crate) fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// Microseconds after which a script takes long; 0 for never.
    pub(crate) fn busy_reply_us(&self) -> u64 {
        u64::try_from(self.number("busy-reply-threshold")).map_or(0, |ms| ms.saturating_mul(1000))
    }

    /// The password, if one is needed.
    pub fn password(&self) -> Option<&str> {
        Some(self.text("requirepass")).filter(|password| !password.is_empty())
    }

    /// The file of users, if there is one.
    pub fn aclfile(&self) -> Option<&str> {
        Some(self.text("aclfile")).filter(|path| !path.is_empty())
    }

    /// Whether a new user may use all channels.
    pub(crate) fn channels_by_default(&self) -> bool {
        self.text("acl-pubsub-default") == "allchannels"
    }

    /// Name of the RDB file that BGSAVE writes.
    pub fn rdb_name(&self) -> &str {
        self.text("dbfilename")
    }

    /// Most clients at a time.
    pub fn maxclients(&self) -> usize {
        self.maxclients
    }

    /// What a request may have.
    pub fn limits(&self) -> Limits {
        Limits {
            bulk_bytes_max: self.bulk_bytes_max,
            ..Limits::default()
        }
    }

    /// Says what a setting is that the start alone decides.
    pub fn fix(&mut self, name: &str, value: &str) {
        if let Some(place) = self.values.get_mut(name) {
            value.clone_into(place);
        }
    }

    /// Says what was decided about syncs.
    pub fn fix_policy(&mut self, policy: Policy) {
        self.fix("appendfsync", policy.name());
    }

    /// Sets one. Either all goes well or nothing is changed.
    ///
    /// # Errors
    /// In the words of CONFIG SET.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let lower = name.to_ascii_lowercase();
        let Some((name, _, kind)) = SETTINGS.iter().find(|(known, ..)| *known == lower) else {
            return Err(Fault::text(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )));
        };
        let failed = |why: &str| {
            Fault::text(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
            ))
        };
        let value = match kind {
            Kind::Fixed => return Err(failed("can't set immutable config")),
            Kind::Kept => value.to_owned(),
            Kind::Flag => match value.to_ascii_lowercase().as_str() {
                flag @ ("yes" | "no") => flag.to_owned(),
                _ => return Err(failed("argument must be 'yes' or 'no'")),
            },
            Kind::Bytes => match parse_bytes(value) {
                Some(bytes) => bytes.to_string(),
                None => return Err(failed("argument must be a memory value")),
            },
            Kind::Number => match value.parse::<i64>() {
                Ok(number) => number.to_string(),
                Err(_) => return Err(failed("argument couldn't be parsed into an integer")),
            },
            Kind::Own if *name == "acl-pubsub-default" => match value.to_ascii_lowercase().as_str()
            {
                known @ ("allchannels" | "resetchannels") => known.to_owned(),
                _ => {
                    return Err(failed(
                        "argument(s) must be one of the following: allchannels, resetchannels",
                    ));
                }
            },
            Kind::Own => value.to_owned(),
        };
        self.apply(name, &value)
            .ok_or_else(|| failed("argument is out of range"))?;
        // The same setting under its old name.
        for (one, other) in [("listpack", "ziplist"), ("ziplist", "listpack")] {
            self.fix(&name.replace(one, other), &value);
        }
        for (one, other) in [
            ("lua-time-limit", "busy-reply-threshold"),
            ("busy-reply-threshold", "lua-time-limit"),
        ] {
            if *name == one {
                self.fix(other, &value);
            }
        }
        self.fix(name, &value);
        Ok(())
    }

    /// Lets what goes by a setting know.
    fn apply(&mut self, name: &str, value: &str) -> Option<()> {
        let number = || value.parse::<usize>().ok();
        let name = name.replace("ziplist", "listpack");
        let limits = &mut self.thresholds;
        match name.as_str() {
            "notify-keyspace-events" => self.notify = Events::parse(value)?,
            "maxmemory-policy" => {
                let mut names = Eviction::NAMES.iter();
                self.eviction = names.find(|(name, _)| *name == value)?.1;
            }
            // A plain name, and none of a file of the log.
            "dbfilename" => {
                let is_ours = value.starts_with("kv.");
                let is_plain = !value.is_empty() && !value.contains('/') && !value.starts_with('.');
                Some(()).filter(|()| is_plain && !is_ours)?;
            }
            "acllog-max-len" => drop(number()?),
            "maxmemory" => self.maxmemory = number()?,
            "maxmemory-samples" => self.maxmemory_samples = number().filter(|n| *n > 0)?,
            "slowlog-log-slower-than" => {
                self.slowlog_us = u64::try_from(value.parse::<i64>().ok()?).ok();
            }
            "latency-monitor-threshold" => self.latency_ms = value.parse().ok()?,
            "slowlog-max-len" => self.slowlog_len = number()?,
            "timeout" => self.timeout_s = value.parse().ok()?,
            "tracking-table-max-keys" => self.tracking_keys_max = number()?,
            "maxclients" => self.maxclients = number().filter(|n| *n > 0)?,
            "proto-max-bulk-len" => {
                self.bulk_bytes_max = number().filter(|n| (1 << 20..=512 << 20).contains(n))?;
            }
            "list-max-listpack-size" => limits.list_max_listpack_size = value.parse().ok()?,
            "hash-max-listpack-entries" => limits.hash_max_listpack_entries = number()?,
            "hash-max-listpack-value" => limits.hash_max_listpack_value = number()?,
            "set-max-intset-entries" => limits.set_max_intset_entries = number()?,
            "zset-max-listpack-entries" => limits.zset_max_listpack_entries = number()?,
            "zset-max-listpack-value" => limits.zset_max_listpack_value = number()?,
            "stream-node-max-bytes" => limits.stream_node_max_bytes = number()?,
            "stream-node-max-entries" => limits.stream_node_max_entries = number()?,
            "hll-sparse-max-bytes" => limits.hll_sparse_max_bytes = number()?,
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_redis() {
        assert_eq!(parse_bytes("1gb"), Some(1 << 30));
        assert_eq!(parse_bytes("5M"), Some(5_000_000));
        assert_eq!(parse_bytes("12"), Some(12));
        assert_eq!(parse_bytes("1x"), None);
        assert_eq!(parse_bytes("99999999999gb"), None);
    }

    #[test]
    fn what_is_set_is_in_force_and_answered() {
        let mut config = Config::default();
        config.set("maxmemory", "100mb").unwrap();
        config.set("MaxMemory-Policy", "allkeys-lru").unwrap();
        config.set("hash-max-ziplist-entries", "7").unwrap();
        assert_eq!(config.maxmemory, 100 << 20);
        assert_eq!(config.eviction, Eviction::Lru { volatile: false });
        assert_eq!(config.thresholds.hash_max_listpack_entries, 7);
        let shown = config.matching(b"hash-max-*-entries");
        assert_eq!(
            shown,
            [
                ("hash-max-listpack-entries", "7"),
                ("hash-max-ziplist-entries", "7")
            ]
        );
        for (name, value) in [
            ("maxmemory-policy", "x"),
            ("port", "1"),
            ("nothing", "1"),
            ("hz", "y"),
        ] {
            assert!(config.set(name, value).is_err(), "{name}");
        }
    }
}
