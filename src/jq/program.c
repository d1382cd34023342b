/* SPDX-License-Identifier: Apache-2.0 */
#include "jq/program.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"

/* Whatever reaches outside of the payload is missing, or does nothing. There is no import either,
 * because the grammar does not allow one inside of parentheses, which enclose every expression. */
#define GUARDS                                                                                     \
    "def input: error(\"there is no input\"); def inputs: error(\"there are no inputs\"); "        \
    "def env: {}; def debug: .; def stderr: .; def input_filename: null; "                         \
    "def input_line_number: null; def get_search_list: []; "                                       \
    "def modulemeta: error(\"there are no modules\"); def halt: error(\"halted\"); "               \
    "def halt_error: error(.); def halt_error($code): error(.); "

static const char *const prefix[] = {
    [PROGRAM_FILTER] = GUARDS "(",
    [PROGRAM_FOLD] = GUARDS ". as [$existing, $new] | null | (",
};

struct program {
    enum program_kind kind;
    char *expr;
    size_t len;
    jq_state *jq; /* NULL: the entry is free */
    uint64_t used;
};

static struct program cache[PROGRAM_CACHE];
static uint64_t uses;
static void (*no_memory)(void *);

void program_on_no_memory(void (*handler)(void *))
{
    no_memory = handler;
}

/* --- what is not an expression by itself --- */

#define DEPTH_MAX 256

/* True if the text closes no bracket that it did not open, because that could only be one of ours.
 * Follows strings into their interpolations, \( … ). */
static bool stays_inside(struct str expr)
{
    char open[DEPTH_MAX];
    size_t depth = 0;
    for (size_t i = 0; i < expr.len; i++) {
        char c = expr.at[i];
        bool in_string = depth && open[depth - 1] == '"';
        bool escape = in_string && c == '\\' && i + 1 < expr.len;
        if (escape)
            c = expr.at[++i] == '(' ? '(' : ' ';
        bool opens = in_string ? escape && c == '(' : c && strchr("\"([{", c);
        bool closes = in_string ? !escape && c == '"' : c && strchr(")]}", c);
        if (!in_string && c == '#')
            while (i + 1 < expr.len && expr.at[i + 1] != '\n')
                i++;
        if ((opens && depth == DEPTH_MAX) || (closes && depth == 0))
            return false;
        if (opens)
            open[depth++] = c;
        if (closes)
            depth--;
    }
    return true;
}

/* --- compiling --- */

struct complaint {
    char text[160];
};

static void cut_at(char *text, const char *mark)
{
    char *at = strstr(text, mark);
    if (at)
        *at = '\0';
}

/* Keeps the first message of jq, without its advice to users of a shell. */
static void on_complaint(void *ctx, jv msg)
{
    struct complaint *c = ctx;
    msg = jq_format_error(msg);
    if (!c->text[0]) {
        const char *text = jv_string_value(msg);
        static const char lead[] = "jq: error: ";
        if (strncmp(text, lead, sizeof lead - 1) == 0)
            text += sizeof lead - 1;
        snprintf(c->text, sizeof c->text, "%s", text);
        cut_at(c->text, " (Unix shell");
        cut_at(c->text, " at <top-level>");
        cut_at(c->text, "\n");
        /* The bracket that it found at the end is ours. */
        cut_at(c->text, ", unexpected ')'");
    }
    jv_free(msg);
}

static struct err compile(enum program_kind kind, struct str expr, jq_state **out)
{
    if (memchr(expr.at, '\0', expr.len) || !stays_inside(expr))
        return err_make(ERR_UNPROCESSABLE, "syntax error: brackets do not match");
    struct complaint complaint = {""};
    struct buf text = {0};
    buf_str(&text, str_from(prefix[kind]));
    buf_str(&text, expr);
    buf_lit(&text, "\n)"); /* the line break ends a comment */
    buf_byte(&text, '\0');
    jq_state *jq = jq_init();
    if (!jq) {
        buf_fini(&text);
        return err_make(ERR_UNPROCESSABLE, "there is no memory for compiling it");
    }
    if (no_memory)
        jq_set_nomem_handler(jq, no_memory, NULL);
    jq_set_error_cb(jq, on_complaint, &complaint);
    bool good = jq_compile(jq, text.at);
    buf_fini(&text);
    jq_set_error_cb(jq, NULL, NULL);
    if (!good) {
        jq_teardown(&jq);
        return err_make(ERR_UNPROCESSABLE, "%s",
                        complaint.text[0] ? complaint.text : "it does not compile");
    }
    *out = jq;
    return err_none();
}

/* --- the cache --- */

static void drop(struct program *p)
{
    if (p->jq)
        jq_teardown(&p->jq);
    free(p->expr);
    *p = (struct program){0};
}

struct err program_get(enum program_kind kind, struct str expr, jq_state **jq)
{
    struct program *oldest = &cache[0];
    for (struct program *p = cache; p < cache + PROGRAM_CACHE; p++) {
        if (p->jq && p->kind == kind && p->len == expr.len &&
            memcmp(p->expr, expr.at, expr.len) == 0) {
            p->used = ++uses;
            *jq = p->jq;
            return err_none();
        }
        if (p->used < oldest->used)
            oldest = p;
    }
    TRY(compile(kind, expr, jq));
    drop(oldest);
    *oldest = (struct program){.kind = kind,
                               .expr = alloc_text(expr.at, expr.len),
                               .len = expr.len,
                               .jq = *jq,
                               .used = ++uses};
    return err_none();
}

void program_forget(void)
{
    for (struct program *p = cache; p < cache + PROGRAM_CACHE; p++)
        drop(p);
}
