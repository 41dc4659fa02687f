//! The first line of a script: `#!lua flags=no-writes,allow-oom`, and for functions `name=`.

use crate::fault::Fault;

/// What a script asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traits {
    /// It has no first line that says so: it is checked call by call.
    pub(crate) undeclared: bool,
    /// It changes nothing.
    pub(crate) no_writes: bool,
    /// It runs when there is no memory left.
    pub(crate) allow_oom: bool,
    /// It may run on a copy that is behind; there are none.
    pub(crate) allow_stale: bool,
    /// It does not run in a cluster.
    pub(crate) no_cluster: bool,
    /// It may use keys of several slots.
    pub(crate) cross_slot: bool,
}

impl Traits {
    /// Adds what a word names; whether there is such.
    pub(crate) fn add(&mut self, word: &[u8]) -> bool {
        match word {
            b"no-writes" => self.no_writes = true,
            b"allow-oom" => self.allow_oom = true,
            b"allow-stale" => self.allow_stale = true,
            b"no-cluster" => self.no_cluster = true,
            b"allow-cross-slot-keys" => self.cross_slot = true,
            _ => return false,
        }
        true
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a script says of itself, and the bytes of its first line, where that says something.
pub(super) fn parse(body: &[u8]) -> Result<(Traits, usize), Fault> {
    if !body.starts_with(b"#!") {
        let undeclared = Traits {
            undeclared: true,
            ..Traits::default()
        };
        return Ok((undeclared, 0));
    }
    let end = body.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or(Fault::of("ERR Invalid script shebang"))?;
    let line = body.get(..end).unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        let engine = shown(engine);
        return Err(Fault::text(format!(
            "ERR Unexpected engine in script shebang: {engine}"
        )));
    }
    let mut traits = Traits::default();
    for word in words {
        let Some(flags) = word.strip_prefix(b"flags=") else {
            let word = shown(word);
            return Err(Fault::text(format!(
                "ERR Unknown lua shebang option: {word}"
            )));
        };
        for flag in flags
            .split(|byte| *byte == b',')
            .filter(|flag| !flag.is_empty())
        {
            if !traits.add(flag) {
                let flag = shown(flag);
                return Err(Fault::text(format!(
                    "ERR Unexpected flag in script shebang: {flag}"
                )));
            }
        }
    }
    Ok((traits, end))
}
