//! The exit codes: what a script may rely on. `docs/exit-codes.md` is this table for people;
//! a test compares the two.

use serde::{Deserialize, Serialize};

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Something unexpected.
    Failed = 1,
    /// The command line.
    Usage = 2,
    /// Copies differ.
    Differences = 3,
    /// Running, but not redundant.
    Degraded = 4,
    /// Nothing runs there.
    NotRunning = 5,
    /// No answer in time.
    NoAnswer = 6,
    /// Configuration.
    Config = 10,
    /// A store's path.
    StorePath = 11,
    /// Too few stores for the copies.
    TooFewStores = 12,
    /// A store of another set or another history.
    StoreRefused = 13,
    /// Not enough members present.
    NoMajority = 14,
    /// The stores are in use.
    StoresInUse = 15,
    /// No FUSE.
    NoFuse = 20,
    /// Not root.
    NoPermission = 21,
    /// The mount point.
    MountPoint = 22,
    /// Something is mounted there.
    MountInUse = 23,
    /// A dead process's mount.
    StaleMount = 24,
    /// Programs use the mount.
    MountBusy = 25,
    /// Not a file of ours.
    Unrecognised = 30,
    /// A file of ours whose bytes are damaged.
    Corrupt = 31,
    /// A torture run found a broken promise.
    PromiseBroken = 32,
    /// A trace that a simulation or a replay cannot use.
    BadTrace = 33,
    /// No volume there, or not with these disks.
    NotAVolume = 40,
    /// Somebody uses the device.
    DeviceInUse = 41,
    /// The device cannot become a volume.
    DeviceRefused = 42,
    /// Blocks of a volume are lost.
    VolumeDamaged = 43,
    /// A volume has no room.
    VolumeFull = 44,
    /// No ublk.
    NoUblk = 45,
    /// Some of a transfer is not in place.
    TransferIncomplete = 50,
    /// A transfer cannot be done there.
    TransferRefused = 51,
    /// A transfer ended before its end.
    TransferStopped = 52,
    /// A certificate, its key, or that of the peer.
    BadCertificate = 53,
    /// Another server has the directory open.
    KvInUse = 60,
    /// A file of a server's log is damaged or missing.
    KvDamaged = 61,
    /// A server cannot serve there.
    KvRefused = 62,
}

/// One row of the table: code, name as in JSON, meaning.
pub type Row = (Exit, &'static str, &'static str);

