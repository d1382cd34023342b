/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_exchange.h"

#include "base/array.h"

/* --- the words of routing keys --- */

struct word {
    const char *name, *summary;
    bool always; /* there is never a gap */
    bool constant, many;
};

enum { WORD_KIND, WORD_TASK, WORD_RUN, WORD_GROUP, WORD_WORKER, TASK_WORDS = 10, GROUP_WORDS = 4 };

#define KIND                                                                                       \
    {                                                                                              \
        "routingKeyKind", "`primary`, unlike routing keys of a task's own routes", true, true      \
    }
#define RESERVED                                                                                   \
    {                                                                                              \
        "reserved", "room for further words: match it with `#`", .many = true                      \
    }
#define SCHEDULER                                                                                  \
    {                                                                                              \
        "schedulerId", "who created it", true                                                      \
    }

static const struct word task_words[TASK_WORDS] = {
    KIND,
    {"taskId", "the task that the message is about", true},
    {"runId", "its run that the message is about, or `_`"},
    {"workerGroup", "the group of the worker that has or had the run, or `_`"},
    {"workerId", "that worker, or `_`"},
    {"provisionerId", "the first part of its taskQueueId", true},
    {"workerType", "the second part of its taskQueueId", true},
    SCHEDULER,
    {"taskGroupId", "the group that it is in", true},
    RESERVED,
};

static const struct word group_words[GROUP_WORDS] = {
    KIND,
    {"taskGroupId", "the group of tasks that the message is about", true},
    SCHEDULER,
    RESERVED,
};

/* --- exchanges --- */

struct exchange {
    const char *exchange, *name, *title, *schema, *description;
    bool has_run, has_worker; /* always */
    bool of_group;
};

static const struct exchange exchanges[TC_EXCHANGES] = {
    [TC_TASK_DEFINED] = {"task-defined", "taskDefined", "Task Defined Messages", "task-defined",
                         "A task was created. If nothing keeps it from running, a message on "
                         "task-pending follows."},
    [TC_TASK_PENDING] = {"task-pending", "taskPending", "Task Pending Messages", "task-pending",
                         "A run of a task waits for a worker: the first one, or another one after "
                         "an exception or a rerun.",
                         .has_run = true},
    [TC_TASK_RUNNING] = {"task-running", "taskRunning", "Task Running Messages", "task-running",
                         "A worker has claimed a run.", .has_run = true, .has_worker = true},
    [TC_ARTIFACT_CREATED] = {"artifact-created", "artifactCreated", "Artifact Creation Messages",
                             "artifact-created",
                             "A run has an artifact: a reference, a link, an error, or an object "
                             "whose upload is finished. Nothing is said of artifacts of the type "
                             "s3.",
                             .has_run = true, .has_worker = true},
    [TC_TASK_COMPLETED] = {"task-completed", "taskCompleted", "Task Completed Messages",
                           "task-completed", "A worker has completed a task.", .has_run = true,
                           .has_worker = true},
    [TC_TASK_FAILED] = {"task-failed", "taskFailed", "Task Failed Messages", "task-failed",
                        "A task has run and has failed."},
    [TC_TASK_EXCEPTION] = {"task-exception", "taskException", "Task Exception Messages",
                           "task-exception",
                           "A run ended without a result. The reasonResolved of the run says why; "
                           "if it is tried again, a message on task-pending follows."},
    [TC_TASK_GROUP_RESOLVED] = {"task-group-resolved", "taskGroupResolved",
                                "Task Group Resolved Messages", "task-group-changed",
                                "No task of a group is left that is not resolved. Further ones may "
                                "be created, and resolve the group again.",
                                .of_group = true},
    [TC_TASK_GROUP_SEALED] = {"task-group-sealed", "taskGroupSealed", "Task Group Sealed Messages",
                              "task-group-changed", "A group takes no further tasks.",
                              .of_group = true},
    [TC_TASK_PRIORITY_CHANGED] = {"task-priority-changed", "taskPriorityChanged",
                                  "Task Priority Changed Messages", "task-priority-changed",
                                  "A task was given another priority."},
    [TC_TASK_GROUP_PRIORITY_CHANGED] = {"task-group-priority-changed", "taskGroupPriorityChanged",
                                        "Task Group Priority Changed Messages",
                                        "task-group-priority-changed",
                                        "The tasks of a group were given another priority.",
                                        .of_group = true},
};

