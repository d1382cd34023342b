/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_CONFIG_H
#define KUBE_KUBE_CONFIG_H

/* How a cluster's API server is reached, and as whom: read from a kubeconfig file (kubectl's form,
 * v1), or from what a pod finds around it. Nothing is connected to here. Relative paths in the file
 * are relative to its folder. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define KUBE_CONFIG_FILE_MAX ((size_t)1 << 20) /* bytes of a token, key or certificate file */

#define KUBE_CONFIG_GROUPS_MAX 64

/* Where a pod finds its service account. */
#define KUBE_CONFIG_POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

/* A program that prints credentials (client.authentication.k8s.io). */
struct kube_config_exec {
    const char *command;      /* a path, or a name to be looked for in $PATH; NULL: there is none */
    const char *const *args;  /* the last one is NULL */
    const char *const *env;   /* "NAME=value"; the last one is NULL */
    const char *api_version;  /* "client.authentication.k8s.io/v1" or …/v1beta1 */
    const char *install_hint; /* or NULL */
    bool wants_cluster;       /* provideClusterInfo */
};

/* Texts live in the arena. What is absent is NULL or empty. */
struct kube_config {
    struct arena arena;
    const char *file;    /* for messages: its name, or the folder of the service account */
    const char *context; /* its name; NULL: none, in a pod */
    const char *server;  /* URL without a slash at the end */
    /* Who may have signed the server's certificate; neither: whom the system trusts. */
    struct str ca; /* PEM */
    const char *ca_file;
    const char *server_name; /* that its certificate is for, if not the URL's host */
    const char *proxy;       /* its URL */
    bool insecure;           /* the server's certificate is not verified */
    const char *namespace;   /* of the context, or that of the pod */

    /* Who asks. Of token, token_file, user and exec at most one is given, besides certificates. */
    const char *user_name; /* as the file calls it; for messages */
    const char *token;
    const char *token_file;             /* read again when it changes */
    const char *user, *password;        /* basic */
    struct str client_cert, client_key; /* PEM */
    const char *client_cert_file, *client_key_file;
    struct kube_config_exec exec;
    const char *as, *as_uid;      /* impersonated */
    const char *const *as_groups; /* the last one is NULL; NULL: none */
};

/* Reads a file, and takes the named context (NULL: its current-context). The errors name the file,
 * the place in it, and the member: ERR_IO; those of wire/document.h; ERR_MISSING_FIELD,
 * ERR_BAD_TYPE, ERR_BAD_VALUE, ERR_DUPLICATE_FIELD, ERR_NOT_FOUND (no such context, cluster or
 * user), ERR_NOT_SUPPORTED (auth-provider). Files that it names must be readable. On an error there
 * is nothing to be released. */
NODISCARD struct err kube_config_load(const char *path, const char *context,
                                      struct kube_config *out);
/* The same for a text; path is for messages and relative paths. */
NODISCARD struct err kube_config_read(struct str text, const char *path, const char *context,
                                      struct kube_config *out);

/* What a pod is given: the folder of its service account (KUBE_CONFIG_POD_FOLDER), and host and
 * port of the server (of $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT; NULL: not set).
 * ERR_USAGE if this is no pod, ERR_IO if a file is missing. */
NODISCARD struct err kube_config_in_pod(const char *folder, const char *host, const char *port,
                                        struct kube_config *out);

/* Appends the bytes of a file of at most KUBE_CONFIG_FILE_MAX bytes: a token, a certificate. ERR_IO
 * names it. */
NODISCARD struct err kube_config_read_file(const char *path, struct buf *out);

/* The server's certificate is not verified, whatever the file says: asked for on a command line. */
void kube_config_skip_verify(struct kube_config *c);

void kube_config_fini(struct kube_config *c);

#endif
