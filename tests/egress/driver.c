/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives glovebox-egress for the egress lab: takes one JSON object a line,
 * answers with one, and prints what the proxy reports as it comes. Makes the
 * sockets a session's pid 1 would, in the network namespace it was started
 * in, and starts the proxy in another, as the host's would be. Run by
 * tests/lib/egress.mjs.
 */
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "egress/call.h"

static struct egress_link *proxy;
static int here = -1, there = -1; /* network namespaces */
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
static atomic_int policy;   /* 1 yes, -1 no, 0 silent */
static atomic_bool stalled; /* reports are not read */

static void print(json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT);

    pthread_mutex_lock(&printing);
    (void)puts(text);
    (void)fflush(stdout);
    pthread_mutex_unlock(&printing);
    free(text);
    json_decref(line);
}

static void on_report(void *ctx, const struct egress_report *r)
{
    int answer = atomic_load(&policy);

    (void)ctx;
    while (atomic_load(&stalled))
        (void)usleep(1000);
    print(json_pack(
        "{s:{s:i,s:b,s:I,s:I,s:I,s:I,s:i,s:i,s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:s,"
        "s:s}}",
        "report", "type", (int)r->type, "allowed", (int)r->allowed, "handle",
        (json_int_t)r->handle, "question", (json_int_t)r->question,
        "bytes_out", (json_int_t)r->bytes_out, "bytes_in",
        (json_int_t)r->bytes_in, "status", (int)r->status, "port",
        (int)r->port, "rule", (int)r->rule, "host", r->host, "address",
        r->address, "method", r->method, "path", r->path, "package",
        r->package, "version", r->version, "sha256", r->sha256, "reason",
        r->reason));
    if (r->type == EGRESS_QUESTION && answer)
        egress_call_answer(proxy, r->question, answer > 0,
                           answer > 0 ? "" : "the test says no");
}

static void on_lost(void *ctx)
{
    (void)ctx;
    print(json_pack("{s:b}", "lost", 1));
}

static const char *text(json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static uint64_t number(json_t *o, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(o, key));
}

static void read_nets(json_t *list, struct egress_net *ret)
{
    size_t i;
    json_t *one;

    json_array_foreach (list, i, one) {
        const char *s = text(one, "address");

        ret[i].family = strchr(s, ':') ? 6 : 4;
        ret[i].bits = (uint8_t)number(one, "bits");
        (void)inet_pton(ret[i].family == 6 ? AF_INET6 : AF_INET, s,
                        ret[i].address);
    }
}

static int op_open(json_t *in, json_t *out, struct error *err)
{
    struct egress_setup s = {.max_connections =
                                 (uint32_t)number(in, "max_connections"),
                             .head_ms = (uint32_t)number(in, "head_ms"),
                             .connect_ms = (uint32_t)number(in, "connect_ms"),
                             .idle_ms = (uint32_t)number(in, "idle_ms"),
                             .answer_ms = (uint32_t)number(in, "answer_ms")};
    struct priv_user user = {(uid_t)number(in, "uid"),
                             (gid_t)number(in, "uid")};
    int r;

    (void)out;
    (void)snprintf(s.resolver, sizeof(s.resolver), "%s", text(in, "resolver"));
    (void)snprintf(s.ca_file, sizeof(s.ca_file), "%s", text(in, "ca_file"));
    (void)snprintf(s.index_url, sizeof(s.index_url), "%s",
                   text(in, "index_url"));
    (void)snprintf(s.wheels_dir, sizeof(s.wheels_dir), "%s",
                   text(in, "wheels_dir"));
    read_nets(json_object_get(in, "refused"), s.refused);
    read_nets(json_object_get(in, "lab"), s.lab);
    here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    there = open(text(in, "netns"), O_RDONLY | O_CLOEXEC);
    if (there >= 0 && setns(there, CLONE_NEWNET) < 0)
        return error_set(err, ERR_INTERNAL, "cannot enter the namespace");
    r = egress_call_open(text(in, "program"), user.uid ? &user : NULL, &s,
                         &proxy, err);
    if (there >= 0)
        (void)setns(here, CLONE_NEWNET);
    if (r == 0)
        egress_call_listen(proxy, on_report, on_lost, NULL);
    return r;
}

