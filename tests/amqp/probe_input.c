/* SPDX-License-Identifier: Apache-2.0 */
#include "probe_input.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/must.h"

static uv_pipe_t input;
static char text[1 << 20];
static size_t text_len;
static bool (*obey)(char *line);
static void (*ended)(void);

static void room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle, (void)suggested;
    *buf = uv_buf_init(text + text_len, (unsigned)(sizeof text - text_len));
}

static void end(void)
{
    uv_close((uv_handle_t *)&input, NULL);
    ended();
}

static void heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)stream, (void)buf;
    if (n < 0) {
        end();
        return;
    }
    text_len += (size_t)n;
    size_t at = 0;
    bool more = true;
    for (char *nl; more && (nl = memchr(text + at, '\n', text_len - at));) {
        char *line = alloc_text(text + at, (size_t)(nl - text) - at);
        at = (size_t)(nl + 1 - text);
        more = obey(line);
        free(line);
    }
    text_len -= at;
    memmove(text, text + at, text_len);
    if (!more)
        end();
}

void probe_input_start(bool (*obey_line)(char *line), void (*when_ended)(void))
{
    obey = obey_line;
    ended = when_ended;
    must(uv_pipe_init(uv_default_loop(), &input, 0) == 0);
    must(uv_pipe_open(&input, 0) == 0);
    must(uv_read_start((uv_stream_t *)&input, room, heard) == 0);
}
