/* SPDX-License-Identifier: Apache-2.0 */
#include "base/re2.h"

#include <string.h>

#include "base/array.h"

#define REPEAT_MAX 1000
#define DEPTH_MAX  200
#define RUNE_MAX   0x10ffff
#define NAMES_MAX  32

/* How deep repetitions are in each other is limited by the product of their counts. */
struct group {
    bool fold, multi, dot, ungreedy; /* the flags i, m, s and U */
    int repeats;                     /* the largest product of counts within it */
    int last;                        /* that of its last item */
};

struct translation {
    struct str text;
    size_t pos;
    struct buf *out;
    size_t depth;
    struct group groups[DEPTH_MAX + 1]; /* the innermost is at `depth` */
    bool repeatable;                    /* there is an item that can be repeated */
    bool repeated;                      /* it is already */
    size_t end;                         /* of it in `out`: flags may follow */
    struct str names[NAMES_MAX];
    size_t name_count;
};

static struct err refuse(size_t at, const char *what)
{
    return err_at(ERR_BAD_VALUE, (int64_t)at, "%s (at offset %zu of the pattern)", what, at);
}

static struct str rest(const struct translation *t)
{
    return (struct str){t->text.at + t->pos, t->text.len - t->pos};
}

static int peek(const struct translation *t, size_t ahead)
{
    return t->pos + ahead < t->text.len ? (unsigned char)t->text.at[t->pos + ahead] : -1;
}

static struct group *innermost(struct translation *t)
{
    return &t->groups[t->depth];
}

