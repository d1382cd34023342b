#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The benchmark report. README.md beside this file says how to read it.
#
#   bench/run.sh TENAX LOAD [--json FILE]
#
# BENCH_QUICK=1         small counts, under half a minute; for checking the report itself
# BENCH_COMMIT_MODE=…   fsync (the default) or buffered
# BENCH_RUNS=N          how often each row is run (3)
set -euo pipefail
export LC_ALL=C

usage() {
    echo "usage: bench/run.sh TENAX LOAD [--json FILE]" >&2
    exit 2
}

[ $# -ge 2 ] || usage
tenax=$(realpath "$1")
load=$(realpath "$2")
shift 2
json_file=
if [ $# -gt 0 ]; then
    if [ $# -ne 2 ] || [ "$1" != --json ]; then usage; fi
    json_file=$2
fi
if [ ! -x "$tenax" ] || [ ! -x "$load" ]; then usage; fi

commit_mode=${BENCH_COMMIT_MODE:-fsync}
runs=${BENCH_RUNS:-3}
if [ -n "${BENCH_QUICK:-}" ]; then
    closed_seconds=0.5 drain_jobs=60000 latency_seconds=1.5 waiting_jobs=100000 fsync_count=300
else
    closed_seconds=5 drain_jobs=1000000 latency_seconds=10 waiting_jobs=1000000 fsync_count=3000
fi

# A server that knows what its own indexes hold may say so in GET /health.
own_figure='"index_bytes": *([0-9]+)'

# On the disk of the build, because a file system in memory has no fsync to speak of.
work=$(mktemp -d "$(dirname "$tenax")/bench.XXXXXX")
pid=
clean_up() {
    [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() {
    echo "bench: $*" >&2
    [ ! -s "$work/log" ] || { echo "last lines of the server's log:" >&2; tail -n 20 "$work/log" >&2; }
    exit 1
}

# ---- the server ----------------------------------------------------------------

# Starts a server on $work/root; sets pid, port, and start_ms: from before exec to
# the line that says it listens. The pipe stays open, or a later line would kill it.
start_server() {
    local from line
    rm -f "$work/out"
    mkfifo "$work/out"
    from=${EPOCHREALTIME/./}
    "$tenax" serve --port 0 --admin-port 0 --root-dir "$work/root" --commit-mode "$commit_mode" \
        >"$work/out" 2>>"$work/log" &
    pid=$!
    exec {out}<"$work/out"
    read -r -t 120 -u "$out" line || fail "the server did not start"
    [[ $line != *" (admin)" ]] || read -r -t 120 -u "$out" line || fail "the server did not start"
    start_ms=$(((${EPOCHREALTIME/./} - from) / 1000))
    [[ $line =~ ^Listening\ on\ http://127\.0\.0\.1:([0-9]+)$ ]] || fail "unexpected: $line"
    port=${BASH_REMATCH[1]}
}

# stop_server SIGNAL: ends the server and waits for it.
stop_server() {
    local code=0 wanted=0
    [ "$1" = TERM ] || wanted=137
    kill "-$1" "$pid"
    wait "$pid" 2>/dev/null || code=$?
    pid=
    exec {out}<&-
    [ "$code" = "$wanted" ] || fail "the server ended with $code on SIG$1, not $wanted"
}

fresh_server() {
    rm -rf "$work/root"
    start_server
}

# User and system time of all threads of the server, in clock ticks. The name of the
# program, in parentheses, could hold spaces, so fields are counted behind it.
ticks() {
    local stat
    stat=$(<"/proc/$pid/stat")
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    echo $((${12} + ${13}))
}

rss_kib() {
    awk '/^VmRSS:/ { print $2 }' "/proc/$pid/status"
}

get() {
    "$load" get "$1" --port "$port"
}

# count_is N QUERY: the number of jobs that the server itself counts.
count_is() {
    local got
    got=$(get "/jobs/count?queue=bench$2")
    [[ $got =~ \"count\":\ *$1[^0-9] ]] || fail "the server counts $got, not $1"
}

# ---- numbers -------------------------------------------------------------------

# field NAME: sets value to a number of the flat JSON object in $line. (Not printed:
# a failure inside of "$(...)" would not end the script.)
field() {
    [[ $line =~ \"$1\":([0-9.]+) ]] || fail "no $1 in $line"
    value=${BASH_REMATCH[1]}
}

calc() {
    awk "BEGIN { printf \"$1\", $2 }"
}

declare -A samples

sample() { # KEY VALUE
    samples[$1]+="$2 "
}

keep() { # KEY FIELD
    field "$2"
    sample "$1" "$value"
}

sorted() { # KEY
    # shellcheck disable=SC2086
    printf '%s\n' ${samples[$1]} | sort -g
}

median() { sorted "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
lowest() { sorted "$1" | head -n 1; }
highest() { sorted "$1" | tail -n 1; }
spread() { echo "$(median "$1") ($(lowest "$1")..$(highest "$1"))"; }

# verdict KEY min|max TARGET: whether the median reaches it.
verdict() {
    awk -v v="$(median "$1")" -v t="$3" -v how="$2" \
        'BEGIN { print (how == "min" ? v >= t : v <= t) ? "ok" : "missed" }'
}

# ---- rows ----------------------------------------------------------------------

tick_rate=$(getconf CLK_TCK)

# measure ROW TIMES MODE OPTION…: one run; TIMES names the latencies to keep.
measure() {
    local row=$1 times=$2 before jobs
    shift 2
    before=$(ticks)
    line=$("$load" "$@" --port "$port" --json) || fail "load $* failed"
    keep "$row.jobs_per_s" jobs_per_s
    keep "$row.p50_us" "${times}_p50_us"
    keep "$row.p99_us" "${times}_p99_us"
    keep "$row.p999_us" "${times}_p999_us"
    field jobs
    jobs=$value
    sample "$row.server_cpu_s_per_100k" \
        "$(calc %.3f "($(ticks) - $before) / $tick_rate * 100000 / $jobs")"
    field load_cpu_s
    sample "$row.load_cpu_s_per_100k" "$(calc %.3f "$value * 100000 / $jobs")"
    sample "$row.rss_mib" "$(calc %.0f "$(rss_kib) / 1024")"
}

fill() { # N
    "$load" bulk --connections 4 --jobs "$1" --port "$port" >/dev/null || fail "filling failed"
    count_is "$1" ""
}

enqueue_row() { # ROW MODE OPTION…
    local row=$1
    shift
    for ((i = 0; i < runs; i++)); do
        fresh_server
        measure "$row" request "$@" --seconds "$closed_seconds"
        field jobs
        count_is "$value" ""
        stop_server TERM
    done
}

empty_row() { # ROW MODE OPTION…
    local row=$1
    shift
    for ((i = 0; i < runs; i++)); do
        fresh_server
        fill "$drain_jobs"
        measure "$row" request "$@" --jobs "$drain_jobs"
        count_is 0 "&status=ready,in_flight,scheduled"
        stop_server TERM
    done
}

latency_row() {
    for ((i = 0; i < runs; i++)); do
        fresh_server
        measure latency delivery latency --rate 1000 --seconds "$latency_seconds"
        count_is 0 "&status=ready,in_flight,scheduled"
        stop_server TERM
    done
}

own_bytes() {
    local health
    health=$(get /health)
    [[ $health =~ $own_figure ]] && echo "${BASH_REMATCH[1]}"
}

# What a million waiting jobs cost: resident memory when they have just come in and
# after each restart, against that of the same server empty; and the time of a start
# after a crash (the log is replayed) and after an orderly end.
waiting_runs() {
    local empty bytes
    for ((i = 0; i < runs; i++)); do
        fresh_server
        empty=$(rss_kib)
        fill "$waiting_jobs"
        grown "rss_filled" "$empty"
        if bytes=$(own_bytes); then
            sample waiting.own_bytes "$(calc %.1f "$bytes / $waiting_jobs")"
        fi
        stop_server KILL
        start_server
        sample restart.after_kill_ms "$start_ms"
        count_is "$waiting_jobs" "&status=ready"
        stop_server TERM
        start_server
        sample restart.after_term_ms "$start_ms"
        grown "rss_restarted" "$empty"
        count_is "$waiting_jobs" "&status=ready"
        stop_server TERM
    done
}

grown() { # NAME EMPTY_KIB: bytes of resident memory per waiting job
    sample "waiting.$1" "$(calc %.1f "($(rss_kib) - $2) * 1024 / $waiting_jobs")"
}

fsync_row() {
    local name
    for ((i = 0; i < runs; i++)); do
        line=$("$load" fsync "$work" --jobs "$fsync_count" --seconds 1 --json) || fail "load fsync failed"
        for name in append_p50_us append_p99_us overwrite_p50_us overwrite_p99_us; do
            keep "fsync.$name" "$name"
        done
    done
}

# ---- the text ------------------------------------------------------------------

machine() {
    cpu=$(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)
    cores=$(nproc)
    kernel=$(uname -r)
    filesystem=$(df --output=fstype "$work" | tail -n 1)
    tcp=$(cat /proc/sys/net/ipv4/tcp_congestion_control)
    memory_mib=$(awk '/^MemTotal:/ { printf "%d", $2 / 1024 }' /proc/meminfo)
    [ "$filesystem" != tmpfs ] || echo "bench: the root directory is on tmpfs; fsync costs nothing there" >&2
    echo "machine      ${cpu:-unknown}, $cores cores, $memory_mib MiB; Linux $kernel; tcp $tcp"
    echo "root dir     $filesystem"
    echo "commit mode  $commit_mode"
    echo "runs         $runs of each row; median (lowest..highest)${BENCH_QUICK:+; BENCH_QUICK: too short to judge by}"
}

print_fsync() {
    echo "this disk    20 KiB + fdatasync, appended: p50 $(spread fsync.append_p50_us) us," \
        "p99 $(median fsync.append_p99_us) us; overwritten: p50 $(spread fsync.overwrite_p50_us) us," \
        "p99 $(median fsync.overwrite_p99_us) us"
}

row_format='%-29s %-26s %-16s %9s %9s %9s %10s %9s %8s\n'

# shellcheck disable=SC2059
head_line() {
    echo
    printf "$row_format" "" "" "" "request" "time, us" "" "CPU s per" "100k jobs" "server"
    printf "$row_format" "" "jobs/s" target p50 p99 p99.9 server load "RSS MiB"
}

# shellcheck disable=SC2059
print_row() { # ROW TITLE TARGET
    local verdict_text=
    [ -z "$3" ] || verdict_text=">=$3 $(verdict "$1.jobs_per_s" min "$3")"
    printf "$row_format" "$2" "$(spread "$1.jobs_per_s")" \
        "$verdict_text" "$(median "$1.p50_us")" "$(median "$1.p99_us")" "$(median "$1.p999_us")" \
        "$(median "$1.server_cpu_s_per_100k")" "$(median "$1.load_cpu_s_per_100k")" \
        "$(median "$1.rss_mib")"
}

print_single() { # TITLE KEY UNIT TARGET
    printf '%-44s %-28s %s\n' "$1" "$(spread "$2") $3" \
        "${4:+target <=$4 $3: $(verdict "$2" max "$4")}"
}

print_latency() {
    echo
    print_single "enqueue to delivery at 1,000/s, p50" latency.p50_us us 300
    print_single "enqueue to delivery at 1,000/s, p99" latency.p99_us us 1500
    echo "  one delivery (p50) takes $(calc %.2f "$(median latency.p50_us) / $(median fsync.append_p50_us)")" \
        "times one append with fdatasync on this disk"
}

print_waiting() {
    echo
    print_single "restart after SIGKILL, $waiting_jobs waiting" restart.after_kill_ms ms 2000
    print_single "restart after SIGTERM, $waiting_jobs waiting" restart.after_term_ms ms 2000
    print_single "RSS growth per waiting job, just filled" waiting.rss_filled bytes ""
    print_single "RSS growth per waiting job, restarted" waiting.rss_restarted bytes ""
    if [ -n "${samples[waiting.own_bytes]:-}" ]; then
        print_single "own memory per waiting job" waiting.own_bytes bytes 64
        return
    fi
    echo "  not judged: GET /health names no index_bytes, so this is resident memory with the" \
        "store's caches and buffers; the target is <=64 bytes of the server's own"
}

write_json() {
    local key sep=
    {
        printf '{"machine":{"cpu":"%s","cores":%s,"memory_mib":%s,"kernel":"%s","filesystem":"%s","tcp":"%s"},' \
            "${cpu//[\"\\]/}" "$cores" "$memory_mib" "$kernel" "$filesystem" "$tcp"
        printf '"commit_mode":"%s","quick":%s,"waiting_jobs":%s,"samples":{' "$commit_mode" \
            "$([ -n "${BENCH_QUICK:-}" ] && echo true || echo false)" "$waiting_jobs"
        for key in $(printf '%s\n' "${!samples[@]}" | sort); do
            printf '%s"%s":[%s]' "$sep" "$key" "$(sed 's/ $//; s/ /,/g' <<<"${samples[$key]}")"
            sep=,
        done
        printf '}}\n'
    } >"$json_file"
}

machine
fsync_row
print_fsync
head_line
enqueue_row enqueue enqueue
print_row enqueue "enqueue, 64 connections" 80000
enqueue_row pipelined enqueue --depth 16
print_row pipelined "enqueue, 64 x 16 pipelined" 200000
enqueue_row bulk bulk --connections 8
print_row bulk "bulk enqueue, 1000 each" 400000
empty_row take drain
print_row take "take + bulk success" 250000
empty_row claim claim
print_row claim "claim + bulk success" ""
latency_row
print_row latency "enqueue to delivery, 1,000/s" ""
print_latency
waiting_runs
print_waiting
[ -z "$json_file" ] || write_json
