/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signing a browser in with the issuer: OpenID Connect's authorization code
 * flow with PKCE, state and nonce; see auth.h. Runs in the daemon on a thread
 * that serves a request, which waits for the issuer no longer than OIDC_MS.
 *
 * A sign-in that was begun is kept in no table, which strangers could fill:
 * the browser has a ticket (random bits and a time) in a cookie, and state,
 * nonce and verifier are keyed hashes of it under a key of this process. So
 * a state is good with its own ticket only, and a restart ends all of them.
 * What came back is remembered, so that it is good once. Nothing of a code, a
 * token or the client's secret is logged or put into an error (I7).
 */
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth_int.h"
#include "auth/jwt_int.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/url.h"
#include "fetch/fetch.h"
#include "json/json.h"

#define OIDC_MS 8000 /* for one request to the issuer */
#define OIDC_ANSWER_MAX ((size_t)64 << 10)
#define OIDC_URL_MAX 1024u
#define OIDC_SECRET_MAX ((size_t)1024)
#define OIDC_CODE_MAX 4096u
#define OIDC_KNOWN_MS 3600000u /* endpoints that were looked up */
#define OIDC_RETRY_MS 2000u    /* after a lookup that failed */
#define OIDC_BUSY_MAX 8u       /* requests that wait for the issuer */
/* Sign-ins that came back. When there are more within AUTH_OIDC_TTL_S, the
 * oldest gives way: its code is spent at the issuer, too. */
#define OIDC_USED_MAX 4096u

struct endpoints {
    char authorize[OIDC_URL_MAX], token[OIDC_URL_MAX];
    bool secret_in_body; /* it takes the client's secret in no header */
};

struct auth_oidc {
    char *issuer, *client_id, *scopes;
    char *secret; /* NULL: a public client */
    uint32_t login_s;
    unsigned char key[HASH_SIZE];
    bool discovers;
    struct mutex lock; /* of what follows; never held during I/O */
    struct cond looked;
    struct endpoints at;
    bool known, looking;
    uint64_t until_ms; /* monotonic: look up again, if known or not */
    unsigned busy;
    unsigned char used[OIDC_USED_MAX][HASH_SIZE];
    size_t used_next;
};

/* ---- words -------------------------------------------------------------- */

/* In base64; url: of the alphabet for URLs and without padding. ret must hold
 * 4 * (len / 3 + 1) + 1 bytes. */
static void base64(const void *bytes, size_t len, bool url, char *ret)
{
    (void)EVP_EncodeBlock((unsigned char *)ret, bytes, (int)len);
    for (char *p = ret; url && *p; p++) {
        if (*p == '+')
            *p = '-';
        else if (*p == '/')
            *p = '_';
        else if (*p == '=')
            *p = '\0';
    }
}

static void derive(const struct auth_oidc *o, const char *what,
                   const char *ticket, unsigned char ret[HASH_SIZE])
{
    char text[AUTH_OIDC_TICKET_SIZE + 16];
    int len = snprintf(text, sizeof(text), "%s:%s", what, ticket);

    hash_hmac(o->key, sizeof(o->key), text, (size_t)len, ret);
}

static void derive_word(const struct auth_oidc *o, const char *what,
                        const char *ticket, char ret[AUTH_OIDC_WORD])
{
    unsigned char hash[HASH_SIZE];
    char text[4 * (HASH_SIZE / 3 + 1) + 1];

    derive(o, what, ticket, hash);
    base64(hash, sizeof(hash), true, text);
    memcpy(ret, text, AUTH_OIDC_WORD); /* with its end */
    explicit_bzero(hash, sizeof(hash));
    explicit_bzero(text, sizeof(text));
}

/* ---- the issuer's endpoints --------------------------------------------- */

/* It is sent in a header, and tells the browser where to go. */
static bool copy_url(char ret[OIDC_URL_MAX], const char *text)
{
    size_t len = text ? strlen(text) : 0;

    if (len == 0 || len >= OIDC_URL_MAX || !url_is_safe(text) ||
        strchr(text, '#'))
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~' || strchr("\"<>\\", text[i]))
            return false;
    memcpy(ret, text, len + 1);
    return true;
}

