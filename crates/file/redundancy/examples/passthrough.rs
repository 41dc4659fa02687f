//! Mounts one local store, adding nothing: `passthrough STORE MOUNTPOINT [INODE_LIMIT]`. Ends when
//! the mount is taken away, and prints the calls since the last line whenever one is read from
//! standard input.

#[path = "../tests/passthrough/layer.rs"]
mod layer;

use anyhow::Context;
use holdfast_redundancy::store::local::LocalStore;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (store, mountpoint) = match arguments.as_slice() {
        [_, store, mountpoint, ..] => (Path::new(store), Path::new(mountpoint)),
        _ => anyhow::bail!("usage: passthrough STORE MOUNTPOINT [INODE_LIMIT]"),
    };
    let mut options = mount::Options::default();
    if let Some(limit) = arguments.get(3) {
        options.inode_limit = limit.parse().context("the inode limit is a number")?;
    }
    LocalStore::create_layout(store)?;
    let store = LocalStore::open(store)?;
    let layer = Arc::new(layer::Passthrough::new(store)?);
    let shared: Arc<dyn mount::Layer> = Arc::clone(&layer) as Arc<dyn mount::Layer>;
    mount::Session::clear_stale(mountpoint)?;
    let session = Arc::new(mount::Session::start(shared, mountpoint, &options)?);
    println!("mounted");
    let watched = Arc::clone(&session);
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines() {
            println!(
                "{:?} inodes {} known {}",
                layer.counts.take(),
                watched.inodes(),
                layer.known()
            );
        }
    });
    session.wait()?;
    Ok(())
}
