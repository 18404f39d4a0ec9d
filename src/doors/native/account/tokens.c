/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/tokens: short-lived tokens, derived from a key or a token, with fewer
 * rights. Runs on a worker of the daemon. A secret appears only in the answer
 * that created it.
 */
#include "doors/native/native.h"

#include "api/api.h"
#include "base/mem.h"
#include "json/json.h"

#define LIST_DEFAULT 100

struct token_body {
    int64_t ttl_s;
    json_t *scopes;
    const char *name, *pool, *workspace, *session;
};

#define BODY(member) API_AT(struct token_body, member)

static const struct api_field token_spec_fields[] = {
    {"ttl_s", API_INT, API_REQUIRED, BODY(ttl_s), .min = AUTH_TOKEN_TTL_MIN_S,
     .max = AUTH_TOKEN_TTL_MAX_S,
     .help = "ends then, or with what it is minted from"},
    {"scopes", API_ARRAY, BODY(scopes), .min = 1, .max = NATIVE_SCOPES_MAX,
     .help = "else all of yours but admin"},
    {"session", API_STRING, BODY(session), .min = 1, .max = ID_MAX,
     .help = "for this one alone"},
    {"workspace", API_STRING, BODY(workspace), .min = 1, .max = ID_MAX,
     .help = "for this one alone"},
    {"pool", API_STRING, BODY(pool), .min = 1, .max = 64,
     .help = "for this one alone"},
    {"name", API_STRING, BODY(name), .max = AUTH_NAME_MAX - 1},
};
API_INPUT(native_token_spec, "TokenSpec", struct token_body, token_spec_fields,
          "A token to be minted.");

static const struct api_field token_fields[] = {
    NATIVE_KEY_FIELDS("tok_…", 0),
    {"parent", API_STRING, API_AT(struct auth_key, parent),
     .help = "what it was minted from: a key, or a token"},
    {"key", API_STRING, API_AT(struct auth_key, root),
     .help = "whom it stands for: key_… or jwt_…"},
    {"key_name", API_STRING, API_NULLABLE | API_NAME_OF,
     API_AT(struct auth_key, root)},
};
API_OUTPUT(native_token, "Token", struct auth_key, token_fields,
           "A token, without its secret.");

struct token_made {
    struct auth_key token;
    const char *secret;
};

static const struct api_field token_made_fields[] = {
    {"secret", API_STRING, API_AT(struct token_made, secret)},
};
API_OUTPUT_OF(native_token_made, "TokenMade", &native_token, struct token_made,
              token_made_fields, "A token with its secret, shown once.");

/* In the trail before the client gets its answer. */
static int note_token(struct doors_call *call, const char *action,
                      const char *token, const char *before,
                      const char *detail, struct error *err)
{
    return audit_note(call->doors->core->audit, &call->actor,
                      &(struct audit_event){.action = action,
                                            .object = token,
                                            .before = before,
                                            .detail = detail},
                      err);
}

int native_tokens_create(struct doors_call *call, struct error *err)
{
    char *secret cleanup(mem_free) = NULL;
    json_t *json cleanup(json_unref) = NULL;
    struct token_body b = {0};
    struct auth_token_spec spec = {0};
    struct auth_key token = {.scopes = 0};
    char text[96];
    int r = native_read(call, &native_token_spec, &b, &json, err);

    if (r == 0 && b.scopes)
        r = native_keys_scopes(b.scopes, &spec.scopes, err);
    if (r < 0)
        return r;
    spec.name = b.name;
    spec.ttl_s = (uint32_t)b.ttl_s;
    spec.only[ACTOR_POOLS] = b.pool;
    spec.only[ACTOR_WORKSPACES] = b.workspace;
    spec.only[ACTOR_SESSIONS] = b.session;
    r = session_check_reach(call->doors->sessions, &call->actor, spec.only,
                            err);
    if (r == 0)
        r = auth_token_mint(call->doors->auth, &call->who, &spec, &token,
                            &secret, err);
    if (r == 0)
        r = note_token(call, "token.create", token.id, token.parent,
                       auth_scopes_format(token.scopes, text), err);
    if (r < 0)
        return r;
    native_respond(call, 201, &native_token_made,
                   &(struct token_made){token, secret});
    return 0;
}

int native_tokens_list(struct doors_call *call, struct error *err)
{
    struct auth_key *tokens cleanup(mem_free) = NULL;
    const char *after = NULL;
    unsigned limit = 0;
    size_t count = 0;
    bool more = false;
    int r = native_ask_page(call, AUTH_TOKEN_LIST_MAX, LIST_DEFAULT, &limit,
                            &after, err);

    if (r == 0)
        r = auth_token_list(call->doors->auth, &call->who, limit, after,
                            &tokens, &count, &more, err);
    if (r < 0)
        return r;
    native_respond_list(call, &native_token, tokens, count, more);
    return 0;
}

int native_tokens_revoke(struct doors_call *call, struct error *err)
{
    int r =
        auth_token_revoke(call->doors->auth, &call->who, call->params[0], err);

    if (r == 0)
        r = note_token(call, "token.revoke", call->params[0], NULL, NULL, err);
    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}
