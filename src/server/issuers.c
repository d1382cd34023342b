/* SPDX-License-Identifier: Apache-2.0 */
#include "server/issuers.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "net/fetch.h"

#define PERIOD_MS  (10 * 60 * 1000)
#define RETRY_MS   10000
#define PAUSE_MS   5000 /* between two readings that tokens ask for */
#define ANSWER_MAX ((size_t)1 << 20)
#define TOKEN_MAX  16384

struct issuer {
    struct issuers *all;
    size_t index;
    struct fetch *fetch;        /* NULL: none is under way */
    bool discovering;           /* it is the discovery document, not the keys */
    bool failing;               /* the log has said so */
    uint64_t begun_at, next_at; /* by the loop's clock */
};

struct issuers {
    struct identities *identities; /* NULL: nothing to follow yet */
    uv_loop_t *loop;
    instant (*now)(void *ctx);
    uv_timer_t timer;
    struct fetcher *fetcher;
    struct issuer each[IDENTITY_ISSUERS_MAX];
};

static const struct identity_issuer *settings_of(const struct issuer *s)
{
    return &identities_rules(s->all->identities)->issuers[s->index];
}

static void plan(struct issuers *all);

static void settle(struct issuer *s, const struct err *err)
{
    struct str name = settings_of(s)->issuer;
    s->fetch = NULL;
    s->next_at = uv_now(s->all->loop) + (err->code == ERR_OK ? PERIOD_MS : RETRY_MS);
    if (err->code != ERR_OK && !s->failing)
        log_warn("access: the keys of the issuer %.*s cannot be read: %s", STR_ARG(name), err->msg);
    else if (err->code == ERR_OK && s->failing)
        log_info("access: the keys of the issuer %.*s are read again", STR_ARG(name));
    s->failing = err->code != ERR_OK;
    plan(s->all);
}

/* --- asking --- */

static void on_answer(void *ctx, const struct fetch_answer *answer);

/* "Authorization: Bearer …", or nothing. What is in the file may change at any time. */
static struct err write_bearer(struct str file, struct arena *a, struct buf *header)
{
    char text[TOKEN_MAX];
    char *path = arena_get(a, file.len + 1);
    memcpy(path, file.at, file.len);
    path[file.len] = '\0';
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (f)
        fclose(f);
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
        n--;
    if (!n || n == sizeof text || memchr(text, '\n', n) || memchr(text, '\r', n))
        return err_make(ERR_IO, "there is no token in %.100s", path);
    buf_lit(header, "Authorization: Bearer ");
    buf_add(header, text, n);
    buf_byte(header, '\0');
    return err_none();
}

static const char *c_text(struct arena *a, struct str text)
{
    char *copy = arena_get(a, text.len + 1);
    if (text.len)
        memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    return copy;
}

static void ask(struct issuer *s, struct str url)
{
    const struct identity_issuer *set = settings_of(s);
    struct arena a = {0};
    struct buf bearer = {0};
    struct err err = err_none();
    if (set->token_file.len)
        err = write_bearer(set->token_file, &a, &bearer);
    const char *const headers[] = {"Accept: application/json", bearer.at, NULL};
    const struct fetch_tls tls = {.ca_file = set->ca_file.len ? c_text(&a, set->ca_file) : NULL};
    const struct fetch_spec spec = {.method = "GET",
                                    .url = c_text(&a, url),
                                    .headers = headers,
                                    .tls = &tls,
                                    .connect_timeout = {10000},
                                    .timeout = {20000},
                                    .answer_max = ANSWER_MAX,
                                    .done = on_answer,
                                    .ctx = s};
    if (err.code == ERR_OK)
        s->fetch = fetch_start(s->all->fetcher, &spec);
    buf_fini(&bearer);
    arena_fini(&a);
    if (err.code != ERR_OK)
        settle(s, &err);
}

static void begin(struct issuer *s)
{
    const struct identity_issuer *set = settings_of(s);
    struct buf url = {0};
    s->begun_at = uv_now(s->all->loop);
    s->discovering = !set->jwks.len;
    buf_str(&url, s->discovering ? set->issuer : set->jwks);
    while (s->discovering && url.len && url.at[url.len - 1] == '/')
        url.len--;
    if (s->discovering)
        buf_lit(&url, "/.well-known/openid-configuration");
    ask(s, buf_view(&url));
    buf_fini(&url);
}

/* --- answers --- */

