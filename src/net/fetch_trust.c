/* SPDX-License-Identifier: Apache-2.0 */
#include "net/fetch_trust.h"

#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <string.h>

bool fetch_trust_is_fault(CURLcode code, const char *detail)
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CLIENTCERT:
    case CURLE_SSL_ISSUER_ERROR:
        return true;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_HTTP2:
        return strstr(detail, "alert") &&
               (strstr(detail, "certificate") || strstr(detail, "unknown ca") ||
                strstr(detail, "access denied") || strstr(detail, "decrypt error"));
    default:
        return false;
    }
}

static void explain_server(CURL *easy, const char *detail, char *text, size_t size)
{
    static const char name_is[] = "target host name ";
    const char *name = strstr(detail, name_is);
    long verdict = X509_V_OK;
    curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &verdict);
    if (name)
        snprintf(text, size, "the certificate of the server is not for the name %s",
                 name + sizeof name_is - 1);
    else if (verdict == X509_V_ERR_CERT_HAS_EXPIRED)
        snprintf(text, size, "the certificate of the server has expired");
    else if (verdict == X509_V_ERR_CERT_NOT_YET_VALID)
        snprintf(text, size, "the certificate of the server is not valid yet");
    else if (verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT ||
             verdict == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
             verdict == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE ||
             verdict == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
             verdict == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN)
        snprintf(text, size, "no trusted authority has signed the certificate of the server: %s",
                 X509_verify_cert_error_string(verdict));
    else
        snprintf(text, size, "the certificate of the server is refused: %s", detail);
}

void fetch_trust_explain(CURL *easy, CURLcode code, const char *detail, char *text, size_t size)
{
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        explain_server(easy, detail, text, size);
    else if (code == CURLE_SSL_CACERT_BADFILE)
        snprintf(text, size, "the certificates of authorities cannot be used: %s", detail);
    else if (code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CLIENTCERT)
        snprintf(text, size, "the client certificate or its key cannot be used: %s", detail);
    else
        snprintf(text, size, "the server refuses the client certificate: %s", detail);
}
