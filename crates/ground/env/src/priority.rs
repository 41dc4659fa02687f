//! Which threads may wait.

/// Nice value of work that can wait: a tenth of the share of others that want the same core (the
/// kernel's `sched_prio_to_weight`).
const LOW: i32 = 10;

/// Has the calling thread give way to others from now on: a program's clients wait for those, and not for
/// it. Where the kernel refuses that, the thread goes on as before.
pub fn give_way() {
    // Linux takes the number of a thread here, and means it alone (setpriority(2), "C library/kernel
    // differences").
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LOW);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_asks_gives_way() {
        let of_this = || rustix::process::getpriority_process(Some(rustix::thread::gettid()));
        let before = of_this().unwrap();
        let thread = std::thread::spawn(move || {
            give_way();
            of_this().unwrap()
        });
        assert_eq!(thread.join().unwrap(), LOW);
        assert_eq!(of_this().unwrap(), before);
    }
}
