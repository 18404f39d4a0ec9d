/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/image/: what its files share. All of it runs in the child
 * process, whose root folder is the new root file system.
 */
#ifndef GLOVEBOX_IMAGE_IMAGE_INT_H
#define GLOVEBOX_IMAGE_IMAGE_INT_H

#include "image/image.h"

#define IMAGE_JSON_MAX (4u << 20)
#define IMAGE_PATH_MAX 4096u
#define IMAGE_DIGEST 65 /* hex of a SHA-256, terminated */

/* The import under way. */
struct image {
    const struct image_job *job;
    int source; /* folder of the layout: the client's, or work */
    uint64_t entries, bytes, skipped;
    json_t *result;
};

/* ---- layout.c ----------------------------------------------------------- */

/* A tar file: its regular files and links go into the folder `work`. */
int image_layout_unpack(struct image *im, int file, int work,
                        struct error *err);
/* Applies all layers and fills in the result. */
int image_layout_apply(struct image *im, struct error *err);

/* ---- layer.c ------------------------------------------------------------ */

/* file: the blob, at its beginning. diff_id: SHA-256 of the unpacked bytes in
 * hex, or NULL where the image names none. */
int image_layer_apply(struct image *im, int file, const char *diff_id,
                      struct error *err);
/* Removes what is there, a folder with all in it; nothing there is fine. */
int image_layer_remove(const char *path, struct error *err);
/* Makes the folders above path. */
int image_layer_parents(const char *path, struct error *err);
/* SHA-256 of the rest of a file, in hex, and its size. */
int image_layer_hash(int file, char ret_hex[IMAGE_DIGEST], uint64_t *ret_size,
                     struct error *err);

/* ---- finish.c ----------------------------------------------------------- */

int image_finish(struct image *im, struct error *err);

#endif
