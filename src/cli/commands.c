/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of commands, help and version. Called by cmd/glovebox.c; a
 * command never calls another.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli_int.h"

static const struct cli_command commands[] = {
    {"serve", "Run the service in the foreground",
     "serve [--config FILE] [--data DIR] [--listen HOST:PORT] [...]",
     cli_serve, false},
    {"run", "Run Python or shell code in a sealed session",
     "run [-c CODE | FILE | -] [--shell] [--session S]\n"
     "    [--put F[:PATH]]... [--get PATH[:F]]... [--workspace WS]\n"
     "    [--ephemeral] [--embedded] [--pool P] [--runtime R]\n"
     "    [--timeout S] [--memory M] [--conversation ID]\n"
     "    [--message ID] [--allow HOST[:PORT]]... [--lock-file F]\n"
     "    [--charts DIR] [--wait] [--json]",
     cli_run, true},
    {"shell", "An interactive prompt in a session",
     "shell [--session S] [--workspace WS] [--ephemeral]\n"
     "    [--embedded] [--pool P] [--runtime R] [--share]\n"
     "    [--lang python|shell] [--charts DIR] [--json]",
     cli_shell, true},
    {"sessions", "List, make, share, refresh, reset and delete sessions",
     "sessions [list]\n"
     "sessions show SESSION\n"
     "sessions create [--name N] [--workspace WS] [--ephemeral]\n"
     "    [--pool P] [--runtime R] [--memory M] [--share]\n"
     "sessions share | unshare SESSION\n"
     "sessions delete SESSION...\n"
     "sessions reset SESSION\n"
     "sessions refresh SESSION\n"
     "sessions interrupt SESSION",
     cli_sessions, true},
    {"pool", "List, make, change and delete pools of sessions",
     "pool [list]\n"
     "pool show NAME\n"
     "pool create NAME [--container-type PythonLTS|Shell]\n"
     "    [--max-sessions N] [--cooldown-period SECONDS]\n"
     "    [--ready-sessions N] [--network-status STATUS]\n"
     "    [--lifecycle-type Timed] [--runtime R] [--memory SIZE]\n"
     "    [--persistence workspace|ephemeral] [--packages on|off]\n"
     "    [--egress none|allowlist|open] [--egress-allow HOSTS]\n"
     "    [--sharing default|principal|tenant]\n"
     "pool update NAME [the same]\n"
     "pool delete NAME [--yes]",
     cli_pool, true},
    {"files", "Everything about files: of a workspace, or of a session",
     "files ls PLACE [-1] [--at COMMIT]\n"
     "files get PLACE [FILE | -] [--version V] [--continue]\n"
     "files put FILE... PLACE [-r] [--if-match V | --create]\n"
     "files rm PLACE... [-r]\n"
     "files info PLACE [--version V]\n"
     "files mv | cp PLACE PLACE\n"
     "files history | versions PLACE [--limit N]\n"
     "files diff PLACE [VERSION [VERSION]]\n"
     "files restore PLACE --version V | --commit C\n"
     "files zip PLACE [FILE | -]",
     cli_files, true},
    {"workspaces", "Durable, versioned folders: members, rules, history",
     "workspaces [ls] [--deleted]\n"
     "workspaces new NAME [--private]\n"
     "workspaces show | rm WS...\n"
     "workspaces rename WS NAME\n"
     "workspaces undelete WS-ID\n"
     "workspaces purge WS [PATH] | purge WS --deleted\n"
     "workspaces members WS\n"
     "workspaces member add WS KEY-ID ROLE | member rm WS KEY-ID\n"
     "workspaces transfer WS KEY-ID\n"
     "workspaces offer WS [--ttl TIME] | offer WS --revoke OFFER\n"
     "workspaces offers WS\n"
     "workspaces claim [--token-file FILE]\n"
     "workspaces history WS [--limit N]\n"
     "workspaces restore WS --commit C\n"
     "workspaces retention WS [--versions N] [--days D]\n"
     "workspaces hold WS on|off\n"
     "workspaces quota WS SIZE\n"
     "workspaces usage",
     cli_workspaces, true},
    {"search", "Find files by name and by what is in them",
     "search WORDS... [--workspace WS] [--type T] [--after TIME]\n"
     "    [--before TIME] [--author KEY-ID] [--conversation ID]\n"
     "    [--limit N]",
     cli_search, true},
    {"locks", "Leases on paths: take, renew, release, break",
     "locks ls WS\n"
     "locks take PLACE [--ttl TIME] [--session S] [--label TEXT]\n"
     "locks renew PLACE [--ttl TIME] --lock-file FILE\n"
     "locks release PLACE --lock-file FILE\n"
     "locks break PLACE",
     cli_locks, true},
    {"share", "Links to files and folders for others",
     "share new PLACE [--write] [--expires TIME] [--downloads N]\n"
     "    [--password | --password-file FILE] [--version V]\n"
     "share ls WS\n"
     "share revoke SHARE",
     cli_share, true},
    {"conversations", "What a conversation produced",
     "conversations files ID [--limit N]", cli_conversations, true},
    {"approvals", "What waits for a person: read, approve, deny, withdraw",
     "approvals [list] [--all]\n"
     "approvals show APPROVAL\n"
     "approvals approve APPROVAL [-m REASON]\n"
     "approvals deny APPROVAL -m REASON\n"
     "approvals withdraw APPROVAL",
     cli_approvals, true},
    {"audit", "The audit trail, evidence of executions, exports, proofs",
     "audit [list] [--from TIME] [--to TIME] [--actor KEY-ID]\n"
     "    [--action A] [--object ID] [--workspace WS] [--limit N]\n"
     "    [--follow]\n"
     "audit show EXECUTION\n"
     "audit verify [EXPORT [--public-key FILE] [--checkpoint FILE]]\n"
     "audit export [--format jsonl|otlp|syslog] [--from TIME]\n"
     "    [--to TIME] [--output FILE] [--follow]\n"
     "audit key | checkpoint",
     cli_audit, true},
    {"policy", "What may be done: show, check, test, explain, put in force",
     "policy [show] [--version N]\n"
     "policy list\n"
     "policy check FILE\n"
     "policy test FILE [CASES]\n"
     "policy explain [--file FILE] [--session S] KEY=VALUE...\n"
     "policy put FILE [--note TEXT]\n"
     "policy reload\n"
     "policy adopt SESSION",
     cli_policy, true},
    {"backup", "Copy everything the service keeps, while it runs",
     "backup DIR", cli_backup, true},
    {"restore", "Fill an empty data directory from a backup",
     "restore DIR [--data DIR]", cli_restore, false},
    {"verify", "Read every stored byte again and compare it with its hash",
     "verify", cli_verify, true},
    {"key", "Make, list and revoke keys",
     "key create --scopes SCOPE[,SCOPE]... [--tenant T] [--name N]\n"
     "    [--pools P,...] [--workspaces WS,...] [--sessions ID,...]\n"
     "    [--expires TIME]\n"
     "key list\n"
     "key revoke KEY-ID",
     cli_key, true},
    {"token", "Mint, list and revoke short-lived tokens",
     "token create --ttl TIME [--scopes SCOPE[,SCOPE]...] [--name N]\n"
     "    [--session ID] [--workspace WS] [--pool P]\n"
     "token list\n"
     "token revoke TOKEN-ID",
     cli_token, true},
    {"network", "What a session's code may reach",
     "network show SESSION\n"
     "network set SESSION [--mode MODE] [--allow HOST[:PORT]]...\n"
     "    [--secret NAME=HOST]... [--inspect] [--packages]\n"
     "    [--bytes SIZE] [--connections N] [--requests N]\n"
     "network set SESSION --file FILE",
     cli_network, true},
    {"secret", "Secrets that the proxy adds, and sessions never hold",
     "secret [list]\n"
     "secret show NAME\n"
     "secret put NAME --to HOST... [--header H] [--prefix P]\n"
     "    [--value-file FILE]\n"
     "secret remove NAME",
     cli_secrets, true},
    {"quota", "What tenants may have, and what they have used",
     "quota [show [TENANT]]\n"
     "quota set TENANT NAME=VALUE...",
     cli_quota, true},
    {"runtime", "Build, list, show and remove runtime images",
     "runtime build NAME\n"
     "runtime list\n"
     "runtime show NAME\n"
     "runtime remove NAME",
     cli_runtime, false},
    {"mcp",
     "Speak MCP on standard input and output, for a host that starts it",
     "mcp [--tools core|workspace|all]", cli_mcp, true},
    {"doctor", "Say which walls stand on this machine, and what to do",
     "doctor [--gate] [--json]", cli_doctor, true},
    {"scorecard", "Probe ten controls of this service, and say what was seen",
     "scorecard [--only CONTROL] [--json]", cli_scorecard, true},
    {"help", "Help for a command", "help [COMMAND]", cli_help, false},
};

