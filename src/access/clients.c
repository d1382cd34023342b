/* SPDX-License-Identifier: Apache-2.0 */
#include "access/clients.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "base/strmap.h"

struct clients {
    struct arena memory;
    struct strmap by_id;
    struct str text; /* what was read: parts of the clients are views into it */
};

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool consists_of(struct str s, const char *others)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_alnum(s.at[i]) && (s.at[i] == '\0' || !strchr(others, s.at[i])))
            return false;
    return true;
}

bool client_id_valid(struct str id)
{
    return id.len > 0 && id.len <= CLIENT_ID_MAX && consists_of(id, "!@/:.+|_-");
}

static bool token_valid(struct str token)
{
    return token.len >= CLIENT_TOKEN_MIN && token.len <= CLIENT_TOKEN_MAX &&
           consists_of(token, "_-");
}

/* --- reading --- */

enum member { CLIENT_ID, ACCESS_TOKEN, SCOPES, EXPIRES, UNKNOWN };

static const char *const member_names[UNKNOWN] = {
    [CLIENT_ID] = "clientId",
    [ACCESS_TOKEN] = "accessToken",
    [SCOPES] = "scopes",
    [EXPIRES] = "expires",
};

static enum member find_member(struct str key)
{
    for (int m = 0; m < UNKNOWN; m++)
        if (str_eq(key, str_from(member_names[m])))
            return (enum member)m;
    return UNKNOWN;
}

static struct err read_text(struct json_cursor *c, struct arena *a, struct str *text,
                            int64_t *offset)
{
    struct json_string s;
    TRY(json_read_string(c, &s));
    *offset = (int64_t)s.offset;
    return json_text(s, a, text);
}

static struct err read_id(struct json_cursor *c, struct arena *a, struct access_client *client)
{
    int64_t offset;
    TRY(read_text(c, a, &client->id, &offset));
    if (!client_id_valid(client->id))
        return err_at(ERR_BAD_NAME, offset,
                      "clientId consists of A-Z a-z 0-9 ! @ / : . + | _ -, "
                      "1 to %d characters",
                      CLIENT_ID_MAX);
    return err_none();
}

static struct err read_token(struct json_cursor *c, struct arena *a, struct access_client *client)
{
    int64_t offset;
    TRY(read_text(c, a, &client->token, &offset));
    if (!token_valid(client->token))
        return err_at(ERR_BAD_VALUE, offset,
                      "accessToken consists of A-Z a-z 0-9 _ -, %d to %d characters",
                      CLIENT_TOKEN_MIN, CLIENT_TOKEN_MAX);
    return err_none();
}

static struct err read_scopes(struct json_cursor *c, struct arena *a, struct access_client *client)
{
    const struct str *scopes;
    size_t count;
    TRY(scopes_read(c, a, &scopes, &count));
    return scope_set_make(scopes, count, a, &client->scopes, NULL);
}

static struct err read_expires(struct json_cursor *c, struct arena *a, struct access_client *client)
{
    bool absent;
    TRY(json_take_null(c, &absent));
    if (absent)
        return err_none();
    struct str text;
    int64_t offset;
    TRY(read_text(c, a, &text, &offset));
    if (!rfc3339_parse(text, &client->expires))
        return err_at(ERR_BAD_VALUE, offset,
                      "expires is a time like 2027-01-01T00:00:00Z, from 1970 on");
    return err_none();
}

static struct err (*const member_readers[UNKNOWN])(struct json_cursor *, struct arena *,
                                                   struct access_client *) = {
    [CLIENT_ID] = read_id,
    [ACCESS_TOKEN] = read_token,
    [SCOPES] = read_scopes,
    [EXPIRES] = read_expires,
};

static struct err read_client(struct json_cursor *c, struct arena *a, struct access_client *client)
{
    int64_t begin = (int64_t)c->pos;
    bool seen[UNKNOWN] = {false};
    TRY(json_enter_object(c));
    for (;;) {
        bool more;
        struct json_string key;
        TRY(json_next_member(c, &more, &key));
        if (!more)
            break;
        enum member m = find_member(key.raw);
        if (m == UNKNOWN)
            return err_at(ERR_UNKNOWN_FIELD, (int64_t)key.offset,
                          "a client has clientId, accessToken, scopes and expires only");
        if (seen[m])
            return err_at(ERR_DUPLICATE_FIELD, (int64_t)key.offset, "%s is given twice",
                          member_names[m]);
        seen[m] = true;
        TRY(member_readers[m](c, a, client));
    }
    for (int m = 0; m < EXPIRES; m++)
        if (!seen[m])
            return err_at(ERR_MISSING_FIELD, begin, "the client has no %s", member_names[m]);
    return err_none();
}

