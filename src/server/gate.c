/* SPDX-License-Identifier: Apache-2.0 */
#include "server/gate.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "access/token_file.h"
#include "base/alloc.h"
#include "base/log.h"

#define TAKEN_MAX 1000 /* files at a time */

struct intake {
    struct api *api;
    struct tokens *tokens;
    const char *root_dir;
    size_t pending;
    bool removed; /* files, since the folder was synced */
    bool left;    /* nobody waits for it any more: it is freed with the last one */
};

/* Their files are gone from the disk before it can be acknowledged that one of them is deleted:
 * acknowledgements come in the order of the commits. */
static void end(struct intake *in)
{
    if (in->removed && in->pending == 0) {
        token_file_removed(in->root_dir);
        in->removed = false;
    }
    if (in->left && in->pending == 0)
        free(in);
}

static void remove_file(struct intake *in, const struct token *t)
{
    token_file_remove(in->root_dir, t);
    in->removed = true;
}

/* The file goes when the token is kept: a crash in between takes it in again. */
static void on_kept(void *ctx, struct token *t, const struct err *err)
{
    struct intake *in = ctx;
    in->pending--;
    if (err->code == ERR_OK) {
        log_info("access: token %.*s was taken in", TOKEN_ID_LEN, t->id);
        remove_file(in, t);
    } else {
        log_error("access: token %.*s cannot be kept: %s", TOKEN_ID_LEN, t->id, err->msg);
    }
    end(in);
}

static void take(void *ctx, struct token *t)
{
    struct intake *in = ctx;
    struct err room = tokens_check_room(in->tokens);
    if (tokens_find(in->tokens, token_id(t))) {
        remove_file(in, t);
        token_free(t);
    } else if (room.code != ERR_OK) {
        log_error("access: token %.*s is not taken in: %s", TOKEN_ID_LEN, t->id, room.msg);
        token_free(t);
    } else {
        struct arena scratch = {0};
        struct str trail = api_trail_of_server("createToken", "new-tokens", &scratch);
        in->pending++;
        api_token_keep(in->api, t, trail, on_kept, in);
        arena_fini(&scratch);
    }
}

static struct intake *begin(struct api *api, struct tokens *tokens, const char *root_dir)
{
    struct intake *in = ALLOC(struct intake);
    *in = (struct intake){.api = api, .tokens = tokens, .root_dir = root_dir};
    struct err err = token_file_read_all(root_dir, TAKEN_MAX, take, in);
    if (err.code != ERR_OK)
        log_error("access: %s", err.msg);
    return in;
}

struct err gate_open(struct api *api, struct tokens *tokens, const char *root_dir,
                     const struct gate_loop *loop)
{
    bool busy, good = true;
    struct err err = err_none();
    api_load_tokens(api, &busy, &err);
    while ((good = loop->turn(loop->ctx)) && busy)
        loop->wait(loop->ctx);
    if (!good || (err.code != ERR_OK && err.code != ERR_DISK_FULL))
        return good ? err : err_make(ERR_STORE, "the tokens cannot be read");
    tokens_set_unread(tokens, &err);
    if (err.code != ERR_OK)
        return err_none();
    struct intake *in = begin(api, tokens, root_dir);
    while ((good = loop->turn(loop->ctx)) && in->pending)
        loop->wait(loop->ctx);
    in->left = true;
    end(in);
    return good ? err_none() : err_make(ERR_STORE, "new tokens cannot be kept");
}

void gate_reload(struct api *api, struct tokens *tokens, const char *root_dir)
{
    struct intake *in = begin(api, tokens, root_dir);
    in->left = true;
    end(in);
}

/* --- again, once there is room to read them --- */

bool gate_retry(struct gate_retry *r, struct api *api, struct tokens *tokens, const char *root_dir)
{
    if (r->busy)
        return true;
    if (r->begun && r->err.code == ERR_OK) {
        tokens_set_unread(tokens, &r->err);
        gate_reload(api, tokens, root_dir);
        return false;
    }
    r->begun = true;
    api_load_tokens(api, &r->busy, &r->err);
    return true;
}

/* --- who can reach the server --- */

bool gate_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcmp(host, "localhost") == 0;
}

/* TLS alone does not help: anyone may be its client. */
static struct err check_host(const struct identities *who, const struct tokens *tokens,
                             const struct settings *s, const char *host,
                             const struct settings_tls *tls)
{
    const char *which = tls == &s->admin_tls ? "--admin-" : "--";
    if (gate_is_loopback(host) || tls->client_ca || s->insecure ||
        tokens_unread(tokens).code != ERR_OK)
        return err_none();
    if (!identities_guard(who))
        return err_make(ERR_USAGE,
                        "other machines can reach %.64s, and nothing would check who they are; "
                        "listen on 127.0.0.1, require certificates (%stls-client-ca), or say "
                        "--insecure",
                        host, which);
    if (!tls->cert)
        log_warn("tokens come to %s unencrypted, and anyone on the way can read them; %stls-cert "
                 "makes it TLS",
                 host, which);
    return err_none();
}

struct err gate_check_hosts(const struct identities *who, const struct tokens *tokens,
                            const struct settings *s)
{
    TRY(check_host(who, tokens, s, s->host, &s->tls));
    return s->no_admin ? err_none() : check_host(who, tokens, s, s->admin_host, &s->admin_tls);
}
