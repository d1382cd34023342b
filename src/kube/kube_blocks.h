/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_BLOCKS_H
#define KUBE_KUBE_BLOCKS_H

/* Templates (kube_template.h) with parts that are there or not, or several times, in the notation
 * of Handlebars. Only the template's own text is left out and repeated, before it is read as YAML:
 * values decide, but none of them gets into the text, so that none can become structure.
 *
 *   {{#if a.b}} … {{else}} … {{/if}}   if the value is there and is not false, null, 0, "" or an
 *                                      empty list or object
 *   {{#unless a}} … {{/unless}}        the other way round; {{else}} as well
 *   {{#each list}} … {{/each}}         for each item: {{this}}, {{this.x}} or {{x}} is the item or
 *                                      its member, {{../x}} what x is outside, {{@root.x}} outside
 *                                      of all; {{else}} for an empty list
 *   {{! … }}, {{!-- … --}}             a comment
 *
 * One that stands alone on its line takes the line with it. Everything else of Handlebars
 * (partials, helpers, {{{ }}}, {{~) is a fault. */

#include "kube/kube_template.h"

#define KUBE_BLOCKS_DEPTH_MAX 16 /* blocks within blocks */

struct kube_blocks;

/* What the values have left of a text: holes with names that a lookup knows, where a part of digits
 * is the position in a list ("mounts.0.path"). */
struct kube_expansion {
    struct str text;
    const uint32_t *lines; /* of each of its lines: the line of the template */
    size_t line_count;
};

/* Reads a text, which must last as long as what is read. False with a fault: a block that is not
 * closed, or a construct that is none of the above. */
NODISCARD bool kube_blocks_read(struct str text, struct arena *a, struct kube_blocks **out,
                                struct document_fault *fault);

/* False with a fault: a name in a block has no value at all, something other than a list is to be
 * repeated, or the text would be longer than DOCUMENT_TEXT_MAX. */
NODISCARD bool kube_blocks_expand(const struct kube_blocks *b, kube_template_lookup lookup,
                                  const void *ctx, struct arena *a, struct kube_expansion *out,
                                  struct document_fault *fault);

/* Turns a line of the expansion into the template's. */
void kube_blocks_place(const struct kube_expansion *e, struct document_fault *fault);

#endif
