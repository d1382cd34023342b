/* SPDX-License-Identifier: Apache-2.0 */

/* tenax bridge rabbitmq: its options, and where RabbitMQ is. */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/event_cursor.h"
#include "base/log.h"
#include "base/strmap.h"
#include "bridge/bridge.h"
#include "bridge/bridge_url.h"
#include "cli/commands.h"
#include "client/client.h"
#include "executor/exec_identity.h"

#define NAME_SEED     UINT64_C(0x6272696467650000) /* of the names: never to be changed */
#define FILE_BYTES    8192
#define CONNECT_LIMIT ((span){10000})
#define HEARTBEAT     ((span){20000})
#define LEASE_MIN_MS  10000

struct bridge_args {
    struct client_args client;
    const char *amqp, *amqp_file, *password_file, *ca_cert, *client_cert, *client_key;
    const char *from_rabbitmq, *to, *type, *key;
    const char *from, *to_rabbitmq, *to_exchange, *routing_key;
    const char *filter_queue, *filter_type, *filter_event, *messages;
    const char *name, *state_dir, *metrics_host;
    const char *events_since;
    int64_t prefetch, metrics_port;
    span key_retention, lease;
    int payload, refused, log_level, log_format;
    bool events, declare;
};

#define AT(field) .offset = offsetof(struct bridge_args, field)

