/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "kube/kube_plugin.h"
#include "wire/document.h"
#include "wire/field.h"

/* After a program has failed it is not started again for a while. */
#define PLUGIN_PAUSE ((span){1000})
/* Credentials are renewed this long before they expire, at most: a tenth of their life. */
#define RENEW_BEFORE_MS INT64_C(30000)
/* Credentials that seem to have expired already: the clock here may be the one that is wrong. */
#define EXPIRED_LIFE ((span){60000})

struct kube_auth {
    uv_loop_t *loop;
    const struct kube_config *config;
    struct kube_auth_settings settings;
    struct kube_auth_credentials current;
    struct buf header, cert, key; /* current's texts; header ends with a NUL */
    bool valid;
    instant read_at;   /* token file: when it was read */
    bool warned;       /* that it cannot be read */
    instant renew_at;  /* plugin: when its credentials are no longer used; or none */
    instant failed_at; /* and when it failed last; or none */
    struct kube_plugin *plugin;
    struct list waiters;
    char why[512];
};

static instant now_of(const struct kube_auth *a)
{
    return a->settings.now(a->settings.now_ctx);
}

/* Whether so much time has passed; also if the clock was set back. */
static bool has_passed(const struct kube_auth *a, instant since, span d)
{
    instant now = now_of(a);
    return now.ms < since.ms || now.ms - since.ms >= d.ms;
}

static void forget(struct buf *b)
{
    if (b->cap)
        explicit_bzero(b->at, b->cap);
    b->len = 0;
}

static void set_header(struct kube_auth *a, const char *scheme, struct str value)
{
    forget(&a->header);
    buf_print(&a->header, "Authorization: %s ", scheme);
    buf_str(&a->header, value);
    buf_byte(&a->header, '\0');
}

/* New ones: whoever was refused the old ones may try again. */
static void publish(struct kube_auth *a)
{
    a->valid = true;
    a->current = (struct kube_auth_credentials){
        .generation = a->current.generation + 1,
        .authorization = a->header.len ? a->header.at : NULL,
        .cert = a->cert.len ? buf_view(&a->cert) : a->config->client_cert,
        .key = a->key.len ? buf_view(&a->key) : a->config->client_key,
    };
}

static bool is_one_line(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < 0x21 || text.at[i] == 0x7f)
            return false;
    return text.len > 0;
}

/* --- a file --- */

static void read_token_file(struct kube_auth *a)
{
    struct buf b = {0};
    const char *file = a->config->token_file;
    a->read_at = now_of(a);
    struct err err = kube_config_read_file(file, &b);
    while (b.len && strchr(" \t\r\n", b.at[b.len - 1]))
        b.len--;
    struct str token = buf_view(&b);
    if (err.code == ERR_OK && !is_one_line(token))
        err = err_make(ERR_IO, "%.150s: it holds no token", file);
    if (err.code != ERR_OK) {
        snprintf(a->why, sizeof a->why, "%s", err.msg);
        if (!a->warned)
            log_warn("token file: %s%s", err.msg, a->valid ? "; the old token is used" : "");
        a->warned = true;
    } else {
        const size_t before = strlen("Authorization: Bearer ");
        struct str old = a->valid ? (struct str){a->header.at + before, a->header.len - before - 1}
                                  : (struct str){0};
        a->warned = false;
        if (!str_eq(old, token)) {
            set_header(a, "Bearer", token);
            publish(a);
            a->settings.counters->logins++;
        }
    }
    forget(&b);
    buf_fini(&b);
}

/* --- a program --- */

struct exec_status {
    struct str token, cert, key, expires;
};

struct exec_credential {
    struct str api_version, kind;
    struct field_part status;
};

#define TEXT(name, type, member)                                                                   \
    {                                                                                              \
        name, false, field_text, offsetof(struct type, member), .nullable = true                   \
    }

