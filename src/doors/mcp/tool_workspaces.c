/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_workspaces, create_workspace, share_file, upload_link and
 * transfer_workspace: whole workspaces, and access for other people. Runs on a
 * worker of the daemon. A secret appears only in the answer that created it.
 */
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/size.h"
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

struct listed {
    struct workspace_info info;
    struct tool_newest files[TOOL_NEWEST_MAX];
    const struct tool_newest *newest;
    size_t newest_count;
};

static const struct api_field listed_fields[] = {
    {"newest", API_ARRAY, API_LIST(struct listed, newest, newest_count),
     .of = &tool_newest_resource, .help = "Files that changed last"},
};
static API_OUTPUT_OF(listed_resource, "listed workspace", &workspace_resource,
                     struct listed, listed_fields, NULL);

struct list {
    struct tool_status status;
    const struct listed *workspaces;
    size_t count;
    const char *next;
};

static const struct api_field list_fields[] = {
    {"workspaces", API_ARRAY, API_LIST(struct list, workspaces, count),
     .of = &listed_resource},
    {"next", API_STRING, API_NULLABLE, API_AT(struct list, next)},
};
TOOL_OUTPUT(list_workspaces, struct list, list_fields);

static void say_workspace(struct buf *out, const struct workspace_info *info)
{
    char size[32], changed[32];

    buf_addf(out, "%s%s%s%s: %llu files, %s, changed %s, you are %s", info->id,
             info->name[0] ? " \"" : "", info->name, info->name[0] ? "\"" : "",
             (unsigned long long)info->files, size_format(info->bytes, size),
             clock_format_ms(info->updated_at_ms ? info->updated_at_ms
                                                 : info->created_at_ms,
                             changed),
             workspace_role_name(info->role));
}

int tool_list_workspaces(struct mcp_call *call, const json_t *args,
                         struct mcp_answer *ret, struct error *err)
{
    struct workspace_info *list cleanup(mem_free) = NULL;
    struct list_args a = {.limit = 0};
    struct buf text cleanup(buf_done) = {0};
    struct listed *listed;
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
    listed = arena_alloc(call->arena, (got.count + 1) * sizeof(*listed));
    for (size_t i = 0; i < got.count; i++) {
        listed[i].info = list[i];
        listed[i].newest = listed[i].files;
        listed[i].newest_count =
            tool_newest(call, list[i].id, listed[i].files);
        say_workspace(&text, &list[i]);
        tool_newest_say(&text, listed[i].files, listed[i].newest_count);
        buf_adds(&text, "\n");
    }
    tool_answer(ret, &tool_list_workspaces_output,
                &(struct list){TOOL_OK, listed, got.count, next});
    if (!got.count)
        buf_adds(&text, "There are no workspaces.\n");
    if (next)
        buf_addf(&text, "[there are more: go on with after=%s]\n", next);
    mcp_answer_text(ret, text.data, text.len);
    return 0;
}

/* ---- create_workspace --------------------------------------------------- */

struct create_args {
    const char *name, *workspace;
};

static const struct api_field create_arguments[] = {
    {"name", API_STRING, API_REQUIRED, API_AT(struct create_args, name),
     .min = 1, .max = WORKSPACE_NAME_MAX, .help = "What people will look for"},
    {"workspace", API_STRING, API_AT(struct create_args, workspace), .min = 1,
     .max = ID_MAX,
     .help = "Give this existing workspace, ws_…, the name instead"},
};
TOOL_INPUT(create_workspace, struct create_args, create_arguments);

struct created {
    struct tool_status status;
    const char *workspace, *name;
    bool created;
};

static const struct api_field created_fields[] = {
    {"workspace", API_STRING, API_AT(struct created, workspace)},
    {"name", API_STRING, API_AT(struct created, name)},
    {"created", API_BOOL, API_AT(struct created, created),
     .help = "false: an existing one was renamed"},
};
TOOL_OUTPUT(create_workspace, struct created, created_fields);

int tool_create_workspace(struct mcp_call *call, const json_t *args,
                          struct mcp_answer *ret, struct error *err)
{
    struct create_args a = {.name = NULL};
    struct workspace_info info;
    int r = api_read(args, &tool_create_workspace_input, &a, err);

