//! One contract for every code, and proof that it notices a code that breaks it.

use holdfast_parity::{Code, Kernel, Misuse, ReedSolomon};

#[path = "contract/checks.rs"]
mod checks;
#[path = "contract/deviant.rs"]
mod deviant;
#[path = "contract/oracle.rs"]
mod oracle;
#[path = "contract/stripe.rs"]
mod stripe;

fn failures_of(kernel: Kernel) -> Vec<(&'static str, String)> {
    checks::failures(&|geometry| {
        let code = ReedSolomon::with_kernel(geometry, kernel).expect("an available kernel");
        assert_eq!(code.kernel(), kernel);
        code
    })
}

#[test]
fn the_portable_kernel_keeps_the_contract() {
    assert_eq!(failures_of(Kernel::Portable), []);
}

#[test]
fn the_kernels_of_this_processor_and_build_keep_the_contract() {
    let mut run = Vec::new();
    for kernel in [Kernel::Simd, Kernel::Isal] {
        if kernel.is_available() {
            assert_eq!(failures_of(kernel), [], "{kernel}");
            run.push(kernel);
        }
    }
    // With the feature, ISA-L is compared with the same oracle, and so with every other kernel.
    assert_eq!(run.contains(&Kernel::Isal), cfg!(feature = "isal"));
}

#[test]
fn the_fastest_kernel_is_one_that_is_available() {
    let geometry = holdfast_parity::Geometry::new(2, 1).unwrap();
    let best = Kernel::best();
    assert!(best.is_available());
    assert_eq!(ReedSolomon::new(geometry).kernel(), best);
    for kernel in Kernel::ALL {
        match ReedSolomon::with_kernel(geometry, kernel) {
            Ok(code) => assert_eq!(code.kernel(), kernel),
            Err(why) => {
                assert_eq!(why, Misuse::NoKernel { kernel });
                assert!(!kernel.is_available());
            }
        }
    }
    assert_eq!(best == Kernel::Portable, {
        !Kernel::Simd.is_available() && !Kernel::Isal.is_available()
    });
}

#[test]
fn a_code_can_be_used_behind_a_pointer() {
    let geometry = holdfast_parity::Geometry::new(4, 2).unwrap();
    let code: Box<dyn Code + Send + Sync> = Box::new(ReedSolomon::new(geometry));
    assert_eq!(code.geometry(), geometry);
}

#[test]
fn every_planted_bug_is_noticed() {
    for (bug, name) in deviant::BUGS {
        let (_, check) = checks::all()
            .into_iter()
            .find(|check| check.0 == name)
            .expect("a check");
        let noticed = check(&|geometry| deviant::Deviant {
            inner: ReedSolomon::with_kernel(geometry, Kernel::Portable).expect("runs everywhere"),
            bug,
        });
        println!("{bug:?}: {noticed:?}");
        assert!(noticed.is_err(), "\"{name}\" did not notice {bug:?}");
    }
}
