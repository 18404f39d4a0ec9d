/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controls about what surrounds the sandbox: identity, the trail, quotas,
 * approvals, deployment. What they need (keys, tokens, sessions) they make
 * and remove.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "cli/common.h"
#include "cli/govern/scorecard.h"

#define TOKEN_S 5
#define DECIDED_MS 10000u

static void sleep_ms(unsigned ms)
{
    struct timespec ts = {.tv_sec = ms / 1000,
                          .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&ts, NULL);
}

/* ---- identity ----------------------------------------------------------- */

static json_t *mint_token(struct cli_score *s, const char *session)
{
    return cli_score_ask(s, "POST", "/api/tokens",
                         json_pack("{s:i, s:[s], s:s}", "ttl_s", TOKEN_S,
                                   "scopes", "execute", "session", session));
}

static void try_token(struct cli_score *s, const char *token,
                      const char *session, const char *other)
{
    char *own cleanup(mem_free) = xasprintf("/api/sessions/%s", session);
    char *foreign cleanup(mem_free) = xasprintf("/api/sessions/%s", other);
    char code[32];

    cli_score_refusal(s, token, "GET", own, NULL, code);
    (void)cli_score_note(s, !code[0],
                         "a %d s token for one session: works%s%s", TOKEN_S,
                         code[0] ? " NOT: " : "", code);
    cli_score_refusal(s, token, "GET", foreign, NULL, code);
    (void)cli_score_note(s, strcmp(code, "not_found") == 0,
                         "the same on another session: %s",
                         code[0] ? code : "works");
    cli_score_refusal(s, token, "GET", "/api/keys", NULL, code);
    (void)cli_score_note(s, strcmp(code, "forbidden") == 0,
                         "the same on keys: %s", code[0] ? code : "works");
}

static void try_revoke(struct cli_score *s, const char *session)
{
    json_t *made cleanup(json_unref) = mint_token(s, session);
    char *path cleanup(mem_free) =
        xasprintf("/api/tokens/%s", cli_json_text(made, "id", ""));
    char *own cleanup(mem_free) = xasprintf("/api/sessions/%s", session);
    char code[32];

    if (!made)
        return;
    cli_score_refusal(s, NULL, "DELETE", path, NULL, code);
    cli_score_refusal(s, cli_json_text(made, "secret", ""), "GET", own, NULL,
                      code);
    (void)cli_score_note(s, strcmp(code, "unauthenticated") == 0,
                         "a revoked token: %s", code[0] ? code : "works");
}

void cli_score_identity(struct cli_score *s)
{
    json_t *made cleanup(json_unref) = NULL;
    char session[ID_MAX], other[ID_MAX] = "", code[32];

    cli_score_gate(s, "identity");
    if (!cli_score_session(s, true, session))
        return;
    if (cli_score_session(s, true, other))
        made = mint_token(s, session);
    if (made) {
        char *own cleanup(mem_free) = xasprintf("/api/sessions/%s", session);
        const char *token = cli_json_text(made, "secret", "");

        try_token(s, token, session, other);
        try_revoke(s, session);
        sleep_ms(TOKEN_S * 1000 + 500);
        cli_score_refusal(s, token, "GET", own, NULL, code);
        (void)cli_score_note(s, strcmp(code, "unauthenticated") == 0,
                             "the token after its time: %s",
                             code[0] ? code : "works");
    }
    cli_score_end(s, session);
    cli_score_end(s, other);
}

/* ---- audit -------------------------------------------------------------- */

static void note_evidence(struct cli_score *s, const char *execution,
                          const char *code)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/executions/%s/evidence", execution);
    json_t *page cleanup(json_unref) = cli_score_ask(s, "GET", path, NULL);
    const json_t *ran = json_object_get(page, "code");
    unsigned char hash[HASH_SIZE];
    char hex[HASH_HEX];
    bool same;

    if (!page)
        return;
    hash_sha256(code, strlen(code), hash);
    same = strcmp(cli_json_text(ran, "sha256", ""),
                  ids_hex(hash, sizeof(hash), hex)) == 0;
    (void)cli_score_note(s, same, "its evidence %s the hash of what ran",
                         same ? "has" : "LACKS");
    (void)cli_score_note(s, json_is_object(json_object_get(page, "policy")),
                         "its evidence names the policy's decision");
}

