//! Every refusal, as a person reads it. The temporary directory shows as /DIR.

use super::*;
use crate::config::{InForce, Origin, Settings};
use std::collections::BTreeMap;
use std::fs;
use tempfile::TempDir;

struct Scene {
    dir: TempDir,
    in_force: InForce,
    machine: Machine,
}

impl Scene {
    /// Three empty stores and an empty mount point, all named by the user, run by root.
    fn new() -> Scene {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir(&path).expect("a new directory");
            path
        };
        let redundancy = redundancy::Config {
            stores: ["a", "b", "c"].map(path).to_vec(),
            mount: path("mount"),
            ..redundancy::Config::default()
        };
        let origins = ["stores", "mount"]
            .map(|key| (("redundancy".to_owned(), key.to_owned()), Origin::Flag));
        Scene {
            machine: Machine {
                euid: 0,
                fuse: PathBuf::from("/dev/fuse"),
                mounts: Vec::new(),
            },
            in_force: InForce {
                settings: Settings { redundancy },
                origins: BTreeMap::from(origins),
            },
            dir,
        }
    }

    fn config(&mut self) -> &mut redundancy::Config {
        &mut self.in_force.settings.redundancy
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn plan(&self) -> Plan {
        check(&self.in_force, &self.machine).expect("nothing to refuse")
    }

    fn refusal(&self) -> String {
        let before = listing(self.dir.path());
        let failure = check(&self.in_force, &self.machine).expect_err("something to refuse");
        assert_eq!(
            listing(self.dir.path()),
            before,
            "a refusal changes nothing"
        );
        let dir = self.dir.path().to_str().expect("a UTF-8 path");
        failure.to_string().replace(dir, "/DIR")
    }
}

fn listing(dir: &Path) -> Vec<PathBuf> {
    let mut all = vec![dir.to_path_buf()];
    let mut at = 0;
    while let Some(next) = all.get(at).cloned() {
        at += 1;
        if next.is_dir() {
            let entries = fs::read_dir(&next).expect("a readable directory");
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            all.extend(paths);
        }
    }
    all
}

#[test]
fn empty_stores_and_an_empty_mount_point_are_fine() {
    let scene = Scene::new();
    let plan = scene.plan();
    assert_eq!((plan.make, plan.clear), (Vec::new(), None));
    assert_eq!(plan.notes.len(), 1, "the three share a file system");
}

#[test]
fn stores_of_a_new_set_are_made() {
    let scene = Scene::new();
    fs::remove_dir(scene.path("b")).expect("an empty directory");
    let plan = scene.plan();
    assert_eq!(plan.make, [scene.path("b")]);
    plan.carry_out().expect("a directory can be made");
    assert!(scene.path("b").is_dir());
}

#[test]
fn a_missing_store_of_an_old_set_is_left_to_the_engine() {
    let scene = Scene::new();
    fs::create_dir(scene.path("a/.holdfast")).expect("a store of ours");
    fs::remove_dir(scene.path("b")).expect("an empty directory");
    assert_eq!(scene.plan().make, Vec::<PathBuf>::new());
}

#[test]
fn default_directories_are_made_with_their_parents() {
    let mut scene = Scene::new();
    let mount = scene.path("srv/holdfast");
    scene.config().mount = mount.clone();
    scene.in_force.origins.clear();
    assert_eq!(scene.plan().make, [scene.path("srv"), mount]);
}

#[test]
fn a_store_that_is_the_root_of_a_new_ext4_is_empty() {
    let scene = Scene::new();
    fs::create_dir(scene.path("a/lost+found")).expect("a new directory");
    scene.plan();
}