static const char exit_codes[] =
    "Exit status:\n"
    "  0  it worked                     5  a limit, or out of memory\n"
    "  1  the code failed               6  killed or crashed\n"
    "  2  wrong command line            7  cancelled\n"
    "  3  glovebox itself failed        8  a wall could not be built\n"
    "  4  the code ran out of time      9  denied by policy\n"
    "                                  10  waits for approval\n";

const struct cli_command *cli_command_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_help(FILE *out)
{
    (void)fputs("usage: glovebox COMMAND [ARGUMENTS]\n\n"
                "Runs code nobody has read, in sealed sessions that keep "
                "their state.\n\nCommands:\n",
                out);
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        (void)fprintf(out, "  %-13s %s\n", commands[i].name,
                      commands[i].summary);
    (void)fputs(
        "\n`glovebox help COMMAND` says more of one; `glovebox --version` "
        "prints a number.\n\n"
        "The service is found by GLOVEBOX_URL and GLOVEBOX_KEY, else in the "
        "data\ndirectory (--data, GLOVEBOX_DATA_DIR). `run` and `shell` can use "
        "a throwaway\nservice of their own: with --embedded, or when there is "
        "no service and no data\ndirectory.\n\n",
        out);
    (void)fputs(exit_codes, out);
}

static int unknown_command(const char *name)
{
    const char *near = cli_format_nearest(
        name, &commands[0].name, sizeof(commands[0]), ARRAY_SIZE(commands));

    (void)fprintf(stderr, "glovebox: there is no command '%s'", name);
    if (near)
        (void)fprintf(stderr, "; did you mean '%s'?", near);
    (void)fputs("\nTry `glovebox --help`.\n", stderr);
    return CLI_EXIT_USAGE;
}

int cli_help(int argc, char **argv)
{
    char flag[] = "--help";
    const struct cli_command *command;
    char *words[3] = {NULL, flag, NULL};

    if (argc < 2 || argv[1][0] == '-') {
        print_help(stdout);
        return CLI_EXIT_OK;
    }
    command = cli_command_find(argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    if (command->run == cli_help) {
        print_help(stdout);
        return CLI_EXIT_OK;
    }
    words[0] = argv[1];
    return command->run(2, words);
}

int cli_main(int argc, char **argv)
{
    const struct cli_command *command;

    if (argc < 2) {
        print_help(stderr);
        return CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return CLI_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("glovebox %s\n", GLOVEBOX_VERSION);
        return CLI_EXIT_OK;
    }
    if (argv[1][0] == '-') {
        (void)fprintf(stderr, "glovebox: unknown option '%s'\n", argv[1]);
        (void)fputs("Try `glovebox --help`.\n", stderr);
        return CLI_EXIT_USAGE;
    }
    command = cli_command_find(argv[1]);
    return command ? command->run(argc - 1, argv + 1)
                   : unknown_command(argv[1]);
}
