/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership of a workspace goes to another key: directly, or by an offer
 * whose token somebody claims. Runs on a worker of the daemon. A token is in
 * the answer that made it and nowhere else.
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

#define OFFER_MIN_S 60
#define OFFER_MAX_S (72 * 3600)

int native_transfer_key(struct doors_call *call, const char *name,
                        const char *tenant, struct auth_key *ret,
                        struct error *err)
{
    struct auth_key *keys cleanup(mem_free) = NULL;
    const struct auth_key *found = NULL;
    size_t count = 0;
    int r = auth_key_list(call->doors->auth, &keys, &count, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        const struct auth_key *key = &keys[i];

        if (key->revoked_at_ms || (tenant && strcmp(key->tenant, tenant) != 0))
            continue;
        if (strcmp(key->id, name) == 0) {
            *ret = *key;
            return 0;
        }
        if (!key->name[0] || strcmp(key->name, name) != 0)
            continue;
        if (found) {
            (void)error_set(err, ERR_CONFLICT,
                            "more than one key has this name");
            return error_hint(err, "Give the key's id.");
        }
        found = key;
    }
    if (!found) {
        (void)error_set(err, ERR_NOT_FOUND, "no such key");
        return ids_valid("jwt", name)
                   ? error_hint(err, "Make an offer; its token can be claimed "
                                     "with a token of an issuer.")
                   : -ERR_NOT_FOUND;
    }
    *ret = *found;
    return 0;
}

static void respond(struct doors_call *call, const struct workspace_info *info)
{
    struct buf body = {0};
    struct json_writer w = {.out = &body};

    native_encode_workspace(&w, info);
    http_respond_json(call->http, 200, &body);
}

/* ---- directly ----------------------------------------------------------- */

struct text_body {
    const char *text;
};

static const struct json_field to_fields[] = {
    {"to", JSON_KIND_STRING, .required = true,
     .offset = offsetof(struct text_body, text), .min = 1, .max = 128},
};

int native_transfer_give(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct text_body b = {0};
    struct workspace_info info;
    struct auth_key key;
    int r = native_ask_body(call, to_fields, ARRAY_SIZE(to_fields), &b, &json,
                            err);

    if (r == 0)
        r = workspace_get(call->doors->workspaces, &call->actor,
                          call->params[0], &info, err);
    if (r == 0)
        r = native_transfer_key(
            call, b.text,
            call->who.scopes & AUTH_ADMIN ? NULL : call->who.tenant, &key,
            err);
    if (r == 0)
        r = workspace_transfer(call->doors->workspaces, &call->actor,
                               call->params[0], key.id, key.tenant, &info,
                               err);
    if (r == 0)
        respond(call, &info);
    return r;
}

/* ---- by a token --------------------------------------------------------- */

struct offer_body {
    int64_t expires_in_s;
};

static const struct json_field offer_fields[] = {
    {"expires_in_s", JSON_KIND_INT,
     .offset = offsetof(struct offer_body, expires_in_s), .min = OFFER_MIN_S,
     .max = OFFER_MAX_S},
};

static const struct json_field claim_fields[] = {
    {"token", JSON_KIND_STRING, .required = true,
     .offset = offsetof(struct text_body, text), .min = 1, .max = 256},
};

static void encode_offer(struct json_writer *w, const char *workspace,
                         const struct workspace_offer *offer,
                         const char *token)
{
    json_write_open(w, NULL, '{');
    json_write_string(w, "id", offer->id);
    json_write_string(w, "workspace", workspace);
    json_write_string(w, "offered_by", offer->offered_by);
    json_write_time(w, "created_at", offer->created_at_ms);
    json_write_time(w, "expires_at", offer->expires_at_ms);
    if (token)
        json_write_string(w, "token", token);
    json_write_close(w, '}');
}

int native_transfer_offer(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct offer_body b = {.expires_in_s = OFFER_MAX_S};
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    struct workspace_offer offer = {.id = ""};
    char token[65] = "";
    int r = native_ask_body_maybe(call, offer_fields, ARRAY_SIZE(offer_fields),
                                  &b, &json, err);

    if (r == 0)
        r = workspace_offer(call->doors->workspaces, &call->actor,
                            call->params[0], (uint32_t)b.expires_in_s, &offer,
                            token, err);
    if (r < 0)
        return r;
    encode_offer(&w, call->params[0], &offer, token);
    http_respond_json(call->http, 201, &body);
    return 0;
}

int native_transfer_offers(struct doors_call *call, struct error *err)
{
    struct workspace_offer *offers cleanup(mem_free) = NULL;
    struct buf body = {0};
    struct json_writer w = {.out = &body};
    size_t count = 0;
    int r = workspace_offers(call->doors->workspaces, &call->actor,
                             call->params[0], &offers, &count, err);

    if (r < 0)
        return r;
    native_encode_list(&w);
    for (size_t i = 0; i < count; i++)
        encode_offer(&w, call->params[0], &offers[i], NULL);
    native_encode_list_end(&w, false);
    http_respond_json(call->http, 200, &body);
    return 0;
}

int native_transfer_revoke(struct doors_call *call, struct error *err)
{
    int r = workspace_offer_revoke(call->doors->workspaces, &call->actor,
                                   call->params[0], call->params[1], err);

    if (r == 0)
        http_respond_empty(call->http, 204);
    return r;
}

int native_transfer_claim(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct text_body b = {0};
    struct workspace_info info;
    int r = native_ask_body(call, claim_fields, ARRAY_SIZE(claim_fields), &b,
                            &json, err);

    if (r == 0)
        r = workspace_claim(call->doors->workspaces, &call->actor, b.text,
                            &info, err);
    if (r == 0)
        respond(call, &info);
    return r;
}
