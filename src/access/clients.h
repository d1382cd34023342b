/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_CLIENTS_H
#define ACCESS_CLIENTS_H

/* Who may use the server: clients, roles (access/roles.h) and workers (access/static_workers.h)
 * from a file,
 *
 *     [{"clientId": "ci/worker", "accessToken": "…", "scopes": ["queue:*"],
 *       "expires": "2027-01-01T00:00:00Z"},
 *      {"roleId": "anonymous", "scopes": ["queue:status:*"]}]
 *
 * A client without "expires", or with null, does not expire. Reading is strict: an unknown or
 * repeated member, a second client with the same id, or anything after the list is an error. No
 * error ever quotes an access token. */

#include <stddef.h>

#include "access/roles.h"
#include "access/static_workers.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define CLIENTS_FILE_MAX ((size_t)16 << 20) /* bytes */
#define CLIENTS_MAX      100000             /* likewise of roles and workers */
#define CLIENT_ID_MAX    1024
#define CLIENT_TOKEN_MIN 22 /* as in Taskcluster: 22 to 66 of A–Z a–z 0–9 _ - */
#define CLIENT_TOKEN_MAX 66

/* Everything lives as long as the set. */
struct access_client {
    struct str id;    /* of A–Z a–z 0–9 ! @ / : . + | _ - */
    struct str token; /* secret */
    struct scope_set scopes;
    struct scope_set expanded; /* with those of its roles, once they were needed */
    instant expires;           /* INSTANT_NONE: never */
};

struct clients;

/* Reads a text; messages give its `name` with line and column: "clients.json: line 3, column 20:
 * [1].scopes[0]: …". */
NODISCARD struct err clients_read(struct str text, const char *name, struct clients **out);
/* Reads a file. *clients (NULL: none yet) is replaced on success, and unchanged otherwise. ERR_IO
 * if the file cannot be read. */
NODISCARD struct err clients_load(const char *path, struct clients **clients);
void clients_free(struct clients *c);

/* Including expired ones. */
size_t clients_count(const struct clients *c);
/* NULL if there is none, or if the set is NULL. Also finds expired clients. */
const struct access_client *clients_find(const struct clients *c, struct str id);

/* One of the workers; NULL if there is none, or if the set is NULL. */
const struct static_worker *clients_worker(const struct clients *c, struct str pool,
                                           struct str group, struct str id);

/* The scopes of one of these clients with those of its roles; made when they are first needed, and
 * there as long as the clients. ERR_TOO_MANY: see roles_expand. */
NODISCARD struct err clients_expand(struct clients *all, const struct access_client *client,
                                    struct scope_set *out);
/* Those of these scopes, in an arena; with the roles of all clients. */
NODISCARD struct err clients_expand_scopes(const struct clients *all,
                                           const struct scope_set *scopes, struct arena *a,
                                           struct scope_set *out);

/* Whether its characters and length are those of a client's id. */
bool client_id_valid(struct str id);

#endif