static const struct field credential_fields[] = {
    TEXT("apiVersion", exec_credential, api_version),
    TEXT("kind", exec_credential, kind),
    {"status", false, field_part, offsetof(struct exec_credential, status), .nullable = true},
};

static const struct field exec_status_fields[] = {
    TEXT("token", exec_status, token),
    TEXT("clientCertificateData", exec_status, cert),
    TEXT("clientKeyData", exec_status, key),
    TEXT("expirationTimestamp", exec_status, expires),
};

static void set_renewal(struct kube_auth *a, struct str expires)
{
    instant now = now_of(a), end;
    a->renew_at = INSTANT_NONE;
    if (!expires.len || !rfc3339_parse(expires, &end))
        return;
    int64_t life = end.ms - now.ms;
    if (life <= 0) {
        log_warn("exec plugin %s: its credentials have expired already, by the clock here",
                 a->config->exec.command);
        a->renew_at = instant_add(now, EXPIRED_LIFE);
        return;
    }
    int64_t before = life / 10 < RENEW_BEFORE_MS ? life / 10 : RENEW_BEFORE_MS;
    a->renew_at = (instant){end.ms - before};
}

static struct err use_credential(struct kube_auth *a, struct str output, struct arena *arena)
{
    struct json_cursor c = json_open(output);
    struct exec_credential e = {0};
    struct exec_status s = {0};
    instant end;
    TRY(field_read_object(false, &c, arena, credential_fields, COUNT(credential_fields), &e));
    TRY(json_close(&c));
    if (!str_eq(e.kind, STR("ExecCredential")))
        return err_make(ERR_BAD_VALUE, "kind: expected ExecCredential");
    if (!str_eq(e.api_version, str_from(a->config->exec.api_version)))
        return err_make(ERR_BAD_VALUE, "apiVersion: expected %s", a->config->exec.api_version);
    if (!e.status.given)
        return err_make(ERR_MISSING_FIELD, "status: it is missing");
    TRY(field_read_part(false, &e.status, arena, exec_status_fields, COUNT(exec_status_fields),
                        "status", &s));
    if (!s.token.len && !s.cert.len)
        return err_make(ERR_MISSING_FIELD, "status: neither a token nor a certificate");
    if (s.token.len && !is_one_line(s.token))
        return err_make(ERR_BAD_VALUE, "status.token: expected one line without blanks");
    if (!s.cert.len != !s.key.len)
        return err_make(ERR_MISSING_FIELD,
                        "status: clientCertificateData and clientKeyData belong together");
    if (s.expires.len && !rfc3339_parse(s.expires, &end))
        return err_make(ERR_BAD_VALUE, "status.expirationTimestamp: expected an RFC 3339 time");
    forget(&a->header);
    forget(&a->cert);
    forget(&a->key);
    if (s.token.len)
        set_header(a, "Bearer", s.token);
    buf_str(&a->cert, s.cert);
    buf_str(&a->key, s.key);
    set_renewal(a, s.expires);
    publish(a);
    return err_none();
}

/* The last line that it wrote to standard error. */
static void add_last_line(struct kube_auth *a, struct str errors)
{
    while (errors.len && strchr(" \t\r\n", errors.at[errors.len - 1]))
        errors.len--;
    const char *lf = errors.len ? memrchr(errors.at, '\n', errors.len) : NULL;
    if (lf)
        errors = (struct str){lf + 1, (size_t)(errors.at + errors.len - lf - 1)};
    if (!errors.len)
        return;
    char line[201];
    document_quote(line, sizeof line, errors);
    size_t n = strlen(a->why);
    snprintf(a->why + n, sizeof a->why - n, ": %s", line);
}