/* One request; the answer is a JSON object. Owned by caller.
 * ERR_UNAUTHENTICATED where the issuer refuses what was posted. */
static int ask(const struct fetch_request *rq, json_t **ret, struct error *err)
{
    struct buf text cleanup(buf_done) = {0};
    struct error ignored;
    long status = 0;
    int r = fetch(rq, &text, &status, err);

    if (r == 0 && status != 200)
        r = error_set(err,
                      rq->body && status / 100 == 4 ? ERR_UNAUTHENTICATED
                                                    : ERR_UNAVAILABLE,
                      "the answer has status %ld", status);
    if (r == 0 && (json_parse(text.data, text.len, ret, &ignored) < 0 ||
                   !json_is_object(*ret)))
        r = error_set(err, ERR_UNAVAILABLE, "the answer is no JSON object");
    if (text.len)
        explicit_bzero(text.data, text.len);
    return r;
}

/* Without such a list, the header is what every issuer takes. */
static bool lists(const json_t *list, const char *method)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));

        if (text && strcmp(text, method) == 0)
            return true;
    }
    return false;
}

static int look_up(const struct auth_oidc *o, struct endpoints *ret,
                   struct error *err)
{
    static const char path[] = "/.well-known/openid-configuration";
    char *url cleanup(mem_free) = xcalloc(1, strlen(o->issuer) + sizeof(path));
    json_t *doc cleanup(json_unref) = NULL;
    struct fetch_request rq = {
        .url = url, .answer_max = OIDC_ANSWER_MAX, .total_ms = OIDC_MS};
    size_t len = strlen(o->issuer);
    const json_t *methods;
    const char *issuer;

    while (len && o->issuer[len - 1] == '/')
        len--;
    memcpy(url, o->issuer, len);
    memcpy(url + len, path, sizeof(path));
    if (ask(&rq, &doc, err) < 0)
        return -(int)err->code;
    issuer = json_string_value(json_object_get(doc, "issuer"));
    if (!issuer || strcmp(issuer, o->issuer) != 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "the document there is of another issuer");
    memset(ret, 0, sizeof(*ret));
    if (!copy_url(ret->authorize, json_string_value(json_object_get(
                                      doc, "authorization_endpoint"))) ||
        !copy_url(ret->token,
                  json_string_value(json_object_get(doc, "token_endpoint"))))
        return error_set(err, ERR_UNAVAILABLE,
                         "the document there names no usable endpoints");
    methods = json_object_get(doc, "token_endpoint_auth_methods_supported");
    ret->secret_in_body = lists(methods, "client_secret_post") &&
                          !lists(methods, "client_secret_basic");
    return 0;
}

/* Lock held. May this request wait for the issuer? */
static int take_turn(struct auth_oidc *o, struct error *err)
{
    if (o->busy >= OIDC_BUSY_MAX) {
        (void)error_set(err, ERR_BUSY, "too many people sign in at once");
        return error_retry(err, 1);
    }
    o->busy++;
    return 0;
}

/* Lock held; let go of meanwhile. Looks the endpoints up where that is due,
 * once for all who wait. Old ones stay good while the issuer is away. */
static int refresh(struct auth_oidc *o, struct error *err)
{
    struct endpoints found;
    int r;

    while (o->looking)
        cond_wait(&o->looked, &o->lock); /* OIDC_MS at most */
    if (clock_mono_ms() < o->until_ms)
        return o->known ? 0
                        : error_set(err, ERR_UNAVAILABLE,
                                    "the issuer's endpoints are not known");
    o->looking = true;
    mutex_unlock(&o->lock);
    r = look_up(o, &found, err);
    if (r < 0)
        log_event(LOG_WARN, "oidc_discovery_failed", "error", err->message,
                  NULL);
    mutex_lock(&o->lock);
    o->looking = false;
    if (r == 0) {
        o->at = found;
        o->known = true;
    }
    o->until_ms = clock_mono_ms() + (r == 0 ? OIDC_KNOWN_MS : OIDC_RETRY_MS);
    cond_broadcast(&o->looked);
    return o->known ? 0 : r;
}

