# Part of mariadb.sh and postgresql.sh, which read it: a place to run in, the user of the server, its end
# with the script, and transfers between accounts. They have set `at_once` to the signal that ends
# the server and its children, and `transfers` to how many are wanted; they set `server` to its process and `found`
# to how many transfers there are.

# Only its socket and what it says are there.
run=$(mktemp -d)
as_user=()
if [ "$(id -u)" = 0 ]; then
    as_user=(setpriv --reuid "${DATABASE_USER:-nobody}" --regid "$(id -g "${DATABASE_USER:-nobody}")" --clear-groups)
    chown "${DATABASE_USER:-nobody}" "$run"
fi
cd "$run"

server=
stop() {
    if [ -n "$server" ]; then
        kill -s "$at_once" "$server" 2>/dev/null || true
        wait "$server" || true
    fi
    rm -rf "$run"
}
trap stop EXIT

# A directory of the server's user alone.
make_directory() {
    mkdir -m 700 "$1"
    [ "$(id -u)" != 0 ] || chown "${DATABASE_USER:-nobody}" "$1"
}

# Waits for the server by a command that asks it something.
until_it_answers() {
    until "$@" >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || { cat "$run/log"; exit 1; }
        sleep 0.1
    done
}

# So many transfers, each a transaction that begins with these words; what they print was committed.
statements() {
    local n from to
    for ((n = found; n < found + transfers; n++)); do
        from=$((n * 7919 % 10000)) to=$(((n * 397 + 5003) % 10000))
        echo "$1; UPDATE account SET balance = balance - 1 WHERE id = $from;
            UPDATE account SET balance = balance + 1 WHERE id = $to;
            INSERT INTO transfer VALUES ($n); COMMIT; SELECT 'committed', $n + 1;"
    done
}
