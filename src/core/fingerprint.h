/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_FINGERPRINT_H
#define CORE_FINGERPRINT_H

/* What tells which failures are alike: the queue and the type of the job, how the run ended, the
 * error type, exit code, signal, condition and category, and the message without what differs from
 * one occurrence to the next. Two failures with the same fingerprint are of one group
 * (core/failure_groups.h). Fingerprints are on disk and in links: the same failure must have the
 * same one in every version, as its golden tests say. */

#include "core/job.h"

#define FINGERPRINT_MESSAGE_MAX 256  /* bytes of a simplified message */
#define FINGERPRINT_LOOK_MAX    1024 /* bytes of a message that are looked at */
#define FINGERPRINT_TEXT_LEN    16

/* The message with placeholders: <n> for a number, also inside of a word; <id> for a UUID or a long
 * word of letters and digits; <hex> for a word of eight or more hexadecimal digits, and after 0x;
 * <path>, <url>; <text> for what is in quotes. White space is one space. Cut between characters; in
 * room. Well-formed UTF-8 if the message is. */
struct str fingerprint_message(struct str message, char room[FINGERPRINT_MESSAGE_MAX]);

/* Never 0. Only the names of the job count. */
uint64_t fingerprint_of(const struct job *job, enum outcome outcome, const struct failure *f);

/* Sixteen lower-case hexadecimal digits, no NUL. */
void fingerprint_format(uint64_t fingerprint, char out[FINGERPRINT_TEXT_LEN]);
/* False unless text is that of a fingerprint. */
bool fingerprint_parse(struct str text, uint64_t *fingerprint);

#endif
