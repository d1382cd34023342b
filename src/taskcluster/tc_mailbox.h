/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_MAILBOX_H
#define TASKCLUSTER_TC_MAILBOX_H

/* The messages of one task queue and priority, as a queue of Azure has them (seed 002): each names
 * a pending run. One that was handed out is invisible for a while; whoever got it deletes it with
 * the receipt of that time, or it is handed out again, with a new receipt and a higher count, until
 * the deadline of its task.
 *
 * In memory, and pure: time and chance are parameters. What is handed out is stored by tc_poll.c.
 */

#include <stdbool.h>

#include "base/btree.h"
#include "base/str.h"
#include "base/strmap.h"
#include "base/units.h"
#include "core/command.h"

#define TC_MESSAGE_ID_LEN 36 /* of a UUID */

struct tc_message {
    char id[TC_MESSAGE_ID_LEN];
    char run_key[40]; /* "taskId/run" */
    size_t run_key_len;
    uint32_t run;
    instant inserted, expires, visible_at;
    uint32_t count;   /* how often it was handed out */
    uint64_t receipt; /* of the last time */
    uint64_t number;  /* within its mailbox; decides ties of times */
    bool deleted;     /* kept so that its run gets no other message */
};

/* Zeroed: empty. */
struct tc_mailbox {
    struct strmap by_id, by_run;        /* struct tc_message, owned by by_id */
    struct btree by_visible, by_expiry; /* (time, number); val: the message */
    uint64_t numbers;
    struct ready_place place; /* up to where the ready tasks of the queue were looked at */
    bool loaded;              /* what is stored of it was read */
};

void tc_mailbox_fini(struct tc_mailbox *b);
static inline size_t tc_mailbox_count(const struct tc_mailbox *b)
{
    return b->by_id.count;
}

static inline struct str tc_message_id(const struct tc_message *m)
{
    return (struct str){m->id, sizeof m->id};
}

/* The task of a message, as its id. */
static inline struct str tc_message_task(const struct tc_message *m)
{
    return (struct str){m->run_key, 22};
}

/* Adds a message with an id that no other has; m is copied, but for its number. */
struct tc_message *tc_mailbox_add(struct tc_mailbox *b, const struct tc_message *m);
void tc_mailbox_remove(struct tc_mailbox *b, struct tc_message *m);
/* Deletes a message whose run still waits: it is neither found nor handed out again, but
 * tc_mailbox_has knows of it until its task's deadline. */
void tc_mailbox_bury(struct tc_mailbox *b, struct tc_message *m);
struct tc_message *tc_mailbox_find(const struct tc_mailbox *b, struct str id);
/* Whether there is a message for that run, or was until it was buried. */
bool tc_mailbox_has(const struct tc_mailbox *b, struct str task_id, uint32_t run);
/* Fills in run and run_key. */
void tc_message_name(struct tc_message *m, struct str task_id, uint32_t run);

/* The message that has been visible for the longest, or NULL. */
struct tc_message *tc_mailbox_visible(const struct tc_mailbox *b, instant now);
/* Copies those that are visible, in that order, at most `most`; how many they are. */
uint32_t tc_mailbox_peek(const struct tc_mailbox *b, instant now, struct tc_message *out,
                         uint32_t most);
/* Hands it out: invisible until then, counted, with that receipt. */
void tc_mailbox_hand_out(struct tc_mailbox *b, struct tc_message *m, instant until,
                         uint64_t receipt);
/* Drops messages whose task has reached its deadline, at most `most`. */
void tc_mailbox_expire(struct tc_mailbox *b, instant now, size_t most);

#endif
