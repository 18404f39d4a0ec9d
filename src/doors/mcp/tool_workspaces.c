/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_workspaces, share_file, transfer_workspace: workspaces as wholes, and
 * others who are to have a part in them. Runs on a worker of the daemon.
 * Secrets are in the answer that made them and nowhere else.
 */
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "doors/mcp/tool.h"

#define LIST_MAX 100
#define LIST_DEFAULT 20
#define SHARE_SECONDS_MAX (3650LL * 24 * 3600)
#define DOWNLOADS_MAX 1000000000
#define OFFER_SECONDS_MIN 60
#define OFFER_SECONDS_MAX (72 * 3600)

/* ---- list_workspaces ---------------------------------------------------- */

struct list_args {
    const char *after;
    int64_t limit;
};

static const struct api_field list_arguments[] = {
    TOOL_LIMIT(struct list_args, LIST_MAX, LIST_DEFAULT),
    TOOL_AFTER(struct list_args),
};
TOOL_INPUT(list_workspaces, struct list_args, list_arguments);

static const char *const roles[] = {"viewer", "editor", "owner", NULL};

#define INFO(member) API_AT(struct workspace_info, member)

static const struct api_field workspace_fields[] = {
    {"workspace", API_STRING, INFO(id)},
    {"name", API_STRING, API_NULLABLE, INFO(name)},
    {"owner", API_STRING, INFO(owner)},
    {"role", API_CHOICE, INFO(role), .min = ROLE_VIEWER, .choices = roles},
    {"files", API_INT, INFO(files)},
    {"bytes", API_INT, INFO(bytes)},
    {"stored_bytes", API_INT, INFO(stored_bytes)},
    {"quota_bytes", API_INT, INFO(quota_bytes), .help = "0: none"},
    {"made_for_session", API_BOOL, INFO(made_for_session)},
    {"created_at", API_TIME, API_NULLABLE, INFO(created_at_ms)},
    {"updated_at", API_TIME, API_NULLABLE, INFO(updated_at_ms)},
};
static API_OUTPUT(workspace_resource, "workspace", struct workspace_info,
                  workspace_fields, NULL);

struct list {
    struct tool_status status;
    const struct workspace_info *workspaces;
    size_t count;
    const char *next;
};

static const struct api_field list_fields[] = {
    {"workspaces", API_ARRAY, API_LIST(struct list, workspaces, count),
     .of = &workspace_resource},
    {"next", API_STRING, API_NULLABLE, API_AT(struct list, next)},
};
TOOL_OUTPUT(list_workspaces, struct list, list_fields);

static void say_workspace(struct buf *out, const struct workspace_info *info)
{
    char size[32];

    buf_addf(out, "%s%s%s%s: %llu files, %s, you are %s\n", info->id,
             info->name[0] ? " \"" : "", info->name, info->name[0] ? "\"" : "",
             (unsigned long long)info->files,
             tool_text_size(info->bytes, size),
             workspace_role_name(info->role));
}

int tool_list_workspaces(struct mcp_call *call, const json_t *args,
                         struct mcp_answer *ret, struct error *err)
{
    struct workspace_info *list cleanup(mem_free) = NULL;
    struct list_args a = {.limit = 0};
    struct buf text cleanup(buf_done) = {0};
    const char *next;
    struct page_result got = {0};
    int r = api_read(args, &tool_list_workspaces_input, &a, err);

    if (r == 0)
        r = workspace_list(
            call->doors->workspaces, call->actor, false,
            &(struct page){.limit = (unsigned)a.limit, .after = a.after},
            &list, &got, err);
    if (r < 0)
        return r;
    next = got.has_more && got.count ? list[got.count - 1].id : NULL;
    tool_answer(ret, &tool_list_workspaces_output,
                &(struct list){TOOL_OK, list, got.count, next});
    for (size_t i = 0; i < got.count; i++)
        say_workspace(&text, &list[i]);
    if (!got.count)
        buf_adds(&text, "There are no workspaces.\n");
    if (next)
        buf_addf(&text, "[there are more: go on with after=%s]\n", next);
    mcp_answer_text(ret, text.data, text.len);
    return 0;
}

