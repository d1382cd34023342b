/* SPDX-License-Identifier: Apache-2.0 */

/* The audit: what a request leaves there (core/trail.h), and GET /audit. */

#include "access/change_note.h"
#include "api/api_access.h"
#include "api/api_routes.h"
#include "base/array.h"
#include "base/log.h"
#include "base/must.h"
#include "core/trail.h"

#define LIMIT_DEFAULT 50
#define LIMIT_MAX     500
/* Entries that one request looks at: with a filter a page may end before it is full. */
#define LOOK_STEP 250
#define LOOK_MAX  5000

_Static_assert(CHANGE_NOTE_MAX == TRAIL_NOTE_MAX, "a note fits");

/* --- what is recorded --- */

/* Their bodies have neither payloads nor secrets. */
static const char *const bodies[] = {
    "patchJob",          "patchJobs",
    "createQueue",       "putQueue",
    "patchQueue",        "createBudget",
    "putBudget",         "patchBudget",
    "patchCronGroup",    "patchCronEntry",
    "createRetryPolicy", "putRetryPolicy",
    "putRetrySettings",  "createFailureCategories",
    "createToken",       "putFailureCategories",
};

static bool shows_body(const char *operation)
{
    for (size_t i = 0; i < COUNT(bodies); i++)
        if (strcmp(bodies[i], operation) == 0)
            return true;
    return false;
}

static struct actor actor_of(const struct token *token)
{
    if (!token)
        return (struct actor){.kind = ACTOR_ANONYMOUS};
    return token_actor(token);
}

static struct str text_of(const struct change_note *note, struct arena *a)
{
    struct buf b = {0};
    change_note_write(note, &b);
    struct str text = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return text;
}

static struct change_note note_of(const char *operation, const struct api_request *r)
{
    return (struct change_note){.actor = actor_of(r->token),
                                .address = str_from(http_peer(r->x)->address),
                                .operation = str_from(operation),
                                .path = r->http->path,
                                .query = r->http->query,
                                .body = shows_body(operation) ? r->http->body : (struct str){0}};
}

void api_note_change(const struct api *a, const struct endpoint *e, struct api_request *r)
{
    const struct operation *op = a->operations[e - api_endpoints];
    if (op->right < RIGHT_OPERATE || e->route.method == HTTP_GET)
        return;
    const struct change_note note = note_of(op->name, r);
    change_note_log(&note);
    r->trail = text_of(&note, r->http->arena);
}

struct str api_note_apart(const struct api_doer *doer, const char *operation, struct str path,
                          struct arena *a)
{
    const struct change_note note = {.actor = actor_of(doer->token),
                                     .address = doer->address,
                                     .operation = str_from(operation),
                                     .path = path};
    change_note_log(&note);
    return text_of(&note, a);
}

struct str api_trail_at(const struct api_request *r, const char *operation, struct str path)
{
    struct change_note note = note_of(operation, r);
    note.path = path;
    return text_of(&note, r->http->arena);
}

struct str api_trail_of_server(const char *operation, const char *source, struct arena *a)
{
    const struct change_note note = {.actor = {ACTOR_SERVER, str_from(source), {0}},
                                     .operation = str_from(operation)};
    return text_of(&note, a);
}

/* --- GET /audit --- */

struct shown {
    struct trail_entry entry;
    struct change_note note;
};

static const char *word_of(int kind)
{
    return actor_word((enum actor_kind)kind);
}

static const struct shape_words actor_words = {.count = ACTOR_KINDS, .word = word_of};

static const struct shape_member actor_members[] = {
    {MEMBER_WORD(struct shown, note.actor.kind, "kind", ALWAYS, &actor_words,
                 "how it is known; server: what it does by itself, as its files say")},
    {MEMBER(struct shown, note.actor.id, "id", IF_SET,
            "of a token its id, of a certificate or a JSON Web Token its subject, of a client that "
            "signs its requests the client's, of the server the file")},
    {MEMBER(struct shown, note.actor.issuer, "issuer", IF_SET, "of a JSON Web Token")},
    {MEMBER(struct shown, note.actor.name, "name", IF_SET, "what it is called")},
};
static const struct shape actor_shape = {.name = "Actor", SHAPE_MEMBERS(actor_members)};

static bool is_counted(const void *shown)
{
    return ((const struct shown *)shown)->entry.counted;
}

static void write_finished(struct buf *b, const void *shown)
{
    buf_print(b, "%s", ((const struct shown *)shown)->entry.open ? "false" : "true");
}

static const struct shape_member entry_members[] = {
    {MEMBER(struct shown, entry.number, "number", ALWAYS, "from 1 on, without gaps")},
    {MEMBER(struct shown, entry.at, "at", ALWAYS, "when it was asked for")},
    {MEMBER(struct shown, note.operation, "operation", ALWAYS, "its operationId")},
    {MEMBER_INNER("actor", ALWAYS, &actor_shape, "who asked for it")},
    {MEMBER(struct shown, note.address, "address", IF_SET, "from where")},
    {MEMBER(struct shown, note.path, "path", IF_SET, NULL)},
    {MEMBER(struct shown, note.query, "query", IF_SET, NULL)},
    {MEMBER(struct shown, note.body, "body", IF_SET,
            "what was to be changed to, as it was sent; its beginning, if it is long")},
    {MEMBER(struct shown, entry.count, "count", IF_SET, "how many jobs it changed",
            .is_set = is_counted)},
    {MEMBER_MADE("finished", ALWAYS, "boolean", write_finished,
                 "false: it is about many jobs and under way, or was cut off; some of them may be "
                 "changed")},
};
const struct shape api_audit_entry_shape = {.name = "AuditEntry", SHAPE_MEMBERS(entry_members)};

