/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/certs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/folder.h"
#include "base/must.h"

#define DAY 86400L
/* Machines whose clocks are slightly behind must accept the certificate at once. */
#define LEEWAY 300L

struct signer {
    X509 *cert;
    EVP_PKEY *key;
};

static void drop_signer(struct signer *s)
{
    X509_free(s->cert);
    EVP_PKEY_free(s->key);
}

/* -- files ------------------------------------------------------------------ */

static struct err read_signer(const struct certs_pair *files, struct signer *out)
{
    FILE *f = fopen(files->cert, "re");
    if (!f)
        return err_make(ERR_IO, "cannot read '%.120s': %s", files->cert, strerror(errno));
    out->cert = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    if (!out->cert)
        return err_make(ERR_IO, "'%.120s' is not a certificate in PEM", files->cert);
    f = fopen(files->key, "re");
    if (!f)
        return err_make(ERR_IO, "cannot read '%.120s': %s", files->key, strerror(errno));
    out->key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    if (!out->key)
        return err_make(ERR_IO, "'%.120s' is not a private key in PEM", files->key);
    if (X509_check_ca(out->cert) != 1)
        return err_make(ERR_USAGE, "'%.120s' is not the certificate of a CA", files->cert);
    if (X509_check_private_key(out->cert, out->key) != 1)
        return err_make(ERR_USAGE, "the key '%.80s' does not belong to '%.80s'", files->key,
                        files->cert);
    return err_none();
}

static struct err check_free(const char *path, bool force)
{
    if (!force && access(path, F_OK) == 0)
        return err_make(ERR_USAGE, "'%.120s' exists; --force overwrites it", path);
    return err_none();
}

/* A file is written under this name, and has its own once it is on the disk: nobody finds half of
 * it, whatever happens meanwhile. */
struct fresh_name {
    char at[4104];
};

static struct fresh_name fresh_name(const char *path)
{
    struct fresh_name n;
    snprintf(n.at, sizeof n.at, "%s.new", path);
    return n;
}

/* Created with its final mode, so that nobody can read a key in between. */
static FILE *create(const char *path, mode_t mode)
{
    unlink(path); /* left by a crash */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    return fd < 0 ? NULL : fdopen(fd, "w");
}

static struct err cannot_write(const char *path)
{
    return err_make(ERR_IO, "cannot write '%.120s': %s", path, strerror(errno));
}

static struct err finish(FILE *f, bool ok, const char *path)
{
    ok = f && ok && fflush(f) == 0 && fsync(fileno(f)) == 0;
    struct err e = ok ? err_none() : cannot_write(path);
    if (f)
        fclose(f);
    return e;
}

static struct err write_key(const char *path, const struct signer *made)
{
    FILE *f = create(path, 0600);
    bool ok = f && PEM_write_PKCS8PrivateKey(f, made->key, NULL, NULL, 0, NULL, NULL) == 1;
    return finish(f, ok, path);
}

static struct err write_cert(const char *path, const struct signer *made)
{
    FILE *f = create(path, 0644);
    bool ok = f && PEM_write_X509(f, made->cert) == 1;
    return finish(f, ok, path);
}

/* Some file systems cannot refuse to replace a file; that it is not there was looked at before. */
static struct err give_name(const char *fresh, const char *path, bool force)
{
    int done = force ? -1 : renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_NOREPLACE);
    if (force || (done != 0 && (errno == EINVAL || errno == ENOSYS)))
        done = rename(fresh, path);
    return done == 0 ? err_none() : cannot_write(path);
}

static struct err write_pair(const struct certs_pair *out, const struct signer *made, bool force)
{
    struct fresh_name key = fresh_name(out->key), cert = fresh_name(out->cert);
    struct err e = write_key(key.at, made);
    if (e.code == ERR_OK)
        e = write_cert(cert.at, made);
    if (e.code == ERR_OK)
        e = give_name(key.at, out->key, force);
    if (e.code == ERR_OK)
        e = give_name(cert.at, out->cert, force);
    if (e.code == ERR_OK)
        return folder_sync_of(out->cert); /* where the key is, too */
    unlink(key.at);
    unlink(cert.at);
    return e;
}

/* -- certificates ----------------------------------------------------------- */

static bool is_host_name(const char *s)
{
    size_t n = strlen(s);
    return n > 0 && n <= 253 &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._*") == n;
}

