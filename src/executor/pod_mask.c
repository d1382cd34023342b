/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/pod_mask.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/base64.h"
#include "base/utf8.h"
#include "wire/field.h"

#define LINE_MIN 8 /* bytes of a line of a secret that has several */

struct list {
    struct str *at;
    size_t count, cap;
};

static void add(struct list *l, struct arena *a, struct str secret)
{
    if (secret.len < POD_MASK_MIN)
        return;
    ARENA_GROW(a, l->at, l->count, l->cap, 8);
    l->at[l->count++] = secret;
}

/* --- what is a secret --- */

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* word is in capitals. */
static bool has_at(struct str s, size_t i, struct str word)
{
    for (size_t k = 0; k < word.len; k++)
        if (i + k >= s.len || upper(s.at[i + k]) != word.at[k])
            return false;
    return true;
}

static bool is_letter(char c)
{
    return upper(c) >= 'A' && upper(c) <= 'Z';
}

/* Anywhere in a name, or only as a word of its own: DB_PASS, but not COMPASS. */
static bool is_secret_name(struct str name)
{
    static const struct {
        struct str word;
        bool whole;
    } words[] = {
        {STR("SECRET"), false},       {STR("TOKEN"), false},      {STR("PASSWORD"), false},
        {STR("PASSWD"), false},       {STR("PASSPHRASE"), false}, {STR("CREDENTIAL"), false},
        {STR("APIKEY"), false},       {STR("PRIVATE"), true},     {STR("PASS"), true},
        {STR("PWD"), true},           {STR("KEY"), true},         {STR("AUTH"), true},
        {STR("AUTHORIZATION"), true}, {STR("COOKIE"), true},      {STR("DSN"), true},
        {STR("CREDS"), true},         {STR("WEBHOOK"), true},
    };
    for (size_t i = 0; i < name.len; i++)
        for (size_t k = 0; k < COUNT(words); k++) {
            struct str w = words[k].word;
            bool begins = i == 0 || !is_letter(name.at[i - 1]);
            bool ends = i + w.len >= name.len || !is_letter(name.at[i + w.len]);
            if (has_at(name, i, w) && (!words[k].whole || (begins && ends)))
                return true;
        }
    return false;
}

/* What such a variable may say without being a secret. */
static bool is_plain_word(struct str value)
{
    static const char *const words[] = {"true", "false", "none", "null", "basic", "bearer"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (strlen(words[i]) == value.len && strncasecmp(words[i], value.at, value.len) == 0)
            return true;
    return false;
}

/* By how it begins, whatever its variable is called. */
static bool is_secret_value(struct str value)
{
    static const char *const starts[] = {"ghp_",  "gho_",   "ghs_", "github_pat_", "glpat-",
                                         "xoxb-", "xoxp-",  "AKIA", "sk-",         "eyJ",
                                         "npm_",  "dop_v1", "hvs.", "-----BEGIN "};
    for (size_t i = 0; i < COUNT(starts); i++) {
        size_t n = strlen(starts[i]);
        if (value.len >= n + 8 && memcmp(value.at, starts[i], n) == 0)
            return true;
    }
    return false;
}

/* --- the environment --- */

static void add_secret(struct list *l, struct arena *a, struct str value)
{
    struct buf encoded = {0};
    add(l, a, value);
    if (value.len >= POD_MASK_MIN) {
        base64_write(&encoded, value);
        add(l, a, arena_copy(a, buf_view(&encoded)));
        encoded.len = 0;
        json_write_text(&encoded, value);
        if (encoded.len > value.len)
            add(l, a, arena_copy(a, buf_view(&encoded)));
        buf_fini(&encoded);
    }
    for (size_t from = 0; from < value.len;) {
        const char *end = memchr(value.at + from, '\n', value.len - from);
        size_t len = end ? (size_t)(end - value.at) - from : value.len - from;
        struct str line = {value.at + from,
                           len && value.at[from + len - 1] == '\r' ? len - 1 : len};
        if (line.len >= LINE_MIN && line.len < value.len)
            add(l, a, line);
        from += len + 1;
    }
}

/* scheme://user:PASSWORD@host, as often as it occurs. */
static void add_passwords(struct list *l, struct arena *a, struct str value)
{
    const char *end = value.at + value.len, *at = value.at;
    while (at < end && (at = memmem(at, (size_t)(end - at), "://", 3))) {
        at += 3;
        size_t authority = 0;
        while (at + authority < end && !memchr("/?# \t\n\"'", at[authority], 9))
            authority++;
        const char *host = memrchr(at, '@', authority);
        const char *colon = host ? memchr(at, ':', (size_t)(host - at)) : NULL;
        if (colon)
            add(l, a, (struct str){colon + 1, (size_t)(host - colon) - 1});
        at += authority;
    }
}

struct variable {
    struct str name, value;
};

static const struct field variable_table[] = {
    {"name", false, field_text, offsetof(struct variable, name), true},
    {"value", false, field_text, offsetof(struct variable, value), true},
};

static struct err read_env(struct json_cursor *c, struct arena *a, void *list)
{
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        struct variable v = {0};
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        TRY(field_read_object(false, c, a, variable_table, COUNT(variable_table), &v));
        if (v.value.len == 0)
            continue;
        if (is_secret_value(v.value) || (is_secret_name(v.name) && !is_plain_word(v.value)))
            add_secret(list, a, v.value);
        add_passwords(list, a, v.value);
        if (((struct list *)list)->count > POD_MASK_MAX)
            return err_make(ERR_TOO_MANY, "more than %d secrets", POD_MASK_MAX);
    }
}

