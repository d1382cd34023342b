/* SPDX-License-Identifier: Apache-2.0 */

/* tenax build-worker: Screwdriver's builds; so far its settings and its queues at RabbitMQ. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builds/build_connect.h"
#include "builds/build_topology.h"
#include "cli/build_pod_command.h"
#include "cli/commands.h"
#include "client/options.h"

struct build_worker_args {
    const char *config;
    bool print_config, print_template, show_token;
};

#define AT(field) .offset = offsetof(struct build_worker_args, field)

static const struct option_def build_worker_options[] = {
    {"config", "FILE", OPTION_TEXT, AT(config), .env = "TENAX_BUILD_WORKER_CONFIG",
     .help = "settings as YAML, in the form of Screwdriver's queue worker"},
    {"print-config", NULL, OPTION_SWITCH, AT(print_config),
     .help = "print each setting and where it is from, secrets hidden, and end"},
    {"print-pod-template", NULL, OPTION_SWITCH, AT(print_template),
     .help = "print the built-in template of pods, and end"},
    {"show-token", NULL, OPTION_SWITCH, AT(show_token),
     .help = "with pod: the token of the build, too"},
    {0},
};

const struct subcommand build_worker_command = {
    .name = "build-worker",
    .usage =
        "[--config FILE] (--print-config | --print-pod-template | pod [FILE] | topology ACTION)",
    .summary = "the queues of Screwdriver's builds at RabbitMQ",
    .about =
        "`topology show` prints the exchange and the queues as RabbitMQ's own tools import them; "
        "`check` compares them with what the broker has, argument by argument, and ends with 1 if "
        "they differ; `declare` makes what is missing, and all bindings. Nothing is deleted, and "
        "what exists is never changed.\n"
        "`pod` prints the pod that a start message makes, from a file or standard input; the token "
        "is hidden.\n"
        "Settings come from the file and from the variables that Screwdriver's queue worker has, "
        "such as RABBITMQ_HOST; docs/builds.md lists them all.",
    .examples = "  RABBITMQ_HOST=rabbit RABBITMQ_QUEUE=sd tenax build-worker topology check\n"
                "  tenax build-worker --config build-worker.yaml --print-config\n",
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

static struct err ask(const struct build_connect *c, const struct build_topology *t, bool declare,
                      struct amqp_differences *found)
{
    struct amqp_session session = {0};
    struct err e = err_none();
    for (size_t i = 0; i < c->settings.address_count; i++) {
        e = amqp_session_open(&session, &c->settings, i);
        if (e.code == ERR_OK)
            break;
    }
    if (e.code == ERR_OK && declare)
        e = amqp_topology_declare(&session, &t->topology, found);
    else if (e.code == ERR_OK)
        e = amqp_topology_check(&session, &t->topology, found);
    amqp_session_close(&session, e.code == ERR_OK);
    return e;
}

static int compare(struct build_settings *s, const struct build_topology *t, bool declare)
{
    struct build_connect connect;
    struct amqp_differences found = {0};
    struct err e = build_connect_make(&connect, s);
    if (e.code != ERR_OK)
        return complain(&e, CLI_USAGE);
    e = ask(&connect, t, declare, &found);
    for (size_t i = 0; i < found.count; i++)
        print_difference(&found.at[i]);
    bool same = found.count == 0;
    amqp_differences_fini(&found);
    if (e.code != ERR_OK)
        return complain(&e, CLI_UNREACHABLE);
    if (same)
        printf("exchange '%s' and %zu queues are as they should be\n", t->topology.exchange,
               t->topology.queue_count);
    return same ? CLI_OK : CLI_REFUSED;
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
    if (!on_topology && !on_pod && (!args.print_config || o.rest_count > 0))
        return subcommand_usage(&build_worker_command,
                                "expected --print-config, or topology declare|check|show");
    struct err e = build_settings_read(&settings, args.config, getenv);
    if (e.code != ERR_OK)
        code = complain(&e, CLI_USAGE);
    else if (on_pod)
        code = build_pod_command(&settings, o.rest[1], args.show_token);
    else
        code = on_topology ? topology(&settings, o.rest[1]) : print_config(&settings);
    build_settings_free(&settings);
    return code;
}
