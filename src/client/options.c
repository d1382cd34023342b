/* SPDX-License-Identifier: Apache-2.0 */
#include "client/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/closest.h"
#include "base/duration.h"
#include "base/must.h"
#include "base/units.h"

/* The origin of a value, for messages: "option '--port'" or "variable TENAX_PORT". */
struct origin {
    const char *before, *name, *after;
};

#define SHOWN_MAX "%.60s" /* a value in a message is truncated, or it would hide the message */

static size_t count_rows(const struct option_def *defs)
{
    size_t n = 0;
    while (defs[n].flag)
        n++;
    must(n <= OPTIONS_MAX);
    return n;
}

bool options_next_word(const char **list, struct str *word)
{
    if (!*list || !**list)
        return false;
    size_t n = strcspn(*list, "|");
    *word = (struct str){*list, n};
    *list += n + ((*list)[n] == '|');
    return true;
}

static int find_word(const char *list, const char *typed)
{
    struct str word;
    for (int i = 0; options_next_word(&list, &word); i++)
        if (str_eq(word, str_from(typed)))
            return i;
    return -1;
}

struct str options_closest(const char *typed, const char *words)
{
    struct closest near = closest_to(str_from(typed));
    struct str word;
    while (options_next_word(&words, &word))
        closest_offer(&near, word);
    return near.word.len ? near.word : (struct str){"", 0};
}

/* extra: a word that no table has, such as "help". */
static struct str closest_flag(const struct option_def *defs, const char *extra, const char *typed)
{
    struct buf words = {0};
    for (const struct option_def *d = defs; d->flag; d++)
        buf_print(&words, "%s|", d->flag);
    buf_str(&words, str_from(extra));
    buf_byte(&words, '\0');
    struct str near = options_closest(typed, words.at), own = {0};
    if (near.len && str_eq(near, str_from(extra)))
        own = str_from(extra);
    for (const struct option_def *d = defs; d->flag && near.len; d++)
        if (str_eq(near, str_from(d->flag)))
            own = str_from(d->flag);
    buf_fini(&words);
    return own;
}

static struct err unknown_flag(const struct option_def *defs, const char *typed)
{
    struct str near = closest_flag(defs, "help", typed);
    struct err e =
        near.len ? err_make(ERR_USAGE, "unknown option '--" SHOWN_MAX "'; did you mean '--%.*s'?",
                            typed, STR_ARG(near))
                 : err_make(ERR_USAGE, "unknown option '--" SHOWN_MAX "'", typed);
    return e;
}

#define REFUSE(o, fmt, ...)                                                                        \
    err_make(ERR_USAGE, "%s%s%s: " fmt, (o).before, (o).name, (o).after, __VA_ARGS__)

static struct err set_int(const struct option_def *d, struct origin o, const char *text,
                          int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || *text == ' ' || errno || v < d->min || v > d->max)
        return REFUSE(o, "'" SHOWN_MAX "' is not a whole number from %lld to %lld", text,
                      (long long)d->min, (long long)d->max);
    *out = v;
    return err_none();
}

static struct err set_double(const struct option_def *d, struct origin o, const char *text,
                             double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || *text == ' ' || !isfinite(v) || v < (double)d->min ||
        v > (double)d->max)
        return REFUSE(o, "'" SHOWN_MAX "' is not a number from %lld to %lld", text,
                      (long long)d->min, (long long)d->max);
    *out = v;
    return err_none();
}

static struct err set_choice(const struct option_def *d, struct origin o, const char *text,
                             int *out)
{
    *out = find_word(d->choices, text);
    if (*out < 0) {
        struct str near = options_closest(text, d->choices);
        return REFUSE(o, "'" SHOWN_MAX "' is not one of %s%s%.*s%s", text, d->choices,
                      near.len ? "; did you mean '" : "", STR_ARG(near), near.len ? "'?" : "");
    }
    return err_none();
}

static struct err set_switch(struct origin o, const char *text, bool *out)
{
    int i = find_word("false|true|no|yes|off|on|0|1", text);
    if (i < 0)
        return REFUSE(o, "'" SHOWN_MAX "' is not one of true, false, yes, no, on, off, 1, 0", text);
    *out = i & 1;
    return err_none();
}

/* Prefixes the option's name to a reason that came from elsewhere. */
static struct err refuse_with(struct origin o, struct err e)
{
    return e.code == ERR_OK ? e : REFUSE(o, "%s", e.msg);
}

static struct err set_span(const struct option_def *d, struct origin o, const char *text, span *out)
{
    TRY(refuse_with(o, duration_parse(str_from(text), out)));
    if (out->ms < d->min)
        return REFUSE(o, "'" SHOWN_MAX "' is less than %lld ms", text, (long long)d->min);
    return err_none();
}

