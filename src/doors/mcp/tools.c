/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the tools, in the order hosts see them. What each does and
 * says is in tool_*.c. Data only.
 */
#include "base/mem.h"
#include "doors/mcp/tool.h"

#define TOOL_AS(name_, fn, title_, groups_, hints_, scope_, long_)            \
    {                                                                         \
        .name = (name_), .title = (title_), .description = tool_##fn##_text,  \
        .input = &tool_##fn##_input, .output = &tool_##fn##_output,           \
        .groups = (groups_), .hints = (hints_), .scope = (scope_),            \
        .long_run = (long_), .run = tool_##fn                                 \
    }
#define TOOL(fn, title_, groups_, hints_, scope_, long_)                      \
    TOOL_AS(#fn, fn, title_, groups_, hints_, scope_, long_)

#define READS (MCP_READ_ONLY | MCP_IDEMPOTENT)

const struct mcp_tool mcp_tools[] = {
    TOOL(execute_python, "Run Python", MCP_CORE, MCP_DESTRUCTIVE, AUTH_EXECUTE,
         true),
    TOOL(run_shell, "Run a shell command", MCP_CORE, MCP_DESTRUCTIVE,
         AUTH_EXECUTE, true),
    TOOL(generate_pdf_report, "Make a PDF report", MCP_CORE,
         MCP_DESTRUCTIVE | MCP_IDEMPOTENT, AUTH_EXECUTE, true),
    TOOL(read_file, "Read a file", MCP_CORE, READS, AUTH_FILES_READ, false),
    TOOL(search_files, "Search in files", MCP_CORE, READS, AUTH_EXECUTE,
         false),
    TOOL(list_files, "List files", MCP_CORE, READS, AUTH_FILES_READ, false),
    TOOL(download_file, "Download a file", MCP_CORE, READS, AUTH_FILES_READ,
         false),
    TOOL(upload_file, "Upload a file", MCP_CORE,
         MCP_DESTRUCTIVE | MCP_IDEMPOTENT, AUTH_FILES_WRITE, false),
    TOOL(reset_session, "Restart the interpreter", MCP_CORE, MCP_DESTRUCTIVE,
         AUTH_EXECUTE, false),
    TOOL(interrupt, "Interrupt what runs", MCP_CORE,
         MCP_DESTRUCTIVE | MCP_IDEMPOTENT, AUTH_EXECUTE, false),
    TOOL(list_sessions, "List sessions", MCP_CORE, READS, AUTH_EXECUTE, false),
    TOOL(check_approval, "Look at an approval", MCP_CORE, READS, AUTH_EXECUTE,
         false),
    TOOL(list_workspaces, "List workspaces", MCP_WORKSPACE, READS,
         AUTH_FILES_READ, false),
    TOOL(search_workspace, "Search workspaces", MCP_WORKSPACE, READS,
         AUTH_FILES_READ, false),
    TOOL(file_history, "History of a file", MCP_WORKSPACE, READS,
         AUTH_FILES_READ, false),
    TOOL(restore_version, "Restore a version", MCP_WORKSPACE,
         MCP_DESTRUCTIVE | MCP_IDEMPOTENT, AUTH_FILES_WRITE, false),
    TOOL(lock_file, "Lock a file", MCP_WORKSPACE, 0, AUTH_FILES_WRITE, false),
    TOOL(unlock_file, "Unlock a file", MCP_WORKSPACE, 0, AUTH_FILES_WRITE,
         false),
    TOOL(share_file, "Share a file by link", MCP_WORKSPACE, MCP_OPEN_WORLD,
         AUTH_FILES_WRITE, false),
    TOOL(share_session, "Share a session", MCP_WORKSPACE, MCP_IDEMPOTENT,
         AUTH_EXECUTE, false),
    TOOL(transfer_workspace, "Hand over a workspace", MCP_WORKSPACE,
         MCP_DESTRUCTIVE | MCP_OPEN_WORLD, AUTH_FILES_WRITE, false),
    TOOL(decide_approval, "Approve or deny", MCP_WORKSPACE, MCP_DESTRUCTIVE,
         AUTH_APPROVE, false),
    TOOL(conversation_files, "Files of a conversation", MCP_WORKSPACE, READS,
         AUTH_FILES_READ, false),
    TOOL_AS("launchShell", launch_shell, "Make an environment", MCP_AZURE, 0,
            AUTH_EXECUTE, false),
    TOOL_AS("runPythonCodeInRemoteEnvironment", run_python_remote,
            "Run Python in an environment", MCP_AZURE, MCP_DESTRUCTIVE,
            AUTH_EXECUTE, false),
    TOOL_AS("runShellCommandInRemoteEnvironment", run_shell_remote,
            "Run a command in an environment", MCP_AZURE, MCP_DESTRUCTIVE,
            AUTH_EXECUTE, false),
};

const size_t mcp_tools_count = ARRAY_SIZE(mcp_tools);
