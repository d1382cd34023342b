/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manifest.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/must.h"
#include "cli/armada_queue.h"
#include "client/input.h"
#include "core/job.h"
#include "policy/armada_categories.h"
#include "policy/category_document.h"
#include "policy/fields.h"
#include "policy/policy_document.h"

static struct str own(struct buf *b, struct arena *a)
{
    struct str s = arena_copy(a, buf_view(b));
    buf_fini(b);
    return s;
}

static struct str json_of(const struct document_node *n, struct arena *a)
{
    struct buf b = {0};
    document_write_json(n, &b);
    return own(&b, a);
}

const struct document_node *resource_tree(struct str json, struct arena *a)
{
    struct document_list list;
    struct document_fault fault;
    /* The answer of some other server may be nested more deeply than documents are. */
    return document_read(json, DOCUMENT_JSON, a, &list, &fault) ? list.first : document_map(a);
}

/* Of names, separated by commas: "a,b"; or nothing. */
static struct str join(const struct document_node *list, struct arena *a)
{
    struct buf b = {0};
    for (const struct document_node *n = list ? list->first : NULL; n; n = n->next)
        buf_print(&b, "%s%.*s", n == list->first ? "" : ",", STR_ARG(n->text));
    return own(&b, a);
}

static struct str scalar(const struct document_node *map, const char *key)
{
    const struct document_node *n = map ? document_member(map, key) : NULL;
    return n && n->type != DOCUMENT_NULL ? n->text : STR("");
}

static void cell(struct table *t, struct str text)
{
    table_add(t, text.len ? TABLE_PLAIN : TABLE_FAINT, text.len ? text : STR("-"));
}

/* --- documents that the server stores as they are --- */

/* The text is what the server would write, without a version: documents with the same text mean
 * the same. */
struct resource_essence {
    struct str name, text;
    int64_t version;
    bool of_armada;
    const struct document_node *warnings; /* or NULL */
};

static bool read_whole(const struct document_node *root, struct arena *a, struct resource *r,
                       struct document_fault *fault)
{
    struct resource_essence e = {0};
    r->body = json_of(root, a);
    if (!r->kind->essence(root, a, &e, fault))
        return false;
    r->name = e.name;
    r->warnings = e.warnings;
    r->of_armada = r->may_miss = r->detach = e.of_armada;
    return true;
}

static bool whole_exists(const struct document_node *answer)
{
    (void)answer;
    return true;
}

static bool same_whole(const struct resource *r, const struct document_node *answer,
                       struct arena *a)
{
    struct document_fault fault;
    struct resource_essence mine, theirs;
    return r->kind->essence(resource_tree(r->body, a), a, &mine, &fault) &&
           r->kind->essence(answer, a, &theirs, &fault) && str_eq(mine.text, theirs.text) &&
           (mine.version == 0 || mine.version == theirs.version);
}

/* Without the members that the answer to a change has beside the document. */
static const struct document_node *whole_document(const struct document_node *answer,
                                                  struct arena *a)
{
    if (!document_member(answer, "warnings"))
        return answer;
    struct document_node *bare = document_map(a);
    for (const struct document_node *n = answer->first; n; n = n->next) {
        if (str_eq(n->key, STR("warnings")))
            continue;
        struct document_node *copy = ARENA_NEW(a, struct document_node);
        *copy = *n;
        copy->next = NULL;
        document_add(bare, "", copy)->key = n->key;
    }
    return bare;
}

/* The number of its rules, or that it is broken. */
static void rules_cell(const struct document_node *spec, struct table *t)
{
    const struct document_node *rules = spec ? document_member(spec, "rules") : NULL;
    if (!spec)
        table_add(t, TABLE_BAD, STR("broken"));
    else
        table_print(t, TABLE_PLAIN, "%zu", rules ? rules->count : 0);
}

static const struct document_node *copy_texts(const struct document_node *list, struct arena *a)
{
    struct document_node *copy = document_list(a);
    for (const struct document_node *n = list->first; n; n = n->next)
        document_add(copy, "", document_string(a, arena_copy(a, n->text)));
    return copy;
}

/* --- retry policies --- */