static void note_trail(struct cli_score *s, const char *execution)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/audit?object=%s", execution);
    uint64_t deadline = clock_mono_ms() + DECIDED_MS;
    bool there = false;

    do {
        json_t *list cleanup(json_unref) = cli_score_ask(s, "GET", path, NULL);

        if (!list)
            return;
        there = json_array_size(json_object_get(list, "data")) > 0;
        if (!there)
            sleep_ms(200);
    } while (!there && clock_left_ms(deadline));
    (void)cli_score_note(s, there, "the run is %s the trail",
                         there ? "in" : "NOT in");
}

void cli_score_audit(struct cli_score *s)
{
    static const char code[] = "print('scorecard')";
    json_t *run cleanup(json_unref) = NULL;
    json_t *report cleanup(json_unref) = NULL;
    char session[ID_MAX];

    cli_score_gate(s, "audit");
    if (!cli_score_session(s, true, session))
        return;
    run = cli_score_run(s, session, "python", code, 30);
    cli_score_end(s, session);
    if (run) {
        note_trail(s, cli_json_text(run, "id", ""));
        note_evidence(s, cli_json_text(run, "id", ""), code);
    }
    report = cli_score_ask(s, "POST", "/api/audit/verify", NULL);
    if (report)
        (void)cli_score_note(
            s, json_is_true(json_object_get(report, "ok")),
            "the chain of %llu events %s%s",
            (unsigned long long)cli_json_number(report, "events"),
            json_is_true(json_object_get(report, "ok")) ? "holds"
                                                        : "is BROKEN: ",
            cli_json_text(report, "fault", ""));
}

/* ---- quotas ------------------------------------------------------------- */

static void note_bound(struct cli_score *s, const json_t *uses,
                       const char *name)
{
    for (size_t i = 0; i < json_array_size(uses); i++) {
        const json_t *u = json_array_get(uses, i);

        if (strcmp(cli_json_text(u, "name", ""), name) == 0) {
            (void)cli_score_note(
                s, cli_json_number(u, "limit") > 0, "%s: %llu of %llu used",
                name, (unsigned long long)cli_json_number(u, "used"),
                (unsigned long long)cli_json_number(u, "limit"));
            return;
        }
    }
    (void)cli_score_note(s, false, "%s: no limit", name);
}

void cli_score_quotas(struct cli_score *s)
{
    static const char *const needed[] = {
        "live_sessions", "executions_per_hour", "cpu_s_per_hour",
        "output_tokens_per_hour"};
    json_t *spun cleanup(json_unref) = NULL;
    json_t *flood cleanup(json_unref) = NULL;
    json_t *quotas cleanup(json_unref) = NULL;
    char session[ID_MAX];

    if (!cli_score_session(s, true, session))
        return;
    spun = cli_score_run(s, session, "python", "while True: pass", 5);
    flood = cli_score_run(s, session, "shell",
                          "head -c 40000000 /dev/zero | tr '\\0' x", 30);
    cli_score_end(s, session);
    if (spun)
        (void)cli_score_note(
            s, strcmp(cli_json_text(spun, "outcome", ""), "timeout") == 0,
            "an endless loop ends in: %s",
            cli_json_text(spun, "outcome", "?"));
    if (flood)
        (void)cli_score_note(
            s,
            json_is_true(json_object_get(json_object_get(flood, "truncated"),
                                         "stdout")),
            "40 MB of output are cut and marked");
    quotas = cli_score_ask(s, "GET", "/api/quotas", NULL);
    for (size_t i = 0; quotas && i < ARRAY_SIZE(needed); i++)
        note_bound(s, json_object_get(quotas, "quotas"), needed[i]);
}

/* ---- approvals ---------------------------------------------------------- */

