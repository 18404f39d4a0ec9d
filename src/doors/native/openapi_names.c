/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parameters, headers, statuses and groups of /openapi.json mean,
 * by name. Data only; openapi.c reads it.
 */
#include "doors/native/openapi.h"

const struct native_name native_openapi_tags[] = {
    {"Sessions", NULL, "One interpreter and its files, until it is deleted."},
    {"Executions", NULL, "Runs of Python or shell."},
    {"Workspaces", NULL, "Durable, versioned trees of files."},
    {"Files", NULL, "Files of a workspace."},
    {"Uploads", NULL, "Large files in parts, resumable."},
    {"Versions", NULL, "History, provenance, differences, going back."},
    {"Locks", NULL, "Leases on paths, with fencing."},
    {"Shares", NULL, "Links for people without a key."},
    {"Approvals", NULL, "What policy holds until a person has answered."},
    {"Search", NULL, "Names and contents."},
    {"Configuration", NULL, "What the service was set up with."},
    {"Administration", NULL, "Keys, the audit trail, stored data."},
    {"Operation", NULL, "For operators and their machines."},
    {0},
};

const struct native_name native_openapi_params[] = {
    {"id", "string", "The id of what the path names."},
    {"ws", "string", "A workspace: ws_…"},
    {"path", "string", "A path of a file; slashes may stay as they are."},
    {"principal", "string", "A key's id or unique name, or * for the tenant."},
    {"offer", "string", "An offer: xfer_…"},
    {"file", "string", "A file: file_…"},
    {"version", "string", "A version: ver_…"},
    {"conversation", "string 1 256", "A conversation, as metadata named it."},
    {"lock", "string", "A lock: lock_…"},
    {"share", "string", "A share: share_…"},
    {"secret", "string", "The secret of a share's link."},
    {"number", "int 1", "The number of a part, or of a version."},
    {"name", "string", "A name, as the list has it."},
    {0},
};

const struct native_name native_openapi_query[] = {
    {"limit", "int 1", "How many at most; docs/API.md has the bounds."},
    {"after", "string",
     "Go on after this one: an id, a path, a version, a cursor or a number, "
     "as the list is ordered."},
    {"state", "string", "Only those in this state."},
    {"deleted", "bool", "Only those that wait to be purged."},
    {"prefix", "string 0 1024", "Only paths that begin so."},
    {"delimiter", "string 1 1",
     "/ shows only what is directly below, folders as one entry each."},
    {"commit", "string", "As of this commit."},
    {"folder", "string", "Where the form's files go."},
    {"version", "string", "This version instead of the newest."},
    {"conversation", "string 0 256", "A conversation's id."},
    {"message", "string 0 256", "A message's id."},
    {"note", "string 0 256", "A note for the history."},
    {"executable", "bool", "Mark it as a program."},
    {"recursive", "bool", "A folder goes with all that is in it."},
    {"path", "string", "Only this path."},
    {"file", "string", "Only this file, whatever it was called."},
    {"from", "string", "The beginning: a time, or the older version."},
    {"to", "string", "The end: a time, or the newer version."},
    {"force", "bool", "An owner breaks somebody else's lock."},
    {"workspace", "string", "Only this workspace."},
    {"q", "string 1 1000", "Words, \"phrases\" and prefix*."},
    {"type", "string", "An ending (csv) or a media type."},
    {"author", "string", "The key that made the newest version."},
    {"actor", "string", "The key that acted."},
    {"action", "string", "An action, or a group of them: file."},
    {"object", "string", "The id or path acted on."},
    {"tenant", "string", "Only this tenant's events."},
    {0},
};

const struct native_name native_openapi_headers[] = {
    {"If-Match", "string",
     "An ETag, a version or *: change it only if this is there now."},
    {"If-None-Match", "string",
     "An ETag you have (304); or *, when storing: only if nothing is there."},
    {"If-Range", "string", "The ETag the range is of."},
    {"Range", "string", "One range of bytes."},
    {"X-Glovebox-Lock", "string", "Tokens of locks, separated by commas."},
    {"X-Content-SHA256", "string 64 64", "What the bytes must hash to."},
    {"X-Share-Password", "string 1 128",
     "The link's password; that of HTTP Basic authentication does too."},
    {"Last-Event-ID", "string", "Resume after this event."},
    {"Accept", "string", "application/json for JSON."},
    {0},
};

const struct native_name native_openapi_statuses[] = {
    {"400", NULL, "Malformed, out of range, an unknown field or parameter."},
    {"401", NULL, "No key or password, or none we know."},
    {"403", NULL, "The key lacks the scope or the role."},
    {"404", NULL, "Not there, or not yours."},
    {"409", NULL, "The state does not allow it."},
    {"412", NULL, "If-Match or If-None-Match says no; nothing was changed."},
    {"413", NULL, "Over a size limit."},
    {"416", NULL, "The range is outside of the file."},
    {"423", NULL, "Somebody else holds a lock on it."},
    {"429", NULL,
     "A limit is reached or the machine is full; see Retry-After."},
    {"503", NULL, "Starting, stopping, or a part is gone."},
    {"507", NULL, "A quota or the disk is full."},
    {"default", NULL, "Something else went wrong."},
    {0},
};
