# What the steps of tour/run do. Every wait is for a condition, with a bound. Sourced by tour/run,
# which sets work, mnt and stores.

# Longest wait for anything, in seconds: a rebuild of 700 MB takes a small part of it.
limit=${TOUR_LIMIT:-300}
holdfast=${HOLDFAST:-$here/../target/release/holdfast}
serving= writer= waited=0 rebuilt= loops=() number=0

step() {
    number=$((number + 1))
    printf '\n%d. %s\n' "$number" "$1"
}
say() { printf '   %s\n' "$1"; }
broken() {
    printf '\nBROKEN PROMISE: %s.\n' "$1" >&2
    if [ -n "$serving" ]; then
        timeout 10 "$holdfast" status --mount "$mnt" >&2 || true
    fi
    if [ -f "$work/serve.log" ]; then
        printf 'The last lines of holdfast:\n' >&2
        tail -n 15 "$work/serve.log" >&2
    fi
    exit 1
}
cannot() { printf 'The tour cannot run: %s.\n' "$1" >&2; exit 2; }

need_tools() {
    local tool
    [ "$(id -u)" = 0 ] || cannot "it mounts file systems, so run it as root"
    [ -e /dev/fuse ] || cannot "there is no /dev/fuse; load the kernel module fuse"
    [ -x "$holdfast" ] || cannot "$holdfast is not there; run make build or set HOLDFAST"
    for tool in jq perl losetup mkfs.ext4 sha256sum rustc; do
        command -v "$tool" >/dev/null || cannot "$tool is not installed"
    done
}

# until_true WHAT COMMAND...: waits at most $limit s for COMMAND to succeed; sets waited.
until_true() {
    local what=$1 start=$SECONDS
    shift
    until "$@"; do
        [ $((SECONDS - start)) -lt "$limit" ] || broken "waited $limit s for $what"
        sleep 0.1
    done
    waited=$((SECONDS - start))
}

# --- holdfast

holdfast_do() { "$holdfast" "$@" >>"$work/commands.log" 2>&1 || {
    tail -n 5 "$work/commands.log" >&2
    broken "holdfast $1 failed"
}; }

# status FILTER: succeeds where jq's FILTER of the status is true. Status ends with another exit
# code where the set is degraded, and prints the same JSON. (jq succeeds on no input at all, hence
# the length.)
status() {
    { "$holdfast" status --json --mount "$mnt" 2>/dev/null || true; } |
        jq --slurp -e "length == 1 and (.[0] | $1)" >/dev/null 2>&1
}

# begin_serving FLAG...: with further flags of holdfast up.
begin_serving() {
    set_flags=(--copies 2)
    local store
    for store in "${stores[@]}"; do set_flags+=(--store "$store"); done
    "$holdfast" up "$mnt" "${set_flags[@]}" "$@" >>"$work/serve.log" 2>&1 &
    serving=$!
    until_true "holdfast up to be ready" serves_or_ended
}
serves_or_ended() {
    jobs -rp | grep -qx "$serving" || broken "holdfast up ended"
    # A plain directory in place of the mount would prove nothing.
    status ".pid == $serving" && is_mounted "$mnt"
}
kill_serving() {
    kill -KILL "$serving"
    wait "$serving" 2>/dev/null || true
    serving=
    # The writer's next write fails, which is no broken promise; it has not noted it down.
    stop_writer
}
stop_serving() {
    holdfast_do down "$mnt"
    wait "$serving" || broken "holdfast up did not end cleanly"
    serving=
}

# --- encoding: chunks that nobody has asked for within two seconds are cold

encode_flags=(--encode-percent 90 --encode-interval-s 2 --encode-chunk-kb 64)