static json_t *hold_execution(struct cli_score *s, const char *session)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/executions", session);

    return cli_score_ask(s, "POST", path,
                         json_pack("{s:s, s:s, s:s}", "language", "python",
                                   "code",
                                   "open('/mnt/data/ran', 'w').write('x')",
                                   "approval", "required"));
}

static bool has_run(struct cli_score *s, const char *session)
{
    char *path cleanup(mem_free) =
        xasprintf("/api/sessions/%s/files/ran", session);
    char code[32];

    cli_score_refusal(s, NULL, "GET", path, NULL, code);
    return !code[0];
}

static void decide_approval(struct cli_score *s, const char *key,
                            const char *session, const json_t *held)
{
    const char *id = cli_json_text(held, "approval", "");
    char *approve cleanup(mem_free) =
        xasprintf("/api/approvals/%s/approve", id);
    uint64_t deadline = clock_mono_ms() + DECIDED_MS;
    char code[32];
    bool ran;

    (void)cli_score_note(
        s,
        strcmp(cli_json_text(held, "status", ""), "pending_approval") == 0 &&
            id[0],
        "a run that must be approved is %s",
        cli_json_text(held, "status", "?"));
    cli_score_refusal(s, NULL, "POST", approve, json_object(), code);
    (void)cli_score_note(s, strcmp(code, "forbidden") == 0,
                         "approved by its requester: %s",
                         code[0] ? code : "ALLOWED");
    ran = has_run(s, session);
    (void)cli_score_note(s, !ran, "before the answer it has %srun",
                         ran ? "" : "not ");
    cli_score_refusal(s, key, "POST", approve, json_object(), code);
    while (!(ran = has_run(s, session)) && clock_left_ms(deadline))
        sleep_ms(200);
    (void)cli_score_note(s, !code[0] && ran,
                         "approved by another principal: %s",
                         code[0] ? code
                         : ran   ? "it ran"
                                 : "it did NOT run");
}

void cli_score_approvals(struct cli_score *s)
{
    json_t *key cleanup(json_unref) = NULL;
    json_t *held cleanup(json_unref) = NULL;
    char *path cleanup(mem_free) = NULL;
    char session[ID_MAX], code[32];

    key = cli_score_ask(
        s, "POST", "/api/keys",
        json_pack("{s:[s], s:s}", "scopes", "approve", "name", "scorecard"));
    if (!key)
        return;
    path = xasprintf("/api/keys/%s", cli_json_text(key, "id", ""));
    if (cli_score_session(s, true, session)) {
        held = hold_execution(s, session);
        if (held)
            decide_approval(s, cli_json_text(key, "secret", ""), session,
                            held);
        cli_score_end(s, session);
    }
    cli_score_refusal(s, NULL, "DELETE", path, NULL, code);
}

/* ---- deployment --------------------------------------------------------- */

void cli_score_deployment(struct cli_score *s)
{
    const json_t *service = json_object_get(s->posture, "service");
    bool local = json_is_true(json_object_get(service, "local"));
    bool tls = json_is_true(json_object_get(service, "tls"));
    const char *version = cli_json_text(service, "version", "?");
    char code[32];

    cli_score_gate(s, "data");
    cli_score_gate(s, "policy");
    (void)cli_score_note(s,
                         json_is_integer(json_object_get(service, "uid")) &&
                             cli_json_number(service, "uid") != 0,
                         "the service runs as uid %llu",
                         (unsigned long long)cli_json_number(service, "uid"));
    (void)cli_score_note(s, local || tls, "keys travel %s",
                         tls     ? "by TLS"
                         : local ? "on loopback only"
                                 : "in the CLEAR");
    (void)cli_score_note(s, strcmp(version, GLOVEBOX_VERSION) == 0,
                         "service %s, this program %s", version,
                         GLOVEBOX_VERSION);
    cli_score_refusal(s, NULL, "GET", "/readyz", NULL, code);
    (void)cli_score_note(s, !code[0], "readiness: %s", code[0] ? code : "yes");
}
