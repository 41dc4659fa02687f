//! Decoding with the tables of docs/formats: what they say is what the code does.

/// The rows of a table "| offset | bytes | field | meaning |".
pub(crate) struct Table(Vec<(usize, usize, String)>);

impl Table {
    /// The first such table behind `after` in the page docs/formats/`page`. Rows must follow each
    /// other without a gap from 0.
    pub(crate) fn read(page: &str, after: &str) -> Table {
        let path = format!(
            "{}/../../../docs/formats/{page}",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
        let (_, rest) = text.split_once(after).unwrap_or_else(|| panic!("{after}"));
        let (_, rest) = rest
            .split_once("| offset | bytes | field | meaning |\n|---|---|---|---|\n")
            .unwrap_or_else(|| panic!("no table behind {after}"));
        let mut rows = Vec::new();
        let mut end = 0;
        for line in rest.lines().take_while(|line| line.starts_with('|')) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let (offset, bytes): (usize, usize) =
                (cells[1].parse().unwrap(), cells[2].parse().unwrap());
            assert_eq!(offset, end, "{line}");
            end += bytes;
            rows.push((offset, bytes, cells[3].to_owned()));
        }
        Table(rows)
    }

    /// Bytes that the table describes.
    pub(crate) fn len(&self) -> usize {
        self.0.last().map_or(0, |(offset, bytes, _)| offset + bytes)
    }

    /// The bytes of a field.
    pub(crate) fn bytes<'a>(&self, field: &str, from: &'a [u8]) -> &'a [u8] {
        let row = self.0.iter().find(|(.., name)| name == field);
        let (offset, bytes, _) = row.unwrap_or_else(|| panic!("no field {field}"));
        &from[*offset..offset + bytes]
    }

    /// The value of a field of up to 8 bytes, little-endian.
    pub(crate) fn value(&self, field: &str, from: &[u8]) -> u64 {
        let bytes = self.bytes(field, from).iter().rev();
        bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    /// The same bytes with zeros in a field.
    pub(crate) fn without(&self, field: &str, from: &[u8]) -> Vec<u8> {
        let row = self.0.iter().find(|(.., name)| name == field);
        let (offset, bytes, _) = row.unwrap_or_else(|| panic!("no field {field}"));
        let mut zeroed = from.to_vec();
        zeroed[*offset..offset + bytes].fill(0);
        zeroed
    }
}