static struct err add_item(struct origin o, const char *text, struct option_list *out)
{
    if (out->count == OPTION_LIST_MAX)
        return REFUSE(o, "it cannot be given more than %d times", OPTION_LIST_MAX);
    out->at[out->count++] = text;
    return err_none();
}

static struct err set_value(const struct option_def *d, struct origin o, const char *text,
                            void *values)
{
    void *at = (char *)values + d->offset;
    switch (d->type) {
    case OPTION_TEXT:
        *(const char **)at = text;
        return err_none();
    case OPTION_INT:
        return set_int(d, o, text, at);
    case OPTION_DOUBLE:
        return set_double(d, o, text, at);
    case OPTION_CHOICE:
        return set_choice(d, o, text, at);
    case OPTION_SWITCH:
        return set_switch(o, text, at);
    case OPTION_LIST:
        return add_item(o, text, at);
    case OPTION_SPAN:
        return set_span(d, o, text, at);
    case OPTION_SIZE:
        return refuse_with(o, duration_parse_size(str_from(text), at));
    }
    must_fail("option type is known", __FILE__, __LINE__);
}

/* Defaults and variables first; flags override them. */
static struct err set_from_surroundings(const struct option_def *defs, void *values,
                                        struct options *out)
{
    for (size_t i = 0; defs[i].flag; i++) {
        const struct option_def *d = &defs[i];
        const char *env = d->env ? getenv(d->env) : NULL;
        const char *alias = d->alias ? getenv(d->alias) : NULL;
        if (env && *env) {
            TRY(set_value(d, (struct origin){"variable ", d->env, ""}, env, values));
            out->source[i] = OPTION_FROM_ENV;
        } else if (alias && *alias) {
            TRY(set_value(d, (struct origin){"variable ", d->alias, ""}, alias, values));
            out->source[i] = OPTION_FROM_ALIAS;
        } else if (d->def) {
            struct err e =
                set_value(d, (struct origin){"default of '--", d->flag, "'"}, d->def, values);
            must(e.code == ERR_OK);
            out->source[i] = OPTION_FROM_DEFAULT;
        }
    }
    return err_none();
}

/* Whether the word is an option by itself, and no value that was forgotten before it. */
static bool is_flag(const struct option_def *defs, const char *word)
{
    if (strncmp(word, "--", 2) != 0)
        return false;
    while (defs->flag && strcmp(defs->flag, word + 2) != 0)
        defs++;
    return defs->flag != NULL;
}

/* Sets the option of this row to the value in text or, if that is NULL, in the next word. */
static struct err take_value(const struct option_def *defs, size_t row, const char *text, int argc,
                             char **argv, int *i, void *values, struct options *out)
{
    const struct option_def *d = &defs[row];
    struct origin o = {"option '--", d->flag, "'"};
    if (!text && d->type == OPTION_SWITCH)
        text = "true";
    else if (!text && d->implied)
        text = d->implied;
    else if (!text && *i + 1 < argc && !is_flag(defs, argv[*i + 1]))
        text = argv[++*i];
    if (!text)
        return REFUSE(o, "it needs a value: --%s %s", d->flag, d->value);
    TRY(set_value(d, o, text, values));
    out->source[row] = OPTION_FROM_FLAG;
    return err_none();
}

/* Reads the short option at argv[*i]: -f FILE, -fFILE or -f=FILE. */
static struct err take_letter(const struct option_def *defs, int argc, char **argv, int *i,
                              void *values, struct options *out)
{
    const char *arg = argv[*i];
    size_t row = 0;
    while (defs[row].flag && defs[row].letter != arg[1])
        row++;
    if (!defs[row].flag || (defs[row].type == OPTION_SWITCH && arg[2]))
        return err_make(ERR_USAGE,
                        "unknown option '" SHOWN_MAX
                        "'; options have two dashes, and a word that begins with one"
                        " goes after '--'",
                        arg);
    const char *text = arg[2] == '=' ? arg + 3 : arg[2] ? arg + 2 : NULL;
    return take_value(defs, row, text, argc, argv, i, values, out);
}

/* Reads the long option at argv[*i], which begins with "--". */
static struct err take_flag(const struct option_def *defs, int argc, char **argv, int *i,
                            void *values, struct options *out)
{
    const char *name = argv[*i] + 2;
    size_t len = strcspn(name, "=");
    const char *text = name[len] ? name + len + 1 : NULL;
    size_t row = 0;
    while (defs[row].flag && !str_eq(str_from(defs[row].flag), (struct str){name, len}))
        row++;
    if (!defs[row].flag) {
        char typed[64];
        snprintf(typed, sizeof typed, "%.*s", (int)(len < 63 ? len : 63), name);
        return unknown_flag(defs, typed);
    }
    return take_value(defs, row, text, argc, argv, i, values, out);
}

