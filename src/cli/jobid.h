/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_JOBID_H
#define CLI_JOBID_H

/* A job by the beginning of its id, as in `tenax job 03fr82s0`. */

#include "base/id.h"
#include "client/client.h"

#define JOBID_PREFIX_MIN 6

/* Whether the text is an id or could be the beginning of one. */
bool jobid_is_possible(const char *text);
/* Reports that it is not; CLI_USAGE. */
int jobid_refuse(const struct subcommand *command, const char *text);
/* Finds the only job whose id begins so, and writes the id with a NUL; a whole id is taken as it
 * is, and nobody is asked. CLI_NOT_FOUND: there is none; CLI_USAGE: there are several, which are
 * then named. The client's answer is lost. */
int jobid_find(struct client *c, const char *text, char id[ID_TEXT_LEN + 1]);
/* Likewise for each of a list as 'A,B': appends the list of whole ids, and a NUL. Also CLI_USAGE:
 * one of them could not be the beginning of an id. */
int jobid_find_list(struct client *c, const char *list, struct buf *ids);

#endif
