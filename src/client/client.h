/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

/* Shared by the commands that call a server: its address, printing the answer, and turning a
 * refusal into a message and an exit code. */

#include "client/call.h"
#include "base/arena.h"
#include "client/subcommand.h"
#include "client/table.h"

/* In the order of the words of CLIENT_FORMATS and CLIENT_LIST_FORMATS. */
enum client_output {
    CLIENT_TABLE,
    CLIENT_JSON,  /* one document: an array of a list, otherwise an object */
    CLIENT_JSONL, /* a line for each object */
    CLIENT_YAML,
    CLIENT_WIDE, /* a table with more columns, none of them cut */
    CLIENT_NAME, /* an identifier a line */
};

#define CLIENT_FORMATS      "table|json|jsonl|yaml|wide"
#define CLIENT_LIST_FORMATS CLIENT_FORMATS "|name"

struct client_args {
    const char *url;
    const char *context;   /* client/context.h has it applied already */
    const char *admin_url; /* of commands that need it (client/admin.h); NULL: not given */
    struct call_tls tls;
    span timeout;
    int output; /* enum client_output */
    span watch; /* how often it is shown again; 0: once */
};

/* Rows of the option table of a command whose struct has a member
 * `struct client_args client`. */
#define CLIENT_URL_OPTION(type)                                                                    \
    {"url",                                                                                        \
     "URL",                                                                                        \
     OPTION_TEXT,                                                                                  \
     offsetof(type, client.url),                                                                   \
     .env = "TENAX_URL",                                                                           \
     .alias = "ZIZQ_URL",                                                                          \
     .def = "http://127.0.0.1:7890",                                                               \
     .help = "the server to talk to"},                                                             \
        CLIENT_CONTEXT_OPTION(type, "context"), CLIENT_TLS_OPTIONS(type)
#define CLIENT_CONTEXT_OPTION(type, flag)                                                          \
    {                                                                                              \
        flag, "NAME", OPTION_TEXT, offsetof(type, client.context),                                 \
            .env = "TENAX_CONTEXT", .help = "ask the server of this context (tenax context)"       \
    }
#define CLIENT_TLS_OPTIONS(type)                                                                   \
    {"ca-cert",                                                                                    \
     "FILE",                                                                                       \
     OPTION_TEXT,                                                                                  \
     offsetof(type, client.tls.ca_cert),                                                           \
     .env = "TENAX_CA_CERT",                                                                       \
     .alias = "ZIZQ_CA_CERT",                                                                      \
     .help = "trust servers whose certificate this CA has signed (PEM)"},                          \
        {"client-cert",                                                                            \
         "FILE",                                                                                   \
         OPTION_TEXT,                                                                              \
         offsetof(type, client.tls.client_cert),                                                   \
         .env = "TENAX_CLIENT_CERT",                                                               \
         .alias = "ZIZQ_CLIENT_CERT",                                                              \
         .help = "the certificate to present to a server that requests one (PEM)"},                \
        {"client-key",                                                                             \
         "FILE",                                                                                   \
         OPTION_TEXT,                                                                              \
         offsetof(type, client.tls.client_key),                                                    \
         .env = "TENAX_CLIENT_KEY",                                                                \
         .alias = "ZIZQ_CLIENT_KEY",                                                               \
         .help = "its private key (PEM)"},                                                         \
    {                                                                                              \
        "token-file", "FILE", OPTION_TEXT, offsetof(type, client.tls.token_file),                  \
            .env = "TENAX_TOKEN_FILE",                                                             \
            .help = "send the token in this file; otherwise that in TENAX_TOKEN, if there is one"  \
    }
#define CLIENT_OPTIONS(type) CLIENT_OPTIONS_IN(type, CLIENT_FORMATS)
/* The same for a command that lists or shows (cli/listing.h). */
#define CLIENT_LIST_OPTIONS(type) CLIENT_OPTIONS_IN(type, CLIENT_LIST_FORMATS), CLIENT_WATCH(type)
#define CLIENT_WATCH(type)                                                                         \
    {                                                                                              \
        "watch", "TIME", OPTION_SPAN, offsetof(type, client.watch),                                \
            .min = 100, .implied = "2s",                                                           \
            .help = "show it again and again, until interrupted: on a terminal in its place, "     \
                    "elsewhere after each change"                                                  \
    }
/* The same for a command with other output formats. */
#define CLIENT_OPTIONS_IN(type, formats)                                                           \
    CLIENT_URL_OPTION(type),                                                                       \
        {"http-timeout",                                                                           \
         "DURATION",                                                                               \
         OPTION_SPAN,                                                                              \
         offsetof(type, client.timeout),                                                           \
         .env = "TENAX_HTTP_TIMEOUT",                                                              \
         .def = "30s",                                                                             \
         .help = "how long to wait for an answer"},                                                \
    {                                                                                              \
        "output", "FORMAT", OPTION_CHOICE, offsetof(type, client.output),                          \
            .choices = formats, .env = "TENAX_OUTPUT", .def = "table",                             \
            .help = "for people or for programs", .letter = 'o'                                    \
    }

struct client {
    const struct subcommand *command;
    struct client_args args;
    struct call call;
    char *url;
    struct arena arena; /* for texts from answers; emptied by client_close */
    bool colour;        /* of standard output */
    size_t width;       /* of its terminal, or 0 */
    instant now;
    enum call_result result; /* of the newest request */
    bool mute;               /* why a request failed is not printed */
};

/* CLI_OK, or CLI_USAGE after printing why the token cannot be read (client/bearer.h); for commands
 * that do without client_open. */
int client_check_token(const struct subcommand *command, const struct call_tls *tls);
/* CLI_OK, or CLI_USAGE if the URL is invalid or the token cannot be read; then there is nothing to
 * close. */
int client_open(struct client *c, const struct subcommand *command, const struct client_args *args);
/* For a command that prints like the others but asks no server of Tenax. */
void client_alone(struct client *c, const struct subcommand *command,
                  const struct client_args *args);
void client_close(struct client *c);

/* Sends one request with the body c->call.body. CLI_OK on 2xx: the answer, valid JSON or empty, is
 * client_answer(c) until the next request. Otherwise prints the reason and returns the exit
 * code. */
int client_ask(struct client *c, const char *method, const char *path);
struct str client_answer(const struct client *c);
/* The same, but 404 is not an error: CLI_OK, and *found is false. */
int client_find(struct client *c, const char *path, bool *found);
/* Whether people read the output, as opposed to programs. */
bool client_for_people(const struct client *c);
/* Adds a value in the format that programs are to have: JSON on one line, or YAML. For people it is
 * indented JSON. */
void client_write_value(const struct client *c, struct buf *out, struct str value);
/* Prints the answer so. */
void client_print_answer(struct client *c);

/* Adds "&key=value" ('?' the first time) with the value percent-encoded, unless the value is NULL.
 * The buffer starts with the path, without a terminating NUL. */
void client_query(struct buf *path, const char *key, const char *value);
/* Adds "/name", percent-encoded. */
void client_segment(struct buf *path, struct str name);
/* Terminates such a path with a NUL. */
const char *client_path(struct buf *path);

/* The style in which a status is shown. */
enum table_style client_status_style(struct str status);

#endif