static int find_endpoints(struct auth_oidc *o, struct endpoints *ret,
                          struct error *err)
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&o->lock);
    int r = 0;

    if (o->discovers && clock_mono_ms() >= o->until_ms) {
        r = take_turn(o, err);
        if (r == 0) {
            r = refresh(o, err);
            o->busy--;
        }
    } else if (!o->known) {
        r = error_set(err, ERR_UNAVAILABLE,
                      "the issuer's endpoints are not known");
    }
    if (r == 0)
        *ret = o->at;
    return r;
}

/* ---- the start ---------------------------------------------------------- */

static void add_field(struct buf *out, const char *name, const char *value)
{
    if (out->len && !strchr("?&", out->data[out->len - 1]))
        buf_adds(out, "&");
    buf_addf(out, "%s=", name);
    url_escape(out, value, false);
}

/* "openid" and the configured ones, each once. */
static void add_scopes(struct buf *out, const char *scopes)
{
    struct buf text cleanup(buf_done) = {0};

    buf_adds(&text, "openid");
    while (*(scopes += strspn(scopes, " "))) {
        size_t len = strcspn(scopes, " ");

        if (len != 6 || memcmp(scopes, "openid", 6) != 0) {
            buf_adds(&text, " ");
            buf_add(&text, scopes, len);
        }
        scopes += len;
    }
    add_field(out, "scope", text.data);
}

int auth_oidc_start(struct auth *a, const char *redirect_uri,
                    char ret_ticket[AUTH_OIDC_TICKET_SIZE],
                    struct buf *ret_url, struct error *err)
{
    struct auth_oidc *o = a->oidc;
    unsigned char seed[16], hash[HASH_SIZE];
    char hex[2 * sizeof(seed) + 1], challenge[4 * (HASH_SIZE / 3 + 1) + 1];
    char state[AUTH_OIDC_WORD], nonce[AUTH_OIDC_WORD];
    char verifier[AUTH_OIDC_WORD];
    struct endpoints at;
    int r = find_endpoints(o, &at, err);

    if (r < 0)
        return r;
    ids_random(seed, sizeof(seed));
    (void)snprintf(ret_ticket, AUTH_OIDC_TICKET_SIZE, "%s.%lld",
                   ids_hex(seed, sizeof(seed), hex),
                   (long long)clock_real_ms() / 1000 + AUTH_OIDC_TTL_S);
    derive_word(o, "state", ret_ticket, state);
    derive_word(o, "nonce", ret_ticket, nonce);
    derive_word(o, "verifier", ret_ticket, verifier);
    hash_sha256(verifier, strlen(verifier), hash);
    base64(hash, sizeof(hash), true, challenge);
    buf_adds(ret_url, at.authorize);
    buf_adds(ret_url, strchr(at.authorize, '?') ? "&" : "?");
    add_field(ret_url, "response_type", "code");
    add_field(ret_url, "client_id", o->client_id);
    add_field(ret_url, "redirect_uri", redirect_uri);
    add_scopes(ret_url, o->scopes);
    add_field(ret_url, "state", state);
    add_field(ret_url, "nonce", nonce);
    add_field(ret_url, "code_challenge", challenge);
    add_field(ret_url, "code_challenge_method", "S256");
    explicit_bzero(verifier, sizeof(verifier));
    return 0;
}

/* ---- the return --------------------------------------------------------- */

/* 32 hex digits, a dot, seconds; not over yet. */
static bool is_live(const char *ticket, int64_t now_ms)
{
    const char *end = ticket + 33;
    size_t digits;

    if (strspn(ticket, "0123456789abcdef") != 32 || ticket[32] != '.')
        return false;
    digits = strspn(end, "0123456789");
    return digits >= 1 && digits <= 12 && end[digits] == '\0' &&
           now_ms < 1000 * strtoll(end, NULL, 10);
}

