/* SPDX-License-Identifier: Apache-2.0 */

/* What libpq is told of a connection: the URL, the password, and what we ask for where neither the
 * URL nor the environment says anything. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/must.h"
#include "postgres/pg_internal.h"

/* --- the URL in messages --- */

static const char *value_of(const PQconninfoOption *options, const char *name)
{
    for (const PQconninfoOption *o = options; o && o->keyword; o++)
        if (strcmp(o->keyword, name) == 0)
            return o->val && *o->val ? o->val : NULL;
    return NULL;
}

/* A slash in a password makes libpq take its parts for a port and a database. */
static bool is_mistaken(const PQconninfoOption *options)
{
    const char *port = value_of(options, "port"), *db = value_of(options, "dbname");
    return (port && port[strspn(port, "0123456789,")]) || (db && strchr(db, '@'));
}

/* What is not parsed is not shown: any part of it may be of a password. */
static PQconninfoOption *parse(const char *url)
{
    char *text = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &text);
    PQfreemem(text); /* it may quote a password */
    if (!options || !is_mistaken(options))
        return options;
    PQconninfoFree(options);
    return NULL;
}

static void add(struct buf *out, const char *before, const char *text)
{
    if (text)
        buf_print(out, "%s%s", before, text);
}

void pg_mask(const char *url, struct buf *out)
{
    PQconninfoOption *o = parse(url);
    out->len = 0;
    buf_lit(out, "postgres://");
    if (o) {
        add(out, "", value_of(o, "user"));
        add(out, ":", value_of(o, "password") ? "***" : NULL);
        if (value_of(o, "user") || value_of(o, "password"))
            buf_byte(out, '@');
        add(out, "", value_of(o, "host"));
        add(out, ":", value_of(o, "port"));
        add(out, "/", value_of(o, "dbname"));
    } else {
        buf_lit(out, "***");
    }
    buf_byte(out, '\0');
    out->len--;
    PQconninfoFree(o);
}

bool pg_has_password(const char *url)
{
    PQconninfoOption *o = parse(url);
    bool has = value_of(o, "password") || value_of(o, "sslpassword");
    PQconninfoFree(o);
    return has;
}

/* --- the password's file --- */

NODISCARD static struct err read_password(const char *path, char **out)
{
    char line[1024];
    FILE *f = fopen(path, "re");
    if (!f)
        return err_make(ERR_USAGE, "cannot read the password of PostgreSQL in %.120s: %s", path,
                        strerror(errno));
    const char *got = fgets(line, sizeof line, f);
    fclose(f);
    line[got ? strcspn(line, "\r\n") : 0] = '\0';
    if (!*line)
        return err_make(ERR_USAGE, "%.150s has no password of PostgreSQL in its first line", path);
    *out = alloc_text(line, strlen(line));
    explicit_bzero(line, sizeof line);
    return err_none();
}

/* --- the parameters --- */

static void set(struct pg_url *u, const char *name, const char *value)
{
    must((size_t)u->count + 1 < COUNT(u->names));
    u->names[u->count] = name;
    u->values[u->count++] = value;
    u->names[u->count] = u->values[u->count] = NULL;
}

/* Unless the URL or the environment has another. */
static void set_default(struct pg_url *u, const char *name, const char *env, const char *value)
{
    const char *given = env ? getenv(env) : NULL;
    if (!value_of(u->parsed, name) && !(given && *given))
        set(u, name, value);
}

static bool is_own(const char *host)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "::1"};
    bool found = host[0] == '/' || host[0] == '@'; /* a socket of the file system */
    for (size_t i = 0; i < COUNT(own); i++)
        found |= strcmp(host, own[i]) == 0;
    return found;
}

/* Whether all of its hosts are this machine. */
static bool is_near(const struct pg_url *u)
{
    const char *hosts = value_of(u->parsed, "hostaddr");
    if (!hosts)
        hosts = value_of(u->parsed, "host");
    if (!hosts)
        hosts = getenv("PGHOSTADDR") ? getenv("PGHOSTADDR") : getenv("PGHOST");
    char *copy = alloc_text(hosts ? hosts : "", hosts ? strlen(hosts) : 0), *rest = copy;
    bool near = true;
    for (char *host = strtok_r(copy, ",", &rest); host; host = strtok_r(NULL, ",", &rest))
        near &= is_own(host);
    free(copy);
    return near;
}

/* libpq before version 16 does not know the system's authorities by itself. */
static void set_authorities(struct pg_url *u)
{
    static const char *const files[] = {"/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
    char own[512];
    const char *home = getenv("HOME");
    snprintf(own, sizeof own, "%s/.postgresql/root.crt", home ? home : "");
    if (home && access(own, R_OK) == 0)
        return;
    for (size_t i = 0; i < COUNT(files); i++)
        if (access(files[i], R_OK) == 0) {
            set_default(u, "sslrootcert", "PGSSLROOTCERT", files[i]);
            return;
        }
}

/* A peer that is gone without a word is noticed within seconds. */
static void set_defaults(struct pg_url *u)
{
    if (!is_near(u)) {
        set_default(u, "sslmode", "PGSSLMODE", "verify-full");
        set_authorities(u);
    }
    set_default(u, "target_session_attrs", "PGTARGETSESSIONATTRS", "read-write");
    set_default(u, "connect_timeout", "PGCONNECT_TIMEOUT", "5");
    set_default(u, "keepalives_idle", NULL, "5");
    set_default(u, "keepalives_interval", NULL, "2");
    set_default(u, "keepalives_count", NULL, "3");
    set_default(u, "tcp_user_timeout", NULL, "10000");
    set_default(u, "client_encoding", NULL, "UTF8");
}

struct err pg_url_read(const struct pg_settings *settings, struct pg_url *out)
{
    *out = (struct pg_url){0};
    out->parsed = parse(settings->url);
    if (!out->parsed)
        return err_make(ERR_USAGE, "the URL of PostgreSQL is malformed; it looks like "
                                   "postgres://USER@HOST:5432/DATABASE, and in a user or a "
                                   "database, characters such as / and @ are percent-encoded");
    for (const PQconninfoOption *o = out->parsed; o->keyword; o++)
        if (o->val && *o->val)
            set(out, o->keyword, o->val);
    set_defaults(out);
    if (settings->password_file) {
        TRY(read_password(settings->password_file, &out->password));
        set(out, "password", out->password);
    }
    return err_none();
}

const char *pg_url_get(const struct pg_url *u, const char *name)
{
    static const char *const env[][2] = {{"host", "PGHOST"},
                                         {"hostaddr", "PGHOSTADDR"},
                                         {"port", "PGPORT"},
                                         {"target_session_attrs", "PGTARGETSESSIONATTRS"}};
    for (int i = 0; i < u->count; i++)
        if (strcmp(u->names[i], name) == 0)
            return u->values[i];
    for (size_t i = 0; i < COUNT(env); i++)
        if (strcmp(env[i][0], name) == 0)
            return getenv(env[i][1]);
    return NULL;
}

void pg_url_fini(struct pg_url *u)
{
    if (u->password)
        explicit_bzero(u->password, strlen(u->password));
    free(u->password);
    PQconninfoFree(u->parsed);
    *u = (struct pg_url){0};
}
