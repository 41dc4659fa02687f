#!/bin/bash
# mariadb.sh DIR [TRANSFERS]: a MariaDB of its own in DIR/mariadb, without its double write.
#
# DIR is a directory of `holdfast volume mount`. The first run makes the database, each later one
# starts what is there, recovers it, and checks it; then it makes so many transfers between accounts
# (1000). It listens on a socket only, and stops at the end. As root it runs as DATABASE_USER (nobody).
set -eu

dir=$(realpath "${1:?usage: mariadb.sh DIR [TRANSFERS]}")
transfers=${2:-1000}
data=$dir/mariadb
PATH=$PATH:/usr/sbin
for program in mariadbd mariadb-install-db mariadb; do
    command -v "$program" >/dev/null || { echo "$program is missing: apt install mariadb-server-core mariadb-client"; exit 1; }
done

at_once=KILL
. "$(dirname "$(realpath "$0")")/bank.sh"

# What a server on a volume needs. O_DIRECT is what 10.11 does by default.
settings=(
    --no-defaults "--datadir=$data" "--socket=$run/socket" --skip-networking
    --innodb-doublewrite=OFF        # a page is one write, and so whole or absent
    --innodb-flush-method=O_DIRECT  # pages come as they are, not cut by the page cache
    --innodb-flush-neighbors=0      # no order on the medium is faster than another
    --innodb-flush-log-at-trx-commit=1
    --innodb-log-write-ahead-size=4096  # the volume's block: a shorter write would read it first
    --innodb-buffer-pool-size=64M --innodb-log-file-size=64M
)

# Made under another name first: what is at $data is complete, whenever the power goes.
if [ ! -d "$data" ]; then
    rm -rf "$data.new"
    make_directory "$data.new"
    "${as_user[@]}" mariadb-install-db --no-defaults "--datadir=$data.new" --skip-test-db \
        --auth-root-authentication-method=normal --innodb-doublewrite=OFF >"$run/log" 2>&1 ||
        { cat "$run/log"; exit 1; }
    mv "$data.new" "$data"
fi

"${as_user[@]}" mariadbd "${settings[@]}" >"$run/log" 2>&1 &
server=$!
sql() { mariadb --no-defaults --socket="$run/socket" --user=root --batch --skip-column-names "$@"; }
until_it_answers sql -e 'SELECT 1'
echo 'switched off:'
sql -e "SHOW VARIABLES LIKE 'innodb_doublewrite'"
sql -e "SHOW STATUS LIKE 'innodb_dblwr_writes'"

sql -e "CREATE DATABASE IF NOT EXISTS bank"
sql bank <<'SQL'
CREATE TABLE IF NOT EXISTS account (id INT PRIMARY KEY, balance BIGINT, padding CHAR(200)) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS transfer (id INT PRIMARY KEY) ENGINE=InnoDB;
START TRANSACTION;
INSERT IGNORE INTO account SELECT seq, 1000, REPEAT('x', 200) FROM seq_0_to_9999;
COMMIT;
SQL
check() {
    if sql bank -e 'CHECK TABLE account EXTENDED; CHECK TABLE transfer EXTENDED' | grep -v 'OK$'; then
        exit 1
    fi
    sum=$(sql bank -e 'SELECT SUM(balance) FROM account')
    [ "$sum" = 10000000 ] || { echo "the sum is $sum, not 10000000"; exit 1; }
    found=$(sql bank -e 'SELECT COUNT(*) FROM transfer')
    echo "the sum holds after $found transfers"
}
check

statements 'START TRANSACTION' | sql --unbuffered bank
check

sql -e SHUTDOWN
wait "$server"
server=
if [ -n "$(find "$data" -name '*.ibd' -exec innochecksum {} \; 2>&1)" ]; then
    echo 'innochecksum found damaged pages'
    exit 1
fi
echo 'stopped; every page has its checksum'
