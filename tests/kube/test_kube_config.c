/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/array.h"
#include "kube/kube_config.h"

/* A folder with the files that kubeconfigs name. */
static char folder[] = "/tmp/tenax-kubeconfig-XXXXXX";
static const struct {
    const char *name, *text;
} files[] = {
    {"ca.crt", "-----BEGIN CERTIFICATE-----\n"},
    {"c.crt", "-----BEGIN CERTIFICATE-----\nc\n"},
    {"c.key", "-----BEGIN PRIVATE KEY-----\n"},
    {"token", "t0ken\n"},
    {"namespace", "builds\n"},
    {"text", "no PEM"},
};

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int setup(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < COUNT(files); i++)
        write_file(files[i].name, files[i].text);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(files); i++)
        unlink(in_folder(files[i].name));
    return rmdir(folder);
}

static struct err read_text(const char *text, const char *context, struct kube_config *c)
{
    return kube_config_read(str_from(text), in_folder("config"), context, c);
}

static void accept(const char *text, const char *context, struct kube_config *c)
{
    struct err e = read_text(text, context, c);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
}

#define WHOLE                                                                                      \
    "apiVersion: v1\nkind: Config\ncurrent-context: prod\npreferences: {}\n"                       \
    "clusters:\n"                                                                                  \
    "- name: east\n  cluster:\n    server: https://10.0.0.1:6443/base/\n"                          \
    "    certificate-authority: ca.crt\n    tls-server-name: kubernetes\n"                         \
    "    proxy-url: socks5://proxy:1080\n"                                                         \
    "- name: west\n  cluster: {server: 'http://127.0.0.1:8080', "                                  \
    "insecure-skip-tls-verify: true}\n"                                                            \
    "- name: data\n  cluster:\n    server: https://a\n"                                            \
    "    certificate-authority-data: LS0tLS1CRUdJTiBD\n      RVJUSUZJQ0FURS0tLS0tCg==\n"           \
    "    certificate-authority: /nowhere\n"                                                        \
    "users:\n"                                                                                     \
    "- name: tok\n  user: {token: abc}\n"                                                          \
    "- name: file\n  user: {tokenFile: token, token: old}\n"                                       \
    "- name: basic\n  user: {username: u, password: 'p:w'}\n"                                      \
    "- name: cert\n  user: {client-certificate: c.crt, client-key: c.key}\n"                       \
    "- name: both\n  user: {client-certificate: c.crt, client-key: c.key, token: abc}\n"           \
    "- name: exec\n  user:\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n"        \
    "      command: bin/login\n      args: [get, token]\n"                                         \
    "      env: [{name: A, value: b=c}, {name: EMPTY}]\n      installHint: get it\n"               \
    "      provideClusterInfo: true\n      interactiveMode: IfAvailable\n"                         \
    "- name: path\n  user:\n    exec: {apiVersion: client.authentication.k8s.io/v1beta1, "         \
    "command: login, interactiveMode: Never}\n"                                                    \
    "- name: as\n  user: {token: abc, as: bob, as-uid: '7', as-groups: [x, y]}\n"                  \
    "contexts:\n"                                                                                  \
    "- name: prod\n  context: {cluster: east, user: tok, namespace: builds}\n"                     \
    "- name: west\n  context: {cluster: west}\n"                                                   \
    "- name: data\n  context: {cluster: data, user: file}\n"                                       \
    "- name: basic\n  context: {cluster: east, user: basic}\n"                                     \
    "- name: cert\n  context: {cluster: east, user: cert}\n"                                       \
    "- name: both\n  context: {cluster: east, user: both}\n"                                       \
    "- name: exec\n  context: {cluster: east, user: exec}\n"                                       \
    "- name: path\n  context: {cluster: east, user: path}\n"                                       \
    "- name: as\n  context: {cluster: east, user: as}\n"

