/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_AZURE_H
#define TASKCLUSTER_TC_AZURE_H

/* Answers as Azure Queue storage gives them, for poll URLs: XML, with the headers by which its
 * clients name a request in their logs and know an error. */

#include "taskcluster/tc_internal.h"

/* The body is XML, or empty. */
void tc_azure_reply(struct tc_call *c, int status, struct str body);
void tc_azure_fail(struct tc_call *c, int status, const char *code, struct str words);
/* The code for an error that is not of the queue itself. */
const char *tc_azure_code(int status);

#endif
