/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/bearer.h"
#include "client/view.h"
#include "client/when.h"
#include "client/yaml_text.h"

int client_check_token(const struct subcommand *command, const struct call_tls *tls)
{
    struct buf line = {0};
    struct err bad = bearer_line(tls->token_file, &line);
    buf_fini(&line);
    return bad.code == ERR_OK ? CLI_OK : subcommand_usage(command, "the token: %s", bad.msg);
}

void client_alone(struct client *c, const struct subcommand *command,
                  const struct client_args *args)
{
    *c = (struct client){
        .command = command,
        .args = *args,
        .colour = table_colour(stdout),
        .width = table_terminal_width(stdout),
        .now = when_now(),
    };
}

int client_open(struct client *c, const struct subcommand *command, const struct client_args *args)
{
    const char *wrong = call_bad_url(args->url);
    if (wrong)
        return subcommand_usage(command, "option '--url': '%.200s' is not the URL of a server; %s",
                                args->url, wrong);
    int code = client_check_token(command, &args->tls);
    if (code != CLI_OK)
        return code;
    client_alone(c, command, args);
    c->url = call_url(args->url);
    call_init(&c->call, c->url, &c->args.tls);
    /* A misspelt field must be an error for a user, whatever the server's setting. */
    call_header(&c->call, "Tenax-Strict: true");
    return CLI_OK;
}

void client_close(struct client *c)
{
    if (c->url)
        call_fini(&c->call);
    arena_fini(&c->arena);
    free(c->url);
}

/* The exit code of a call; reports on standard error why it failed. */
static int judge(struct client *c, enum call_result r)
{
    c->result = r;
    if (r == CALL_DONE)
        return CLI_OK;
    struct buf why = {0};
    call_explain(&c->call, &why);
    if (!c->mute)
        fprintf(stderr, "tenax %s: %.*s\n", c->command->name, STR_ARG(buf_view(&why)));
    buf_fini(&why);
    if (r == CALL_UNREACHABLE)
        return CLI_UNREACHABLE;
    return c->call.status == 404 ? CLI_NOT_FOUND : CLI_REFUSED;
}

int client_ask(struct client *c, const char *method, const char *path)
{
    return judge(c, call_wait(&c->call, method, path, c->args.timeout));
}

int client_find(struct client *c, const char *path, bool *found)
{
    enum call_result r = call_wait(&c->call, "GET", path, c->args.timeout);
    *found = r == CALL_DONE;
    return r == CALL_GONE && c->call.status == 404 ? CLI_OK : judge(c, r);
}

struct str client_answer(const struct client *c)
{
    return buf_view(&c->call.answer);
}

void client_query(struct buf *path, const char *key, const char *value)
{
    if (!value)
        return;
    bool first = !path->len || !memchr(path->at, '?', path->len);
    buf_print(path, "%c%s=", first ? '?' : '&', key);
    for (const char *p = value; *p; p++) {
        /* A comma separates names and must not be encoded. */
        if (strchr("-._~,", *p) || (*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z') ||
            (*p >= 'a' && *p <= 'z'))
            buf_byte(path, *p);
        else
            buf_print(path, "%%%02X", (unsigned char)*p);
    }
}

void client_segment(struct buf *path, struct str name)
{
    buf_byte(path, '/');
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.at[i];
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
            (c && strchr("-_~", c)))
            buf_byte(path, (char)c);
        else
            buf_print(path, "%%%02X", c);
    }
}

bool client_for_people(const struct client *c)
{
    return c->args.output == CLIENT_TABLE || c->args.output == CLIENT_WIDE;
}

void client_write_value(const struct client *c, struct buf *out, struct str value)
{
    if (c->args.output == CLIENT_YAML) {
        yaml_text(out, value);
        return;
    }
    if (client_for_people(c))
        view_pretty(out, value, 0);
    else
        json_write_one_line(out, value);
    buf_byte(out, '\n');
}

void client_print_answer(struct client *c)
{
    struct buf out = {0};
    client_write_value(c, &out, client_answer(c));
    subcommand_print(stdout, &out);
    buf_fini(&out);
}

const char *client_path(struct buf *path)
{
    buf_byte(path, '\0');
    return path->at;
}

enum table_style client_status_style(struct str status)
{
    if (str_eq(status, STR("completed")))
        return TABLE_GOOD;
    if (str_eq(status, STR("in_flight")))
        return TABLE_BUSY;
    if (str_eq(status, STR("dead")))
        return TABLE_BAD;
    return str_eq(status, STR("ready")) ? TABLE_PLAIN : TABLE_WAIT;
}
