/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_message.h"

#include "base/array.h"
#include "base/json.h"

static const char *const jobs[] = {[BUILD_START] = "start",
                                   [BUILD_STOP] = "stop",
                                   [BUILD_VERIFY_POD] = "verify",
                                   [BUILD_CLEAR] = "clear"};

/* The queue service sends ids as numbers; its older versions and its tools, as texts. */
static struct str name_of(const struct document_node *map, const char *key)
{
    const struct document_node *n = document_member(map, key);
    bool named = n && (n->type == DOCUMENT_STRING || n->type == DOCUMENT_NUMBER);
    return named ? n->text : (struct str){0};
}

static struct err read_job(const struct document_node *root, enum build_job *job)
{
    struct str name = document_text(root, "job");
    for (size_t i = 0; i < COUNT(jobs); i++)
        if (str_eq(name, str_from(jobs[i]))) {
            *job = (enum build_job)i;
            return err_none();
        }
    return err_make(ERR_BAD_VALUE, "job is none of start, stop, verify and clear");
}

static struct err read_build(struct str body, const struct document_node *root,
                             struct build_message *out)
{
    out->config = document_member(root, "buildConfig");
    if (!out->config || out->config->type != DOCUMENT_MAP)
        return err_make(ERR_BAD_VALUE, "buildConfig is missing, or no object");
    out->build = name_of(out->config, "buildId");
    if (out->build.len == 0)
        return err_make(ERR_BAD_VALUE, "buildConfig.buildId is missing");
    out->api_uri = document_text(out->config, "apiUri");
    out->token = document_text(out->config, "token");
    TRY(json_member(body, STR("buildConfig"), &out->config_json));
    return out->config_json.len ? err_none()
                                : err_make(ERR_BAD_VALUE, "buildConfig is spelled with escapes");
}

static struct err read_cache(const struct document_node *root, struct build_message *out)
{
    const struct document_node *c = document_member(root, "cacheConfig");
    if (!c)
        c = document_member(root, "buildConfig"); /* as the original */
    if (!c || c->type != DOCUMENT_MAP)
        return err_make(ERR_BAD_VALUE, "cacheConfig is missing, or no object");
    out->cache.scope = document_text(c, "scope");
    out->cache.prefix = document_text(c, "prefix");
    out->cache.pipeline = name_of(c, "pipelineId");
    out->cache.id = name_of(c, "id");
    out->cache.is_delete = str_eq(document_text(c, "resource"), STR("caches")) &&
                           str_eq(document_text(c, "action"), STR("delete"));
    return err_none();
}

struct err build_message_read(struct str body, struct arena *a, struct build_message *out)
{
    struct document_list list;
    struct document_fault fault;
    const struct document_node *root;
    *out = (struct build_message){0};
    if (!document_read(body, DOCUMENT_JSON, a, &list, &fault) ||
        !document_only(&list, &root, &fault))
        return err_make(ERR_BAD_JSON, "the message is no JSON: line %u, column %u", fault.line,
                        fault.column);
    TRY(read_job(root, &out->job));
    return out->job == BUILD_CLEAR ? read_cache(root, out) : read_build(body, root, out);
}

void build_message_verify(struct buf *b, struct str config_json)
{
    buf_lit(b, "{\"job\":\"verify\",\"buildConfig\":");
    buf_str(b, config_json);
    buf_byte(b, '}');
}
