/* SPDX-License-Identifier: Apache-2.0 */
#include "server/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/proxies.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/log.h"
#include "core/budgets.h"
#include "core/job.h"
#include "net/cors.h"
#include "net/guard.h"
#include "net/io_threads.h"
#include "server/cluster.h"
#include "server/migrate.h"

/* Less than jq itself needs. */
#define REPLY_MEMORY_MIN   (32 << 20)
#define REQUEST_MEMORY_MIN (16 << 20)
#define JQ_MEMORY_MIN      (16 << 20)
#define OTLP_MEMORY_MIN    (64 << 10)

#define AT(field)      .offset = offsetof(struct settings, field)
#define ENV(name)      .env = "TENAX_" name
#define ENV_BOTH(name) .env = "TENAX_" name, .alias = "ZIZQ_" name

static const struct option_def table[] = {
    {"config", "FILE", OPTION_TEXT, AT(config), ENV("CONFIG"),
     .help = "read settings from this file (YAML or JSON), by the names of their flags; a flag "
             "or a variable overrides it"},
    {"root-dir", "DIR", OPTION_TEXT, AT(root_dir), ENV_BOTH("ROOT_DIR"), .def = "./tenax-root",
     .help = "where jobs are kept; one server at a time may use it"},
    {"postgres", "URL", OPTION_TEXT, AT(postgres), ENV("POSTGRES"),
     .help = "be one of several servers that keep jobs in this PostgreSQL, as in "
             "postgres://USER@HOST:PORT/DATABASE, after `tenax postgres install`; without a "
             "password (docs/several-servers.md)"},
    {"postgres-password-file", "FILE", OPTION_TEXT, AT(pg_password), ENV("POSTGRES_PASSWORD_FILE"),
     .help = "its first line is the password"},
    {"advertise", "HOST:PORT", OPTION_TEXT, AT(advertise), ENV("ADVERTISE"),
     .help = "how other servers reach this one; the address and the port that it listens on, "
             "unless given"},
    {"lease", "DURATION", OPTION_SPAN, AT(lease), ENV("LEASE"), .def = "2s",
     .help = "so long after the last sign of life of the server that owns the jobs another one "
             "takes its place; 500ms to 60s"},
    {"servers-ca", "FILE", OPTION_TEXT, AT(servers_ca), ENV("SERVERS_CA"),
     .help = "who has signed the certificates of the other servers (PEM); whom the system trusts, "
             "unless given"},
    {"accept-lost-commits", NULL, OPTION_SWITCH, AT(accept_lost_commits),
     ENV("ACCEPT_LOST_COMMITS"),
     .help = "start although PostgreSQL has lost commits that were acknowledged, and go on without "
             "them; what this server has of them is set aside"},
    {"host", "ADDRESS", OPTION_TEXT, AT(host), ENV_BOTH("HOST"), .def = "127.0.0.1",
     .help = "address to listen on"},
    {"port", "PORT", OPTION_INT, AT(port), .max = 65535, ENV_BOTH("PORT"), .def = "7890",
     .help = "port to listen on; 0 picks a free one"},
    {"tls-cert", "FILE", OPTION_TEXT, AT(tls.cert), ENV_BOTH("TLS_CERT"),
     .help = "speak TLS with this certificate (PEM, including the intermediate certificates)"},
    {"tls-key", "FILE", OPTION_TEXT, AT(tls.key), ENV_BOTH("TLS_KEY"),
     .help = "the certificate's private key (PEM, without a passphrase)"},
    {"tls-client-ca", "FILE", OPTION_TEXT, AT(tls.client_ca), ENV_BOTH("TLS_CLIENT_CA"),
     .help = "only serve clients with a certificate from this CA (PEM)"},
    {"admin-host", "ADDRESS", OPTION_TEXT, AT(admin_host), ENV_BOTH("ADMIN_HOST"),
     .def = "127.0.0.1", .help = "address of the admin listener"},
    {"admin-port", "PORT", OPTION_INT, AT(admin_port), .max = 65535, ENV_BOTH("ADMIN_PORT"),
     .def = "8901",
     .help = "port of the admin listener; 0 picks a free one; if the default is taken, "
             "the server runs without an admin listener"},
    {"admin-tls-cert", "FILE", OPTION_TEXT, AT(admin_tls.cert), ENV_BOTH("ADMIN_TLS_CERT"),
     .help = "speak TLS there with this certificate"},
    {"admin-tls-key", "FILE", OPTION_TEXT, AT(admin_tls.key), ENV_BOTH("ADMIN_TLS_KEY"),
     .help = "its private key"},
    {"admin-tls-client-ca", "FILE", OPTION_TEXT, AT(admin_tls.client_ca),
     ENV_BOTH("ADMIN_TLS_CLIENT_CA"),
     .help = "only serve clients there with a certificate from this CA"},
    {"no-admin", NULL, OPTION_SWITCH, AT(no_admin), ENV_BOTH("NO_ADMIN"),
     .help = "start no admin listener"},
    {"no-console", NULL, OPTION_SWITCH, AT(no_console), ENV("NO_CONSOLE"),
     .help = "serve no web console at /console"},
    {"insecure", NULL, OPTION_SWITCH, AT(insecure), ENV("INSECURE"),
     .help = "listen on an address that other machines can reach without requiring client "
             "certificates; refused unless this is given"},
    {"allowed-hosts", "NAMES", OPTION_TEXT, AT(allowed_hosts), ENV("ALLOWED_HOSTS"),
     .def = "localhost",
     .help = "names of the server in requests, separated by commas, such as "
             "queue.example.org,*.svc.cluster.local (*: any), in addition to localhost, its "
             "address and "
             "the names of its certificate; requests for other names are refused"},
    {"allowed-origins", "ORIGINS", OPTION_TEXT, AT(allowed_origins), ENV("ALLOWED_ORIGINS"),
     .help = "origins of web pages that may use Taskcluster's API and read artifacts, separated by "
             "commas, such as https://tools.example.org; pages of all others are refused"},
    {"trusted-proxies", "ADDRESSES", OPTION_TEXT, AT(trusted_proxies), ENV("TRUSTED_PROXIES"),
     .help = "proxies, as 10.0.0.0/8,fd00::1, whose X-Forwarded-For says whom they ask for: that "
             "address counts wrong credentials, and is in the audit; from others the header is "
             "passed over"},
    {"identities", "FILE", OPTION_TEXT, AT(identities), ENV("IDENTITIES"),
     .help =
         "who is known by certificates, JSON Web Tokens or signed requests, and their roles, as "
         "YAML or JSON (docs/access.md); read again on SIGHUP"},
    {"taskcluster-clients", "FILE", OPTION_TEXT, AT(taskcluster_clients),
     ENV("TASKCLUSTER_CLIENTS"),
     .help = "clients of Taskcluster's API, as JSON [{clientId, accessToken, scopes, expires}], "
             "roles [{roleId, scopes}] and workers (docs/taskcluster.md), read again on SIGHUP; "
             "without them it takes requests without credentials, on loopback only"},
    {"taskcluster-claim-timeout", "DURATION", OPTION_SPAN, AT(taskcluster_claim_timeout),
     ENV("TASKCLUSTER_CLAIM_TIMEOUT"), .def = "1200s",
     .help = "how long a worker of Taskcluster's API keeps a run that it does not reclaim",
     .live = true},
    {"taskcluster-artifact-space", "SIZE", OPTION_SIZE, AT(taskcluster_artifact_space),
     ENV("TASKCLUSTER_ARTIFACT_SPACE"), .def = "10GiB",
     .help = "disk space for the bytes of artifacts that Taskcluster's API keeps, below "
             "<root-dir>/artifacts, uploads in progress included; those beyond it are refused"},
    {"commit-mode", "MODE", OPTION_CHOICE, AT(commit_mode), .choices = "fsync|buffered",
     .env = "TENAX_COMMIT_MODE", .alias = "ZIZQ_DEFAULT_COMMIT_MODE", .def = "fsync",
     .help = "acknowledge once the data is on disk, or sooner, which is faster but loses the last "
             "moments in a power cut"},
    {"enqueue-commit-mode", "MODE", OPTION_CHOICE, AT(enqueue_commit_mode),
     .choices = "fsync|buffered", ENV_BOTH("ENQUEUE_COMMIT_MODE"),
     .help = "the same for enqueues alone: fsync acknowledges them once they are on disk although "
             "--commit-mode is buffered; the promises of --commit-mode always apply to them"},
    {"default-retry-limit", "COUNT", OPTION_INT, AT(retry_limit), .max = JOB_RETRY_LIMIT_MAX,
     ENV_BOTH("DEFAULT_RETRY_LIMIT"), .def = "25",
     .help = "how often a failed job is retried before it is dead", .live = true},
    {"default-backoff-base", "DURATION", OPTION_SPAN, AT(backoff_base),
     ENV_BOTH("DEFAULT_BACKOFF_BASE"), .def = "15s",
     .help =
         "B of the wait before a retry, B + a^E seconds + a * rand(0..J), where a is the number of "
         "attempts made; give all three of B, E, J or none",
     .live = true},
    {"default-backoff-exponent", "NUMBER", OPTION_DOUBLE, AT(backoff_exponent), .max = 100,
     ENV_BOTH("DEFAULT_BACKOFF_EXPONENT"), .def = "4", .help = "E of that formula", .live = true},
    {"default-backoff-jitter", "DURATION", OPTION_SPAN, AT(backoff_jitter),
     ENV_BOTH("DEFAULT_BACKOFF_JITTER"), .def = "30s", .help = "J of that formula", .live = true},
    {"default-completed-job-retention", "DURATION", OPTION_SPAN, AT(retain_completed),
     ENV_BOTH("DEFAULT_COMPLETED_JOB_RETENTION"), .def = "1h",
     .help = "how long a completed job is kept; 0 deletes it at once", .live = true},
    {"default-completed-job-limit", "COUNT", OPTION_INT, AT(completed_kept), .max = 1000000000,
     ENV("DEFAULT_COMPLETED_JOB_LIMIT"), .def = "1000",
     .help =
         "how many completed jobs that default keeps, the newest; beyond that number, others are "
         "deleted, the oldest first, except jobs that hold an alias or, by unique_while exists, "
         "a key; 0 keeps all, as does a retention that is given without this",
     .live = true},
    {"default-dead-job-retention", "DURATION", OPTION_SPAN, AT(retain_dead),
     ENV_BOTH("DEFAULT_DEAD_JOB_RETENTION"), .def = "7d", .help = "how long a dead job is kept",
     .live = true},
    {"metrics-queues", "COUNT", OPTION_INT, AT(metrics_queues), .max = 10000, ENV("METRICS_QUEUES"),
     .def = "200",
     .help = "how many queues GET /metrics distinguishes; further ones are counted together"},
    {"event-retention", "DURATION", OPTION_SPAN, AT(event_retention), ENV("EVENT_RETENTION"),
     .def = "1d", .help = "how long events, which GET /events returns, are kept", .live = true},
    {"event-max-bytes", "SIZE", OPTION_SIZE, AT(event_max_bytes), ENV("EVENT_MAX_BYTES"),
     .def = "256MiB", .help = "disk space that they may take; the oldest are deleted first",
     .live = true},
    {"failure-history", "COUNT", OPTION_INT, AT(failure_history), .max = 1000000,
     ENV("FAILURE_HISTORY"), .def = "10000",
     .help = "how many failures, and successes after failures, are remembered after their jobs are "
             "gone, "
             "for `tenax policy simulate`; the oldest are deleted first; 0: none",
     .live = true},
    {"print-access", NULL, OPTION_SWITCH, AT(print_access), ENV("PRINT_ACCESS"),
     .help = "print who may do what, without secrets, and end; the server must not be running"},
    {"wrong-credentials", "COUNT", OPTION_INT, AT(wrong_credentials), .max = 100000,
     ENV("WRONG_CREDENTIALS"), .def = "60",
     .help = "how often wrong credentials may come from an address in a minute; further ones are "
             "answered with 429; 0: any number"},
    {"audit-retention", "DURATION", OPTION_SPAN, AT(audit_retention), ENV("AUDIT_RETENTION"),
     .def = "365d", .help = "how long changes by people, which GET /audit returns, are kept",
     .live = true},
    {"audit-max", "COUNT", OPTION_INT, AT(audit_max), .min = 100, .max = 1000000000,
     ENV("AUDIT_MAX"), .def = "1000000",
     .help = "how many of them are kept; the oldest are deleted first", .live = true},
    {"failure-groups", "COUNT", OPTION_INT, AT(failure_groups_max), .max = 100000,
     ENV("FAILURE_GROUPS"), .def = "10000",
     .help = "how many groups of failures that are alike are kept and counted, each in up to 3 KiB "
             "of memory; a new one then takes the place of the one not seen for the longest time; "
             "0: none",
     .live = true},
    {"failure-group-retention", "DURATION", OPTION_SPAN, AT(failure_group_retention),
     ENV("FAILURE_GROUP_RETENTION"), .def = "30d",
     .help = "how long a group of failures is kept after its newest failure", .live = true},
    {"idempotency-retention", "DURATION", OPTION_SPAN, AT(idempotency_retention),
     ENV("IDEMPOTENCY_RETENTION"), .def = "1d",
     .help = "how long an Idempotency-Key of an enqueue is remembered, with its answer; 0: not at "
             "all",
     .live = true},
    {"idempotency-bytes", "SIZE", OPTION_SIZE, AT(idempotency_bytes), ENV("IDEMPOTENCY_BYTES"),
     .def = "256MiB",
     .help = "disk space that these answers may take; beyond it the ids of jobs are kept of the "
             "oldest, and the rest of an answer is made of the request when it is repeated",
     .live = true},
    {"undo-max", "DURATION", OPTION_SPAN, AT(undo_max), ENV("UNDO_MAX"), .def = "1d",
     .help = "for how long at most changes of many jobs can be undone, if that is asked for; 0: "
             "never",
     .live = true},
    {"undo-max-bytes", "SIZE", OPTION_SIZE, AT(undo_max_bytes), ENV("UNDO_MAX_BYTES"),
     .def = "1GiB",
     .help = "disk space that what is kept for that may take; further such changes are refused",
     .live = true},
    {"cron-missed", "HOW", OPTION_CHOICE, AT(cron_missed), .choices = "once|skip",
     ENV("CRON_MISSED"), .def = "once",
     .help = "what happens to the ticks of a cron entry that were due while the server was down: "
             "one job for all of them, or none"},
    {"lost-worker-limit", "COUNT", OPTION_INT, AT(lost_worker_limit), .max = 1000000,
     ENV("LOST_WORKER_LIMIT"), .def = "5",
     .help =
         "after how many consecutive runs that ended with their worker lost (its stream broke or "
         "its lease expired) a job is dead, however many retries it has left; 0: never",
     .live = true},
    {"free-retries", "CULPRIT=COUNT", OPTION_TEXT, AT(free_retries), ENV("FREE_RETRIES"), .def = "",
     .help = "how many retries after failures that others are to blame for cost a job nothing of "
             "its retry limit, as in worker=3,cluster=0; those of other culprits remain as in the "
             "table of docs/culprits.md"},
    {"lease-grace", "DURATION", OPTION_SPAN, AT(lease_grace), ENV("LEASE_GRACE"), .def = "1m",
     .help = "when a server begins to answer, after a start, a take-over or a stop of its process, "
             "leases of jobs last for at least as long as they were granted for, but for this at "
             "the most; 0s: those that are over end at once",
     .live = true},
    {"lost-worker-min-held", "DURATION", OPTION_SPAN, AT(lost_worker_min_held),
     ENV("LOST_WORKER_MIN_HELD"), .def = "10s",
     .help = "how long a stream must have held a job for the run to count there when the stream "
             "breaks; runs that began by a claim always count",
     .live = true},
    {"gang-wait-max", "DURATION", OPTION_SPAN, AT(gang_wait_max), ENV("GANG_WAIT_MAX"), .def = "1d",
     .help = "how long the ready members of a gang wait for those that are missing; then they are "
             "dead",
     .live = true},
    {"hold-max", "DURATION", OPTION_SPAN, AT(hold_max), ENV("HOLD_MAX"), .def = "90d",
     .help = "how long a held job without a deadline waits to be freed; then it is dead; 0: for "
             "ever",
     .live = true},
    {"global-in-flight-limit", "COUNT", OPTION_INT, AT(in_flight_max), .max = 1000000000,
     ENV_BOTH("GLOBAL_IN_FLIGHT_LIMIT"), .def = "0",
     .help = "how many jobs may be in flight at a time, over all queues and workers; after the "
             "limit is "
             "lowered, those beyond it continue; 0: any number",
     .live = true},
    {"max-budgets", "COUNT", OPTION_INT, AT(budgets_max), .min = 1, .max = BUDGETS_MAX_MAX,
     ENV_BOTH("MAX_BUDGETS"), .def = "8192",
     .help = "how many budgets there may be; those beyond a lower limit stay", .live = true},
    {"retries-share", "PERCENT", OPTION_INT, AT(retries_share), .min = 1, .max = 100,
     ENV("RETRIES_SHARE"), .def = "15",
     .help = "retries that policies granted come before other jobs of their queue and priority: "
             "while both wait, this percentage of the jobs handed out are such retries; 100: all",
     .live = true},
    {"avoid-node-for", "DURATION", OPTION_SPAN, AT(avoid_required), ENV("AVOID_NODE_FOR"),
     .def = "5m",
     .help = "how long a retry with anti-affinity must avoid the node of the failed run, if its "
             "policy has no antiAffinity.requiredFor; then it may run there, too",
     .live = true},
    {"index-snapshots", NULL, OPTION_SWITCH, AT(index_snapshots), ENV("INDEX_SNAPSHOTS"),
     .def = "on",
     .help = "with 100,000 jobs or more: keep a snapshot of the indexes in the root directory, so "
             "that a start need not read every job; =off: do without"},
    {"retry-policy-enabled", NULL, OPTION_SWITCH, AT(retry_policy_enabled),
     ENV("RETRY_POLICY_ENABLED"),
     .help = "let retry policies decide about failed jobs; PUT /settings/retry overrides "
             "it"},
    {"retry-when-no-policy", "ACTION", OPTION_CHOICE, AT(when_no_policy), .choices = "fail|default",
     ENV("RETRY_WHEN_NO_POLICY"), .def = "default",
     .help = "while retry policies are enabled: what happens to failed jobs without an effective "
             "policy. default: their own backoff and retry limit, or the server's, apply; fail: "
             "they die. PUT /settings/retry overrides it; a configuration file with the section "
             "scheduling: retryPolicy: has fail unless it says otherwise"},
    {"heartbeat-interval", "DURATION", OPTION_SPAN, AT(heartbeat_interval),
     ENV_BOTH("HEARTBEAT_INTERVAL"), .def = "3s",
     .help = "how often a stream of jobs sends a heartbeat when it has nothing else to send",
     .live = true},
    {"claim-wait-max", "DURATION", OPTION_SPAN, AT(claim_wait_max), ENV("CLAIM_WAIT_MAX"),
     .def = "45s",
     .help = "how long a claim waits for a job at most, whatever its wait_ms; proxies give up an "
             "answer that has not begun after 50 or 60 seconds (docs/proxies.md)",
     .live = true},
    {"log-level", "LEVEL", OPTION_CHOICE, AT(log_level), .choices = "error|warn|info|debug|trace",
     ENV_BOTH("LOG_LEVEL"), .def = "warn", .help = "how much to log; trace is the same as debug",
     .live = true},
    {"log-format", "FORMAT", OPTION_CHOICE, AT(log_format), .choices = "text|json|compact|pretty",
     ENV_BOTH("LOG_FORMAT"), .def = "text",
     .help = "format of log lines; compact and pretty are the same as text", .live = true},
    {"log-to-disk", NULL, OPTION_SWITCH, AT(log_to_disk), ENV_BOTH("LOG_TO_DISK"),
     .help = "write the log to log/tenax.log in the root directory, not to standard error"},
    {"log-dir", "DIR", OPTION_TEXT, AT(log_dir), ENV_BOTH("LOG_DIR"),
     .help = "write it to tenax.log in this folder"},
    {"log-rotation", "WHEN", OPTION_CHOICE, AT(log_rotation), .choices = "daily|hourly|never",
     ENV_BOTH("LOG_ROTATION"), .def = "daily",
     .help = "when that file becomes tenax.log.1 and a new one begins (days and hours of UTC)"},
    {"log-max-size", "SIZE", OPTION_SIZE, AT(log_max_size), ENV_BOTH("LOG_MAX_SIZE"),
     .def = "100MB", .help = "size at which this happens, too"},
    {"log-max-files", "COUNT", OPTION_INT, AT(log_max_files), .max = 10000,
     ENV_BOTH("LOG_MAX_FILES"), .def = "10", .help = "how many of the old files are kept"},
    {"strict", NULL, OPTION_SWITCH, AT(strict), ENV("STRICT"),
     .help = "refuse requests with fields that the server does not know", .live = true},
    {"max-body", "SIZE", OPTION_SIZE, AT(max_body), ENV("MAX_BODY"), .def = "16MiB",
     .help = "largest request body; the bytes of artifacts are not held to it"},
    {"reply-memory", "SIZE", OPTION_SIZE, AT(reply_memory), ENV("REPLY_MEMORY"), .def = "256MiB",
     .help =
         "memory for answers that are being made or have not been read, of all clients together; "
         "beyond it requests wait"},
    {"request-memory", "SIZE", OPTION_SIZE, AT(request_memory), ENV("REQUEST_MEMORY"),
     .def = "256MiB",
     .help = "memory for requests that have not arrived in full or wait for their turn, of all "
             "clients together; beyond it large ones wait"},
    {"max-connections", "COUNT", OPTION_INT, AT(max_connections), .min = 1, .max = 1000000,
     ENV("MAX_CONNECTIONS"), .def = "10000", .help = "maximum number of clients at the same time"},
    {"io-threads", "COUNT", OPTION_INT, AT(io_threads), .max = IO_THREADS_MAX, ENV("IO_THREADS"),
     .def = "1",
     .help = "threads that read requests and write answers, with TLS and HTTP; 1: the thread that "
             "keeps the jobs does it, too; 0: one less than there are processors, but at least 1 "
             "and at most 4"},
    {"max-streams", "COUNT", OPTION_INT, AT(max_streams), .min = 1, .max = 100000,
     ENV("MAX_STREAMS"), .def = "256",
     .help = "maximum number of concurrent requests on an HTTP/2 connection"},
    {"header-timeout", "DURATION", OPTION_SPAN, AT(header_timeout), ENV("HEADER_TIMEOUT"),
     .def = "10s", .help = "how long a client may take to send the head of a request"},
    {"body-timeout", "DURATION", OPTION_SPAN, AT(body_timeout), ENV("BODY_TIMEOUT"), .def = "30s",
     .help = "how long it may pause while sending the body"},
    {"idle-timeout", "DURATION", OPTION_SPAN, AT(idle_timeout), ENV("IDLE_TIMEOUT"), .def = "75s",
     .help = "how long a connection may stay open between requests"},
    {"tcp-user-timeout", "DURATION", OPTION_SPAN, AT(tcp_user_timeout), ENV("TCP_USER_TIMEOUT"),
     .def = "30s",
     .help = "a client is given up when nothing sent to it was acknowledged for so long, as when "
             "its host or the network is gone; what its streams hold is handed out again"},
    {"min-free-space", "SIZE", OPTION_SIZE, AT(min_free_space), ENV("MIN_FREE_SPACE"),
     .def = "256MiB",
     .help = "with less free space on the disk nothing new is stored; reading and finishing go on",
     .live = true},
    {"clock-jump-limit", "DURATION", OPTION_SPAN, AT(clock_jump_limit), ENV("CLOCK_JUMP_LIMIT"),
     .def = "5m",
     .help = "a step of the system's clock by more than this, ahead or back, is not followed: it "
             "makes nothing due, and /health says clock until the clock is near again",
     .live = true},
    {"otlp-endpoint", "URL", OPTION_TEXT, AT(otlp_endpoint), .env = "TENAX_OTLP_ENDPOINT",
     .alias = "OTEL_EXPORTER_OTLP_ENDPOINT",
     .help = "send spans of jobs that are in a trace to this collector, by OTLP/HTTP, such as "
             "http://127.0.0.1:4318; /v1/traces is added (docs/tracing.md)"},
    {"otlp-headers-file", "FILE", OPTION_TEXT, AT(otlp_headers_file), ENV("OTLP_HEADERS_FILE"),
     .help = "headers for it, a line `Name: value` each; read before each request"},
    {"otlp-headers", "LIST", OPTION_TEXT, AT(otlp_headers), .env = "TENAX_OTLP_HEADERS",
     .alias = "OTEL_EXPORTER_OTLP_HEADERS",
     .help = "the same as name=value,name=value, values percent-encoded; others on this machine "
             "can see command lines, so keep secrets in the file or the variable"},
    {"otlp-ca", "FILE", OPTION_TEXT, AT(otlp_ca), .env = "TENAX_OTLP_CA",
     .alias = "OTEL_EXPORTER_OTLP_CERTIFICATE",
     .help = "who may have signed its certificate (PEM), instead of whom the system trusts"},
    {"otlp-memory", "SIZE", OPTION_SIZE, AT(otlp_memory), ENV("OTLP_MEMORY"), .def = "8MiB",
     .help = "memory for spans that wait for it; what has no room is dropped and counted"},
    {"cache-size", "SIZE", OPTION_SIZE, AT(cache_size), ENV_BOTH("CACHE_SIZE"), .def = "256MB",
     .help = "memory for the cache of the store"},
    {"jq-processes", "COUNT", OPTION_INT, AT(jq_processes), .min = 1, .max = 64,
     ENV("JQ_PROCESSES"), .def = "2",
     .help =
         "processes that evaluate jq expressions of batched jobs and of filters; started when "
         "first needed; while filters keep all of them busy, there is one more for batched jobs"},
    {"jq-time-limit", "DURATION", OPTION_SPAN, AT(jq_time_limit), ENV("JQ_TIME_LIMIT"), .def = "1s",
     .help = "processor time that one evaluation may take before it is stopped"},
    {"jq-wall-limit", "DURATION", OPTION_SPAN, AT(jq_wall_limit), ENV("JQ_WALL_LIMIT"), .def = "0",
     .help = "how long one evaluation may take by the clock before it is stopped, however little "
             "of it a busy machine runs; 0: five times --jq-time-limit"},
    {"jq-request-limit", "DURATION", OPTION_SPAN, AT(jq_request_limit), ENV("JQ_REQUEST_LIMIT"),
     .def = "10s",
     .help = "processor time that the expressions of one request may take in total; at least "
             "--jq-time-limit. By the clock it is longer in the ratio of --jq-wall-limit to that",
     .live = true},
    {"jq-memory-limit", "SIZE", OPTION_SIZE, AT(jq_memory_limit), ENV("JQ_MEMORY_LIMIT"),
     .def = "256MiB", .help = "memory that each of these processes may use"},
    {"default-commit-mode", "MODE", OPTION_CHOICE, AT(default_commit_mode),
     .choices = "fsync|buffered", ENV("DEFAULT_COMMIT_MODE"),
     .help = "Zizq's name for --commit-mode"},
    {"reaper-check-interval", "DURATION", OPTION_SPAN, AT(reaper_check_interval),
     ENV_BOTH("REAPER_CHECK_INTERVAL"),
     .help = "Zizq's, without effect: jobs are deleted when their retention ends"},
    {"enqueue-batch-size", "COUNT", OPTION_INT, AT(enqueue_batch_size), .min = 1, .max = 1000000000,
     ENV_BOTH("ENQUEUE_BATCH_SIZE"),
     .help = "Zizq's, without effect: everything that arrives during a commit is in the next one"},
    {"complete-batch-size", "COUNT", OPTION_INT, AT(complete_batch_size), .min = 1,
     .max = 1000000000, ENV_BOTH("COMPLETE_BATCH_SIZE"), .help = "likewise"},
    {"license-key", "KEY", OPTION_TEXT, AT(license_key), ENV_BOTH("LICENSE_KEY"),
     .help = "Zizq's, without effect: everything is free"},
    {"license-key-check-interval", "DURATION", OPTION_SPAN, AT(license_check_interval),
     ENV_BOTH("LICENSE_KEY_CHECK_INTERVAL"), .help = "likewise"},
    {0},
};