static struct err take_flags(const struct option_def *defs, enum option_order order, int argc,
                             char **argv, void *values, struct options *out)
{
    int i = 1;
    for (; i < argc; i++) {
        char *arg = argv[i];
        if (strcmp(arg, "--") == 0) {
            i++;
            break;
        }
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            out->help = true;
            return err_none();
        }
        if (strncmp(arg, "--", 2) == 0) {
            TRY(take_flag(defs, argc, argv, &i, values, out));
        } else if (arg[0] == '-' && arg[1]) {
            TRY(take_letter(defs, argc, argv, &i, values, out));
        } else if (order == OPTIONS_FIRST) {
            break;
        } else {
            out->rest[out->rest_count++] = arg;
        }
    }
    while (i < argc)
        out->rest[out->rest_count++] = argv[i++];
    out->rest[out->rest_count] = NULL; /* there is room: argv ends with a NULL of its own */
    return err_none();
}

struct err options_parse(const struct option_def *defs, enum option_order order, int argc,
                         char **argv, void *values, struct options *out)
{
    must(argc >= 1);
    (void)count_rows(defs);
    *out = (struct options){.defs = defs, .rest = argv + 1};
    struct err e = set_from_surroundings(defs, values, out);
    struct err flags = take_flags(defs, order, argc, argv, values, out);
    /* A request for help is answered even if a variable is invalid: the user may be looking for its
     * format. */
    if (out->help || flags.code != ERR_OK)
        return flags;
    return e;
}

/* --- a configuration file --- */

static size_t find_row(const struct option_def *defs, const char *name)
{
    size_t row = 0;
    while (defs[row].flag && strcmp(defs[row].flag, name) != 0)
        row++;
    return row;
}

struct err options_from_file(struct options *o, const char *name, const char *text, void *values)
{
    size_t row = find_row(o->defs, name);
    const struct option_def *d = &o->defs[row];
    if (!d->flag) {
        struct str near = closest_flag(o->defs, "", name);
        return near.len ? err_make(ERR_UNKNOWN_FIELD,
                                   "there is no setting '" SHOWN_MAX "'; did you mean '%.*s'?",
                                   name, STR_ARG(near))
                        : err_make(ERR_UNKNOWN_FIELD, "there is no setting '" SHOWN_MAX "'", name);
    }
    struct origin origin = {"", d->flag, ""};
    if (!text)
        return REFUSE(origin, "%s", "expected a single value");
    if (o->source[row] > OPTION_FROM_FILE) {
        /* It must be valid even if it is not used: the variable may be unset next time. */
        struct option_list room = {0}; /* as large as any value */
        struct option_def elsewhere = *d;
        elsewhere.offset = 0;
        return set_value(&elsewhere, origin, text, &room);
    }
    TRY(set_value(d, origin, text, values));
    o->source[row] = OPTION_FROM_FILE;
    return err_none();
}

enum option_source options_source_of(const struct options *o, const char *name)
{
    size_t row = find_row(o->defs, name);
    must(o->defs[row].flag);
    return o->source[row];
}

static size_t size_of(enum option_type type)
{
    static const size_t sizes[] = {
        [OPTION_TEXT] = sizeof(const char *), [OPTION_INT] = sizeof(int64_t),
        [OPTION_DOUBLE] = sizeof(double),     [OPTION_SPAN] = sizeof(span),
        [OPTION_SIZE] = sizeof(uint64_t),     [OPTION_CHOICE] = sizeof(int),
        [OPTION_SWITCH] = sizeof(bool),       [OPTION_LIST] = sizeof(struct option_list),
    };
    return sizes[type];
}

bool options_differ(const struct option_def *d, const void *a, const void *b)
{
    const void *x = (const char *)a + d->offset, *y = (const char *)b + d->offset;
    if (d->type != OPTION_TEXT)
        return memcmp(x, y, size_of(d->type)) != 0;
    const char *s = *(const char *const *)x, *t = *(const char *const *)y;
    return s && t ? strcmp(s, t) != 0 : s != t;
}

void options_copy(const struct option_def *d, void *to, const void *from)
{
    memcpy((char *)to + d->offset, (const char *)from + d->offset, size_of(d->type));
}

