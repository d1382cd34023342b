/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_ROLES_H
#define ACCESS_ROLES_H

/* Roles as in Taskcluster: the scope "assume:<roleId>" stands for itself and for the scopes of that
 * role, which may name further roles. A roleId that ends in '*' is meant by every scope that
 * continues it, and "<..>" in its scopes is what stands in the place of the star. A scope that ends
 * in '*' means all roles that it satisfies. Everybody has the role "anonymous".
 *
 * Source: services/auth of taskcluster/taskcluster (roles, parameterised roles). Pure. */

#include "access/scopes.h"
#include "base/arena.h"
#include "base/err.h"

#define ROLE_ANONYMOUS "assume:anonymous"
#define ROLES_DEPTH    64 /* roles that name one another; there a loop that never repeats ends */

struct role {
    struct str id;
    const struct str *scopes;
    size_t count;
    const struct role
        *outer; /* the next shorter one with a star that this one continues, or NULL */
};

/* In the order of roles_sort. All zero: there are none. */
struct roles {
    struct role *at;
    size_t count;
};

/* ERR_BAD_NAME or ERR_BAD_VALUE with a sentence: an id that no scope can mean, or "<..>" without a
 * star to take it from. */
NODISCARD struct err role_check(const struct role *r);
/* Makes them ready to be looked up. False if two have the same id. */
bool roles_sort(struct roles *r);

/* What these scopes permit together with the roles that they mean, and with those of everybody.
 * Their texts stay where they are, new ones are in the arena. ERR_TOO_MANY if they are more than
 * SCOPES_MAX. What would be longer than a scope can be is left out. */
NODISCARD struct err roles_expand(const struct roles *r, const struct scope_set *scopes,
                                  struct arena *a, struct scope_set *out);

#endif
