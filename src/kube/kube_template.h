/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_TEMPLATE_H
#define KUBE_KUBE_TEMPLATE_H

/* Documents with holes: a YAML text in whose scalars {{name}} stands for a value. The text is
 * parsed first, with its holes, and they are filled in the tree: whatever a value consists of,
 * quotes, line feeds or colons, it stays within the scalar that the hole stands in. (seed:
 * mustache's notation, without its sections, partials and comments.)
 *
 *   image: {{image}}               a whole scalar without quotes: takes the value with its type
 *   value: "{{count}}"             in quotes, or with other text around it: always text
 *   args: ["--to={{mail.to}}"]     a.b is the member b of the object a
 *
 * A value is a text, a number, a boolean, or null (the text null has nothing in it). Lists and
 * objects cannot be filled in: they would be structure. Keys have no holes. */

#include "base/arena.h"
#include "wire/document.h"

#define KUBE_TEMPLATE_NAME_MAX 255 /* bytes between the braces */

struct kube_template;

/* Finds the value of a name; NULL: there is none. The node stays valid while the tree is used. */
typedef const struct document_node *(*kube_template_lookup)(const void *ctx, struct str name);

/* Reads a text of exactly one document. What is read lives in the arena. False with a fault: it is
 * no YAML, or a hole is malformed or where none may be. */
NODISCARD bool kube_template_read(struct str text, struct arena *a, struct kube_template **out,
                                  struct document_fault *fault);

/* The tree before its holes are filled: what stands in their place is of no use, but keys, lists
 * and mappings are as they will be. */
const struct document_node *kube_template_root(const struct kube_template *t);

/* A copy of the tree with its holes filled, in the arena. False with a fault that names the hole,
 * whose position is in the template's text: it has no value, or one that is not a scalar. */
NODISCARD bool kube_template_fill(const struct kube_template *t, kube_template_lookup lookup,
                                  const void *ctx, struct arena *a, struct document_node **out,
                                  struct document_fault *fault);

/* The value of a dotted path below a node, or NULL: the usual lookup. In a list, a part is a
 * position, from 0. */
const struct document_node *kube_template_path(const struct document_node *root, struct str path);

#endif
