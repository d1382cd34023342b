/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_RECORD_H
#define STORE_RECORD_H

/* The byte layout of every key and value. Keys are a kind byte and big-endian numbers, so that byte
 * order is the order of ids and runs. Every value begins with a version byte. A newer binary reads
 * all older versions; a version newer than the binary is ERR_VERSION.
 *
 *   'J' id          the job as enqueued: what never changes, and its first state
 *   'P' id          its payload, if larger than RECORD_APART_MIN: recovery and lists skip it
 *   'S' id          its state, once it differs from the first
 *   'R' id run      a run that has ended
 *   'O' id kind     what a worker left with it: progress, checkpoint, result
 *   'T' seq         jobs handed to streams by one batch, or leases that it granted or renewed,
 * while one of their runs goes on 'W' seq         a job that has ended and whose dependants are not
 * all notified yet 'C' id          a cron group 'E' id          an entry of a cron group: all but
 * its clock 'N' id          the clock of that entry: its next tick 'Q' name        the settings of
 * a queue, and the level of its rate limit 'D' kind name   a resource: a retry policy, the policies
 * of a queue, the retry settings 'B' key         a budget, without its tokens 'F' number      the
 * failure history: a failure of a job, or its success after failures 'G' name        a group of
 * jobs: its owner, whether it is sealed 'K' space key   an entry that a front end keeps; see
 * store/record_kv.c 'L' time space key  when it expires 'V' number      events; see
 * store/eventlog.h 'Y' fingerprint a group of failures; see store/record_failure_group.c
 *   'M' name        facts about the store itself 'X' id          a job that was set
 * apart, because a part of it could not be read */

#include "base/arena.h"
#include "base/buf.h"
#include "core/budgets.h"
#include "core/crons.h"
#include "core/group.h"
#include "core/history.h"
#include "core/job.h"
#include "core/enqueue.h"
#include "core/failure_groups.h"
#include "core/idempotency.h"
#include "core/kv.h"
#include "core/port.h"
#include "core/queue.h"
#include "store/batch.h"

#define RECORD_APART_MIN        4096
#define RECORD_KEY_MAX          32
#define RECORD_RESOURCE_KEY_MAX (JOB_NAME_MAX + 2)
#define RECORD_QUEUE_KEY_MAX    (JOB_NAME_MAX + 1)
#define RECORD_GROUP_KEY_MAX    (JOB_GROUP_MAX + 1)
#define RECORD_KV_KEY_MAX       (KV_SPACE_MAX + KV_KEY_MAX + 10)
#define RECORD_BUDGET_KEY_MAX   (BUDGET_KEY_MAX + 1)

struct record_key {
    char bytes[RECORD_KEY_MAX];
    size_t len;
};

/* The lost part of a job that was set apart. */
enum apart_part { APART_JOB, APART_STATE, APART_PAYLOAD, APART_NOTE, APART_PARTS };
struct record_apart {
    enum apart_part part; /* the first one found */
    uint64_t table;       /* the number of its file; 0: not known */
};

/* The current time and the number of the newest event, in every batch. */
struct record_clock {
    instant newest;
    uint64_t events;        /* no later event has a number up to this; 0 in version 1 */
    instant turned_at;      /* the time to which it was last set back, or none */
    uint64_t turned_events; /* number of the newest event at that moment */
    instant from;           /* iff jobs are still to be corrected, or none: the time before that */
    struct id next;         /* the next job to be corrected */
    uint64_t boot;          /* the machine's run to which `ticks` belong; 0: not known */
    int64_t ticks;          /* of env.ticks, as it was `newest`; never negative */
};

/* Which snapshots of the indexes are this store's: the newest that was begun, and the newest before
 * it that was finished, or none. */
struct record_index {
    struct id nonces[2];
};

/* What an enqueue with an idempotency key was answered. */
struct record_answer {
    unsigned char request[IDEMPOTENCY_DIGEST];
    const struct enqueued *jobs; /* without payloads */
    size_t count;
    bool brief; /* of each job there are the id, whether it was added, status and ready_at */
};

/* What is known of all answers together. */
struct record_answers {
    uint64_t bytes; /* of those that are not brief */
    instant from;   /* those that expire before are brief */
};

