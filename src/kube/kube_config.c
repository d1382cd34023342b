/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/buf.h"
#include "net/fetch.h"
#include "wire/document.h"

#define NAMES_MAX 200 /* bytes of the names that a message lists */

/* While a file is read: what stands where. */
struct reader {
    const char *file;
    struct kube_config *c;
    struct document_fault fault;
};

/* A mapping of the file, and how its members are called in messages. */
struct part {
    const struct document_node *map;
    char path[96];
};

/* --- faults --- */

static struct err refuse(struct reader *r, enum err_code code, const struct document_node *at,
                         const char *path, const char *expected, const char *found)
{
    r->fault = (struct document_fault){.code = code};
    if (at) {
        r->fault.line = at->line;
        r->fault.column = at->column;
    }
    snprintf(r->fault.path, sizeof r->fault.path, "%s", path);
    snprintf(r->fault.expected, sizeof r->fault.expected, "%s", expected);
    snprintf(r->fault.found, sizeof r->fault.found, "%s", found);
    return document_fault_in(r->file, &r->fault);
}

static const char *type_name(const struct document_node *n)
{
    static const char *const names[] = {"null",   "a boolean", "a number",
                                        "a text", "a list",    "a mapping"};
    return n ? names[n->type] : "nothing";
}

static struct err refuse_type(struct reader *r, const struct document_node *n, const char *path,
                              const char *expected)
{
    return refuse(r, ERR_BAD_TYPE, n, path, expected, type_name(n));
}

static struct err refuse_member(struct reader *r, const struct part *p, const char *key,
                                const char *expected, const char *found)
{
    char path[128];
    const struct document_node *n = document_member(p->map, key);
    snprintf(path, sizeof path, "%s%s%s", p->path, p->path[0] ? "." : "", key);
    return refuse(r, n ? ERR_BAD_VALUE : ERR_MISSING_FIELD, n ? n : p->map, path, expected, found);
}

/* --- members --- */

static bool is_absent(const struct document_node *n)
{
    return !n || n->type == DOCUMENT_NULL;
}

static const char *keep(struct kube_config *c, struct str text)
{
    char *z = arena_get(&c->arena, text.len + 1);
    if (text.len)
        memcpy(z, text.at, text.len);
    z[text.len] = '\0';
    return z;
}

/* NULL if the member is absent or empty, as kubectl has it. */
static struct err get_text(struct reader *r, const struct part *p, const char *key,
                           const char **out)
{
    const struct document_node *n = document_member(p->map, key);
    char path[128];
    *out = NULL;
    if (is_absent(n))
        return err_none();
    snprintf(path, sizeof path, "%s%s%s", p->path, p->path[0] ? "." : "", key);
    if (n->type != DOCUMENT_STRING)
        return refuse_type(r, n, path, "a text (in quotes, if it looks like something else)");
    if (n->text.len && memchr(n->text.at, '\0', n->text.len))
        return refuse(r, ERR_BAD_VALUE, n, path, "a text without zero bytes", "");
    if (n->text.len)
        *out = keep(r->c, n->text);
    return err_none();
}

static struct err need_text(struct reader *r, const struct part *p, const char *key,
                            const char **out)
{
    TRY(get_text(r, p, key, out));
    return *out ? err_none() : refuse_member(r, p, key, "a text", "nothing");
}

static struct err get_bool(struct reader *r, const struct part *p, const char *key, bool *out)
{
    const struct document_node *n = document_member(p->map, key);
    char path[128];
    *out = false;
    if (is_absent(n))
        return err_none();
    snprintf(path, sizeof path, "%s.%s", p->path, key);
    if (n->type != DOCUMENT_BOOL)
        return refuse_type(r, n, path, "true or false");
    *out = str_eq(n->text, STR("true"));
    return err_none();
}