enum option_source options_source(const struct options *o, size_t offset)
{
    for (size_t i = 0; o->defs[i].flag; i++)
        if (o->defs[i].offset == offset)
            return o->source[i];
    must_fail("the table has an option at this offset", __FILE__, __LINE__);
}

/* Length of what must stay on one line: a word, or a note in brackets. */
static size_t unbreakable(struct str text)
{
    const char *end = memchr(text.at, *text.at == '[' ? ']' : ' ', text.len);
    if (!end)
        return text.len;
    return (size_t)(end - text.at) + (*end == ']');
}

static size_t count_characters(const char *at, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)at[i] & 0xc0) != 0x80;
    return count;
}

void options_wrap(struct buf *b, struct str text, size_t at, size_t indent, size_t width)
{
    size_t column = at;
    while (text.len) {
        size_t n = unbreakable(text), cells = count_characters(text.at, n);
        if (column > at && column + 1 + cells > width) {
            buf_print(b, "\n%*s", (int)indent, "");
            column = at = indent;
        } else if (column > at) {
            buf_byte(b, ' ');
            column++;
        }
        buf_add(b, text.at, n);
        column += cells;
        n += n < text.len; /* the space */
        text = (struct str){text.at + n, text.len - n};
    }
}

/* "--flag VALUE", or "-f, --flag VALUE" */
static void write_spelling(struct buf *b, const struct option_def *d)
{
    if (d->letter)
        buf_print(b, "-%c, ", d->letter);
    if (d->implied)
        buf_print(b, "--%s[=%s]", d->flag, d->value);
    else
        buf_print(b, "--%s%s%s", d->flag, d->value ? " " : "", d->value ? d->value : "");
}

/* The facts after the phrase: choices, default, variable. */
static void write_facts(struct buf *b, const struct option_def *d)
{
    if (d->choices) {
        const char *list = d->choices, *between = ": ";
        struct str word;
        while (options_next_word(&list, &word)) {
            buf_print(b, "%s%.*s", between, STR_ARG(word));
            between = *list && strchr(list, '|') ? ", " : " or ";
        }
    }
    if (d->implied)
        buf_print(b, " [without a value: %s]", d->implied);
    if (d->def)
        buf_print(b, " [default: %s]", d->def);
    if (d->env)
        buf_print(b, " [env: %s]", d->env);
}

/* Longer spellings get a line of their own, because the text would have no room beside them. */
#define SPELLING_MAX 26

static size_t help_column(const struct option_def *defs)
{
    struct buf left = {0};
    size_t longest = 0;
    for (const struct option_def *d = defs; d->flag; d++) {
        left.len = 0;
        write_spelling(&left, d);
        if (left.len > longest && left.len <= SPELLING_MAX)
            longest = left.len;
    }
    buf_fini(&left);
    return longest + 4; /* two spaces before it, two after */
}

void options_help(struct buf *b, const struct option_def *defs, size_t width)
{
    struct buf left = {0}, right = {0};
    size_t column = help_column(defs);
    for (const struct option_def *d = defs; d->flag; d++) {
        left.len = right.len = 0;
        write_spelling(&left, d);
        buf_str(&right, str_from(d->help));
        write_facts(&right, d);
        if (left.len + 4 > column)
            buf_print(b, "  %.*s\n%*s", STR_ARG(buf_view(&left)), (int)column, "");
        else
            buf_print(b, "  %-*.*s", (int)(column - 2), STR_ARG(buf_view(&left)));
        options_wrap(b, buf_view(&right), column, column, width);
        buf_byte(b, '\n');
    }
    buf_print(b, "  %-*s%s\n", (int)(column - 2), "-h, --help", "show this text");
    buf_fini(&left);
    buf_fini(&right);
}

void options_markdown(struct buf *b, const struct option_def *defs)
{
    buf_lit(b, "| Flag | Variable | Alias | Default | Meaning |\n|---|---|---|---|---|\n");
    for (const struct option_def *d = defs; d->flag; d++) {
        const char *def = d->def ? d->def : d->type == OPTION_SWITCH ? "off" : "";
        buf_lit(b, "| `");
        write_spelling(b, d);
        buf_print(b, "` | %s%s%s | %s%s%s | %s%s%s | %s", d->env ? "`" : "", d->env ? d->env : "",
                  d->env ? "`" : "", d->alias ? "`" : "", d->alias ? d->alias : "",
                  d->alias ? "`" : "", *def ? "`" : "", def, *def ? "`" : "", d->help);
        struct option_def bare = {.choices = d->choices};
        write_facts(b, &bare);
        buf_str(b, d->live ? STR(" ↻ |\n") : STR(" |\n"));
    }
}
