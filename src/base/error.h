/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One way to fail. A function that can fail for more than one reason returns
 * 0 or a negative code and fills a caller's struct error with the code, the
 * errno behind it (or 0) and a sentence fit for the client. Whose fault it is
 * is part of the code: the first group is the client's, the second a limit,
 * the third the guest's or ours. doors/ and http/ map codes to statuses.
 *
 * Functions of base/ itself return a negative errno and take no struct error.
 */
#ifndef GLOVEBOX_BASE_ERROR_H
#define GLOVEBOX_BASE_ERROR_H

#include <stdint.h>

enum error_code {
    ERR_NONE = 0,
    /* the client's fault */
    ERR_INVALID,         /* malformed or out of range; 400 */
    ERR_UNAUTHENTICATED, /* no or unknown credential; 401 */
    ERR_FORBIDDEN,       /* known, but not allowed; 403 */
    ERR_NOT_FOUND,       /* unknown or foreign, indistinguishable; 404 */
    ERR_METHOD,          /* known path, wrong method; 405 */
    ERR_CONFLICT,        /* the state does not allow it; 409 */
    ERR_EXPIRED,         /* it was there, and its time is over; 410 */
    ERR_PRECONDITION,    /* If-Match or If-None-Match says no; 412 */
    ERR_TOO_LARGE,       /* over a size limit; 413 */
    ERR_RANGE,           /* unsatisfiable byte range; 416 */
    ERR_LOCKED,          /* someone else holds a lock on it; 423 */
    ERR_APPROVAL,        /* waits for a person's approval; 202 */
    ERR_UNSUPPORTED,     /* the runtime or pool has not what it takes; 400 */
    /* a limit */
    ERR_LIMIT, /* a quota or cap of the tenant or session; 429 */
    ERR_BUSY,  /* the machine is full now; 429 with a retry hint */
    ERR_SPACE, /* the session's storage, a quota or the disk is full; 507 */
    /* the guest's or ours */
    ERR_GUEST,       /* the session misbehaved; 502 */
    ERR_UNAVAILABLE, /* stopping, or a part of ours is gone; 503 */
    ERR_ISOLATION,   /* a wall could not be built; 503 */
    ERR_TIMEOUT,     /* a deadline of ours passed; 504 */
    ERR_ELSEWHERE,   /* it is on another node (struct error's node), which the
                        spine forwards the request to; 503 where it cannot */
    ERR_CORRUPT,     /* stored bytes are not what they were; 500 */
    ERR_INTERNAL,    /* a defect or a failed system call; 500 */
    ERR_MAX
};

struct error {
    enum error_code code;
    int errnum;        /* errno behind it, or 0 */
    int retry_after_s; /* for ERR_LIMIT and ERR_BUSY, or 0 */
    char message[320]; /* what happened; a sentence */
    char hint[320];    /* what to do about it; may be empty */
    /* Of a quota: which, how much, how much of it is used, until when. */
    const char *quota; /* static, or NULL */
    uint64_t quota_most, quota_used;
    int64_t quota_until_ms; /* 0: not known */
    char approval[64];      /* ERR_APPROVAL: apr_… */
    char node[64];          /* ERR_ELSEWHERE: node_… */
};

/* Each of these returns -code, so that failing is one statement. */
int error_set(struct error *err, enum error_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* As above, with ": strerror(errnum)" appended and errnum kept. */
int error_errno(struct error *err, enum error_code code, int errnum,
                const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Prefixes the message with context; returns -err->code. */
int error_wrap(struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds the hint; returns -err->code. */
int error_hint(struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds a retry hint in seconds; returns -err->code. */
int error_retry(struct error *err, int seconds);

/* The stable name clients see, for example "not_found". */
const char *error_code_name(enum error_code code);

#endif
