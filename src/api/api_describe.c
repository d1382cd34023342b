/* SPDX-License-Identifier: Apache-2.0 */

/* The table of endpoints as JSON: of this tools/openapi.py makes docs/openapi.json. */

#include "api/api_routes.h"
#include "api/api_words.h"
#include "base/array.h"
#include "base/must.h"
#include "policy/armada_categories.h"
#include "policy/armada_document.h"
#include "policy/category_document.h"
#include "policy/policy_document.h"
#include "policy/settings_document.h"

/* Bodies that others refer to by name. */
static const struct api_body *const bodies[] = {
    &api_job_body,         &api_template_body,
    &api_dependency_body,  &api_made_progress_body,
    &api_backoff_body,     &api_retention_body,
    &api_batch_body,       &api_resources_body,
    &api_gang_body,        &api_patch_retention_body,
    &api_annotations_body, &api_container_body,
    &api_queue_body,       &api_named_queue_body,
    &api_rate_body,        &api_queue_retention_body,
    &api_cron_entry_body,  &api_budget_body,
    &api_strategy_body,    &api_strategy_patch_body,
    &api_binding_body,     &api_failure_body,
    &api_renewal_body,     &api_success_of_body,
    &api_report_body,      &api_given_body,
    &api_quota_body,
};

/* Shapes that are referred to by name only. */
static const struct shape *const named_shapes[] = {
    &api_error_shape,         &api_retry_count_shape,    &api_cron_job_shape,
    &api_simulated_job_shape, &api_simulated_step_shape, &api_budget_binding_shape,
    &api_resources_shape,     &api_refusal_shape};
static const struct shape_words *const named_words[] = {&api_error_words};

static void write_member(struct buf *b, const char *name, const char *text)
{
    if (!text)
        return;
    buf_print(b, ",\"%s\":", name);
    json_write_string(b, str_from(text));
}

static void add_words(struct buf *b, const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        buf_print(b, "%s%s", i ? "|" : "", words[i]);
}

/* A doc in which $ stands for a number, and * for words. */
static void write_doc(struct buf *b, const char *doc, int64_t most, const char *const *words)
{
    struct buf text = {0};
    for (const char *p = doc ? doc : ""; *p; p++) {
        if (*p == '$' && most)
            buf_int(&text, most);
        else if (*p == '*' && words)
            add_words(&text, words);
        else
            buf_byte(&text, *p);
    }
    buf_byte(&text, '\0');
    write_member(b, "doc", doc ? text.at : NULL);
    buf_fini(&text);
}

static void write_switch(struct buf *b, const char *name, bool on)
{
    if (on)
        buf_print(b, ",\"%s\":true", name);
}

/* --- what requests have --- */

static void write_params(struct buf *b, const struct api_param *p)
{
    buf_lit(b, ",\"params\":[");
    for (size_t i = 0; p && p[i].name; i++) {
        buf_print(b, "%s{\"name\":\"%s\"", i ? "," : "", p[i].name);
        write_doc(b, p[i].doc, p[i].most, NULL);
        write_switch(b, "header", p[i].header);
        write_switch(b, "required", p[i].required);
        buf_byte(b, '}');
    }
    buf_byte(b, ']');
}

static void write_fields(struct buf *b, const struct field *fields, size_t count)
{
    buf_lit(b, ",\"fields\":[");
    for (size_t i = 0; i < count; i++) {
        const struct field *f = &fields[i];
        buf_print(b, "%s{\"name\":\"%s\"", i ? "," : "", f->name);
        write_doc(b, f->doc, f->most, f->words);
        write_switch(b, "required", f->required);
        write_switch(b, "nullable", f->nullable);
        buf_byte(b, '}');
    }
    buf_byte(b, ']');
}

static void write_body(struct buf *b, const struct api_body *body)
{
    buf_print(b, "{\"optional\":%s", body->optional ? "true" : "false");
    write_member(b, "name", body->name);
    write_member(b, "doc", body->doc);
    write_member(b, "rules", body->rules);
    write_switch(b, "closed", body->closed);
    if (body->fields)
        write_fields(b, body->fields, body->count);
    buf_byte(b, '}');
}

/* What documents are made of; in them no other members are allowed. */
static void write_table(struct buf *b, const struct field_table *t)
{
    buf_print(b, "{\"name\":\"%s\"", t->name);
    write_member(b, "doc", t->doc);
    write_member(b, "rules", t->rules);
    write_switch(b, "closed", t->fields != NULL);
    if (t->fields)
        write_fields(b, t->fields, t->count);
    buf_byte(b, '}');
}