/* Keys, by the kinds above. */
struct record_key record_job_key(struct id id);
struct record_key record_payload_key(struct id id);
struct record_key record_state_key(struct id id);
struct record_key record_run_key(struct id id, uint32_t run);
struct record_key record_note_key(struct id id, enum note_kind kind);
struct record_key record_apart_key(struct id id);
struct record_key record_takes_key(uint64_t seq);
struct record_key record_ended_key(uint64_t seq);
struct record_key record_cron_group_key(struct id id);
struct record_key record_cron_entry_key(struct id id);
struct record_key record_cron_clock_key(struct id id);
struct record_key record_history_key(uint64_t number);
struct record_key record_failure_group_key(uint64_t fingerprint);
struct record_key record_meta_key(struct str name);
struct record_key record_clock_key(void);
struct record_key record_index_key(void);
/* Writes the key into room, because names are long. */
struct str record_resource_key(char kind, struct str name, char room[RECORD_RESOURCE_KEY_MAX]);
struct str record_queue_key(struct str name, char room[RECORD_QUEUE_KEY_MAX]);
struct str record_group_key(struct str name, char room[RECORD_GROUP_KEY_MAX]);
/* With an empty key, what all keys of a space begin with; with an empty space, those of all. */
struct str record_kv_key(struct str space, struct str key, char room[RECORD_KV_KEY_MAX]);
struct str record_kv_expiry_key(instant expires, struct str space, struct str key,
                                char room[RECORD_KV_KEY_MAX]);
struct record_key record_kv_newest_key(void);
struct str record_budget_key(struct str key, char room[RECORD_BUDGET_KEY_MAX]);
static inline struct str record_key_view(const struct record_key *k)
{
    return (struct str){k->bytes, k->len};
}
/* The parts of a key of that kind; false if it is of another kind or malformed. */
bool record_key_is_job(struct str key, struct id *id);
bool record_key_is_payload(struct str key, struct id *id);
bool record_key_is_state(struct str key, struct id *id);
bool record_key_is_run(struct str key, struct id *id, uint32_t *run);
bool record_key_is_note(struct str key, struct id *id, enum note_kind *kind);
bool record_key_is_apart(struct str key, struct id *id);
bool record_key_is_takes(struct str key, uint64_t *seq);
bool record_key_is_ended(struct str key, uint64_t *seq);
bool record_key_is_history(struct str key, uint64_t *number);
bool record_key_is_failure_group(struct str key, uint64_t *fingerprint);
bool record_key_is_cron_group(struct str key, struct id *id);
bool record_key_is_cron_entry(struct str key, struct id *id);
bool record_key_is_cron_clock(struct str key, struct id *id);
bool record_key_is_resource(struct str key, char *kind, struct str *name);
bool record_key_is_queue(struct str key, struct str *name);
bool record_key_is_group(struct str key, struct str *name);
bool record_key_is_kv(struct str whole, struct str *space, struct str *key);
bool record_key_is_kv_expiry(struct str whole, instant *expires, struct str *space,
                             struct str *key);
bool record_key_is_budget(struct str key, struct str *name);

/* Its name in messages. */
const char *record_apart_name(enum apart_part part);

/* The fact that names the layout of everything, and its value as this program writes it. */
#define RECORD_FORMAT_KEY STR("format")
#define RECORD_FORMAT     "1"
/* ERR_VERSION unless value is a format that this program knows. */
NODISCARD struct err record_check_format(struct str value);

/* Functions that put records into a batch. record_put_job: true if the payload went to a key of its
 * own. */
bool record_put_job(struct batch *b, const struct job *job);
void record_put_state(struct batch *b, struct id id, const struct job_state *state);
void record_put_run(struct batch *b, struct id id, const struct run *run);
void record_put_note(struct batch *b, struct id id, enum note_kind kind, const struct note *note);
void record_put_takes(struct batch *b, uint64_t seq, instant at, const struct take *takes,
                      size_t count);
void record_put_leases(struct batch *b, uint64_t seq, instant at, const struct lease *leases,
                       size_t count);
