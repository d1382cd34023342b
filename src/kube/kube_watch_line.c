/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_watch_line.h"

#include "base/array.h"
#include "wire/field.h"

/* A text, or null. */
#define TEXT(name, type, member)                                                                   \
    {                                                                                              \
        name, false, field_text, offsetof(struct type, member), .nullable = true                   \
    }

static const struct field metadata_fields[] = {
    TEXT("namespace", kube_watch_object, namespace),
    TEXT("name", kube_watch_object, name),
    TEXT("uid", kube_watch_object, uid),
    TEXT("resourceVersion", kube_watch_object, version),
};

static struct err read_metadata(struct str json, struct arena *a, struct kube_watch_object *out)
{
    struct field_part metadata = {0};
    const struct field fields[] = {{"metadata", true, field_part, 0}};
    struct json_cursor c = json_open(json);
    TRY(field_read_object(false, &c, a, fields, COUNT(fields), &metadata));
    TRY(json_close(&c));
    *out = (struct kube_watch_object){.json = json};
    return field_read_part(false, &metadata, a, metadata_fields, COUNT(metadata_fields), "metadata",
                           out);
}

/* Names are used in paths and keys. */
static bool is_name(struct str name)
{
    return !name.len || !(memchr(name.at, '/', name.len) || memchr(name.at, '\0', name.len));
}

struct err kube_watch_line_object(struct str json, struct arena *a, struct kube_watch_object *out)
{
    TRY(read_metadata(json, a, out));
    if (!out->name.len)
        return err_make(ERR_MISSING_FIELD, "metadata.name: an object without a name");
    if (!is_name(out->name) || !is_name(out->namespace))
        return err_make(ERR_BAD_VALUE, "metadata: a name with '/' in it");
    return err_none();
}

struct event {
    struct str type, object;
};

static enum kube_watch_line_type type_of(struct str word)
{
    if (str_eq(word, STR("ADDED")) || str_eq(word, STR("MODIFIED")))
        return KUBE_WATCH_LINE_CHANGED;
    if (str_eq(word, STR("DELETED")))
        return KUBE_WATCH_LINE_REMOVED;
    if (str_eq(word, STR("BOOKMARK")))
        return KUBE_WATCH_LINE_BOOKMARK;
    return str_eq(word, STR("ERROR")) ? KUBE_WATCH_LINE_ERROR : KUBE_WATCH_LINE_OTHER;
}

struct err kube_watch_line(struct str line, struct arena *a, struct kube_watch_line *out)
{
    static const struct field fields[] = {
        {"type", true, field_text, offsetof(struct event, type)},
        {"object", true, field_any, offsetof(struct event, object)},
    };
    struct json_cursor c = json_open(line);
    struct event e = {0};
    TRY(field_read_object(false, &c, a, fields, COUNT(fields), &e));
    TRY(json_close(&c));
    out->type = type_of(e.type);
    out->object = (struct kube_watch_object){.json = e.object};
    switch (out->type) {
    case KUBE_WATCH_LINE_CHANGED:
    case KUBE_WATCH_LINE_REMOVED:
        return kube_watch_line_object(e.object, a, &out->object);
    case KUBE_WATCH_LINE_BOOKMARK:
        return read_metadata(e.object, a, &out->object);
    default:
        return err_none();
    }
}

struct list {
    struct field_part metadata, items;
};

struct list_metadata {
    struct str version, next;
};

static const struct field list_fields[] = {
    {"metadata", true, field_part, offsetof(struct list, metadata)},
    {"items", false, field_part, offsetof(struct list, items), .nullable = true},
};

static const struct field list_metadata_fields[] = {
    TEXT("resourceVersion", list_metadata, version),
    TEXT("continue", list_metadata, next),
};

struct err kube_watch_line_list(struct str json, struct arena *a, struct kube_watch_line_list *out)
{
    struct json_cursor c = json_open(json);
    struct list list = {0};
    struct list_metadata m = {0};
    TRY(field_read_object(false, &c, a, list_fields, COUNT(list_fields), &list));
    TRY(json_close(&c));
    TRY(field_read_part(false, &list.metadata, a, list_metadata_fields, COUNT(list_metadata_fields),
                        "metadata", &m));
    if (!m.version.len)
        return err_make(ERR_MISSING_FIELD, "metadata.resourceVersion: a list without a version");
    *out = (struct kube_watch_line_list){.version = m.version,
                                         .next = m.next,
                                         .has_items = list.items.given,
                                         .items = list.items.at};
    return out->has_items ? json_enter_array(&out->items) : err_none();
}