static void write_tables(struct buf *b, const struct field_table *tables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_lit(b, ",\n");
        write_table(b, &tables[i]);
    }
}

static void write_bodies(struct buf *b)
{
    for (size_t i = 0; i < COUNT(bodies); i++) {
        buf_print(b, "%s", i ? ",\n" : "\n");
        write_body(b, bodies[i]);
    }
    write_tables(b, fields_tables, fields_table_count);
    write_tables(b, fields_match_tables, fields_match_table_count);
    write_tables(b, policy_document_tables, policy_document_table_count);
    write_tables(b, armada_document_tables, armada_document_table_count);
    write_tables(b, armada_categories_tables, armada_categories_table_count);
    write_tables(b, category_document_tables, category_document_table_count);
    write_tables(b, &settings_document_table, 1);
}

/* --- what answers have --- */

/* Shapes and words that have a name, each once, in the order in which they are met. */
struct named {
    const struct shape *shapes[128];
    const struct shape_words *words[50];
    size_t shape_count, word_count;
};

static void meet_words(struct named *n, const struct shape_words *w)
{
    for (size_t i = 0; i < n->word_count; i++)
        if (n->words[i] == w)
            return;
    must(n->word_count < COUNT(n->words));
    n->words[n->word_count++] = w;
}

/* With all that it is made of. */
static void meet_shape(struct named *n, const struct shape *s)
{
    for (size_t i = 0; i < n->shape_count; i++)
        if (n->shapes[i] == s)
            return;
    if (s->name) {
        must(n->shape_count < COUNT(n->shapes));
        n->shapes[n->shape_count++] = s;
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct shape_member *m = &s->members[i];
        if (m->kind == SHAPE_OBJECT || m->kind == SHAPE_PART)
            meet_shape(n, m->shape);
        if ((m->kind == SHAPE_WORD || m->kind == SHAPE_WORD64) && m->words->name)
            meet_words(n, m->words);
    }
}

static void write_words(struct buf *b, const struct shape_words *w)
{
    bool first = true;
    buf_lit(b, "string (");
    for (int i = 0; i < w->count; i++) {
        const char *word = w->word(i);
        if (!word)
            continue;
        buf_print(b, "%s%s", first ? "" : "|", word);
        first = false;
    }
    buf_byte(b, ')');
}

/* As in wire/field.h. */
static void write_type(struct buf *b, const struct shape_member *m)
{
    static const char *const types[] = {
        [SHAPE_BOOL] = "boolean",    [SHAPE_U16] = "integer 0..",     [SHAPE_U32] = "integer 0..",
        [SHAPE_U64] = "integer 0..", [SHAPE_I32] = "integer",         [SHAPE_I64] = "integer",
        [SHAPE_DOUBLE] = "number",   [SHAPE_INSTANT] = "integer 0..", [SHAPE_SPAN] = "integer 0..",
        [SHAPE_ID] = "JobId",        [SHAPE_TEXT] = "string",         [SHAPE_JSON] = "any",
    };
    bool is_word = m->kind == SHAPE_WORD || m->kind == SHAPE_WORD64;
    buf_lit(b, ",\"type\":\"");
    if (m->type)
        buf_str(b, str_from(m->type));
    else if (is_word && !m->words->name)
        write_words(b, m->words);
    else if (is_word)
        buf_str(b, str_from(m->words->name));
    else if (m->kind == SHAPE_OBJECT)
        buf_str(b, str_from(m->shape->name));
    else
        buf_str(b, str_from(types[m->kind]));
    buf_byte(b, '"');
}

static void write_row_doc(struct buf *b, const struct shape_member *m)
{
    struct buf text = {0};
    bool is_time = m->kind == SHAPE_INSTANT && !m->type;
    buf_print(&text, "%s%s%s", m->doc ? m->doc : "", m->doc && is_time ? ", " : "",
              is_time ? "milliseconds since 1970 (UTC)" : "");
    buf_byte(&text, '\0');
    if (text.at[0])
        write_member(b, "doc", text.at);
    buf_fini(&text);
}

static void write_rows(struct buf *b, const struct shape *s, bool optional, bool *first);

static void write_shape(struct buf *b, const struct shape *s)
{
    bool first = true;
    buf_lit(b, "{\"rows\":[");
    write_rows(b, s, false, &first);
    buf_byte(b, ']');
    write_member(b, "name", s->name);
    write_member(b, "doc", s->doc);
    buf_byte(b, '}');
}