/* ---- share_file --------------------------------------------------------- */

struct share_args {
    const char *path, *workspace, *session, *version, *password;
    int mode; /* enum share_mode */
    int64_t expires_in_s, max_downloads;
};

#define SHARE(member) API_AT(struct share_args, member)

static const char *const modes[] = {"read", "write", NULL};

static const struct api_field share_arguments[] = {
    {"path", API_STRING, API_REQUIRED, SHARE(path), .max = TOOL_PATH_MAX,
     .help = "Below /mnt/data; a folder ends with /"},
    TOOL_WORKSPACE(struct share_args),
    TOOL_SESSION(struct share_args),
    {"mode", API_CHOICE, API_DEFAULT, SHARE(mode), .choices = modes,
     .value = SHARE_READ},
    {"version", API_STRING, SHARE(version), .min = 1, .max = ID_MAX,
     .help = "Share this version, not whatever is newest"},
    {"expires_in_s", API_INT, SHARE(expires_in_s), .min = 1,
     .max = SHARE_SECONDS_MAX},
    {"password", API_STRING, SHARE(password), .min = 1,
     .max = SHARE_PASSWORD_MAX},
    {"max_downloads", API_INT, SHARE(max_downloads), .min = 1,
     .max = DOWNLOADS_MAX},
};
TOOL_INPUT(share_file, struct share_args, share_arguments);

struct shared {
    struct tool_status status;
    struct workspace_share share;
    const char *url;
};

#define SHARED(member) API_AT(struct shared, member)

static const struct api_field shared_fields[] = {
    {"share_id", API_STRING, SHARED(share.id)},
    {"url", API_STRING, SHARED(url)},
    {"workspace", API_STRING, SHARED(share.workspace)},
    {"path", API_STRING, SHARED(share.path)},
    {"version", API_STRING, API_NULLABLE, SHARED(share.version)},
    {"mode", API_CHOICE, SHARED(share.mode), .choices = modes},
    {"has_password", API_BOOL, SHARED(share.has_password)},
    {"max_downloads", API_INT, SHARED(share.max_downloads),
     .help = "0: any number"},
    {"expires_at", API_TIME, API_NULLABLE, SHARED(share.expires_at_ms)},
};
TOOL_OUTPUT(share_file, struct shared, shared_fields);

static void answer_share(const struct workspace_share *s, const char *secret,
                         struct mcp_answer *ret)
{
    struct buf url cleanup(buf_done) = {0};
    char until[32];

    buf_addf(&url, "/s/%s", secret);
    mcp_answer_textf(
        ret,
        "Anyone with this link can %s /mnt/data/%s: %s%s%s. "
        "It is shown only once. [share_id: %s]",
        s->mode == SHARE_WRITE ? "read and write" : "read", s->path, url.data,
        s->expires_at_ms ? ", until " : "",
        s->expires_at_ms ? clock_format_ms(s->expires_at_ms, until) : "",
        s->id);
    tool_answer(ret, &tool_share_file_output,
                &(struct shared){TOOL_OK, *s, url.data});
}

int tool_share_file(struct mcp_call *call, const json_t *args,
                    struct mcp_answer *ret, struct error *err)
{
    struct workspace_share share cleanup(workspace_share_done) = {.path =
                                                                      NULL};
    struct share_args a = {.path = NULL};
    char workspace[ID_MAX], secret[65];
    const char *path = "";
    size_t len;
    int r = api_read(args, &tool_share_file_input, &a, err);

