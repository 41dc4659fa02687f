//! `holdfast`: see the library of this package.

fn main() -> std::process::ExitCode {
    holdfast::run()
}
