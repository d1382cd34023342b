/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "client/when.h"

static bool same_name(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n + 1) == 0;
}

char **child_environment(char *const *extra, size_t count)
{
    size_t n = 0, used = 0;
    while (environ[n])
        n++;
    char **env = alloc_get((n + count + 1) * sizeof *env);
    for (size_t i = 0; i < n; i++) {
        bool replaced = same_name("TENAX_TOKEN=", environ[i]); /* it is the worker's own */
        for (size_t k = 0; k < count; k++)
            replaced |= same_name(extra[k], environ[i]);
        if (!replaced)
            env[used++] = environ[i];
    }
    for (size_t k = 0; k < count; k++)
        env[used++] = extra[k];
    env[used] = NULL;
    return env;
}

bool child_can_run(const char *command)
{
    const char *path = getenv("PATH");
    if (strchr(command, '/') || !path)
        return access(command, X_OK) == 0;
    bool found = false;
    while (*path && !found) {
        struct buf file = {0};
        size_t n = strcspn(path, ":");
        buf_print(&file, "%.*s/%s", n ? (int)n : 1, n ? path : ".", command);
        buf_byte(&file, '\0');
        found = access(file.at, X_OK) == 0;
        buf_fini(&file);
        path += n + (path[n] == ':');
    }
    return found;
}

/* Our ends of a new process's pipes, as the process sees them. */
struct ends {
    int in, err, report;
};

static bool move_in(const struct child_setting *s, const struct ends *e)
{
    return dup2(e->in, STDIN_FILENO) >= 0 && dup2(e->err, STDERR_FILENO) >= 0 &&
           (!s->output || dup2(e->err, STDOUT_FILENO) >= 0) && (!s->has_dir || fchdir(s->dir) == 0);
}

/* Runs in the new process, after fork: only async-signal-safe calls. Does not return. */
static void become(const struct child_setting *s, const struct ends *ends, pid_t parent)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    setpgid(0, 0);
    /* If the worker is killed, its lease expires and another worker gets the job: this run must not
     * continue beside that one. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigaction(SIGPIPE, &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (getppid() == parent && move_in(s, ends))
        execvpe(s->argv[0], s->argv, s->env);
    int e = errno;
    ssize_t ignored = write(ends->report, &e, sizeof e);
    (void)ignored;
    _exit(127);
}

static void close_all(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Three pipes: its input, its errors, and one that reports a failed exec and is closed by a
 * successful one. */
static bool open_pipes(int p[6])
{
    for (size_t i = 0; i < 6; i += 2) {
        if (pipe2(p + i, O_CLOEXEC) != 0) {
            int e = errno;
            close_all(p, 6);
            errno = e;
            return false;
        }
    }
    return true;
}

static void unblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    must(flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
}

static struct err cannot_start(struct child *c, const char *command, int failure)
{
    c->failure = failure;
    return err_make(ERR_IO, "cannot start %.80s: %s", command, strerror(failure));
}

struct err child_start(struct child *c, char *const *argv, char *const *env, struct str payload)
{
    return child_start_as(c, &(struct child_setting){.argv = argv, .env = env, .payload = payload});
}

struct err child_start_as(struct child *c, const struct child_setting *s)
{
    int p[6] = {-1, -1, -1, -1, -1, -1}, failure = 0;
    *c = (struct child){.in = -1,
                        .err = -1,
                        .payload = s->payload,
                        .tail = c->tail,
                        .output = s->output,
                        .ctx = s->ctx};
    c->tail.len = 0;
    if (!open_pipes(p))
        return cannot_start(c, s->argv[0], errno);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(s, &(struct ends){p[0], p[3], p[5]}, parent);
    if (pid < 0)
        failure = errno;
    close_all((int[]){p[0], p[3], p[5]}, 3);
    if (!failure && read(p[4], &failure, sizeof failure) == sizeof failure)
        waitpid(pid, NULL, 0);
    close(p[4]);
    if (failure) {
        close_all((int[]){p[1], p[2]}, 2);
        return cannot_start(c, s->argv[0], failure);
    }
    c->pid = pid;
    c->in = p[1];
    c->err = p[2];
    c->started = when_mono();
    unblock(c->in);
    unblock(c->err);
    return err_none();
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void feed(struct child *c)
{
    while (c->in >= 0 && c->payload.len) {
        ssize_t n = write(c->in, c->payload.at, c->payload.len);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0)
            break; /* it closed its input, which is allowed */
        c->payload = (struct str){c->payload.at + n, c->payload.len - (size_t)n};
    }
    close_one(&c->in);
}

static void pass_on(const char *at, size_t n)
{
    while (n) {
        ssize_t done = write(STDERR_FILENO, at, n);
        if (done < 0 && errno != EINTR)
            return;
        if (done > 0) {
            at += done;
            n -= (size_t)done;
        }
    }
}

/* So much that a full pipe is emptied, but not more: a command that writes without end must not
 * hold up the worker, nor may what it left behind when it ended. */
#define READS_MAX 16

static void listen_to(struct child *c)
{
    char bytes[8192];
    for (int i = 0; i < READS_MAX && c->err >= 0; i++) {
        ssize_t n = read(c->err, bytes, sizeof bytes);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            close_one(&c->err);
            return;
        }
        if (c->output)
            c->output(c->ctx, (struct str){bytes, (size_t)n});
        else
            pass_on(bytes, (size_t)n);
        buf_add(&c->tail, bytes, (size_t)n);
        if (c->tail.len > 2 * CHILD_TAIL_MAX) {
            buf_drop(&c->tail, c->tail.len - CHILD_TAIL_MAX);
            c->cut = true;
        }
    }
}

void child_pump(struct child *c)
{
    if (!c->pid)
        return;
    feed(c);
    listen_to(c);
}

void child_signal(struct child *c, int sig)
{
    if (c->pid)
        kill(-c->pid, sig);
}

bool child_reap(struct child *c, bool sweep)
{
    siginfo_t info = {0};
    if (!c->pid || waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return false;
    /* Before the pid is released: afterwards another group may get this number. */
    if (sweep)
        kill(-c->pid, SIGKILL);
    waitpid(c->pid, &c->status, 0);
    c->ended = when_mono();
    /* Everything that it has written is in the pipe by now; a grandchild that keeps the pipe open
     * is not waited for. */
    listen_to(c);
    if (!c->output && c->tail.len && c->tail.at[c->tail.len - 1] != '\n')
        pass_on("\n", 1); /* so that the worker's next message begins a new line */
    c->pid = 0;
    close_one(&c->in);
    close_one(&c->err);
    if (c->tail.len > CHILD_TAIL_MAX) {
        buf_drop(&c->tail, c->tail.len - CHILD_TAIL_MAX);
        c->cut = true;
    }
    return true;
}

void child_fini(struct child *c)
{
    close_one(&c->in);
    close_one(&c->err);
    buf_fini(&c->tail);
}
