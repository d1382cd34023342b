#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Where the server's CPU time goes while one mode of the load generator runs, so
# that what limits a number of the report can be named.
#
#   bench/profile.sh TENAX LOAD MODE [OPTION of load…]
#
# MODE is enqueue, bulk, drain, claim or latency. Without options enqueue, bulk and
# latency run for five seconds; drain and claim empty a queue of 500,000 jobs, which
# is filled before the profile starts (with other options it still holds as many).
# PROFILE_TOP=N shows N symbols (25). Needs perf; a line says so where there is none.
set -euo pipefail
export LC_ALL=C

[ $# -ge 3 ] || { sed -n '/^#   bench/s/^# *//p' "$0" >&2; exit 2; }
if ! command -v perf >/dev/null; then
    echo "profile: perf is not installed (Debian: linux-perf)" >&2
    exit 1
fi
tenax=$(realpath "$1")
load=$(realpath "$2")
mode=$3
shift 3
jobs=500000

work=$(mktemp -d "$(dirname "$tenax")/profile.XXXXXX")
pid=
clean_up() {
    [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

mkfifo "$work/out"
"$tenax" serve --port 0 --admin-port 0 --root-dir "$work/root" --commit-mode "${BENCH_COMMIT_MODE:-fsync}" \
    >"$work/out" 2>"$work/log" &
pid=$!
exec {out}<"$work/out"
# The first line is the admin listener's.
if ! read -r -t 60 -u "$out" line || ! read -r -t 60 -u "$out" line || ! [[ $line =~ :([0-9]+)$ ]]; then
    echo "profile: the server did not start" >&2
    cat "$work/log" >&2
    exit 1
fi
port=${BASH_REMATCH[1]}

case $mode in
enqueue | bulk | latency) [ $# -gt 0 ] || set -- --seconds 5 ;;
drain | claim)
    "$load" bulk --connections 4 --jobs $jobs --port "$port" >/dev/null
    set -- --jobs $jobs "$@"
    ;;
*) echo "profile: no such mode: $mode" >&2 && exit 2 ;;
esac

# cpu-clock because virtual machines often have no cycle counter. perf stays for as
# long as the load runs.
perf record -q -e cpu-clock -F 1999 -g -p "$pid" -o "$work/perf" -- \
    "$load" "$mode" "$@" --port "$port"

# The last columns (cycles per block) are empty without a branch recorder.
report() {
    perf report -i "$work/perf" --stdio --no-children -g none "$@" 2>/dev/null |
        grep -v '^#' | grep . | sed -E 's/( +-)* *$//' || true
}

echo
echo "by thread"
report --sort pid,comm
echo
echo "by program and library"
report --sort dso
echo
echo "by symbol"
report --sort comm,dso,symbol | awk -v n="${PROFILE_TOP:-25}" 'NR <= n'
