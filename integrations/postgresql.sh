#!/bin/bash
# postgresql.sh DIR [TRANSFERS]: a PostgreSQL of its own in DIR/postgresql, without full pages in its WAL.
#
# DIR is a directory of `holdfast volume mount`. The first run makes the database, each later one
# starts what is there, recovers it, and checks it; then it makes so many transfers between accounts
# (1000). It listens on a socket only, and stops at the end. As root it runs as DATABASE_USER (nobody).
set -eu

dir=$(realpath "${1:?usage: postgresql.sh DIR [TRANSFERS]}")
transfers=${2:-1000}
data=$dir/postgresql
PATH=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1):$PATH
for program in initdb pg_ctl psql pg_amcheck; do
    command -v "$program" >/dev/null || { echo "$program is missing: apt install postgresql"; exit 1; }
done

at_once=QUIT
. "$(dirname "$(realpath "$0")")/bank.sh"

# Made under another name first: what is at $data is complete, whenever the power goes.
if [ ! -d "$data" ]; then
    rm -rf "$data.new"
    make_directory "$data.new"
    "${as_user[@]}" initdb --pgdata="$data.new" --username=root --auth=trust --data-checksums \
        --no-instructions >"$run/log" 2>&1 || { cat "$run/log"; exit 1; }
    mv "$data.new" "$data"
fi

# What a server on a volume needs.
settings=(
    -c full_page_writes=off    # a page is one write, and so whole or absent
    -c wal_init_zero=off       # the log is not overwritten in place: to fill it ahead is in vain
    -c wal_recycle=off
    -c checkpoint_flush_after=0 -c bgwriter_flush_after=0   # no write-back of the kernel's to hurry
    -c fsync=on -c synchronous_commit=on
    -c listen_addresses= -c "unix_socket_directories=$run" -c shared_buffers=64MB
)
"${as_user[@]}" postgres -D "$data" "${settings[@]}" >"$run/log" 2>&1 &
server=$!
sql() { psql --no-psqlrc --host="$run" --username=root --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "$@"; }
until_it_answers sql -d postgres -c 'SELECT 1'
echo 'switched off:'
sql -d postgres -c "SELECT name, setting FROM pg_settings WHERE name = 'full_page_writes'"

sql -d postgres -c "SELECT 1 FROM pg_database WHERE datname = 'bank'" | grep -q 1 ||
    sql -d postgres -c 'CREATE DATABASE bank'
sql -d bank <<'SQL'
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS amcheck;
CREATE TABLE IF NOT EXISTS account (id INT PRIMARY KEY, balance BIGINT, padding CHAR(200));
CREATE TABLE IF NOT EXISTS transfer (id INT PRIMARY KEY);
INSERT INTO account SELECT id, 1000, repeat('x', 200) FROM generate_series(0, 9999) AS id ON CONFLICT DO NOTHING;
SQL
check() {
    # Every page of every table is read against its checksum, and every index against its table.
    pg_amcheck --host="$run" --username=root --heapallindexed --rootdescend bank
    sum=$(sql -d bank -c 'SELECT sum(balance) FROM account')
    [ "$sum" = 10000000 ] || { echo "the sum is $sum, not 10000000"; exit 1; }
    found=$(sql -d bank -c 'SELECT count(*) FROM transfer')
    echo "the sum holds after $found transfers"
}
check

full_pages() { sql -d bank -c 'SELECT wal_fpi FROM pg_stat_wal'; }
before=$(full_pages)

statements BEGIN | sql --field-separator=' ' -d bank
check
echo "full pages in the WAL meanwhile: $(($(full_pages) - before))"

kill -INT "$server"
wait "$server"
server=
"${as_user[@]}" pg_checksums --check --pgdata="$data" >"$run/log" || { cat "$run/log"; exit 1; }
echo 'stopped; every page has its checksum'
