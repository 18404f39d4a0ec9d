/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers the ownership of a workspace to another key: directly, or by an
 * offer that the holder of its token claims. Runs on a worker of the daemon.
 * A token appears only in the answer that created it.
 */
#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "doors/native/native.h"
#include "json/json.h"

#define OFFER_MIN_S 60
#define OFFER_MAX_S (72 * 3600)
#define TOKEN_MAX 256

/* ---- directly ----------------------------------------------------------- */

struct text_body {
    const char *text;
};

static const struct api_field transfer_spec_fields[] = {
    {"to", API_STRING, API_REQUIRED, API_AT(struct text_body, text), .min = 1,
     .max = 128, .help = "a key's id, or its name if only one has it"},
};
API_INPUT(native_transfer_spec, "TransferSpec", struct text_body,
          transfer_spec_fields, "The next owner.");

int native_transfer_give(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct text_body b = {0};
    struct workspace_info info;
    struct auth_key key;
    int r = native_read(call, &native_transfer_spec, &b, &json, err);

    if (r == 0)
        r = workspace_get(call->doors->workspaces, &call->actor,
                          call->params[0], &info, err);
    if (r == 0)
        r = auth_key_resolve(call->doors->auth,
                             call->who.scopes & AUTH_ADMIN ? NULL
                                                           : call->who.tenant,
                             b.text, &key, err);
    if (r == -ERR_NOT_FOUND && b.text && ids_valid("jwt", b.text))
        (void)error_hint(err, "Make an offer; its token can be claimed with a "
                              "token of an issuer.");
    if (r == 0)
        r = workspace_transfer(call->doors->workspaces, &call->actor,
                               call->params[0], key.id, key.tenant, &info,
                               err);
    if (r == 0)
        native_respond(call, 200, &native_workspace, &info);
    return r;
}

/* ---- by a token --------------------------------------------------------- */

struct offer_body {
    int64_t expires_in_s;
};

static const struct api_field offer_spec_fields[] = {
    {"expires_in_s", API_INT, API_DEFAULT,
     API_AT(struct offer_body, expires_in_s), .min = OFFER_MIN_S,
     .max = OFFER_MAX_S, .value = OFFER_MAX_S},
};
API_INPUT(native_offer_spec, "OfferSpec", struct offer_body, offer_spec_fields,
          "An offer to be made.");

static const struct api_field claim_spec_fields[] = {
    {"token", API_STRING, API_REQUIRED, API_AT(struct text_body, text),
     .min = 1, .max = TOKEN_MAX},
};
API_INPUT(native_claim_spec, "ClaimSpec", struct text_body, claim_spec_fields,
          "An offer to be taken.");

struct offer {
    struct workspace_offer offer;
    const char *workspace;
};

#define OFFER(member) API_AT(struct offer, member)

static const struct api_field offer_fields[] = {
    {"id", API_STRING, OFFER(offer.id), .help = "xfer_…"},
    {"workspace", API_STRING, OFFER(workspace)},
    {"offered_by", API_STRING, OFFER(offer.offered_by)},
    {"created_at", API_TIME, OFFER(offer.created_at_ms)},
    {"expires_at", API_TIME, OFFER(offer.expires_at_ms)},
};
API_OUTPUT(native_offer, "Offer", struct offer, offer_fields,
           "An open offer of ownership.");

struct offer_made {
    struct offer offer;
    const char *token;
};

static const struct api_field offer_made_fields[] = {
    {"token", API_STRING, API_AT(struct offer_made, token)},
};
API_OUTPUT_OF(native_offer_made, "OfferMade", &native_offer, struct offer_made,
              offer_made_fields, "An offer with its token, shown once.");

int native_transfer_offer(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct offer_body b = {0};
    struct workspace_offer offer = {.id = ""};
    char token[65] = "";
    int r = native_read_maybe(call, &native_offer_spec, &b, &json, err);

    if (r == 0)
        r = workspace_offer(call->doors->workspaces, &call->actor,
                            call->params[0], (uint32_t)b.expires_in_s, &offer,
                            token, err);
    if (r < 0)
        return r;
    native_respond(call, 201, &native_offer_made,
                   &(struct offer_made){{offer, call->params[0]}, token});
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
        api_write(&w, NULL, &native_offer,
                  &(struct offer){offers[i], call->params[0]});
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
    int r = native_read(call, &native_claim_spec, &b, &json, err);

    if (r == 0)
        r = workspace_claim(call->doors->workspaces, &call->actor, b.text,
                            &info, err);
    if (r == 0)
        native_respond(call, 200, &native_workspace, &info);
    return r;
}