    if (r == 0 && a.workspace)
        r = workspace_patch(call->doors->workspaces, call->actor, a.workspace,
                            &(struct workspace_patch){.name = a.name,
                                                      .quota_bytes = -1,
                                                      .keep_versions = -1,
                                                      .keep_days = -1,
                                                      .legal_hold = -1},
                            &info, err);
    else if (r == 0)
        r = workspace_create(call->doors->workspaces, call->actor,
                             &(struct workspace_spec){.name = a.name}, &info,
                             err);
    if (r < 0)
        return r;
    mcp_answer_textf(ret,
                     "%s \"%s\". Pass workspace %s to execute_python to work "
                     "in it.",
                     a.workspace ? "The workspace is now named"
                                 : "Created the workspace",
                     info.name, info.id);
    tool_answer(ret, &tool_create_workspace_output,
                &(struct created){TOOL_OK, info.id, info.name, !a.workspace});
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
    {"expires_in_s", API_INT, API_DEFAULT, SHARE(expires_in_s), .min = 1,
     .max = SHARE_SECONDS_MAX, .value = SHARE_SHORT_S,
     .help = "How long the link works"},
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

static void answer_share(const struct mcp_call *call,
                         const struct workspace_share *s, const char *secret,
                         struct mcp_answer *ret)
{
    const char *url =
        arena_printf(call->arena, "%s/s/%s", call->base_url, secret);
    char until[32];

    mcp_answer_textf(
        ret,
        "Anyone with this link can %s /mnt/data/%s: %s%s%s. "
        "It is shown only once. [share_id: %s]",
        s->mode == SHARE_WRITE ? "read and write" : "read", s->path, url,
        s->expires_at_ms ? ", until " : "",
        s->expires_at_ms ? clock_format_ms(s->expires_at_ms, until) : "",
        s->id);
    tool_answer(ret, &tool_share_file_output,
                &(struct shared){TOOL_OK, *s, url});
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
        answer_share(call, &share, secret, ret);
    return r;
}

/* ---- upload_link -------------------------------------------------------- */

static const struct api_field upload_arguments[] = {
    {"path", API_STRING, API_REQUIRED, SHARE(path), .min = 1,
     .max = TOOL_PATH_MAX, .help = "Where the file is to be, below /mnt/data"},
    TOOL_WORKSPACE(struct share_args),
    TOOL_SESSION(struct share_args),
    {"expires_in_s", API_INT, API_DEFAULT, SHARE(expires_in_s), .min = 1,
     .max = SHARE_SHORT_MAX_S, .value = SHARE_SHORT_S,
     .help = "How long the link works"},
};
TOOL_INPUT(upload_link, struct share_args, upload_arguments);

static const struct api_field upload_fields[] = {
    {"share_id", API_STRING, SHARED(share.id)},
    {"url", API_STRING, SHARED(url),
     .help = "A page with a form; PUT stores the body"},
    {"workspace", API_STRING, SHARED(share.workspace)},
    {"path", API_STRING, SHARED(share.path)},
    {"expires_at", API_TIME, API_NULLABLE, SHARED(share.expires_at_ms)},
};
TOOL_OUTPUT(upload_link, struct shared, upload_fields);

/* Where the file is to be put: a session is made if none is known, so that
 * there is a workspace. */
static int find_upload_workspace(struct mcp_call *call,
                                 const struct share_args *a, char ret[ID_MAX],
                                 struct error *err)
{
    struct session_info info cleanup(session_info_done) = {.metadata = NULL};
    int r;

    if (!a->workspace) {
        r = tool_session(call, TOOL_MAKE, a->session, NULL, &info, err);
        if (r < 0)
            return r;
    }
    return tool_workspace(call, a->workspace, a->workspace ? NULL : info.id,
                          ret, err);
}

int tool_upload_link(struct mcp_call *call, const json_t *args,
                     struct mcp_answer *ret, struct error *err)
{
    struct workspace_share share cleanup(workspace_share_done) = {.path =
                                                                      NULL};
    struct share_args a = {.path = NULL};
    char workspace[ID_MAX], secret[65], until[32];
    const char *path = NULL, *url;
    int r = api_read(args, &tool_upload_link_input, &a, err);

