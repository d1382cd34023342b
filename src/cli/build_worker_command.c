/* SPDX-License-Identifier: Apache-2.0 */

/* tenax build-worker: runs Screwdriver's builds, or shows and makes its queues at RabbitMQ. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "builds/build_connect.h"
#include "builds/build_serve.h"
#include "builds/build_topology.h"
#include "cli/build_pod_command.h"
#include "cli/commands.h"
#include "client/options.h"

struct build_worker_args {
    const char *config, *server, *token_file, *pod_template, *state_dir, *host;
    bool print_config, print_template, show_token, wait_queues;
    int broker, verification, log_level, log_format;
    span verify_delay, verify_step, scheduling;
    int64_t verify_limit, port;
};

/* Flags that are settings: they win over the file and the variables. */
static const struct {
    const char *flag;
    enum build_setting setting;
} by_flag[] = {
    {"broker", BUILD_BROKER},
    {"server", BUILD_SERVER},
    {"token-file", BUILD_SERVER_TOKEN},
    {"verification", BUILD_VERIFICATION},
    {"verify-delay", BUILD_VERIFY_DELAY},
    {"verify-step", BUILD_VERIFY_STEP},
    {"verify-limit", BUILD_VERIFY_LIMIT},
    {"scheduling-timeout", BUILD_SCHEDULING_TIMEOUT},
    {"wait-queues", BUILD_WAIT_QUEUES},
    {"pod-template", BUILD_POD_TEMPLATE},
    {"state-dir", BUILD_STATE_DIR},
    {"host", BUILD_HTTP_HOST},
    {"port", BUILD_HTTP_PORT},
};

#define AT(field) .offset = offsetof(struct build_worker_args, field)

static const struct option_def build_worker_options[] = {
    {"config", "FILE", OPTION_TEXT, AT(config), .env = "TENAX_BUILD_WORKER_CONFIG",
     .help = "settings as YAML, in the form of Screwdriver's queue worker [default: where "
             "its image has it]"},
    {"print-config", NULL, OPTION_SWITCH, AT(print_config),
     .help = "print each setting and where it is from, secrets hidden, and end"},
    {"print-pod-template", NULL, OPTION_SWITCH, AT(print_template),
     .help = "print the built-in template of pods, and end"},
    {"show-token", NULL, OPTION_SWITCH, AT(show_token),
     .help = "with pod: the token of the build, too"},
    {"broker", "KIND", OPTION_CHOICE, AT(broker), .choices = "rabbitmq|tenax", .def = "rabbitmq",
     .help = "where messages come from"},
    {"server", "URL", OPTION_TEXT, AT(server),
     .help = "the server, with --broker tenax [default: http://127.0.0.1:7890]"},
    {"token-file", "FILE", OPTION_TEXT, AT(token_file),
     .help = "send it the token in this file; otherwise that in TENAX_TOKEN, if there is one"},
    {"verification", "MODE", OPTION_CHOICE, AT(verification), .choices = "queue|timer",
     .def = "queue",
     .help =
         "looked at again and again until they run, or once, after RABBITMQ_BUILD_INIT_TIMEOUT"},
    {"verify-delay", "DURATION", OPTION_SPAN, AT(verify_delay),
     .help = "before a build is looked at for the first time, and again [default: 30s]"},
    {"verify-step", "DURATION", OPTION_SPAN, AT(verify_step),
     .help = "added to that for each look at a build that is being initialized [default: 10s]"},
    {"verify-limit", "COUNT", OPTION_INT, AT(verify_limit), .min = 0, .max = 1000000,
     .help = "looks at a build after which the next one is the last [default: 6]"},
    {"pod-template", "FILE", OPTION_TEXT, AT(pod_template),
     .help = "the pods of builds, as YAML with {{NAME}} for values [default: the built-in one]"},
    {"scheduling-timeout", "DURATION", OPTION_SPAN, AT(scheduling),
     .help = "from the start of a build to a node for it [default: 3m]"},
    {"wait-queues", NULL, OPTION_SWITCH, AT(wait_queues),
     .help = "a wait queue for each delay, so that none holds up another"},
    {"state-dir", "DIR", OPTION_TEXT, AT(state_dir),
     .help = "where statuses to be told, and timers, are kept [default: "
             "~/.local/state/tenax/build-worker-QUEUE]"},
    {"host", "ADDRESS", OPTION_TEXT, AT(host),
     .help = "answer GET /health and GET /metrics at this address [default: 0.0.0.0]"},
    {"port", "PORT", OPTION_INT, AT(port), .min = 0, .max = 65535,
     .help = "and port; 0 picks a free one [default: 80]"},
    {"log-level", "LEVEL", OPTION_CHOICE, AT(log_level), .choices = "error|warn|info|debug",
     .env = "TENAX_LOG_LEVEL", .def = "info", .help = "what is logged"},
    {"log-format", "FORMAT", OPTION_CHOICE, AT(log_format), .choices = "text|json",
     .env = "TENAX_LOG_FORMAT", .def = "text", .help = "for people or for programs"},
    {0},
};

