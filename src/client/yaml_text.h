/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_YAML_TEXT_H
#define CLIENT_YAML_TEXT_H

/* JSON as YAML, for people who read it. Numbers keep their digits, whatever their size. */

#include "base/buf.h"
#include "base/str.h"

/* Adds a value, known to be valid JSON (client/view.h), as a document of its own. */
void yaml_text(struct buf *b, struct str value);
/* Adds it as an item of a list, "- name: mail". */
void yaml_text_item(struct buf *b, struct str value);

#endif
