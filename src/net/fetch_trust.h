/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_FETCH_TRUST_H
#define NET_FETCH_TRUST_H

/* What libcurl says of certificates, in plain words: whose it is, and what is wrong with it. */

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether a request failed because its peer or this side does not accept a certificate: another try
 * meets the same. detail: what libcurl wrote into its error buffer. */
bool fetch_trust_is_fault(CURLcode code, const char *detail);
/* Writes why, of such a request. */
void fetch_trust_explain(CURL *easy, CURLcode code, const char *detail, char *text, size_t size);

#endif
