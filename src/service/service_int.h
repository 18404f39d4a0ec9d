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
#include "posture/posture.h"
#include "service/service.h"
#include "session/session.h"

#define SERVICE_PIN_MAX 80

struct service {
    const struct conf *conf;
    struct priv_user user;
    bool drop; /* there is an account to become */
    int data_fd, lock_fd, signal_fd;
    int uids_fd;                     /* the lock on our window of host uids */
    uint32_t egress_uid;             /* the proxy's account; 0: ours */
    uint32_t accepted;               /* WARDEN_WALL_* */
    char *tls_certificate, *tls_key; /* PEM, until HTTP has started; or NULL */
    char tls_pin[SERVICE_PIN_MAX];   /* of our public key; "": no TLS */
    struct warden_link *warden;
    struct disk *disk;
    struct auth *auth;
    struct core core;
    struct egress_link *egress; /* NULL: no proxy */
    struct workspaces *workspaces;
    struct sessions *sessions;
    struct search *search;
    struct posture posture;
    struct http_server *http;
    struct doors doors;
};

/* rights.c, in the order they are taken */
int service_rights_walls(struct service *s, struct error *err);
int service_rights_user(struct service *s, struct error *err);
int service_rights_data(struct service *s, struct error *err);
/* Lowers max_sessions to what the limit of open files has room for. */
int service_rights_descriptors(struct conf *conf, struct error *err);
int service_rights_drop(struct service *s, struct error *err);

/* gate.c: checks whether code may run at all, and tells the sessions. */
void service_gate(struct service *s);

/* setup.c: starts the warden and tells it its bounds */
int service_setup_warden(struct service *s, struct error *err);
/* A program that lies beside this one. */
int service_setup_beside(const char *program, char *ret, size_t size,
                         struct error *err);
/* egress.c: starts the proxy; a service without one still serves */
int service_setup_egress(struct service *s, struct error *err);

/* tls.c */
/* Reads the certificate and its key, which only the starter may be able to. */
int service_tls_read(struct service *s, struct error *err);
/* With `tls: auto`: makes what is missing in the data directory, and reads it.
 * As the service's account. */
int service_tls_auto(struct service *s, struct error *err);
/* Notes which key the service has, for the local command line. */
void service_tls_pin(struct service *s);
void service_tls_forget(struct service *s);

#endif