static struct err get_part(struct reader *r, const struct part *p, const char *key,
                           struct part *out)
{
    const struct document_node *n = document_member(p->map, key);
    *out = (struct part){.map = is_absent(n) ? NULL : n};
    snprintf(out->path, sizeof out->path, "%.60s%s%.32s", p->path, p->path[0] ? "." : "", key);
    if (out->map && n->type != DOCUMENT_MAP)
        return refuse_type(r, n, out->path, "a mapping");
    return err_none();
}

static struct err get_list(struct reader *r, const struct part *p, const char *key,
                           const struct document_node **out, char path[128])
{
    const struct document_node *n = document_member(p->map, key);
    *out = NULL;
    snprintf(path, 128, "%s%s%s", p->path, p->path[0] ? "." : "", key);
    if (is_absent(n))
        return err_none();
    if (n->type != DOCUMENT_LIST)
        return refuse_type(r, n, path, "a list");
    *out = n;
    return err_none();
}

static const char *beside(struct kube_config *c, const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');
    struct buf b = {0};
    if (path[0] != '/' && slash)
        buf_print(&b, "%.*s/", (int)(slash - file), file);
    buf_print(&b, "%s", path);
    const char *out = keep(c, buf_view(&b));
    buf_fini(&b);
    return out;
}

