/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unguessable ids: a prefix, an underscore and 128 random bits in hex
 * ("sess_0f…"). Secrets are 256 bits. From getrandom(2), never sequential.
 */
#ifndef GLOVEBOX_BASE_IDS_H
#define GLOVEBOX_BASE_IDS_H

#include <stdbool.h>
#include <stddef.h>

#define ID_MAX 64 /* room for prefix, underscore, 48 digits and NUL */

void ids_random(void *ret_bytes, size_t len); /* aborts if the kernel can't */
void ids_make(const char *prefix, char ret[ID_MAX]);
/* Well-formed id of that prefix, tagged or not? Says nothing about existence.
 */
bool ids_valid(const char *prefix, const char *id);
/* The longer form, 48 digits: the first eight are the time in seconds, the
 * rest is random ("cntr_66aa…"). */
void ids_make_dated(const char *prefix, char ret[ID_MAX]);
bool ids_valid_dated(const char *prefix, const char *id);
/* The long form for what is stored in great number: 40 digits, of which the
 * last 32 are random like any other id's. The first eight are as random, but
 * the same for all that are made in the same moment, so that an index has
 * these side by side. They are in no order, not even of time. */
void ids_make_near(const char *prefix, char ret[ID_MAX]);
/* For what lives in the memory of one node of several: in such a process the
 * id has eight digits more in front, the tag of the node, so that every node
 * knows from the id alone where it is. Elsewhere as ids_make. */
#define IDS_TAG 8 /* digits */
void ids_make_tagged(const char *prefix, char ret[ID_MAX]);
/* The tag of this process, once, before the first id is made; "": none. */
void ids_set_tag(const char *tag);
/* The tag of a well-formed id of that prefix; false: it has none. */
bool ids_tag(const char *prefix, const char *id, char ret[IDS_TAG + 1]);
/* Lower-case hex; ret must hold 2 * len + 1 bytes. Returns ret. */
char *ids_hex(const void *bytes, size_t len, char *ret);

#endif