const struct subcommand settings_command = {
    .name = "serve",
    .usage = "[OPTIONS]",
    .summary = "run the server",
    .about =
        "Keeps jobs on disk and hands them to workers over HTTP/1.1 and HTTP/2. Prints "
        "`Listening on http://ADDRESS:PORT` on standard output once it is ready, before that a "
        "line that ends in `(admin)` for the admin listener; logs go to standard error. If that is "
        "a terminal, the address of the web console and a first command to try follow there. "
        "SIGTERM or Ctrl-C lets it finish its requests and end; on SIGHUP it reads "
        "certificates and keys again, for new connections, and the file of --config. `tenax help "
        "tls` makes some.\n"
        "Durations are written 30s, 1.5h, 2hours 5min, or as milliseconds; sizes 64MiB, 1.5 GB, or "
        "as bytes. A flag overrides its variable, which overrides the file of --config. The names "
        "ZIZQ_… of "
        "Zizq's server work too, "
        "where a TENAX_… is not set.",
    .examples = "  tenax serve\n"
                "  tenax serve --root-dir /var/lib/tenax --port 9000\n"
                "  tenax serve --config /etc/tenax.yaml\n"
                "  tenax serve --tls-cert server-cert.pem --tls-key server-key.pem\n"
                "  TENAX_LOG_LEVEL=info tenax serve --default-retry-limit 5\n",
    .options = table,
};

