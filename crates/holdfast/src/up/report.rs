//! What `holdfast up` prints when it serves.

use crate::status::table;
use crate::units::{bytes, plural, shorten};
use redundancy::status::{EncodingStatus, Status, StoreState};

/// What was asked for and is not done: the set is older than the wish.
pub(super) fn unheeded(copies: Option<u8>, without: &[u8], status: &Status) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(copies) = copies.filter(|copies| *copies != status.copies) {
        notes.push(format!(
            "copies = {copies} was asked for, but this set was made to keep {} of each file, and \
             does",
            status.copies
        ));
    }
    for index in without {
        match status.stores.get(usize::from(*index)) {
            None => notes.push(format!("--without {index}: the set has no store {index}")),
            Some(store) if store.state == StoreState::InSync => notes.push(format!(
                "--without {index}: store {index} is there, and takes part"
            )),
            Some(_) => {}
        }
    }
    notes
}

/// Why nothing is encoded though the operator asks for it.
pub(super) fn unencoded(percent: u8, status: &Status) -> Option<String> {
    let encodes = |encoding: &EncodingStatus| !encoding.code.is_empty();
    if percent == 0 || status.encoding.as_ref().is_some_and(encodes) {
        return None;
    }
    Some(format!(
        "--encode-percent {percent}: parity frees nothing on {} with copies on {} of them; it needs \
         two copies at least, and a store more than copies",
        plural(status.stores.len() as u64, "store"),
        status.copies
    ))
}

/// The start-up report.
pub(super) fn text(status: &Status, notes: &[String]) -> String {
    let mut text = format!(
        "holdfast {} protects {}\n  set       {}, generation {}\n",
        env!("CARGO_PKG_VERSION"),
        status.mount,
        status.set,
        status.generation
    );
    for store in &status.stores {
        let space = if store.total_bytes == 0 {
            String::new()
        } else {
            let (free, total) = (bytes(store.free_bytes), bytes(store.total_bytes));
            format!("  {free} free of {total}")
        };
        text.push_str(&format!(
            "  store {:<2}  {:<28}  {:<10}{space}\n",
            store.index,
            shorten(&store.path, 28),
            table::state(store.state)
        ));
        if !store.detail.is_empty() {
            text.push_str(&indented("            ", &store.detail));
        }
    }
    text.push_str(&format!("  {}\n", line(status)));
    for note in notes {
        text.push_str(&indented("  note      ", note));
    }
    let mount = &status.mount;
    text.push_str(&format!(
        "  use it    as any directory: {mount}\n\
         \x20 status    holdfast status --mount {mount}\n\
         \x20 stop      holdfast down {mount}   (or Ctrl-C here)\n"
    ));
    text
}

/// `text` in lines of at most 80 columns, the first behind `head`.
fn indented(head: &str, text: &str) -> String {
    let mut shown = String::new();
    for (at, line) in table::wrap(text, 80 - head.len()).iter().enumerate() {
        let front = if at == 0 { head } else { "" };
        shown.push_str(&format!("{front:width$}{line}\n", width = head.len()));
    }
    shown
}

/// One line for `systemctl status`.
pub(super) fn line(status: &Status) -> String {
    let (redundancy, copies) = table::facts(status);
    format!("{redundancy}; {copies}")
}
