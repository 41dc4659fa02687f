//! Trees of files for a benchmark: making them, walking them, letting go of their pages.

use super::process::check_stop;
use anyhow::Context as _;
use rustix::fs::{Advice, fadvise};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Calls `each` for everything below `root` that is not a directory, without following links.
/// Directories named in `skip` are left out. Gives the number of calls.
pub(crate) fn walk(
    root: &Path,
    skip: &[&str],
    each: &mut dyn FnMut(&Path, &std::fs::Metadata) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let mut count = 0;
    let mut todo = VecDeque::from([root.to_path_buf()]);
    while let Some(directory) = todo.pop_front() {
        check_stop()?;
        let entries = std::fs::read_dir(&directory)
            .with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            let metadata = std::fs::symlink_metadata(&path)
                .with_context(|| format!("cannot inspect {}", path.display()))?;
            if metadata.is_dir() {
                let name = path.file_name().unwrap_or_default();
                if !skip.iter().any(|skipped| name == *skipped) {
                    todo.push_back(path);
                }
            } else {
                count += 1;
                each(&path, &metadata)?;
            }
        }
    }
    Ok(count)
}

/// Writes everything of the file system of `directory` to its medium.
pub(crate) fn sync(directory: &Path) -> anyhow::Result<()> {
    rustix::fs::syncfs(File::open(directory)?)
        .with_context(|| format!("cannot sync {}", directory.display()))
}

/// Lets go of the pages of every regular file below `root`, and of no other file: the machine's
/// page cache belongs to others too. The files must have been synced.
pub(crate) fn drop_pages(root: &Path) -> anyhow::Result<()> {
    // GlusterFS keeps a second name for every file there.
    walk(root, &[".glusterfs"], &mut |path, metadata| {
        if metadata.is_file() && metadata.size() > 0 {
            let file =
                File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            fadvise(&file, 0, None, Advice::DontNeed)
                .with_context(|| format!("cannot drop the pages of {}", path.display()))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Makes a tar of the first `count` regular files of /usr/share/doc (in name order, so that every
/// run takes the same) at `tar`. Gives the number of files and bytes in it.
pub(crate) fn make_tar(tar: &Path, count: usize, log: &Path) -> anyhow::Result<(usize, u64)> {
    let source = Path::new("/usr/share/doc");
    let mut files = Vec::new();
    walk(source, &[], &mut |path, metadata| {
        if metadata.is_file() {
            let relative = path.strip_prefix(source)?.to_path_buf();
            files.push((relative, metadata.size()));
        }
        Ok(())
    })?;
    files.sort();
    files.truncate(count);
    anyhow::ensure!(!files.is_empty(), "there is no file in /usr/share/doc");
    let list = tar.with_extension("list");
    let mut names = File::create(&list)?;
    for (path, _) in &files {
        writeln!(names, "{}", path.display())?;
    }
    let mut command = Command::new("tar");
    command
        .arg("-C")
        .arg(source)
        .arg("-cf")
        .arg(tar)
        .arg("-T")
        .arg(&list);
    super::process::run(&mut command, Duration::from_secs(120), log)?;
    Ok((files.len(), files.iter().map(|(_, size)| size).sum()))
}

/// Creates `count` files of `bytes` each in `directory`; fsyncs each where `durable`. Gives files
/// per second.
pub(crate) fn create_files(
    directory: &Path,
    count: usize,
    bytes: usize,
    durable: bool,
) -> anyhow::Result<f64> {
    std::fs::create_dir_all(directory)?;
    let content = vec![b'h'; bytes];
    let start = Instant::now();
    for index in 0..count {
        if index % 256 == 0 {
            check_stop()?;
        }
        let mut file = File::create_new(directory.join(format!("f{index}")))?;
        file.write_all(&content)?;
        if durable {
            file.sync_all()?;
        }
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// Files of one directory that [`create_empty`] makes.
const DIRECTORY_FILES: u64 = 1000;

/// Threads of [`create_empty`].
const CREATORS: usize = 4;

/// Creates `count` empty files below `root`, a thousand to a directory, from several threads.
pub(crate) fn create_empty(root: &Path, count: u64) -> anyhow::Result<()> {
    let next = std::sync::atomic::AtomicU64::new(0);
    let create = || -> anyhow::Result<()> {
        loop {
            check_stop()?;
            let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let first = number * DIRECTORY_FILES;
            if first >= count {
                return Ok(());
            }
            let directory = root.join(format!("d{number}"));
            std::fs::create_dir_all(&directory)?;
            for index in first..count.min(first + DIRECTORY_FILES) {
                File::create_new(directory.join(format!("f{index}")))?;
            }
        }
    };
    std::thread::scope(|scope| {
        let creators: Vec<_> = (0..CREATORS).map(|_| scope.spawn(create)).collect();
        creators
            .into_iter()
            .try_for_each(|creator| match creator.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_sees_every_file_once_and_leaves_out_what_it_is_told_to() {
        let root = tempfile::tempdir().unwrap();
        create_empty(root.path(), 1500).unwrap();
        create_files(&root.path().join(".glusterfs"), 3, 10, true).unwrap();
        let count = |skip: &[&str]| walk(root.path(), skip, &mut |_, _| Ok(())).unwrap();
        assert_eq!(count(&[".glusterfs"]), 1500);
        assert_eq!(count(&[]), 1503);
        drop_pages(root.path()).unwrap();
    }
}