static const struct option_def options[] = {
    {"amqp", "URL", OPTION_TEXT, AT(amqp), .env = "TENAX_AMQP_URL",
     .help = "RabbitMQ: amqp[s]://USER@HOST:PORT/VHOST; HOST:PORT,HOST:PORT for several of a "
             "cluster. A password may only be in the variable, or in a file"},
    {"amqp-file", "FILE", OPTION_TEXT, AT(amqp_file), .env = "TENAX_AMQP_FILE",
     .help = "a file with that URL, with or without a password"},
    {"amqp-password-file", "FILE", OPTION_TEXT, AT(password_file),
     .env = "TENAX_AMQP_PASSWORD_FILE",
     .help = "a file with the password; TENAX_AMQP_PASSWORD is one, too [default: guest's]"},
    {"amqp-ca-cert", "FILE", OPTION_TEXT, AT(ca_cert), .env = "TENAX_AMQP_CA_CERT",
     .help = "trust brokers whose certificate this CA has signed (PEM) [default: whom the system "
             "trusts]"},
    {"amqp-client-cert", "FILE", OPTION_TEXT, AT(client_cert), .env = "TENAX_AMQP_CLIENT_CERT",
     .help = "the certificate to present to the broker (PEM)"},
    {"amqp-client-key", "FILE", OPTION_TEXT, AT(client_key), .env = "TENAX_AMQP_CLIENT_KEY",
     .help = "its private key (PEM)"},
    {"server", "URL", OPTION_TEXT, AT(client.url), .env = "TENAX_URL", .alias = "ZIZQ_URL",
     .def = "http://127.0.0.1:7890", .help = "Tenax's server"},
    CLIENT_CONTEXT_OPTION(struct bridge_args, "context"),
    CLIENT_TLS_OPTIONS(struct bridge_args),
    {"from-rabbitmq", "QUEUE", OPTION_TEXT, AT(from_rabbitmq),
     .help = "make jobs of the messages of this queue of RabbitMQ"},
    {"to", "QUEUE", OPTION_TEXT, AT(to), .help = "their queue"},
    {"type", "TYPE", OPTION_TEXT, AT(type),
     .help = "their type [default: that of the message, else 'message']"},
    {"payload", "WHAT", OPTION_CHOICE, AT(payload), .choices = "body|message", .def = "body",
     .help = "the payload of a job is the body of the message, which is JSON then, or the whole "
             "message with its properties; both ways"},
    {"key", "WHAT", OPTION_TEXT, AT(key), .def = "message-id",
     .help = "what tells a message from others: message-id, header:NAME, body (equal ones are the "
             "same) or none"},
    {"key-retention", "DURATION", OPTION_SPAN, AT(key_retention), .def = "10m",
     .help = "how long a completed job is kept with its key, which keeps a duplicate out; 0: as "
             "long as the server keeps jobs"},
    {"refused", "WHAT", OPTION_CHOICE, AT(refused), .choices = "hold|dead-letter", .def = "hold",
     .help = "messages that cannot be jobs are held unacknowledged, or rejected: then RabbitMQ "
             "dead-letters them, or drops them if the queue has no dead-letter exchange"},
    {"from", "QUEUE", OPTION_TEXT, AT(from), .help = "publish the jobs of this queue of Tenax"},
    {"to-rabbitmq", "QUEUE", OPTION_TEXT, AT(to_rabbitmq), .help = "to this queue of RabbitMQ"},
    {"to-exchange", "NAME", OPTION_TEXT, AT(to_exchange),
     .help = "or to this exchange; that of --events, too"},
    {"routing-key", "KEY", OPTION_TEXT, AT(routing_key),
     .help = "with this routing key; without it that in the payload, with --payload message, or "
             "else the type of the job"},
    {"events", NULL, OPTION_SWITCH, AT(events),
     .help = "publish events to that exchange, with the routing key QUEUE.EVENT"},
    {"messages", "NAME", OPTION_TEXT, AT(messages),
     .help = "with taskcluster: publish what Taskcluster's queue says of its tasks, to its "
             "exchanges"},
    {"filter-queue", "NAME,…", OPTION_TEXT, AT(filter_queue),
     .help = "only events of jobs in these queues"},
    {"filter-type", "NAME,…", OPTION_TEXT, AT(filter_type),
     .help = "only events of jobs of these types"},
    {"filter-event", "NAME,…", OPTION_TEXT, AT(filter_event), .help = "only these events"},
    {"events-since", "CURSOR", OPTION_TEXT, AT(events_since),
     .help = "where a new bridge begins: after the event with this cursor, or number; 0: with the "
             "oldest that is kept [default: with the next one]"},
    {"declare", NULL, OPTION_SWITCH, AT(declare),
     .help = "make the queues and exchanges that RabbitMQ does not have: durable, exchanges of "
             "type topic"},
    {"prefetch", "COUNT", OPTION_INT, AT(prefetch), .min = 1, .max = 10000, .def = "1000",
     .help = "how many messages, or jobs, are under way each way at the same time"},
    {"lease", "DURATION", OPTION_SPAN, AT(lease), .def = "2m",
     .help = "how long the server waits for this bridge before it gives a job to another worker"},
    {"name", "NAME", OPTION_TEXT, AT(name), .env = "TENAX_BRIDGE",
     .help = "the name of this bridge, the same after a restart; made from the host's name and "
             "from what it moves, unless it is given"},
    {"state-dir", "DIR", OPTION_TEXT, AT(state_dir), .env = "TENAX_STATE_DIR",
     .help = "where it is kept which events are published; $XDG_STATE_HOME/tenax/NAME or "
             "~/.local/state/tenax/NAME, unless it is given"},
    {"metrics-port", "PORT", OPTION_INT, AT(metrics_port), .min = 0, .max = 65535,
     .env = "TENAX_BRIDGE_METRICS_PORT",
     .help = "answer GET /metrics and GET /health there; 0 picks a free port [default: nowhere]"},
    {"metrics-host", "ADDRESS", OPTION_TEXT, AT(metrics_host), .def = "127.0.0.1",
     .env = "TENAX_BRIDGE_METRICS_HOST", .help = "at this address"},
    {"log-level", "LEVEL", OPTION_CHOICE, AT(log_level), .choices = "error|warn|info|debug",
     .env = "TENAX_LOG_LEVEL", .def = "info", .help = "what is logged"},
    {"log-format", "FORMAT", OPTION_CHOICE, AT(log_format), .choices = "text|json",
     .env = "TENAX_LOG_FORMAT", .def = "text", .help = "for people or for programs"},
    {0},
};

const struct subcommand bridge_command = {
    .name = "bridge",
    .usage = "rabbitmq --amqp URL [OPTIONS]",
    .summary = "move messages and events between RabbitMQ and Tenax",
    .about =
        "One or several of: messages of a queue of RabbitMQ become jobs (--from-rabbitmq, --to); "
        "jobs become messages (--from, --to-rabbitmq or --to-exchange); events are published "
        "(--events, --to-exchange; with --messages taskcluster those of Taskcluster).\n"
        "Everything arrives at least once: a message is acknowledged when its job is stored, a job "
        "succeeds when RabbitMQ has confirmed its message, and events go on where they were "
        "confirmed. Jobs have unique keys, and messages ids, against duplicates.\n"
        "Either side may be away: the bridge waits for it. SIGTERM or Ctrl-C ends it once what is "
        "under way is confirmed. docs/bridge.md says more.",
    .examples = "  tenax bridge rabbitmq --amqp amqp://app@rabbit/ --amqp-password-file pw \\\n"
                "    --from-rabbitmq orders --to orders --type order\n"
                "  tenax bridge rabbitmq --from mail --to-exchange mail --routing-key out\n"
                "  tenax bridge rabbitmq --events --messages taskcluster --declare\n",
    .options = options,
    .words = "rabbitmq",
};