const struct subcommand build_worker_command = {
    .name = "build-worker",
    .usage = "[OPTIONS] [pod [FILE] | topology ACTION]",
    .summary = "run Screwdriver's builds as pods, over RabbitMQ",
    .about =
        "Takes the messages of Screwdriver's queue service: a start becomes a pod, which is "
        "verified until it runs, or its build fails with the reason; a stop deletes the pods of a "
        "build; a clear removes a cache. It takes the place of Screwdriver's build-cluster queue "
        "worker: settings come from the same file and the same variables, such as RABBITMQ_HOST; "
        "docs/builds.md lists them all. Builds are verified if RABBITMQ_RETRYQUEUE_ENABLED is "
        "true.\n"
        "`topology show` prints the exchange and the queues as RabbitMQ's own tools import them; "
        "`check` compares them with what the broker has, argument by argument, and ends with 1 if "
        "they differ; `declare` makes what is missing, and all bindings. Nothing is deleted, and "
        "what exists is never changed.\n"
        "`pod` prints the pod that a start message makes, from a file or standard input; the token "
        "is hidden.\n"
        "SIGTERM or Ctrl-C ends the worker once it has finished what it has begun; all else stays "
        "in the queues.",
    .examples = "  RABBITMQ_HOST=rabbit RABBITMQ_QUEUE=sd tenax build-worker topology check\n"
                "  tenax build-worker --config build-worker.yaml --print-config\n"
                "  tenax build-worker --config build-worker.yaml --verify-delay 10s\n",
    .options = build_worker_options,
    .words = "pod|topology",
};

static int complain(const struct err *e, int code)
{
    fprintf(stderr, "tenax build-worker: %s\n", e->msg);
    return code;
}

static void print_difference(const struct amqp_difference *d)
{
    if (d->missing)
        printf("%s: does not exist\n", d->name);
    else if (strcmp(d->argument, "?") == 0)
        printf("%s: differs: %s\n", d->name, d->found);
    else
        printf("%s: %s should be %s, but is %s\n", d->name, d->argument, d->wanted, d->found);
}

/* What was found at the broker. */
struct finding {
    struct amqp_differences all;
    bool limited; /* not everything was compared, for want of rights */
    bool has_dlr; /* there is a RETRYdlr */
};

static struct err look(struct amqp_session *session, const struct build_topology *t, bool declare,
                       struct finding *found)
{
    uint32_t messages, consumers;
    if (declare)
        return amqp_topology_declare(session, &t->topology, &found->all);
    TRY(amqp_topology_check_allowed(session, &t->topology, &found->all, &found->limited));
    return amqp_topology_count(session, t->retry_dlr.name, &found->has_dlr, &messages, &consumers);
}

static struct err ask(const struct build_connect *c, const struct build_topology *t, bool declare,
                      struct finding *found)
{
    struct amqp_session session = {0};
    struct err e = err_none();
    for (size_t i = 0; i < c->settings.address_count; i++) {
        e = amqp_session_open(&session, &c->settings, i);
        if (e.code == ERR_OK)
            break;
    }
    if (e.code == ERR_OK)
        e = look(&session, t, declare, found);
    amqp_session_close(&session, e.code == ERR_OK);
    return e;
}

/* Returns how many were named. A user without the rights of an administrator cannot change what
 * does no harm. */
static size_t print_differences(const struct build_settings *s, const struct build_topology *t,
                                const struct finding *found)
{
    size_t named = 0;
    for (size_t i = 0; i < found->all.count; i++) {
        if (found->limited && !build_topology_matters(t, s, &found->all.at[i], found->has_dlr))
            continue;
        print_difference(&found->all.at[i]);
        named++;
    }
    return named;
}