static const struct field container_table[] = {
    {"env", false, read_env, 0, true},
};

static struct err read_containers(struct json_cursor *c, struct arena *a, void *list)
{
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        TRY(field_read_object(false, c, a, container_table, COUNT(container_table), list));
    }
}

static const struct field spec_table[] = {
    {"initContainers", false, read_containers, 0, true},
    {"containers", false, read_containers, 0, true},
    {"ephemeralContainers", false, read_containers, 0, true},
};

static struct err read_spec(struct json_cursor *c, struct arena *a, void *list)
{
    return field_read_object(false, c, a, spec_table, COUNT(spec_table), list);
}

static const struct field pod_table[] = {
    {"spec", false, read_spec, 0, true},
};

static int longest_first(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    return x->len == y->len ? str_cmp(*x, *y) : x->len < y->len ? 1 : -1;
}

struct err pod_mask_read(struct str pod, struct arena *a, struct pod_mask *out)
{
    struct list l = {0};
    struct json_cursor c = json_open(pod);
    TRY(field_read_object(false, &c, a, pod_table, COUNT(pod_table), &l));
    TRY(json_close(&c));
    if (l.count)
        qsort(l.at, l.count, sizeof *l.at, longest_first);
    *out = (struct pod_mask){.secrets = l.at, .count = l.count};
    return err_none();
}

/* --- masking --- */

static size_t secret_at(const struct pod_mask *m, struct str text)
{
    for (size_t i = 0; i < m->count; i++) {
        struct str s = m->secrets[i];
        if (s.len <= text.len && s.at[0] == text.at[0] && memcmp(s.at, text.at, s.len) == 0)
            return s.len;
    }
    return 0;
}

/* The longest end of a secret that the text begins with; of whole ones others take care. */
static size_t cut_off_start(const struct pod_mask *m, struct str text)
{
    size_t most = 0;
    for (size_t i = 0; i < m->count; i++) {
        struct str s = m->secrets[i];
        for (size_t n = s.len - 1; n >= POD_MASK_MIN && n > most; n--)
            if (n <= text.len && memcmp(s.at + s.len - n, text.at, n) == 0)
                most = n;
    }
    return most;
}

/* The longest beginning of a secret that the text ends with. */
static size_t cut_off_end(const struct pod_mask *m, struct str text)
{
    size_t most = 0;
    for (size_t i = 0; i < m->count; i++) {
        struct str s = m->secrets[i];
        for (size_t n = s.len - 1; n >= POD_MASK_MIN && n > most; n--)
            if (n <= text.len && memcmp(s.at, text.at + text.len - n, n) == 0)
                most = n;
    }
    return most;
}

/* Of bytes that hold no secret. */
static void add_valid(struct buf *out, struct str text)
{
    while (text.len) {
        size_t good = utf8_check(text);
        buf_add(out, text.at, good);
        if (good == text.len)
            return;
        buf_lit(out, "\xef\xbf\xbd");
        text = (struct str){text.at + good + 1, text.len - good - 1};
    }
}

void pod_mask_apply(const struct pod_mask *m, struct str text, bool cut_start, bool cut_end,
                    struct buf *out)
{
    if (m->all) {
        buf_lit(out, POD_MASK_TEXT);
        return;
    }
    size_t from = 0, before = cut_start ? cut_off_start(m, text) : 0;
    if (before) {
        buf_lit(out, POD_MASK_TEXT);
        from = before;
    }
    size_t after = cut_end ? cut_off_end(m, (struct str){text.at + from, text.len - from}) : 0;
    size_t end = text.len - after;
    for (size_t i = from; i < end;) {
        size_t len = secret_at(m, (struct str){text.at + i, text.len - i});
        if (len == 0) {
            i++;
            continue;
        }
        add_valid(out, (struct str){text.at + from, i - from});
        buf_lit(out, POD_MASK_TEXT);
        from = i += len;
    }
    if (from < end)
        add_valid(out, (struct str){text.at + from, end - from});
    if (after && from <= end)
        buf_lit(out, POD_MASK_TEXT);
}

struct str pod_mask_tail(struct str text, size_t max)
{
    if (text.len <= max)
        return text;
    size_t from = text.len - max;
    const char *end = text.at + text.len;
    const char *feed =
        text.at[from - 1] == '\n' ? text.at + from - 1 : memchr(text.at + from, '\n', max);
    if (feed && feed + 1 < end)
        from = (size_t)(feed - text.at) + 1;
    while (from < text.len && ((unsigned char)text.at[from] & 0xc0) == 0x80)
        from++;
    return (struct str){text.at + from, text.len - from};
}
