/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/scorecard: ten controls of the service, probed now, and the results of
 * earlier times. For administrators among the operators. Runs on a worker of
 * the daemon.
 */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/native/native.h"
#include "posture/posture.h"

#define TOKEN_S 300u

#define CARD(member) API_AT(struct posture_scorecard, member)

static const struct api_field scorecard_fields[] = {
    {"at", API_TIME, CARD(at_ms)},
    {"by", API_STRING, CARD(by)},
    {"by_name", API_STRING, API_NULLABLE | API_NAME_OF, CARD(by)},
    {"card", API_OBJECT, CARD(body),
     .help = "pass, passed, of, works, configured, controls: as `glovebox "
             "scorecard --json` prints it"},
};
API_OUTPUT(native_scorecard, "Scorecard", struct posture_scorecard,
           scorecard_fields, "A result of the scorecard.");

static int check_operator(const struct doors_call *call, struct error *err)
{
    if (strcmp(call->who.tenant, OPERATORS) == 0)
        return 0;
    return error_set(err, ERR_FORBIDDEN,
                     "only keys of the tenant '%s' see the scorecard",
                     OPERATORS);
}

int native_scorecard_run(struct doors_call *call, struct error *err)
{
    const struct auth_token_spec spec = {
        .name = "scorecard", .ttl_s = TOKEN_S, .scopes = AUTH_SCOPES_ALL};
    struct posture_scorecard card = {.body = NULL};
    char *secret cleanup(mem_free) = NULL;
    struct auth_key token = {.scopes = 0};
    struct error ignored;
    int r = check_operator(call, err);

    if (r == 0)
        r = auth_token_mint(call->doors->auth, &call->who, &spec, &token,
                            &secret, err);
    if (r < 0)
        return r;
    r = posture_scorecard_run(call->doors->core->store,
                              call->doors->conf->data_dir, secret,
                              call->actor.key, &card, err);
    /* It ends by itself soon if this fails. */
    (void)auth_token_revoke(call->doors->auth, &call->who, token.id, &ignored);
    explicit_bzero(secret, strlen(secret));
    if (r < 0)
        return r;
    native_respond(call, 200, &native_scorecard, &card);
    posture_scorecard_done(&card);
    return 0;
}

int native_scorecard_list(struct doors_call *call, struct error *err)
{
    struct posture_scorecard *cards = NULL;
    size_t count = 0;
    int64_t limit;
    int r = check_operator(call, err);

    if (r == 0)
        r = doors_query_int(call, "limit", 1, 200, 20, &limit, err);
    if (r == 0)
        r = posture_scorecard_list(call->doors->core->store, (unsigned)limit,
                                   &cards, &count, err);
    if (r < 0)
        return r;
    native_respond_list(call, &native_scorecard, cards, count, false);
    for (size_t i = 0; i < count; i++)
        posture_scorecard_done(&cards[i]);
    free(cards);
    return 0;
}
