#!/bin/bash
# sqlite.sh DIR [TRANSFERS]: an SQLite database in DIR/sqlite/bank, whose transactions make no journal.
#
# DIR is a directory of `holdfast volume mount`. The first run makes the database, each later one
# opens what is there, and checks it; then it makes so many transfers between accounts (1000).
#
# SQLite has to be built with atomic writes. SQLITE_LIBRARY names a libsqlite3.so.0 that is; else one is
# built from the file sqlite3.c of the "amalgamation" (sqlite.org), which SQLITE_SOURCE names.
set -eu

dir=$(realpath "${1:?usage: sqlite.sh DIR [TRANSFERS]}")
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT

if [ -n "${SQLITE_LIBRARY:-}" ]; then
    cp "$SQLITE_LIBRARY" "$run/libsqlite3.so.0"
else
    gcc -O2 -shared -fPIC -DSQLITE_ENABLE_BATCH_ATOMIC_WRITE -o "$run/libsqlite3.so.0" \
        "${SQLITE_SOURCE:?set it to the path of sqlite3.c, or set SQLITE_LIBRARY}"
fi

mkdir -p "$dir/sqlite"
# Any program that uses the library has the same; here it is python3.
LD_LIBRARY_PATH=$run python3 - "$dir/sqlite" "${2:-1000}" <<'PYTHON'
import os, sqlite3, sys

directory, transfers = sys.argv[1], int(sys.argv[2])
bank = sqlite3.connect(directory + "/bank", isolation_level=None)
options = [row[0] for row in bank.execute("PRAGMA compile_options")]
if "ENABLE_BATCH_ATOMIC_WRITE" not in options:
    sys.exit("this SQLite is built without atomic writes")
# A journal mode other than WAL, and FULL: that is all it takes.
bank.execute("PRAGMA journal_mode = DELETE")
bank.execute("PRAGMA synchronous = FULL")

bank.execute("CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, balance INTEGER, padding TEXT)")
bank.execute("CREATE TABLE IF NOT EXISTS transfer (id INTEGER PRIMARY KEY)")
bank.execute("""INSERT OR IGNORE INTO account
    WITH RECURSIVE number (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM number WHERE id < 9999)
    SELECT id, 1000, printf('%.200c', 'x') FROM number""")

def value(query):
    return bank.execute(query).fetchone()[0]

def check():
    if value("PRAGMA integrity_check") != "ok":
        sys.exit("the database is damaged")
    if value("SELECT sum(balance) FROM account") != 10_000_000:
        sys.exit("the sum is wrong")
    found = value("SELECT count(*) FROM transfer")
    print("the sum holds after", found, "transfers", flush=True)
    return found

def next_inode():
    """Numbers are given in order and not used again: so they tell how many files were made."""
    with open(directory + "/probe", "w") as probe:
        number = os.fstat(probe.fileno()).st_ino
    os.remove(directory + "/probe")
    return number

found = check()
before = next_inode()
for number in range(found, found + transfers):
    bank.execute("BEGIN")
    bank.execute("UPDATE account SET balance = balance - 1 WHERE id = ?", [number * 7919 % 10000])
    bank.execute("UPDATE account SET balance = balance + 1 WHERE id = ?", [(number * 397 + 5003) % 10000])
    bank.execute("INSERT INTO transfer VALUES (?)", [number])
    bank.execute("COMMIT")
    print("committed", number + 1, flush=True)
print("switched off:")
print("journals that were made:", next_inode() - before - 1)
check()
PYTHON