/* --- where RabbitMQ is --- */

/* What is read of files, and what is made of it. */
struct place {
    struct arena memory;
    struct bridge_url url;
    struct amqp_tls tls;
    struct buf name, dir;
};

static int complain(const char *fmt, const char *what, const char *why)
{
    return subcommand_usage(&bridge_command, fmt, what, why);
}

/* The file's only line. */
static int read_line(struct place *p, const char *option, const char *path, const char **out)
{
    char *text = arena_get(&p->memory, FILE_BYTES);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, FILE_BYTES - 1, f) : 0;
    bool bad = !f || ferror(f);
    int why = errno;
    if (f)
        fclose(f);
    if (bad)
        return subcommand_usage(&bridge_command, "option '--%s': '%.200s' cannot be read: %s",
                                option, path, strerror(why));
    text[n] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    *out = text;
    return CLI_OK;
}

static int read_url(const struct bridge_args *args, const struct options *o, struct place *p)
{
    const char *text = args->amqp;
    int code = CLI_OK;
    if (args->amqp_file && !text)
        code = read_line(p, "amqp-file", args->amqp_file, &text);
    if (code != CLI_OK)
        return code;
    if (!text)
        return subcommand_usage(&bridge_command, "where is RabbitMQ? give --amqp URL");
    struct err e = bridge_url_read(str_from(text), &p->memory, &p->url);
    if (e.code != ERR_OK)
        return subcommand_usage(&bridge_command, "%s", e.msg);
    /* Everybody on this machine sees the arguments of a process. */
    if (p->url.password &&
        options_source(o, offsetof(struct bridge_args, amqp)) == OPTION_FROM_FLAG)
        return subcommand_usage(&bridge_command,
                                "option '--amqp': no password in an argument; use TENAX_AMQP_URL, "
                                "--amqp-file or --amqp-password-file");
    return CLI_OK;
}

static int read_password(const struct bridge_args *args, struct place *p, const char **out)
{
    const char *given = getenv("TENAX_AMQP_PASSWORD");
    *out = p->url.password;
    if (*out)
        return CLI_OK;
    if (args->password_file)
        return read_line(p, "amqp-password-file", args->password_file, out);
    *out = given && *given ? given : NULL;
    if (!*out && p->url.user && strcmp(p->url.user, "guest") != 0)
        return subcommand_usage(&bridge_command,
                                "what is the password of '%.100s'? give --amqp-password-file",
                                p->url.user);
    *out = *out ? *out : "guest";
    return CLI_OK;
}

static int set_amqp(const struct bridge_args *args, const struct options *o, struct place *p,
                    struct amqp_settings *out)
{
    const char *password;
    int code = read_url(args, o, p);
    if (code == CLI_OK)
        code = read_password(args, p, &password);
    if (code != CLI_OK)
        return code;
    if (!args->client_cert != !args->client_key)
        return subcommand_usage(&bridge_command,
                                "--amqp-client-cert and --amqp-client-key need each other");
    if (!p->url.tls && (args->ca_cert || args->client_cert))
        return subcommand_usage(&bridge_command,
                                "certificates are for amqps://, but the URL is of amqp://");
    p->tls = (struct amqp_tls){
        .ca_file = args->ca_cert, .cert_file = args->client_cert, .key_file = args->client_key};
    *out = (struct amqp_settings){.addresses = p->url.addresses,
                                  .address_count = p->url.address_count,
                                  .vhost = p->url.vhost,
                                  .user = p->url.user ? p->url.user : "guest",
                                  .password = password,
                                  .tls = p->url.tls ? &p->tls : NULL,
                                  .connect_timeout = CONNECT_LIMIT,
                                  .heartbeat = HEARTBEAT,
                                  .name = "tenax bridge"};
    return CLI_OK;
}

/* --- what is moved --- */