static bool policy_essence(const struct document_node *root, struct arena *a,
                           struct resource_essence *e, struct document_fault *fault)
{
    struct policy_document d;
    if (!policy_document_read(root, &d, fault))
        return false;
    e->name = arena_copy(a, d.policy.name);
    e->version = d.resource_version;
    e->text = json_of(policy_document_tree(&d.policy, 0, a), a);
    e->warnings = copy_texts(d.warnings, a);
    e->of_armada = d.of_armada;
    policy_document_free(&d);
    return true;
}

static const char *const policy_headers[] = {"NAME",           ">RULES",   ">RETRY LIMIT",
                                             "DEFAULT ACTION", ">VERSION", NULL};

static void policy_row(const struct document_node *answer, struct table *t)
{
    const struct document_node *metadata = document_member(answer, "metadata");
    const struct document_node *spec = document_member(answer, "spec");
    cell(t, scalar(metadata, "name"));
    rules_cell(spec, t);
    cell(t, scalar(spec, "retryLimit"));
    cell(t, scalar(spec, "defaultAction"));
    cell(t, scalar(metadata, "resourceVersion"));
}

/* --- failure categories --- */

static bool categories_essence(const struct document_node *root, struct arena *a,
                               struct resource_essence *e, struct document_fault *fault)
{
    struct category_document d;
    if (!category_document_read(root, &d, fault))
        return false;
    e->name = arena_copy(a, d.categorizer.name);
    e->version = d.resource_version;
    e->text = json_of(category_document_tree(&d.categorizer, 0, a), a);
    e->warnings = copy_texts(d.warnings, a);
    e->of_armada = armada_categories_of(root) != NULL;
    category_document_free(&d);
    return true;
}

static const char *const categories_headers[] = {"NAME", ">RULES", "CATEGORIES", ">VERSION", NULL};

/* Each category once, in the order of its first rule. */
static void categories_cell(const struct document_node *spec, struct table *t)
{
    struct buf b = {0};
    const struct document_node *rules = spec ? document_member(spec, "rules") : NULL;
    for (const struct document_node *n = rules ? rules->first : NULL; n; n = n->next) {
        struct str category = scalar(n, "category");
        const struct document_node *before = rules->first;
        while (before != n && !str_eq(scalar(before, "category"), category))
            before = before->next;
        if (before == n)
            buf_print(&b, "%s%.*s", b.len ? "," : "", STR_ARG(category));
    }
    cell(t, buf_view(&b));
    buf_fini(&b);
}

static void categories_row(const struct document_node *answer, struct table *t)
{
    const struct document_node *metadata = document_member(answer, "metadata");
    const struct document_node *spec = document_member(answer, "spec");
    cell(t, scalar(metadata, "name"));
    rules_cell(spec, t);
    categories_cell(spec, t);
    cell(t, scalar(metadata, "resourceVersion"));
}

/* --- queues --- */

/* The settings of a queue, in documents and in the API. */
static const struct {
    const char *member, *api;
    bool as_it_is; /* the names of its members are the user's */
} queue_members[] = {{"retryPolicies", "retry_policies"},
                     {"whenNoPolicy", "when_no_policy"},
                     {"paused", "paused"},
                     {"concurrency", "concurrency"},
                     {"concurrencyPerKey", "concurrency_per_key"},
                     {"rate", "rate"},
                     {"retryLimit", "retry_limit"},
                     {"backoff", "backoff"},
                     {"retention", "retention"},
                     {"maxRunMs", "max_run_ms"},
                     {"armada", "armada", true}};

#define QUEUE_MEMBERS COUNT(queue_members)

/* Converts "perMs" of documents to "per_ms" of the API. */
static struct str snake(struct str key, struct arena *a)
{
    struct buf b = {0};
    for (size_t i = 0; i < key.len; i++) {
        bool upper = key.at[i] >= 'A' && key.at[i] <= 'Z';
        if (upper)
            buf_byte(&b, '_');
        buf_byte(&b, (char)(upper ? key.at[i] - 'A' + 'a' : key.at[i]));
    }
    return own(&b, a);
}

static struct str camel(struct str key, struct arena *a)
{
    struct buf b = {0};
    for (size_t i = 0; i < key.len; i++) {
        bool next =
            key.at[i] == '_' && i + 1 < key.len && key.at[i + 1] >= 'a' && key.at[i + 1] <= 'z';
        buf_byte(&b, next ? (char)(key.at[i + 1] - 'a' + 'A') : key.at[i]);
        i += next;
    }
    return own(&b, a);
}

static struct str unchanged(struct str key, struct arena *a)
{
    (void)a;
    return key;
}

