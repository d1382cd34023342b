/* SPDX-License-Identifier: Apache-2.0 */
#include "client/input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

int input_read(const struct subcommand *c, const char *file, size_t most, struct buf *to)
{
    FILE *in = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
    size_t n = 0;
    if (in) {
        do {
            n = fread(buf_room(to, 65536), 1, 65536, in);
            to->len += n;
        } while (n && to->len <= most);
    }
    bool good = in && !ferror(in);
    if (!good)
        fprintf(stderr, "tenax %s: cannot read %s: %s\n", c->name, file, strerror(errno));
    if (in && in != stdin)
        fclose(in);
    return good ? CLI_OK : CLI_USAGE;
}

void input_names(struct buf *b, const char *names)
{
    buf_byte(b, '[');
    for (bool first = true; *names; first = false) {
        size_t n = strcspn(names, ",");
        if (!first)
            buf_byte(b, ',');
        json_write_string(b, (struct str){names, n});
        names += names[n] ? n + 1 : n;
    }
    buf_byte(b, ']');
}