static int check_name(const char *option, const char *name)
{
    if (!name || bridge_message_is_name(str_from(name)))
        return CLI_OK;
    return complain("option '--%s': '%.100s' is no name: 1 to 255 bytes of UTF-8, no control "
                    "characters, none of , * ? [ ] { } \\",
                    option, name);
}

/* Names of AMQP are short texts. */
static int check_short(const char *option, const char *name)
{
    if (!name || (strlen(name) <= 255 && *name))
        return CLI_OK;
    return complain("option '--%s': '%.100s' is no name: 1 to 255 bytes", option, name);
}

static int check_names(const struct bridge_args *a)
{
    int code = check_name("to", a->to);
    code = code ? code : check_name("type", a->type);
    code = code ? code : check_name("from", a->from);
    code = code ? code : check_short("from-rabbitmq", a->from_rabbitmq);
    code = code ? code : check_short("to-rabbitmq", a->to_rabbitmq);
    code = code ? code : check_short("to-exchange", a->to_exchange);
    return code ? code : check_short("routing-key", a->routing_key);
}

static const char *wrong_together(const struct bridge_args *a)
{
    if (!a->from_rabbitmq && !a->from && !a->events)
        return "what is to be moved? give --from-rabbitmq, --from or --events";
    if (!a->from_rabbitmq != !a->to)
        return "--from-rabbitmq and --to need each other";
    if (a->from && !a->to_rabbitmq && !a->to_exchange)
        return "--from needs --to-rabbitmq or --to-exchange";
    if (a->from && a->to_rabbitmq && a->to_exchange && !a->events)
        return "--from goes either --to-rabbitmq or --to-exchange";
    if (!a->from && (a->to_rabbitmq || a->routing_key))
        return "--to-rabbitmq and --routing-key are for --from";
    if (a->to_rabbitmq && a->routing_key)
        return "--routing-key is for --to-exchange: in --to-rabbitmq it is the queue's name";
    if (a->to_exchange && !a->from && !a->events)
        return "--to-exchange is for --from and for --events";
    if (a->events && !a->to_exchange && !a->messages)
        return "--events needs --to-exchange or --messages taskcluster";
    if (!a->events && (a->messages || a->filter_queue || a->filter_type || a->filter_event))
        return "--messages and --filter-… are for --events";
    if (a->messages && strcmp(a->messages, "taskcluster") != 0)
        return "option '--messages': there are only those of taskcluster";
    return NULL;
}

static int check(const struct bridge_args *a)
{
    const char *wrong = wrong_together(a), *url = call_bad_url(a->client.url);
    if (wrong)
        return subcommand_usage(&bridge_command, "%s", wrong);
    if (url)
        return complain("option '--server': '%.200s' is not the URL of a server; %s", a->client.url,
                        url);
    if (a->lease.ms < LEASE_MIN_MS)
        return subcommand_usage(&bridge_command, "option '--lease': at least 10s");
    if (a->name && !exec_identity_is_name(str_from(a->name)))
        return subcommand_usage(&bridge_command,
                                "option '--name': 1 to 63 letters, digits, '-', '_' and '.', the "
                                "first and the last a letter or a digit");
    return check_names(a);
}

static int set_key(const struct bridge_args *a, struct bridge_intake *in)
{
    const char *key = a->key;
    if (strcmp(key, "message-id") == 0) {
        in->key = BRIDGE_KEY_ID;
    } else if (strcmp(key, "body") == 0) {
        in->key = BRIDGE_KEY_BODY;
    } else if (strcmp(key, "none") == 0) {
        in->key = BRIDGE_KEY_NONE;
    } else if (strncmp(key, "header:", 7) == 0 && key[7]) {
        in->key = BRIDGE_KEY_HEADER;
        in->key_header = key + 7;
    } else {
        return subcommand_usage(&bridge_command,
                                "option '--key': '%.100s' is not one of message-id, header:NAME, "
                                "body, none",
                                key);
    }
    return CLI_OK;
}

/* --- who this is --- */

static void add(struct buf *b, const char *text)
{
    buf_print(b, "%zu:%s", text ? strlen(text) : 0, text ? text : "");
}

