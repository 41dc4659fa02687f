//! How many files the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit on open descriptors (RLIMIT_NOFILE) as far as the process may by itself, and
/// answers it; `None` for no limit. A shell usually gives 1024 and allows far more: a server that
/// keeps files open between requests would soon get EMFILE.
pub fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_what_is_allowed() {
        let before = getrlimit(Resource::Nofile);
        let low = Rlimit {
            current: Some(256),
            ..before
        };
        setrlimit(Resource::Nofile, low).expect("lowers");
        assert_eq!(raise_limit(), before.maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
    }
}
