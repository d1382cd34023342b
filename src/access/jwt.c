/* SPDX-License-Identifier: Apache-2.0 */
#include "access/jwt.h"

#include "base/base64.h"
#include "base/glob.h"
#include "base/json.h"

static const char *const algs[JWT_ALGS] = {
    [JWT_RS256] = "RS256", [JWT_RS384] = "RS384", [JWT_RS512] = "RS512",
    [JWT_ES256] = "ES256", [JWT_ES384] = "ES384",
};

static struct err bad(const char *why)
{
    return err_make(ERR_BAD_CREDENTIALS, "the JSON Web Token %s", why);
}

/* --- its three parts --- */

struct parts {
    struct str header, claims, signature; /* in base64url */
    struct str signed_part;
};

static bool split(struct str text, struct parts *p)
{
    const char *end = text.at + text.len;
    const char *first = text.len ? memchr(text.at, '.', text.len) : NULL;
    const char *second = first ? memchr(first + 1, '.', (size_t)(end - first - 1)) : NULL;
    if (!second || memchr(second + 1, '.', (size_t)(end - second - 1)))
        return false;
    p->header = (struct str){text.at, (size_t)(first - text.at)};
    p->claims = (struct str){first + 1, (size_t)(second - first - 1)};
    p->signature = (struct str){second + 1, (size_t)(end - second - 1)};
    p->signed_part = (struct str){text.at, (size_t)(second - text.at)};
    return true;
}

bool jwt_is_like(struct str text)
{
    struct parts p;
    return split(text, &p);
}

/* Only the alphabet for URLs, without padding (RFC 7515 §2). */
static bool decode(struct str text, struct arena *a, struct str *bytes)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] == '+' || text.at[i] == '/' || text.at[i] == '=')
            return false;
    return text.len > 0 && base64_read(text, a, bytes);
}

/* --- members --- */

typedef struct err (*member_fn)(struct json_cursor *c, struct str name, struct arena *a,
                                struct jwt *t, unsigned *seen);

/* A member that comes twice could mean one thing here and another elsewhere. */
static struct err once(unsigned *seen, unsigned bit)
{
    if (*seen & 1u << bit)
        return bad("has a member twice");
    *seen |= 1u << bit;
    return err_none();
}

static struct err read_text(struct json_cursor *c, struct arena *a, struct str *text)
{
    struct json_string s;
    TRY(json_read_string(c, &s));
    return json_text(s, a, text);
}

static struct err read_members(struct json_cursor *c, struct arena *a, struct jwt *t,
                               member_fn member, unsigned *seen)
{
    TRY(json_enter_object(c));
    for (bool more;;) {
        struct json_string key;
        TRY(json_next_member(c, &more, &key));
        if (!more)
            return json_close(c);
        /* "\u0061lg" must not be passed over as unknown. */
        if (key.escaped)
            return bad("has an escape in the name of a member");
        TRY(member(c, key.raw, a, t, seen));
    }
}

static struct err read_object(struct str json, struct arena *a, struct jwt *t, member_fn member,
                              unsigned *seen)
{
    struct json_cursor c = json_open(json);
    return read_members(&c, a, t, member, seen);
}

static struct err read_alg(struct json_cursor *c, struct arena *a, enum jwt_alg *alg)
{
    struct str word;
    TRY(read_text(c, a, &word));
    for (int i = 0; i < JWT_ALGS; i++) {
        if (!str_eq(word, str_from(algs[i])))
            continue;
        *alg = (enum jwt_alg)i;
        return err_none();
    }
    return bad(
        "is signed by an algorithm that is not allowed; RS256, RS384, RS512, ES256 and ES384 "
        "are");
}

enum { ALG, KID, ISS, SUB, AUD, EXP, NBF };

static struct err header_member(struct json_cursor *c, struct str name, struct arena *a,
                                struct jwt *t, unsigned *seen)
{
    if (str_eq(name, STR("alg"))) {
        TRY(once(seen, ALG));
        return read_alg(c, a, &t->alg);
    }
    if (str_eq(name, STR("kid"))) {
        TRY(once(seen, KID));
        return read_text(c, a, &t->kid);
    }
    /* What it says must be understood, and none of it is (RFC 7515 §4.1.11). */
    if (str_eq(name, STR("crit")))
        return bad("has a critical extension");
    return json_skip(c, NULL);
}

/* Seconds since 1970, possibly with a fraction (RFC 7519 §2). */
static struct err read_time(struct json_cursor *c, instant *at)
{
    double seconds;
    TRY(json_read_double(c, 0, (double)INSTANT_MAX_MS / 1000, &seconds));
    at->ms = (int64_t)(seconds * 1000);
    return err_none();
}

static struct err claim(struct json_cursor *c, struct str name, struct arena *a, struct jwt *t,
                        unsigned *seen)
{
    if (str_eq(name, STR("iss"))) {
        TRY(once(seen, ISS));
        return read_text(c, a, &t->issuer);
    }
    if (str_eq(name, STR("sub"))) {
        TRY(once(seen, SUB));
        return read_text(c, a, &t->subject);
    }
    if (str_eq(name, STR("aud"))) {
        TRY(once(seen, AUD));
        return json_skip(c, &t->audience);
    }
    if (str_eq(name, STR("exp"))) {
        TRY(once(seen, EXP));
        return read_time(c, &t->expires);
    }
    if (str_eq(name, STR("nbf"))) {
        TRY(once(seen, NBF));
        return read_time(c, &t->not_before);
    }
    return json_skip(c, NULL);
}

