use super::*;
use crate::encoding::ChunkIndex;
use crate::label::ObjectId;
use proptest::prelude::*;

fn page(number: u32) -> PageId {
    PageId {
        chunk: ChunkId {
            object: ObjectId(7),
            index: ChunkIndex(number / 4),
        },
        page: number % 4,
    }
}

fn names(pages: &[Due]) -> Vec<PageId> {
    pages.iter().map(|due| due.page).collect()
}

#[test]
fn the_least_recently_written_page_above_the_limit_is_due() {
    let mut pages = DifferentialPages::new(2);
    assert_eq!(pages.write(page(1)), Written::New);
    assert_eq!(pages.write(page(2)), Written::New);
    assert!(pages.due(9).is_empty());
    assert_eq!(pages.write(page(1)), Written::Again);
    assert_eq!(pages.write(page(3)), Written::New);
    let due = pages.due(9);
    assert_eq!(names(&due), [page(2)], "page 1 was written later");
    assert!(pages.merged(due[0]));
    assert!(pages.due(9).is_empty());
    assert!(!pages.contains(page(2)));
    assert_eq!(pages.len(), 2);
}

#[test]
fn a_page_written_while_it_is_merged_stays() {
    let mut pages = DifferentialPages::new(0);
    pages.write(page(1));
    let due = pages.due(1)[0];
    pages.write(page(1));
    assert!(!pages.merged(due));
    assert!(pages.contains(page(1)));
    let again = pages.due(1)[0];
    assert!(pages.merged(again));
    assert!(!pages.merged(again), "it is gone");
    assert!(pages.is_empty());
}

#[test]
fn a_lower_limit_makes_pages_due() {
    let mut pages = DifferentialPages::new(10);
    for number in 0..5 {
        pages.write(page(number));
    }
    pages.set_limit(2);
    assert_eq!(names(&pages.due(2)), [page(0), page(1)]);
    assert_eq!(names(&pages.due(9)), [page(0), page(1), page(2)]);
}

/// The same in the plainest way: a list, oldest first.
#[derive(Default)]
struct Naive(Vec<PageId>);

#[derive(Clone, Debug)]
enum Step {
    Write(u32),
    Merge(usize),
    Forget(u32),
    Limit(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..24u32).prop_map(Step::Write),
        3 => (1..4usize).prop_map(Step::Merge),
        1 => (0..24u32).prop_map(Step::Forget),
        1 => (0..12u64).prop_map(Step::Limit),
    ]
}

proptest! {
    #[test]
    fn it_is_a_list_in_the_order_of_last_writes(steps in prop::collection::vec(step(), 1..200)) {
        let (mut pages, mut naive, mut limit) = (DifferentialPages::new(6), Naive::default(), 6);
        for step in steps {
            match step {
                Step::Write(number) => {
                    let was = naive.0.iter().position(|held| *held == page(number));
                    let expected = if was.is_some() { Written::Again } else { Written::New };
                    was.map(|place| naive.0.remove(place));
                    naive.0.push(page(number));
                    prop_assert_eq!(pages.write(page(number)), expected);
                }
                Step::Merge(most) => {
                    let above = naive.0.len().saturating_sub(limit as usize).min(most);
                    let expected: Vec<PageId> = naive.0.drain(..above).collect();
                    let due = pages.due(most);
                    prop_assert_eq!(names(&due), expected);
                    for due in due {
                        prop_assert!(pages.merged(due));
                    }
                }
                Step::Forget(number) => {
                    let was = naive.0.iter().position(|held| *held == page(number));
                    was.map(|place| naive.0.remove(place));
                    prop_assert_eq!(pages.forget(page(number)), was.is_some());
                }
                Step::Limit(new) => {
                    limit = new;
                    pages.set_limit(new);
                }
            }
            let all: Vec<Due> = pages.oldest_first().collect();
            prop_assert_eq!(&names(&all), &naive.0);
            prop_assert_eq!(pages.len(), naive.0.len() as u64);
            for number in 0..24 {
                prop_assert_eq!(pages.contains(page(number)), naive.0.contains(&page(number)));
            }
        }
    }
}
