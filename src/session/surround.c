/* SPDX-License-Identifier: Apache-2.0 */
/* What code inside a box finds around it. */
#include "base/error.h"
#include "session/session_int.h"

int session_box_environment(struct box *b, const char *text, size_t len,
                            struct error *err)
{
    (void)b;
    (void)text;
    (void)len;
    return error_set(err, ERR_UNAVAILABLE, "not there yet");
}

int session_box_ca(struct box *b, const char *pem, size_t len,
                   struct error *err)
{
    (void)b;
    (void)pem;
    (void)len;
    return error_set(err, ERR_UNAVAILABLE, "not there yet");
}