static void write_row(struct buf *b, const struct shape_member *m, bool optional)
{
    struct str key = {m->key + 2, m->key_len - 4u}; /* ,"name": */
    buf_print(b, "{\"name\":\"%.*s\"", STR_ARG(key));
    write_switch(b, "required", !optional && m->when != IF_SET);
    write_switch(b, "nullable", m->when == OR_NULL);
    write_switch(b, "list", m->is_list);
    write_row_doc(b, m);
    if (m->kind == SHAPE_OBJECT && !m->shape->name) {
        buf_lit(b, ",\"shape\":");
        write_shape(b, m->shape);
    } else {
        write_type(b, m);
    }
    buf_byte(b, '}');
}

static void write_rows(struct buf *b, const struct shape *s, bool optional, bool *first)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct shape_member *m = &s->members[i];
        if (m->kind == SHAPE_PART) {
            write_rows(b, m->shape, optional || m->is_set, first);
            continue;
        }
        buf_str(b, *first ? STR("\n  ") : STR(",\n  "));
        *first = false;
        write_row(b, m, optional);
    }
}

static void write_answers(struct buf *b, const struct endpoint *e)
{
    buf_lit(b, ",\"answers\":[");
    for (size_t i = 0; i < COUNT(e->answers) && e->answers[i].status; i++) {
        const struct api_answer *a = &e->answers[i];
        buf_print(b, "%s{\"status\":%d", i ? "," : "", a->status);
        write_member(b, "doc", a->doc);
        if (a->shape) {
            buf_lit(b, ",\"shapes\":[");
            write_shape(b, a->shape);
            if (a->or_shape) {
                buf_byte(b, ',');
                write_shape(b, a->or_shape);
            }
            buf_byte(b, ']');
        }
        buf_byte(b, '}');
    }
    buf_byte(b, ']');
}

/* --- all of it --- */

static void write_endpoint(struct buf *b, const struct endpoint *e)
{
    buf_print(b, "{\"method\":\"%s\"", router_method_name(e->route.method));
    write_member(b, "path", e->route.pattern);
    write_member(b, "id", e->id);
    write_member(b, "summary", e->summary);
    write_member(b, "right", rights_word(rights_find(RIGHTS_JOBS, e->id)->right));
    write_params(b, e->params);
    if (e->body) {
        buf_lit(b, ",\"body\":");
        write_body(b, e->body);
    }
    write_answers(b, e);
    buf_byte(b, '}');
}

static void meet_all(struct named *n)
{
    for (size_t i = 0; i < COUNT(named_words); i++)
        meet_words(n, named_words[i]);
    for (size_t i = 0; i < COUNT(named_shapes); i++)
        meet_shape(n, named_shapes[i]);
    for (size_t i = 0; i < api_endpoint_count; i++) {
        const struct api_answer *answers = api_endpoints[i].answers;
        for (size_t k = 0; k < COUNT(api_endpoints[i].answers); k++) {
            if (answers[k].shape)
                meet_shape(n, answers[k].shape);
            if (answers[k].or_shape)
                meet_shape(n, answers[k].or_shape);
        }
    }
}

static void write_named(struct buf *b)
{
    struct named n = {0};
    meet_all(&n);
    buf_lit(b, "],\"shapes\":[");
    for (size_t i = 0; i < n.shape_count; i++) {
        buf_print(b, "%s", i ? ",\n" : "\n");
        write_shape(b, n.shapes[i]);
    }
    buf_lit(b, "],\"words\":[");
    for (size_t i = 0; i < n.word_count; i++) {
        buf_print(b, "%s{\"name\":\"%s\",\"type\":\"", i ? ",\n" : "\n", n.words[i]->name);
        write_words(b, n.words[i]);
        buf_byte(b, '"');
        write_member(b, "doc", n.words[i]->doc);
        buf_byte(b, '}');
    }
}

void api_write_routes(struct buf *b)
{
    buf_lit(b, "{\"routes\":[");
    for (size_t i = 0; i < api_endpoint_count; i++) {
        buf_print(b, "%s", i ? ",\n" : "\n");
        write_endpoint(b, &api_endpoints[i]);
    }
    buf_lit(b, "],\"bodies\":[");
    write_bodies(b);
    write_named(b);
    buf_lit(b, "]}\n");
}
