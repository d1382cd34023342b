/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_PLUGIN_H
#define KUBE_KUBE_PLUGIN_H

/* A program that is run for what it prints, without blocking the loop. It has no standard input,
 * and a session of its own, so that it and what it started can be ended together when its time is
 * over. */

#include <stdbool.h>
#include <uv.h>

#include "base/str.h"
#include "base/units.h"

#define KUBE_PLUGIN_OUTPUT_MAX ((size_t)1 << 20) /* bytes; more are a failure */
#define KUBE_PLUGIN_ERRORS_MAX 4096              /* the last ones are kept */

struct kube_plugin;

struct kube_plugin_result {
    int error; /* of libuv: it could not be started; otherwise 0 */
    bool timed_out, too_large;
    int exit_code, signal;
    struct str output, errors; /* valid during done() */
};

/* argv and env end with NULL and are copied; the program is looked for in $PATH. done() is called
 * once, in a later turn. */
struct kube_plugin *kube_plugin_start(uv_loop_t *loop, const char *const *argv,
                                      const char *const *env, span timeout,
                                      void (*done)(void *ctx, const struct kube_plugin_result *r),
                                      void *ctx);
/* Ends it without done(); not from done(). */
void kube_plugin_cancel(struct kube_plugin *p);

#endif
