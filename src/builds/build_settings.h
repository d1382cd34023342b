/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_SETTINGS_H
#define BUILDS_BUILD_SETTINGS_H

/* The settings of the build worker (build_settings.def). A value comes from a flag, or else from
 * its variable, or else from the file, or else it is the default; an empty variable counts as not
 * set, as in the original. Constant once read. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"
#include "wire/document.h"

enum build_setting {
#define SETTING(name, path, variable, type, def, help) BUILD_##name,
#include "builds/build_settings.def"
#undef SETTING
    BUILD_SETTING_COUNT
};

enum build_source { BUILD_FROM_DEFAULT, BUILD_FROM_FILE, BUILD_FROM_VARIABLE, BUILD_FROM_FLAG };

struct build_value {
    enum build_source source;
    const char *text;                 /* as given; of OBJECT and ARRAY from a file: as JSON */
    double number;                    /* INT, NUMBER, BOOL (0 or 1), SPAN (milliseconds) */
    const struct document_node *tree; /* OBJECT, ARRAY */
};

struct build_settings {
    struct arena memory;
    struct build_value values[BUILD_SETTING_COUNT];
};

/* Reads the file (NULL: none; YAML or JSON) and the variables, by getenv or a like function. The
 * error names the setting, and where its value is from, never the value of a secret. Members of the
 * file that are no settings are passed over, since the original's files have more of them. The
 * settings must be freed in either case. */
NODISCARD struct err build_settings_read(struct build_settings *s, const char *file,
                                         char *(*variable)(const char *name));
/* Sets one by its flag; the text is copied. */
NODISCARD struct err build_settings_set(struct build_settings *s, enum build_setting which,
                                        const char *text);
void build_settings_free(struct build_settings *s);

static inline const char *build_text(const struct build_settings *s, enum build_setting which)
{
    return s->values[which].text;
}
static inline int64_t build_int(const struct build_settings *s, enum build_setting which)
{
    return (int64_t)s->values[which].number;
}
static inline bool build_bool(const struct build_settings *s, enum build_setting which)
{
    return s->values[which].number != 0;
}
static inline span build_span(const struct build_settings *s, enum build_setting which)
{
    return (span){(int64_t)s->values[which].number};
}

/* Each setting on a line: its path, its value (of a secret only whether there is one), and where
 * it is from. */
void build_settings_print(const struct build_settings *s, struct buf *b);
/* The table for the documentation, as Markdown. */
void build_settings_markdown(struct buf *b);

/* The virtual host without the slash that the original's URL needs before it. */
const char *build_settings_vhost(struct build_settings *s);
/* BUILD_USERNAME or BUILD_PASSWORD as it is sent. The original puts both into a URL, so that those
 * of its deployments have the escapes of one, such as %40. */
const char *build_settings_credential(struct build_settings *s, enum build_setting which);

#endif