static bool explain_failure(struct kube_auth *a, const struct kube_plugin_result *r)
{
    const struct kube_config_exec *e = &a->config->exec;
    char *why = a->why;
    const size_t size = sizeof a->why;
    if (r->error)
        snprintf(why, size, "exec plugin %.100s cannot be started: %s%s%.200s", e->command,
                 uv_strerror(r->error), e->install_hint ? "; " : "",
                 e->install_hint ? e->install_hint : "");
    else if (r->timed_out)
        snprintf(why, size, "exec plugin %.100s did not end within %lld ms", e->command,
                 (long long)a->settings.plugin_timeout.ms);
    else if (r->too_large)
        snprintf(why, size, "exec plugin %.100s printed more than %zu bytes", e->command,
                 KUBE_PLUGIN_OUTPUT_MAX);
    else if (r->signal)
        snprintf(why, size, "exec plugin %.100s was ended by signal %d", e->command, r->signal);
    else if (r->exit_code)
        snprintf(why, size, "exec plugin %.100s failed with exit code %d", e->command,
                 r->exit_code);
    else
        return false;
    if (!r->error)
        add_last_line(a, r->errors);
    return true;
}

static void answer_waiters(struct kube_auth *a, const char *why)
{
    struct list now;
    list_init(&now);
    while (!list_is_empty(&a->waiters)) {
        struct list *node = a->waiters.next;
        list_unlink(node);
        list_append(&now, node);
    }
    while (!list_is_empty(&now)) {
        struct kube_auth_waiter *w = LIST_OF(now.next, struct kube_auth_waiter, link);
        list_unlink(&w->link);
        w->ready(w, why);
    }
}

static void on_plugin_done(void *ctx, const struct kube_plugin_result *r)
{
    struct kube_auth *a = ctx;
    struct arena arena = {0};
    a->plugin = NULL;
    bool failed = explain_failure(a, r);
    if (!failed) {
        struct err err = use_credential(a, r->output, &arena);
        failed = err.code != ERR_OK;
        if (failed)
            snprintf(a->why, sizeof a->why, "exec plugin %.100s printed no credentials: %s",
                     a->config->exec.command, err.msg);
    }
    arena_fini(&arena);
    if (failed && !instant_is_set(a->failed_at))
        log_warn("%s", a->why); /* once, until it works again */
    a->failed_at = failed ? now_of(a) : INSTANT_NONE;
    answer_waiters(a, failed ? a->why : NULL);
}

/* What KUBERNETES_EXEC_INFO tells a program. */
static void write_exec_info(struct buf *b, const struct kube_config *c)
{
    buf_print(b,
              "KUBERNETES_EXEC_INFO={\"apiVersion\":\"%s\",\"kind\":\"ExecCredential\",\"spec\":"
              "{\"interactive\":false",
              c->exec.api_version);
    if (c->exec.wants_cluster) {
        buf_lit(b, ",\"cluster\":{\"server\":");
        json_write_string(b, str_from(c->server));
        if (c->server_name) {
            buf_lit(b, ",\"tls-server-name\":");
            json_write_string(b, str_from(c->server_name));
        }
        if (c->proxy) {
            buf_lit(b, ",\"proxy-url\":");
            json_write_string(b, str_from(c->proxy));
        }
        if (c->insecure)
            buf_lit(b, ",\"insecure-skip-tls-verify\":true");
        struct buf file = {0};
        struct str ca = c->ca;
        if (c->ca_file && kube_config_read_file(c->ca_file, &file).code == ERR_OK)
            ca = buf_view(&file);
        if (ca.len) {
            buf_lit(b, ",\"certificate-authority-data\":\"");
            base64_write(b, ca);
            buf_byte(b, '"');
        }
        buf_fini(&file);
        buf_byte(b, '}');
    }
    buf_lit(b, "}}");
    buf_byte(b, '\0');
}

static size_t count_of(const char *const *texts)
{
    size_t n = 0;
    while (texts && texts[n])
        n++;
    return n;
}

static bool same_name(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n) == 0 && b[n] == '=';
}