#[test]
fn a_store_that_is_a_file() {
    let scene = Scene::new();
    fs::remove_dir(scene.path("b")).expect("an empty directory");
    fs::write(scene.path("b"), "x").expect("a new file");
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_store_that_has_lost_its_system_directory() {
    let scene = Scene::new();
    fs::create_dir(scene.path("b/data")).expect("a new directory");
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_store_with_files_of_others() {
    let scene = Scene::new();
    fs::write(scene.path("b/letter.txt"), "x").expect("a new file");
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_store_that_is_the_mount() {
    let mut scene = Scene::new();
    let mount = scene.path("mount");
    scene.config().stores[2] = mount;
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_store_inside_the_mount() {
    let mut scene = Scene::new();
    let inside = scene.path("mount/store");
    scene.config().stores[2] = inside;
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_store_inside_the_mount_by_a_symbolic_link() {
    let mut scene = Scene::new();
    let link = scene.path("link");
    std::os::unix::fs::symlink(scene.path("mount"), &link).expect("a new link");
    scene.config().stores[2] = link;
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_mount_inside_a_store() {
    let mut scene = Scene::new();
    let inside = scene.path("a/mount");
    scene.config().mount = inside;
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_store_given_twice() {
    let mut scene = Scene::new();
    let first = scene.path("a");
    scene.config().stores[2] = first;
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_store_given_under_two_names() {
    let mut scene = Scene::new();
    let link = scene.path("link");
    std::os::unix::fs::symlink(scene.path("a"), &link).expect("a new link");
    scene.config().stores[2] = link;
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_store_that_another_process_uses() {
    let scene = Scene::new();
    fs::create_dir(scene.path("b/.holdfast")).expect("a store of ours");
    let lock = fs::File::create(scene.path("b/.holdfast/lock")).expect("a lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .expect("nobody holds it");
    insta::assert_snapshot!(scene.refusal());
    drop(lock);
    scene.plan();
}

#[test]
fn a_store_whose_parent_is_missing() {
    let mut scene = Scene::new();
    let deep = scene.path("disk/store");
    scene.config().stores[2] = deep;
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn too_few_stores_for_the_copies() {
    let mut scene = Scene::new();
    scene.config().stores.truncate(1);
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_value_out_of_range() {
    let mut scene = Scene::new();
    scene.config().copies = 9;
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn no_fuse_in_the_kernel() {
    let mut scene = Scene::new();
    scene.machine.fuse = PathBuf::from("/nonexistent/fuse");
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn something_else_in_the_place_of_fuse() {
    let mut scene = Scene::new();
    scene.machine.fuse = PathBuf::from("/dev/null");
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_store_on_the_mount_of_another_holdfast() {
    let mut scene = Scene::new();
    let point = scene.path("b");
    scene.config().stores[1] = point.join("store");
    let mut other = mounted(&scene, "fuse.holdfast", "holdfast");
    other.point = point;
    scene.machine.mounts = vec![other];
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_store_in_memory_is_noted() {
    let mut scene = Scene::new();
    scene.config().stores[1] = PathBuf::from("/dev/shm/holdfast-store");
    let plan = scene.plan();
    let noted = plan.notes.iter().any(|note| note.contains("in memory"));
    assert!(noted, "{:?}", plan.notes);
    assert!(!scene.path("/dev/shm/holdfast-store").exists());
}

#[test]
fn not_root() {
    let mut scene = Scene::new();
    scene.machine.euid = 1000;
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_mount_point_that_is_missing() {
    let mut scene = Scene::new();
    let missing = scene.path("missing");
    scene.config().mount = missing;
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_mount_point_that_is_a_file() {
    let mut scene = Scene::new();
    let file = scene.path("file");
    fs::write(&file, "x").expect("a new file");
    scene.config().mount = file;
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_mount_point_that_is_not_empty() {
    let scene = Scene::new();
    fs::write(scene.path("mount/letter.txt"), "x").expect("a new file");
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_mount_point_with_another_file_system() {
    let mut scene = Scene::new();
    scene.machine.mounts = vec![mounted(&scene, "ext4", "/dev/sdb1")];
    insta::assert_snapshot!(scene.refusal());
}

#[test]
fn a_mount_point_that_a_holdfast_serves() {
    let mut scene = Scene::new();
    scene.machine.mounts = vec![mounted(&scene, "fuse.holdfast", "holdfast")];
    insta::assert_snapshot!(scene.refusal());
}

fn mounted(scene: &Scene, kind: &str, source: &str) -> Mounted {
    Mounted {
        point: scene.path("mount"),
        kind: kind.to_owned(),
        source: source.to_owned(),
    }
}

/// A FUSE mount whose process is gone, taken away when dropped.
struct DeadMount(PathBuf);

impl DeadMount {
    fn new(point: &Path, kind: &std::ffi::CStr) -> DeadMount {
        use std::os::fd::AsRawFd;
        let device = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .expect("a FUSE device");
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let options = std::ffi::CString::new(options).expect("no zero byte");
        let flags = rustix::mount::MountFlags::NODEV;
        rustix::mount::mount("holdfast", point, kind, flags, options.as_c_str())
            .expect("root may mount");
        DeadMount(point.to_path_buf())
    }
}

impl Drop for DeadMount {
    fn drop(&mut self) {
        let flags = rustix::mount::UnmountFlags::DETACH;
        // Gone already where the test took it away.
        let _gone = rustix::mount::unmount(&self.0, flags);
    }
}

#[test]
fn the_stale_mount_of_a_dead_holdfast_is_cleared() {
    let mut scene = Scene::new();
    let point = scene.path("mount");
    let _mount = DeadMount::new(&point, c"fuse.holdfast");
    scene.machine.mounts = Machine::look().mounts;
    let plan = scene.plan();
    assert_eq!(plan.clear.as_deref(), Some(point.as_path()));
    plan.carry_out().expect("a dead mount can be taken away");
    scene.machine.mounts = Machine::look().mounts;
    assert_eq!(scene.plan().clear, None);
}

#[test]
fn the_stale_mount_of_another_program_is_left_alone() {
    let mut scene = Scene::new();
    let point = scene.path("mount");
    let _mount = DeadMount::new(&point, c"fuse.other");
    scene.machine.mounts = Machine::look().mounts;
    insta::assert_snapshot!(scene.refusal());
}
