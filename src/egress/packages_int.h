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

struct fetch;

struct package_file {
    char name[PACKAGE_FILE_MAX];
    char version[PACKAGE_VERSION_MAX];
    char sha256[HASH_HEX]; /* "" : not known yet */
    char requires[128];    /* data-requires-python, still escaped; or "" */
    char *url;             /* owned; NULL: in the folder of wheels */
    bool allowed;
};

/* ---- packages.c: one request, in steps ---------------------------------- */

#define PACKAGE_ASKED_AT_ONCE 8u

enum package_phase {
    JOB_PAGE,   /* the index's page is on its way */
    JOB_HASH,   /* files of the folder are read for their hashes */
    JOB_ASK,    /* waits for gloveboxd's decision */
    JOB_FETCH,  /* the file is on its way */
    JOB_VERIFY, /* it is read for its hash */
    JOB_SEND,   /* it goes to the session */
};

struct package_question {
    uint64_t id; /* 0: free */
    size_t file;
};

struct package_job {
    enum package_phase phase;
    bool listing;
    char project[PACKAGE_NAME_MAX];
    char wanted[PACKAGE_FILE_MAX]; /* one file of it, unless listing */
    struct package_file *files;
    size_t count, at; /* at: the next to hash, or to ask about */
    struct package_question asked[PACKAGE_ASKED_AT_ONCE];
    char why[EGRESS_TEXT_MAX]; /* of the last no */
    struct fetch *page, *body;
    int fd; /* of the file that is read */
    struct hash_stream *hash;
    uint64_t left;
    bool told; /* a fetch ended: page_status and page_why */
    unsigned status;
    char fetch_why[EGRESS_TEXT_MAX];
};

/* Ends it with that; true. */
bool egress_packages_fail(struct conn *c, unsigned status, const char *why);

/* Steps return whether there may be another one at once. */

/* ---- packages_folder.c -------------------------------------------------- */

int egress_packages_open(const struct conn *c, const char *name);
void egress_packages_scan(struct conn *c);
/* Some of the open file. 1: all of it is hashed, 0: not yet, -1: failed. */
int egress_packages_hash(struct package_job *j, char ret[HASH_HEX]);
bool egress_packages_step_hash(struct conn *c);

/* ---- packages_index.c --------------------------------------------------- */

void egress_packages_ask_index(struct conn *c);
bool egress_packages_step_page(struct conn *c);
/* on_done of both fetches; ctx: the connection. */
void egress_packages_fetched(void *ctx, unsigned status, const char *why);

/* ---- packages_send.c ---------------------------------------------------- */

void egress_packages_list(struct conn *c);
bool egress_packages_begin_file(struct conn *c);
bool egress_packages_step_fetch(struct conn *c);
bool egress_packages_step_verify(struct conn *c);
bool egress_packages_step_send(struct conn *c);

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

/* The last PACKAGE_FILES_MAX of them: indexes list what is new at the end. */
struct package_list {
    struct package_file *files;
    size_t count, next;
};
void egress_packages_keep(struct package_list *l, struct package_file one);
/* A link, seen from the page it is on; owned by caller, NULL: none. */
char *egress_packages_resolve(const char *base, const char *link);

/* ---- packages_json.c: pure ---------------------------------------------- */

/* The same of the page in JSON (PEP 691). What is no JSON has no files. */
size_t egress_packages_json(const char *json, size_t len, const char *base,
                            const char *project, struct package_file **ret);

/* ---- fetch.c: one GET for the operator's index -------------------------- */

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
bool egress_fetch_json(const struct fetch *f);       /* it says that it is */
/* Moved on since the last call? Also gives up what takes too long. */
bool egress_fetch_tick(struct fetch *f, uint64_t now_ms);
void egress_fetch_free(struct fetch *f); /* at any time; accepts NULL */

#endif
