/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of service/ only: the daemon's parts and the steps that
 * start them. Each step returns 0 or a negative error code. */
#ifndef GLOVEBOX_SERVICE_SERVICE_INT_H
#define GLOVEBOX_SERVICE_SERVICE_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/priv.h"
#include "core/core.h"
#include "doors/doors.h"
#include "execution/execution.h"
#include "http/http.h"
#include "posture/posture.h"
#include "service/service.h"
#include "session/session.h"

#define SERVICE_PIN_MAX 80

/* Files in the data directory that say where the service is. Those of a
 * service that root started on the default data directory are also in
 * SERVICE_RUN_DIR, for users who may not read the data directory. */
enum service_public {
    SERVICE_ENDPOINT,
    SERVICE_PIN,
    SERVICE_PUBLIC_FILES
};
#define SERVICE_RUN_DIR "/run/glovebox"
extern const char *const service_public_names[SERVICE_PUBLIC_FILES];

struct service {
    const struct conf *conf;
    struct priv_user user;
    bool drop; /* there is an account to become */
    int data_fd, lock_fd, signal_fd;
    int public_fds[SERVICE_PUBLIC_FILES]; /* see service_rights_publish */
    int uids_fd;                          /* lock on the window of host uids */
    int defs_fd;                          /* see service_rights_definitions */
    char *defs_path;                      /* replaces runtime_defs; or NULL */
    uint32_t model_uid;  /* of glovebox-model; 0: the service's */
    uint32_t egress_uid; /* the proxy's account; 0: the service's */
    uint32_t accepted;   /* WARDEN_WALL_* */
    char *tls_certificate, *tls_key; /* PEM, until HTTP has started; or NULL */
    char tls_pin[SERVICE_PIN_MAX];   /* of our public key; "": no TLS */
    struct warden_link *warden;
    struct disk *disk;
    struct auth *auth;
    struct core core;
    bool fetches;               /* fetch_start was called for buckets */
    struct egress_link *egress; /* NULL: no proxy */
    struct workspaces *workspaces;
    struct mirrors *mirrors;
    struct sessions *sessions;
    struct executions *executions;
    struct search *search;
    struct model_link *model_link; /* NULL: only the built-in model works */
    struct agents *agents;
    struct chat *chat;
    struct models *models;
    struct posture posture;
    struct http_server *http;
    struct http_server *node_http; /* for other nodes; or NULL */
    struct doors doors;
};

/* rights.c, in the order they are taken */
int service_rights_walls(struct service *s, struct error *err);
int service_rights_user(struct service *s, struct error *err);
int service_rights_data(struct service *s, struct error *err);
/* Lowers max_sessions to what the limit of open files has room for. */
int service_rights_descriptors(struct conf *conf, struct error *err);
/* Opens the files of SERVICE_RUN_DIR, empty, while there is the right to. The
 * folder stays root's; the files belong to the service's account, which can
 * fill and empty them but not replace them. A failure is logged. */
void service_rights_publish(struct service *s);
/* Opens the folder of runtime definitions, which a clone in a home directory
 * hides from the service's account. */
void service_rights_definitions(struct service *s);
int service_rights_drop(struct service *s, struct error *err);
/* If the account cannot reach the folder by its path, lets conf name the open
 * descriptor instead. */
void service_rights_definitions_keep(struct service *s, struct conf *conf);

/* setup.c: starts the warden, and the proxy. A service without the proxy still
 * serves. */
int service_setup_warden(struct service *s, struct error *err);
int service_setup_egress(struct service *s, struct error *err);
/* Starts glovebox-model. A service without it still serves. */
void service_setup_model(struct service *s);

/* nodes.c: this node among several; nothing without node_listen. */
int service_nodes_open(struct service *s, struct error *err);
/* Once sessions can be used: registers the node. */
int service_nodes_start(struct service *s, struct error *err);
/* Before what they change is closed. */
void service_nodes_unlisten(struct service *s);
/* Serves requests of other nodes. */
int service_nodes_listen(struct service *s,
                         const struct http_settings *settings,
                         struct error *err);

/* tls.c */
/* Reads the operator's certificate and key, with the rights of the user who
 * started the service. */
int service_tls_read(struct service *s, struct error *err);
/* With `tls: auto`: creates what is missing in the data directory and reads
 * it, as the service's account. */
int service_tls_auto(struct service *s, struct error *err);
/* Computes the pin of the key, for the local command line. */
void service_tls_pin(struct service *s);
void service_tls_forget(struct service *s);

/* ---- blobs.c ------------------------------------------------------------ */

struct conf_bucket;
struct s3;

/* Sets core.blobs. */
int service_blobs_open(struct service *s, struct error *err);
/* Sets mirrors. */
int service_blobs_mirrors(struct service *s, struct error *err);

/* migrate.c: moves the SQLite store of a data directory that was just restored
 * to the PostgreSQL database of conf. */
int service_migrate_restored(const struct conf *conf, int dir,
                             struct error *err);

#endif