static int bind_here(int type, unsigned *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

    (void)bind(fd, (struct sockaddr *)&a, len);
    (void)getsockname(fd, (struct sockaddr *)&a, &len);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static void read_rule(json_t *in, struct egress_rule *r)
{
    size_t i;
    json_t *one;

    (void)snprintf(r->host, sizeof(r->host), "%s", text(in, "host"));
    (void)snprintf(r->path, sizeof(r->path), "%s", text(in, "path"));
    (void)snprintf(r->header, sizeof(r->header), "%s", text(in, "header"));
    (void)snprintf(r->value, sizeof(r->value), "%s", text(in, "value"));
    r->methods = (uint32_t)number(in, "methods");
    r->inspect = json_is_true(json_object_get(in, "inspect"));
    json_array_foreach (json_object_get(in, "ports"), i, one)
        r->ports[i] = (uint16_t)json_integer_value(one);
}

static int op_grant(json_t *in, json_t *out, struct error *err)
{
    json_t *list = json_object_get(in, "rules"), *one;
    size_t count = json_array_size(list), i;
    struct egress_rule *rules cleanup(mem_free) =
        xcalloc(count + 1, sizeof(*rules));
    struct egress_grant g = {
        .handle = number(in, "handle"),
        .mode = (uint32_t)number(in, "mode"),
        .rule_count = (uint32_t)count,
        .ask = json_is_true(json_object_get(in, "ask")),
        .packages = json_is_true(json_object_get(in, "packages")),
        .bytes = number(in, "bytes"),
        .connections = (uint32_t)number(in, "connections"),
        .requests = (uint32_t)number(in, "requests"),
        .lookups = (uint32_t)number(in, "lookups")};
    bool again = json_is_true(json_object_get(in, "again"));
    int tcp cleanup(fd_close) = -1;
    int udp cleanup(fd_close) = -1;
    char ca[EGRESS_CA_MAX];
    unsigned ports[2] = {0, 0};
    int r;

    json_array_foreach (list, i, one)
        read_rule(one, &rules[i]);
    if (!again) {
        tcp = bind_here(SOCK_STREAM, &ports[0]);
        udp = bind_here(SOCK_DGRAM, &ports[1]);
    }
    r = egress_call_grant(proxy, &g, rules, tcp, udp, ca, err);
    if (r == 0) {
        json_object_set_new(out, "ca", json_string(ca));
        json_object_set_new(out, "tcp", json_integer(ports[0]));
        json_object_set_new(out, "udp", json_integer(ports[1]));
    }
    return r;
}

static int op_revoke(json_t *in, json_t *out, struct error *err)
{
    (void)out;
    return egress_call_revoke(proxy, number(in, "handle"), err);
}

static int op_status(json_t *in, json_t *out, struct error *err)
{
    struct egress_status s;
    int r = egress_call_status(proxy, &s, err);

    (void)in;
    json_object_set_new(out, "alive", json_boolean(egress_call_alive(proxy)));
    if (r == 0) {
        json_object_set_new(out, "sessions", json_integer(s.sessions));
        json_object_set_new(out, "connections", json_integer(s.connections));
    }
    return r;
}

static int op_policy(json_t *in, json_t *out, struct error *err)
{
    (void)out;
    (void)err;
    atomic_store(&policy,
                 (int)json_integer_value(json_object_get(in, "answer")));
    atomic_store(&stalled, json_is_true(json_object_get(in, "stall")));
    return 0;
}

static int op_answer(json_t *in, json_t *out, struct error *err)
{
    (void)out;
    (void)err;
    egress_call_answer(proxy, number(in, "question"),
                       json_is_true(json_object_get(in, "allow")),
                       text(in, "reason"));
    return 0;
}

static const struct {
    const char *name;
    int (*run)(json_t *in, json_t *out, struct error *err);
} ops[] = {{"open", op_open},     {"grant", op_grant},
           {"revoke", op_revoke}, {"status", op_status},
           {"policy", op_policy}, {"answer", op_answer}};

static void obey(json_t *in)
{
    json_t *out = json_object();
    struct error err = {0};
    int r = -1;

    json_object_set(out, "id", json_object_get(in, "id"));
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
        if (strcmp(ops[i].name, text(in, "op")) == 0)
            r = ops[i].run(in, out, &err);
    if (r < 0)
        json_object_set_new(out, "error", json_string(err.message));
    print(out);
}

int main(void)
{
    static char line[1 << 20];

    atomic_store(&policy, 1);
    while (fgets(line, sizeof(line), stdin)) {
        json_error_t why;
        json_t *in = json_loads(line, 0, &why);

        if (!in)
            return 2;
        obey(in);
        json_decref(in);
    }
    egress_call_close(proxy);
    return 0;
}
