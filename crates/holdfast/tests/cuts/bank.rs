//! A bank in SQL that both servers understand, whose money has to be all there.

use crate::recording::Marks;
use crate::servers::Client;
use env::Rng;

pub(crate) const ACCOUNTS: i64 = 3000;
const BALANCE: i64 = 1000;

/// Statements that make it.
pub(crate) fn set_up() -> String {
    let mut text = String::from(
        "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, padding TEXT);
         CREATE TABLE transfer (teller INTEGER, id INTEGER, PRIMARY KEY (teller, id));\n",
    );
    for first in (0..ACCOUNTS).step_by(500) {
        let rows = (first..first + 500).map(|id| format!("({id},{BALANCE},'{}')", "x".repeat(200)));
        let rows: Vec<String> = rows.collect();
        text.push_str(&format!("INSERT INTO account VALUES {};\n", rows.join(",")));
    }
    text
}

/// Moves money around, as transaction number `id` of `teller`; answers with the number.
fn transfer(rng: &mut Rng, teller: i64, id: i64) -> String {
    // In order, so that tellers do not wait for each other in a circle.
    let mut accounts: Vec<i64> = (0..5).map(|_| rng.below(ACCOUNTS as u64) as i64).collect();
    accounts.sort_unstable();
    accounts.dedup();
    let mut text = String::from("BEGIN;");
    for (index, account) in accounts.iter().enumerate() {
        let sum = match index {
            0 => 1 - accounts.len() as i64,
            _ => 1,
        };
        let update = format!("UPDATE account SET balance = balance + {sum} WHERE id = {account};");
        text.push_str(&update);
    }
    text + &format!("INSERT INTO transfer VALUES ({teller},{id});COMMIT;SELECT {id};")
}

/// Does so many transfers as teller 1, and says of each that it is done; beside it as many as fit as
/// teller 2, and `also` after every tenth of these.
pub(crate) fn work(client: impl Fn() -> Client + Sync, marks: &Marks, count: i64, also: &str) {
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, mut rng) = (client(), Rng::new(2));
            for id in 1.. {
                if done.load(std::sync::atomic::Ordering::Acquire) {
                    break;
                }
                let answer = client.ask(&transfer(&mut rng, 2, id));
                assert_eq!(answer, Ok(id.to_string()));
                if id % 10 == 0 {
                    assert_eq!(
                        client.ask(&format!("{also}SELECT 'so';")),
                        Ok("so".to_owned())
                    );
                }
            }
        });
        let (mut client, mut rng) = (client(), Rng::new(1));
        marks.mark("0");
        for id in 1..=count {
            let answer = client.ask(&transfer(&mut rng, 1, id));
            assert_eq!(answer, Ok(id.to_string()));
            marks.mark(&id.to_string());
        }
        done.store(true, std::sync::atomic::Ordering::Release);
    });
}

/// What is wrong with the bank after a cut before which so many transfers of teller 1 were answered.
pub(crate) fn problem(client: &mut Client, done: i64) -> Result<(), String> {
    let mut number = |question: &str| -> Result<i64, String> {
        let answer = client.ask(question)?;
        answer.parse().map_err(|_| format!("{question}: {answer}"))
    };
    let sum = number("SELECT sum(balance) FROM account;")?;
    if sum != ACCOUNTS * BALANCE {
        return Err(format!("the sum is {sum}"));
    }
    let found = number("SELECT count(*) FROM transfer WHERE teller = 1;")?;
    let last = number("SELECT coalesce(max(id), 0) FROM transfer WHERE teller = 1;")?;
    // All that were answered, and at most the one that was not.
    match found == last && (found == done || found == done + 1) {
        true => Ok(()),
        false => Err(format!("{found} transfers up to {last}, of {done}")),
    }
}