static void begin_item(struct translation *t)
{
    struct group *g = innermost(t);
    g->last = 1;
    t->repeatable = true;
    t->repeated = false;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(int c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* --- characters --- */

/* What may mean something is escaped, and what is not seen is written by its number. */
static void write_rune(struct translation *t, uint32_t c, const char *special)
{
    if (c < ' ' || c >= 0x7f)
        buf_print(t->out, "\\x{%x}", (unsigned)c);
    else if (strchr(special, (int)c))
        buf_print(t->out, "\\%c", (char)c);
    else
        buf_byte(t->out, (char)c);
}

#define SPECIAL          "\\^$.|?*+()[]{}"
#define SPECIAL_IN_CLASS "\\^-[]:.="

/* The next character, which is there, as it stands. */
static uint32_t take_rune(struct translation *t)
{
    uint32_t c = (unsigned char)t->text.at[t->pos++];
    if (c < 0x80)
        return c;
    int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
    c &= 0x3fu >> more;
    for (; more > 0 && t->pos < t->text.len; more--)
        c = c << 6 | ((unsigned char)t->text.at[t->pos++] & 0x3fu);
    return c;
}

static int hex_of(int c)
{
    if (is_digit(c))
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Behind "\x". */
static bool take_hex(struct translation *t, uint32_t *c)
{
    *c = 0;
    if (peek(t, 0) != '{') {
        int high = hex_of(peek(t, 0)), low = high >= 0 ? hex_of(peek(t, 1)) : -1;
        *c = low >= 0 ? (uint32_t)(high * 16 + low) : 0;
        t->pos += 2;
        return low >= 0;
    }
    size_t digits = 0;
    for (t->pos++; hex_of(peek(t, 0)) >= 0 && *c <= RUNE_MAX; t->pos++, digits++)
        *c = *c * 16 + (uint32_t)hex_of(peek(t, 0));
    return peek(t, 0) == '}' && t->pos++ && digits && *c <= RUNE_MAX &&
           (*c < 0xd800 || *c > 0xdfff);
}

/* An octal number that begins with the digit before `pos`: at most three digits. */
static uint32_t take_octal(struct translation *t, int first)
{
    uint32_t c = (uint32_t)(first - '0');
    for (int i = 1; i < 3 && peek(t, 0) >= '0' && peek(t, 0) <= '7'; i++)
        c = c * 8 + (uint32_t)(t->text.at[t->pos++] - '0');
    return c;
}

/* The character that an escape stands for, from its backslash on. */
static struct err take_escape(struct translation *t, uint32_t *out)
{
    static const char names[] = "aftnrv", values[] = "\a\f\t\n\r\v";
    size_t at = t->pos++;
    int c = peek(t, 0);
    if (c < 0)
        return refuse(at, "a backslash ends the pattern");
    const char *name = strchr(names, c);
    t->pos++;
    if (c == '0' || (c >= '1' && c <= '7' && peek(t, 0) >= '0' && peek(t, 0) <= '7'))
        *out = take_octal(t, c);
    else if (c == 'x')
        return take_hex(t, out) ? err_none() : refuse(at, "an escape of no character");
    else if (name)
        *out = (unsigned char)values[name - names];
    else if (c < 0x80 && !is_alnum(c))
        *out = (uint32_t)c;
    else
        return refuse(at, is_digit(c) ? "RE2 has no back references" : "RE2 has no such escape");
    return err_none();
}

/* --- classes --- */

/* The set of \d, \s or \w, as it stands within brackets. */
static const char *perl_set(int c)
{
    return c == 'd' ? "0-9" : c == 's' ? "\\t\\n\\f\\r\\x{20}" : c == 'w' ? "0-9A-Za-z_" : NULL;
}

static bool is_perl(int c)
{
    return c > 0 && strchr("dswDSW", c);
}

/* \pN, \p{Greek}, \P{^Greek}, from the backslash on. */
static struct err take_property(struct translation *t)
{
    size_t at = t->pos;
    struct str name;
    bool negated = peek(t, 1) == 'P';
    t->pos += 2;
    if (peek(t, 0) == '{') {
        struct str left = rest(t);
        const char *end = memchr(left.at, '}', left.len);
        if (!end)
            return refuse(at, "a property without an end");
        name = (struct str){left.at + 1, (size_t)(end - left.at) - 1};
        t->pos += name.len + 2;
    } else {
        name = (struct str){t->text.at + t->pos, peek(t, 0) > 0};
        t->pos += name.len;
    }
    if (name.len && *name.at == '^') {
        negated = !negated;
        name = (struct str){name.at + 1, name.len - 1};
    }
    bool known = name.len && *name.at >= 'A' && *name.at <= 'Z' && *name.at != 'X';
    for (size_t i = 0; i < name.len; i++)
        known = known && (is_alnum(name.at[i]) || name.at[i] == '_');
    if (!known)
        return refuse(at, "an unknown property of characters");
    bool cased = str_eq(name, STR("Lu")) || str_eq(name, STR("Ll")) || str_eq(name, STR("Lt"));
    if (innermost(t)->fold && cased)
        name = STR("L&");
    buf_print(t->out, "\\%c{%.*s}", negated ? 'P' : 'p', STR_ARG(name));
    return err_none();
}

static const struct {
    struct str name;
    const char *set;
} posix[] = {
    {STR("alnum"), "0-9A-Za-z"},
    {STR("alpha"), "A-Za-z"},
    {STR("ascii"), "\\x{0}-\\x{7f}"},
    {STR("blank"), "\\t\\x{20}"},
    {STR("cntrl"), "\\x{0}-\\x{1f}\\x{7f}"},
    {STR("digit"), "0-9"},
    {STR("graph"), "!-~"},
    {STR("lower"), "a-z"},
    {STR("print"), "\\x{20}-~"},
    {STR("punct"), "!-\\/:-@\\[-`\\{-~"},
    {STR("space"), "\\t-\\r\\x{20}"},
    {STR("upper"), "A-Z"},
    {STR("word"), "0-9A-Za-z_"},
    {STR("xdigit"), "0-9A-Fa-f"},
};

/* "[:alpha:]" within brackets. *taken: it is one. */
static struct err take_posix(struct translation *t, bool *taken)
{
    struct str left = rest(t);
    const char *end = memmem(left.at + 2, left.len - 2, ":]", 2);
    *taken = end != NULL;
    if (!end)
        return err_none();
    struct str name = {left.at + 2, (size_t)(end - left.at) - 2};
    bool negated = name.len && *name.at == '^';
    if (negated)
        name = (struct str){name.at + 1, name.len - 1};
    for (size_t i = 0; i < COUNT(posix); i++) {
        if (!str_eq(name, posix[i].name))
            continue;
        if (negated)
            buf_print(t->out, "[:^%.*s:]", STR_ARG(name));
        else
            buf_str(t->out, str_from(posix[i].set));
        t->pos += (size_t)(end - left.at) + 2;
        return err_none();
    }
    return refuse(t->pos, "an unknown class of characters");
}

static struct err take_class_rune(struct translation *t, size_t open, uint32_t *c)
{
    if (peek(t, 0) < 0)
        return refuse(open, "a bracket without its end");
    if (peek(t, 0) == '\\')
        return take_escape(t, c);
    *c = take_rune(t);
    return err_none();
}

static struct err take_range(struct translation *t, size_t open)
{
    uint32_t from, to;
    size_t at = t->pos;
    TRY(take_class_rune(t, open, &from));
    to = from;
    if (peek(t, 0) == '-' && peek(t, 1) >= 0 && peek(t, 1) != ']') {
        t->pos++;
        TRY(take_class_rune(t, open, &to));
        if (to < from)
            return refuse(at, "a range from behind");
    }
    write_rune(t, from, SPECIAL_IN_CLASS);
    if (to == from)
        return err_none();
    buf_byte(t->out, '-');
    write_rune(t, to, SPECIAL_IN_CLASS);
    return err_none();
}

static void write_perl_in_class(struct translation *t, int c)
{
    const char *set = perl_set(c);
    if (set)
        buf_str(t->out, str_from(set));
    else if (c == 'S')
        buf_lit(t->out, "\\S\\x{b}");
    else
        buf_print(t->out, "\\%c", (char)c);
}

static struct err take_class_item(struct translation *t, size_t open)
{
    bool taken = false;
    if (peek(t, 0) == '[' && peek(t, 1) == ':' && peek(t, 2) >= 0)
        TRY(take_posix(t, &taken));
    if (taken)
        return err_none();
    if (peek(t, 0) == '\\' && (peek(t, 1) == 'p' || peek(t, 1) == 'P'))
        return take_property(t);
    if (peek(t, 0) != '\\' || !is_perl(peek(t, 1)))
        return take_range(t, open);
    write_perl_in_class(t, peek(t, 1));
    t->pos += 2;
    return err_none();
}

static struct err take_class(struct translation *t)
{
    size_t open = t->pos++;
    begin_item(t);
    buf_byte(t->out, '[');
    if (peek(t, 0) == '^') {
        buf_byte(t->out, '^');
        t->pos++;
    }
    for (bool first = true; first || peek(t, 0) != ']'; first = false)
        TRY(take_class_item(t, open));
    t->pos++;
    buf_byte(t->out, ']');
    return err_none();
}

/* --- repetitions --- */

static bool take_count(struct translation *t, int *n)
{
    size_t at = t->pos;
    *n = 0;
    for (; is_digit(peek(t, 0)); t->pos++)
        *n = *n > REPEAT_MAX ? *n : *n * 10 + (peek(t, 0) - '0');
    size_t digits = t->pos - at;
    return digits == 1 || (digits > 1 && t->text.at[at] != '0');
}

/* "{2}", "{2,}", "{2,3}"; *most: -1 without an end. False, and nothing taken: something else. */
static bool take_counts(struct translation *t, int *least, int *most)
{
    size_t at = t->pos++;
    bool good = take_count(t, least);
    *most = *least;
    if (good && peek(t, 0) == ',') {
        t->pos++;
        *most = -1;
        good = peek(t, 0) == '}' || take_count(t, most);
    }
    good = good && peek(t, 0) == '}';
    t->pos = good ? t->pos + 1 : at;
    return good;
}

/* A repetition by a count; the items within it may have counts of their own. */
static struct err limit_counts(struct translation *t, size_t at, int least, int most)
{
    struct group *g = innermost(t);
    int n = most < 0 ? least : most;
    if (least > REPEAT_MAX || most > REPEAT_MAX || (most >= 0 && least > most))
        return refuse(at, "RE2 repeats at most 1000 times");
    if (n == 0)
        g->last = 1;
    else if (g->last > REPEAT_MAX / n)
        return refuse(at, "RE2 repeats at most 1000 times, in all");
    else
        g->last *= n;
    if (g->last > g->repeats)
        g->repeats = g->last;
    return err_none();
}

/* To RE2 flags are no item: in "a(?i)+" the sign repeats the "a". */
static void insert(struct buf *b, size_t at, struct str text)
{
    size_t moved = b->len - at;
    buf_str(b, text);
    memmove(b->at + at + text.len, b->at + at, moved);
    memcpy(b->at + at, text.at, text.len);
}

static struct err take_repeat(struct translation *t, size_t at)
{
    if (!t->repeatable)
        return refuse(at, "there is nothing to repeat");
    if (t->repeated)
        return refuse(at, "a repetition of a repetition");
    if (peek(t, 0) == '?')
        t->pos++;
    insert(t->out, t->end, (struct str){t->text.at + at, t->pos - at});
    t->repeated = true;
    return err_none();
}

static struct err take_braces(struct translation *t)
{
    size_t at = t->pos;
    int least, most;
    if (!take_counts(t, &least, &most)) {
        t->pos++;
        begin_item(t);
        buf_lit(t->out, "\\{");
        return err_none();
    }
    if (t->repeatable && !t->repeated)
        TRY(limit_counts(t, at, least, most));
    return take_repeat(t, at);
}

/* --- groups --- */

static struct err open_group(struct translation *t, size_t at)
{
    if (t->depth == DEPTH_MAX)
        return refuse(at, "groups too deep in each other");
    struct group *g = innermost(t);
    t->groups[t->depth + 1] = *g;
    t->depth++;
    g[1].repeats = g[1].last = 1;
    t->repeatable = t->repeated = false;
    return err_none();
}

static struct err close_group(struct translation *t)
{
    size_t at = t->pos++;
    if (t->depth == 0)
        return refuse(at, "a parenthesis that was not opened");
    int inner = innermost(t)->repeats;
    t->depth--;
    begin_item(t);
    innermost(t)->last = inner;
    if (inner > innermost(t)->repeats)
        innermost(t)->repeats = inner;
    buf_byte(t->out, ')');
    return err_none();
}

static struct err take_name(struct translation *t, size_t at)
{
    struct str left = rest(t);
    const char *end = memchr(left.at, '>', left.len);
    struct str name = {left.at, end ? (size_t)(end - left.at) : 0};
    bool good = name.len > 0;
    for (size_t i = 0; i < name.len; i++)
        good = good && (is_alnum(name.at[i]) || name.at[i] == '_');
    for (size_t i = 0; i < t->name_count; i++)
        good = good && !str_eq(t->names[i], name);
    if (!good || t->name_count == NAMES_MAX)
        return refuse(at, "a malformed or repeated name of a group, or too many of them");
    t->names[t->name_count++] = name;
    t->pos += name.len + 1;
    buf_byte(t->out, '(');
    return open_group(t, at);
}

static bool set_flag(struct group *g, int c, bool on)
{
    bool *flag = c == 'i'   ? &g->fold
                 : c == 'm' ? &g->multi
                 : c == 's' ? &g->dot
                 : c == 'U' ? &g->ungreedy
                            : NULL;
    if (flag)
        *flag = on;
    return flag;
}

static void write_changed(struct translation *t, const struct group *from, const struct group *to,
                          bool on)
{
    const char *sign = on ? "" : "-";
    const struct {
        bool from, to;
        const char *name;
    } flags[] = {{from->fold, to->fold, "i"},
                 {from->dot, to->dot, "s"},
                 {from->ungreedy, to->ungreedy, "U"}};
    for (size_t i = 0; i < COUNT(flags); i++) {
        if (flags[i].from == flags[i].to || flags[i].to != on)
            continue;
        buf_print(t->out, "%s%s", sign, flags[i].name);
        sign = "";
    }
}

/* Those that change, for PCRE2: the flag m is not among them, see take_edge. */
static void write_flags(struct translation *t, const struct group *from, const struct group *to,
                        char end)
{
    size_t before = t->out->len;
    buf_lit(t->out, "(?");
    write_changed(t, from, to, true);
    write_changed(t, from, to, false);
    if (t->out->len == before + 2 && end == ')')
        t->out->len = before; /* nothing to say */
    else
        buf_byte(t->out, end);
}

/* "(?i-s)", "(?i:"; from behind the question mark on. */
static struct err take_flags(struct translation *t, size_t at)
{
    struct group flags = *innermost(t);
    bool on = true, any = true;
    for (; peek(t, 0) >= 0; t->pos++) {
        int c = peek(t, 0);
        if (c == '-' && on) {
            on = any = false;
        } else if (set_flag(&flags, c, on)) {
            any = true;
        } else {
            break;
        }
    }
    int end = peek(t, 0);
    if (!any || (end != ')' && end != ':'))
        return refuse(at, "RE2 has no such group");
    t->pos++;
    write_flags(t, innermost(t), &flags, (char)end);
    if (end == ':')
        TRY(open_group(t, at));
    struct group *g = innermost(t);
    flags.repeats = g->repeats;
    flags.last = g->last;
    *g = flags;
    if (end == ':')
        t->repeatable = t->repeated = false;
    return err_none();
}

static struct err take_open(struct translation *t)
{
    size_t at = t->pos++;
    if (peek(t, 0) != '?') {
        buf_byte(t->out, '(');
        return open_group(t, at);
    }
    t->pos++;
    bool p = peek(t, 0) == 'P' && peek(t, 1) == '<';
    bool plain = peek(t, 0) == '<' && peek(t, 1) != '=' && peek(t, 1) != '!';
    if (!p && !plain)
        return take_flags(t, at);
    t->pos += p ? 2 : 1;
    return take_name(t, at);
}

/* --- the rest --- */

/* What matches between characters: PCRE2 repeats only groups of them. */
static void write_edge(struct translation *t, const char *edge)
{
    begin_item(t);
    int next = peek(t, 0);
    bool group = next == '*' || next == '+' || next == '?' || next == '{';
    buf_print(t->out, group ? "(?:%s)" : "%s", edge);
}

/* In PCRE2 '$' may match before a last line feed, and "(?m)^" not behind it. */
static void take_edge(struct translation *t)
{
    bool multi = innermost(t)->multi, start = t->text.at[t->pos++] == '^';
    write_edge(t, start ? (multi ? "(?<![^\\n])" : "^") : (multi ? "(?![^\\n])" : "\\z"));
}

static void take_quote(struct translation *t)
{
    t->pos += 2;
    struct str left = rest(t);
    const char *end = memmem(left.at, left.len, "\\E", 2);
    size_t stop = end ? (size_t)(end - t->text.at) : t->text.len;
    while (t->pos < stop) {
        begin_item(t);
        write_rune(t, take_rune(t), SPECIAL);
    }
    t->pos += end ? 2 : 0;
}

static struct err take_backslash(struct translation *t)
{
    int c = peek(t, 1);
    uint32_t rune;
    if (c == 'A' || c == 'z' || c == 'b' || c == 'B') {
        const char edge[] = {'\\', (char)c, '\0'};
        t->pos += 2;
        write_edge(t, edge);
        return err_none();
    }
    if (c == 'Q') {
        take_quote(t);
        return err_none();
    }
    begin_item(t);
    if (c == 'p' || c == 'P')
        return take_property(t);
    if (is_perl(c)) {
        bool negated = c < 'a';
        buf_print(t->out, "[%s%s]", negated ? "^" : "", perl_set(c | 32));
        t->pos += 2;
        return err_none();
    }
    TRY(take_escape(t, &rune));
    write_rune(t, rune, SPECIAL);
    return err_none();
}

static void take_plain(struct translation *t)
{
    uint32_t c = take_rune(t);
    if (c == '|') {
        buf_byte(t->out, '|');
        t->repeatable = t->repeated = false;
        return;
    }
    begin_item(t);
    if (c == '.')
        buf_byte(t->out, '.');
    else
        write_rune(t, c, SPECIAL);
}

static struct err take_item(struct translation *t)
{
    switch (peek(t, 0)) {
    case '(':
        return take_open(t);
    case ')':
        return close_group(t);
    case '[':
        return take_class(t);
    case '\\':
        return take_backslash(t);
    case '{':
        return take_braces(t);
    case '*':
    case '+':
    case '?':
        t->pos++;
        return take_repeat(t, t->pos - 1);
    case '^':
    case '$':
        take_edge(t);
        return err_none();
    default:
        take_plain(t);
        return err_none();
    }
}

/* Whether what began at that place were flags for what follows. */
static bool is_of_flags(const struct translation *t, size_t at)
{
    return t->text.at[at] == '(' && t->text.at[t->pos - 1] == ')';
}

struct err re2_translate(struct str text, struct buf *out)
{
    struct translation t = {.text = text, .out = out, .groups[0] = {.repeats = 1, .last = 1}};
    while (t.pos < text.len) {
        size_t at = t.pos;
        TRY(take_item(&t));
        if (!is_of_flags(&t, at))
            t.end = out->len;
    }
    return t.depth ? refuse(text.len, "a parenthesis without its end") : err_none();
}
