#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The benchmark report. README.md beside this file says how to read it.
#
#   bench/run.sh TENAX LOAD [--json FILE]
#
# BENCH_QUICK=1         small counts, a minute; for checking the report itself
# BENCH_COMMIT_MODE=…   fsync (the default) or buffered
# BENCH_RUNS=N          how often each row is run (3)
# BENCH_SERVE="…"       further options of the server, such as --io-threads 2
# BENCH_WAITING=N       how many jobs wait in the row waiting (10000000)
# BENCH_ROWS="A B …"    only these rows: disk enqueue pipelined tls http2 io events bulk take claim tasks
#                       limited queues latency due waiting policy pods builds executor
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

read -r -a serve <<<"${BENCH_SERVE:-}"
due_rate=5000
commit_mode=${BENCH_COMMIT_MODE:-fsync}
runs=${BENCH_RUNS:-3}
if [ -n "${BENCH_QUICK:-}" ]; then
    closed_seconds=0.5 wrk_seconds=1 drain_jobs=60000 latency_seconds=1.5 fsync_count=300
    waiting_jobs=${BENCH_WAITING:-100000}
    scheduled_jobs=50000 due_seconds=1 http2_jobs=20000 pods=500
else
    closed_seconds=5 wrk_seconds=5 drain_jobs=1000000 latency_seconds=10 fsync_count=3000
    waiting_jobs=${BENCH_WAITING:-10000000}
    scheduled_jobs=1000000 due_seconds=10 http2_jobs=400000 pods=5000
fi

# Whole requests of 1,000 jobs.
waiting_jobs=$(((waiting_jobs + 3999) / 4000 * 4000))
waiting_first=$((waiting_jobs / 4))

wrk_script=$(dirname "$0")/wrk.lua
command -v wrk >/dev/null || { echo "bench: wrk is not installed (Debian: wrk)" >&2; exit 1; }

# A server that knows what its own indexes hold may say so in GET /health.
own_figure='"index_bytes": *([0-9]+)'

# The generator's queues: the option for many of them, and the filter that counts their jobs.
queues=()
counted=queue=bench
limit= # of jobs in flight of the one queue

# On the disk of the build, because a file system in memory has no fsync to speak of.
work=$(mktemp -d "$(dirname "$tenax")/bench.XXXXXX")
pid=
tls=() # the option of load where the server speaks TLS
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

