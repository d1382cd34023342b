/* SPDX-License-Identifier: Apache-2.0 */
#include "access/mac.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/must.h"

void mac_make(struct str key, struct str text, unsigned char mac[MAC_BYTES])
{
    unsigned len = 0;
    must(key.len <= INT_MAX);
    /* OpenSSL takes an absent key to mean that of an earlier call. */
    const void *at = key.at ? key.at : "";
    must(HMAC(EVP_sha256(), at, (int)key.len, (const unsigned char *)text.at, text.len, mac, &len));
    must(len == MAC_BYTES);
}

void mac_make_base64(struct str key, struct str text, char mac[MAC_BASE64])
{
    unsigned char bytes[MAC_BYTES], written[MAC_BASE64 + 1];
    mac_make(key, text, bytes);
    must(EVP_EncodeBlock(written, bytes, MAC_BYTES) == MAC_BASE64);
    memcpy(mac, written, MAC_BASE64);
}

bool mac_same(struct str a, struct str b)
{
    return a.len == b.len && a.len > 0 && CRYPTO_memcmp(a.at, b.at, a.len) == 0;
}
