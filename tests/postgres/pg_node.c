/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_node.h"

#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "postgres/pg_schema.h"
#include "store/cm.h"

/* Of Debian's package, the newest version; elsewhere from PATH. */
static void program(const char *name, char out[256])
{
    char pattern[64];
    glob_t found;
    snprintf(pattern, sizeof pattern, "/usr/lib/postgresql/*/bin/%s", name);
    snprintf(out, 256, "%s", name);
    if (glob(pattern, 0, NULL, &found) == 0)
        snprintf(out, 256, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
}

static const struct passwd *user(void)
{
    const struct passwd *u = getuid() ? getpwuid(getuid()) : getpwnam("postgres");
    assert_non_null(u);
    return u;
}

/* Ends with the process that started it, also if that is killed. */
static void become(const struct passwd *u, const char *dir)
{
    int out = open("output", O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)dir;
    if (out >= 0) {
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
    }
    if (getuid() == 0 && (setgroups(0, NULL) || setgid(u->pw_gid) || setuid(u->pw_uid)))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (getppid() == 1)
        _exit(126);
}

static pid_t start(const struct pg_node *n, char *const argv[])
{
    const struct passwd *u = user();
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setsid();
        if (chdir(n->dir) == 0) {
            become(u, n->dir);
            execvp(argv[0], argv);
        }
        _exit(127);
    }
    return pid;
}

static void say_why(const struct pg_node *n)
{
    char path[128], line[256];
    snprintf(path, sizeof path, "%s/output", n->dir);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        print_error("PostgreSQL: %s", line);
    if (f)
        fclose(f);
}

static void make(struct pg_node *n, const char *settings)
{
    char initdb[256], data[80], path[128];
    int status;
    program("initdb", initdb);
    snprintf(data, sizeof data, "%s/data", n->dir);
    char *argv[] = {initdb,  "-D", data,   "-U",        "admin",      "-A",
                    "trust", "-E", "UTF8", "--no-sync", "--locale=C", NULL};
    assert_int_equal(waitpid(start(n, argv), &status, 0) > 0, 1);
    if (status != 0)
        say_why(n);
    assert_int_equal(status, 0);
    snprintf(path, sizeof path, "%s/data/postgresql.conf", n->dir);
    FILE *f = fopen(path, "ae");
    assert_non_null(f);
    fprintf(f,
            "listen_addresses = ''\nunix_socket_directories = '%s'\nfsync = off\n"
            "max_connections = 50\nshared_buffers = 32MB\nlog_min_messages = warning\n%s\n",
            n->dir, settings ? settings : "");
    fclose(f);
}

/* Until it answers. */
static void await_it(struct pg_node *n)
{
    struct pg_settings settings = {.url = n->url, .purpose = "test"};
    mono end = pg_after(pg_now(), (span){60000});
    struct pg *pg = NULL;
    struct err e;
    while ((e = pg_open(&settings, &pg)).code != ERR_OK && pg_now().ns < end.ns) {
        int status;
        if (waitpid(n->pid, &status, WNOHANG) != 0)
            break;
        poll(NULL, 0, 10);
    }
    pg_close(pg);
    if (e.code != ERR_OK)
        say_why(n);
    assert_ok(e);
}

void pg_node_again(struct pg_node *n)
{
    char postgres[256], data[80];
    program("postgres", postgres);
    snprintf(data, sizeof data, "%s/data", n->dir);
    char *argv[] = {postgres, "-D", data, NULL};
    n->pid = start(n, argv);
    await_it(n);
}

void pg_node_kill(struct pg_node *n)
{
    int status;
    /* Its children end by themselves when it does: with SIGQUIT it tells them to, at once. */
    kill(n->pid, SIGQUIT);
    assert_int_equal(waitpid(n->pid, &status, 0), n->pid);
    n->pid = 0;
}

void pg_node_start(struct pg_node *n, const char *settings)
{
    bool changed;
    snprintf(n->dir, sizeof n->dir, "/tmp/tenax-pg-XXXXXX");
    assert_non_null(mkdtemp(n->dir));
    assert_int_equal(chown(n->dir, user()->pw_uid, user()->pw_gid), 0);
    snprintf(n->url, sizeof n->url, "postgres:///postgres?host=%s&user=admin", n->dir);
    make(n, settings);
    pg_node_again(n);
    struct pg *pg = pg_node_open(n);
    assert_ok(pg_schema_install(pg, &changed));
    pg_close(pg);
}

void pg_node_set(struct pg_node *n, const char *line)
{
    char path[128];
    snprintf(path, sizeof path, "%s/data/postgresql.conf", n->dir);
    FILE *f = fopen(path, "ae");
    assert_non_null(f);
    fprintf(f, "%s\n", line);
    fclose(f);
    pg_node_sql(n, "SELECT pg_reload_conf()");
}

void pg_node_guard(struct pg_node *n, const char *role)
{
    char path[128], rest[8192];
    snprintf(path, sizeof path, "%s/data/pg_hba.conf", n->dir);
    FILE *f = fopen(path, "r+e");
    assert_non_null(f);
    size_t len = fread(rest, 1, sizeof rest, f);
    rewind(f);
    fprintf(f, "local all %s scram-sha-256\n", role);
    fwrite(rest, 1, len, f);
    fclose(f);
    pg_node_sql(n, "SELECT pg_reload_conf()");
}

void pg_node_remove(struct pg_node *n)
{
    char *argv[] = {"rm", "-rf", n->dir, NULL};
    int status;
    if (n->pid)
        pg_node_kill(n);
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* --- SQL --- */

struct pg *pg_node_open(const struct pg_node *n)
{
    struct pg *pg;
    struct pg_settings settings = {.url = n->url, .purpose = "test"};
    assert_ok(pg_open(&settings, &pg));
    return pg;
}

void pg_node_sql(const struct pg_node *n, const char *sql)
{
    struct pg *pg = pg_node_open(n);
    assert_ok(pg_script(pg, sql));
    pg_close(pg);
}

int64_t pg_node_ask(const struct pg_node *n, const char *sql)
{
    struct pg *pg = pg_node_open(n);
    struct pg_rows *rows;
    struct pg_statement s = {"ask", sql};
    assert_ok(pg_run(pg, &s, NULL, 0, &rows));
    int64_t v = pg_rows_count(rows) ? pg_get_int(rows, 0, 0) : -1;
    pg_rows_free(rows);
    pg_close(pg);
    return v;
}

int pg_node_shard(const struct pg_node *n)
{
    return (int)pg_node_ask(n, "WITH s AS (INSERT INTO tenax.shard (shard) SELECT max(shard) + 1 "
                               "FROM tenax.shard RETURNING shard) INSERT INTO tenax.lease (shard) "
                               "SELECT shard FROM s RETURNING shard");
}
