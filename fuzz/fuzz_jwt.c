/* SPDX-License-Identifier: Apache-2.0 */

/* The first byte chooses what the rest is: a JSON Web Token, a set of keys, or the name of a claim,
 * a pattern and claims, on lines of their own. The private keys that signed the tokens of the
 * corpus are gone: nothing else that is made of them may be taken for signed. */

#include <stdint.h>
#include <stdlib.h>

#include "access/jwt.h"
#include "base/json.h"
#include "base/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char key_text[] =
    "{\"keys\":[{\"kty\":\"EC\",\"x\":\"d77lxp9WOWWougogyBMD7oR99Nf2uEpehpYppoPsyQM\""
    ",\"y\":\"Bij_6NEaS9IqW4RPua5VOR17X67Z7tWK8i3IYCw0Z2w\",\"crv\":\"P-256\",\"kid\""
    ":\"e\",\"alg\":\"ES256\",\"use\":\"sig\"},{\"kty\":\"RSA\",\"n\":\"ud_vZkGWvTKrz"
    "OYJSXaTsH4s9VJw6F349w04TI2GnEO_91DuSLFNKWcTn23L4MckD2eVQYh03SNw7FMMNSUX6N4h_EGYu"
    "mjjj8h68iXhD2J0L_UPzbpcGWGf8qOlqFXejjgV3SZJOHxMQ-d_I8mv9rFsyI2JBdHZtGpgus9-yTMIG"
    "mF0wh5WO9GZtrFDjKECvB7xDbRvG8kY2yE0ft27vhLETlqaKn1OZ-Al8dSSCmIdzi2cdtJk5U4F7jYm3"
    "O5sQMrFqcnbEm6nHax2NgQBSprztjmj4yk4AYbB0NL2ZGQ3IiUHveW4q5HSXOBVF1hHU1KiGy4WllTJo"
    "xFechAkDQ\",\"e\":\"AQAB\",\"kid\":\"r\",\"use\":\"sig\"}]}";

static const struct jwks *keys(void)
{
    static struct jwks *all;
    if (!all)
        must(jwks_read(str_from(key_text), &all).code == ERR_OK && jwks_count(all) == 2);
    return all;
}

/* What is signed are claims of the corpus, by a key of the right kind. */
static void check_good(const struct jwt *t)
{
    struct str groups;
    must(t->alg == JWT_ES256 || t->alg == JWT_RS256 || t->alg == JWT_RS512);
    must(str_eq(t->issuer, STR("https://i")) && str_eq(t->subject, STR("s")));
    must(json_member(t->claims, STR("groups"), &groups).code == ERR_OK);
    must(str_eq(groups, STR("[\"x\",\"ops\"]")));
    must(jwt_claim_matches(t, STR("groups"), STR("o*s")));
    must(!jwt_claim_matches(t, STR("groups"), STR("o")));
}

static void try_token(struct str text)
{
    struct arena a = {0};
    struct jwt t;
    struct err err = jwt_read(text, &a, &t);
    must(err.code == ERR_OK || err.code == ERR_BAD_CREDENTIALS);
    if (err.code == ERR_OK) {
        must(jwt_is_like(text) && t.alg < JWT_ALGS && t.signature.len);
        if (jwks_verify(keys(), &t) == JWKS_GOOD)
            check_good(&t);
        /* In time, and after its time. */
        bool early = jwt_check(&t, STR("tenax"), (instant){INT64_C(1700000000000)}).code == ERR_OK;
        bool late = jwt_check(&t, STR("tenax"), (instant){INSTANT_MAX_MS}).code == ERR_OK;
        must(!early || instant_is_set(t.expires));
        must(!late || t.expires.ms + JWT_LEEWAY.ms > INSTANT_MAX_MS);
    }
    arena_fini(&a);
}

static void try_keys(struct str text)
{
    struct jwks *some;
    struct err err = jwks_read(text, &some);
    must(err.code == ERR_OK || err.code == ERR_BAD_VALUE);
    if (err.code != ERR_OK)
        return;
    must(jwks_count(some) > 0 && jwks_count(some) <= JWKS_MAX);
    jwks_free(some);
}

static void try_claim(struct str text)
{
    const char *first = memchr(text.at, '\n', text.len), *end = text.at + text.len;
    const char *second = first ? memchr(first + 1, '\n', (size_t)(end - first - 1)) : NULL;
    if (!second)
        return;
    struct str name = {text.at, (size_t)(first - text.at)};
    struct str pattern = {first + 1, (size_t)(second - first - 1)};
    struct jwt t = {.claims = {second + 1, (size_t)(end - second - 1)}};
    struct json_cursor c = json_open(t.claims);
    if (json_skip(&c, &t.claims).code != ERR_OK || json_close(&c).code != ERR_OK)
        return;
    bool does = jwt_claim_matches(&t, name, pattern);
    must(!does || jwt_claim_matches(&t, name, STR("*")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data + 1, size ? size - 1 : 0};
    if (size && data[0] == 't')
        try_token(rest);
    else if (size && data[0] == 'k')
        try_keys(rest);
    else if (size && data[0] == 'c')
        try_claim(rest);
    return 0;
}
