/* SPDX-License-Identifier: Apache-2.0 */
/* What a session's code may reach. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "session/session_int.h"

static const char *const names[] = {"none", "allowlist", "open"};

const char *session_egress_name(enum session_egress mode)
{
    return names[mode];
}

enum session_egress session_network_mode(const struct session *se)
{
    (void)se;
    return SESSION_EGRESS_NONE;
}
