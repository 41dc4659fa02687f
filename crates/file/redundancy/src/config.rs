//! What a set is told when it starts. The same struct is filled from TOML (section
//! `[redundancy]`) and, with feature `cli`, from the command line.

use crate::encoding::{ChunkBytes, Geometry, Parameters, ReadWeight, Share};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Most stores that a set can have: a [`crate::label::StoreMask`] is 64 bits wide.
pub const STORES_MAX: usize = 64;

/// Most copies of a file that a set keeps.
pub const COPIES_MAX: u8 = 3;

/// Configuration of one set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where applications see the protected tree
    #[cfg_attr(feature = "cli", arg(value_name = "MOUNT", default_value_os_t = Config::default().mount))]
    pub mount: PathBuf,
    /// A directory that holds one store, best each on its own disk; give it once per store
    #[cfg_attr(feature = "cli", arg(long = "store", value_name = "DIR", default_values_os_t = Config::default().stores))]
    pub stores: Vec<PathBuf>,
    /// Copies of each file, on distinct stores (1 to 3)
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = Config::default().copies))]
    pub copies: u8,
    /// Most MB a second that a rebuild may copy; 0 is no limit
    #[cfg_attr(feature = "cli", arg(long, value_name = "MB", default_value_t = Config::default().rebuild_mb_per_s))]
    pub rebuild_mb_per_s: u32,
    /// Milliseconds between checkpoints of the write-intent journal (10 to 60000)
    #[cfg_attr(feature = "cli", arg(long, value_name = "MS", default_value_t = Config::default().checkpoint_ms))]
    pub checkpoint_ms: u32,
    /// KiB that the kernel reads ahead of a sequential reader (0 to 16384)
    #[cfg_attr(feature = "cli", arg(long, value_name = "KIB", default_value_t = Config::default().read_ahead_kb))]
    pub read_ahead_kb: u32,
    /// Inodes kept in memory before the kernel is asked to forget some (at least 1000)
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = Config::default().inode_limit))]
    pub inode_limit: u32,
    /// Threads that serve requests (1 to 64)
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = Config::default().threads))]
    pub threads: u8,
    /// Most of the data, in percent, whose copies give way to parity where it is cold; 0 encodes
    /// nothing, and gives what is encoded its copies back
    #[cfg_attr(feature = "cli", arg(long, value_name = "PERCENT", default_value_t = Config::default().encode_percent))]
    pub encode_percent: u8,
    /// Most of the requests, in percent, that encoded data may get; 100 is no limit
    #[cfg_attr(feature = "cli", arg(long, value_name = "PERCENT", default_value_t = Config::default().encode_load_percent))]
    pub encode_load_percent: u8,
    /// Seconds over which requests are counted before cold data is chosen (1 to 1000000)
    #[cfg_attr(feature = "cli", arg(long, value_name = "S", default_value_t = Config::default().encode_interval_s))]
    pub encode_interval_s: u32,
    /// KiB of a chunk, the unit of encoding: a power of two from 4 to 65536; files without a whole
    /// chunk keep their copies
    #[cfg_attr(feature = "cli", arg(long, value_name = "KIB", default_value_t = Config::default().encode_chunk_kb))]
    pub encode_chunk_kb: u32,
    /// Writes to encoded data wait in differentials, up to so many thousandths of the capacity,
    /// before they are merged into parity; 0 merges them as they come
    #[cfg_attr(feature = "cli", arg(long, value_name = "PERMILLE", default_value_t = Config::default().encode_differential_permille))]
    pub encode_differential_permille: u16,
    /// Merges each write to encoded data into parity before it is answered, so that nothing waits in
    /// differentials; slow, and here to compare with
    #[cfg_attr(feature = "cli", arg(long, default_value_t = Config::default().encode_at_once))]
    pub encode_at_once: bool,
    /// Seconds between two scrubs of what is encoded that begin by themselves (at most 315360000, ten
    /// years); 0 is none
    #[cfg_attr(feature = "cli", arg(long, value_name = "S", default_value_t = Config::default().scrub_interval_s))]
    pub scrub_interval_s: u32,
    /// Most MB a second that a scrub reads, of all stores together; 0 is no limit
    #[cfg_attr(feature = "cli", arg(long, value_name = "MB", default_value_t = Config::default().scrub_mb_per_s))]
    pub scrub_mb_per_s: u32,
    /// This store is gone for good: start without it. The operator's word for one start, so
    /// the configuration file cannot hold it
    #[cfg_attr(feature = "cli", arg(long, value_name = "INDEX"))]
    #[serde(skip)]
    pub without: Vec<u8>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mount: PathBuf::from("/srv/holdfast"),
            stores: (1..=3)
                .map(|n| PathBuf::from(format!("/var/lib/holdfast/store-{n}")))
                .collect(),
            copies: 2,
            rebuild_mb_per_s: 0,
            checkpoint_ms: 5000,
            read_ahead_kb: 1024,
            inode_limit: 100_000,
            threads: 16,
            encode_percent: 90,
            encode_load_percent: 10,
            encode_interval_s: 3600,
            encode_chunk_kb: 512,
            encode_differential_permille: 5,
            encode_at_once: false,
            scrub_interval_s: 30 * 86_400,
            scrub_mb_per_s: 64,
            without: Vec::new(),
        }
    }
}

