# load.py FILE MODE SECONDS: transfers between accounts, five pages each, one after the other. Says how
# many, in how many seconds, and the microseconds within which 90 and 99 of 100 were committed. The padding
# does not compress, so that what packing gains is not made up.
import sqlite3, sys, time

path, mode, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
bank = sqlite3.connect(path, isolation_level=None)
if mode == "batch":
    options = [row[0] for row in bank.execute("PRAGMA compile_options")]
    assert "ENABLE_BATCH_ATOMIC_WRITE" in options, "this SQLite is built without atomic writes"
    mode = "delete"
assert bank.execute("PRAGMA journal_mode = " + mode).fetchone()[0] == mode
bank.execute("PRAGMA synchronous = FULL")
bank.execute("PRAGMA cache_size = -64000")
bank.execute("CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, balance INTEGER, padding TEXT)")
bank.execute("""INSERT OR IGNORE INTO account
    WITH RECURSIVE number (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM number WHERE id < 99999)
    SELECT id, 1000, hex(randomblob(100)) FROM number""")
if seconds == 0:
    sys.exit()
bank.execute("SELECT sum(balance) FROM account").fetchone()

took = []
number = int(time.time())
start = now = time.perf_counter()
while now - start < seconds:
    number += 1
    bank.execute("BEGIN")
    for step in range(5):
        account = (number * 7919 + step * 39709) % 100000
        bank.execute("UPDATE account SET balance = balance + ? WHERE id = ?", [-4 if step == 4 else 1, account])
    bank.execute("COMMIT")
    before, now = now, time.perf_counter()
    took.append(now - before)
assert bank.execute("SELECT sum(balance) FROM account").fetchone()[0] == 100000 * 1000
bank.close()
took.sort()
print(len(took), now - start, took[len(took) * 90 // 100] * 1e6, took[len(took) * 99 // 100] * 1e6)
