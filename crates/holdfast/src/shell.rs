//! `holdfast completions` and `holdfast man`.

use crate::cli;
use crate::failure::{Failure, Outcome};
use crate::screen;
use std::io::Write;
use std::path::Path;

/// Prints the completions for a shell.
///
/// # Errors
/// Standard output.
pub fn completions(shell: clap_complete::Shell) -> Outcome<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "holdfast", &mut text);
    screen::print(&String::from_utf8_lossy(&text))
}

/// Prints the manual page, or writes it and one for each command into `dir`.
///
/// # Errors
/// Standard output or the directory.
pub fn man(dir: Option<&Path>) -> Outcome<()> {
    let mut command = cli::command();
    command.build();
    let Some(dir) = dir else {
        return screen::print(&String::from_utf8_lossy(&page(&command, "holdfast")?));
    };
    pages(&command, "holdfast", dir)
}

fn pages(command: &clap::Command, name: &str, dir: &Path) -> Outcome<()> {
    let path = dir.join(format!("{name}.1"));
    let written = std::fs::File::create(&path)
        .and_then(|mut file| file.write_all(&page(command, name).unwrap_or_default()));
    written.map_err(|error| Failure::unexpected(path.display(), &crate::os::words(&error)))?;
    for sub in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
    {
        pages(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str) -> Outcome<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone().display_name(name.to_owned()))
        .render(&mut text)
        .map_err(|error| Failure::unexpected("manual page", &error))?;
    Ok(text)
}
