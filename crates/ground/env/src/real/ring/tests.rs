use super::{Progress, Request, Target, is_final, progress, run};
use crate::errno::Errno;
use crate::poison::Poison;
use std::os::fd::AsFd;

#[test]
fn only_a_shortage_is_worth_another_attempt() {
    for errno in [Errno::NOSYS, Errno::PERM, Errno::ACCESS, Errno::INVAL] {
        assert!(is_final(errno), "{errno}");
    }
    for errno in [Errno::NOMEM, Errno::MFILE] {
        assert!(!is_final(errno), "{errno}");
    }
}

#[test]
fn short_answers_go_on_and_odd_ones_are_named() {
    let write = Request::Write {
        offset: 0,
        data: &[0; 10],
    };
    assert_eq!(progress(&write, 0, 10), Progress::Ended(Ok(())));
    assert_eq!(progress(&write, 4, 5), Progress::Short);
    assert_eq!(progress(&write, 4, 6), Progress::Ended(Ok(())));
    assert_eq!(progress(&write, 4, 0), Progress::Ended(Err(Errno::IO)));
    assert_eq!(
        progress(&write, 0, -libc::ENOSPC),
        Progress::Ended(Err(Errno::NOSPC))
    );
    for refused in [libc::EINTR, libc::EAGAIN, libc::EOPNOTSUPP] {
        assert_eq!(progress(&write, 0, -refused), Progress::Refused);
    }
    let read = Request::Read {
        offset: 0,
        buffer: &mut [0; 10],
    };
    assert_eq!(progress(&read, 9, 0), Progress::Ended(Err(Errno::INVAL)));
}

/// A pipe gives and takes what it has room for: reads of it come back short, and have no end.
#[test]
fn a_short_read_goes_on_where_it_stopped() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut writer = writer;
    let mut first = [0; 3000];
    let mut buffer = vec![0; 6000];
    std::io::Write::write_all(&mut writer, &[7; 2000]).expect("fits");
    let feeder = std::thread::spawn(move || {
        std::io::Write::write_all(&mut writer, &[7; 7000]).expect("fits");
    });
    let mut phase = [
        Request::Read {
            offset: 0,
            buffer: &mut first,
        },
        Request::Read {
            offset: 0,
            buffer: &mut buffer,
        },
    ];
    let aside = |_: &mut Request<'_>| Err(Errno::OPNOTSUPP);
    let target = |_: &Request<'_>| Target::Ring(reader.as_fd());
    let results = run(&Poison::default(), &mut phase, target, aside);
    feeder.join().expect("joins");
    if super::batches_use_io_uring() {
        assert_eq!(results, [Ok(()), Ok(())]);
        assert!(first.iter().chain(&buffer).all(|byte| *byte == 7));
    } else {
        assert_eq!(results, [Err(Errno::OPNOTSUPP); 2]);
    }
}