/// All codes, in order.
pub static TABLE: &[Row] = &[
    (Exit::Done, "done", "Done."),
    (
        Exit::Failed,
        "failed",
        "Something unexpected failed; the message says what.",
    ),
    (Exit::Usage, "usage", "The command line was not understood."),
    (
        Exit::Differences,
        "differences",
        "`check` or `repair` found copies that differ, `scrub` damage that it could not mend, or `verify` files that are not as they were proved.",
    ),
    (
        Exit::Degraded,
        "degraded",
        "`status`: it runs, but some file lacks a copy, or writes are refused.",
    ),
    (
        Exit::NotRunning,
        "not_running",
        "No holdfast serves that mount.",
    ),
    (
        Exit::NoAnswer,
        "no_answer",
        "The running holdfast did not answer in time.",
    ),
    (
        Exit::Config,
        "config",
        "The configuration is unreadable, or has an unknown key or value.",
    ),
    (
        Exit::StorePath,
        "store_path",
        "A store's path is a file, has foreign content, is double, or is on the mount.",
    ),
    (
        Exit::TooFewStores,
        "too_few_stores",
        "Fewer stores than copies.",
    ),
    (
        Exit::StoreRefused,
        "store_refused",
        "A store belongs to another set, or its history diverged.",
    ),
    (
        Exit::NoMajority,
        "no_majority",
        "Not more than half of the last known members are present.",
    ),
    (
        Exit::StoresInUse,
        "stores_in_use",
        "Another holdfast uses one of the stores.",
    ),
    (
        Exit::NoFuse,
        "no_fuse",
        "The kernel's FUSE device cannot be opened.",
    ),
    (
        Exit::NoPermission,
        "no_permission",
        "The command needs root.",
    ),
    (
        Exit::MountPoint,
        "mount_point",
        "The mount point is missing, not a directory, or not empty.",
    ),
    (
        Exit::MountInUse,
        "mount_in_use",
        "Something is mounted there already.",
    ),
    (
        Exit::StaleMount,
        "stale_mount",
        "A dead process left its mount there, and it is not one of ours.",
    ),
    (
        Exit::MountBusy,
        "mount_busy",
        "`down`: programs still use the mount.",
    ),
    (
        Exit::Unrecognised,
        "unrecognised",
        "`inspect`, `verify`: not a file that Holdfast writes.",
    ),
    (
        Exit::Corrupt,
        "corrupt",
        "`inspect`, `verify`: a file of Holdfast's, with damaged bytes.",
    ),
    (
        Exit::PromiseBroken,
        "promise_broken",
        "`torture` found a broken promise, and prints the seed that replays it.",
    ),
    (
        Exit::BadTrace,
        "bad_trace",
        "`simulate`, `volume replay`: the trace cannot be read, has lines that are none of its format, or is of another base.",
    ),
    (
        Exit::NotAVolume,
        "not_a_volume",
        "`volume`: no volume is there, or the disks are not those of one, in order.",
    ),
    (
        Exit::DeviceInUse,
        "device_in_use",
        "`volume`: the device is mounted, or another process has it open.",
    ),
    (
        Exit::DeviceRefused,
        "device_refused",
        "`volume create`: the device is too small, or has content.",
    ),
    (
        Exit::VolumeDamaged,
        "volume_damaged",
        "`volume`: blocks are lost, or what is lost cannot be told.",
    ),
    (
        Exit::VolumeFull,
        "volume_full",
        "`volume`: it has no room for what was asked.",
    ),
    (
        Exit::NoUblk,
        "no_ublk",
        "`volume serve --ublk`: the kernel's ublk driver is not there, or cannot be used.",
    ),
    (
        Exit::TransferIncomplete,
        "transfer_incomplete",
        "`send`: some objects are not in place, or not as they are in the source; they are named.",
    ),
    (
        Exit::TransferRefused,
        "transfer_refused",
        "`send`, `receive`: the source or the destination cannot be used, or not at that level.",
    ),
    (
        Exit::TransferStopped,
        "transfer_stopped",
        "`send`, `receive`: it stopped before its end; what is in place is whole.",
    ),
    (
        Exit::BadCertificate,
        "bad_certificate",
        "`ca`, `send`, `receive`, `verify`, `kv`: a certificate or its key cannot be used, or one side does not accept the other's.",
    ),
    (
        Exit::KvInUse,
        "kv_in_use",
        "`kv`: another process has the directory open.",
    ),
    (
        Exit::KvDamaged,
        "kv_damaged",
        "`kv`: a file of the log, or one to be imported, is damaged or missing; it is named.",
    ),
    (
        Exit::KvRefused,
        "kv_refused",
        "`kv`: it cannot serve at that address, or not what that directory or file of users has.",
    ),
];

impl Exit {
    /// The number that the process ends with.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The name, as JSON shows it.
    pub fn name(self) -> &'static str {
        TABLE
            .iter()
            .find(|(exit, ..)| *exit == self)
            .map_or("failed", |(_, name, _)| name)
    }
}

/// The table as text for `--help`.
pub fn help() -> String {
    let mut text = String::from("Exit codes:\n");
    for (exit, name, meaning) in TABLE {
        text.push_str(&format!("  {:>3}  {name:<14}  {meaning}\n", exit.number()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_and_names_are_those_of_json() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (exit, name, _) in TABLE {
            let json = serde_json::to_value(exit).expect("an enum serialises");
            assert_eq!(json, *name);
            assert_eq!(exit.name(), *name);
        }
    }
}
