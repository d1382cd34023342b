/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/build_pod_command.h"

#include <stdio.h>
#include <string.h>

#include "builds/build_pod.h"
#include "cli/commands.h"
#include "client/input.h"

static struct err read_config(const char *file, struct str text, struct arena *a,
                              const struct document_node **out)
{
    struct document_list list;
    struct document_fault fault;
    if (!document_read(text, DOCUMENT_JSON, a, &list, &fault) || !document_only(&list, out, &fault))
        return document_fault_in(strcmp(file, "-") == 0 ? "standard input" : file, &fault);
    const struct document_node *inner = document_member(*out, "buildConfig");
    *out = inner ? inner : *out;
    return err_none();
}

static struct err print_pod(const struct build_settings *s, const struct document_node *config,
                            bool with_token, struct arena *a)
{
    struct build_pod_template *t;
    struct build_pod pod;
    TRY(build_pod_template_read(s, &t));
    struct err e =
        with_token ? build_pod_make(t, config, a, &pod) : build_pod_preview(t, config, a, &pod);
    build_pod_template_free(t);
    if (e.code != ERR_OK)
        return e;
    struct buf b = {0};
    buf_str(&b, pod.json);
    buf_byte(&b, '\n');
    subcommand_print(stdout, &b);
    buf_fini(&b);
    return e;
}

int build_pod_command(const struct build_settings *s, const char *file, bool with_token)
{
    const struct document_node *config;
    struct arena a = {0};
    struct buf text = {0};
    struct err e;
    file = file ? file : "-";
    int code = input_read(&build_worker_command, file, DOCUMENT_TEXT_MAX, &text);
    if (code == CLI_OK) {
        e = read_config(file, buf_view(&text), &a, &config);
        if (e.code == ERR_OK)
            e = print_pod(s, config, with_token, &a);
        if (e.code != ERR_OK) {
            fprintf(stderr, "tenax build-worker: %s\n", e.msg);
            code = e.code == ERR_USAGE ? CLI_USAGE : CLI_REFUSED;
        }
    }
    buf_fini(&text);
    arena_fini(&a);
    return code;
}

int build_pod_command_template(void)
{
    struct buf b = {0};
    build_pod_template_print(&b);
    subcommand_print(stdout, &b);
    buf_fini(&b);
    return CLI_OK;
}
