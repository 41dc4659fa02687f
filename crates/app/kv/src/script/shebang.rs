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

    /// The words, as FUNCTION LIST shows them.
    pub(crate) fn words(&self) -> Vec<&'static str> {
        let all = [
            (self.no_writes, "no-writes"),
            (self.allow_oom, "allow-oom"),
            (self.allow_stale, "allow-stale"),
            (self.no_cluster, "no-cluster"),
            (self.cross_slot, "allow-cross-slot-keys"),
        ];
        all.into_iter()
            .filter_map(|(on, word)| on.then_some(word))
            .collect()
    }
}

/// The name of a library, and the bytes of its first line.
pub(super) fn parse_library(code: &[u8]) -> Result<(Vec<u8>, usize), Fault> {
    if !code.starts_with(b"#!") {
        return Err(Fault::of("ERR Missing library metadata"));
    }
    let end = code.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or(Fault::of("ERR Invalid library metadata"))?;
    let line = code.get(2..end).unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let engine = words.next().unwrap_or_default();
    let mut name: Option<Vec<u8>> = None;
    for word in words {
        match word.strip_prefix(b"name=") {
            Some(_) if name.is_some() => {
                return Err(Fault::of(
                    "ERR Invalid metadata value, name argument was given multiple times",
                ));
            }
            Some(given) => name = Some(given.to_vec()),
            None => {
                let word = shown(word);
                return Err(Fault::text(format!(
                    "ERR Invalid metadata value given: {word}"
                )));
            }
        }
    }
    let name = name.ok_or(Fault::of("ERR Library name was not given"))?;
    if !engine.eq_ignore_ascii_case(b"lua") && !name.is_empty() {
        let engine = shown(engine);
        return Err(Fault::text(format!("ERR Engine '{engine}' not found")));
    }
    Ok((name, end))
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
