# Does the prover see what it is there to see? Plants one fault at a time in plain directories
# that stand for the mount and the stores. Sourced by tour/run --canary.

# Overwrites one byte of file $1 with another value, leaving size and time as they were.
flip_byte() {
    local file=$1 at byte time
    at=$(($(stat -c %s "$file") / 2))
    byte=$(od -An -tu1 -j "$at" -N 1 "$file")
    time=$(stat -c %y "$file")
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\$(printf %o $((byte ^ 1)))" | dd of="$file" bs=1 seek="$at" conv=notrunc status=none
    touch -d "$time" "$file"
}

canary() {
    local work=$1 number store
    mkdir -p "$work/source/deep"
    for number in $(seq 20); do
        head -c $((number * 500)) /dev/urandom >"$work/source/deep/file $number"
    done
    ln -s "deep/file 1" "$work/source/link"

    # A mount and three stores in which each file has two copies, as after an import.
    plant() {
        rm -rf "$work/mnt" "$work"/store[012]
        cp -a "$work/source" "$work/mnt"
        for store in 0 1 2; do
            cp -a "$work/source" "$work/store$store"
            for number in $(seq 20); do
                [ $((number % 3)) -ne "$store" ] || rm "$work/store$store/deep/file $number"
            done
        done
        (cd "$work/mnt" && find deep -type f -exec sha256sum {} + >"$work/ledger.sums")
    }
    proved() {
        prove_tree "$work/mnt" "$work/manifest" &&
            prove_copies "$work/manifest" 2 "$work"/store[012] &&
            prove_ledger "$work/mnt" "$work/ledger.sums"
    }
    must_notice() {
        if proved 2>"$work/said"; then
            echo "MISSED: $1"
            return 1
        fi
        if ! grep -q "${2:-.}" "$work/said"; then
            echo "MISSED: $1 (it complained of something else: $(cat "$work/said"))"
            return 1
        fi
        echo "noticed: $1"
    }

    take_manifest "$work/source" "$work/manifest"
    plant
    proved || { echo "MISSED: a sound tree is called broken"; return 1; }
    echo "passed: a sound tree"

    plant && flip_byte "$work/store1/deep/file 9"
    must_notice "one byte flipped in one store's copy" "a copy differs: ./deep/file 9"
    plant && flip_byte "$work/mnt/deep/file 20"
    must_notice "one byte flipped in the mount" "file 20"
    plant && rm "$work/store0/deep/file 7"
    must_notice "one copy missing" "1 copies, not 2: ./deep/file 7"
    plant && cp -a "$work/source/deep/file 6" "$work/store0/deep/"
    must_notice "one copy too many" "3 copies, not 2: ./deep/file 6"
    plant && rm "$work/mnt/deep/file 3"
    must_notice "a file gone from the mount" "file 3"
    plant && chmod 600 "$work/mnt/deep/file 3"
    must_notice "a changed mode" "file 3"
    plant && touch "$work/mnt/extra"
    must_notice "a file that nobody wrote" "extra"
    plant && ln -sfn elsewhere "$work/mnt/link" && touch -h -r "$work/source/link" "$work/mnt/link"
    must_notice "a changed link" "elsewhere"
    plant && echo "$(printf x | sha256sum | cut -d' ' -f1)  acknowledged" >>"$work/ledger.sums"
    must_notice "an acknowledged file that is lost" "acknowledged"
    plant && : >"$work/ledger.sums"
    must_notice "a ledger that proves nothing" "empty"
}