/* The three form one formula: changing only one of them gives a curve that nobody has considered.
 * Returns what is missing, or an empty string. */
static const char *missing_of_backoff(const struct options *o, char *out, size_t size)
{
    const struct {
        const char *flag;
        bool given;
    } parts[] = {
        {"--default-backoff-base", OPTION_GIVEN(o, struct settings, backoff_base)},
        {"--default-backoff-exponent", OPTION_GIVEN(o, struct settings, backoff_exponent)},
        {"--default-backoff-jitter", OPTION_GIVEN(o, struct settings, backoff_jitter)},
    };
    int given = parts[0].given + parts[1].given + parts[2].given;
    *out = '\0';
    for (size_t i = 0; given && i < 3; i++) {
        size_t used = strlen(out);
        if (!parts[i].given)
            snprintf(out + used, size - used, "%s%s", used ? " and " : "", parts[i].flag);
    }
    return out;
}

/* The fault in a listener's three files, or NULL. */
static const char *fault_of_tls(const struct settings_tls *t)
{
    if (!t->cert != !t->key)
        return "a certificate and its key must be given together";
    return t->client_ca && !t->cert ? "a CA of clients needs a certificate and a key, too" : NULL;
}

static const char *fault_of_listeners(const struct settings *s)
{
    const char *fault = fault_of_tls(&s->tls);
    return fault ? fault : fault_of_tls(&s->admin_tls);
}

