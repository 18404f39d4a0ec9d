/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/tokens, for whoever has a key or a token: short-lived ones that can do
 * less. Runs on a worker of the daemon. A secret is in the answer that made
 * it and nowhere else.
 */
#include "doors/native/native.h"

#include "base/buf.h"
#include "base/mem.h"
#include "json/json.h"

#define SCOPES_MAX 16
#define LIST_DEFAULT 100

struct token_body {
    int64_t ttl_s;
    json_t *scopes;
    const char *name, *pool, *workspace, *session;
};

#define MEMBER(name) offsetof(struct token_body, name)

static const struct json_field token_fields[] = {
    {"ttl_s", JSON_KIND_INT, .required = true, .offset = MEMBER(ttl_s),
     .min = AUTH_TOKEN_TTL_MIN_S, .max = AUTH_TOKEN_TTL_MAX_S},
    {"scopes", JSON_KIND_ARRAY, .offset = MEMBER(scopes), .max = SCOPES_MAX},
    {"name", JSON_KIND_STRING, .offset = MEMBER(name),
     .max = AUTH_NAME_MAX - 1},
    {"pool", JSON_KIND_STRING, .offset = MEMBER(pool), .min = 1, .max = 64},
    {"workspace", JSON_KIND_STRING, .offset = MEMBER(workspace), .min = 1,
     .max = ID_MAX},
    {"session", JSON_KIND_STRING, .offset = MEMBER(session), .min = 1,
     .max = ID_MAX},
};

/* What the caller cannot use, its token cannot be for; and to the caller it
 * is not there (I3). */
static int check_reach(struct doors_call *call, const struct token_body *b,
                       struct error *err)
{
    const struct doors *d = call->doors;
    struct workspace_info workspace;
    struct session_info session;
    struct pool_info pool;

    if (b->pool) {
        if (session_pool_get(d->sessions, &call->actor, b->pool, &pool, err) <
            0)
            return -(int)err->code;
        pool_info_done(&pool);
    }
    if (b->session) {
        if (session_get(d->sessions, &call->actor, b->session, &session, err) <
            0)
            return -(int)err->code;
        session_info_done(&session);
    }
    if (b->workspace)
        return workspace_get(d->workspaces, &call->actor, b->workspace,
                             &workspace, err);
    return 0;
}

static void encode_token(struct json_writer *w, const struct auth_key *token,
                         const char *secret)
{
    json_write_open(w, NULL, '{');
    native_keys_encode(w, token);
    json_write_string(w, "parent", token->parent);
    json_write_string(w, "key", token->root);
    if (secret)
        json_write_string(w, "secret", secret);
    json_write_close(w, '}');
}

/* In the trail before the client is told. */
static int note(struct doors_call *call, const char *action, const char *token,
                const char *before, const char *detail, struct error *err)
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
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    char text[96];
    int r = native_ask_body(call, token_fields, ARRAY_SIZE(token_fields), &b,
                            &json, err);

    if (r == 0 && b.scopes)
        r = native_keys_scopes(b.scopes, &spec.scopes, err);
    if (r == 0)
        r = check_reach(call, &b, err);
    if (r < 0)
        return r;
    spec.name = b.name;
    spec.ttl_s = (uint32_t)b.ttl_s;
    spec.only[ACTOR_POOLS] = b.pool;
    spec.only[ACTOR_WORKSPACES] = b.workspace;
    spec.only[ACTOR_SESSIONS] = b.session;
    r = auth_token_mint(call->doors->auth, &call->who, &spec, &token, &secret,
                        err);
    if (r == 0)
        r = note(call, "token.create", token.id, token.parent,
                 auth_scopes_format(token.scopes, text), err);
    if (r < 0)
        return r;
    encode_token(&w, &token, secret);
    http_respond_json(call->http, 201, &body);
    return 0;
}

int native_tokens_list(struct doors_call *call, struct error *err)
{
    struct auth_key *tokens cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
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
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        encode_token(&w, &tokens[i], NULL);
    native_encode_list_end(&w, more);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_tokens_revoke(struct doors_call *call, struct error *err)
{
    int r =
        auth_token_revoke(call->doors->auth, &call->who, call->params[0], err);

    if (r == 0)
        r = note(call, "token.revoke", call->params[0], NULL, NULL, err);
    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}