    if (r == 0)
        r = tool_path(call->arena, a.path, &path, err);
    if (r == 0)
        r = find_upload_workspace(call, &a, workspace, err);
    if (r == 0)
        r = workspace_share(call->doors->workspaces, call->actor, workspace,
                            &(struct workspace_share_spec){
                                .path = path,
                                .mode = SHARE_UPLOAD,
                                .expires_in_s = (uint32_t)a.expires_in_s,
                            },
                            &share, secret, err);
    if (r < 0)
        return r;
    url = arena_printf(call->arena, "%s/s/%s", call->base_url, secret);
    mcp_answer_textf(ret,
                     "The user can upload one file to /mnt/data/%s here, "
                     "until %s: %s (or: curl -T FILE URL). Call "
                     "refresh_session afterwards, so that a running session "
                     "sees it. [share_id: %s]",
                     path, clock_format_ms(share.expires_at_ms, until), url,
                     share.id);
    tool_answer(ret, &tool_upload_link_output,
                &(struct shared){TOOL_OK, share, url});
    return 0;
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

static void answer_workspace(const struct workspace_info *info,
                             const char *words, struct mcp_answer *ret)
{
    mcp_answer_textf(ret, "%s [workspace: %s, owner: %s]", words, info->id,
                     info->owner);
    tool_answer(ret, &tool_transfer_workspace_output,
                &(struct transferred){TOOL_OK, .workspace = *info});
}

static int give_workspace(struct mcp_call *call, const struct transfer_args *a,
                          struct mcp_answer *ret, struct error *err)
{
    struct workspace_info info;
    struct auth_key key;
    int r = workspace_get(call->doors->workspaces, call->actor, a->workspace,
                          &info, err);

    if (r == 0)
        r = auth_key_resolve(call->doors->auth,
                             call->scopes & AUTH_ADMIN ? NULL
                                                       : call->actor->tenant,
                             a->to, &key, err);
    if (r == 0)
        r = workspace_transfer(call->doors->workspaces, call->actor,
                               a->workspace, key.id, key.tenant, &info, err);
    if (r == 0)
        answer_workspace(&info, "The workspace has a new owner.", ret);
    return r;
}

static int offer_workspace(struct mcp_call *call,
                           const struct transfer_args *a,
                           struct mcp_answer *ret, struct error *err)
{
    struct workspace_offer made = {.id = ""};
    char token[65] = "", until[32];
    int r = workspace_offer(call->doors->workspaces, call->actor, a->workspace,
                            (uint32_t)a->expires_in_s, &made, token, err);

    if (r < 0)
        return r;
    mcp_answer_textf(ret,
                     "The key that calls transfer_workspace with this "
                     "claim_token becomes the owner: %s. The token is "
                     "valid once, until %s, and shown only here.",
                     token, clock_format_ms(made.expires_at_ms, until));
    tool_answer(ret, &tool_transfer_workspace_output,
                &(struct transferred){TOOL_OK, .offer = {made, token}});
    return 0;
}

static int claim_workspace(struct mcp_call *call,
                           const struct transfer_args *a,
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
        return claim_workspace(call, &a, ret, err);
    if (!a.workspace) {
        (void)error_set(err, ERR_INVALID, "field 'workspace' is missing");
        return error_hint(err, "list_workspaces names them.");
    }
    return a.to ? give_workspace(call, &a, ret, err)
                : offer_workspace(call, &a, ret, err);
}

/* ---- their words -------------------------------------------------------- */

const char tool_list_workspaces_text[] =
    "Lists the workspaces you can see, newest first, with their names, times "
    "and newest files: durable, versioned trees of files that outlive "
    "sessions. Use a workspace's id as the workspace of "
    "execute_python to work on its files, or of search_workspace to search "
    "it.";

const char tool_create_workspace_text[] =
    "Creates a workspace with a name: a durable, versioned tree of files that "
    "several sessions can work on. With workspace it names an existing one, "
    "such as the unnamed one of a session, so that it is found again and is "
    "not cleaned up as unnamed ones are.";

const char tool_share_file_text[] =
    "Makes a link to a file or folder (path ending with /) of a workspace for "
    "people without a key, and returns its URL, which is shown only once. "
    "Use it to hand a result to the user, or when the user asks for a link: "
    "anyone who has it can read, and with mode write also upload. It works for "
    "an hour unless expires_in_s says otherwise. Limit it by password or "
    "max_downloads, or pin a version.";

const char tool_upload_link_text[] =
    "Makes a link by which the user can upload one large file, from a browser "
    "or with curl, without a key, straight to a path of the workspace. Use it "
    "when the file is too large for upload_file or is on the user's machine. "
    "Give the user the url, wait until they say it is done, then call "
    "refresh_session. The link works once, for an hour unless expires_in_s "
    "says otherwise.";

const char tool_transfer_workspace_text[] =
    "Hands a workspace to another owner; you stay an editor. Give exactly one "
    "of: to (a key's id or name, takes effect at once), offer (true: returns "
    "a claim_token that another key can use once, within 72 hours), "
    "or claim_token (take over what was offered to you; no workspace needed). "
    "Only do this when the user asks for it.";