/// A value that no set can work with.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Fewer stores than copies.
    #[error("{copies} copies of each file need {copies} stores, and {stores} given")]
    TooFewStores {
        /// Stores given.
        stores: usize,
        /// Copies asked for.
        copies: u8,
    },
    /// More stores than a set can have.
    #[error("{stores} stores are more than the {STORES_MAX} of a set")]
    TooManyStores {
        /// Stores given.
        stores: usize,
    },
    /// A number outside its range.
    #[error("{key} = {value} is outside {min} to {max}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// Least allowed value.
        min: u64,
        /// Greatest allowed value.
        max: u64,
    },
    /// A chunk of a size that there is none of.
    #[error("encode_chunk_kb = {0} is not a power of two from 4 to 65536")]
    ChunkSize(u32),
    /// A path that depends on where the process was started.
    #[error("{key} {} is not an absolute path", path.display())]
    NotAbsolute {
        /// The key.
        key: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The same store twice.
    #[error("store {} is given twice", path.display())]
    SameStore {
        /// The path.
        path: PathBuf,
    },
    /// One store inside another.
    #[error("store {} is inside store {}", inner.display(), outer.display())]
    NestedStore {
        /// The inner one.
        inner: PathBuf,
        /// The outer one.
        outer: PathBuf,
    },
    /// A store at or below the mount point: it would disappear under the mount.
    #[error("store {} is on the mount {}", store.display(), mount.display())]
    StoreOnMount {
        /// The store.
        store: PathBuf,
        /// The mount point.
        mount: PathBuf,
    },
    /// The mount point inside a store: copies would hold themselves.
    #[error("mount {} is inside store {}", mount.display(), store.display())]
    MountInStore {
        /// The store.
        store: PathBuf,
        /// The mount point.
        mount: PathBuf,
    },
}

impl Config {
    /// Checks every value, without looking at the disk: paths are compared as they are written.
    ///
    /// # Errors
    /// The first value that no set can work with.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let ranges: [(&'static str, u64, u64, u64); 10] = [
            ("copies", u64::from(self.copies), 1, u64::from(COPIES_MAX)),
            ("checkpoint_ms", u64::from(self.checkpoint_ms), 10, 60_000),
            ("read_ahead_kb", u64::from(self.read_ahead_kb), 0, 16_384),
            (
                "inode_limit",
                u64::from(self.inode_limit),
                1000,
                u64::from(u32::MAX),
            ),
            ("threads", u64::from(self.threads), 1, 64),
            ("encode_percent", u64::from(self.encode_percent), 0, 100),
            (
                "encode_differential_permille",
                u64::from(self.encode_differential_permille),
                0,
                1000,
            ),
            (
                "encode_load_percent",
                u64::from(self.encode_load_percent),
                0,
                100,
            ),
            (
                "encode_interval_s",
                u64::from(self.encode_interval_s),
                1,
                1_000_000,
            ),
            (
                "scrub_interval_s",
                u64::from(self.scrub_interval_s),
                0,
                315_360_000,
            ),
        ];
        for (key, value, min, max) in ranges {
            if value < min || value > max {
                return Err(ConfigError::OutOfRange {
                    key,
                    value,
                    min,
                    max,
                });
            }
        }
        self.chunk()?;
        let stores = self.stores.len();
        if stores < usize::from(self.copies) {
            return Err(ConfigError::TooFewStores {
                stores,
                copies: self.copies,
            });
        }
        if stores > STORES_MAX {
            return Err(ConfigError::TooManyStores { stores });
        }
        self.validate_paths()
    }

    fn chunk(&self) -> Result<ChunkBytes, ConfigError> {
        let bytes = u64::from(self.encode_chunk_kb) << 10;
        ChunkBytes::new(bytes).map_err(|_| ConfigError::ChunkSize(self.encode_chunk_kb))
    }

    /// How cold chunks are encoded: over as many stores as there are, with as much parity as there
    /// are copies to lose. `None` where nothing is to be encoded, or would free nothing.
    pub fn encoding(&self) -> Option<Parameters> {
        let stores = u8::try_from(self.stores.len()).ok()?;
        let percent = |percent: u8| Share::new(f64::from(percent) / 100.0).ok();
        Some(Parameters {
            geometry: Geometry::widest(self.copies, stores)?,
            chunk: self.chunk().ok()?,
            read_weight: ReadWeight::new(0.0).ok()?,
            load_limit: percent(self.encode_load_percent)?,
            target_rate: percent(self.encode_percent).filter(|share| *share > Share::NONE)?,
            differential: Share::per_mille(self.encode_differential_permille),
            at_once: self.encode_at_once,
            interval: Duration::from_secs(self.encode_interval_s.into()),
        })
    }

    fn validate_paths(&self) -> Result<(), ConfigError> {
        absolute("mount", &self.mount)?;
        let mount = plain(&self.mount);
        for (at, path) in self.stores.iter().enumerate() {
            absolute("store", path)?;
            let store = plain(path);
            if store.starts_with(&mount) {
                return Err(ConfigError::StoreOnMount {
                    store: path.clone(),
                    mount: self.mount.clone(),
                });
            }
            if mount.starts_with(&store) {
                return Err(ConfigError::MountInStore {
                    store: path.clone(),
                    mount: self.mount.clone(),
                });
            }
            for earlier in self.stores.iter().take(at) {
                let other = plain(earlier);
                let (inner, outer) = match (store.starts_with(&other), other.starts_with(&store)) {
                    (true, true) => return Err(ConfigError::SameStore { path: path.clone() }),
                    (true, false) => (path.clone(), earlier.clone()),
                    (false, true) => (earlier.clone(), path.clone()),
                    (false, false) => continue,
                };
                return Err(ConfigError::NestedStore { inner, outer });
            }
        }
        Ok(())
    }
}