/* False: it came back before. */
static bool use_once(struct auth_oidc *o, const unsigned char hash[HASH_SIZE])
{
    struct mutex *held cleanup(mutex_release) = mutex_hold(&o->lock);

    for (size_t i = 0; i < OIDC_USED_MAX; i++)
        if (memcmp(o->used[i], hash, HASH_SIZE) == 0)
            return false;
    memcpy(o->used[o->used_next], hash, HASH_SIZE);
    o->used_next = (o->used_next + 1) % OIDC_USED_MAX;
    return true;
}

int auth_oidc_take(struct auth *a, const char *ticket, const char *state,
                   const char *source, struct auth_oidc_login *ret,
                   bool *ret_slowed, struct error *err)
{
    struct auth_oidc *o = a->oidc;
    char right[AUTH_OIDC_WORD];
    unsigned char hash[HASH_SIZE];
    const char *why = "the browser has begun no sign-in";

    *ret_slowed = false;
    if (ticket && state && strlen(ticket) < AUTH_OIDC_TICKET_SIZE) {
        derive_word(o, "state", ticket, right);
        derive(o, "used", ticket, hash);
        if (strlen(state) != sizeof(right) - 1 ||
            !hash_equal(state, right, sizeof(right) - 1))
            why = "the state is of another sign-in";
        else if (!is_live(ticket, clock_real_ms()))
            why = "the sign-in took too long";
        else if (!use_once(o, hash))
            why = "the state was used before";
        else
            why = NULL;
    }
    if (why) {
        auth_refuse_guess(a, source, ret_slowed);
        return error_set(err, ERR_UNAUTHENTICATED, "%s", why);
    }
    derive_word(o, "nonce", ticket, ret->nonce);
    derive_word(o, "verifier", ticket, ret->verifier);
    return 0;
}

/* "Authorization: Basic …" of the escaped id and secret; owned by caller. */
static char *basic_header(const struct auth_oidc *o)
{
    static const char name[] = "Authorization: Basic ";
    struct buf pair cleanup(buf_done) = {0};
    size_t size;
    char *header;

    url_escape(&pair, o->client_id, false);
    buf_adds(&pair, ":");
    url_escape(&pair, o->secret, false);
    size = sizeof(name) + 4 * (pair.len / 3 + 1);
    header = xcalloc(1, size);
    memcpy(header, name, sizeof(name));
    base64(pair.data, pair.len, false, header + sizeof(name) - 1);
    explicit_bzero(pair.data, pair.len);
    return header;
}

static void forget_text(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
}

/* The ID token for a code; doc: owned by caller, the token borrowed of it. */
static int redeem(const struct auth_oidc *o, const struct endpoints *at,
                  const struct auth_oidc_login *login, const char *code,
                  const char *redirect_uri, json_t **ret_doc,
                  const char **ret_token, struct error *err)
{
    char *basic cleanup(forget_text) =
        o->secret && !at->secret_in_body ? basic_header(o) : NULL;
    const char *headers[] = {"Content-Type: application/x-www-form-urlencoded",
                             "Accept: application/json", basic, NULL};
    struct buf body cleanup(buf_done) = {0};
    struct fetch_request rq = {.url = at->token,
                               .headers = headers,
                               .answer_max = OIDC_ANSWER_MAX,
                               .total_ms = OIDC_MS};
    int r;

    add_field(&body, "grant_type", "authorization_code");
    add_field(&body, "code", code);
    add_field(&body, "redirect_uri", redirect_uri);
    add_field(&body, "code_verifier", login->verifier);
    if (!basic)
        add_field(&body, "client_id", o->client_id);
    if (o->secret && !basic)
        add_field(&body, "client_secret", o->secret);
    rq.body = body.data;
    rq.body_len = body.len;
    r = ask(&rq, ret_doc, err);
    explicit_bzero(body.data, body.len);
    if (r < 0)
        return r;
    *ret_token = json_string_value(json_object_get(*ret_doc, "id_token"));
    return *ret_token
               ? 0
               : error_set(err, ERR_UNAVAILABLE, "the answer has no id_token");
}