# start_server [OPTION…]: starts a server on $work/root; sets pid, port, and start_ms: from
# before exec to the line that says it listens, which follows that of the admin listener. The
# pipe stays open, or a later line would kill it.
start_server() {
    local from line
    rm -f "$work/out"
    mkfifo "$work/out"
    from=${EPOCHREALTIME/./}
    "$tenax" serve --port 0 --admin-port 0 --root-dir "$work/root" --commit-mode "$commit_mode" \
        "${serve[@]}" "$@" >"$work/out" 2>>"$work/log" &
    pid=$!
    exec {out}<"$work/out"
    read -r -t 120 -u "$out" line || fail "the server did not start"
    [[ $line != *" (admin)" ]] || read -r -t 120 -u "$out" line || fail "the server did not start"
    start_ms=$(((${EPOCHREALTIME/./} - from) / 1000))
    [[ $line =~ ^Listening\ on\ https?://127\.0\.0\.1:([0-9]+)$ ]] || fail "unexpected: $line"
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

fresh_server() { # [OPTION…]
    rm -rf "$work/root"
    start_server "$@"
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
    "$load" get "$1" "${tls[@]}" --port "$port"
}

# count_is N QUERY: the number of jobs that the server itself counts.
count_is() {
    local got
    got=$(get "/jobs/count?$counted$2")
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

# wanted ROW: whether it is to be run.
wanted() {
    [[ -z "${BENCH_ROWS:-}" || " $BENCH_ROWS " == *" $1 "* ]]
}

# cpu_sample KEY SECONDS JOBS: microseconds of CPU for each job.
cpu_sample() {
    sample "$1" "$(calc %.3f "($2) * 1000000 / $3")"
}

# measure ROW TIMES MODE OPTION…: one run; TIMES names the latencies to keep.
measure() {
    local row=$1 times=$2 before jobs
    shift 2
    before=$(ticks)
    line=$("$load" "$@" "${tls[@]}" --port "$port" --json) || fail "load $* failed"
    keep "$row.jobs_per_s" jobs_per_s
    keep "$row.p50_us" "${times}_p50_us"
    keep "$row.p99_us" "${times}_p99_us"
    keep "$row.p999_us" "${times}_p999_us"
    field jobs
    jobs=$value
    cpu_sample "$row.server_cpu_us" "($(ticks) - $before) / $tick_rate" "$jobs"
    field load_cpu_s
    cpu_sample "$row.load_cpu_us" "$value" "$jobs"
    sample "$row.rss_mib" "$(calc %.0f "$(rss_kib) / 1024")"
}

# wrk_row ROW DEPTH [OPTION of the server…]: single enqueues over 64 connections. What was under way
# when wrk ended is counted by the server alone.
wrk_row() {
    local row=$1 depth=$2 before more used name
    local TIMEFORMAT='%3U %3S'
    shift 2
    for ((i = 0; i < runs; i++)); do
        fresh_server "$@"
        before=$(ticks)
        {
            time BENCH_DEPTH=$depth wrk -t 1 -c 64 -d "${wrk_seconds}s" --timeout 60s -s "$wrk_script" \
                "http://127.0.0.1:$port" >"$work/wrk.out" 2>&1
        } 2>"$work/wrk.cpu" || fail "wrk: $(<"$work/wrk.out")"
        line=$(tail -n 1 "$work/wrk.out")
        field jobs
        jobs=$value
        cpu_sample "$row.server_cpu_us" "($(ticks) - $before) / $tick_rate" "$jobs"
        used=$(<"$work/wrk.cpu")
        cpu_sample "$row.load_cpu_us" "${used/ / + }" "$jobs"
        keep "$row.jobs_per_s" jobs_per_s
        # With more than one request under way wrk's correction spoils its times.
        if [ "$depth" = 1 ]; then
            for name in p50_us p99_us p999_us; do keep "$row.$name" "request_$name"; done
        fi
        sample "$row.rss_mib" "$(calc %.0f "$(rss_kib) / 1024")"
        more=$(get "/jobs/count?$counted")
        [[ $more =~ \"count\":\ *([0-9]+) ]] || fail "no count in $more"
        more=$((BASH_REMATCH[1] - jobs))
        ((more >= 0 && more <= 64 * depth)) || fail "the server counts $more jobs more than the $jobs of wrk"
        stop_server TERM
    done
}

fill() { # N
    "$load" bulk --connections 4 --jobs "$1" "${queues[@]}" --port "$port" --timeout 3600 >/dev/null ||
        fail "filling failed"
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
        [ -z "$limit" ] || "$tenax" queue bench --concurrency "$limit" \
            --url "http://127.0.0.1:$port" >/dev/null || fail "the limit was not set"
        measure "$row" request "$@" --jobs "$drain_jobs"
        count_is 0 "&status=ready,in_flight,scheduled"
        stop_server TERM
    done
}

# Tasks of Taskcluster's API, from their creation to their end.
tasks_row() {
    for ((i = 0; i < runs; i++)); do
        fresh_server
        measure tasks create tasks --connections 8 --jobs "$drain_jobs"
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

# Enqueue over TLS, with HTTP/1.1, and in clear text by the same generator, in turns: wrk's clock
# would cover the handshakes. The certificates are made for this run.
tls_rows() {
    local row
    "$tenax" tls init --out-dir "$work/tls" >/dev/null || fail "tenax tls init failed"
    for ((i = 0; i < runs; i++)); do
        for row in clear tls; do
            if [ "$row" = clear ]; then
                fresh_server
            else
                tls=(--tls)
                fresh_server --tls-cert "$work/tls/server-cert.pem" --tls-key "$work/tls/server-key.pem"
            fi
            measure "$row" request enqueue --seconds "$closed_seconds"
            field jobs
            count_is "$value" ""
            stop_server TERM
            tls=()
        done
    done
}

# One to four threads for requests, where the server has a number of them.
io_rows() {
    local n
    if [[ $("$tenax" serve --help) != *--io-threads* ]]; then
        echo "threads for requests: this server has one"
        return
    fi
    for n in 1 2 4; do
        wrk_row "io$n" 1 --io-threads "$n"
        print_row "io$n" "enqueue, $n I/O threads" ""
        wrk_row "io${n}_pipelined" 16 --io-threads "$n"
        print_row "io${n}_pipelined" "  64 x 16 pipelined" ""
    done
}

# One job with a payload of 200 bytes, as load makes them.
http2_body() {
    printf '{"queue":"bench","type":"t","payload":{"data":"%s"}}' \
        "$(head -c 144 /dev/urandom | base64 -w 0 | cut -c 1-189)" >"$work/body.json"
}

# Takes samples from h2load's log, whose lines are start, status and time of a request.
http2_times() {
    local p50 p99 p999
    read -r p50 p99 p999 < <(cut -f 3 "$work/http2.log" | sort -n | awk '
        function at(share, i) { i = int(NR * share); return t[i < NR * share ? i + 1 : i] }
        { t[NR] = $1 }
        END { print at(0.5), at(0.99), at(0.999) }')
    sample http2.p50_us "$p50"
    sample http2.p99_us "$p99"
    sample http2.p999_us "$p999"
}

# One run of h2load with these options, in clear text with prior knowledge; its output goes to
# $work/http2.out, its CPU time ("user system") to $work/http2.cpu.
http2_load() {
    local TIMEFORMAT='%3U %3S'
    {
        time h2load -n "$http2_jobs" -c 64 -m 16 -d "$work/body.json" "$@" \
            -H 'content-type: application/json' "http://127.0.0.1:$port/jobs" \
            >"$work/http2.out" 2>&1
    } 2>"$work/http2.cpu" || fail "h2load failed: $(<"$work/http2.out")"
    [[ $(<"$work/http2.out") == *"status codes: $http2_jobs 2xx, 0 3xx, 0 4xx, 0 5xx"* ]] ||
        fail "over HTTP/2: $(<"$work/http2.out")"
}

# Times come from a run of their own: the log of them costs h2load, and so the server beside it, a
# quarter of the rate.
http2_row() {
    local before out used
    http2_body
    for ((i = 0; i < runs; i++)); do
        fresh_server
        before=$(ticks)
        http2_load
        out=$(<"$work/http2.out")
        [[ $out =~ ([0-9.]+)\ req/s ]] || fail "no req/s in $out"
        sample http2.jobs_per_s "$(calc %.0f "${BASH_REMATCH[1]}")"
        cpu_sample http2.server_cpu_us "($(ticks) - $before) / $tick_rate" "$http2_jobs"
        used=$(<"$work/http2.cpu")
        cpu_sample http2.load_cpu_us "${used/ / + }" "$http2_jobs"
        sample http2.rss_mib "$(calc %.0f "$(rss_kib) / 1024")"
        count_is "$http2_jobs" ""
        stop_server TERM
        fresh_server
        rm -f "$work/http2.log" # h2load appends
        http2_load --log-file "$work/http2.log"
        http2_times
        stop_server TERM
    done
}

due_row() {
    for ((i = 0; i < runs; i++)); do
        fresh_server
        line=$("$load" due --jobs "$scheduled_jobs" --rate "$due_rate" --seconds "$due_seconds" \
            --streams 4 --port "$port" --json) || fail "load due failed"
        field late_p50_us
        sample due.p50_ms "$(calc %.2f "$value / 1000")"
        field late_p99_us
        sample due.p99_ms "$(calc %.2f "$value / 1000")"
        count_is $((scheduled_jobs - due_rate * due_seconds)) "&status=scheduled"
        count_is 0 "&status=ready,in_flight"
        stop_server TERM
    done
}

# What many waiting jobs cost: the speed of the last three quarters of them, resident memory when
# they have just come in and after each restart, against that of the same server empty; deliveries
# from another queue meanwhile; the time of a start after a crash and after an orderly end.
waiting_runs() {
    local empty bytes
    for ((i = 0; i < runs; i++)); do
        fresh_server
        empty=$(rss_kib)
        fill "$waiting_first"
        measure waiting_bulk request bulk --connections 8 --jobs $((waiting_jobs - waiting_first)) --timeout 3600
        count_is "$waiting_jobs" ""
        grown "rss_filled" "$empty"
        if bytes=$(own_bytes); then
            sample waiting.own_bytes "$(calc %.1f "$bytes / $waiting_jobs")"
        fi
        sample waiting.rss_mib "$(calc %.0f "$(rss_kib) / 1024")"
        measure waiting_latency delivery latency --queue other --rate 1000 --seconds "$latency_seconds"
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

log_row() {
    local name way
    for ((i = 0; i < runs; i++)); do
        line=$("$load" log "$work" --payload 4000 --jobs "$fsync_count" --seconds 1 --json) || fail "load log failed"
        for way in log log_4 log_fdatasync plain; do
            for name in per_s cpu_us p50_us p99_us; do
                keep "log.$way.$name" "${way}_$name"
            done
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
    echo "machine      ${cpu:-unknown}, $cores cores, $memory_mib MiB"
    echo "system       Linux $kernel; tcp $tcp; root directory on $filesystem"
    echo "commit mode  $commit_mode"
    echo "runs         $runs of each row; median (lowest..highest)${BENCH_QUICK:+; BENCH_QUICK: too short to judge by}"
}

print_fsync() {
    echo "this disk    20 KiB + fdatasync, appended: p50 $(spread fsync.append_p50_us) us," \
        "p99 $(median fsync.append_p99_us) us"
    echo "             the same, overwritten:     p50 $(spread fsync.overwrite_p50_us) us," \
        "p99 $(median fsync.overwrite_p99_us) us"
}

print_log() {
    local way
    local -A names=([log]="log of commits, 4,000 B" [log_4]="the same, 4 under way" \
        [log_fdatasync]="the same, fdatasync" [plain]="growing file, fdatasync")
    for way in log log_4 log_fdatasync plain; do
        printf '%-28s %s\n' "${names[$way]}" "$(spread "log.$way.per_s")/s, p50 $(spread "log.$way.p50_us") us, p99 $(
            median "log.$way.p99_us") us, CPU $(median "log.$way.cpu_us") us each"
    done
}

row_format='%-28s %-18s %-12s %6s %6s %6s %5s %5s %4s\n'

# shellcheck disable=SC2059
head_line() {
    echo
    printf "$row_format" "" "" "" "" request us "CPU us" /job RSS
    printf "$row_format" "" "1000 jobs/s" target p50 p99 p99.9 serv. load MiB
}

# In thousands with three digits, for the width of the report.
thousands() { # KEY
    echo "$(median "$1") $(lowest "$1") $(highest "$1")" | awk '
        function k(v) { return sprintf(v < 99950 ? "%.1f" : "%.0f", v / 1000) }
        { printf "%s (%s..%s)", k($1), k($2), k($3) }'
}

rounded() { # KEY DECIMALS
    [ -n "${samples[$1]:-}" ] || { echo -; return; }
    calc "%.$2f" "$(median "$1")"
}

# shellcheck disable=SC2059
print_row() { # ROW TITLE TARGET
    local verdict_text=
    [ -z "$3" ] || verdict_text=">=$(($3 / 1000)) $(verdict "$1.jobs_per_s" min "$3")"
    printf "$row_format" "$2" "$(thousands "$1.jobs_per_s")" "$verdict_text" \
        "$(rounded "$1.p50_us" 0)" "$(rounded "$1.p99_us" 0)" "$(rounded "$1.p999_us" 0)" \
        "$(rounded "$1.server_cpu_us" 1)" "$(rounded "$1.load_cpu_us" 1)" \
        "$(median "$1.rss_mib")"
}

print_single() { # TITLE KEY UNIT TARGET
    printf '%-44s %-28s %s\n' "$1" "$(spread "$2") $3" \
        "${4:+target <=$4 $3: $(verdict "$2" max "$4")}"
}

print_due() {
    echo
    echo "$scheduled_jobs scheduled, $due_rate/s falling due"
    print_single "  lateness p50" due.p50_ms ms ""
    print_single "  lateness p99" due.p99_ms ms 2
}

# A program of its own, built beside load where it is built at all. No server.
policy_row() {
    local policy text
    policy=$(dirname "$load")/policy
    [ -x "$policy" ] || return 0
    echo
    # It ends with 1 when it misses its target, which its text says.
    while IFS= read -r text; do
        echo "policy: $text"
        [[ ! $text =~ ([0-9.]+)\ us ]] || sample policy.us "${BASH_REMATCH[1]}"
    done < <("$policy" || true)
}

# Likewise.
pods_row() {
    local pods text
    pods=$(dirname "$load")/pods
    [ -x "$pods" ] || return 0
    echo
    while IFS= read -r text; do
        echo "pods: $text"
        [[ ! $text =~ ([0-9.]+)\ us ]] || sample pods.us "${BASH_REMATCH[1]}"
    done < <("$pods" || true)
}

# Likewise.
builds_row() {
    local builds text
    builds=$(dirname "$load")/builds
    [ -x "$builds" ] || return 0
    echo
    while IFS= read -r text; do
        echo "builds: $text"
        [[ ! $text =~ ^builds/s.*:\ ([0-9]+)\  ]] || sample builds.per_s "${BASH_REMATCH[1]}"
    done < <("$builds" || true)
}

# Jobs as pods, through one executor, with a server and a cluster of its own.
executor_row() {
    local program name
    program=$(dirname "$0")/executor.js
    for ((i = 0; i < runs; i++)); do
        line=$("$program" "$tenax" --pods "$pods" --dir "$work" --json) || fail "$program failed"
        for name in calls_per_pod kib_per_live_pod cpu_ms_per_pod started_per_s ended_per_s; do
            keep "executor.$name" "$name"
        done
    done
}

print_executor() {
    echo
    echo "$pods jobs as pods that live at the same time, one executor"
    print_single "  calls of the cluster's API, each" executor.calls_per_pod "" 3
    print_single "  the executor's memory, each" executor.kib_per_live_pod KiB 10
    print_single "  its CPU, each" executor.cpu_ms_per_pod ms ""
    print_single "  started a second" executor.started_per_s "" ""
    print_single "  ended and deleted a second" executor.ended_per_s "" ""
}

print_latency() {
    echo
    print_single "enqueue to delivery at 1,000/s, p50" latency.p50_us us ""
    print_single "enqueue to delivery at 1,000/s, p99" latency.p99_us us ""
    [ -z "${samples[fsync.append_p50_us]:-}" ] ||
        echo "  one delivery (p50) takes $(calc %.2f "$(median latency.p50_us) / $(median fsync.append_p50_us)")" \
        "times one append with fdatasync on this disk"
}

print_waiting() {
    echo
    print_single "delivery with $waiting_jobs waiting, p50" waiting_latency.p50_us us ""
    print_single "delivery with $waiting_jobs waiting, p99" waiting_latency.p99_us us \
        "$([ -z "${samples[latency.p99_us]:-}" ] || calc %.0f "4 * $(median latency.p99_us)")"
    print_single "restart after SIGKILL, $waiting_jobs waiting" restart.after_kill_ms ms 2000
    print_single "restart after SIGTERM, $waiting_jobs waiting" restart.after_term_ms ms 2000
    print_single "RSS with $waiting_jobs waiting" waiting.rss_mib MiB \
        "$(calc %.0f "(150e6 + 48 * $waiting_jobs) / 1048576")"
    print_single "RSS growth per waiting job, just filled" waiting.rss_filled bytes ""
    print_single "RSS growth per waiting job, restarted" waiting.rss_restarted bytes ""
    if [ -n "${samples[waiting.own_bytes]:-}" ]; then
        print_single "own memory per waiting job" waiting.own_bytes bytes 33.5
        return
    fi
    echo "  not judged: GET /health names no index_bytes, so this is resident memory with the"
    echo "  store's caches and buffers; the target is 33 bytes of the server's own"
}

# One row against another of the same generator, run by run.
print_share() { # ROW BASE TITLE TARGET
    local -a ours theirs
    local i
    [ -n "${samples[$2.jobs_per_s]:-}" ] || return 0
    read -r -a ours <<<"${samples[$1.jobs_per_s]}"
    read -r -a theirs <<<"${samples[$2.jobs_per_s]}"
    for ((i = 0; i < runs; i++)); do
        sample "$1.share" "$(calc %.3f "${ours[i]} / ${theirs[i]}")"
    done
    echo "  $3: $(spread "$1.share"), target >=$4: $(verdict "$1.share" min "$4")"
}

# The form of bench/measure.js: one schema for all benchmarks.
write_json() {
    local key sep=
    {
        printf '{"schema":1,"bench":"run","date":"%s",' "$(date -u +%F)"
        printf '"machine":{"cpu":"%s","cores":%s,"memory_mib":%s,"kernel":"%s","filesystem":"%s","tcp":"%s"},' \
            "${cpu//[\"\\]/}" "$cores" "$memory_mib" "$kernel" "$filesystem" "$tcp"
        printf '"versions":{"tenax":"%s"},"commit_mode":"%s","quick":%s,"runs":%s,' \
            "$("$tenax" --version | sed 's/^tenax //')" "$commit_mode" \
            "$([ -n "${BENCH_QUICK:-}" ] && echo true || echo false)" "$runs"
        printf '"serve":"%s","sizes":{"waiting_jobs":%s,"waiting_first":%s,"drain_jobs":%s,"scheduled_jobs":%s},' \
            "${BENCH_SERVE:-}" "$waiting_jobs" "$waiting_first" "$drain_jobs" "$scheduled_jobs"
        printf '"samples":{"tenax":{'
        for key in $(printf '%s\n' "${!samples[@]}" | sort); do
            printf '%s"%s":[%s]' "$sep" "$key" "$(sed 's/ $//; s/ /,/g' <<<"${samples[$key]}")"
            sep=,
        done
        printf '}}}\n'
    } >"$json_file"
}

# What a row may not fall below that is at most 10 % slower than another.
within_tenth() { # ROW
    calc %.0f "$(median "$1.jobs_per_s") * 0.9"
}

machine
if wanted disk; then
    fsync_row
    print_fsync
    log_row
    print_log
fi
head_line
if wanted enqueue; then
    wrk_row enqueue 1
    print_row enqueue "enqueue, 64 connections" ""
fi
if wanted pipelined; then
    wrk_row pipelined 16
    print_row pipelined "enqueue, 64 x 16 pipelined" ""
fi
if wanted tls; then
    tls_rows
    print_row clear "enqueue by load, clear text" ""
    print_row tls "enqueue by load, TLS" ""
    print_share tls clear "TLS / clear text" 0.75
fi
if wanted http2 && command -v h2load >/dev/null; then
    http2_row
    print_row http2 "enqueue over HTTP/2, 64 x 16" 250000
elif wanted http2; then
    echo "enqueue over HTTP/2: not run, h2load is not installed (Debian: nghttp2-client)"
fi
! wanted io || io_rows
if wanted events; then
    enqueue_row events0 enqueue --depth 4
    print_row events0 "enqueue, 64 x 4, no consumer" ""
    enqueue_row events10 enqueue --depth 4 --consumers 10
    print_row events10 "  10 consumers of events" "$(within_tenth events0)"
    enqueue_row events100 enqueue --depth 4 --consumers 100
    print_row events100 "  100 consumers of events" ""
fi
if wanted bulk; then
    enqueue_row bulk bulk --connections 8
    print_row bulk "bulk enqueue, 1000 each" 700000
fi
if wanted take; then
    empty_row take drain
    print_row take "take + bulk success" 450000
fi
if wanted claim; then
    empty_row claim claim
    print_row claim "claim + bulk success" 300000
fi
if wanted tasks; then
    counted=
    tasks_row
    print_row tasks "create + claimWork(32) + complete" 20000
    counted=queue=bench
fi
if wanted limited; then
    limit=1000
    empty_row limited drain
    print_row limited "take, at most 1,000 at once" ""
    limit=
fi
if wanted queues; then
    queues=(--queues 10000) counted=
    enqueue_row queues_enqueue enqueue "${queues[@]}"
    print_row queues_enqueue "enqueue to 10,000 queues" ""
    empty_row queues_take drain "${queues[@]}"
    print_row queues_take "take of 10,000 queues" ""
    queues=() counted=queue=bench
fi
if wanted latency; then
    latency_row
    print_row latency "enqueue to delivery, 1,000/s" ""
    print_latency
fi
if wanted due; then
    due_row
    print_due
fi
if wanted waiting; then
    waiting_runs
    head_line
    print_row waiting_bulk "bulk, $((waiting_first / 1000))k to $((waiting_jobs / 1000))k waiting" 500000
    print_waiting
fi
! wanted policy || policy_row
! wanted pods || pods_row
! wanted builds || builds_row
if wanted executor; then
    executor_row
    print_executor
fi
[ -z "$json_file" ] || write_json