static void identify(const struct bridge_args *a, struct place *p)
{
    char cwd[PATH_MAX], host[256] = "";
    struct buf b = {0};
    if (!getcwd(cwd, sizeof cwd))
        strcpy(cwd, "/");
    gethostname(host, sizeof host - 1);
    const char *const all[] = {host,
                               a->client.url,
                               p->url.addresses[0].host,
                               p->url.vhost,
                               a->from_rabbitmq,
                               a->to,
                               a->from,
                               a->to_rabbitmq,
                               a->to_exchange,
                               a->routing_key,
                               a->messages,
                               a->events ? "events" : NULL,
                               a->filter_queue,
                               a->filter_type,
                               a->filter_event};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        add(&b, all[i]);
    if (a->name)
        buf_str(&p->name, str_from(a->name));
    else
        buf_print(&p->name, "bridge-%016" PRIx64, strmap_hash(NAME_SEED, buf_view(&b)));
    if (a->state_dir)
        buf_str(&p->dir, str_from(a->state_dir));
    else
        exec_identity_dir(getenv("XDG_STATE_HOME"), getenv("HOME"), cwd, buf_view(&p->name),
                          &p->dir);
    buf_byte(&p->name, '\0');
    buf_byte(&p->dir, '\0');
    buf_fini(&b);
}

/* --- the command --- */

static void set_modes(const struct bridge_args *a, struct bridge_settings *s)
{
    s->from_rabbitmq = a->from_rabbitmq;
    s->intake.queue = a->to;
    s->intake.type = a->type;
    s->intake.payload = (enum bridge_payload)a->payload;
    s->intake.keep = a->key_retention;
    s->intake.vhost = s->amqp.vhost;
    s->intake.source = a->from_rabbitmq;
    s->dead_letter = a->refused == 1;
    s->from = a->from;
    s->to_rabbitmq = a->to_rabbitmq;
    s->outlet = (struct bridge_outlet){
        .exchange = a->to_rabbitmq ? "" : a->to_exchange,
        .routing_key = a->to_rabbitmq ? a->to_rabbitmq : a->routing_key,
        .payload = (enum bridge_payload)a->payload,
    };
    s->events = a->events;
    s->events_exchange = a->events ? a->to_exchange : NULL;
    s->taskcluster = a->messages != NULL;
    s->queues = a->filter_queue;
    s->types = a->filter_type;
    s->kinds = a->filter_event;
}

static int set_since(const struct bridge_args *args, struct event_cursor *since,
                     struct bridge_settings *s)
{
    if (!args->events_since)
        return CLI_OK;
    if (!event_cursor_read(str_from(args->events_since), since))
        return subcommand_usage(&bridge_command,
                                "--events-since: '%.100s' is neither a cursor nor a number",
                                args->events_since);
    s->since = since;
    return CLI_OK;
}

static int run(const struct bridge_args *args, const struct options *o, struct place *p)
{
    struct bridge_settings s = {.tls = args->client.tls,
                                .metrics_host = args->metrics_host,
                                .metrics_port = -1,
                                .prefetch = args->prefetch,
                                .declare = args->declare,
                                .lease = args->lease};
    struct event_cursor since;
    int code = check(args);
    if (code == CLI_OK)
        code = client_check_token(&bridge_command, &args->client.tls);
    if (code == CLI_OK)
        code = set_key(args, &s.intake);
    if (code == CLI_OK)
        code = set_amqp(args, o, p, &s.amqp);
    if (code == CLI_OK)
        code = set_since(args, &since, &s);
    if (code != CLI_OK)
        return code;
    if (OPTION_GIVEN(o, struct bridge_args, metrics_port))
        s.metrics_port = args->metrics_port;
    set_modes(args, &s);
    identify(args, p);
    s.name = p->name.at;
    s.state_dir = p->dir.at;
    char *url = call_url(args->client.url);
    s.server = url;
    code = bridge_run(&s);
    free(url);
    return code;
}

int bridge_main(int argc, char **argv)
{
    struct bridge_args args = {0};
    struct place place = {0};
    struct options o;
    int code;
    if (!subcommand_begin(&bridge_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count != 1 || strcmp(o.rest[0], "rabbitmq") != 0)
        return subcommand_usage(&bridge_command, "say what to bridge to: tenax bridge rabbitmq");
    log_set((enum log_level)args.log_level, (enum log_format)args.log_format);
    code = run(&args, &o, &place);
    buf_fini(&place.name);
    buf_fini(&place.dir);
    arena_fini(&place.memory);
    return code;
}
