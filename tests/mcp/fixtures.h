/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the official conformance suite wants to find in a server: tools,
 * resources and prompts with fixed names. Linked into
 * build/tests/gloveboxd-mcp only, where these definitions win over the weak
 * ones of src/doors/mcp/fixtures.c; the product has none of them.
 */
#ifndef GLOVEBOX_TESTS_MCP_FIXTURES_H
#define GLOVEBOX_TESTS_MCP_FIXTURES_H

#include "doors/mcp/mcp_int.h"

#define NO_ARGUMENTS "{\"type\":\"object\",\"additionalProperties\":false}"

extern const unsigned char fixture_png[], fixture_wav[];
extern const size_t fixture_png_len, fixture_wav_len;

/* fixtures_ask.c, fixtures_task.c: the runs of the table in fixtures.c. */
typedef int fixture_run(struct mcp_call *call, const json_t *args,
                        struct mcp_answer *ret, struct error *err);

fixture_run fixture_sampling, fixture_elicitation, fixture_defaults,
    fixture_enums, fixture_ask_elicitation, fixture_ask_sampling,
    fixture_ask_roots, fixture_ask_state, fixture_ask_many, fixture_ask_rounds,
    fixture_ask_capabilities, fixture_ask_prompt;
fixture_run fixture_greet, fixture_slow, fixture_failing, fixture_broken,
    fixture_confirm, fixture_multi, fixture_with_task;

/* A form with one question of that schema; owned by caller. */
json_t *fixture_form(const char *message, const char *schema);

#endif
