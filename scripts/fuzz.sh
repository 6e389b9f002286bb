#!/usr/bin/env bash
# Runs every fuzz target of the module for a while: fuzz.sh [time per target].
# `go test -fuzz` takes one target of one package at a time.
set -euo pipefail
cd "$(dirname "$0")/.."

time="${1:-10s}"
targets=()
while IFS=: read -r file func; do
    targets+=("$(dirname "$file") $func")
done < <(grep -rEo --include='*_test.go' --exclude-dir=testdata --exclude-dir=interop --exclude-dir=bench \
    '^func Fuzz[A-Za-z0-9_]+' . | sed 's/func //' | sort)

[ "${#targets[@]}" -gt 0 ] || { echo "fuzz: no target found" >&2; exit 1; }

log="$(mktemp)"
trap 'rm -f "$log"' EXIT

# run fuzzes one target. Before Go 1.27 the fuzzer itself may fail with nothing
# but "context deadline exceeded" when its time is up on a busy machine
# (https://go.dev/issue/75804): such a run has found nothing and is repeated. A
# finding always names the input that it wrote, or the seed that fails.
run() {
    local dir="$1" func="$2" attempt
    for attempt in 1 2 3; do
        if go test -run='^$' -fuzz="^$func\$" -fuzztime="$time" "$dir" </dev/null 2>&1 | tee "$log"; then
            return 0
        fi
        grep -qE '^ +context deadline exceeded$' "$log" || return 1
        ! grep -qE 'panic|Failing input|failure while testing seed|_test\.go:[0-9]+' "$log" || return 1
        echo "fuzz: $func ended with the fuzzer's own deadline (attempt $attempt of 3)" >&2
    done
    return 1
}

n=0
for target in "${targets[@]}"; do
    read -r dir func <<<"$target"
    n=$((n + 1))
    echo "fuzz $n/${#targets[@]}: $func in $dir for $time"
    run "$dir" "$func"
done