struct err kube_config_read_file(const char *path, struct buf *out)
{
    struct err err = err_none();
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0) {
        err = err_make(ERR_IO, "%.120s: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        err = err_make(ERR_IO, "%.120s: not a file", path);
        goto out;
    }
    for (;;) {
        ssize_t n = read(fd, buf_room(out, 65536), 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            err = err_make(ERR_IO, "%.120s: %s", path, strerror(errno));
        if (n <= 0)
            break;
        out->len += (size_t)n;
        if (out->len > KUBE_CONFIG_FILE_MAX) {
            err = err_make(ERR_IO, "%.120s: larger than %zu bytes", path, KUBE_CONFIG_FILE_MAX);
            break;
        }
    }
out:
    if (fd >= 0)
        close(fd);
    return err;
}

static bool is_pem(struct str text)
{
    return text.at && memmem(text.at, text.len, "-----BEGIN ", 11);
}

/* KEY-data in base64, or else KEY, the name of a file. */
static struct err get_pem(struct reader *r, const struct part *p, const char *key, struct str *pem,
                          const char **file)
{
    char data_key[64];
    const char *data;
    snprintf(data_key, sizeof data_key, "%s-data", key);
    TRY(get_text(r, p, data_key, &data));
    TRY(get_text(r, p, key, file));
    if (data) {
        struct buf b = {0};
        for (const char *at = data; *at; at++)
            if (!strchr(" \r\n", *at))
                buf_byte(&b, *at);
        bool ok = base64_read(buf_view(&b), &r->c->arena, pem);
        explicit_bzero(b.at, b.len);
        buf_fini(&b);
        *file = NULL;
        if (!ok)
            return refuse_member(r, p, data_key, "PEM in base64", "");
        return is_pem(*pem) ? err_none()
                            : refuse_member(r, p, data_key, "PEM in base64", "something else");
    }
    if (!*file)
        return err_none();
    *file = beside(r->c, r->file, *file);
    struct buf b = {0};
    struct err err = kube_config_read_file(*file, &b);
    bool ok = is_pem(buf_view(&b));
    if (b.len)
        explicit_bzero(b.at, b.len);
    buf_fini(&b);
    if (err.code != ERR_OK)
        return refuse_member(r, p, key, "a file that can be read", err.msg);
    return ok ? err_none() : refuse_member(r, p, key, "the name of a PEM file", *file);
}

/* --- the three lists --- */

static const struct document_node nothing = {.type = DOCUMENT_MAP};

/* "a, b", as many as fit. */
static void list_names(const struct document_node *entries, struct buf *b)
{
    for (const struct document_node *n = entries ? entries->first : NULL; n; n = n->next) {
        struct str name = n->type == DOCUMENT_MAP ? document_text(n, "name") : (struct str){0};
        if (name.len && b->len + name.len > NAMES_MAX) {
            buf_lit(b, ", …");
            break;
        }
        if (name.len)
            buf_print(b, "%s%.*s", b->len ? ", " : "", NAME_ARG(name));
    }
    if (!b->len)
        buf_lit(b, "none");
    buf_byte(b, '\0');
}

static struct err refuse_name(const struct reader *r, const struct document_node *entries,
                              const char *list, const char *name)
{
    struct buf names = {0};
    list_names(entries, &names);
    struct err err =
        err_make(ERR_NOT_FOUND, "%.100s: %s: there is none with the name '%.*s'; there are %s",
                 r->file, list, NAME_ARG(str_from(name)), names.at);
    buf_fini(&names);
    return err;
}

static struct err refuse_no_context(struct reader *r, const struct part *root)
{
    const struct document_node *contexts;
    char path[128];
    struct buf names = {0};
    TRY(get_list(r, root, "contexts", &contexts, path));
    list_names(contexts, &names);
    struct err err =
        err_make(ERR_MISSING_FIELD, "%.100s: it has no current-context: name a context; it has %s",
                 r->file, names.at);
    buf_fini(&names);
    return err;
}

/* The member `inner` of the entry with that name. */
static struct err find(struct reader *r, const struct part *root, const char *list,
                       const char *inner, const char *name, struct part *out)
{
    const struct document_node *entries;
    char path[128];
    size_t i = 0;
    *out = (struct part){0};
    TRY(get_list(r, root, list, &entries, path));
    for (const struct document_node *n = entries ? entries->first : NULL; n; n = n->next, i++) {
        struct part entry = {.map = n};
        snprintf(entry.path, sizeof entry.path, "%s[%zu]", list, i);
        if (n->type != DOCUMENT_MAP)
            return refuse_type(r, n, entry.path, "a mapping");
        if (!str_eq(document_text(n, "name"), str_from(name)))
            continue;
        if (out->map)
            return refuse(r, ERR_DUPLICATE_FIELD, n, entry.path, "every name only once", name);
        TRY(get_part(r, &entry, inner, out));
        if (!out->map)
            out->map = &nothing;
    }
    return out->map ? err_none() : refuse_name(r, entries, list, name);
}

static struct err read_cluster(struct reader *r, const struct part *p)
{
    struct kube_config *c = r->c;
    const char *server;
    TRY(need_text(r, p, "server", &server));
    const char *fault = fetch_bad_url(server);
    if (fault) {
        char expected[96];
        snprintf(expected, sizeof expected, "a URL; %s", fault);
        return refuse_member(r, p, "server", expected, server);
    }
    size_t len = strlen(server);
    while (len && server[len - 1] == '/')
        len--;
    c->server = keep(c, (struct str){server, len});
    TRY(get_text(r, p, "tls-server-name", &c->server_name));
    TRY(get_text(r, p, "proxy-url", &c->proxy));
    if (c->proxy && strncmp(c->proxy, "http://", 7) != 0 && strncmp(c->proxy, "https://", 8) != 0 &&
        strncmp(c->proxy, "socks5://", 9) != 0)
        return refuse_member(r, p, "proxy-url", "a URL with http, https or socks5", "");
    TRY(get_bool(r, p, "insecure-skip-tls-verify", &c->insecure));
    TRY(get_pem(r, p, "certificate-authority", &c->ca, &c->ca_file));
    if (c->insecure && (c->ca.len || c->ca_file))
        return refuse_member(r, p, "insecure-skip-tls-verify",
                             "false where there is a certificate-authority", "true");
    return err_none();
}

static struct err read_args(struct reader *r, const struct part *p, const char *key,
                            const char *const **out)
{
    const struct document_node *list;
    char path[128];
    TRY(get_list(r, p, key, &list, path));
    size_t count = list ? list->count : 0, i = 0;
    const char **to = arena_get(&r->c->arena, (count + 1) * sizeof *to);
    for (const struct document_node *n = list ? list->first : NULL; n; n = n->next) {
        if (n->type != DOCUMENT_STRING)
            return refuse_type(r, n, path, "a list of texts");
        to[i++] = keep(r->c, n->text);
    }
    to[i] = NULL;
    *out = to;
    return err_none();
}

static struct err read_env(struct reader *r, const struct part *p, const char *const **out)
{
    const struct document_node *list;
    char path[128];
    TRY(get_list(r, p, "env", &list, path));
    size_t count = list ? list->count : 0, i = 0;
    const char **to = arena_get(&r->c->arena, (count + 1) * sizeof *to);
    for (const struct document_node *n = list ? list->first : NULL; n; n = n->next) {
        struct part e = {.map = n};
        const char *name, *value;
        snprintf(e.path, sizeof e.path, "%.80s[%zu]", path, i);
        if (n->type != DOCUMENT_MAP)
            return refuse_type(r, n, e.path, "a mapping with name and value");
        TRY(need_text(r, &e, "name", &name));
        if (strchr(name, '='))
            return refuse_member(r, &e, "name", "a name without '='", name);
        TRY(get_text(r, &e, "value", &value));
        struct buf b = {0};
        buf_print(&b, "%s=%s", name, value ? value : "");
        to[i++] = keep(r->c, buf_view(&b));
        buf_fini(&b);
    }
    to[i] = NULL;
    *out = to;
    return err_none();
}

static struct err read_exec(struct reader *r, const struct part *p)
{
    struct kube_config_exec *e = &r->c->exec;
    const char *mode;
    TRY(need_text(r, p, "command", &e->command));
    if (strchr(e->command, '/'))
        e->command = beside(r->c, r->file, e->command);
    TRY(need_text(r, p, "apiVersion", &e->api_version));
    if (strcmp(e->api_version, "client.authentication.k8s.io/v1") != 0 &&
        strcmp(e->api_version, "client.authentication.k8s.io/v1beta1") != 0)
        return refuse_member(r, p, "apiVersion", "v1 or v1beta1 of client.authentication.k8s.io",
                             e->api_version);
    TRY(read_args(r, p, "args", &e->args));
    TRY(read_env(r, p, &e->env));
    TRY(get_text(r, p, "installHint", &e->install_hint));
    TRY(get_bool(r, p, "provideClusterInfo", &e->wants_cluster));
    TRY(get_text(r, p, "interactiveMode", &mode));
    if (mode && strcmp(mode, "Never") != 0 && strcmp(mode, "IfAvailable") != 0)
        return refuse_member(r, p, "interactiveMode",
                             "Never or IfAvailable, for there is no terminal", mode);
    return err_none();
}

static struct err read_identity(struct reader *r, const struct part *p)
{
    struct kube_config *c = r->c;
    TRY(get_text(r, p, "as", &c->as));
    TRY(get_text(r, p, "as-uid", &c->as_uid));
    TRY(read_args(r, p, "as-groups", &c->as_groups));
    if (!is_absent(document_member(p->map, "as-user-extra")))
        return refuse_member(r, p, "as-user-extra", "nothing: it is not supported", "");
    size_t groups = 0;
    while (c->as_groups[groups])
        groups++;
    if (groups > KUBE_CONFIG_GROUPS_MAX)
        return refuse_member(r, p, "as-groups", "at most 64 groups", "more");
    if (!c->as && (c->as_uid || c->as_groups[0]))
        return refuse_member(r, p, "as", "the user that as-uid and as-groups belong to", "nothing");
    return err_none();
}

static struct err read_user(struct reader *r, const struct part *p)
{
    struct kube_config *c = r->c;
    struct part exec;
    if (!is_absent(document_member(p->map, "auth-provider")))
        return err_make(ERR_NOT_SUPPORTED,
                        "%.100s: %s.auth-provider: it is no longer part of Kubernetes; use exec",
                        r->file, p->path);
    TRY(get_text(r, p, "token", &c->token));
    TRY(get_text(r, p, "tokenFile", &c->token_file));
    TRY(get_text(r, p, "username", &c->user));
    TRY(get_text(r, p, "password", &c->password));
    TRY(get_pem(r, p, "client-certificate", &c->client_cert, &c->client_cert_file));
    TRY(get_pem(r, p, "client-key", &c->client_key, &c->client_key_file));
    TRY(read_identity(r, p));
    TRY(get_part(r, p, "exec", &exec));
    if (exec.map)
        TRY(read_exec(r, &exec));
    if (c->token_file) {
        c->token_file = beside(c, r->file, c->token_file);
        if (access(c->token_file, R_OK) != 0)
            return refuse_member(r, p, "tokenFile", "a file that can be read", c->token_file);
        c->token = NULL; /* as kubectl has it: what the file says counts */
    }
    if (c->password && !c->user)
        return refuse_member(r, p, "username", "the user that the password belongs to", "nothing");
    if (c->user && strchr(c->user, ':'))
        return refuse_member(r, p, "username", "a name without ':'", "");
    if ((c->token || c->token_file) + !!c->user + !!c->exec.command > 1)
        return refuse(r, ERR_BAD_VALUE, p->map, p->path,
                      "one of token, tokenFile, username and exec", "several");
    bool cert = c->client_cert.len || c->client_cert_file;
    if (cert != (c->client_key.len || c->client_key_file))
        return refuse(r, ERR_MISSING_FIELD, p->map, p->path,
                      "client-certificate and client-key together", "only one");
    return err_none();
}

/* A token or password on a header line must be one line. */
static bool is_header_text(const char *text)
{
    for (; text && *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static struct err check_header_texts(struct reader *r, const struct part *p)
{
    const struct kube_config *c = r->c;
    const struct {
        const char *key, *text;
    } texts[] = {{"token", c->token}, {"as", c->as}, {"as-uid", c->as_uid}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!is_header_text(texts[i].text))
            return refuse_member(r, p, texts[i].key, "a text without control characters", "");
    for (size_t i = 0; c->as_groups && c->as_groups[i]; i++)
        if (!is_header_text(c->as_groups[i]))
            return refuse_member(r, p, "as-groups", "texts without control characters", "");
    return err_none();
}

/* --- the whole --- */

static struct err check_kind(struct reader *r, const struct part *root)
{
    const char *kind, *version;
    if (root->map->type != DOCUMENT_MAP)
        return refuse_type(r, root->map, "", "a mapping: a kubeconfig");
    TRY(get_text(r, root, "kind", &kind));
    TRY(get_text(r, root, "apiVersion", &version));
    if (kind && strcmp(kind, "Config") != 0)
        return refuse_member(r, root, "kind", "Config", kind);
    if (version && strcmp(version, "v1") != 0)
        return refuse_member(r, root, "apiVersion", "v1", version);
    return err_none();
}

static struct err read_root(struct reader *r, const struct document_node *node, const char *context)
{
    struct part root = {.map = node}, ctx, part;
    struct kube_config *c = r->c;
    const char *cluster, *user;
    TRY(check_kind(r, &root));
    if (context)
        c->context = keep(c, str_from(context));
    else
        TRY(get_text(r, &root, "current-context", &c->context));
    if (!c->context)
        return refuse_no_context(r, &root);
    TRY(find(r, &root, "contexts", "context", c->context, &ctx));
    TRY(need_text(r, &ctx, "cluster", &cluster));
    TRY(get_text(r, &ctx, "user", &user));
    TRY(get_text(r, &ctx, "namespace", &c->namespace));
    TRY(find(r, &root, "clusters", "cluster", cluster, &part));
    TRY(read_cluster(r, &part));
    if (!user)
        return err_none();
    c->user_name = user;
    TRY(find(r, &root, "users", "user", user, &part));
    TRY(read_user(r, &part));
    return check_header_texts(r, &part);
}

struct err kube_config_read(struct str text, const char *path, const char *context,
                            struct kube_config *out)
{
    struct arena tree = {0};
    struct document_list list;
    const struct document_node *root;
    *out = (struct kube_config){0};
    out->file = keep(out, str_from(path));
    struct reader r = {.file = out->file, .c = out};
    struct err err;
    if (document_read(text, DOCUMENT_ANY, &tree, &list, &r.fault) &&
        document_only(&list, &root, &r.fault))
        err = read_root(&r, root, context);
    else
        err = document_fault_in(r.file, &r.fault);
    arena_fini(&tree);
    if (err.code != ERR_OK)
        kube_config_fini(out);
    return err;
}

struct err kube_config_load(const char *path, const char *context, struct kube_config *out)
{
    struct buf b = {0};
    struct err err = kube_config_read_file(path, &b);
    if (err.code != ERR_OK)
        err = err_make(err.code, "kubeconfig %s%s", err.msg,
                       strchr(path, ':') ? "; it must be one file, not a list of them" : "");
    else
        err = kube_config_read(buf_view(&b), path, context, out);
    if (b.len)
        explicit_bzero(b.at, b.len);
    buf_fini(&b);
    return err;
}

/* --- in a pod --- */

static struct err read_pod_namespace(struct kube_config *c)
{
    struct buf b = {0};
    const char *file = beside(c, c->ca_file, "namespace");
    TRY(kube_config_read_file(file, &b));
    size_t len = b.len;
    while (len && strchr(" \r\n", b.at[len - 1]))
        len--;
    c->namespace = keep(c, (struct str){b.at, len});
    buf_fini(&b);
    return len ? err_none() : err_make(ERR_IO, "%.150s: it is empty", file);
}

static struct err read_pod(struct kube_config *c, const char *folder)
{
    struct buf b = {0};
    buf_print(&b, "%s/", folder);
    buf_byte(&b, '\0');
    c->token_file = beside(c, b.at, "token");
    c->ca_file = beside(c, b.at, "ca.crt");
    b.len = 0;
    struct err err = kube_config_read_file(c->token_file, &b);
    b.len = 0;
    if (err.code == ERR_OK)
        err = kube_config_read_file(c->ca_file, &b);
    if (err.code == ERR_OK && !is_pem(buf_view(&b)))
        err = err_make(ERR_IO, "%.150s: not a PEM file", c->ca_file);
    explicit_bzero(b.at, b.cap);
    buf_fini(&b);
    return err.code == ERR_OK ? read_pod_namespace(c) : err;
}

struct err kube_config_in_pod(const char *folder, const char *host, const char *port,
                              struct kube_config *out)
{
    *out = (struct kube_config){0};
    if (!host || !*host || !port || !*port)
        return err_make(
            ERR_USAGE, "which cluster? give --kubeconfig or set KUBECONFIG: this is not a pod, for "
                       "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
    struct buf b = {0};
    const char *open = strchr(host, ':') ? "[" : "";
    buf_print(&b, "https://%s%s%s:%s", open, host, *open ? "]" : "", port);
    out->server = keep(out, buf_view(&b));
    out->file = keep(out, str_from(folder));
    out->user_name = "serviceaccount";
    buf_fini(&b);
    struct err err = fetch_bad_url(out->server)
                         ? err_make(ERR_BAD_VALUE, "KUBERNETES_SERVICE_HOST and "
                                                   "KUBERNETES_SERVICE_PORT give no URL")
                         : read_pod(out, folder);
    if (err.code != ERR_OK)
        kube_config_fini(out);
    return err;
}

void kube_config_skip_verify(struct kube_config *c)
{
    c->insecure = true;
    c->ca = (struct str){0};
    c->ca_file = NULL;
}

void kube_config_fini(struct kube_config *c)
{
    arena_fini(&c->arena);
    *c = (struct kube_config){0};
}
