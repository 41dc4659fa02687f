//! Names of a log's files: `NAME.NUMBER.STATE` with the segment's number in 16 hexadecimal digits.

/// What a file is to its log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum State {
    /// Being made; of no value.
    New,
    /// A segment with records.
    Live,
    /// A former segment, to be used again.
    Spare,
}

impl State {
    fn suffix(self) -> &'static str {
        match self {
            State::New => "new",
            State::Live => "segment",
            State::Spare => "spare",
        }
    }
}

/// No log reaches this number; what a file name says beyond it is not ours.
const NUMBER_MAX: u64 = 1 << 63;

/// The file name of segment `number`.
pub(crate) fn file_name(log: &str, number: u64, state: State) -> String {
    format!("{log}.{number:016x}.{}", state.suffix())
}

/// Number and state, where `file` is one of this log's.
pub(crate) fn parse(log: &str, file: &str) -> Option<(u64, State)> {
    let (digits, suffix) = file.strip_prefix(log)?.strip_prefix('.')?.split_once('.')?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    let state = [State::New, State::Live, State::Spare]
        .into_iter()
        .find(|state| state.suffix() == suffix)?;
    let ours = number <= NUMBER_MAX && file_name(log, number, state) == file;
    ours.then_some((number, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_left_alone() {
        let name = file_name("journal", 0x2a, State::Live);
        assert_eq!(name, "journal.000000000000002a.segment");
        assert_eq!(parse("journal", &name), Some((0x2a, State::Live)));
        for other in [
            "journal",
            "journal.2a.segment",
            "journal.000000000000002A.segment",
            "journal.+00000000000002a.segment",
            "journal.000000000000002a.old",
            "journal.ffffffffffffffff.spare",
            "journal2.000000000000002a.segment",
        ] {
            assert_eq!(parse("journal", other), None, "{other}");
        }
    }
}
