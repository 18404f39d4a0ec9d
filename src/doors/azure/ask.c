/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every call of the data plane says: its version, the pool in its path,
 * and the session by the client's own identifier, which is made by whatever
 * call names it first. Runs on a worker of the daemon.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "doors/azure/azure.h"

void azure_ask_done(struct azure_ask *ask)
{
    pool_info_done(&ask->pool);
    session_info_done(&ask->session);
}

int azure_ask_begin(struct doors_call *call, struct azure_ask *ret,
                    struct error *err)
{
    const char *version = NULL;
    int r = http_query(call->http, "api-version", &version, err);

    if (r < 0)
        return r;
    ret->version = azure_path_version(version);
    if (ret->version == AZURE_UNKNOWN) /* the service's own answer to it */
        return error_set(err, ERR_UNAUTHENTICATED,
                         "the api-version is not known here");
    r = session_pool_get(call->doors->sessions, &call->actor,
                         call->place[AZURE_POOL], &ret->pool, err);
    if (r == -ERR_NOT_FOUND)
        azure_refuse_as(call, NULL, "sessionPool");
    return r;
}

int azure_ask_identifier(struct doors_call *call, const char *fallback,
                         struct azure_ask *ask, struct error *err)
{
    const char *text = NULL;
    int r = http_query(call->http, "identifier", &text, err);

    azure_refuse_as(call, NULL, "identifier");
    if (r < 0)
        return r;
    if (!text || !text[0])
        text = call->place[AZURE_IDENTIFIER];
    if (!text || !text[0])
        text = fallback;
    if (!text || !text[0])
        return error_set(err, ERR_INVALID,
                         "the parameter 'identifier' is missing");
    if (!azure_path_identifier(text))
        return error_set(err, ERR_INVALID,
                         "the identifier must be %u to %u printable ASCII "
                         "characters without spaces",
                         AZURE_IDENTIFIER_MIN, AZURE_IDENTIFIER_MAX);
    call->own = NULL;
    ask->identifier = text;
    return 0;
}

/* One whose end is final makes place for a new one: the service forgets
 * silently, and so do its clients. */
int azure_ask_session(struct doors_call *call, struct azure_ask *ask,
                      struct error *err)
{
    struct session_spec spec = {.pool = ask->pool.name,
                                .identifier = ask->identifier};
    struct sessions *sessions = call->doors->sessions;
    uint64_t started = clock_mono_ms();
    bool made;
    int r = session_ensure(sessions, &call->actor, &spec, &made, &ask->session,
                           err);

    if (r == 0 && ask->session.final) {
        r = session_delete(sessions, &call->actor, ask->session.id, err);
        session_info_done(&ask->session);
        memset(&ask->session, 0, sizeof(ask->session));
        if (r == 0 || r == -ERR_NOT_FOUND)
            r = session_ensure(sessions, &call->actor, &spec, &made,
                               &ask->session, err);
    }
    ask->allocated_ms = clock_mono_ms() - started;
    return r;
}

int azure_ask(struct doors_call *call, struct azure_ask *ret,
              struct error *err)
{
    int r = azure_ask_begin(call, ret, err);

    if (r == 0)
        r = azure_ask_identifier(call, NULL, ret, err);
    if (r == 0)
        r = azure_ask_session(call, ret, err);
    return r;
}

int azure_ask_existing(struct doors_call *call, struct azure_ask *ask,
                       struct error *err)
{
    int r =
        session_identify(call->doors->sessions, &call->actor, ask->pool.name,
                         ask->identifier, &ask->session, err);

    if (r == 0 && ask->session.final)
        return error_set(err, ERR_NOT_FOUND, "no such session");
    return r;
}

int azure_ask_since(struct doors_call *call, const struct azure_ask *ask,
                    enum azure_version since, struct error *err)
{
    if (ask->version == AZURE_NONE || ask->version >= since)
        return 0;
    azure_refuse_as(call, AZURE_UNSUPPORTED, "api-version");
    return error_set(err, ERR_INVALID,
                     "this call is not supported in this API version");
}