# Something is encoded, and it does not change any more.
is_settled() {
    local now
    now=$({ "$holdfast" status --json --mount "$mnt" || true; } 2>/dev/null |
        jq -r '.encoding.stripes')
    [ "$now" != 0 ] && [ "$now" = "${stripes_before:-}" ] && return
    stripes_before=$now
    sleep 3
    return 1
}
encoded() {
    "$holdfast" status --json --mount "$mnt" | jq -r '.encoding |
        "\(.bytes / 1000000 | floor) MB in \(.stripes) stripes, \((.freed_bytes - .parity_bytes) / 1000000 | floor) MB saved"'
}
waiting() {
    { "$holdfast" status --json --mount "$mnt" || true; } |
        jq -r '.encoding.differential_bytes / 1000 | floor | "\(.) kB"'
}
nothing_is_encoded() { status '.encoding == null or .encoding.stripes == 0'; }

# Changes 100 kB in the middle of the largest file, and remembers what it was.
overwrite_encoded() {
    overwritten=$(find "$mnt/tree" -type f -printf '%s %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
    cp --preserve=all "$overwritten" "$work/overwritten.before"
    dd if=/dev/urandom of="$overwritten" bs=1000 seek=300 count=100 conv=notrunc,fsync status=none
    sha256sum <"$overwritten" >"$work/overwritten.sum"
}
prove_overwritten() {
    [ "$(sha256sum <"$overwritten")" = "$(cat "$work/overwritten.sum")" ] ||
        broken "a file that was overwritten while it was encoded is not what was written"
}
restore_overwritten() { cp --preserve=all "$work/overwritten.before" "$overwritten"; }

store_is() { status ".stores[$1].state == \"$2\""; }
await_store() { until_true "store $1 to be $2" store_is "$1" "$2"; }
is_redundant() { status '.redundant and all(.stores[]; .state == "in_sync")'; }

# await_redundancy INDEX: waits until every file has all its copies again; tells what was written
# to store INDEX on the way.
await_redundancy() {
    until_true "redundancy to come back" is_redundant
    [ "$1" = any ] || rebuilt=$({ "$holdfast" status --json --mount "$mnt" || true; } 2>/dev/null |
        jq -r ".stores[$1].last_rebuild |
            \"\(.bytes_written / 1000000 | floor) MB written to it in \(.seconds) s\"")
}

# --- the breakable disk: an ext4 file system in a file

make_disk() {
    truncate -s "${TOUR_DISK:-4G}" "$work/disk.img"
    mkfs.ext4 -q "$work/disk.img"
    mkdir -p "$work/disk"
    mount_disk
    mkdir "$work/disk/store2"
    sync --file-system "$work/disk"
}
mount_disk() {
    local loop
    loop=$(losetup --find --show "$work/disk.img")
    loops+=("$loop")
    mount "$loop" "$work/disk"
}
# EXT4_IOC_SHUTDOWN (fs/ext4/ext4.h) with flag 2: later writes and reads of the medium fail with EIO, and nothing
# that is only in memory reaches the medium, as if the disk had been pulled.
break_disk() {
    perl -e 'open(my $d, "<", $ARGV[0]) or die $!; my $flag = pack("L", 2);
        ioctl($d, 0x8004587d, $flag) or die $!' \
        "$work/disk"
}
# A process may still have the dead file system open: it is detached, and the image is mounted
# anew on another loop device. The dead one writes nothing any more.
repair_disk() {
    umount --lazy "$work/disk"
    losetup --detach "${loops[-1]}" 2>/dev/null || true
    mount_disk
}

# Takes store $1 away as an operator does: holdfast lets go of it, and the directory is gone.
take_away() {
    holdfast_do detach "$1" --mount "$mnt"
    mv "$work/store$1" "$work/store$1.taken"
}

# --- the files

gather_source() {
    local libraries
    libraries=$(rustc --print sysroot)/lib
    if [ "${TOUR_SIZE:-full}" = small ]; then
        mkdir -p "$work/small/doc" "$work/small/lib"
        pick /usr/share/doc 300 "$work/small/doc"
        pick "$libraries" 30 "$work/small/lib"
        sources=("$work/small/doc" "$work/small/lib")
    else
        mkdir -p "$work/whole"
        sources=(/usr/share/doc "$libraries")
    fi
}
# pick FROM COUNT TO: copies the first COUNT files under 2 MB.
pick() {
    (
        cd "$1"
        find . -type f -size -2048k -print0 | LC_ALL=C sort -z | sed -zn "1,$2p" >"$work/list"
    )
    tar -C "$1" --null -T "$work/list" -cf - | tar -C "$3" -xpf -
}
copy_in() {
    mkdir "$mnt/tree" "$mnt/load"
    cp -a "${sources[@]}" "$mnt/tree/"
    # One manifest for all of them, with the names that they have below the tree.
    local source
    : >"$work/source.sums" && : >"$work/source.meta" && : >"$work/source.links"
    for source in "${sources[@]}"; do
        add_to_manifest "$(dirname "$source")" "./$(basename "$source")" "$work/source"
    done
    sort_manifest "$work/source"
}
count_files() { wc -l <"$1"; }
# Sum of the sizes in a manifest.
megabytes() { awk '$1 == "f" { sum += $5 } END { printf "%d", sum / 1000000 }' "$1.meta"; }

prove_stores() {
    [ -z "$serving" ] || until_true "every file to have its copies" is_redundant
    prove_copies "$work/source" 2 "${stores[@]/%//data/tree}" ||
        broken "the stores do not hold two whole copies of each file"
}
prove_stores_hold_ledger() {
    # The writer may go on meanwhile; what it had noted down by now must be there.
    cp "$ledger" "$work/noted.sums"
    prove_copies "$work/noted" 2 "${stores[@]/%//data/load}" ||
        broken "the stores do not hold two whole copies of each acknowledged file"
}

# --- the load: a program that writes files, fsyncs each, and notes down what was acknowledged

ledger=$work/ledger.sums

start_writer() {
    : >"$ledger"
    : >"$work/failed"
    write_files &
    writer=$!
}
write_files() {
    local count=0 name sum
    trap - EXIT ERR INT TERM HUP
    while [ ! -e "$work/stop" ]; do
        count=$((count + 1))
        name=./d$((count / 100))/f$count
        head -c $((1 + RANDOM * 4)) /dev/urandom >"$work/piece"
        sum=$(sha256sum <"$work/piece" | cut -c 1-64)
        if mkdir -p "$mnt/load/${name%/*}" 2>>"$work/failed" &&
            dd if="$work/piece" of="$mnt/load/$name" bs=64K conv=fsync status=none 2>>"$work/failed"
        then
            printf '%s  %s\n' "$sum" "$name" >>"$ledger"
        else
            # Not faster than a person would try again.
            sleep 0.1
        fi
    done
}
# await_writes N: waits until N more files were acknowledged.
await_writes() {
    local goal=$(($(count_files "$ledger") + $1))
    until_true "the writer to get on" written "$goal"
}
written() { [ "$(count_files "$ledger")" -ge "$1" ]; }
no_failed_writes() {
    [ ! -s "$work/failed" ] || broken "a write failed: $(head -n 1 "$work/failed")"
}
stop_writer() {
    [ -n "$writer" ] || return 0
    touch "$work/stop"
    wait "$writer" || true
    writer=
}

# --- the end, good or bad

clean_up() {
    local code=$? loop
    trap - EXIT ERR
    trap '' INT TERM HUP
    set +e
    touch "$work/stop"
    if [ -n "$serving" ]; then
        kill -TERM "$serving" 2>/dev/null
        for _ in $(seq 100); do
            kill -0 "$serving" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$serving" 2>/dev/null
        wait "$serving" 2>/dev/null
    fi
    is_mounted "$work/mnt" && umount --lazy "$work/mnt"
    # With the mount gone no write can hang.
    [ -z "$writer" ] || wait "$writer" 2>/dev/null
    is_mounted "$work/disk" && umount --lazy "$work/disk"
    for loop in "${loops[@]}"; do
        [ "$(losetup --noheadings --output BACK-FILE "$loop" 2>/dev/null)" != "$work/disk.img" ] ||
            losetup --detach "$loop"
    done
    rm -rf --one-file-system "$work"
    exit "$code"
}
# Asks the table of mounts: a dead mount cannot be looked at.
is_mounted() { grep -q " $1 " /proc/self/mounts; }
