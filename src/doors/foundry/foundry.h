/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Foundry door, /api/projects/{project}/…: the routes that clients of a
 * Foundry project call besides OpenAI's own, which the OpenAI door serves
 * below the same prefix. A project has no meaning of its own: agents are the
 * tenant's.
 *
 *   table.c    prefix and routes
 *   agents.c   named agents and their versions
 *   project.c  deployments; connections, datasets and indexes, all empty
 *   refuse.c   the error object, and headers every answer has
 */
#ifndef GLOVEBOX_DOORS_FOUNDRY_FOUNDRY_H
#define GLOVEBOX_DOORS_FOUNDRY_FOUNDRY_H

#include <jansson.h>

#include "doors/doors.h"

doors_handler_fn foundry_agents_create;
doors_handler_fn foundry_agents_list;
doors_handler_fn foundry_agents_get;
doors_handler_fn foundry_agents_update; /* and :enable, :disable */
doors_handler_fn foundry_agents_patch;
doors_handler_fn foundry_agents_delete;
doors_handler_fn foundry_versions_create;
doors_handler_fn foundry_versions_list;
doors_handler_fn foundry_versions_get;
doors_handler_fn foundry_versions_delete;

doors_handler_fn foundry_deployments_list;
doors_handler_fn foundry_deployments_get;
doors_handler_fn foundry_empty_list;
doors_handler_fn foundry_connection_get;

/* ---- refuse.c ----------------------------------------------------------- */

struct foundry_fault {
    const char *code; /* a constant; NULL: by the error's code */
    char param[96];   /* "": null */
};
struct foundry_fault *foundry_fault(struct doors_call *call);
/* Answers with err; of struct doors_door. */
void foundry_refuse(struct doors_call *call, const struct error *err);
/* 200. body: taken */
void foundry_respond(struct doors_call *call, struct buf *body);
/* 204 */
void foundry_respond_empty(struct doors_call *call);

#endif
