/* SPDX-License-Identifier: Apache-2.0 */
/* The error object; see error.h. Runs in every process; does no I/O. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const code_names[ERR_MAX] = {
    [ERR_NONE] = "none",
    [ERR_INVALID] = "invalid_request",
    [ERR_UNAUTHENTICATED] = "unauthenticated",
    [ERR_FORBIDDEN] = "forbidden",
    [ERR_NOT_FOUND] = "not_found",
    [ERR_METHOD] = "method_not_allowed",
    [ERR_CONFLICT] = "conflict",
    [ERR_EXPIRED] = "expired",
    [ERR_PRECONDITION] = "precondition_failed",
    [ERR_TOO_LARGE] = "too_large",
    [ERR_RANGE] = "range_not_satisfiable",
    [ERR_LOCKED] = "locked",
    [ERR_APPROVAL] = "pending_approval",
    [ERR_UNSUPPORTED] = "unsupported",
    [ERR_LIMIT] = "limit_reached",
    [ERR_BUSY] = "overloaded",
    [ERR_SPACE] = "storage_full",
    [ERR_GUEST] = "session_misbehaved",
    [ERR_UNAVAILABLE] = "unavailable",
    [ERR_ISOLATION] = "isolation_failed",
    [ERR_TIMEOUT] = "deadline_passed",
    [ERR_ELSEWHERE] = "unavailable",
    [ERR_CORRUPT] = "corrupt",
    [ERR_INTERNAL] = "internal",
};

/* Callers need not have cleared it. */
static void begin(struct error *err, enum error_code code, int errnum)
{
    err->code = code;
    err->errnum = errnum;
    err->retry_after_s = 0;
    err->hint[0] = '\0';
    err->quota = NULL;
    err->quota_most = err->quota_used = 0;
    err->quota_until_ms = 0;
    err->approval[0] = '\0';
    err->node[0] = '\0';
}

int error_set(struct error *err, enum error_code code, const char *fmt, ...)
{
    va_list ap;

    begin(err, code, 0);
    va_start(ap, fmt);
    (void)vsnprintf(err->message, sizeof(err->message), fmt, ap); /* may cut */
    va_end(ap);
    return -(int)code;
}

int error_errno(struct error *err, enum error_code code, int errnum,
                const char *fmt, ...)
{
    va_list ap;
    size_t used;

    begin(err, code, errnum);
    va_start(ap, fmt);
    (void)vsnprintf(err->message, sizeof(err->message), fmt, ap); /* may cut */
    va_end(ap);
    used = strlen(err->message);
    (void)snprintf(err->message + used, sizeof(err->message) - used, ": %s",
                   strerrordesc_np(errnum) ? strerrordesc_np(errnum)
                                           : "unknown error");
    return -(int)code;
}

int error_wrap(struct error *err, const char *fmt, ...)
{
    char inner[sizeof(err->message)];
    va_list ap;
    size_t used;

    memcpy(inner, err->message, sizeof(inner));
    va_start(ap, fmt);
    (void)vsnprintf(err->message, sizeof(err->message), fmt, ap); /* may cut */
    va_end(ap);
    used = strlen(err->message);
    (void)snprintf(err->message + used, sizeof(err->message) - used, ": %s",
                   inner);
    return -(int)err->code;
}

int error_hint(struct error *err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(err->hint, sizeof(err->hint), fmt, ap); /* may cut */
    va_end(ap);
    return -(int)err->code;
}

int error_retry(struct error *err, int seconds)
{
    err->retry_after_s = seconds;
    return -(int)err->code;
}

const char *error_code_name(enum error_code code)
{
    if ((unsigned)code >= ERR_MAX)
        return "internal";
    return code_names[code];
}