static void the_current_context_is_taken(void **state)
{
    (void)state;
    struct kube_config c;
    accept(WHOLE, NULL, &c);
    assert_string_equal(c.context, "prod");
    assert_string_equal(c.server, "https://10.0.0.1:6443/base");
    assert_string_equal(c.ca_file, in_folder("ca.crt"));
    assert_string_equal(c.server_name, "kubernetes");
    assert_string_equal(c.proxy, "socks5://proxy:1080");
    assert_string_equal(c.namespace, "builds");
    assert_string_equal(c.user_name, "tok");
    assert_string_equal(c.token, "abc");
    assert_false(c.insecure);
    assert_null(c.exec.command);
    assert_null(c.user);
    kube_config_skip_verify(&c);
    assert_true(c.insecure);
    assert_null(c.ca_file);
    kube_config_fini(&c);
}

static void a_named_context_is_taken(void **state)
{
    (void)state;
    struct kube_config c;
    accept(WHOLE, "west", &c);
    assert_string_equal(c.server, "http://127.0.0.1:8080");
    assert_true(c.insecure);
    assert_null(c.user_name);
    assert_null(c.namespace);
    kube_config_fini(&c);
    accept(WHOLE, "data", &c);
    assert_true(str_eq(c.ca, STR("-----BEGIN CERTIFICATE-----\n")));
    assert_null(c.ca_file);
    assert_string_equal(c.token_file, in_folder("token"));
    assert_null(c.token);
    kube_config_fini(&c);
    accept(WHOLE, "basic", &c);
    assert_string_equal(c.user, "u");
    assert_string_equal(c.password, "p:w");
    kube_config_fini(&c);
    accept(WHOLE, "cert", &c);
    assert_string_equal(c.client_key_file, in_folder("c.key"));
    kube_config_fini(&c);
    accept(WHOLE, "both", &c);
    assert_non_null(c.client_cert_file);
    assert_string_equal(c.token, "abc");
    kube_config_fini(&c);
    accept(WHOLE, "as", &c);
    assert_string_equal(c.as, "bob");
    assert_string_equal(c.as_groups[1], "y");
    assert_null(c.as_groups[2]);
    kube_config_fini(&c);
}

static void an_exec_plugin_is_read(void **state)
{
    (void)state;
    struct kube_config c;
    accept(WHOLE, "exec", &c);
    assert_string_equal(c.exec.command, in_folder("bin/login"));
    assert_string_equal(c.exec.args[0], "get");
    assert_string_equal(c.exec.args[1], "token");
    assert_null(c.exec.args[2]);
    assert_string_equal(c.exec.env[0], "A=b=c");
    assert_string_equal(c.exec.env[1], "EMPTY=");
    assert_null(c.exec.env[2]);
    assert_string_equal(c.exec.install_hint, "get it");
    assert_true(c.exec.wants_cluster);
    kube_config_fini(&c);
    accept(WHOLE, "path", &c);
    assert_string_equal(c.exec.command, "login");
    assert_null(c.exec.args[0]);
    assert_false(c.exec.wants_cluster);
    kube_config_fini(&c);
}

/* A kubeconfig of one cluster and one user. */
#define CONFIG(cluster, user)                                                                      \
    "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"                  \
    "clusters: [{name: k, cluster: {" cluster "}}]\nusers: [{name: u, user: {" user "}}]\n"
#define SERVER    "server: 'https://a'"
#define USER(...) CONFIG(SERVER, __VA_ARGS__)
#define EXEC(...) USER("exec: {" __VA_ARGS__ "}")
#define TEN       "a,b,c,d,e,f,g,h,i,j,"
#define V1        "apiVersion: client.authentication.k8s.io/v1"

