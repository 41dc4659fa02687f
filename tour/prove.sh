# The tour's prover: says whether trees hold exactly what a manifest says. Knows nothing of
# Holdfast and reads everything with sha256sum, find and stat. Sourced by tour/run.

# Writes the manifest of tree $1 to $2.sums (SHA-256 of each regular file), $2.meta (type, mode,
# owner, time and, for files, size of each object) and $2.links (targets).
take_manifest() {
    : >"$2.sums" && : >"$2.meta" && : >"$2.links" &&
        add_to_manifest "$1" . "$2" && sort_manifest "$2"
}

# Adds what is at and below ./$2 in directory $1 to manifest $3.
add_to_manifest() {
    local tree=$1 name=$2 out=$3
    (
        cd "$tree" &&
            find "$name" -type f -print0 | xargs -0 -r sha256sum >>"$out.sums" &&
            find "$name" ! -type f ! -path . -printf '%y %m %U:%G %T@ %p\n' -o \
                -type f -printf '%y %m %U:%G %T@ %s %p\n' >>"$out.meta" &&
            find "$name" -type l -printf '%p -> %l\n' >>"$out.links"
    )
}

sort_manifest() {
    local kind
    for kind in sums meta links; do
        LC_ALL=C sort -o "$1.$kind" "$1.$kind" || return 1
    done
}

# Tree $1 holds what manifest $2 says, byte for byte, and nothing else.
prove_tree() {
    local tree=$1 manifest=$2 seen=$2.seen kind
    take_manifest "$tree" "$seen" || return 1
    for kind in sums meta links; do
        if ! cmp -s "$manifest.$kind" "$seen.$kind"; then
            {
                echo "  $tree is not what it was ($kind); < as it was, > as it is:"
                diff "$manifest.$kind" "$seen.$kind" | grep '^[<>]' | head -n 6 | sed 's/^/    /'
            } >&2
            return 1
        fi
    done
}

# Every file of manifest $1 is a plain file, whole, in the tree below exactly $2 of the
# directories $3...; its copies are read there, not through the mount.
prove_copies() {
    local manifest=$1 copies=$2
    shift 2
    local store found=$manifest.found
    [ -s "$manifest.sums" ] || { echo "    the manifest is empty" >&2; return 1; }
    : >"$found"
    for store; do
        # A store may hold none of the files.
        [ -d "$store" ] || continue
        (cd "$store" && find . -type f -print0 |
            xargs -0 -r sha256sum) >>"$found" || return 1
    done
    # A line of sha256sum: 64 digits, two characters, the name.
    awk -v copies="$copies" '
        { sum = substr($0, 1, 64); name = substr($0, 67) }
        NR == FNR { want[name] = sum; next }
        name in want { if (sum == want[name]) good[name]++; else bad[name] = 1 }
        END {
            for (name in want) {
                if (name in bad) text = "a copy differs"
                else if (good[name] + 0 != copies) text = good[name] + 0 " copies, not " copies
                else continue
                if (++wrong <= 6) print "    " text ": " name
            }
            if (wrong) print "    " wrong " files in all"
            exit wrong > 0
        }' "$manifest.sums" "$found" >&2
}

# Every entry of ledger $2 (lines of sha256sum) is in directory $1 with that content.
prove_ledger() {
    local directory=$1 ledger=$2
    # An empty ledger would prove nothing.
    [ -s "$ledger" ] || { echo "    the ledger is empty" >&2; return 1; }
    (cd "$directory" && sha256sum --check --quiet --strict "$ledger" 2>&1) |
        head -n 6 | sed 's/^/    /' >&2
    return "${PIPESTATUS[0]}"
}
