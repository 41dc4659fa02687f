//! Batches where the kernel refuses io_uring, as in most containers. In a test program of its own,
//! because what the kernel offers is decided once per process.

use holdfast_env::real::{RealDir, batches_use_io_uring};
use holdfast_env::{Dir, Open, Request};

/// Makes `io_uring_setup(2)` fail with EPERM on this thread and its children.
fn forbid_io_uring() {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        // The number of the call is the first field of struct seccomp_data.
        step(load, 0, 0, 0),
        step(equal, 0, 1, libc::SYS_io_uring_setup as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    #[expect(unsafe_code, reason = "there is no safe call for seccomp filters")]
    // SAFETY: `program` points to `len` instructions that outlive the call, which copies them.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ),
        ]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
}

#[test]
fn batches_run_without_io_uring_and_the_refusal_is_remembered() {
    let refused = std::thread::spawn(|| {
        forbid_io_uring();
        let home = tempfile::tempdir().unwrap();
        let dir = RealDir::open(home.path()).unwrap();
        let disk = dir.open("f", Open::Create(8192)).unwrap();
        let mut found = [0; 4096];
        let results = disk.submit(&mut [
            Request::Write {
                offset: 0,
                data: &[1; 4096],
            },
            Request::Write {
                offset: 4096,
                data: &[2; 4096],
            },
            Request::Sync,
            Request::Read {
                offset: 2048,
                buffer: &mut found,
            },
        ]);
        assert_eq!(results, [Ok(()); 4]);
        assert_eq!((found[0], found[4095]), (1, 2));
        batches_use_io_uring()
    });
    assert!(!refused.join().unwrap());
    assert!(
        !batches_use_io_uring(),
        "a thread without the filter keeps to what was decided"
    );
}
