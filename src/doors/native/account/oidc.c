/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/console/oidc: signing a browser in with the configured issuer. Runs on
 * a worker of the daemon, which waits for the issuer; auth/oidc.c has the
 * protocol. A browser navigates to both routes, so every answer is a redirect
 * to the issuer or to the console's own page, never to an address of the
 * request. Failures come back to that page as a fixed word.
 */
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/native/native.h"

static int need_oidc(const struct doors_call *call, struct error *err)
{
    if (!auth_oidc_offered(call->doors->auth))
        return error_set(err, ERR_NOT_FOUND,
                         "signing in with an issuer is not configured");
    return doors_cookie_need_host(call, err);
}

static const char *callback_url(const struct doors_call *call)
{
    return arena_printf(http_arena(call->http), "%s/api/console/oidc/callback",
                        doors_url_base(call));
}

static int go_to(struct doors_call *call, const char *url)
{
    http_add_header(call->http, "Location", url);
    http_add_header(call->http, "Referrer-Policy", "no-referrer");
    http_respond_empty(call->http, 302);
    return 0;
}

/* word: web/src/app/signin.tsx has its sentence. why: for the log; nothing in
 * it is of the request. */
static int go_back(struct doors_call *call, const char *word, const char *why)
{
    log_event(LOG_INFO, "oidc_refused", "id", http_id(call->http), "reason",
              word, "why", why, "source", http_source(call->http), NULL);
    return go_to(call, arena_printf(http_arena(call->http),
                                    "/#/signin?error=%s", word));
}

static const char *word_of(const struct error *err)
{
    static const struct {
        enum error_code code;
        const char *word;
    } words[] = {{ERR_UNAUTHENTICATED, "token"},
                 {ERR_FORBIDDEN, "role"},
                 {ERR_UNAVAILABLE, "issuer"},
                 {ERR_BUSY, "busy"},
                 {ERR_LIMIT, "busy"}};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (words[i].code == err->code)
            return words[i].word;
    return "failed";
}

int native_oidc_start(struct doors_call *call, struct error *err)
{
    struct buf url cleanup(buf_done) = {0};
    char ticket[AUTH_OIDC_TICKET_SIZE];
    struct error why;
    int r = need_oidc(call, err);

    if (r < 0)
        return r;
    if (auth_oidc_start(call->doors->auth, callback_url(call), ticket, &url,
                        &why) < 0)
        return go_back(call, word_of(&why), why.message);
    doors_cookie_set(call, DOORS_COOKIE_TICKET, ticket, AUTH_OIDC_TTL_S);
    return go_to(call, url.data);
}

struct callback {
    const char *code, *state, *error, *issuer;
};

static int read_callback(const struct doors_call *call, struct callback *ret,
                         struct error *err)
{
    const struct {
        const char *name, **at;
    } all[] = {{"code", &ret->code},
               {"state", &ret->state},
               {"error", &ret->error},
               {"iss", &ret->issuer}};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(all); i++)
        r = http_query(call->http, all[i].name, all[i].at, err);
    return r;
}

/* The word of what went wrong, or NULL. The sign-in is over either way. */
static const char *sign_in(struct doors_call *call, const struct callback *in,
                           struct error *why)
{
    struct auth *auth = call->doors->auth;
    struct auth_oidc_login login;
    struct principal who = {.scopes = 0};
    bool slowed;
    int r;

    if (auth_oidc_take(auth, doors_cookie_value(call, DOORS_COOKIE_TICKET),
                       in->state, http_source(call->http), &login, &slowed,
                       why) < 0) {
        if (slowed)
            http_delay(call->http);
        return "state";
    }
    if (in->issuer && !auth_oidc_is_issuer(auth, in->issuer)) {
        (void)error_set(why, ERR_UNAUTHENTICATED, "another issuer answered");
        return "token";
    }
    if (in->error || !in->code) {
        bool denied = in->error && strcmp(in->error, "access_denied") == 0;

        (void)error_set(why, ERR_UNAUTHENTICATED,
                        in->error ? "the issuer refused the sign-in"
                                  : "the issuer sent no code");
        return denied ? "denied" : "refused";
    }
    r = doors_need_audit(call->doors, why);
    if (r == 0)
        r = doors_need_room(call->doors, why);
    if (r < 0)
        return "failed";
    r = auth_oidc_finish(auth, &login, in->code, callback_url(call), &who,
                         why);
    explicit_bzero(&login, sizeof(login));
    if (r == 0)
        http_trust(call->http);
    if (r == 0)
        r = native_console_sign_in(call, &who, 0, why);
    return r < 0 ? word_of(why) : NULL;
}

int native_oidc_callback(struct doors_call *call, struct error *err)
{
    struct callback in = {NULL};
    struct error why = {0};
    const char *word;
    int r = need_oidc(call, err);

    if (r == 0)
        r = read_callback(call, &in, err);
    if (r < 0)
        return r;
    word = sign_in(call, &in, &why);
    doors_cookie_set(call, DOORS_COOKIE_TICKET, "", 0);
    return word ? go_back(call, word, why.message) : go_to(call, "/");
}
