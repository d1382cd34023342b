/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fingerprint.h"

#include <string.h>

#include "base/buf.h"
#include "base/strmap.h"

#define HEX_MIN  8  /* digits of a word that is taken for hexadecimal */
#define ID_MIN   16 /* characters of a word of letters and digits that is taken for an id */
#define UUID_LEN 36

/* Never changed: it is a part of every fingerprint. */
#define SEED UINT64_C(0x74656e6178)

struct simplify {
    struct str in;
    size_t at;
    char *out;
    size_t len;
    bool full;
};

/* --- characters --- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Of a word. All of a character beyond ASCII is a letter. */
static bool is_word(char c)
{
    return is_digit(c) || is_letter(c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_blank(char c)
{
    return (unsigned char)c <= ' ' || c == 0x7f;
}

/* '\0' beyond the end. */
static char peek(const struct simplify *s, size_t ahead)
{
    return ahead < s->in.len - s->at ? s->in.at[s->at + ahead] : '\0';
}

static bool is_boundary(const struct simplify *s)
{
    return s->at == 0 || !is_word(s->in.at[s->at - 1]);
}

/* --- writing --- */

/* All of it or nothing; from the first on that has no room nothing is written. */
static void put(struct simplify *s, const char *text, size_t n)
{
    s->full = s->full || n > FINGERPRINT_MESSAGE_MAX - s->len;
    if (s->full)
        return;
    memcpy(s->out + s->len, text, n);
    s->len += n;
}

static void replace(struct simplify *s, const char *placeholder, size_t n)
{
    put(s, placeholder, strlen(placeholder));
    s->at += n;
}

/* A character of one byte or more. */
static void copy(struct simplify *s)
{
    size_t n = 1;
    if ((unsigned char)peek(s, 0) >= 0xc0)
        while (((unsigned char)peek(s, n) & 0xc0) == 0x80)
            n++;
    put(s, s->in.at + s->at, n);
    s->at += n;
}

/* --- what is replaced: its length, or 0 if it is not there --- */

static size_t uuid(const struct simplify *s)
{
    for (size_t i = 0; i < UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? peek(s, i) != '-' : !is_hex(peek(s, i)))
            return 0;
    }
    return is_word(peek(s, UUID_LEN)) ? 0 : UUID_LEN;
}

static size_t url(const struct simplify *s)
{
    size_t n = 0;
    while (is_letter(peek(s, n)))
        n++;
    if (n == 0 || peek(s, n) != ':' || peek(s, n + 1) != '/' || peek(s, n + 2) != '/')
        return 0;
    for (n += 3;
         n < s->in.len - s->at && !is_blank(peek(s, n)) && !strchr("\"'`<>()[]{},;", peek(s, n));)
        n++;
    return n;
}

static bool is_of_path(char c)
{
    return is_word(c) || (c && strchr("/\\.-+@%~=:", c));
}

/* How much introduces a path: "/", "./", "../", "~/", "C:\". */
static size_t root_of_path(const struct simplify *s)
{
    size_t n = 0;
    if (is_letter(peek(s, 0)))
        return peek(s, 1) == ':' && peek(s, 2) == '\\' ? 3 : 0;
    while (n < 2 && peek(s, n) == '.')
        n++;
    n += n == 0 && peek(s, 0) == '~';
    return peek(s, n) == '/' ? n + 1 : 0;
}

static size_t path(const struct simplify *s)
{
    size_t n = root_of_path(s);
    if (n == 0 || !(is_word(peek(s, n)) || peek(s, n) == '.'))
        return 0;
    while (is_of_path(peek(s, n)))
        n++;
    while (strchr(".:=", peek(s, n - 1)))
        n--; /* of the sentence around it */
    return n;
}

/* A word that is hexadecimal or an id; *what is its placeholder. */
static size_t coded_word(const struct simplify *s, const char **what)
{
    size_t n = 0, digits = 0, letters = 0, hex = 0;
    bool prefixed = peek(s, 0) == '0' && (peek(s, 1) == 'x' || peek(s, 1) == 'X');
    for (; is_digit(peek(s, n)) || is_letter(peek(s, n)); n++) {
        digits += is_digit(peek(s, n));
        letters += is_letter(peek(s, n));
        hex += is_hex(peek(s, n));
    }
    if (is_word(peek(s, n)))
        return 0;
    *what = "<hex>";
    if (prefixed && n > 2 && hex == n - 1)
        return n;
    if (!digits || !letters)
        return 0;
    if (hex == n && n >= HEX_MIN)
        return n;
    *what = "<id>";
    return n >= ID_MIN ? n : 0;
}

/* "12", "1,234.5", "10.0.0.1:80", "12:30:45", "2026-11-23" */
static size_t number(const struct simplify *s)
{
    size_t n = 0;
    while (is_digit(peek(s, n)))
        for (n++; peek(s, n) && strchr(".,:-", peek(s, n)) && is_digit(peek(s, n + 1));)
            n++;
    return n;
}

/* An apostrophe inside of a word opens nothing and closes nothing. */
static size_t quoted(const struct simplify *s)
{
    char mark = peek(s, 0);
    if (mark != '"' && mark != '\'' && mark != '`')
        return 0;
    for (size_t n = 1; n < s->in.len - s->at; n++)
        if (peek(s, n) == mark && peek(s, n - 1) != '\\' && !is_word(peek(s, n + 1)))
            return n + 1;
    return 0;
}

/* --- all of it --- */

static bool replace_word(struct simplify *s)
{
    const char *what = "<id>";
    size_t n = uuid(s);
    if (n == 0)
        n = coded_word(s, &what);
    if (n == 0 && (n = url(s)))
        what = "<url>";
    if (n == 0 && (n = path(s)))
        what = "<path>";
    if (n == 0 && (n = quoted(s)))
        what = "<text>";
    if (n)
        replace(s, what, n);
    return n > 0;
}

static void step(struct simplify *s)
{
    char c = peek(s, 0);
    if (is_blank(c)) {
        if (s->len && s->out[s->len - 1] != ' ')
            put(s, " ", 1);
        s->at++;
    } else if (!is_boundary(s) || !replace_word(s)) {
        if (is_digit(c))
            replace(s, "<n>", number(s));
        else
            copy(s);
    }
}

struct str fingerprint_message(struct str message, char room[FINGERPRINT_MESSAGE_MAX])
{
    struct simplify s = {.in = message, .out = room};
    if (s.in.len > FINGERPRINT_LOOK_MAX)
        s.in.len = FINGERPRINT_LOOK_MAX;
    while (s.at < s.in.len && !s.full)
        step(&s);
    while (s.len && room[s.len - 1] == ' ')
        s.len--;
    return (struct str){room, s.len};
}

/* With its length in front, so that parts cannot run into each other. */
static void add_text(struct buf *b, struct str text)
{
    buf_int(b, (int64_t)text.len);
    buf_byte(b, ':');
    buf_str(b, text);
}

uint64_t fingerprint_of(const struct job *job, enum outcome outcome, const struct failure *f)
{
    char room[FINGERPRINT_MESSAGE_MAX];
    const char *condition = job_condition_name(f->condition);
    struct buf b = {0};
    add_text(&b, job->queue);
    add_text(&b, job->type);
    add_text(&b, str_from(job_outcome_name(outcome)));
    add_text(&b, f->error_type);
    add_text(&b, fingerprint_message(f->message, room));
    add_text(&b, f->category);
    add_text(&b, str_from(condition ? condition : ""));
    buf_int(&b, f->exit_code);
    buf_byte(&b, '/');
    buf_int(&b, f->signal);
    uint64_t hash = strmap_hash(SEED, buf_view(&b));
    buf_fini(&b);
    return hash ? hash : 1;
}

void fingerprint_format(uint64_t fingerprint, char out[FINGERPRINT_TEXT_LEN])
{
    for (int i = FINGERPRINT_TEXT_LEN; i-- > 0; fingerprint >>= 4)
        out[i] = "0123456789abcdef"[fingerprint & 15];
}

bool fingerprint_parse(struct str text, uint64_t *fingerprint)
{
    *fingerprint = 0;
    if (text.len != FINGERPRINT_TEXT_LEN)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (!is_digit(c) && !(c >= 'a' && c <= 'f'))
            return false;
        *fingerprint = *fingerprint << 4 | (unsigned)(is_digit(c) ? c - '0' : c - 'a' + 10);
    }
    return *fingerprint != 0;
}
