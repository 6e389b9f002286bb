#!/usr/bin/env bash
# Runs every fuzz target of the module for a while: fuzz.sh [time per target].
# Each package is built once, with the fuzzer's instrumentation; then as many
# targets run side by side as there are processors, one worker each. What a
# target finds is written into the testdata/fuzz of its package.
set -euo pipefail
cd "$(dirname "$0")/.."

time="${1:-10s}"
targets=()
while IFS=: read -r file func; do
    targets+=("$(dirname "$file") $func")
done < <(grep -rEo --include='*_test.go' --exclude-dir=testdata --exclude-dir=interop --exclude-dir=bench \
    '^func Fuzz[A-Za-z0-9_]+' . | sed 's/func //' | sort)

[ "${#targets[@]}" -gt 0 ] || { echo "fuzz: no target found" >&2; exit 1; }

tmp="$(mktemp -d)"
trap 'rm -rf "$tmp"' EXIT
found="$(go env GOCACHE)/fuzz" # where go test -fuzz keeps what it has found, too
module="$(go list -m)"

# build makes the binary of a package's targets.
build() {
    local bin="$tmp/$1/test"
    [ -e "$bin" ] || go test -c -fuzz=. -o "$bin" "$1"
}

# run fuzzes one target. Before Go 1.27 the fuzzer itself may fail with nothing
# but "context deadline exceeded" when its time is up on a busy machine
# (https://go.dev/issue/75804): such a run has found nothing and is repeated. A
# finding always names the input that it wrote, or the seed that fails.
run() {
    local dir="$1" func="$2" log="$tmp/$1/$2.log" attempt
    for attempt in 1 2 3; do
        if (cd "$dir" && exec "$tmp/$dir/test" -test.run='^$' -test.fuzz="^$func\$" -test.fuzztime="$time" -test.parallel=1 \
            -test.paniconexit0 -test.fuzzcachedir="$found/$module/${dir#./}") </dev/null >"$log" 2>&1; then
            sed "s/^fuzz: /fuzz: $func: /" "$log"
            echo "$dir $func" >>"$tmp/passed"
            return 0
        fi
        if ! grep -qE '^ +context deadline exceeded$' "$log" || grep -qE 'panic|Failing input|failure while testing seed|_test\.go:[0-9]+' "$log"; then
            cat "$log"
            return 1
        fi
        echo "fuzz: $func ended with the fuzzer's own deadline (attempt $attempt of 3)" >&2
    done
    cat "$log"
    return 1
}

for target in "${targets[@]}"; do
    build "${target% *}"
done

: >"$tmp/passed"
jobs="$(nproc)" n=0
for target in "${targets[@]}"; do
    [ "$n" -lt "$jobs" ] || wait -n || true # what has failed is not in the list of those that passed
    n=$((n + 1))
    echo "fuzz $n/${#targets[@]}: ${target#* } in ${target% *} for $time"
    run ${target% *} ${target#* } &
done
wait

failed="$(printf '%s\n' "${targets[@]}" | grep -vxFf "$tmp/passed" || true)"
[ -z "$failed" ] || { echo "fuzz: failed:"; echo "$failed"; exit 1; } >&2
echo "fuzz: ${#targets[@]} targets passed"
