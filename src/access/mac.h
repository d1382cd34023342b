/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_MAC_H
#define ACCESS_MAC_H

/* HMAC-SHA256, and comparing secrets. */

#include <stdbool.h>

#include "base/str.h"

#define MAC_BYTES  32
#define MAC_BASE64 44

/* HMAC-SHA256 of the text. */
void mac_make(struct str key, struct str text, unsigned char mac[MAC_BYTES]);
/* The same in Base64, with padding. */
void mac_make_base64(struct str key, struct str text, char mac[MAC_BASE64]);
/* Whether they are equal, in a time that depends only on their lengths. */
bool mac_same(struct str a, struct str b);

#endif
