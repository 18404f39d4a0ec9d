/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a test build adds what the conformance suite wants to find
 * (tests/mcp/); the product has none of it. Weak, so that the test's
 * definitions win.
 */
#include "doors/mcp/mcp_int.h"

__attribute__((weak)) const struct mcp_tool *const mcp_fixture_tools = NULL;
__attribute__((weak)) const size_t mcp_fixture_tools_count = 0;
__attribute__((weak)) const struct mcp_resource *const mcp_fixture_resources =
    NULL;
__attribute__((weak)) const size_t mcp_fixture_resources_count = 0;
__attribute__((weak)) const struct mcp_prompt *const mcp_fixture_prompts =
    NULL;
__attribute__((weak)) const size_t mcp_fixture_prompts_count = 0;
