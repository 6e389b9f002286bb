#!/usr/bin/env bash
# Installs what the tests need and the machine lacks: redis-server and
# redis-cli (differential tests, real clients), with --race also a C compiler
# for the race detector, with --bench memcached to compare with. As root it uses apt-get; otherwise it says what is
# missing and fails, because the tests would.
set -euo pipefail

missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
command -v redis-cli >/dev/null || missing+=(redis-tools)
if [ "${1:-}" = --race ]; then
    command -v gcc >/dev/null || command -v cc >/dev/null || missing+=(gcc libc6-dev)
fi
if [ "${1:-}" = --bench ]; then
    command -v memcached >/dev/null || missing+=(memcached)
fi
[ "${#missing[@]}" -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "setup: missing: ${missing[*]}; run as root on Debian, or install them yourself: apt-get install ${missing[*]}" >&2
    exit 1
fi

echo "setup: installing ${missing[*]}" >&2
# Debian starts a service as soon as its package is installed. The tests start
# servers of their own, so an answer of 101 ("not allowed") keeps port 6379
# free; an existing policy of the machine is left alone.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq </dev/null >&2
apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >&2
