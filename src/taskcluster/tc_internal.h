/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_INTERNAL_H
#define TASKCLUSTER_TC_INTERNAL_H

/* What the files of Taskcluster's front end share.
 *
 * A request becomes a struct tc_call, which lives in the arena of its exchange until that is
 * answered. Its method (tc_methods.c) says how it is checked before the handler sees it: who sent
 * it, its path's parameters, its query, its body by a schema. A handler asks the backend, and
 * answers from a callback with tc_reply or tc_fail, exactly once. */

#include "access/change_note.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/strmap.h"
#include "net/content_range.h"
#include "taskcluster/taskcluster.h"
#include "taskcluster/tc_files.h"
#include "taskcluster/tc_schema.h"
#include "wire/json_writer.h"

#define TC_PREFIX        "/api/queue/v1"
#define TC_OBJECT_PREFIX "/api/object/v1"

struct taskcluster {
    struct backend *backend;
    struct taskcluster_settings settings;
    const struct operation **operations;           /* by method, service by service */
    struct front_end ends[TASKCLUSTER_FRONT_ENDS]; /* services, the others, the roots */
    struct tc_schemas *schemas;
    struct tc_files *files; /* the bytes of artifacts */
    struct buf scratch;     /* an answer that is being written */
    instant started;
    struct list later;   /* answers that wait for their time; tc_reply.c */
    struct list waiting; /* claims of claimWork that wait for tasks; tc_claim.c */
    struct list lost;    /* claims whose answer was lost; tc_lost.c */
    struct list telling; /* events of which something is to be told; tc_tell.c */
    struct rng rng;
    struct strmap boxes; /* struct tc_mailbox, by queue and priority; tc_poll.c */
    struct taskcluster_polled polled;
};

/* The wall clock's time, but no later than the time that jobs go by: a jump ends nothing early. */
instant tc_now(const struct taskcluster *t);

struct tc_call;

/* A parameter of a query: its name, and whether a value of it is allowed. */
struct tc_query {
    const char *name;
    bool (*allows)(struct str value);
};

/* A method of the API, as clients call it. */
struct tc_method {
    struct route route;
    void (*handle)(struct tc_call *c);
    const char *name;                /* "createTask" */
    const struct scope_expr *scopes; /* what it demands; NULL: nothing */
    bool early;                      /* the scopes need the parameters of the path only */
    bool azure;                      /* its errors are Azure's (tc_azure.h) */
    bool held;                       /* it is about a run, for who holds that */
    const char *input;               /* the schema of its body; NULL: it has none */
    const char *output;              /* that of its answer; NULL: none */
    const struct tc_query *query;    /* ended by a name that is NULL; NULL: none */
    const char *category, *title;
    const char *stability; /* "stable", "experimental", "deprecated" */
};

extern const struct tc_method tc_methods[];
extern const size_t tc_method_count;
extern const struct tc_method tc_object_methods[];
extern const size_t tc_object_method_count;
extern const struct tc_method tc_auth_methods[];
extern const size_t tc_auth_method_count;
extern const struct tc_method tc_purge_methods[];
extern const size_t tc_purge_method_count;
extern const struct tc_method tc_index_methods[];
extern const size_t tc_index_method_count;
extern const struct tc_method tc_manager_methods[];
extern const size_t tc_manager_method_count;
/* `limit` and `continuationToken` (tc_page). */
extern const struct tc_query tc_pages[];

/* The services that there are. What workers and clients of the queue need around a task, and no
 * more: the rest of Taskcluster is answered with 404. */
struct tc_service {
    const char *prefix, *name, *title, *description; /* "/api/queue/v1", "queue" … */
    const struct tc_method *methods;
    const size_t *count;
    enum rights_front front;
    const struct route *(*route)(size_t i);
};
#define TC_APIS 6
extern const struct tc_service tc_services[TC_APIS];

struct tc_call {
    struct taskcluster *tc;
    struct http_exchange *x;
    const struct tc_method *method;
    struct arena *arena; /* of the exchange */
    struct access_identity who;
    struct actor actor;          /* who, for the audit */
    const struct token *token;   /* by which it is sent; NULL: by none */
    const struct rights *rights; /* of that, or of a rule about the client; NULL: scopes alone */
    struct str trail;            /* of its change (struct command, trail); or empty */
    instant now;
    struct str params[ROUTER_PARAMS_MAX];
    struct str query, body;                    /* in the arena */
    int64_t length;                            /* of a body that comes in pieces, or negative */
    struct str host;                           /* of the header, likewise */
    struct str content_type, content_encoding; /* likewise */
    struct content_request wanted;             /* of a content, by its headers, likewise */
    bool tls;                                  /* the client's end of the connection */
    void *state;                               /* the handler's own, in the arena */
};

/* --- tc_discover.c --- */

/* Fills in the front ends beside those of the APIs; `like` is one of these. */
#define TC_ROOTS (TASKCLUSTER_FRONT_ENDS - TC_APIS - 1)
void tc_discover_mount(struct front_end *ends, const struct front_end *like);

/* --- tc_services.c --- */
/* Fills in the front end of each service, and one for those that there are not; `like` serves. */
void tc_services_mount(struct front_end *ends, const struct front_end *like);
/* What each method needs, service by service; free() it. */
const struct operation **tc_operations_new(void);
/* That of a method. */
const struct operation *tc_operation(const struct taskcluster *t, const struct tc_method *m);