int auth_oidc_finish(struct auth *a, const struct auth_oidc_login *login,
                     const char *code, const char *redirect_uri,
                     struct principal *ret, struct error *err)
{
    struct auth_oidc *o = a->oidc;
    json_t *doc cleanup(json_unref) = NULL;
    const char *token = NULL;
    struct endpoints at = {0};
    int r;

    if (!code[0] || strlen(code) > OIDC_CODE_MAX)
        return error_set(err, ERR_UNAUTHENTICATED,
                         "the code is empty or too long");
    r = find_endpoints(o, &at, err);
    if (r < 0)
        return r;
    mutex_lock(&o->lock);
    r = take_turn(o, err);
    mutex_unlock(&o->lock);
    if (r < 0)
        return r;
    r = redeem(o, &at, login, code, redirect_uri, &doc, &token, err);
    if (r == 0)
        r = auth_jwt_check_id(a->jwt, token, o->client_id, login->nonce, ret,
                              err);
    mutex_lock(&o->lock);
    o->busy--;
    mutex_unlock(&o->lock);
    if (r < 0)
        return r;
    /* The token proves who signed in just now; how long that holds is ours. */
    ret->expires_at_ms = clock_real_ms() + 1000 * (int64_t)o->login_s;
    auth_subject_note(a, ret);
    return 0;
}

bool auth_oidc_is_issuer(const struct auth *a, const char *issuer)
{
    return a->oidc && strcmp(a->oidc->issuer, issuer) == 0;
}

/* ---- opening and closing ------------------------------------------------ */

static int read_secret(struct auth_oidc *o, const char *file,
                       struct error *err)
{
    size_t len = 0;
    int r;

    if (!file || !file[0])
        return 0;
    r = fd_read_file(AT_FDCWD, file, OIDC_SECRET_MAX, &o->secret, &len);
    if (r < 0)
        return error_errno(err, ERR_INVALID, -r, "cannot read %s", file);
    while (len && strchr("\r\n", o->secret[len - 1]))
        o->secret[--len] = '\0';
    if (len == 0 || strlen(o->secret) != len)
        return error_set(err, ERR_INVALID, "%s holds no secret", file);
    return 0;
}

int auth_oidc_open(struct auth *a, const struct auth_oidc_settings *s,
                   struct error *err)
{
    struct auth_oidc *o;
    int r;

    if (!s->client_id || !s->client_id[0])
        return 0;
    if (!a->jwt)
        return error_set(err, ERR_INVALID, "oidc_client_id needs jwt_issuer");
    r = fetch_start(err);
    if (r < 0)
        return r;
    o = xcalloc(1, sizeof(*o));
    mutex_init(&o->lock);
    cond_init(&o->looked);
    ids_random(o->key, sizeof(o->key));
    o->issuer = xstrdup(s->issuer);
    o->client_id = xstrdup(s->client_id);
    o->scopes = xstrdup(s->scopes);
    o->login_s = s->login_s;
    o->discovers = !s->authorization_url[0];
    a->oidc = o;
    r = read_secret(o, s->client_secret_file, err);
    if (r == 0 && !o->discovers) {
        o->known = copy_url(o->at.authorize, s->authorization_url) &&
                   copy_url(o->at.token, s->token_url);
        if (!o->known)
            r = error_set(err, ERR_INVALID,
                          "oidc_authorization_url or oidc_token_url is no "
                          "address that can be used");
    }
    return r;
}

bool auth_oidc_offered(const struct auth *a)
{
    return a->oidc != NULL;
}

void auth_oidc_free(struct auth_oidc *o)
{
    if (!o)
        return;
    forget_text(&o->secret);
    free(o->issuer);
    free(o->client_id);
    free(o->scopes);
    cond_done(&o->looked);
    mutex_done(&o->lock);
    explicit_bzero(o->key, sizeof(o->key));
    free(o);
    fetch_stop();
}
