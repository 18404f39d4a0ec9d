/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/console: signing a browser in and out. Runs on a worker of the daemon.
 * A key or a one-time link is exchanged for a token in a cookie that scripts
 * cannot read; the page never sees a secret again (U3). Everything else the
 * console does goes through the routes that every client has (U5).
 */
#include <string.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "doors/native/native.h"
#include "json/json.h"

#define TOKEN_NAME "console"
#define SECRET_MAX 8192 /* of a key; a token of an issuer is the longest */

/* ---- what the sign-in page shows ---------------------------------------- */

struct oidc_view {
    const char *name;
};

static const struct api_field oidc_fields[] = {
    {"name", API_STRING, API_AT(struct oidc_view, name),
     .help = "for the button: Sign in with …"},
};
API_OUTPUT(native_console_oidc, "ConsoleOidc", struct oidc_view, oidc_fields,
           "The issuer that people sign in with.");

struct config_view {
    const char *version;
    const struct oidc_view *oidc;
};

static const struct api_field config_fields[] = {
    {"version", API_STRING, API_AT(struct config_view, version)},
    {"oidc", API_OBJECT, API_NULLABLE, API_POINTER(struct config_view, oidc),
     .of = &native_console_oidc, .help = "null: none is configured"},
};
API_OUTPUT(native_console_settings, "ConsoleConfig", struct config_view,
           config_fields, "What the sign-in page needs to know.");

/* The configured name, or the host of the issuer's address. */
static const char *issuer_name(struct doors_call *call)
{
    const struct conf *conf = call->doors->conf;
    const char *at = strstr(conf->jwt_issuer, "://");

    if (conf->oidc_name[0] || !at)
        return conf->oidc_name[0] ? conf->oidc_name : conf->jwt_issuer;
    return arena_strndup(http_arena(call->http), at + 3,
                         strcspn(at + 3, "/?#"));
}

int native_console_config(struct doors_call *call, struct error *err)
{
    const struct oidc_view oidc = {.name = issuer_name(call)};
    struct config_view view = {
        .version = GLOVEBOX_VERSION,
        .oidc = auth_oidc_offered(call->doors->auth) ? &oidc : NULL};

    (void)err;
    native_respond(call, 200, &native_console_settings, &view);
    return 0;
}

/* ---- signing in --------------------------------------------------------- */

struct login_body {
    const char *key, *link;
    json_t *scopes;
};

static const struct api_field login_fields[] = {
    {"key", API_STRING, API_AT(struct login_body, key), .min = 1,
     .max = SECRET_MAX, .help = "a key or a token"},
    {"link", API_STRING, API_AT(struct login_body, link), .min = 1,
     .max = AUTH_LINK_SIZE, .help = "or the secret of a one-time link"},
    {"scopes", API_ARRAY, API_AT(struct login_body, scopes), .min = 1,
     .max = NATIVE_SCOPES_MAX, .help = "only these; else all of the key's"},
};
API_INPUT(native_console_login_body, "ConsoleLogin", struct login_body,
          login_fields, "A key, or the secret of a one-time link.");

/* Who signs in; wrong keys and links count as guesses (I5). */
static int identify(struct doors_call *call, const struct login_body *b,
                    struct principal *ret, struct error *err)
{
    int r;

    if (!b->key == !b->link)
        return error_set(err, ERR_INVALID,
                         "send either field 'key' or field 'link'");
    if (b->key) {
        r = auth_check(
            call->doors->auth,
            arena_printf(http_arena(call->http), "Bearer %s", b->key),
            http_source(call->http), ret, err);
    } else {
        r = auth_link_take(call->doors->auth, b->link, http_source(call->http),
                           ret, err);
    }
    if (r == 0)
        http_trust(call->http);
    else if (ret->slowed)
        http_delay(call->http);
    return r;
}

/* A browser that signs in again does not leave its token behind. */
static void revoke_previous(struct doors_call *call)
{
    const char *value = doors_cookie_value(call, DOORS_COOKIE_TOKEN);
    struct principal who;
    struct error ignored;

    if (value &&
        auth_check(call->doors->auth,
                   arena_printf(http_arena(call->http), "Bearer %s", value),
                   http_source(call->http), &who, &ignored) == 0 &&
        who.token[0] &&
        auth_token_revoke(call->doors->auth, &who, who.token, &ignored) == 0) {
        const struct actor actor = auth_actor(&who);

        audit_later(call->doors->core->audit, &actor,
                    &(struct audit_event){.action = "console.logout",
                                          .object = who.token});
    }
}

