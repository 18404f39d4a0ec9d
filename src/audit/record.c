/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns an event into its stored form: bounded text on one line (O1); see
 * audit_int.h. Runs in the daemon on the thread that performed the action.
 */
#include <stdio.h>
#include <string.h>

#include "audit/audit_int.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"

/* Would it break the line, move the cursor or reorder what is shown? */
static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) ||
           (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

/* How many characters at its start are of the plain kind that most are. */
static size_t plain_run(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len && text[n] >= 0x20 && text[n] < 0x7f)
        n++;
    return n;
}

char *audit_record_text(const char *text, size_t max)
{
    struct buf out;
    size_t left = text ? strnlen(text, max + 1) : 0;

    buf_init(&out);
    buf_reserve(&out, left);
    while (left > 0) {
        size_t run = MIN(plain_run(text, left), max - out.len);
        size_t len, take;
        bool plain;

        buf_add(&out, text, run);
        text += run;
        left -= run;
        if (left == 0 || out.len == max)
            break;
        len = utf8_length(text, left);
        plain = len && !is_control(utf8_decode(text, len));
        take = len ? len : 1;
        if (out.len + (plain ? take : 4 * take) > max)
            break;
        if (plain)
            buf_add(&out, text, take);
        for (size_t i = 0; i < take && !plain; i++)
            buf_addf(&out, "\\x%02x", (unsigned char)text[i]);
        text += take;
        left -= take;
    }
    buf_add(&out, "", 1);
    return buf_take(&out, NULL);
}

void audit_record_init(struct audit_record *r, const struct actor *who,
                       const struct audit_event *event)
{
    static const struct actor service = {.tenant = "", .key = "glovebox"};
    const struct actor *by = who ? who : &service;
    const char *const fields[AUDIT_FIELDS] = {
        [AUDIT_TENANT] = by->tenant,
        [AUDIT_ACTOR] = by->key,
        [AUDIT_ACTION] = event->action,
        [AUDIT_WORKSPACE] = event->workspace,
        [AUDIT_OBJECT] = event->object,
        [AUDIT_PATH] = event->path,
        [AUDIT_BEFORE] = event->before,
        [AUDIT_AFTER] = event->after,
        [AUDIT_RESULT] = event->result ? event->result : "ok",
        [AUDIT_DETAIL] = event->detail,
        [AUDIT_REQUEST] = by->request,
        [AUDIT_SOURCE] = by->source,
        [AUDIT_TOKEN] = by->token,
    };

    r->at_ms = clock_real_ms();
    for (size_t i = 0; i < AUDIT_FIELDS; i++)
        r->fields[i] = audit_record_text(
            fields[i], i == AUDIT_DETAIL ? AUDIT_DETAIL_MAX : AUDIT_TEXT_MAX);
}

void audit_record_done(struct audit_record *r)
{
    for (size_t i = 0; i < AUDIT_FIELDS; i++)
        free(take_ptr(r->fields[i]));
}

size_t audit_record_bytes(const struct audit_record *r)
{
    size_t bytes = 0;

    for (size_t i = 0; i < AUDIT_FIELDS; i++)
        bytes += strlen(r->fields[i]) + 1;
    return bytes;
}