static int compare(struct build_settings *s, const struct build_topology *t, bool declare)
{
    struct build_connect connect;
    struct finding found = {0};
    struct err e = build_connect_make(&connect, s);
    if (e.code != ERR_OK)
        return complain(&e, CLI_USAGE);
    e = ask(&connect, t, declare, &found);
    size_t named = print_differences(s, t, &found);
    amqp_differences_fini(&found.all);
    if (e.code != ERR_OK)
        return complain(&e, CLI_UNREACHABLE);
    if (named)
        return CLI_REFUSED;
    if (found.limited)
        printf("nothing keeps builds from working, as far as this user may compare, which takes "
               "the permission to configure\n");
    else
        printf("exchange '%s' and %zu queues are as they should be\n", t->topology.exchange,
               t->topology.queue_count);
    return CLI_OK;
}

static int show_topology(struct build_settings *s, const struct build_topology *t)
{
    struct buf b = {0};
    build_topology_write(t, build_settings_vhost(s), &b);
    subcommand_print(stdout, &b);
    buf_fini(&b);
    return CLI_OK;
}

static int topology(struct build_settings *s, const char *action)
{
    struct build_topology t;
    build_topology_make(&t, s);
    if (strcmp(action, "show") == 0)
        return show_topology(s, &t);
    if (strcmp(action, "check") == 0 || strcmp(action, "declare") == 0)
        return compare(s, &t, strcmp(action, "declare") == 0);
    return subcommand_usage(&build_worker_command, "'topology %s': expected declare, check or show",
                            action);
}

static int print_config(const struct build_settings *s)
{
    struct buf b = {0};
    build_settings_print(s, &b);
    subcommand_print(stdout, &b);
    buf_fini(&b);
    return CLI_OK;
}

/* Where a deployment of Screwdriver's queue worker mounts its settings. */
#define ORIGINAL_CONFIG                                                                            \
    "/usr/src/app/node_modules/screwdriver-buildcluster-queue-worker/config/local.yaml"

static const char *config_of(const struct build_worker_args *args)
{
    if (args->config)
        return args->config;
    return access(ORIGINAL_CONFIG, F_OK) == 0 ? ORIGINAL_CONFIG : NULL;
}

/* The value of an option, as one would write it. */
static const char *spell(const struct build_worker_args *args, const struct option_def *d,
                         char out[64])
{
    const void *at = (const char *)args + d->offset;
    const char *word = d->choices;
    switch (d->type) {
    case OPTION_TEXT:
        return *(const char *const *)at;
    case OPTION_SPAN:
        snprintf(out, 64, "%lldms", (long long)((const span *)at)->ms);
        break;
    case OPTION_INT:
        snprintf(out, 64, "%lld", (long long)*(const int64_t *)at);
        break;
    case OPTION_CHOICE:
        for (int i = *(const int *)at; i > 0; i--)
            word = strchr(word, '|') + 1;
        snprintf(out, 64, "%.*s", (int)strcspn(word, "|"), word);
        break;
    default:
        return "true";
    }
    return out;
}

static struct err read_settings(const struct build_worker_args *args, const struct options *o,
                                struct build_settings *s)
{
    char text[64];
    TRY(build_settings_read(s, config_of(args), getenv));
    for (size_t row = 0; o->defs[row].flag; row++)
        for (size_t i = 0; i < COUNT(by_flag); i++)
            if (o->source[row] == OPTION_FROM_FLAG &&
                strcmp(o->defs[row].flag, by_flag[i].flag) == 0)
                TRY(build_settings_set(s, by_flag[i].setting, spell(args, &o->defs[row], text)));
    return err_none();
}

int build_worker_main(int argc, char **argv)
{
    struct build_worker_args args = {0};
    struct build_settings settings = {0};
    struct options o;
    int code;
    if (!subcommand_begin(&build_worker_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (args.print_template)
        return build_pod_command_template();
    bool on_topology = o.rest_count == 2 && strcmp(o.rest[0], "topology") == 0;
    bool on_pod = o.rest_count >= 1 && o.rest_count <= 2 && strcmp(o.rest[0], "pod") == 0;
    if (!on_topology && !on_pod && o.rest_count > 0)
        return subcommand_usage(&build_worker_command,
                                "'%s': expected nothing, pod, or topology declare|check|show",
                                o.rest[0]);
    log_set((enum log_level)args.log_level, (enum log_format)args.log_format);
    struct err e = read_settings(&args, &o, &settings);
    if (e.code != ERR_OK)
        code = complain(&e, CLI_USAGE);
    else if (args.print_config)
        code = print_config(&settings);
    else if (on_pod)
        code = build_pod_command(&settings, o.rest[1], args.show_token);
    else
        code = on_topology ? topology(&settings, o.rest[1]) : build_serve(&settings);
    build_settings_free(&settings);
    return code;
}