static const struct bad {
    const char *text;
    enum err_code code;
    const char *says; /* in the message, which begins with the file */
} bad[] = {
    {"", ERR_MISSING_FIELD, ""},
    {"[", ERR_BAD_VALUE, "expected valid YAML"},
    {"{\"a\": }", ERR_BAD_VALUE, ""},
    {"- a", ERR_BAD_TYPE, "expected a mapping: a kubeconfig, found a list"},
    {"a: 1\n---\nb: 2\n", ERR_TOO_MANY, ""},
    {"kind: Pod", ERR_BAD_VALUE, "kind: expected Config, found Pod"},
    {"apiVersion: v2", ERR_BAD_VALUE, "apiVersion: expected v1, found v2"},
    {"kind: 7", ERR_BAD_TYPE, "kind: expected a text"},
    {"kind: Config", ERR_MISSING_FIELD, "it has no current-context: name a context; it has none"},
    {"contexts: [{name: a}, {name: b}]", ERR_MISSING_FIELD, "name a context; it has a, b"},
    {"current-context: ''", ERR_MISSING_FIELD, "current-context"},
    {"current-context: [c]", ERR_BAD_TYPE, "current-context: expected a text"},
    {"current-context: c", ERR_NOT_FOUND,
     "contexts: there is none with the name 'c'; there are none"},
    {"current-context: c\ncontexts: [{name: a}, {name: b}]", ERR_NOT_FOUND,
     "contexts: there is none with the name 'c'; there are a, b"},
    {"current-context: c\ncontexts: {}", ERR_BAD_TYPE, "contexts: expected a list"},
    {"current-context: c\ncontexts: [c]", ERR_BAD_TYPE, "contexts[0]: expected a mapping"},
    {"current-context: c\ncontexts: [{name: c}]", ERR_MISSING_FIELD, "cluster"},
    {"current-context: c\ncontexts: [{name: c, context: 1}]", ERR_BAD_TYPE, "contexts[0].context"},
    {"current-context: c\ncontexts: [{name: c, context: {}}, {name: c, context: {}}]",
     ERR_DUPLICATE_FIELD, "contexts[1]: expected every name only once, found c"},
    {"current-context: c\ncontexts: [{name: c, context: {cluster: k}}]", ERR_NOT_FOUND,
     "clusters: there is none with the name 'k'"},
    {"current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
     "clusters: [{name: k, cluster: {server: 'https://a'}}]",
     ERR_NOT_FOUND, "users: there is none with the name 'u'"},
    {CONFIG("", ""), ERR_MISSING_FIELD, "clusters[0].cluster.server: expected a text"},
    {CONFIG("server: 5", ""), ERR_BAD_TYPE, "clusters[0].cluster.server: expected a text"},
    {CONFIG("server: 'a:6443'", ""), ERR_BAD_VALUE,
     "clusters[0].cluster.server: expected a URL; write it like https://127.0.0.1:6443, found "
     "a:6443"},
    {CONFIG("server: 'https://a?b'", ""), ERR_BAD_VALUE, "must not contain '?'"},
    {CONFIG("server: 'https://me:pw@a'", ""), ERR_BAD_VALUE, "a user or a password"},
    {CONFIG(SERVER ", proxy-url: 'ftp://a'", ""), ERR_BAD_VALUE, "cluster.proxy-url"},
    {CONFIG(SERVER ", insecure-skip-tls-verify: 'true'", ""), ERR_BAD_TYPE, "true or false"},
    {CONFIG(SERVER ", insecure-skip-tls-verify: true, certificate-authority: ca.crt", ""),
     ERR_BAD_VALUE, "insecure-skip-tls-verify: expected false where"},
    {CONFIG(SERVER ", certificate-authority: nowhere.crt", ""), ERR_BAD_VALUE,
     "certificate-authority: expected a file that can be read"},
    {CONFIG(SERVER ", certificate-authority: .", ""), ERR_BAD_VALUE, "not a file"},
    {CONFIG(SERVER ", certificate-authority: text", ""), ERR_BAD_VALUE, "the name of a PEM file"},
    {CONFIG(SERVER ", certificate-authority-data: '***'", ""), ERR_BAD_VALUE, "PEM in base64"},
    {CONFIG(SERVER ", certificate-authority-data: Zm9v", ""), ERR_BAD_VALUE, "PEM in base64"},
    {USER("token: 12345"), ERR_BAD_TYPE, "users[0].user.token: expected a text (in quotes"},
    {USER("token: \"a\\nb\""), ERR_BAD_VALUE, "users[0].user.token: expected a text without"},
    {USER("token: \"a\\0b\""), ERR_BAD_VALUE, "users[0].user.token: expected a text without"},
    {USER("tokenFile: nowhere"), ERR_BAD_VALUE, "users[0].user.tokenFile"},
    {USER("password: p"), ERR_MISSING_FIELD, "users[0].user.username"},
    {USER("username: 'a:b', password: p"), ERR_BAD_VALUE, "a name without ':'"},
    {USER("token: t, username: u"), ERR_BAD_VALUE, "one of token, tokenFile, username and exec"},
    {USER("token: t, exec: {" V1 ", command: x}"), ERR_BAD_VALUE, "one of token"},
    {USER("client-certificate: c.crt"), ERR_MISSING_FIELD, "client-certificate and client-key"},
    {USER("client-key: c.key"), ERR_MISSING_FIELD, "client-certificate and client-key"},
    {USER("client-certificate: c.crt, client-key: text"), ERR_BAD_VALUE, "user.client-key"},
    {USER("client-certificate: c.crt, client-key-data: ''"), ERR_MISSING_FIELD, "together"},
    {USER("auth-provider: {name: gcp}"), ERR_NOT_SUPPORTED, "auth-provider"},
    {USER("as-groups: [x]"), ERR_MISSING_FIELD, "users[0].user.as"},
    {USER("as: x, as-groups: x"), ERR_BAD_TYPE, "as-groups: expected a list"},
    {USER("as: x, as-groups: [[x]]"), ERR_BAD_TYPE, "as-groups: expected a list of texts"},
    {USER("as: \"x\\r\\ny\""), ERR_BAD_VALUE, "control characters"},
    {USER("as: x, as-groups: [\"x\\ny\"]"), ERR_BAD_VALUE, "control characters"},
    {USER("as: x, as-groups: [" TEN TEN TEN TEN TEN TEN TEN "]"), ERR_BAD_VALUE,
     "at most 64 groups"},
    {USER("as: x, as-user-extra: {a: [b]}"), ERR_BAD_VALUE, "as-user-extra"},
    {USER("exec: login"), ERR_BAD_TYPE, "users[0].user.exec: expected a mapping"},
    {EXEC(V1), ERR_MISSING_FIELD, "users[0].user.exec.command"},
    {EXEC("command: x"), ERR_MISSING_FIELD, "users[0].user.exec.apiVersion"},
    {EXEC("command: x, apiVersion: client.authentication.k8s.io/v1alpha1"), ERR_BAD_VALUE,
     "v1beta1"},
    {EXEC(V1 ", command: x, args: x"), ERR_BAD_TYPE, "exec.args: expected a list"},
    {EXEC(V1 ", command: x, args: [1]"), ERR_BAD_TYPE, "exec.args: expected a list of texts"},
    {EXEC(V1 ", command: x, env: [A]"), ERR_BAD_TYPE, "exec.env[0]"},
    {EXEC(V1 ", command: x, env: [{value: a}]"), ERR_MISSING_FIELD, "exec.env[0].name"},
    {EXEC(V1 ", command: x, env: [{name: 'A=B'}]"), ERR_BAD_VALUE, "without '='"},
    {EXEC(V1 ", command: x, interactiveMode: Always"), ERR_BAD_VALUE, "no terminal"},
    {EXEC(V1 ", command: x, provideClusterInfo: 1"), ERR_BAD_TYPE, "true or false"},
};

