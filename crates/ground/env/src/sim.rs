//! A simulated machine: directories, disks and a clock that obey a seed.
//!
//! What the implementation on the real machine promises holds here too, and not a bit more: at
//! [`World::crash`] what was not synced is kept, lost, or torn at 512 bytes, each as the seed
//! says. [`Trouble`] plans faults, [`crash`] enumerates all crashes of a workload. [`Network`] joins
//! hosts, and [`harmed`] does harm to any connection.
//!
//! ```
//! # use holdfast_env as env;
//! use env::{Dir, Disk, Open, sim::World};
//! let world = World::new(7);
//! let disk = world.dir("store").open("blocks", Open::Create(4096))?;
//! world.dir("store").sync()?;
//! disk.write_at(0, b"lost?")?;
//! disk.sync()?;
//! world.crash();
//! assert!(disk.sync().is_err(), "a handle does not outlive the machine");
//! assert_eq!(&world.dir("store").read("blocks")?[..5], b"lost?");
//! # Ok::<(), env::errno::Errno>(())
//! ```

pub mod crash;
mod file;
mod files;
mod handle;
mod harm;
mod image;
pub mod network;
mod trouble;
mod world;

pub use files::SimFiles;
pub use handle::{SimDir, SimDisk};
pub use harm::{Harm, harmed};
pub use network::Network;
pub use trouble::{Effect, Operation, Trouble};
pub use world::{SimClock, World};

/// Bytes that a medium writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;
