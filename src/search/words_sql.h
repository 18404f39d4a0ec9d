/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of statements that the implementations of the full text index
 * share, and the numbers of the ranking, which one of them computes in SQL.
 * Only files of search/ include this.
 */
#ifndef GLOVEBOX_SEARCH_WORDS_SQL_H
#define GLOVEBOX_SEARCH_WORDS_SQL_H

#include "search/search_int.h"
#include "workspace/workspace.h"

/* ---- the ranking -------------------------------------------------------- */

/* Of SEARCH_RANK_ONE. A hit in the path has a fixed share; hits in the body
 * have the rest, the more the more there are and the less the longer the body
 * is: hits / (hits + 0.3 + 0.00045 * bytes), in units of 1/100000. Below
 * WORDS_LEAST are hits inside words of names. */
#define WORDS_PATH_SHARE 600000
#define WORDS_BODY_SHARE 400000
#define WORDS_UNIT 100000
#define WORDS_SPREAD 30000
#define WORDS_SPREAD_BYTE 45
#define WORDS_LEAST 100000

/* ---- the parameters of every question ----------------------------------- */

/* ?1 key, ?2 admin, ?3 tenant, ?4 workspace, ?5 prefix, ?6 type, ?7 author,
 * ?8 conversation, ?9 from, ?10 to, ?11 the question.
 *
 * bounds: where the two of SEARCH_SEEN are. For few hits each is looked up,
 * for many the workspaces that are seen are listed once. */
#define WORDS_SEEN_EACH(...)                                                  \
    " AND EXISTS (SELECT 1 FROM workspaces AS w"                              \
    " WHERE w.id = d.workspace AND " SEARCH_SEEN(__VA_ARGS__) ")"
#define WORDS_SEEN_LISTED(...)                                                \
    " AND d.workspace IN (SELECT w.id FROM workspaces AS w"                   \
    " WHERE " SEARCH_SEEN(__VA_ARGS__) ")"

#define WORDS_IN_WORKSPACE " AND (?4 IS NULL OR d.workspace = ?4)"

/* Looking up the files of a hundred thousand hits takes longer than all the
 * rest, so this is left out when there is no filter. */
#define WORDS_FILES " CROSS JOIN files AS f ON f.id = d.file"
#define WORDS_FILTERS                                                         \
    " AND f.alive = 1"                                                        \
    " AND (?5 IS NULL OR substr(f.path, 1, length(?5)) = ?5)"                 \
    " AND (?6 IS NULL OR d.kind = ?6 OR f.mime = ?6"                          \
    "  OR (substr(?6, length(?6)) = '/'"                                      \
    "   AND substr(f.mime, 1, length(?6)) = ?6)"                              \
    "  OR lower(substr(f.path, length(f.path) - length(?6))) = '.' || ?6)"    \
    " AND (?7 IS NULL OR EXISTS (SELECT 1 FROM commits AS c"                  \
    "  WHERE c.workspace = f.workspace AND c.seq = f.seq AND c.author = ?7))" \
    " AND (?8 IS NULL OR EXISTS (SELECT 1 FROM versions AS v"                 \
    "  JOIN commits AS c ON c.id = v.commit_id"                               \
    "  WHERE v.file = f.id AND c.conversation = ?8))"                         \
    " AND (?9 = 0 OR f.modified_at_ms >= ?9)"                                 \
    " AND (?10 = 0 OR f.modified_at_ms <= ?10)"

/* ---- parts of a body ---------------------------------------------------- */

/* slice: SQL for the bytes of t.body from p.start on, p.bytes long. */

/* ?1 a passage: go on after it; ?2 model, ?3 how many. */
#define WORDS_NEXT_PASSAGES(slice)                                            \
    "SELECT p.id, w.tenant, " slice                                           \
    " FROM passages AS p JOIN documents AS d ON d.id = p.document"            \
    " JOIN workspaces AS w ON w.id = d.workspace"                             \
    " JOIN words AS t ON t.rowid = d.id"                                      \
    " LEFT JOIN passage_vectors AS v ON v.passage = p.id"                     \
    " WHERE p.id > ?1 AND w.intelligence = 1 AND w.deleted_at_ms = 0"         \
    " AND (v.model IS NULL OR v.model <> ?2)"                                 \
    " ORDER BY p.id LIMIT ?3"

/* ?1 a passage of a file that is as it was when it was cut. */
#define WORDS_PASSAGE(slice)                                                  \
    "SELECT f.workspace, f.id, f.version, f.path, f.mime,"                    \
    " f.modified_at_ms, p.page, p.line, p.line_end, " slice                   \
    " FROM passages AS p JOIN documents AS d ON d.id = p.document"            \
    " JOIN files AS f ON f.id = d.file JOIN words AS t ON t.rowid = d.id"     \
    " WHERE p.id = ?1 AND f.alive = 1 AND f.version = d.version"

#endif
