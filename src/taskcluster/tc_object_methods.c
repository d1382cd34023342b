/* SPDX-License-Identifier: Apache-2.0 */

/* All methods of the object service's API, as tc_methods.c has those of the queue, and the URLs
 * that both give out for bytes.
 *
 * Source: services/object/src/api.js of taskcluster/taskcluster. */

#include "base/array.h"
#include "taskcluster/tc_handlers.h"

static const struct scope_expr upload = SCOPE("object:upload:<projectId>:<name>");
static const struct scope_expr download = SCOPE("object:download:<name>");

static bool is_anything(struct str s)
{
    return s.len > 0;
}

static const struct tc_query content[] = {{"se", is_anything},
                                          {"sig", is_anything},
                                          {"cl", is_anything},
                                          {"up", is_anything},
                                          {NULL, NULL}};

const struct tc_method tc_object_methods[] = {
    {{HTTP_GET, "/ping"},
     tc_ping,
     "ping",
     .category = "Monitoring",
     .title = "Ping server",
     .stability = "stable"},
    {{HTTP_GET, "/__lbheartbeat__"},
     tc_heartbeat,
     "lbheartbeat",
     .category = "Monitoring",
     .title = "Load balancer heartbeat",
     .stability = "stable"},
    {{HTTP_GET, "/__version__"},
     tc_version,
     "version",
     .category = "Monitoring",
     .title = "Version",
     .stability = "stable"},
    {{HTTP_PUT, "/upload/{name*}"},
     tc_create_upload,
     "createUpload",
     &upload,
     .input = "object/v1/create-upload-request.json",
     .output = "object/v1/create-upload-response.json",
     .category = "Upload",
     .title = "Begin the upload of an object",
     .stability = "stable"},
    {{HTTP_POST, "/finish-upload/{name*}"},
     tc_finish_upload,
     "finishUpload",
     &upload,
     .input = "object/v1/finish-upload-request.json",
     .category = "Upload",
     .title = "Finish the upload of an object",
     .stability = "stable"},
    {{HTTP_PUT, "/start-download/{name*}"},
     tc_start_download,
     "startDownload",
     &download,
     .early = true,
     .input = "object/v1/download-object-request.json",
     .output = "object/v1/download-object-response.json",
     .category = "Download",
     .title = "Get where the data of an object are",
     .stability = "stable"},
    {{HTTP_GET, "/metadata/{name*}"},
     tc_get_object,
     "object",
     &download,
     .early = true,
     .output = "object/v1/get-object-response.json",
     .category = "Objects",
     .title = "Get what is known of an object",
     .stability = "stable"},
    {{HTTP_GET, "/download/{name*}"},
     tc_download_object,
     "download",
     &download,
     .early = true,
     .category = "Download",
     .title = "Get the data of an object",
     .stability = "stable"},
    {{HTTP_GET, "/__heartbeat__"},
     tc_heartbeat,
     "heartbeat",
     .category = "Monitoring",
     .title = "Heartbeat",
     .stability = "stable"},
    /* Without a category: these are not of the API, but of the URLs that it gives. */
    {{HTTP_PUT, "/content/{kind}/{name*}", .pieces = true},
     tc_put_content,
     "putContent",
     .query = content},
    {{HTTP_GET, "/content/{kind}/{name*}"}, tc_get_content, "getContent", .query = content},
};
const size_t tc_object_method_count = COUNT(tc_object_methods);