struct audit_page {
    const struct shown *entries;
    size_t count;
    uint64_t next;
};

static const struct shape_member page_members[] = {
    {MEMBER_OBJECTS(struct audit_page, entries, count, "entries", ALWAYS, &api_audit_entry_shape,
                    "the newest first")},
    {MEMBER(struct audit_page, next, "next", OR_NULL,
            "before of the next page; a page may have fewer entries than the limit, or none, "
            "although there is one")},
};
const struct shape api_audit_shape = {.name = "Audit", SHAPE_MEMBERS(page_members)};

const struct api_param api_audit_params[] = {
    {"limit", "integer 1..$: of a page", .most = LIMIT_MAX},
    {"before", "integer 1..: only entries with smaller numbers"},
    {"actor", "string: only of the actor with this id or name, or of this kind"},
    {"operation", "string: only of this operationId"},
    {"since", "integer 0..: only since then, in milliseconds since 1970 (UTC)"},
    {"until", "integer 0..: only before then, likewise"},
    {NULL, NULL}};

struct audit_call {
    struct call call; /* must be first */
    struct arena *arena;
    int64_t limit, before, since, until;
    struct str actor, operation;
    struct shown *found;
    size_t count, looked;
    uint64_t last; /* number of the last that was looked at */
};

static struct err read_query(const struct http_request *req, struct audit_call *c)
{
    struct query_cursor q = query_open(req->query, req->arena);
    struct str name, value;
    unsigned seen = 0;
    for (bool more;;) {
        TRY(query_next(&q, &more, &name, &value));
        if (!more)
            return err_none();
        TRY(api_param_once(name, api_audit_params, &seen));
        if (str_eq(name, STR("limit")))
            TRY(api_read_number(value, "limit", 1, LIMIT_MAX, &c->limit));
        else if (str_eq(name, STR("before")))
            TRY(api_read_number(value, "before", 1, INT64_MAX, &c->before));
        else if (str_eq(name, STR("since")))
            TRY(api_read_number(value, "since", 0, INSTANT_MAX_MS, &c->since));
        else if (str_eq(name, STR("until")))
            TRY(api_read_number(value, "until", 0, INSTANT_MAX_MS, &c->until));
        else if (str_eq(name, STR("actor")))
            c->actor = arena_copy(req->arena, value);
        else if (str_eq(name, STR("operation")))
            c->operation = arena_copy(req->arena, value);
        else
            return api_unknown_param(name);
    }
}

static bool is_wanted(const struct audit_call *c, const struct shown *s)
{
    const struct actor *who = &s->note.actor;
    if (s->entry.at.ms < c->since || s->entry.at.ms >= c->until)
        return false;
    if (c->operation.len && !str_eq(c->operation, s->note.operation))
        return false;
    return c->actor.len == 0 || str_eq(c->actor, who->id) || str_eq(c->actor, who->name) ||
           str_eq(c->actor, str_from(actor_word(who->kind)));
}

/* An entry that cannot be read must not hide the others. */
static void look_at(struct audit_call *c, const struct kv_entry *e)
{
    struct shown s;
    struct arena scratch = {0};
    struct err err = trail_read(e->key, e->value, &s.entry);
    if (err.code == ERR_OK)
        err = change_note_read(s.entry.note, &scratch, &s.note);
    if (err.code == ERR_OK && is_wanted(c, &s)) {
        err = change_note_read(arena_copy(c->arena, s.entry.note), c->arena, &s.note);
        c->found[c->count++] = s;
    }
    arena_fini(&scratch);
    if (err.code != ERR_OK)
        log_error("audit: %s", err.msg);
}

static void answer(const struct audit_call *c, bool more)
{
    struct buf *b = &c->call.api->scratch;
    struct audit_page page = {c->found, c->count, more ? c->last : 0};
    b->len = 0;
    shape_write(b, &api_audit_shape, &page, SHAPE_AS_IT_IS);
    api_reply_json(c->call.x, 200, b);
}

static void look_on(struct audit_call *c);

static void on_entries(void *ctx, const struct reply *r)
{
    struct audit_call *c = ctx;
    size_t i = 0;
    if (api_reply_failed(c->call.x, r))
        return;
    for (; i < r->count && c->count < (size_t)c->limit; i++) {
        struct trail_entry key = {0};
        for (size_t n = 0; n < TRAIL_KEY_LEN && n < r->kv[i].key.len; n++)
            key.number = key.number << 8 | (unsigned char)r->kv[i].key.at[n];
        c->last = ~key.number;
        look_at(c, &r->kv[i]);
    }
    c->looked += i;
    bool more = r->more || i < r->count;
    if (more && c->count < (size_t)c->limit && c->looked < LOOK_MAX && r->count)
        look_on(c);
    else
        answer(c, more && c->last > 1);
}

static void look_on(struct audit_call *c)
{
    char after[TRAIL_KEY_LEN];
    struct command list = {.kind = CMD_KV_LIST, .done = on_entries, .ctx = c};
    list.kv = (struct kv_query){.space = TRAIL_SPACE, .limit = LOOK_STEP};
    if (c->last) {
        trail_key(c->last, after);
        list.kv.after = (struct str){after, sizeof after};
    }
    backend_submit(c->call.api->backend, &list);
}

void api_audit(struct api *a, const struct api_request *r)
{
    struct audit_call *c = ARENA_NEW(r->http->arena, struct audit_call);
    *c = (struct audit_call){
        .call = {a, r->x}, .arena = r->http->arena, .limit = LIMIT_DEFAULT, .until = INT64_MAX};
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK)
        err = read_query(r->http, c);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c->last = (uint64_t)c->before;
    c->found = arena_get(c->arena, (size_t)c->limit * sizeof *c->found);
    look_on(c);
}
