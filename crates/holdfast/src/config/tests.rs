use super::*;

fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("holdfast.toml");
    std::fs::write(&path, text).expect("a file in it");
    (dir, path)
}

fn flags(given: &[&str], change: impl FnOnce(&mut redundancy::Config)) -> Flags {
    let mut config = redundancy::Config::default();
    change(&mut config);
    let given = given.iter().map(|key| (*key).to_owned()).collect();
    Flags { config, given }
}

/// The message with the temporary directory replaced.
fn message(failure: &Failure, dir: &tempfile::TempDir) -> String {
    let path = dir.path().to_str().expect("a UTF-8 path");
    failure.to_string().replace(path, "/DIR")
}

#[test]
fn flags_override_the_file_and_the_file_the_defaults() {
    let (_dir, path) = written("[redundancy]\ncopies = 3\nthreads = 2\n");
    let flags = flags(&["copies"], |config| config.copies = 1);
    let found = load(Some(&path), &flags).expect("a valid configuration");
    let config = &found.settings.redundancy;
    assert_eq!((config.copies, config.threads), (1, 2));
    assert_eq!(config.mount, redundancy::Config::default().mount);
    let shown = found.to_toml().expect("TOML");
    assert!(shown.contains("# command line"), "{shown}");
    assert!(shown.contains(&format!("# {}", path.display())), "{shown}");
    assert!(shown.contains("# default"), "{shown}");
}

#[test]
fn what_is_shown_reads_back_as_the_same_settings() {
    let (_dir, path) = written("[redundancy]\nstores = [\"/a\", \"/b\"]\ncheckpoint_ms = 20\n");
    let found = load(Some(&path), &Flags::default()).expect("a valid configuration");
    let (_again, shown) = written(&found.to_toml().expect("TOML"));
    let again = load(Some(&shown), &Flags::default()).expect("its own output");
    assert_eq!(again.settings, found.settings);
}

#[test]
fn relative_paths_of_the_command_line_become_absolute() {
    let flags = flags(&["stores"], |config| config.stores = vec!["a".into()]);
    let (_dir, path) = written("");
    let found = load(Some(&path), &flags).expect("a valid configuration");
    assert!(found.settings.redundancy.stores[0].is_absolute());
}

#[test]
fn an_unknown_key_is_named() {
    let (dir, path) = written("[redundancy]\ncopys = 2\n");
    let failure = load(Some(&path), &Flags::default()).expect_err("a misspelt key");
    insta::assert_snapshot!(message(&failure, &dir));
}

#[test]
fn a_wrong_type_is_named() {
    let (dir, path) = written("[redundancy]\ncopies = \"two\"\n");
    let failure = load(Some(&path), &Flags::default()).expect_err("a text for a number");
    insta::assert_snapshot!(message(&failure, &dir));
}

#[test]
fn a_named_file_that_is_missing_is_an_error() {
    let (dir, path) = written("");
    std::fs::remove_file(&path).expect("the file is there");
    let failure = load(Some(&path), &Flags::default()).expect_err("no file");
    insta::assert_snapshot!(message(&failure, &dir));
}

#[test]
fn a_directory_is_not_a_configuration() {
    let (dir, _path) = written("");
    let failure = load(Some(dir.path()), &Flags::default()).expect_err("a directory");
    insta::assert_snapshot!(message(&failure, &dir));
}

#[test]
fn without_is_only_for_the_command_line() {
    let (_dir, path) = written("[redundancy]\nwithout = [1]\n");
    let failure = load(Some(&path), &Flags::default()).expect_err("a flag in the file");
    assert_eq!(failure.exit, Exit::Config);
    let flags = flags(&["without"], |config| config.without = vec![1]);
    let (_dir, path) = written("");
    let found = load(Some(&path), &flags).expect("a valid configuration");
    assert_eq!(found.settings.redundancy.without, [1]);
}
