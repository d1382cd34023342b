/* SPDX-License-Identifier: Apache-2.0 */
#include "server/config.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/must.h"
#include "wire/document.h"
#include "policy/settings_document.h"

#define SECTION "retryPolicy"
#define ABOVE   "scheduling"

static struct err refuse(const char *file, const struct document_node *at, bool key,
                         const char *why)
{
    return err_make(ERR_USAGE, "%s: line %u, column %u: %s", file, key ? at->key_line : at->line,
                    key ? at->key_column : at->column, why);
}

static struct err refuse_fault(const char *file, const struct document_fault *fault)
{
    struct err e = document_fault_in(file, fault);
    e.code = ERR_USAGE;
    return e;
}

/* --- the section --- */

/* Members of the section that duplicate rows of the table. */
static const struct {
    const char *member, *row;
} rows[] = {{"enabled", CONFIG_ENABLED}, {"whenNoPolicy", CONFIG_NO_POLICY}};

/* *outranked: it is such a member, and a flag or a variable overrides it. */
static struct err take_option(const char *file, const struct document_node *n,
                              const struct policy_settings *s, struct options *o, void *values,
                              bool *outranked)
{
    size_t i = 0;
    *outranked = false;
    while (i < COUNT(rows) && !str_eq(n->key, str_from(rows[i].member)))
        i++;
    if (i == COUNT(rows))
        return err_none();
    enum option_source source = options_source_of(o, rows[i].row);
    if (source == OPTION_FROM_FILE) {
        char why[120];
        snprintf(why, sizeof why, SECTION ".%s: %s says the same; give one of them", rows[i].member,
                 rows[i].row);
        return refuse(file, n, true, why);
    }
    *outranked = source > OPTION_FROM_FILE;
    if (*outranked)
        return err_none();
    const char *word = i == 0 ? (s->enabled ? "true" : "false")
                       : s->when_no_policy == RETRY_FALLBACK_DEFAULT ? "default"
                                                                     : "fail";
    return options_from_file(o, rows[i].row, word, values);
}

/* Armada fails jobs without a policy, and a file in its form keeps that unless anything states it.
 */
static void fail_as_armada(struct document_node *kept, struct options *o, void *values,
                           struct arena *a)
{
    if (options_source_of(o, CONFIG_NO_POLICY) != OPTION_FROM_DEFAULT)
        return;
    struct err err = options_from_file(o, CONFIG_NO_POLICY, "fail", values);
    must(err.code == ERR_OK);
    document_add(kept, "whenNoPolicy", document_string(a, STR("fail")));
}

/* Its delays are exact, too. */
static void delay_as_armada(struct document_node *kept, struct arena *a)
{
    for (struct document_node *n = kept->first; n; n = n->next)
        if (str_eq(n->key, STR("defaultBackoff")) && n->type == DOCUMENT_MAP &&
            !document_member(n, "jitter"))
            document_add(n, "jitter", document_string(a, STR("none")));
}

/* name: of the section in the file. */
static struct err read_retry(const char *file, const struct document_node *section,
                             const char *name, struct options *o, void *values, struct config *out)
{
    struct policy_change change;
    struct document_fault fault = {0};
    if (!settings_document_read(section, name, &out->memory, &change, &fault))
        return refuse_fault(file, &fault);
    struct document_node *kept = document_map(&out->memory);
    for (const struct document_node *n = section->first; n; n = n->next) {
        bool outranked;
        TRY(take_option(file, n, &change.to, o, values, &outranked));
        if (outranked)
            continue;
        struct document_node *copy = ARENA_NEW(&out->memory, struct document_node);
        *copy = *n;
        copy->next = NULL;
        copy = document_add(kept, "", copy);
        copy->key = n->key;
    }
    if (strcmp(name, SECTION) != 0) {
        fail_as_armada(kept, o, values, &out->memory);
        delay_as_armada(kept, &out->memory);
    }
    struct buf json = {0};
    document_write_json(kept, &json);
    out->retry = arena_copy(&out->memory, buf_view(&json));
    buf_fini(&json);
    return err_none();
}

/* The section where Armada's configuration has it: under scheduling. */
static struct err find_nested(const char *file, const struct document_node *above,
                              const struct document_node *section,
                              const struct document_node **nested)
{
    if (above->type != DOCUMENT_MAP)
        return refuse(file, above, false, "expected a mapping with " SECTION);
    for (const struct document_node *n = above->first; n; n = n->next)
        if (!str_eq(n->key, STR(SECTION)))
            return refuse(file, n, true, ABOVE ": only " SECTION " is known here");
    *nested = document_member(above, SECTION);
    if (*nested && section)
        return refuse(file, *nested, true, SECTION " is given twice");
    return err_none();
}

/* --- the settings --- */

static struct err set(const char *file, const struct document_node *n, struct options *o,
                      void *values, struct arena *a)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", STR_ARG(n->key));
    bool scalar =
        n->type == DOCUMENT_BOOL || n->type == DOCUMENT_NUMBER || n->type == DOCUMENT_STRING;
    char *text = arena_zero(a, n->text.len + 1);
    if (n->text.len)
        memcpy(text, n->text.at, n->text.len);
    struct err e = options_from_file(o, name, scalar ? text : NULL, values);
    if (e.code == ERR_OK)
        return e;
    return refuse(file, n, e.code == ERR_UNKNOWN_FIELD, e.msg);
}

struct err config_read(const char *file, struct options *o, void *values, struct config *out)
{
    *out = (struct config){0};
    struct buf text = {0};
    struct err err = document_load(file, &text);
    struct str kept = arena_copy(&out->memory, buf_view(&text));
    buf_fini(&text);
    TRY(err);
    struct document_list list;
    struct document_fault fault = {0};
    if (!document_read(kept, DOCUMENT_ANY, &out->memory, &list, &fault))
        return refuse_fault(file, &fault);
    const struct document_node *root;
    if (list.count == 0) /* only comments */
        return err_none();
    if (!document_only(&list, &root, &fault))
        return refuse_fault(file, &fault);
    if (root->type != DOCUMENT_MAP)
        return refuse(file, root, false, "expected a mapping of settings");
    const struct document_node *section = document_member(root, SECTION), *nested = NULL;
    const struct document_node *above = document_member(root, ABOVE);
    if (above)
        TRY(find_nested(file, above, section, &nested));
    for (const struct document_node *n = root->first; n; n = n->next)
        if (n != section && n != above)
            TRY(set(file, n, o, values, &out->memory));
    if (nested)
        return read_retry(file, nested, ABOVE "." SECTION, o, values, out);
    return section ? read_retry(file, section, SECTION, o, values, out) : err_none();
}

void config_free(struct config *c)
{
    arena_fini(&c->memory);
    *c = (struct config){0};
}
