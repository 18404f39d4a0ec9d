/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox chat: what the prompt (chat.c) and one question with its answer
 * (chat_turn.c) share.
 */
#ifndef GLOVEBOX_CLI_CHAT_H
#define GLOVEBOX_CLI_CHAT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/term/term.h"

struct cli;
struct error;

#define CLI_CHAT_ID 132u /* an id of the service, with its NUL */

struct cli_chat {
    struct cli *c;
    const char *model;  /* as asked for; NULL: the service's default */
    const char *charts; /* folder for charts; NULL: none are saved */
    bool interactive;   /* a person is at the prompt */
    bool quiet;         /* show nothing; only the object counts */
    char conversation[CLI_CHAT_ID]; /* "": none yet */
    char container[CLI_CHAT_ID];    /* where its code runs; "": not known */
    json_t *attached; /* parts of the next question; owned array */
    json_t *codes;    /* code calls shown so far, in order; owned array */
    json_t *files;    /* cited files: {path}; each once; owned array */
    struct cli_render render;
};

/* ---- chat_turn.c -------------------------------------------------------- */

/* Asks and shows the answer while it comes. ret: the response object, owned by
 * caller, also of one that failed; NULL when there is none. */
int cli_chat_turn_run(struct cli_chat *chat, const char *question,
                      json_t **ret, struct error *err);
/* The exit status that a response object stands for. */
int cli_chat_turn_exit(const json_t *response);
/* One code call in a line: what ran, what came of it. number: from 1. */
void cli_chat_turn_fold(const json_t *item, size_t number, struct buf *out);
/* The approval that a held code call waits for, or NULL; ret: its id. */
const char *cli_chat_turn_held(const json_t *item, char ret[CLI_CHAT_ID]);
/* Code and outputs of a code call in full. */
void cli_chat_turn_unfold(struct cli_chat *chat, const json_t *item);
/* Shows a text of a model as Markdown, or as it is without colours. */
void cli_chat_turn_text(struct cli_chat *chat, const char *text);
/* The name of a cited file, as `get` takes it: without folders of ours. */
const char *cli_chat_turn_name(const char *path);

#endif
