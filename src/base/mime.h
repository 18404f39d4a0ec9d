/* SPDX-License-Identifier: Apache-2.0 */
/* The media type of a file by the ending of its name. Pure. */
#ifndef GLOVEBOX_BASE_MIME_H
#define GLOVEBOX_BASE_MIME_H

#define MIME_UNKNOWN "application/octet-stream"

/* Never looks inside the file; MIME_UNKNOWN for an ending it does not know. */
const char *mime_of_path(const char *path);

#endif
