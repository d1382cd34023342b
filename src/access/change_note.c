/* SPDX-License-Identifier: Apache-2.0 */
#include "access/change_note.h"

#include <stddef.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "base/log.h"
#include "base/must.h"
#include "base/utf8.h"

static const char *const words[ACTOR_KINDS] = {
    [ACTOR_ANONYMOUS] = "anonymous",
    [ACTOR_TOKEN] = "token",
    [ACTOR_CERTIFICATE] = "certificate",
    [ACTOR_JWT] = "jwt",
    [ACTOR_HAWK] = "hawk",
    [ACTOR_SERVER] = "server",
};

/* Its members of text: where they are, and how many bytes of them are kept. A byte
 * takes six in JSON at most ("\u0001"). */
static const struct {
    const char *name;
    size_t at, most;
} members[] = {
    {"id", offsetof(struct change_note, actor.id), 256},
    {"name", offsetof(struct change_note, actor.name), 128},
    {"issuer", offsetof(struct change_note, actor.issuer), 256},
    {"address", offsetof(struct change_note, address), 64},
    {"operation", offsetof(struct change_note, operation), 64},
    {"path", offsetof(struct change_note, path), 512},
    {"query", offsetof(struct change_note, query), 512},
    {"body", offsetof(struct change_note, body), 3072},
};

static struct str *member_at(struct change_note *n, size_t i)
{
    return (struct str *)(void *)((char *)n + members[i].at);
}

const char *actor_word(enum actor_kind kind)
{
    return words[kind];
}

bool actor_parse(struct str word, enum actor_kind *kind)
{
    for (int i = 0; i < ACTOR_KINDS; i++) {
        if (!str_eq(word, str_from(words[i])))
            continue;
        *kind = (enum actor_kind)i;
        return true;
    }
    return false;
}

/* --- writing --- */

/* Bytes that are no characters become '?'; a character at the end is not cut in two. */
static void write_text(struct buf *b, struct str text, size_t most)
{
    static const struct str dots = {"\xe2\x80\xa6", 3};
    bool cut = text.len > most;
    struct str rest = {text.at, cut ? most - dots.len : text.len};
    buf_byte(b, '"');
    while (rest.len) {
        size_t good = utf8_check(rest);
        json_write_text(b, (struct str){rest.at, good});
        rest = (struct str){rest.at + good, rest.len - good};
        bool at_end = cut && rest.len < 4;
        if (rest.len && !at_end)
            buf_byte(b, '?');
        rest = at_end ? (struct str){0} : (struct str){rest.at + !!rest.len, rest.len - !!rest.len};
    }
    if (cut)
        buf_str(b, dots);
    buf_byte(b, '"');
}

void change_note_write(const struct change_note *n, struct buf *b)
{
    size_t before = b->len;
    struct change_note copy = *n;
    buf_print(b, "{\"kind\":\"%s\"", words[n->actor.kind]);
    for (size_t i = 0; i < COUNT(members); i++) {
        const struct str *text = member_at(&copy, i);
        if (text->len == 0)
            continue;
        buf_print(b, ",\"%s\":", members[i].name);
        write_text(b, *text, members[i].most);
    }
    buf_byte(b, '}');
    must(b->len - before <= CHANGE_NOTE_MAX);
}

/* --- reading --- */

static struct err read_text(struct json_cursor *c, struct arena *a, struct str *text)
{
    struct json_string s;
    TRY(json_read_string(c, &s));
    return json_text(s, a, text);
}

static struct err read_member(struct json_cursor *c, struct str name, struct arena *a,
                              struct change_note *n)
{
    struct str word;
    if (str_eq(name, STR("kind"))) {
        TRY(read_text(c, a, &word));
        return actor_parse(word, &n->actor.kind) ? err_none()
                                                 : err_make(ERR_CORRUPT, "an actor of no kind");
    }
    for (size_t i = 0; i < COUNT(members); i++)
        if (str_eq(name, str_from(members[i].name)))
            return read_text(c, a, member_at(n, i));
    return json_skip(c, NULL);
}

static struct err read_note(struct str text, struct arena *a, struct change_note *n)
{
    struct json_cursor c = json_open(text);
    TRY(json_enter_object(&c));
    for (bool more;;) {
        struct json_string key;
        TRY(json_next_member(&c, &more, &key));
        if (!more)
            return json_close(&c);
        TRY(read_member(&c, key.raw, a, n));
    }
}

struct err change_note_read(struct str text, struct arena *a, struct change_note *n)
{
    *n = (struct change_note){0};
    struct err err = read_note(text, a, n);
    return err.code == ERR_OK ? err
                              : err_make(ERR_CORRUPT, "not a note of a change: %.160s", err.msg);
}

/* --- in the log --- */

#define LOGGED_MAX 256 /* bytes of a member */

/* One word of printable characters, so that nobody can forge a line. */
static void write_harmless(char to[LOGGED_MAX], struct str text)
{
    size_t n = text.len < LOGGED_MAX - 1 ? text.len : LOGGED_MAX - 1;
    for (size_t i = 0; i < n; i++)
        to[i] = (char)(text.at[i] > ' ' && text.at[i] <= '~' ? text.at[i] : '?');
    to[n] = '\0';
}

void change_note_log(const struct change_note *n)
{
    char texts[6][LOGGED_MAX];
    const struct str from[] = {n->operation, n->actor.id, n->actor.name,
                               n->address,   n->path,     n->query};
    for (size_t i = 0; i < COUNT(from); i++)
        write_harmless(texts[i], from[i]);
    const char *const fields[] = {"operation", texts[0], "actor", actor_word(n->actor.kind),
                                  "id",        texts[1], "name",  texts[2],
                                  "address",   texts[3], "path",  texts[4],
                                  "query",     texts[5], NULL};
    log_fields(LOG_INFO, "change asked for", fields);
}