fn absolute(key: &'static str, path: &Path) -> Result<(), ConfigError> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(ConfigError::NotAbsolute {
        key,
        path: path.to_path_buf(),
    })
}

/// The path without `.` parts and doubled slashes; `..` stays, because what it means depends on
/// symbolic links.
fn plain(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| *part != Component::CurDir)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(stores: &[&str]) -> Config {
        Config {
            stores: stores.iter().map(PathBuf::from).collect(),
            mount: PathBuf::from("/m"),
            ..Config::default()
        }
    }

    #[test]
    fn the_default_is_valid() {
        assert_eq!(Config::default().validate(), Ok(()));
    }

    #[test]
    fn a_store_given_twice_is_found_however_it_is_written() {
        let found = with(&["/a/b", "/a/./b/"]).validate();
        assert!(matches!(found, Err(ConfigError::SameStore { .. })));
    }

    #[test]
    fn nesting_is_found_in_both_directions() {
        for stores in [["/a", "/a/b"], ["/a/b", "/a"]] {
            let found = with(&stores).validate();
            let expected = ConfigError::NestedStore {
                inner: "/a/b".into(),
                outer: "/a".into(),
            };
            assert_eq!(found, Err(expected));
        }
    }

    #[test]
    fn a_store_that_only_shares_a_prefix_of_the_name_is_fine() {
        assert_eq!(with(&["/a/b", "/a/bc", "/mm"]).validate(), Ok(()));
    }

    #[test]
    fn a_store_on_the_mount_or_around_it_is_refused() {
        let on = with(&["/a", "/m/x"]).validate();
        assert!(matches!(on, Err(ConfigError::StoreOnMount { .. })));
        let mut around = with(&["/a", "/b"]);
        around.mount = "/b/m".into();
        let around = around.validate();
        assert!(matches!(around, Err(ConfigError::MountInStore { .. })));
    }

    #[test]
    fn copies_need_as_many_stores() {
        let found = with(&["/a"]).validate();
        let expected = ConfigError::TooFewStores {
            stores: 1,
            copies: 2,
        };
        assert_eq!(found, Err(expected));
    }

    #[test]
    fn the_code_follows_the_stores_and_the_copies() {
        let shape = |stores: usize, copies| {
            let config = Config {
                stores: (0..stores).map(|n| format!("/s{n}").into()).collect(),
                copies,
                encode_percent: 50,
                ..Config::default()
            };
            let geometry = config.encoding()?.geometry;
            Some((geometry.data(), geometry.parity()))
        };
        assert_eq!(shape(3, 2), Some((2, 1)));
        assert_eq!(shape(6, 3), Some((4, 2)));
        assert_eq!(shape(20, 2), Some((8, 1)));
        assert_eq!(shape(2, 2), None, "1+1 frees nothing");
        assert_eq!(shape(3, 3), None);
        assert_eq!(shape(3, 1), None, "there is no copy to give up");
        assert_eq!(
            Config {
                encode_percent: 0,
                ..with(&["/a", "/b", "/c"])
            }
            .encoding(),
            None
        );
    }

    #[test]
    fn a_chunk_is_a_power_of_two() {
        let config = Config {
            encode_chunk_kb: 500,
            ..Config::default()
        };
        assert_eq!(config.validate(), Err(ConfigError::ChunkSize(500)));
    }

    #[test]
    fn relative_paths_are_refused() {
        let found = with(&["/a", "b"]).validate();
        assert!(matches!(found, Err(ConfigError::NotAbsolute { .. })));
    }
}
