/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMPLETION_FISH_H
#define CLI_COMPLETION_FISH_H

/* The script by which fish completes command lines, made of the catalog like those of the other
 * shells (cli/completion.c). */

#include "base/buf.h"

/* Adds the whole script. */
void completion_fish(struct buf *b);

#endif