/* A copy whose members have names in the other spelling. */
static struct document_node *copy_of(const struct document_node *n,
                                     struct str (*spell)(struct str key, struct arena *a),
                                     struct arena *a)
{
    struct document_node *copy = ARENA_NEW(a, struct document_node);
    *copy = *n;
    copy->next = copy->first = copy->last = NULL;
    copy->count = 0;
    for (const struct document_node *c = n->first; c; c = c->next) {
        struct document_node *child = document_add(copy, "", copy_of(c, spell, a));
        child->key = spell(c->key, a);
    }
    return copy;
}

static struct err keep_member(struct json_cursor *c, struct arena *a, void *body)
{
    const struct document_node *n = fields_node(c);
    size_t i = 0;
    while (!str_eq(n->key, str_from(queue_members[i].member)))
        i++;
    document_add(body, queue_members[i].api,
                 copy_of(n, queue_members[i].as_it_is ? unchanged : snake, a));
    return json_skip(c, NULL);
}

static struct err read_spec(struct json_cursor *c, struct arena *a, struct resource *r)
{
    struct field table[QUEUE_MEMBERS];
    struct document_node *body = document_map(a);
    for (size_t i = 0; i < QUEUE_MEMBERS; i++)
        table[i] = (struct field){queue_members[i].member, false, keep_member};
    TRY(fields_read(c, table, QUEUE_MEMBERS, body));
    document_add(body, "name", document_string(a, r->name));
    r->body = json_of(body, a);
    return err_none();
}

static bool read_queue(const struct document_node *root, struct arena *a, struct resource *r,
                       struct document_fault *fault)
{
    static const struct field table[] = {FIELDS_FRAME("Queue", NULL)};
    struct fields_frame frame = {.kind = "Queue", .any_name = true};
    struct fields f;
    if (armada_queue_is(root))
        return armada_queue_read(root, a, r, fault);
    struct json_cursor c = fields_open(&f, root, NULL, a, fault);
    if (fields_read(&c, table, COUNT(table), &frame).code != ERR_OK)
        return false;
    r->name = frame.name;
    if (read_spec(&frame.spec.at, a, r).code != ERR_OK)
        return false;
    struct err e = job_check_name(frame.name, "metadata.name");
    if (e.code == ERR_OK)
        return true;
    const struct document_node *metadata = document_member(root, "metadata");
    return fields_fault(fault, document_member(metadata, "name"), "metadata.name", e.code,
                        "the name of a queue (%s)", e.msg);
}

/* Whether it states anything: if not, it might as well be omitted. */
static bool says(const struct document_node *n)
{
    if (!n || n->type == DOCUMENT_NULL)
        return false;
    if (n->type == DOCUMENT_BOOL)
        return str_eq(n->text, STR("true"));
    if (n->type != DOCUMENT_LIST && n->type != DOCUMENT_MAP)
        return true;
    for (const struct document_node *c = n->first; c; c = c->next)
        if (n->type == DOCUMENT_LIST || says(c))
            return true;
    return false;
}

static bool queue_exists(const struct document_node *answer)
{
    return str_eq(scalar(answer, "configured"), STR("true"));
}

static bool queue_is_in_use(const struct document_node *answer)
{
    const struct document_node *jobs = document_member(answer, "jobs");
    for (const struct document_node *n = jobs ? jobs->first : NULL; n; n = n->next)
        if (!str_eq(n->text, STR("0")))
            return true;
    return queue_exists(answer);
}

/* Whether it is the default that the server fills in: an omitted burst is the count. */
static bool is_default(const struct document_node *member, const struct document_node *of)
{
    return !says(member) ||
           (str_eq(member->key, STR("burst")) && str_eq(member->text, scalar(of, "count")));
}

static const struct document_node *twin_of(const struct document_node *member,
                                           const struct document_node *map)
{
    const struct document_node *n = map->first;
    while (n && !str_eq(n->key, member->key))
        n = n->next;
    return n;
}

static bool equal(const struct document_node *x, const struct document_node *y);

/* Whether everything in one of them is in the other or is a default. */
static bool holds(const struct document_node *x, const struct document_node *y)
{
    for (const struct document_node *n = x->first; n; n = n->next) {
        const struct document_node *twin = twin_of(n, y);
        if (twin ? !equal(n, twin) && (says(n) || says(twin)) : !is_default(n, x))
            return false;
    }
    return true;
}