static struct err read_parts(const struct parts *p, struct arena *a, struct jwt *out)
{
    struct str header;
    unsigned seen = 0;
    if (!decode(p->header, a, &header))
        return bad("is not in base64url");
    TRY(read_object(header, a, out, header_member, &seen));
    if (!(seen & 1u << ALG))
        return bad("does not say how it is signed");
    if (!decode(p->claims, a, &out->claims) || !decode(p->signature, a, &out->signature))
        return bad("is not in base64url, or not signed");
    return read_object(out->claims, a, out, claim, &seen);
}

struct err jwt_read(struct str text, struct arena *a, struct jwt *out)
{
    struct parts p;
    *out = (struct jwt){.expires = INSTANT_NONE, .not_before = INSTANT_NONE};
    if (text.len > JWT_TEXT_MAX || !split(text, &p))
        return bad("is too long, or has not three parts");
    struct err err = read_parts(&p, a, out);
    if (err.code != ERR_OK && err.code != ERR_BAD_CREDENTIALS)
        return err_make(ERR_BAD_CREDENTIALS, "the JSON Web Token is malformed: %.120s", err.msg);
    out->signed_part = p.signed_part;
    return err;
}

/* --- whether it counts --- */

static struct err find_audience(struct str json, struct str audience, struct arena *a, bool *found)
{
    struct json_cursor c = json_open(json);
    enum json_type type;
    struct str one;
    TRY(json_peek(&c, &type));
    if (type != JSON_ARRAY) {
        TRY(read_text(&c, a, &one));
        *found = str_eq(one, audience);
        return err_none();
    }
    TRY(json_enter_array(&c));
    for (bool more;;) {
        TRY(json_next_element(&c, &more));
        if (!more)
            return err_none();
        TRY(read_text(&c, a, &one));
        *found |= str_eq(one, audience);
    }
}

struct err jwt_check(const struct jwt *t, struct str audience, instant now)
{
    struct arena a = {0};
    bool found = false;
    struct err err =
        t->audience.len ? find_audience(t->audience, audience, &a, &found) : err_none();
    arena_fini(&a);
    if (err.code != ERR_OK || !found)
        return bad("is for another audience");
    if (!t->subject.len)
        return bad("has no subject");
    if (!instant_is_set(t->expires))
        return bad("does not say when it expires");
    if (t->expires.ms + JWT_LEEWAY.ms <= now.ms)
        return bad("has expired");
    if (instant_is_set(t->not_before) && t->not_before.ms - JWT_LEEWAY.ms > now.ms)
        return bad("is not valid yet");
    return err_none();
}

/* --- claims --- */

static bool value_matches(struct str json, struct str pattern, struct arena *a);

static bool list_matches(struct json_cursor *c, struct str pattern, struct arena *a)
{
    if (json_enter_array(c).code != ERR_OK)
        return false;
    for (bool more;;) {
        enum json_type type;
        struct str raw;
        if (json_next_element(c, &more).code != ERR_OK || !more ||
            json_peek(c, &type).code != ERR_OK || json_skip(c, &raw).code != ERR_OK)
            return false;
        if (type == JSON_STRING && value_matches(raw, pattern, a))
            return true;
    }
}

static bool value_matches(struct str json, struct str pattern, struct arena *a)
{
    struct json_cursor c = json_open(json);
    enum json_type type;
    struct str text;
    if (json_peek(&c, &type).code != ERR_OK)
        return false;
    switch (type) {
    case JSON_STRING:
        return read_text(&c, a, &text).code == ERR_OK && glob_matches(pattern, text);
    case JSON_NUMBER:
    case JSON_BOOL:
        return glob_matches(pattern, json);
    case JSON_ARRAY:
        return list_matches(&c, pattern, a);
    default:
        return false;
    }
}

/* A dot may be part of a name ("kubernetes.io"): each one is tried, the longest name first. */
static bool matches(struct str object, struct str name, struct str pattern, struct arena *a)
{
    struct str raw;
    if (json_member(object, name, &raw).code != ERR_OK)
        return false;
    if (raw.len)
        return value_matches(raw, pattern, a);
    for (size_t i = name.len; i-- > 1;) {
        if (name.at[i] != '.' || i + 1 == name.len)
            continue;
        struct str head = {name.at, i}, rest = {name.at + i + 1, name.len - i - 1};
        if (json_member(object, head, &raw).code == ERR_OK && raw.len && raw.at[0] == '{')
            return matches(raw, rest, pattern, a);
    }
    return false;
}

bool jwt_claim_matches(const struct jwt *t, struct str name, struct str pattern)
{
    struct arena a = {0};
    bool does = matches(t->claims, name, pattern, &a);
    arena_fini(&a);
    return does;
}
