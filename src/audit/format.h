/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events as others read them: JSON, OpenTelemetry's logs in JSON, and syslog
 * (RFC 5424). Pure functions, shared by the daemon and the command line.
 */
#ifndef GLOVEBOX_AUDIT_FORMAT_H
#define GLOVEBOX_AUDIT_FORMAT_H

#include <stddef.h>

#include "audit/audit.h"
#include "base/buf.h"

struct api_resource;

/* An event as JSON; its object is a struct audit_line. */
extern const struct api_resource audit_event_resource;
/* One line of an export, its end included: all that checking it takes. */
void audit_format_jsonl(struct buf *out, const struct audit_line *l);
/* An ExportLogsServiceRequest on one line, without its end. */
void audit_format_otlp(struct buf *out, const struct audit_line *lines,
                       size_t count);
/* host: "-" when it is not known. Without a line's end. */
void audit_format_syslog(struct buf *out, const struct audit_line *l,
                         const char *host);

#endif