static struct err add(struct clients *all, struct access_client *client, int64_t begin)
{
    if (strmap_get(&all->by_id, client->id))
        return err_at(ERR_CONFLICT, begin, "a second client '%.*s'", STR_ARG(client->id));
    if (all->by_id.count >= CLIENTS_MAX)
        return err_at(ERR_TOO_MANY, begin, "at most %d clients", CLIENTS_MAX);
    strmap_put(&all->by_id, client->id, client);
    return err_none();
}

static struct err read_list(struct json_cursor *c, struct clients *all)
{
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        enum json_type type;
        TRY(json_next_element(c, &more));
        if (!more)
            return json_close(c);
        TRY(json_peek(c, &type)); /* skips white space */
        int64_t begin = (int64_t)c->pos;
        struct access_client *client = ARENA_NEW(&all->memory, struct access_client);
        client->expires = INSTANT_NONE;
        TRY(read_client(c, &all->memory, client));
        TRY(add(all, client, begin));
    }
}

/* Prefixes the position. The scanner's findings are left out, because they may quote a token. */
static struct err placed(struct str text, const char *name, struct err err)
{
    int line = 1, column = 1;
    for (int64_t i = 0; i < err.offset && i < (int64_t)text.len; i++) {
        column = text.at[i] == '\n' ? 1 : column + 1;
        line += text.at[i] == '\n';
    }
    char *found = strstr(err.msg, ", found '");
    if (found)
        *found = '\0';
    return err_at(err.code, err.offset, "%s: line %d, column %d: %s", name, line, column, err.msg);
}

struct err clients_read(struct str text, const char *name, struct clients **out)
{
    *out = NULL;
    if (text.len > CLIENTS_FILE_MAX)
        return err_make(ERR_LENGTH, "%s: more than %zu bytes", name, CLIENTS_FILE_MAX);
    struct clients *all = ALLOC(struct clients);
    all->text = (struct str){alloc_text(text.at ? text.at : "", text.len), text.len};
    struct json_cursor c = json_open(all->text);
    struct err err = read_list(&c, all);
    if (err.code != ERR_OK) {
        clients_free(all);
        return placed(text, name, err);
    }
    *out = all;
    return err;
}

/* Tokens must not stay behind in freed memory. */
static void free_secret(char *at, size_t len)
{
    if (at)
        OPENSSL_cleanse(at, len);
    free(at);
}

static struct err read_file(const char *path, char **text, size_t *len)
{
    FILE *in = fopen(path, "re");
    if (!in)
        return err_make(ERR_IO, "%s: %s", path, strerror(errno));
    *text = alloc_get(CLIENTS_FILE_MAX + 1);
    *len = fread(*text, 1, CLIENTS_FILE_MAX + 1, in);
    bool failed = ferror(in);
    int why = errno;
    fclose(in);
    return failed ? err_make(ERR_IO, "%s: %s", path, strerror(why)) : err_none();
}

struct err clients_load(const char *path, struct clients **clients)
{
    char *text = NULL;
    size_t len = 0;
    struct clients *fresh = NULL;
    struct err err = read_file(path, &text, &len);
    if (err.code == ERR_OK)
        err = clients_read((struct str){text, len}, path, &fresh);
    if (err.code == ERR_OK) {
        clients_free(*clients);
        *clients = fresh;
    }
    free_secret(text, len);
    return err;
}

void clients_free(struct clients *c)
{
    if (!c)
        return;
    strmap_fini(&c->by_id);
    arena_fini(&c->memory);
    free_secret((char *)c->text.at, c->text.len);
    free(c);
}

/* --- looking up --- */

size_t clients_count(const struct clients *c)
{
    return c->by_id.count;
}

const struct access_client *clients_find(const struct clients *c, struct str id)
{
    return c ? strmap_get(&c->by_id, id) : NULL;
}