const char *tc_exchange_name(enum tc_exchange e)
{
    return exchanges[e].exchange;
}

/* --- routing keys --- */

static void add_word(struct buf *b, struct str word)
{
    buf_byte(b, '.');
    if (word.len)
        buf_str(b, word);
    else
        buf_byte(b, '_');
}

static void add_worker(struct buf *b, struct str name)
{
    buf_byte(b, '.');
    if (name.len)
        tc_exchange_worker(b, name);
    else
        buf_byte(b, '_');
}

void tc_exchange_routing_key(struct buf *b, enum tc_exchange e, const struct tc_routing *r)
{
    buf_lit(b, "primary");
    if (exchanges[e].of_group) {
        add_word(b, r->task_group_id);
        add_word(b, r->scheduler_id);
    } else {
        add_word(b, r->task_id);
        if (r->run >= 0)
            buf_print(b, ".%lld", (long long)r->run);
        else
            add_word(b, (struct str){0});
        add_worker(b, r->worker_group);
        add_worker(b, r->worker_id);
        add_word(b, r->provisioner_id);
        add_word(b, r->worker_type);
        add_word(b, r->scheduler_id);
        add_word(b, r->task_group_id);
    }
    buf_lit(b, "._");
}

static bool is_of_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

void tc_exchange_worker(struct buf *b, struct str name)
{
    size_t n = name.len < TC_WORKER_MAX ? name.len : TC_WORKER_MAX;
    for (size_t i = 0; i < n; i++)
        buf_byte(b, is_of_word(name.at[i]) ? name.at[i] : '-');
    if (n == 0)
        buf_byte(b, '-');
}

/* --- the reference --- */

static const char *bool_word(bool on)
{
    return on ? "true" : "false";
}

static void write_words(struct buf *b, const struct exchange *e)
{
    const struct word *words = e->of_group ? group_words : task_words;
    size_t count = e->of_group ? COUNT(group_words) : COUNT(task_words);
    for (size_t i = 0; i < count; i++) {
        const struct word *w = &words[i];
        bool of_worker = i == WORD_GROUP || i == WORD_WORKER;
        bool required =
            w->always ||
            (!e->of_group && ((i == WORD_RUN && e->has_run) || (of_worker && e->has_worker)));
        buf_print(b, "%s{\"name\":\"%s\",\"summary\":\"%s\"", i ? "," : "", w->name, w->summary);
        if (w->constant)
            buf_lit(b, ",\"constant\":\"primary\"");
        buf_print(b, ",\"multipleWords\":%s,\"required\":%s}", bool_word(w->many),
                  bool_word(required));
    }
}

void tc_exchange_reference(struct buf *b)
{
    buf_lit(b,
            "{\"$schema\":\"/schemas/common/exchanges-reference-v0.json#\",\"apiVersion\":\"v1\","
            "\"serviceName\":\"queue\",\"title\":\"Queue AMQP Exchanges\",\"description\":"
            "\"What happens to tasks, as messages.\",\"exchangePrefix\":\"" TC_EXCHANGE_PREFIX
            "\",\"entries\":[");
    for (size_t i = 0; i < TC_EXCHANGES; i++) {
        const struct exchange *e = &exchanges[i];
        buf_print(b,
                  "%s{\"type\":\"topic-exchange\",\"exchange\":\"%s\",\"name\":\"%s\","
                  "\"title\":\"%s\",\"description\":\"%s\",\"routingKey\":[",
                  i ? "," : "", e->exchange, e->name, e->title, e->description);
        write_words(b, e);
        buf_print(b, "],\"schema\":\"v1/%s-message.json#\"}", e->schema);
    }
    buf_lit(b, "]}");
}
