/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_ZONES_H
#define SERVER_ZONES_H

/* Time zones by their IANA names, from the zone files of the system, through GLib. A zone is read
 * once and kept, so a change of the files takes effect after a restart. One thread. */

#include "base/str.h"
#include "core/cron.h"

struct zones;

struct zones *zones_new(void);
void zones_free(struct zones *z);
/* The zone, valid as long as z; an empty name means the system's (TZ, else /etc/localtime). NULL if
 * there is no zone with that name. */
const struct cron_zone *zones_find(struct zones *z, struct str name);

#endif