static bool equal(const struct document_node *x, const struct document_node *y)
{
    if (x->type != y->type || !str_eq(x->text, y->text))
        return false;
    if (x->type == DOCUMENT_MAP)
        return holds(x, y) && holds(y, x);
    const struct document_node *other = y->first;
    for (const struct document_node *n = x->first; n; n = n->next) {
        if (!other || !equal(n, other))
            return false;
        other = other->next;
    }
    return !other;
}

static bool same_queue(const struct resource *r, const struct document_node *answer,
                       struct arena *a)
{
    const struct document_node *body = resource_tree(r->body, a);
    for (size_t i = 0; i < QUEUE_MEMBERS; i++) {
        const struct document_node *mine = document_member(body, queue_members[i].api);
        const struct document_node *theirs = document_member(answer, queue_members[i].api);
        if (r->partial && !mine)
            continue;
        if (says(mine) != says(theirs) || (says(mine) && !equal(mine, theirs)))
            return false;
    }
    return true;
}

static const struct document_node *queue_document(const struct document_node *answer,
                                                  struct arena *a)
{
    struct document_node *root = document_map(a);
    struct fields_frame frame = {.kind = "Queue", .name = scalar(answer, "name")};
    struct document_node *spec = fields_frame_tree(a, root, &frame);
    for (size_t i = 0; i < QUEUE_MEMBERS; i++) {
        const struct document_node *n = document_member(answer, queue_members[i].api);
        if (says(n))
            document_add(spec, queue_members[i].member,
                         copy_of(n, queue_members[i].as_it_is ? unchanged : camel, a));
    }
    return root;
}

static const char *const queue_headers[] = {"NAME",   "STATE",      ">CONCURRENCY",   ">RATE",
                                            ">READY", ">IN FLIGHT", "RETRY POLICIES", NULL};

static void queue_row(const struct document_node *answer, struct table *t)
{
    struct arena a = {0};
    const struct document_node *rate = document_member(answer, "rate");
    const struct document_node *jobs = document_member(answer, "jobs");
    bool paused = says(document_member(answer, "paused"));
    cell(t, scalar(answer, "name"));
    table_add(t, paused ? TABLE_WAIT : TABLE_GOOD, paused ? STR("paused") : STR("running"));
    cell(t, scalar(answer, "concurrency"));
    if (says(rate))
        table_print(t, TABLE_PLAIN, "%.*s per %.*s ms", STR_ARG(scalar(rate, "count")),
                    STR_ARG(scalar(rate, "per_ms")));
    else
        cell(t, STR(""));
    cell(t, scalar(jobs, "ready"));
    cell(t, scalar(jobs, "in_flight"));
    cell(t, join(document_member(answer, "retry_policies"), &a));
    arena_fini(&a);
}

/* --- the kinds --- */

static const struct resource_kind kinds[] = {
    {.kind = POLICY_DOCUMENT_KIND,
     .word = "retrypolicy",
     .words = "retrypolicies",
     .path = "/retry-policies",
     .items = "items",
     .detachable = true,
     .essence = policy_essence,
     .read = read_whole,
     .exists = whole_exists,
     .same = same_whole,
     .document = whole_document,
     .headers = policy_headers,
     .row = policy_row},
    {.kind = CATEGORY_DOCUMENT_KIND,
     .word = "failurecategories",
     .words = "failurecategories",
     .path = "/failure-categories",
     .items = "items",
     .essence = categories_essence,
     .read = read_whole,
     .exists = whole_exists,
     .same = same_whole,
     .document = whole_document,
     .headers = categories_headers,
     .row = categories_row},
    {.kind = "Queue",
     .word = "queue",
     .words = "queues",
     .path = "/queues",
     .query = "?details=true&limit=2000",
     .items = "queues",
     .from_words = true,
     .read = read_queue,
     .exists = queue_exists,
     .shown = queue_is_in_use,
     .same = same_queue,
     .document = queue_document,
     .headers = queue_headers,
     .row = queue_row},
};

#define KINDS COUNT(kinds)

const struct resource_kind *resource_kind_of(struct str word)
{
    char bare[32];
    size_t n = 0;
    for (size_t i = 0; i < word.len && n + 1 < sizeof bare; i++)
        if (word.at[i] != '-')
            bare[n++] = word.at[i];
    bare[n] = '\0';
    for (size_t i = 0; i < KINDS; i++)
        if (strcasecmp(bare, kinds[i].word) == 0 || strcasecmp(bare, kinds[i].words) == 0)
            return &kinds[i];
    return NULL;
}