/* A zero time would end every connection at once, send heartbeats without a pause, or have
 * workers claim without one. */
static struct err check_times(const struct settings *s)
{
    const struct {
        const char *flag;
        span value;
    } times[] = {
        {"--heartbeat-interval", s->heartbeat_interval},
        {"--claim-wait-max", s->claim_wait_max},
        {"--gang-wait-max", s->gang_wait_max},
        {"--header-timeout", s->header_timeout},
        {"--body-timeout", s->body_timeout},
        {"--idle-timeout", s->idle_timeout},
        {"--jq-time-limit", s->jq_time_limit},
        {"--jq-request-limit", s->jq_request_limit},
    };
    for (size_t i = 0; i < COUNT(times); i++)
        if (times[i].value.ms == 0)
            return err_make(ERR_USAGE, "%s must be longer than 0", times[i].flag);
    if (s->tcp_user_timeout.ms < 1000 || s->tcp_user_timeout.ms > 86400000)
        return err_make(ERR_USAGE, "--tcp-user-timeout must be from 1s to 24h");
    return err_none();
}

/* Faults in settings that are valid individually. */
static struct err check(const struct settings *s, const struct options *o)
{
    char missing[120];
    const char *fault = fault_of_listeners(s);
    if (*missing_of_backoff(o, missing, sizeof missing))
        return err_make(ERR_USAGE,
                        "the three backoff settings form one formula: %s must be given too",
                        missing);
    if (fault)
        return err_make(ERR_USAGE, "%s", fault);
    TRY(check_times(s));
    struct culprit_bounds bounds;
    struct err free_retries = culprit_bounds_read(str_from(s->free_retries), &bounds);
    if (free_retries.code != ERR_OK)
        return err_make(ERR_USAGE, "--free-retries: %s", free_retries.msg);
    struct err names = guard_check_names(s->allowed_hosts);
    if (names.code != ERR_OK)
        return err_make(ERR_USAGE, "--allowed-hosts: %s", names.msg);
    struct err origins = cors_check_origins(s->allowed_origins);
    if (origins.code != ERR_OK)
        return err_make(ERR_USAGE, "--allowed-origins: %s", origins.msg);
    struct proxies proxies;
    struct err trusted = proxies_read(s->trusted_proxies, &proxies);
    if (trusted.code != ERR_OK)
        return err_make(ERR_USAGE, "--trusted-proxies: %s", trusted.msg);
    if (s->otlp_memory < OTLP_MEMORY_MIN)
        return err_make(ERR_USAGE, "--otlp-memory must be 64KiB or more");
    if (s->reply_memory < REPLY_MEMORY_MIN)
        return err_make(ERR_USAGE, "--reply-memory must be 32MiB or more");
    if (s->request_memory < REQUEST_MEMORY_MIN)
        return err_make(ERR_USAGE, "--request-memory must be 16MiB or more");
    TRY(cluster_check(s));
    if (s->jq_memory_limit < JQ_MEMORY_MIN)
        return err_make(ERR_USAGE, "--jq-memory-limit must be 16MiB or more");
    return err_none();
}