    if (r == 0)
        r = tool_folder(call->arena, a.path, &path, err);
    if (r == 0)
        r = tool_workspace(call, a.workspace, a.session, workspace, err);
    if (r < 0)
        return r;
    len = strlen(a.path);
    if (path[0] && len && a.path[len - 1] == '/') /* a folder is meant */
        path = arena_printf(call->arena, "%s/", path);
    r = workspace_share(call->doors->workspaces, call->actor, workspace,
                        &(struct workspace_share_spec){
                            .path = path,
                            .version = a.version,
                            .mode = (enum share_mode)a.mode,
                            .expires_in_s = (uint32_t)a.expires_in_s,
                            .password = a.password,
                            .max_downloads = a.max_downloads,
                        },
                        &share, secret, err);
    if (r == 0)
        answer_share(&share, secret, ret);
    return r;
}

/* ---- transfer_workspace ------------------------------------------------- */

struct transfer_args {
    const char *workspace, *to, *token;
    bool offer;
    int64_t expires_in_s;
};

#define TRANSFER(member) API_AT(struct transfer_args, member)

static const struct api_field transfer_arguments[] = {
    {"workspace", API_STRING, TRANSFER(workspace), .min = 1, .max = ID_MAX,
     .help = "ws_…"},
    {"to", API_STRING, TRANSFER(to), .min = 1, .max = 128,
     .help = "The new owner's key, by id or name"},
    {"offer", API_BOOL, API_DEFAULT, TRANSFER(offer), .value = false},
    {"expires_in_s", API_INT, API_DEFAULT, TRANSFER(expires_in_s),
     .min = OFFER_SECONDS_MIN, .max = OFFER_SECONDS_MAX,
     .value = OFFER_SECONDS_MAX, .help = "Of an offer"},
    {"claim_token", API_STRING, TRANSFER(token), .min = 1, .max = 256},
};
TOOL_INPUT(transfer_workspace, struct transfer_args, transfer_arguments);

struct offered {
    struct workspace_offer offer;
    const char *token;
};

static const struct api_field offer_fields[] = {
    {"id", API_STRING, API_AT(struct offered, offer.id)},
    {"claim_token", API_STRING, API_AT(struct offered, token)},
    {"expires_at", API_TIME, API_NULLABLE,
     API_AT(struct offered, offer.expires_at_ms)},
};
static API_OUTPUT(offer_resource, "offer", struct offered, offer_fields, NULL);

/* One of the two: it has another owner, or it is offered. */
struct transferred {
    struct tool_status status;
    struct workspace_info workspace;
    struct offered offer;
};

static bool has_workspace(const void *object)
{
    return ((const struct transferred *)object)->workspace.id[0] != '\0';
}

static bool has_offer(const void *object)
{
    return ((const struct transferred *)object)->offer.token != NULL;
}

static const struct api_field transferred_fields[] = {
    {"workspace", API_OBJECT, API_OPTIONAL,
     API_AT(struct transferred, workspace), .when = has_workspace,
     .of = &workspace_resource},
    {"offer", API_OBJECT, API_OPTIONAL, API_AT(struct transferred, offer),
     .when = has_offer, .of = &offer_resource},
};
TOOL_OUTPUT(transfer_workspace, struct transferred, transferred_fields);

/* By its id, or by a name that only one valid key of the tenant has. */
static int find_key(struct mcp_call *call, const char *name,
                    struct auth_key *ret, struct error *err)
{
    struct auth_key *keys cleanup(mem_free) = NULL;
    const struct auth_key *found = NULL;
    size_t count = 0, same = 0;
    int r = auth_key_list(call->doors->auth, &keys, &count, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < count && !(found && !same); i++) {
        const struct auth_key *key = &keys[i];
        bool by_id = strcmp(key->id, name) == 0;

        if (key->revoked_at_ms ||
            (!(call->scopes & AUTH_ADMIN) &&
             strcmp(key->tenant, call->actor->tenant) != 0) ||
            (!by_id && strcmp(key->name, name) != 0))
            continue;
        found = key;
        same = by_id ? 0 : same + 1;
    }
    if (!found)
        return error_set(err, ERR_NOT_FOUND, "no such key");
    if (same > 1) {
        (void)error_set(err, ERR_CONFLICT, "more than one key has this name");
        return error_hint(err, "Give the key's id.");
    }
    *ret = *found;
    return 0;
}

