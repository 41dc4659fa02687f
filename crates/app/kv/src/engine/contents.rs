//! All entries as text, for tests.

use super::Engine;
use crate::keyspace::DATABASES;
use crate::slot::{SHARDS, ShardId};
use std::fmt::Write as _;

impl Engine {
    /// Serves without a log.
    pub(crate) fn serve_from_memory(&mut self) {
        self.mode = super::Mode::Serving;
    }

    /// All entries, in an order that their content alone decides.
    pub(crate) fn contents(&self) -> String {
        let mut lines = Vec::new();
        for shard in (0..SHARDS).map(|shard| ShardId(shard as u8)) {
            for database in 0..DATABASES as u8 {
                for entry in self.keyspace.shard(shard).table(database).iter() {
                    let mut line = format!(
                        "{database} {} {:?} ",
                        entry.key().escape_ascii(),
                        entry.expires_ms()
                    );
                    let _ = match entry.as_value() {
                        None | Some(crate::value::Value::Text(_)) => {
                            let text = entry.as_text().unwrap_or_default();
                            write!(line, "{}", text.escape_ascii())
                        }
                        Some(value) => write!(line, "{}", canonical(value)),
                    };
                    lines.push(line);
                }
            }
        }
        for (name, library) in &self.scripts.libraries.all {
            lines.push(format!("library {name} {}", library.code.escape_ascii()));
        }
        lines.sort();
        lines.join("\n")
    }
}

fn canonical(value: &crate::value::Value) -> String {
    use crate::value::Value;
    let shown = |element: values::Element<'_>| element.to_vec().escape_ascii().to_string();
    let mut parts: Vec<String> = match value {
        Value::Text(text) => vec![text.escape_ascii().to_string()],
        Value::List(list) => return list.iter().map(|one| shown(one) + ",").collect(),
        Value::Hash(hash) => hash
            .iter()
            .map(|(field, value)| format!("{}={}", shown(field), shown(value)))
            .collect(),
        Value::Set(set) => set.iter().map(shown).collect(),
        Value::SortedSet(set) => set
            .iter()
            .map(|(member, score)| format!("{}={score}", shown(member)))
            .collect(),
        Value::Stream(stream) => return canonical_stream(stream),
    };
    parts.sort();
    format!("{} {}", value.type_name(), parts.join(","))
}

/// All of a stream but when consumers were seen, which alone is not logged.
fn canonical_stream(stream: &values::Stream) -> String {
    let (min, max) = (values::StreamId::MIN, values::StreamId::MAX);
    let mut text = format!(
        "stream {} {} {}",
        stream.last_id(),
        stream.max_deleted_id(),
        stream.entries_added()
    );
    for entry in stream.iter(min, max) {
        let _ = write!(text, " {}", entry.id);
        for (field, value) in entry.fields {
            let (field, value) = (field.to_vec(), value.to_vec());
            let _ = write!(text, ",{}={}", field.escape_ascii(), value.escape_ascii());
        }
    }
    for (name, group) in stream.groups() {
        let (last, read) = (group.last_id(), group.entries_read());
        let _ = write!(text, " group {} {last} {read:?}", name.escape_ascii());
        for consumer in group.consumers() {
            let _ = write!(text, " {}", consumer.name().escape_ascii());
        }
        for pending in group.pending(min, max) {
            let _ = write!(text, " {pending:?}");
        }
    }
    text
}
