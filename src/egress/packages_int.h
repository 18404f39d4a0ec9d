/* SPDX-License-Identifier: Apache-2.0 */
/* For packages.c, packages_*.c and fetch.c only: the index a session's pip
 * installs from. */
#ifndef GLOVEBOX_EGRESS_PACKAGES_INT_H
#define GLOVEBOX_EGRESS_PACKAGES_INT_H

#include "base/hash.h"
#include "egress/egress_int.h"

#define PACKAGE_NAME_MAX 128u
#define PACKAGE_VERSION_MAX 64u
#define PACKAGE_FILE_MAX 200u  /* bytes of a file's name */
#define PACKAGE_FILES_MAX 512u /* of one project; the newest, in its order */
#define PACKAGE_URL_MAX 1024u
#define PACKAGE_PAGE_MAX (32u << 20)
#define PACKAGE_BYTES_MAX (1u << 30)

struct package_file {
    char name[PACKAGE_FILE_MAX];
    char version[PACKAGE_VERSION_MAX];
    char sha256[HASH_HEX]; /* "" : not known yet */
    char requires[128];    /* data-requires-python, still escaped; or "" */
    char *url;             /* owned; NULL: in the folder of wheels */
    bool allowed;
};

/* ---- packages_name.c: pure ---------------------------------------------- */

/* As PEP 503 says; false: that is no name. */
bool egress_packages_normal(struct span name, char ret[PACKAGE_NAME_MAX]);
/* Project and version out of a wheel's or source archive's name. */
bool egress_packages_file(const char *file, char ret_project[PACKAGE_NAME_MAX],
                          char ret_version[PACKAGE_VERSION_MAX]);

/* ---- packages_page.c: pure ---------------------------------------------- */

/* The links of a simple index's page (PEP 503) that have a sha256 and are
 * files of that project. base: the page's own URL. ret: owned by caller, at
 * most PACKAGE_FILES_MAX. */
size_t egress_packages_page(const char *html, size_t len, const char *base,
                            const char *project, struct package_file **ret);
void egress_packages_files_free(struct package_file *files, size_t count);

/* ---- fetch.c: one GET for the operator's index -------------------------- */

struct fetch;

/* index: its host is the operator's choice and not judged; another one is,
 * as a session's would be. out: a descriptor to write to, or -1: kept in
 * memory. on_done: status 200 or an HTTP status, 0: why says it. */
struct fetch *egress_fetch_start(struct egress *e, const char *url,
                                 const char *index, int out, uint64_t most,
                                 void (*on_done)(void *ctx, unsigned status,
                                                 const char *why),
                                 void *ctx);
const struct buf *egress_fetch_body(const struct fetch *f);
const char *egress_fetch_url(const struct fetch *f); /* after redirects */
/* Moved on since the last call? Also gives up what takes too long. */
bool egress_fetch_tick(struct fetch *f, uint64_t now_ms);
void egress_fetch_free(struct fetch *f); /* at any time; accepts NULL */

#endif
