//! How the tests of a library with a C interface look at it as its users do.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A library with a C interface, seen from one of its own tests.
#[derive(Clone, Copy, Debug)]
pub struct Library<'a> {
    /// The crate's directory: `env!("CARGO_MANIFEST_DIR")`.
    pub crate_dir: &'a str,
    /// File name of the static library.
    pub library: &'a str,
    /// File name of the header, below `include`.
    pub header: &'a str,
}

/// Runs a command that has to succeed; what it said.
///
/// # Panics
/// It cannot be run, or fails.
pub fn run(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    said.into_owned()
}

impl Library<'_> {
    fn include(&self) -> PathBuf {
        Path::new(self.crate_dir).join("include")
    }

    /// Where cargo puts the static library: beside the directory of the test.
    fn path(&self) -> PathBuf {
        let test = std::env::current_exe().expect("a path");
        let deps = test.parent().expect("a directory");
        let beside = deps.parent().expect("a directory");
        [deps, beside]
            .map(|dir| dir.join(self.library))
            .into_iter()
            .find(|path| path.is_file())
            .expect("cargo has built the static library")
    }

    /// Compiles `tests/program.c` against the header, with all warnings as errors, to `program`.
    ///
    /// # Panics
    /// It does not compile or link.
    pub fn compile(&self, flags: &[&str], program: &Path) {
        run(Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"])
            .args(flags)
            .arg("-I")
            .arg(self.include())
            .arg(Path::new(self.crate_dir).join("tests/program.c"))
            .arg(self.path())
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(program));
    }

    /// Has a C++ compiler read the header.
    ///
    /// # Panics
    /// It finds something, or is not installed.
    pub fn read_as_cpp(&self) {
        let flags = ["-x", "c++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"];
        run(Command::new("c++")
            .args(flags)
            .arg(self.include().join(self.header)));
    }

    /// The numbers that the header defines with names that begin with `prefix`, in its order.
    ///
    /// # Panics
    /// There is no header.
    pub fn numbers(&self, prefix: &str) -> Vec<(String, i32)> {
        let header = std::fs::read_to_string(self.include().join(self.header));
        let header = header.expect("the header");
        let number = |line: &str| {
            let mut words = line.strip_prefix("#define ")?.split_whitespace();
            let name = words.next().filter(|name| name.starts_with(prefix))?;
            Some((name.to_owned(), words.next()?.parse().ok()?))
        };
        header.lines().filter_map(number).collect()
    }
}