void record_put_ended(struct batch *b, uint64_t seq, struct id id, enum depend_end end);
void record_put_history(struct batch *b, uint64_t number, const struct history_entry *entry);
void record_put_failure_group(struct batch *b, const struct failure_group *group);
void record_put_cron_group(struct batch *b, const struct cron_group *group);
void record_put_cron_entry(struct batch *b, const struct cron_entry *entry);
void record_put_cron_clock(struct batch *b, struct id id, const struct cron_clock *clock);
void record_put_clock(struct batch *b, const struct record_clock *clock);
void record_put_apart(struct batch *b, struct id id, const struct record_apart *apart);
void record_put_queue(struct batch *b, struct str name, const struct queue_record *queue);
void record_put_budget(struct batch *b, const struct budget *budget);
void record_put_resource(struct batch *b, char kind, struct str name, uint64_t version,
                         struct str body);
void record_put_group(struct batch *b, const struct group_record *g);
/* With its expiry, if it has one; an older one of another time must be deleted before. */
void record_put_kv(struct batch *b, const struct kv_entry *e);
void record_delete_kv(struct batch *b, const struct kv_entry *e);
void record_put_index(struct batch *b, const struct record_index *index);
void record_put_kv_newest(struct batch *b, uint64_t version);

/* Functions that read records. Strings of the results are views into value. ERR_CORRUPT (says which
 * part), ERR_VERSION. If the payload lies under its own key, record_read_job leaves job->payload
 * empty and sets *payload_apart. */
NODISCARD struct err record_read_job(struct str value, struct id id, struct job *job,
                                     bool *payload_apart);
NODISCARD struct err record_read_payload(struct str value, struct str *payload);
NODISCARD struct err record_read_state(struct str value, struct job_state *state);
/* The lists of containers and of events are in the arena. */
NODISCARD struct err record_read_run(struct str value, struct arena *a, struct run *run);
NODISCARD struct err record_read_note(struct str value, struct note *note);
/* Calls each(ctx, take) for every take of the record. */
NODISCARD struct err record_read_takes(struct str value, instant *at,
                                       void (*each)(void *ctx, struct take t), void *ctx);
/* Whether a record under a key of takes is one of leases. */
bool record_is_leases(struct str value);
NODISCARD struct err
record_read_leases(struct str value, void (*each)(void *ctx, const struct lease *lease), void *ctx);
NODISCARD struct err record_read_ended(struct str value, struct id *id, enum depend_end *end);
/* The list of containers is in the arena. */
NODISCARD struct err record_read_history(struct str value, struct arena *a,
                                         struct history_entry *entry);
NODISCARD struct err record_read_failure_group(struct str value, uint64_t fingerprint,
                                               struct failure_group *group);
NODISCARD struct err record_read_cron_group(struct str value, struct id id,
                                            struct cron_group *group);
/* All but the clock, which is zeroed. */
NODISCARD struct err record_read_cron_entry(struct str value, struct id id,
                                            struct cron_entry *entry);
NODISCARD struct err record_read_cron_clock(struct str value, struct cron_clock *clock);
NODISCARD struct err record_read_queue(struct str value, struct queue_record *queue);
/* All but its key, which is that of the record. */
NODISCARD struct err record_read_budget(struct str value, struct str key, struct budget *budget);
NODISCARD struct err record_read_clock(struct str value, struct record_clock *clock);
NODISCARD struct err record_read_apart(struct str value, struct record_apart *apart);
NODISCARD struct err record_read_resource(struct str value, uint64_t *version, struct str *body);
NODISCARD struct err record_read_group(struct str value, struct str name, struct group_record *g);
/* Version, expiry and value. */
NODISCARD struct err record_read_kv(struct str value, struct kv_entry *e);
NODISCARD struct err record_check_kv_expiry(struct str value);
NODISCARD struct err record_read_index(struct str value, struct record_index *index);
NODISCARD struct err record_read_kv_newest(struct str value, uint64_t *version);
/* The value of an entry that keeps an answer; in the arena. Its jobs are read into the arena, too.
 */
struct str record_write_answer(const struct record_answer *answer, struct arena *a);
NODISCARD struct err record_read_answer(struct str value, struct arena *a,
                                        struct record_answer *answer);
/* Without reading it; of what is no answer either. */
bool record_answer_is_brief(struct str value);
/* The same answer, brief. */
NODISCARD struct err record_shorten_answer(struct str value, struct arena *a, struct str *brief);
struct record_key record_answers_key(void);
void record_put_answers(struct batch *b, const struct record_answers *all);
NODISCARD struct err record_read_answers(struct str value, struct record_answers *all);

#endif