/* "DNS:localhost,IP:127.0.0.1" */
static struct err write_hosts(struct buf *b, const struct certs_spec *spec)
{
    for (size_t i = 0; i < spec->host_count; i++) {
        const char *host = spec->hosts[i];
        unsigned char address[16];
        bool ip = inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
        if (!ip && !is_host_name(host))
            return err_make(ERR_USAGE, "'%.100s' is neither the name of a host nor an IP address",
                            host);
        buf_print(b, "%s%s:%s", i ? "," : "", ip ? "IP" : "DNS", host);
    }
    buf_byte(b, '\0');
    return err_none();
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    must(e);
    X509_add_ext(cert, e, -1);
    X509_EXTENSION_free(e);
}

static struct err add_extensions(X509 *cert, X509 *issuer, const struct certs_spec *spec)
{
    bool ca = spec->use == CERTS_CA;
    add_extension(cert, issuer, NID_basic_constraints,
                  ca ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE");
    add_extension(cert, issuer, NID_key_usage,
                  ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature");
    add_extension(cert, issuer, NID_subject_key_identifier, "hash");
    if (ca)
        return err_none();
    add_extension(cert, issuer, NID_authority_key_identifier, "keyid");
    add_extension(cert, issuer, NID_ext_key_usage,
                  spec->use == CERTS_SERVER ? "serverAuth" : "clientAuth");
    if (!spec->host_count)
        return err_none();
    struct buf hosts = {0};
    struct err e = write_hosts(&hosts, spec);
    if (e.code == ERR_OK)
        add_extension(cert, issuer, NID_subject_alt_name, hosts.at);
    buf_fini(&hosts);
    return e;
}

/* 127 random bits: never negative, practically unique (RFC 5280 §4.1.2.2). */
static void set_serial(X509 *cert)
{
    unsigned char bytes[16];
    int ok = RAND_bytes(bytes, sizeof bytes);
    must(ok == 1);
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40);
    BIGNUM *n = BN_bin2bn(bytes, sizeof bytes, NULL);
    must(n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert)));
    BN_free(n);
}

static void set_validity(X509 *cert, X509 *issuer, int64_t days)
{
    X509_gmtime_adj(X509_getm_notBefore(cert), -LEEWAY);
    X509_time_adj_ex(X509_getm_notAfter(cert), (int)days, 0, NULL);
    const ASN1_TIME *last = X509_get0_notAfter(issuer);
    if (issuer != cert && ASN1_TIME_compare(X509_get0_notAfter(cert), last) > 0)
        X509_set1_notAfter(cert, last);
}

static struct err make(const struct certs_spec *spec, const struct signer *ca, struct signer *out)
{
    out->key = EVP_EC_gen("P-256");
    out->cert = X509_new();
    must(out->key && out->cert);
    X509 *issuer = ca->cert ? ca->cert : out->cert;
    X509_set_version(out->cert, X509_VERSION_3);
    set_serial(out->cert);
    set_validity(out->cert, issuer, spec->days);
    X509_NAME *subject = X509_get_subject_name(out->cert);
    if (X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)spec->name,
                                   -1, -1, 0) != 1)
        return err_make(ERR_USAGE, "'%.100s' cannot be a common name: 1 to 64 characters of UTF-8",
                        spec->name);
    X509_set_issuer_name(out->cert, X509_get_subject_name(issuer));
    X509_set_pubkey(out->cert, out->key);
    TRY(add_extensions(out->cert, issuer, spec));
    int signed_with = X509_sign(out->cert, ca->key ? ca->key : out->key, EVP_sha256());
    must(signed_with > 0);
    return err_none();
}

/* signer and made are the caller's to drop, also after an error. */
static struct err make_files(const struct certs_spec *spec, const struct certs_pair *ca,
                             const struct certs_pair *out, bool force, struct signer *signer,
                             struct signer *made)
{
    TRY(check_free(out->cert, force));
    TRY(check_free(out->key, force));
    if (ca)
        TRY(read_signer(ca, signer));
    TRY(make(spec, signer, made));
    return write_pair(out, made, force);
}

struct err certs_make(const struct certs_spec *spec, const struct certs_pair *ca,
                      const struct certs_pair *out, bool force)
{
    struct signer signer = {0}, made = {0};
    struct err e = make_files(spec, ca, out, force, &signer, &made);
    drop_signer(&signer);
    drop_signer(&made);
    ERR_clear_error();
    return e;
}