static void start_plugin(struct kube_auth *a)
{
    const struct kube_config_exec *e = &a->config->exec;
    size_t own = count_of((const char *const *)environ), extra = count_of(e->env), n = 0;
    size_t args = count_of(e->args);
    const char **env = alloc_get((own + extra + 2) * sizeof *env);
    const char **argv = alloc_get((args + 2) * sizeof *argv);
    struct buf info = {0};
    write_exec_info(&info, a->config);
    for (size_t i = 0; i < own; i++) {
        bool replaced = same_name("KUBERNETES_EXEC_INFO=", environ[i]);
        for (size_t k = 0; k < extra; k++)
            replaced |= same_name(e->env[k], environ[i]);
        if (!replaced)
            env[n++] = environ[i];
    }
    for (size_t k = 0; k < extra; k++)
        env[n++] = e->env[k];
    env[n++] = info.at;
    env[n] = NULL;
    argv[0] = e->command;
    for (size_t i = 0; i <= args; i++)
        argv[i + 1] = i < args ? e->args[i] : NULL;
    a->settings.counters->logins++;
    a->plugin =
        kube_plugin_start(a->loop, argv, env, a->settings.plugin_timeout, on_plugin_done, a);
    buf_fini(&info);
    free(argv);
    free(env);
}

/* --- the interface --- */

struct kube_auth *kube_auth_new(uv_loop_t *loop, const struct kube_config *config,
                                const struct kube_auth_settings *settings)
{
    struct kube_auth *a = ALLOC(struct kube_auth);
    a->loop = loop;
    a->config = config;
    a->settings = *settings;
    a->renew_at = a->failed_at = INSTANT_NONE;
    list_init(&a->waiters);
    if (config->exec.command || config->token_file)
        return a;
    if (config->token) {
        set_header(a, "Bearer", str_from(config->token));
    } else if (config->user) {
        struct buf pair = {0}, text = {0};
        buf_print(&pair, "%s:%s", config->user, config->password ? config->password : "");
        base64_write(&text, buf_view(&pair));
        set_header(a, "Basic", buf_view(&text));
        forget(&pair);
        forget(&text);
        buf_fini(&pair);
        buf_fini(&text);
    }
    publish(a);
    return a;
}

void kube_auth_free(struct kube_auth *a)
{
    if (!a)
        return;
    if (a->plugin)
        kube_plugin_cancel(a->plugin);
    while (!list_is_empty(&a->waiters))
        list_unlink(a->waiters.next);
    forget(&a->header);
    forget(&a->cert);
    forget(&a->key);
    buf_fini(&a->header);
    buf_fini(&a->cert);
    buf_fini(&a->key);
    free(a);
}

const struct kube_auth_credentials *kube_auth_now(struct kube_auth *a, const char **why)
{
    *why = NULL;
    if (a->config->token_file) {
        if (!a->valid || has_passed(a, a->read_at, a->settings.token_age))
            read_token_file(a);
        if (!a->valid)
            *why = a->why;
    } else if (a->config->exec.command) {
        if (a->valid && instant_is_set(a->renew_at) && now_of(a).ms >= a->renew_at.ms)
            a->valid = false;
        if (!a->valid && !a->plugin && instant_is_set(a->failed_at) &&
            !has_passed(a, a->failed_at, PLUGIN_PAUSE))
            *why = a->why;
    }
    return a->valid ? &a->current : NULL;
}

void kube_auth_wait(struct kube_auth *a, struct kube_auth_waiter *w)
{
    must(a->config->exec.command);
    list_append(&a->waiters, &w->link);
    if (!a->plugin)
        start_plugin(a);
}

bool kube_auth_refused(struct kube_auth *a, uint64_t generation)
{
    if (a->config->token_file)
        read_token_file(a);
    else if (a->config->exec.command && generation == a->current.generation)
        a->valid = false;
    else if (!a->config->exec.command)
        return false;
    return !a->valid || a->current.generation != generation;
}
