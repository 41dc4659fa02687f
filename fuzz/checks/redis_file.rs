//! What is checked of RDB files.

use values::{
    Thresholds,
    rdb::{Item, Reader, Writer},
};

/// Reads up to the first error; what came before it is written and read again.
pub(crate) fn check(bytes: &[u8]) {
    let items = read(bytes);
    let mut writer = Writer::new(Vec::new()).expect("memory takes bytes");
    for item in &items {
        let written = match item {
            Item::Note { name, value } => writer.note(name, value),
            Item::Function(code) => writer.function(code),
            Item::Database(number) => writer.database(*number, 0, 0),
            Item::Key(item) => writer.key(&item.key, &item.value, item.expires_ms),
            Item::Sizes { .. } => Ok(()),
        };
        written.expect("memory takes bytes");
    }
    let again = read(&writer.finish().expect("memory takes bytes"));
    assert_eq!(
        keys(again),
        keys(items),
        "what was read is written so that it is read"
    );
}

fn read(bytes: &[u8]) -> Vec<Item> {
    let Ok(mut reader) = Reader::new(bytes, Thresholds::REDIS) else {
        return Vec::new();
    };
    std::iter::from_fn(|| reader.next_item().ok().flatten()).collect()
}

/// Without what is not written again.
fn keys(items: Vec<Item>) -> Vec<Item> {
    let mut kept = Vec::new();
    for item in items {
        match item {
            Item::Sizes { .. } => {}
            Item::Key(mut item) => {
                (item.idle_s, item.frequency) = (None, None);
                kept.push(Item::Key(item));
            }
            other => kept.push(other),
        }
    }
    kept
}
