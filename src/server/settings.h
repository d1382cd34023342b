/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

/* The settings of the server. The table behind them is the only place that defines flags, variables
 * and defaults. */

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "client/subcommand.h"
#include "server/config.h"

enum settings_commit_mode { SETTINGS_FSYNC, SETTINGS_BUFFERED };
enum settings_cron_missed { SETTINGS_CRON_ONCE, SETTINGS_CRON_SKIP };

enum settings_no_policy { SETTINGS_NO_POLICY_FAIL, SETTINGS_NO_POLICY_DEFAULT };

/* PEM files; NULL where none was given. */
struct settings_tls {
    const char *cert, *key, *client_ca;
};

struct settings {
    const char *config; /* NULL: there is no file */
    struct config file; /* its contents; option values may point into it */
    const char *root_dir;
    const char *postgres; /* NULL: jobs are kept in root_dir alone */
    const char *pg_password;
    const char *advertise;
    const char *servers_ca;
    bool accept_lost_commits;
    span lease;
    const char *host;
    int64_t port; /* 0: the system picks a free one */
    struct settings_tls tls;
    const char *admin_host;
    int64_t admin_port;
    bool connections_wanted; /* the number was given explicitly */
    bool admin_wanted;       /* it was requested explicitly: continuing without it would be wrong */
    struct settings_tls admin_tls;
    bool no_admin;
    bool no_console;
    int commit_mode;         /* enum settings_commit_mode */
    int enqueue_commit_mode; /* likewise */
    int64_t retry_limit;
    span backoff_base;
    double backoff_exponent;
    span backoff_jitter;
    span retain_completed;
    int64_t completed_kept; /* 0: all */
    span retain_dead;
    int64_t metrics_queues;
    span event_retention;
    uint64_t event_max_bytes;
    bool print_access;
    int64_t wrong_credentials;
    span audit_retention;
    int64_t audit_max;
    int64_t failure_history;    /* 0: none */
    int64_t failure_groups_max; /* 0: none */
    span failure_group_retention;
    span idempotency_retention;
    uint64_t idempotency_bytes;
    span undo_max;
    uint64_t undo_max_bytes;
    int cron_missed;           /* enum settings_cron_missed */
    int64_t lost_worker_limit; /* 0: none */
    const char *free_retries;  /* as culprit_bounds_read takes it */
    span lost_worker_min_held;
    span gang_wait_max;
    span hold_max;         /* 0: for ever */
    int64_t in_flight_max; /* 0: any number */
    int64_t budgets_max;
    int64_t retries_share; /* percent */
    span avoid_required;
    bool retry_policy_enabled;
    bool index_snapshots;
    int when_no_policy; /* enum settings_no_policy */
    span heartbeat_interval;
    span claim_wait_max;
    int log_level;  /* enum log_level */
    int log_format; /* enum log_format */
    bool log_to_disk;
    const char *log_dir; /* NULL: <root-dir>/log, iff log_to_disk */
    int log_rotation;    /* enum logfile_rotation */
    uint64_t log_max_size;
    int64_t log_max_files;
    bool strict;
    uint64_t max_body;
    uint64_t reply_memory;
    uint64_t request_memory;
    int64_t max_connections;
    int64_t io_threads; /* 0: by the processors */
    int64_t max_streams;
    span header_timeout;
    span idle_timeout;
    span tcp_user_timeout;
    span body_timeout;
    uint64_t min_free_space;
    span clock_jump_limit, lease_grace;
    bool insecure;
    const char *allowed_origins;     /* "https://a.example,http://localhost:3000"; NULL: none */
    const char *allowed_hosts;       /* "a.example,*.b.example", in addition to the server's own */
    const char *trusted_proxies;     /* access/proxies.h; NULL: none */
    const char *identities;          /* NULL: only tokens */
    const char *taskcluster_clients; /* NULL: none are configured */
    span taskcluster_claim_timeout;
    uint64_t taskcluster_artifact_space;
    const char *otlp_endpoint; /* NULL: no spans are exported */
    const char *otlp_headers, *otlp_headers_file, *otlp_ca;
    uint64_t otlp_memory;
    uint64_t cache_size;
    int64_t jq_processes;
    span jq_time_limit, jq_request_limit;
    span jq_wall_limit; /* 0: five times jq_time_limit */
    uint64_t jq_memory_limit;
    /* Accepted for users of Zizq; see server/migrate.h. */
    int default_commit_mode;
    span reaper_check_interval;
    int64_t enqueue_batch_size, complete_batch_size;
    const char *license_key;
    span license_check_interval;
};

/* The help page of `tenax serve`, with the table. */
extern const struct subcommand settings_command;

/* Reads flags and environment. False when the process must end now: help was printed, or an error
 * reported; *code is then its exit code. */
bool settings_load(int argc, char **argv, struct settings *s, int *code);

/* Logs which settings have no effect. */
void settings_tell(void);

/* Reads the configuration file again, with the same flags and environment, which override it.
 * *fresh must be released in either case. */
NODISCARD struct err settings_reload(struct settings *fresh);
void settings_free(struct settings *s);

#endif