static void every_fault_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct kube_config c;
        struct err e = read_text(bad[i].text, NULL, &c);
        if (e.code == ERR_OK)
            fail_msg("accepted: %s", bad[i].text);
        if (e.code != bad[i].code && bad[i].says[0])
            fail_msg("%s: %s: %s", bad[i].text, err_wire(e.code), e.msg);
        if (!strstr(e.msg, bad[i].says) || strncmp(e.msg, folder, strlen(folder)) != 0)
            fail_msg("%s: it says: %s", bad[i].text, e.msg);
        assert_null(c.arena.head);
    }
}

static void files_that_cannot_be_read(void **state)
{
    (void)state;
    struct kube_config c;
    struct err e = kube_config_load("/nowhere/config", NULL, &c);
    assert_int_equal(e.code, ERR_IO);
    assert_string_equal(e.msg, "kubeconfig /nowhere/config: No such file or directory");
    e = kube_config_load(folder, NULL, &c);
    assert_int_equal(e.code, ERR_IO);
    char *large = malloc(KUBE_CONFIG_FILE_MAX + 2);
    memset(large, '#', KUBE_CONFIG_FILE_MAX + 1);
    large[KUBE_CONFIG_FILE_MAX + 1] = '\0';
    write_file("large", large);
    e = kube_config_load(in_folder("large"), NULL, &c);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.msg, "larger than 1048576 bytes"));
    unlink(in_folder("large"));
    free(large);
}

