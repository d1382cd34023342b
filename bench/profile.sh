#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Where the server's CPU time goes while one mode of the load generator runs, so
# that what limits a number of the report can be named.
#
#   bench/profile.sh TENAX LOAD MODE [OPTION of load…]
#
# MODE is enqueue, bulk, drain, claim, latency, or wrk: single enqueues by wrk, which takes less of the
# machine; BENCH_DEPTH=16 sends 16 together. Without options enqueue, bulk, latency and wrk run for five
# seconds; drain and claim empty a queue of 500,000 jobs, which is filled before the profile starts (with
# other options it still holds as many).
# PROFILE_WAITING=N     that many jobs wait in another queue meanwhile
# PROFILE_SERVE="…"     options of the server
# PROFILE_TOP=N         shows N symbols of each thread (12)
#
# What each thread spends on a job comes from the kernel's accounts; the threads of RocksDB are those
# that rewrite (rocksdb:low) and write out (rocksdb:high) tables. The symbols need perf.
set -euo pipefail
export LC_ALL=C

[ $# -ge 3 ] || { sed -n '/^#   bench/s/^# *//p' "$0" >&2; exit 2; }
if ! command -v perf >/dev/null; then
    echo "profile: perf is not installed (Debian: linux-perf)" >&2
    exit 1
fi
[ "$3" != wrk ] || command -v wrk >/dev/null || { echo "profile: wrk is not installed (Debian: wrk)" >&2; exit 1; }
here=$(dirname "$0")
tenax=$(realpath "$1")
load=$(realpath "$2")
mode=$3
shift 3
jobs=500000

work=$(mktemp -d "$(dirname "$tenax")/profile.XXXXXX")
pid=
clean_up() {
    [ -z "$pid" ] || { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

read -r -a options <<<"${PROFILE_SERVE:-}"
mkfifo "$work/out"
"$tenax" serve --port 0 --admin-port 0 --root-dir "$work/root" --commit-mode "${BENCH_COMMIT_MODE:-fsync}" \
    "${options[@]}" >"$work/out" 2>"$work/log" &
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
wrk) ;;
enqueue | bulk | latency) [ $# -gt 0 ] || set -- --seconds 5 ;;
drain | claim)
    "$load" bulk --connections 4 --jobs $jobs --port "$port" >/dev/null
    set -- --jobs $jobs "$@"
    ;;
*) echo "profile: no such mode: $mode" >&2 && exit 2 ;;
esac
[ -z "${PROFILE_WAITING:-}" ] ||
    "$load" bulk --connections 4 --jobs "$PROFILE_WAITING" --queue waiting --timeout 3600 --port "$port" >/dev/null

if [ "$mode" = wrk ]; then
    generator=(wrk -t 1 -c 64 -d 5s --timeout 60s -s "$here/wrk.lua" "$@" "http://127.0.0.1:$port")
else
    generator=("$load" "$mode" "$@" --port "$port" --json)
fi

# Name and CPU time, in clock ticks, of all threads that have the name.
threads() {
    local task stat
    for task in "/proc/$pid/task"/*; do
        stat=$(<"$task/stat") || continue
        # shellcheck disable=SC2086
        set -- ${stat##*) }
        echo "$(<"$task/comm") $((${12} + ${13}))"
    done | awk '{ t[$1] += $2 } END { for (n in t) print n, t[n] }' | sort
}

# cpu-clock because virtual machines often have no cycle counter. perf stays for as
# long as the load runs.
threads >"$work/before"
perf record -q -e cpu-clock -F 1999 -g -p "$pid" -o "$work/perf" -- "${generator[@]}" | tail -n 1 | tee "$work/line"
threads >"$work/after"
[[ $(<"$work/line") =~ \"jobs\":([0-9]+),\"seconds\":([0-9.]+) ]] || { echo "profile: no result" >&2; exit 1; }

echo
echo "by thread: microseconds of CPU for a job, share of a core"
join -a 2 -e 0 -o 0,1.2,2.2 "$work/before" "$work/after" | sort -k 3,3nr |
    awk -v jobs="${BASH_REMATCH[1]}" -v seconds="${BASH_REMATCH[2]}" -v tick="$(getconf CLK_TCK)" '
        $3 > $2 { s = ($3 - $2) / tick; sum += s; printf "%10.2f %5.0f%%  %s\n", s * 1e6 / jobs, s * 100 / seconds, $1 }
        END { printf "%10.2f %5.0f%%  all\n", sum * 1e6 / jobs, sum * 100 / seconds }'

# The last columns (cycles per block) are empty without a branch recorder.
report() {
    perf report -i "$work/perf" --stdio --no-children -g none "$@" 2>/dev/null |
        grep -v '^#' | grep . | sed -E 's/( +-)* *$//' || true
}

echo
echo "by program and library"
report --sort dso

# Sorted by thread, too: perf would merge the same symbol of two threads otherwise.
report --sort comm | awk '{ print $2 }' >"$work/names"
report --sort comm,dso,symbol >"$work/symbols"
while read -r name; do
    echo
    echo "by symbol: $name (shares of the whole process)"
    awk -v n="${PROFILE_TOP:-12}" -v name="$name" '$2 == name && ++shown <= n { $2 = ""; print }' "$work/symbols" |
        awk '{ share = $1; dso = $2; $1 = $2 = ""; sub(/^ +/, ""); printf "%10s  %-22s %s\n", share, dso, $0 }'
done <"$work/names"
