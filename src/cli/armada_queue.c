/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/armada_queue.h"

#include "base/array.h"
#include "core/job.h"
#include "policy/armada_document.h"
#include "policy/fields.h"
#include "policy/policy_warning.h"

struct armada_queue {
    struct str name;
    bool cordoned;
    struct document_node *policies; /* or NULL */
    struct document_node *kept;
    struct document_node *warnings;
};

/* --- what is kept --- */

static struct document_node *copy_alone(const struct document_node *n, struct arena *a)
{
    struct document_node *copy = ARENA_NEW(a, struct document_node);
    *copy = *n;
    copy->next = NULL;
    return copy;
}

static void keep(const struct document_node *n, struct arena *a, struct armada_queue *q)
{
    document_attach(q->kept, copy_alone(n, a));
    policy_warning_add(q->warnings, a,
                       "%.*s has no effect here; it is kept, and shown with the queue",
                       STR_ARG(n->key));
}

static struct err read_factor(struct json_cursor *c, struct arena *a, void *queue)
{
    const struct document_node *n = fields_node(c);
    size_t at = c->pos;
    double factor;
    TRY(fields_double(c, 0, 1e18, &factor));
    if (factor <= 0)
        return fields_refuse(c, at, ERR_BAD_VALUE, "a number above 0");
    keep(n, a, queue);
    return err_none();
}

static struct err read_texts(struct json_cursor *c, struct arena *a, const char *expected)
{
    size_t n;
    TRY(fields_list(c, expected, &n));
    for (size_t i = 0; i < n; i++) {
        struct str text;
        fields_next(c);
        TRY(fields_name(c, a, &text));
    }
    fields_end(c);
    return err_none();
}

static struct err read_owners(struct json_cursor *c, struct arena *a, void *queue)
{
    const struct document_node *n = fields_node(c);
    TRY(read_texts(c, a, "a list of names"));
    keep(n, a, queue);
    return err_none();
}

static struct err read_labels(struct json_cursor *c, struct arena *a, void *queue)
{
    const struct document_node *n = fields_node(c);
    for (const struct document_node *l = n->first; l; l = l->next)
        if (l->type != DOCUMENT_STRING)
            return fields_refuse(c, c->pos, ERR_BAD_TYPE, "a mapping of texts");
    if (n->type != DOCUMENT_MAP)
        return fields_refuse(c, c->pos, ERR_BAD_TYPE, "a mapping of texts");
    keep(n, a, queue);
    return json_skip(c, NULL);
}

static struct err read_limits(struct json_cursor *c, struct arena *a, void *queue)
{
    const struct document_node *n = fields_node(c);
    if (n->type != DOCUMENT_MAP)
        return fields_refuse(c, c->pos, ERR_BAD_TYPE, "a mapping of priority classes");
    keep(n, a, queue);
    return json_skip(c, NULL);
}

/* --- permissions --- */

static struct err read_subject_kind(struct json_cursor *c, struct arena *a, void *into)
{
    static const char *const kinds[] = {"User", "Group", NULL};
    size_t which;
    (void)a;
    (void)into;
    return fields_word(c, kinds, "User or Group", &which);
}

static struct err read_verbs(struct json_cursor *c, struct arena *a, void *into)
{
    static const char *const verbs[] = {"submit",       "cancel", "preempt",
                                        "reprioritize", "watch",  NULL};
    size_t n, which;
    (void)a;
    (void)into;
    TRY(fields_list(c, "a list of verbs", &n));
    for (size_t i = 0; i < n; i++) {
        fields_next(c);
        TRY(fields_word(c, verbs, "submit, cancel, preempt, reprioritize or watch", &which));
    }
    fields_end(c);
    return err_none();
}

static const struct field subject_table[] = {
    {"kind", true, read_subject_kind, 0},
    {"name", true, fields_name, 0},
};

static struct err read_subjects(struct json_cursor *c, struct arena *a, void *into)
{
    size_t n;
    (void)a;
    (void)into;
    TRY(fields_list(c, "a list of subjects", &n));
    for (size_t i = 0; i < n; i++) {
        struct str name;
        fields_next(c);
        TRY(fields_read(c, subject_table, COUNT(subject_table), &name));
    }
    fields_end(c);
    return err_none();
}

static const struct field permission_table[] = {
    {"subjects", false, read_subjects, 0},
    {"verbs", false, read_verbs, 0},
};

static struct err read_permissions(struct json_cursor *c, struct arena *a, void *queue)
{
    const struct document_node *list = fields_node(c);
    size_t n;
    TRY(fields_list(c, "a list of permissions", &n));
    for (size_t i = 0; i < n; i++) {
        fields_next(c);
        TRY(fields_read(c, permission_table, COUNT(permission_table), queue));
    }
    fields_end(c);
    keep(list, a, queue);
    return err_none();
}

/* --- the queue --- */

static struct err read_as_checked(struct json_cursor *c, struct arena *a, void *queue)
{
    (void)a;
    (void)queue;
    return json_skip(c, NULL);
}

static struct err read_name(struct json_cursor *c, struct arena *a, void *queue)
{
    struct armada_queue *q = queue;
    size_t at = c->pos;
    TRY(fields_name(c, a, &q->name));
    struct err e = job_check_name(q->name, "name");
    return e.code == ERR_OK ? e : fields_refuse(c, at, e.code, "the name of a queue (%s)", e.msg);
}

static struct err read_policies(struct json_cursor *c, struct arena *a, void *queue)
{
    ((struct armada_queue *)queue)->policies = copy_alone(fields_node(c), a);
    return read_texts(c, a, "a list of names of retry policies");
}

static const struct field queue_table[] = {
    {"apiVersion", true, read_as_checked, 0},
    {"kind", true, read_as_checked, 0},
    {"name", true, read_name, 0},
    {"priorityFactor", false, read_factor, 0},
    {"userOwners", false, read_owners, 0},
    {"groupOwners", false, read_owners, 0},
    {"permissions", false, read_permissions, 0},
    {"resourceLimitsByPriorityClassName", false, read_limits, 0},
    {"cordoned", false, fields_bool, offsetof(struct armada_queue, cordoned)},
    {"labels", false, read_labels, 0},
    {"retryPolicies", false, read_policies, 0},
};

bool armada_queue_is(const struct document_node *root)
{
    return str_eq(document_text(root, "apiVersion"), STR(ARMADA_DOCUMENT_VERSION)) &&
           str_eq(document_text(root, "kind"), STR("Queue"));
}

/* What is omitted has its default. */
static struct str body_of(const struct armada_queue *q, struct arena *a)
{
    struct document_node *body = document_map(a);
    struct buf text = {0};
    document_add(body, "name", document_string(a, q->name));
    document_add(body, "paused", document_bool(a, q->cordoned));
    if (q->policies)
        document_add(body, "retry_policies", q->policies);
    if (q->kept->first)
        document_add(body, "armada", q->kept);
    document_write_json(body, &text);
    struct str s = arena_copy(a, buf_view(&text));
    buf_fini(&text);
    return s;
}

bool armada_queue_read(const struct document_node *root, struct arena *a, struct resource *r,
                       struct document_fault *fault)
{
    struct armada_queue q = {.kept = document_map(a), .warnings = document_list(a)};
    struct fields f;
    struct json_cursor c = fields_open_lenient(&f, root, NULL, a, fault);
    if (fields_read(&c, queue_table, COUNT(queue_table), &q).code != ERR_OK)
        return false;
    r->name = q.name;
    r->body = body_of(&q, a);
    r->warnings = q.warnings;
    r->of_armada = r->may_miss = true;
    return true;
}