static void answer_workspace(const struct workspace_info *info,
                             const char *words, struct mcp_answer *ret)
{
    mcp_answer_textf(ret, "%s [workspace: %s, owner: %s]", words, info->id,
                     info->owner);
    tool_answer(ret, &tool_transfer_workspace_output,
                &(struct transferred){TOOL_OK, .workspace = *info});
}

static int give(struct mcp_call *call, const struct transfer_args *a,
                struct mcp_answer *ret, struct error *err)
{
    struct workspace_info info;
    struct auth_key key;
    int r = workspace_get(call->doors->workspaces, call->actor, a->workspace,
                          &info, err);

    if (r == 0)
        r = find_key(call, a->to, &key, err);
    if (r == 0)
        r = workspace_transfer(call->doors->workspaces, call->actor,
                               a->workspace, key.id, key.tenant, &info, err);
    if (r == 0)
        answer_workspace(&info, "It has a new owner.", ret);
    return r;
}

static int offer(struct mcp_call *call, const struct transfer_args *a,
                 struct mcp_answer *ret, struct error *err)
{
    struct workspace_offer made = {.id = ""};
    char token[65] = "", until[32];
    int r = workspace_offer(call->doors->workspaces, call->actor, a->workspace,
                            (uint32_t)a->expires_in_s, &made, token, err);

    if (r < 0)
        return r;
    mcp_answer_textf(ret,
                     "Whoever calls transfer_workspace with this claim_token, "
                     "with a key of their own, becomes the owner: %s. It is "
                     "good once, until %s, and shown only here.",
                     token, clock_format_ms(made.expires_at_ms, until));
    tool_answer(ret, &tool_transfer_workspace_output,
                &(struct transferred){TOOL_OK, .offer = {made, token}});
    return 0;
}

static int claim(struct mcp_call *call, const struct transfer_args *a,
                 struct mcp_answer *ret, struct error *err)
{
    struct workspace_info info;
    int r = workspace_claim(call->doors->workspaces, call->actor, a->token,
                            &info, err);

    if (r == 0)
        answer_workspace(&info, "It is yours now.", ret);
    return r;
}

int tool_transfer_workspace(struct mcp_call *call, const json_t *args,
                            struct mcp_answer *ret, struct error *err)
{
    struct transfer_args a = {.to = NULL};
    int r = api_read(args, &tool_transfer_workspace_input, &a, err);

    if (r < 0)
        return r;
    if ((a.to != NULL) + a.offer + (a.token != NULL) != 1)
        return error_set(err, ERR_INVALID,
                         "give exactly one of to, offer and claim_token");
    if (a.token)
        return claim(call, &a, ret, err);
    if (!a.workspace) {
        (void)error_set(err, ERR_INVALID, "field 'workspace' is missing");
        return error_hint(err, "list_workspaces names them.");
    }
    return a.to ? give(call, &a, ret, err) : offer(call, &a, ret, err);
}

/* ---- their words -------------------------------------------------------- */

const char tool_list_workspaces_text[] =
    "Lists the workspaces you can see, newest first: durable, versioned trees "
    "of files that outlive sessions. Use a workspace's id as the workspace of "
    "execute_python to work on its files, or of search_workspace to search "
    "it.";

const char tool_share_file_text[] =
    "Makes a link to a file or folder (path ending with /) of a workspace for "
    "people without a key, and returns its URL, which is shown only once. "
    "Only do this when the user asks for it: anyone with the link can read "
    "it, and with mode write also upload. Limit it by expires_in_s, password "
    "or max_downloads, or pin a version.";

const char tool_transfer_workspace_text[] =
    "Hands a workspace to another owner; you stay an editor. Give exactly one "
    "of: to (a key's id or name, takes effect at once), offer (true: returns "
    "a claim_token that somebody else's key can use once, within 72 hours), "
    "or claim_token (take over what was offered to you; no workspace needed). "
    "Only do this when the user asks for it.";