/* --- tc_call.c --- */
/* A call of no method, which can only be refused. */
struct tc_call *tc_call_of_nothing(struct taskcluster *t, struct http_exchange *x,
                                   const struct http_request *req);

/* The name of the next parameter of a pattern from *at on, which moves; false behind the last. */
bool tc_next_param(const char **at, struct str *name);
/* A parameter of the path, by its name in the pattern. */
struct str tc_param(const struct tc_call *c, const char *name);
/* The same, as a number of a run; it was checked. Larger ones than there can be are UINT32_MAX. */
uint32_t tc_param_run(const struct tc_call *c);
/* The run that a report is about. Scopes and the credentials of its claim say who may report it. */
struct run_ref tc_run_ref(const struct tc_call *c);
/* "http://host:port", as the client called the server. */
struct str tc_root_url(const struct tc_call *c);
/* A parameter of the query, decoded; false if it is not there. */
bool tc_query_value(const struct tc_call *c, const char *name, struct str *value);
/* For lists: `limit` (at most, and by default, max) and `continuationToken`, decoded from its
 * base64url; empty: from the start. False if the token is malformed: then it has answered. */
bool tc_page(struct tc_call *c, uint32_t max, uint32_t *limit, struct str *after);
/* `,"continuationToken":"…"` */
void tc_write_continuation(struct buf *b, struct str after);

/* Whether nobody needs credentials. */
bool tc_is_open(const struct taskcluster *t);
/* Whether the caller's scopes satisfy the method's expression with these parameters; if not, it
 * has answered 403. Does nothing for a method without scopes. */
bool tc_authorize(struct tc_call *c, const struct scope_param *params, size_t count);

/* Whether the caller may only report runs that it holds, without credentials of these alone; and
 * whether it is known to hold that one. */
bool tc_must_hold(const struct tc_call *c);
bool tc_holds(const struct tc_call *c, struct id job, uint32_t run);

/* An empty buffer for the answer, good until the loop's next callback. */
struct buf *tc_body(struct tc_call *c);
/* 200 with this JSON. */
void tc_reply(struct tc_call *c, const struct buf *body);
void tc_reply_empty(struct tc_call *c);
/* 200 with this JSON, after that time, unless the peer goes away or the server stops before. */
void tc_reply_later(struct tc_call *c, struct str body, span after);
/* Answers with an error in Taskcluster's form; the code decides the status. */
enum tc_code {
    TC_MALFORMED_PAYLOAD,         /* 400: the body is not JSON */
    TC_INVALID_REQUEST_ARGUMENTS, /* 400: path or query */
    TC_INPUT_VALIDATION_ERROR,    /* 400: the body does not fit its schema */
    TC_INPUT_ERROR,               /* 400: it cannot be */
    TC_AUTHENTICATION_FAILED,     /* 401 */
    TC_INSUFFICIENT_SCOPES,       /* 403 */
    TC_BAD_SIGNATURE,             /* 403: of a URL that was given out */
    TC_RESOURCE_NOT_FOUND,        /* 404 */
    TC_METHOD_NOT_ALLOWED,        /* 405 */
    TC_NOT_IMPLEMENTED,           /* 501 */
    TC_NO_MATCHING_METHOD,        /* 406: to get an object by */
    TC_REQUEST_TIMEOUT,           /* 408: of an upload */
    TC_REQUEST_CONFLICT,          /* 409 */
    TC_RESOURCE_EXPIRED,          /* 410 */
    TC_INPUT_TOO_LARGE,           /* 413 */
    TC_RANGE_NOT_SATISFIABLE,     /* 416: it begins behind the end of the content */
    TC_DEPENDENCY,                /* 424: an artifact that is an error */
    TC_TOO_MANY_REQUESTS,         /* 429 */
    TC_INTERNAL_SERVER_ERROR,     /* 500 */
    TC_BUSY,                      /* 503: worth trying again */
    TC_OUT_OF_SPACE,              /* 507: for the bytes of artifacts */
    TC_CODES
};
void tc_fail(struct tc_call *c, enum tc_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* With an error of access_check. */
void tc_fail_access(struct tc_call *c, const struct err *err, const char *challenge);
/* With further header lines, each ended by CRLF. */
void tc_fail_extra(struct tc_call *c, enum tc_code code, const struct err *err, const char *extra);
/* With an error of the backend, which has no better name in this API. */
void tc_fail_err(struct tc_call *c, const struct err *err);
/* The message of an error of the backend's, which speaks of jobs, in words of tasks. In the arena.
 */
const char *tc_task_words(struct tc_call *c, const struct err *err);
void tc_fail_no_task(struct tc_call *c, struct str task_id);

/* A reply_fn for what nobody waits for. */
void tc_ignore(void *ctx, const struct reply *r);

/* --- tc_tell.c --- */
void tc_tell_free(struct taskcluster *t);

/* --- tc_poll.c --- */
void tc_poll_free(struct taskcluster *t);

/* --- tc_check.c: the identifiers of the API --- */

bool tc_is_slugid(struct str s);
bool tc_is_identifier(struct str s); /* of workers, provisioners … */
bool tc_is_worker_type(struct str s);
bool tc_is_task_queue_id(struct str s); /* "provisioner/worker-type" */
bool tc_is_run_id(struct str s);
/* Whether a parameter of that name may have that value; what it must be goes to *must_be. */
bool tc_check_param(struct str name, struct str value, const char **must_be);

#endif