/* Whoever sets a retention wants all of the jobs kept; the server's default is for beginners, and
 * must not burden a busy queue. */
static void complete_kept(struct settings *s, const struct options *o)
{
    if (OPTION_GIVEN(o, struct settings, retain_completed) &&
        !OPTION_GIVEN(o, struct settings, completed_kept))
        s->completed_kept = 0;
}

/* Settings that follow from others, and synonyms. */
static struct err derive(struct settings *s, const struct options *o)
{
    bool mode = OPTION_GIVEN(o, struct settings, commit_mode);
    bool old_mode = OPTION_GIVEN(o, struct settings, default_commit_mode);
    if (mode && old_mode && s->commit_mode != s->default_commit_mode)
        return err_make(ERR_USAGE, "--commit-mode and --default-commit-mode contradict each other");
    if (old_mode)
        s->commit_mode = s->default_commit_mode;
    if (!OPTION_GIVEN(o, struct settings, enqueue_commit_mode))
        s->enqueue_commit_mode = s->commit_mode;
    if (s->log_level > LOG_DEBUG)
        s->log_level = LOG_DEBUG;
    if (s->log_format > LOG_JSON)
        s->log_format = LOG_TEXT;
    return err_none();
}

/* Read at the start. */
static struct options read_at_start;

void settings_tell(void)
{
    migrate_tell(table, &read_at_start);
}