void resource_kinds(struct buf *b)
{
    for (size_t i = 0; i < KINDS; i++)
        buf_print(b, "%s%s", i ? ", " : "", kinds[i].word);
}

/* --- reading --- */

struct resource *resource_add(struct resources *list, const struct resource_kind *kind,
                              struct str name, struct arena *a)
{
    struct resource *r = ARENA_NEW(a, struct resource);
    *r = (struct resource){.kind = kind, .name = name};
    if (list->last)
        list->last->next = r;
    else
        list->first = r;
    list->last = r;
    return r;
}

static bool refuse_kind(const struct document_node *root, struct document_fault *fault)
{
    const struct document_node *kind = document_member(root, "kind");
    struct buf words = {0};
    for (size_t i = 0; i < KINDS; i++)
        buf_print(&words, "%s%s", i == 0 ? "" : i + 1 < KINDS ? ", " : " or ", kinds[i].kind);
    fields_fault(fault, kind ? kind : root, "kind", kind ? ERR_BAD_VALUE : ERR_MISSING_FIELD,
                 "%.*s", STR_ARG(buf_view(&words)));
    buf_fini(&words);
    return false;
}

/* Two of the same name would be ambiguous. */
static bool is_first(const struct resources *list, const struct resource *r,
                     const struct document_node *root, struct document_fault *fault)
{
    const struct document_node *metadata = document_member(root, "metadata");
    const struct document_node *name = document_member(metadata ? metadata : root, "name");
    for (const struct resource *o = list->first; o != r; o = o->next) {
        if (o->kind != r->kind || !str_eq(o->name, r->name))
            continue;
        return fields_fault(fault, name ? name : root, metadata ? "metadata.name" : "name",
                            ERR_BAD_VALUE, "every %s once; this one is on line %u%s%s already",
                            r->kind->kind, o->line, o->file ? " of " : "", o->file ? o->file : "");
    }
    return true;
}

static bool add_document(struct resources *list, const struct document_node *root, struct arena *a,
                         struct document_fault *fault)
{
    struct str kind = document_text(root, "kind");
    const struct document_node *items = document_member(root, "items");
    /* The output of `tenax get -o json` for several. */
    if (str_eq(kind, STR("List")) && items && items->type == DOCUMENT_LIST) {
        for (const struct document_node *n = items->first; n; n = n->next)
            if (!add_document(list, n, a, fault))
                return false;
        return true;
    }
    if (armada_categories_of(root))
        kind = STR(CATEGORY_DOCUMENT_KIND);
    for (size_t i = 0; i < KINDS; i++)
        if (str_eq(kind, str_from(kinds[i].kind))) {
            struct resource *r = resource_add(list, &kinds[i], (struct str){0}, a);
            r->line = root->line;
            return kinds[i].read(root, a, r, fault) && is_first(list, r, root, fault);
        }
    return refuse_kind(root, fault);
}

int resource_load(const struct subcommand *c, const char *file, struct arena *a,
                  struct resources *list)
{
    struct buf text = {0};
    struct document_list documents;
    struct document_fault fault = {0};
    int code = input_read(c, file, DOCUMENT_TEXT_MAX, &text);
    struct resource *before = list->last;
    const char *name = strcmp(file, "-") == 0 ? "standard input" : file;
    if (code == CLI_OK) {
        struct str kept = arena_copy(a, buf_view(&text)); /* the tree may point into it */
        bool good = document_read(kept, DOCUMENT_ANY, a, &documents, &fault);
        for (const struct document_node *n = good ? documents.first : NULL; n && good; n = n->next)
            good = add_document(list, n, a, &fault);
        struct buf why = {0};
        if (!good)
            document_fault_write(&fault, &why);
        else if (list->last == before)
            buf_lit(&why, "there is no document in it");
        if (why.len) {
            fprintf(stderr, "tenax %s: %s: %.*s\n", c->name, name, STR_ARG(buf_view(&why)));
            code = CLI_USAGE;
        }
        buf_fini(&why);
    }
    for (struct resource *r = before ? before->next : list->first; r; r = r->next)
        r->file = name;
    buf_fini(&text);
    return code;
}