static void relative_paths_are_relative_to_the_file(void **state)
{
    (void)state;
    struct kube_config c;
    write_file("config", USER("tokenFile: ./token"));
    assert_int_equal(kube_config_load(in_folder("config"), NULL, &c).code, ERR_OK);
    assert_string_equal(c.token_file, in_folder("./token"));
    kube_config_fini(&c);
    char here[256];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(kube_config_load("config", NULL, &c).code, ERR_OK);
    assert_string_equal(c.token_file, "./token");
    kube_config_fini(&c);
    assert_int_equal(chdir(here), 0);
    unlink(in_folder("config"));
}

static void a_pod_finds_its_service_account(void **state)
{
    (void)state;
    struct kube_config c;
    assert_int_equal(kube_config_in_pod(folder, "10.0.0.1", "443", &c).code, ERR_OK);
    assert_string_equal(c.server, "https://10.0.0.1:443");
    assert_string_equal(c.namespace, "builds");
    assert_string_equal(c.token_file, in_folder("token"));
    assert_string_equal(c.ca_file, in_folder("ca.crt"));
    kube_config_fini(&c);
    assert_int_equal(kube_config_in_pod(folder, "fd00::1", "443", &c).code, ERR_OK);
    assert_string_equal(c.server, "https://[fd00::1]:443");
    kube_config_fini(&c);
}

static void what_is_no_pod_is_said(void **state)
{
    (void)state;
    struct kube_config c;
    assert_int_equal(kube_config_in_pod(folder, NULL, "443", &c).code, ERR_USAGE);
    assert_int_equal(kube_config_in_pod(folder, "a", "", &c).code, ERR_USAGE);
    assert_int_equal(kube_config_in_pod("/nowhere", "a", "443", &c).code, ERR_IO);
    assert_int_equal(kube_config_in_pod(folder, "a", "x y", &c).code, ERR_BAD_VALUE);
    write_file("namespace", "\n");
    struct err e = kube_config_in_pod(folder, "a", "443", &c);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.msg, "namespace: it is empty"));
    write_file("namespace", "builds\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_current_context_is_taken),
        cmocka_unit_test(a_named_context_is_taken),
        cmocka_unit_test(an_exec_plugin_is_read),
        cmocka_unit_test(every_fault_is_named),
        cmocka_unit_test(files_that_cannot_be_read),
        cmocka_unit_test(relative_paths_are_relative_to_the_file),
        cmocka_unit_test(a_pod_finds_its_service_account),
        cmocka_unit_test(what_is_no_pod_is_said),
    };
    return cmocka_run_group_tests_name("kube/kube_config", tests, setup, teardown);
}