static struct err text_member(struct str json, const char *name, struct arena *a, struct str *text)
{
    struct str raw;
    struct json_string s;
    TRY(json_member(json, str_from(name), &raw));
    struct json_cursor c = json_open(raw);
    TRY(json_read_string(&c, &s));
    return json_text(s, a, text);
}

/* OpenID Connect Discovery §4.3: it must be about this issuer. */
static struct err read_discovery(struct issuer *s, struct str json, struct arena *a,
                                 struct str *url)
{
    struct str issuer;
    TRY(text_member(json, "issuer", a, &issuer));
    TRY(text_member(json, "jwks_uri", a, url));
    if (!str_eq(issuer, settings_of(s)->issuer))
        return err_make(ERR_BAD_VALUE, "its discovery document is about another issuer");
    /* It may not lead from a safe place to one that is not. */
    static const struct str https = {"https://", 8}, http = {"http://", 7};
    bool secure = url->len > https.len && memcmp(url->at, https.at, https.len) == 0;
    bool plain = url->len > http.len && memcmp(url->at, http.at, http.len) == 0 &&
                 memcmp(issuer.at, http.at, http.len) == 0;
    return secure || plain ? err_none()
                           : err_make(ERR_BAD_VALUE, "its jwks_uri is not an https: URL");
}

static struct err check(const struct fetch_answer *answer)
{
    if (answer->fault != FETCH_ANSWERED)
        return err_make(ERR_IO, "%.160s", answer->why);
    if (answer->status != 200)
        return err_make(ERR_IO, "it was answered with status %ld", answer->status);
    return err_none();
}

static struct err take(struct issuer *s, const struct fetch_answer *answer, struct arena *a,
                       struct str *further)
{
    struct jwks *keys;
    TRY(check(answer));
    if (s->discovering) {
        s->discovering = false;
        return read_discovery(s, answer->body, a, further);
    }
    TRY(jwks_read(answer->body, &keys));
    identities_set_keys(s->all->identities, s->index, keys, s->all->now(NULL));
    return err_none();
}

static void on_answer(void *ctx, const struct fetch_answer *answer)
{
    struct issuer *s = ctx;
    struct arena a = {0};
    struct str further = {0};
    struct err err = take(s, answer, &a, &further);
    if (err.code == ERR_OK && further.len)
        ask(s, further);
    else
        settle(s, &err);
    arena_fini(&a);
}

/* --- when --- */

static void on_timer(uv_timer_t *t)
{
    struct issuers *all = t->data;
    size_t count = identities_rules(all->identities)->issuer_count;
    for (size_t n = 0; n < count; n++)
        if (!all->each[n].fetch && all->each[n].next_at <= uv_now(all->loop))
            begin(&all->each[n]);
    plan(all);
}

static void plan(struct issuers *all)
{
    size_t count = identities_rules(all->identities)->issuer_count;
    uint64_t now = uv_now(all->loop), next = UINT64_MAX;
    for (size_t n = 0; n < count; n++)
        if (!all->each[n].fetch && all->each[n].next_at < next)
            next = all->each[n].next_at;
    if (next == UINT64_MAX)
        uv_timer_stop(&all->timer);
    else
        uv_timer_start(&all->timer, on_timer, next > now ? next - now : 0, 0);
}

void issuers_follow(struct issuers *all, struct identities *identities)
{
    all->identities = identities;
    for (size_t n = 0; n < IDENTITY_ISSUERS_MAX; n++) {
        if (all->each[n].fetch)
            fetch_abort(all->each[n].fetch);
        all->each[n] = (struct issuer){.all = all, .index = n};
    }
    plan(all);
}

void issuers_want(void *ctx, size_t issuer)
{
    struct issuers *all = ctx;
    struct issuer *s = &all->each[issuer];
    uint64_t soonest = s->begun_at + PAUSE_MS;
    if (s->fetch || s->next_at <= soonest)
        return;
    s->next_at = soonest;
    plan(all);
}

struct issuers *issuers_new(uv_loop_t *loop, instant (*now)(void *ctx))
{
    struct issuers *all = ALLOC(struct issuers);
    all->loop = loop;
    all->now = now;
    all->fetcher = fetcher_new(loop);
    uv_timer_init(loop, &all->timer);
    all->timer.data = all;
    return all;
}

void issuers_close(struct issuers *all)
{
    if (!all)
        return;
    fetcher_free(all->fetcher);
    uv_close((uv_handle_t *)&all->timer, NULL);
}

void issuers_free(struct issuers *all)
{
    free(all);
}
