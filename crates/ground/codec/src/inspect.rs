//! Sealed objects as lines for people.

use crate::{Corruption, kind, object};

/// A name and a value as text.
pub type Field = (String, String);

/// The fields of a sealed object, its payload as hexadecimal (the first 64 bytes). A file whose
/// first block alone is sealed has its own way to be shown; [`crate::object_kind`] tells.
///
/// # Errors
/// What is wrong with the bytes.
pub fn inspect(bytes: &[u8]) -> Result<Vec<Field>, Corruption> {
    let object = object::open_any(bytes)?;
    let mut lines = vec![
        field(
            "kind",
            format!("{} ({})", object.kind, kind::name(object.kind)),
        ),
        field("payload version", object.version),
        field("set", hex(&object.identity.set)),
        field("object", object.identity.object),
        field("generation", object.identity.generation),
        field("payload bytes", object.payload.len()),
    ];
    let shown = object.payload.get(..64).unwrap_or(object.payload);
    lines.push(field("payload", hex(shown)));
    Ok(lines)
}

/// Fields as text, one a line, names padded to one width.
pub fn text(fields: &[Field]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    fields
        .iter()
        .map(|(name, value)| format!("{name:width$}  {value}\n"))
        .collect()
}

fn field(name: &str, value: impl ToString) -> Field {
    (name.to_owned(), value.to_string())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, seal_object};

    #[test]
    fn an_object_is_printed_field_by_field() {
        let identity = Identity {
            set: [0xab; 16],
            object: 7,
            generation: 2,
        };
        let shown = text(&inspect(&seal_object(1, 1, &identity, b"\x01\x02")).unwrap());
        assert!(
            shown.contains("kind             1 (log segment)\n"),
            "{shown}"
        );
        assert!(shown.contains("payload          0102\n"), "{shown}");
    }
}