/* The file is read after flags and variables, which override it. */
static struct err complete(struct settings *s, struct options *o)
{
    if (s->config)
        TRY(config_read(s->config, o, s, &s->file));
    complete_kept(s, o);
    s->admin_wanted = OPTION_GIVEN(o, struct settings, admin_port) ||
                      OPTION_GIVEN(o, struct settings, admin_host);
    s->connections_wanted = OPTION_GIVEN(o, struct settings, max_connections);
    TRY(derive(s, o));
    return check(s, o);
}

/* The command line, for the next reading, because parsing reorders it. */
static struct {
    int argc;
    char **argv;
} given;

static void keep_words(int argc, char **argv)
{
    free(given.argv);
    given.argc = argc;
    given.argv = alloc_get(((size_t)argc + 1) * sizeof(char *));
    memcpy(given.argv, argv, (size_t)argc * sizeof(char *));
    given.argv[argc] = NULL;
}

bool settings_load(int argc, char **argv, struct settings *s, int *code)
{
    struct options o;
    *s = (struct settings){0};
    keep_words(argc, argv);
    if (!subcommand_begin(&settings_command, OPTIONS_ANYWHERE, argc, argv, s, &o, code))
        return false;
    if (o.rest_count) {
        *code = subcommand_usage(&settings_command, "unexpected '%s'", o.rest[0]);
        return false;
    }
    struct err e = complete(s, &o);
    if (e.code != ERR_OK)
        *code = subcommand_usage(&settings_command, "%s", e.msg);
    read_at_start = o;
    return e.code == ERR_OK;
}

struct err settings_reload(struct settings *fresh)
{
    struct options o;
    *fresh = (struct settings){0};
    char **words = alloc_get(((size_t)given.argc + 1) * sizeof(char *));
    memcpy(words, given.argv, ((size_t)given.argc + 1) * sizeof(char *));
    struct err e = options_parse(table, OPTIONS_ANYWHERE, given.argc, words, fresh, &o);
    free(words);
    if (e.code != ERR_OK)
        return e;
    return complete(fresh, &o);
}

void settings_free(struct settings *s)
{
    config_free(&s->file);
}