int native_console_sign_in(struct doors_call *call,
                           const struct principal *parent, uint32_t scopes,
                           struct error *err)
{
    const struct auth_token_spec spec = {
        .name = TOKEN_NAME,
        .ttl_s = call->doors->conf->console_login_s,
        .scopes = scopes ? scopes : parent->scopes};
    char *secret cleanup(mem_free) = NULL;
    struct auth_key token = {.scopes = 0};
    char names[96];
    int64_t left_ms;
    int r = auth_token_mint(call->doors->auth, parent, &spec, &token, &secret,
                            err);

    if (r < 0)
        return r;
    revoke_previous(call);
    r = auth_check(call->doors->auth,
                   arena_printf(http_arena(call->http), "Bearer %s", secret),
                   http_source(call->http), &call->who, err);
    if (r == 0) {
        call->console = true;
        doors_identify(call);
        r = audit_note(call->doors->core->audit, &call->actor,
                       &(struct audit_event){
                           .action = "console.login",
                           .object = token.id,
                           .before = token.parent,
                           .detail = auth_scopes_format(token.scopes, names)},
                       err);
    }
    if (r == 0) {
        left_ms = token.expires_at_ms - clock_real_ms();
        doors_cookie_set(call, DOORS_COOKIE_TOKEN, secret,
                         (uint32_t)MAX(left_ms / 1000, 1));
    }
    explicit_bzero(secret, strlen(secret));
    return r;
}

int native_console_login(struct doors_call *call, struct error *err)
{
    json_t *json cleanup(json_unref) = NULL;
    struct login_body b = {0};
    struct principal parent = {.scopes = 0};
    uint32_t scopes = 0;
    int r = native_read(call, &native_console_login_body, &b, &json, err);

    if (r == 0 && b.scopes)
        r = native_keys_scopes(b.scopes, &scopes, err);
    if (r == 0)
        r = doors_cookie_need_origin(call, err);
    if (r == 0)
        r = doors_need_audit(call->doors, err);
    if (r == 0)
        r = identify(call, &b, &parent, err);
    if (r == 0)
        r = native_console_sign_in(call, &parent, scopes, err);
    return r < 0 ? r : native_me_respond(call, &call->who, err);
}

/* ---- signing out -------------------------------------------------------- */

int native_console_logout(struct doors_call *call, struct error *err)
{
    int r;

    if (!call->console) {
        (void)error_set(err, ERR_CONFLICT,
                        "this request was not signed in by the console");
        return error_hint(err, "Revoke a token with DELETE /api/tokens/ID.");
    }
    r = auth_token_revoke(call->doors->auth, &call->who, call->who.token, err);
    if (r < 0)
        return r;
    audit_later(call->doors->core->audit, &call->actor,
                &(struct audit_event){.action = "console.logout",
                                      .object = call->who.token});
    doors_cookie_set(call, DOORS_COOKIE_TOKEN, "", 0);
    http_respond_empty(call->http, 204);
    return 0;
}

/* ---- one-time links ----------------------------------------------------- */

struct link_view {
    const char *url;
    int64_t expires_at_ms;
};

static const struct api_field link_fields[] = {
    {"url", API_STRING, API_AT(struct link_view, url),
     .help = "open it in a browser; its secret is in the fragment, which "
             "browsers send to no server"},
    {"expires_at", API_TIME, API_AT(struct link_view, expires_at_ms)},
};
API_OUTPUT(native_console_link_made, "ConsoleLink", struct link_view,
           link_fields, "A link that signs a browser in, once.");

int native_console_link(struct doors_call *call, struct error *err)
{
    uint32_t ttl_s = call->doors->conf->console_link_s;
    char secret[AUTH_LINK_SIZE] = "";
    struct link_view view = {.expires_at_ms =
                                 clock_real_ms() + 1000 * (int64_t)ttl_s};
    int r = auth_link_make(call->doors->auth, &call->who, ttl_s, secret, err);

    if (r == 0)
        r = audit_note(call->doors->core->audit, &call->actor,
                       &(struct audit_event){.action = "console.link",
                                             .object = auth_shown(&call->who)},
                       err);
    if (r < 0)
        return r;
    view.url = arena_printf(http_arena(call->http), "%s/#/link/%s",
                            doors_url_base(call), secret);
    native_respond(call, 201, &native_console_link_made, &view);
    explicit_bzero(secret, sizeof(secret));
    return 0;
}
