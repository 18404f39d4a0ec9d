/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constructors of requests: each sets what its action has and leaves the rest
 * at "does not apply". Pure.
 */
#include "govern/govern.h"

#include <assert.h>

/* Every field of the scope, and no other. */
static struct govern_request of_scope(const struct govern_scope *scope,
                                      enum policy_action action)
{
    return (struct govern_request){
        .ask = {.action = action,
                .who = scope->actor,
                .session = scope->session,
                .pool = scope->pool,
                .runtime = scope->runtime,
                .network = scope->network,
                .code_bytes = -1,
                .timeout_s = -1,
                .output_bytes = -1,
                .file_bytes = -1},
        .pinned = scope->pinned,
    };
}

struct govern_request govern_execute(const struct govern_scope *scope,
                                     const char *language, size_t code_bytes,
                                     uint32_t timeout_s, uint64_t output_bytes)
{
    struct govern_request rq = of_scope(scope, POLICY_EXECUTE);

    rq.ask.language = language;
    rq.ask.code_bytes = (int64_t)code_bytes;
    rq.ask.timeout_s = timeout_s;
    rq.ask.output_bytes = (int64_t)output_bytes;
    return rq;
}

static struct govern_request of_program(const struct govern_scope *scope,
                                        enum policy_action action,
                                        uint32_t timeout_s,
                                        uint64_t output_bytes)
{
    struct govern_request rq = of_scope(scope, action);

    rq.ask.language = "shell";
    rq.ask.timeout_s = timeout_s;
    rq.ask.output_bytes = (int64_t)output_bytes;
    return rq;
}

struct govern_request govern_search(const struct govern_scope *scope,
                                    uint32_t timeout_s, uint64_t output_bytes)
{
    return of_program(scope, POLICY_SEARCH, timeout_s, output_bytes);
}

struct govern_request govern_report(const struct govern_scope *scope,
                                    uint32_t timeout_s, uint64_t output_bytes)
{
    return of_program(scope, POLICY_REPORT, timeout_s, output_bytes);
}

struct govern_request govern_create_session(const struct govern_scope *scope)
{
    return of_scope(scope, POLICY_SESSION);
}

struct govern_request govern_memory(const struct govern_scope *scope,
                                    enum policy_action action)
{
    return of_scope(scope, action);
}

static struct govern_request about_file(const struct govern_scope *scope,
                                        enum policy_action action,
                                        const char *path, const char *mime,
                                        int64_t bytes)
{
    struct govern_request rq = of_scope(scope, action);

    rq.ask.network = NULL; /* rules about networks do not see files */
    rq.ask.file = path;
    rq.ask.mime = mime;
    rq.ask.file_bytes = bytes;
    return rq;
}

struct govern_request govern_file_in(const struct govern_scope *scope,
                                     const char *path, const char *mime,
                                     int64_t bytes)
{
    return about_file(scope, POLICY_FILE_IN, path, mime, bytes);
}

struct govern_request govern_file_out(const struct govern_scope *scope,
                                      const char *path, const char *mime,
                                      int64_t bytes)
{
    return about_file(scope, POLICY_FILE_OUT, path, mime, bytes);
}

struct govern_request govern_share(const struct govern_scope *scope,
                                   const char *path)
{
    return about_file(scope, POLICY_SHARE, path, NULL, -1);
}

struct govern_request govern_transfer(const struct govern_scope *scope)
{
    return of_scope(scope, POLICY_TRANSFER);
}

struct govern_request govern_agent(const struct govern_scope *scope)
{
    return of_scope(scope, POLICY_AGENT);
}

struct govern_request govern_tool(const struct govern_scope *scope,
                                  const char *language, size_t code_bytes)
{
    struct govern_request rq = of_scope(scope, POLICY_TOOL);

    rq.ask.language = language;
    rq.ask.code_bytes = (int64_t)code_bytes;
    return rq;
}

static struct govern_request about_host(const struct govern_scope *scope,
                                        enum policy_action action,
                                        const char *host, int port)
{
    struct govern_request rq = of_scope(scope, action);

    rq.ask.host = host;
    rq.ask.port = port;
    return rq;
}

struct govern_request govern_network(const struct govern_scope *scope,
                                     const char *host, int port)
{
    return about_host(scope, POLICY_EGRESS, host, port);
}

struct govern_request govern_secret(const struct govern_scope *scope,
                                    const char *host, const char *secret)
{
    struct govern_request rq = about_host(scope, POLICY_SECRET, host, 0);

    rq.ask.secret = secret;
    return rq;
}

struct govern_request govern_connect(const struct govern_scope *scope,
                                     const char *host, int port,
                                     const char *method, const char *url_path)
{
    struct govern_request rq = about_host(scope, POLICY_CONNECT, host, port);

    rq.ask.method = method;
    rq.ask.url_path = url_path;
    return rq;
}

struct govern_request govern_package(const struct govern_scope *scope,
                                     const char *host, int port,
                                     const char *package, const char *version,
                                     const char *sha256)
{
    struct govern_request rq = about_host(scope, POLICY_PACKAGE, host, port);

    rq.ask.package = package;
    rq.ask.version = version;
    rq.ask.sha256 = sha256;
    return rq;
}

struct govern_request govern_change(const struct actor *actor)
{
    return of_scope(&(struct govern_scope){.actor = actor}, POLICY_CHANGE);
}

static void add_detail(struct govern_request *rq, struct govern_detail detail)
{
    assert(rq->detail_count < GOVERN_DETAILS_MAX);
    if (detail.text && detail.text[0])
        rq->details[rq->detail_count++] = detail;
}

void govern_add(struct govern_request *rq, const char *name, const char *text)
{
    add_detail(rq, (struct govern_detail){.name = name, .text = text});
}

void govern_add_json(struct govern_request *rq, const char *name,
                     const char *json)
{
    add_detail(
        rq, (struct govern_detail){.name = name, .text = json, .json = true});
}
