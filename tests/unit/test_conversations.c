/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations in the store: items, pages, owners, deletes, and retention of
 * responses, completions and conversations under legal hold or not. */
#include "workspace_fixture.h"

#include "audit/audit.h"
#include "base/clock.h"
#include "chat/conversations.h"
#include "conf/conf.h"

#define DAY_MS 86400000ll

struct stage {
    struct fixture *f;
    struct conf conf;
    struct core core;
    struct chat *chat;
    struct chat_fault fault;
};

static int stage_set_up(void **state)
{
    struct stage *s = xcalloc(1, sizeof(*s));
    struct fixture *f;

    assert_int_equal(fixture_set_up((void **)&f), 0);
    s->f = f;
    s->conf.response_days = 30;
    s->core =
        (struct core){.store = f->store, .audit = f->audit, .blobs = f->blobs};
    OK(f, chat_open(&(struct chat_parts){.conf = &s->conf,
                                         .core = &s->core,
                                         .workspaces = f->w},
                    &s->chat, &f->err));
    workspaces_on_expire(f->w, chat_retention_expire, s->chat);
    *state = s;
    return 0;
}

static int stage_tear_down(void **state)
{
    struct stage *s = *state;

    workspaces_on_expire(s->f->w, NULL, NULL);
    chat_stop(s->chat, 1);
    chat_close(s->chat);
    assert_int_equal(fixture_tear_down((void **)&s->f), 0);
    free(s);
    return 0;
}

#define STAGE(name)                                                           \
    cmocka_unit_test_setup_teardown(name, stage_set_up, stage_tear_down)

static void change(struct stage *s, const char *sql, const char *id,
                   int64_t number)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct fixture *f = s->f;

    OK(f, store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err));
    OK(f, store_exec(tx, &f->err, sql, "ti", id, number));
    OK(f, store_commit(&tx, &f->err));
}

static int64_t count(struct stage *s, const char *sql)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct store_rows *row cleanup(store_rows_done) = NULL;
    struct fixture *f = s->f;

    OK(f, store_begin(f->store, STORE_READ, "testing", &tx, &f->err));
    OK(f, store_one(tx, &row, &f->err, sql, ""));
    return store_int(row, 0);
}

static size_t audited(struct stage *s, const char *action)
{
    struct audit_line *lines = NULL;
    struct fixture *f = s->f;
    size_t n = 0;
    bool more;

    OK(f,
       audit_query(f->audit,
                   &(struct audit_filter){.tenant = "acme", .action = action},
                   &lines, &n, &more, &f->err));
    audit_lines_free(lines, n);
    return n;
}

static void make(struct stage *s, const struct actor *who, const char *items,
                 char ret[ID_MAX])
{
    struct chat_conversation v cleanup(chat_conversation_done) = {.id = ""};
    struct fixture *f = s->f;
    json_t *json = items ? json_loads(items, 0, NULL) : NULL;

    OK(f, chat_conversations_create(s->chat, who, json, NULL, &v, &s->fault,
                                    &f->err));
    json_decref(json);
    memcpy(ret, v.id, ID_MAX);
}

#define TWO                                                                   \
    "[{\"role\":\"user\",\"content\":\"alpha\"},"                             \
    "{\"role\":\"assistant\",\"content\":\"beta\"}]"

static uint64_t collect(struct stage *s)
{
    uint64_t removed = 0;
    struct fixture *f = s->f;

    OK(f, chat_retention_expire(s->chat, &removed, &f->err));
    return removed;
}

/* A stored response of a session, so many days old, with an item of its own.
 */
static void respond(struct stage *s, const char *id, const char *session,
                    const char *conversation, int64_t days)
{
    struct store_tx *tx cleanup(store_rollback) = NULL;
    struct chat_items items cleanup(chat_items_done) = {0};
    struct fixture *f = s->f;
    json_t *body = json_pack("{s:s, s:s, s:s, s:s}", "id", id + 5, "type",
                             "message", "role", "user", "content", "words");

    (void)chat_items_add(&items, body);
    OK(f, store_begin(f->store, STORE_WRITE, "testing", &tx, &f->err));
    OK(f, chat_items_store(s->chat, tx, &fixture_a, id, &items, &f->err));
    OK(f, store_exec(tx, &f->err,
                     "INSERT INTO chat_responses (id, tenant, owner,"
                     " conversation, model, status, background, session,"
                     " body, created_at_ms, completed_at_ms) VALUES"
                     " (?1, 'acme', ?2, ?3, 'echo', 2, 0, ?4, '{}', ?5, ?5)",
                     "tttti", id, KEY_A, conversation, session,
                     clock_real_ms() - days * DAY_MS));
    OK(f, store_exec(tx, &f->err,
                     "INSERT INTO chat_response_items (response, part,"
                     " position, item) VALUES (?1, 1, 1, ?2)",
                     "ti", id, items.list[0].number));
    OK(f, store_commit(&tx, &f->err));
}

#define RESPONSES "SELECT count(*) FROM chat_responses"
#define ITEMS "SELECT count(*) FROM chat_items"
#define CONVERSATIONS "SELECT count(*) FROM chat_conversations"

static void items_are_paged_in_both_orders(void **state)
{
    struct stage *s = *state;
    struct fixture *f = s->f;
    char id[ID_MAX], last[CHAT_ITEM_ID] = "";
    size_t seen = 0;
    bool more = true;

    make(s, &fixture_a, TWO, id);
    while (more) {
        struct chat_items page cleanup(chat_items_done) = {0};

        OK(f, chat_conversations_page(
                  s->chat, &fixture_a, id,
                  &(struct chat_page){.limit = 1,
                                      .oldest_first = true,
                                      .after = last[0] ? last : NULL},
                  &page, &more, &f->err));
        assert_int_equal(page.count, 1);
        assert_string_equal(
            json_string_value(json_object_get(page.list[0].body, "role")),
            seen ? "assistant" : "user");
        (void)snprintf(last, sizeof(last), "%s", chat_item_id(&page.list[0]));
        seen++;
    }
    assert_int_equal(seen, 2);
    /* Another principal has neither the conversation nor its items. */
    for (int i = 0; i < 2; i++) {
        const struct actor *who = i ? &fixture_x : &fixture_b;
        struct chat_item item cleanup(chat_item_done) = {0};
        struct chat_conversation v cleanup(chat_conversation_done) = {.id =
                                                                          ""};

        REFUSED(
            f, ERR_NOT_FOUND,
            chat_conversations_item(s->chat, who, id, last, &item, &f->err));
        REFUSED(
            f, ERR_NOT_FOUND,
            chat_conversations_remove(s->chat, who, id, last, &v, &f->err));
        REFUSED(f, ERR_NOT_FOUND,
                chat_conversations_delete(s->chat, who, id, true, &f->err));
    }
    assert_int_equal(count(s, ITEMS), 2);
}

static void D10_deleted_conversations_leave_no_item(void **state)
{
    struct stage *s = *state;
    struct fixture *f = s->f;
    char id[ID_MAX];

    make(s, &fixture_a, TWO, id);
    respond(s, "resp_1", "", id, 1);
    OK(f, chat_conversations_delete(s->chat, &fixture_a, id, false, &f->err));
    assert_int_equal(count(s, CONVERSATIONS), 0);
    assert_int_equal(count(s, RESPONSES), 1); /* stays as long as those do */
    assert_int_equal(count(s, ITEMS), 1);
    make(s, &fixture_a, TWO, id);
    respond(s, "resp_2", "", id, 1);
    OK(f, chat_conversations_delete(s->chat, &fixture_a, id, true, &f->err));
    assert_int_equal(count(s, RESPONSES), 1);
    assert_int_equal(count(s, ITEMS), 1);
    assert_int_equal(audited(s, "conversation.delete"), 2);
}

static void D10_responses_expire(void **state)
{
    struct stage *s = *state;

    respond(s, "resp_1", "", "", 29);
    respond(s, "resp_2", "", "", 31);
    s->conf.response_days = 0;
    assert_int_equal(collect(s), 0); /* for ever */
    s->conf.response_days = 30;
    assert_int_equal(collect(s), 1);
    assert_int_equal(count(s, RESPONSES), 1);
    assert_int_equal(count(s, ITEMS), 1);
    assert_int_equal(audited(s, "response.expire"), 1);
    assert_int_equal(collect(s), 0);
}

static void responses_that_run_do_not_expire(void **state)
{
    struct stage *s = *state;

    respond(s, "resp_1", "", "", 31);
    change(s,
           "UPDATE chat_responses SET completed_at_ms = 0"
           " WHERE id = ?1 AND ?2 = 0",
           "resp_1", 0);
    assert_int_equal(collect(s), 0);
    assert_int_equal(count(s, RESPONSES), 1);
}

static void many_responses_expire_in_one_round(void **state)
{
    struct stage *s = *state;

    for (int i = 0; i < 120; i++) {
        char id[ID_MAX];

        (void)snprintf(id, sizeof(id), "resp_%d", i);
        respond(s, id, "", "", 40);
    }
    assert_int_equal(collect(s), 120);
    assert_int_equal(count(s, RESPONSES), 0);
    assert_int_equal(count(s, ITEMS), 0);
}

/* The workspace of its session, of its conversation, or made for its session
 * that is gone. */
static void responses_under_legal_hold_stay(void **state)
{
    struct stage *s = *state;
    char id[ID_MAX];

    make(s, &fixture_a, NULL, id);
    change(s,
           "UPDATE chat_conversations SET workspace = ?1"
           " WHERE ?2 = 0",
           s->f->ws.id, 0);
    respond(s, "resp_1", SESSION_1, "", 31);
    respond(s, "resp_2", "", id, 31);
    respond(s, "resp_3", SESSION_2, "", 31);
    change(s,
           "UPDATE workspaces SET legal_hold = ?2,"
           " made_for = 'sess_11111111111111111111111111111111'"
           " WHERE id = ?1",
           s->f->ws.id, 1);
    assert_int_equal(collect(s), 1);
    assert_int_equal(count(s, RESPONSES), 2);
    change(s, "UPDATE workspaces SET legal_hold = ?2 WHERE id = ?1",
           s->f->ws.id, 0);
    assert_int_equal(collect(s), 2);
    assert_int_equal(count(s, RESPONSES), 0);
}

static void D10_conversations_expire_with_their_workspace(void **state)
{
    struct stage *s = *state;
    struct fixture *f = s->f;
    struct workspace_info info;
    char id[ID_MAX];

    make(s, &fixture_a, TWO, id);
    respond(s, "resp_1", "", id, 1);
    change(s, "UPDATE chat_conversations SET updated_at_ms = ?2 WHERE id = ?1",
           id, clock_real_ms() - 8 * DAY_MS);
    assert_int_equal(collect(s), 0); /* never, unless it is set */
    s->conf.conversation_days = 9;
    assert_int_equal(collect(s), 0);
    s->conf.conversation_days = 7;
    change(s,
           "UPDATE chat_conversations SET workspace = ?1"
           " WHERE ?2 = 0",
           f->ws.id, 0);
    change(s, "UPDATE workspaces SET legal_hold = ?2 WHERE id = ?1", f->ws.id,
           1);
    assert_int_equal(collect(s), 0);
    assert_int_equal(count(s, CONVERSATIONS), 1);
    change(s,
           "UPDATE workspaces SET legal_hold = ?2, name = '',"
           " made_for = 'sess_11111111111111111111111111111111'"
           " WHERE id = ?1",
           f->ws.id, 0);
    assert_int_equal(collect(s), 1);
    assert_int_equal(count(s, CONVERSATIONS), 0);
    assert_int_equal(count(s, RESPONSES), 0);
    assert_int_equal(count(s, ITEMS), 0);
    REFUSED(f, ERR_NOT_FOUND,
            workspace_get(f->w, &fixture_a, f->ws.id, &info, &f->err));
    assert_int_equal(audited(s, "conversation.expire"), 1);
}

static void completions_expire(void **state)
{
    struct stage *s = *state;
    struct fixture *f = s->f;
    struct chat_completion v = {.id = "chatcmpl-1",
                                .model = "echo",
                                .metadata = (char *)"{}",
                                .body = (char *)"{}",
                                .messages = (char *)"[]"};
    struct chat_completion found cleanup(chat_completion_done) = {.id = ""};

    v.created_at_ms = clock_real_ms() - 29 * DAY_MS;
    OK(f, chat_completions_store(s->chat, &fixture_a, &v, &f->err));
    assert_int_equal(collect(s), 0);
    OK(f, chat_completions_find(s->chat, &fixture_a, v.id, &found, &f->err));
    REFUSED(f, ERR_NOT_FOUND,
            chat_completions_find(s->chat, &fixture_b, v.id, &found, &f->err));
    clock_test_advance(2 * DAY_MS);
    assert_int_equal(collect(s), 1);
    REFUSED(f, ERR_NOT_FOUND,
            chat_completions_find(s->chat, &fixture_a, v.id, &found, &f->err));
    assert_int_equal(audited(s, "completion.expire"), 1);
}

static void lists_are_paged_and_filtered(void **state)
{
    struct stage *s = *state;
    struct fixture *f = s->f;
    struct chat_conversation_summary *list = NULL;
    struct chat_conversation v cleanup(chat_conversation_done) = {.id = ""};
    char ids[3][ID_MAX];
    size_t n = 0;
    bool more = false;

    for (int i = 0; i < 3; i++) {
        make(s, &fixture_a, i == 1 ? TWO : NULL, ids[i]);
        clock_test_advance(10);
    }
    OK(f, chat_conversations_update(s->chat, &fixture_a, ids[0], NULL,
                                    "Sales in May", &v, &s->fault, &f->err));
    OK(f, chat_conversations_list(
              s->chat, &fixture_a,
              &(struct chat_conversation_filter){
                  .part = "", .at_ms = INT64_MAX, .id = "", .limit = 2},
              &list, &n, &more, &f->err));
    assert_int_equal(n, 2);
    assert_true(more);
    assert_string_equal(list[0].is.id, ids[0]); /* used last */
    assert_string_equal(list[1].is.id, ids[2]);
    chat_conversation_summaries_free(list, n);
    OK(f, chat_conversations_list(
              s->chat, &fixture_a,
              &(struct chat_conversation_filter){
                  .part = "sales", .at_ms = INT64_MAX, .id = "", .limit = 2},
              &list, &n, &more, &f->err));
    assert_int_equal(n, 1);
    assert_false(more);
    chat_conversation_summaries_free(list, n);
    OK(f, chat_conversations_list(
              s->chat, &fixture_b,
              &(struct chat_conversation_filter){
                  .part = "", .at_ms = INT64_MAX, .id = "", .limit = 2},
              &list, &n, &more, &f->err));
    assert_int_equal(n, 0);
    chat_conversation_summaries_free(list, n);
}

static void writers_take_turns(void **state)
{
    struct stage *s = *state;
    struct fixture *f = s->f;
    struct chat_items added cleanup(chat_items_done) = {0};
    json_t *items = json_loads(TWO, 0, NULL);
    char id[ID_MAX];

    make(s, &fixture_a, NULL, id);
    OK(f, chat_conversation_lock(s->chat, id, 0, &f->err));
    REFUSED(f, ERR_CONFLICT, chat_conversation_lock(s->chat, id, 0, &f->err));
    assert_true(f->err.retry_after_s > 0);
    /* The collector leaves one that is in use. */
    s->conf.conversation_days = 1;
    change(s, "UPDATE chat_conversations SET updated_at_ms = ?2 WHERE id = ?1",
           id, clock_real_ms() - 8 * DAY_MS);
    assert_int_equal(collect(s), 0);
    chat_conversation_unlock(s->chat, id);
    OK(f, chat_conversations_add(s->chat, &fixture_a, id, items, &added,
                                 &s->fault, &f->err));
    assert_int_equal(added.count, 2);
    json_decref(items);
}

static void a_conversation_has_a_largest_number_of_items(void **state)
{
    struct stage *s = *state;
    struct fixture *f = s->f;
    json_t *items = json_array();
    char id[ID_MAX];

    for (unsigned i = 0; i < CHAT_ITEMS_A_CALL; i++)
        (void)json_array_append_new(
            items, json_pack("{s:s, s:s}", "role", "user", "content", "x"));
    make(s, &fixture_a, NULL, id);
    for (unsigned i = 0; i < CHAT_CONVERSATION_ITEMS; i += CHAT_ITEMS_A_CALL) {
        struct chat_items added cleanup(chat_items_done) = {0};

        OK(f, chat_conversations_add(s->chat, &fixture_a, id, items, &added,
                                     &s->fault, &f->err));
    }
    while (json_array_size(items) > 1)
        (void)json_array_remove(items, 0);
    for (int i = 0; i < 2; i++) {
        struct chat_items added cleanup(chat_items_done) = {0};

        REFUSED(f, ERR_INVALID,
                chat_conversations_add(s->chat, &fixture_a, id, items, &added,
                                       &s->fault, &f->err));
    }
    assert_int_equal(count(s, ITEMS), CHAT_CONVERSATION_ITEMS);
    json_decref(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE(items_are_paged_in_both_orders),
        STAGE(D10_deleted_conversations_leave_no_item),
        STAGE(D10_responses_expire),
        STAGE(responses_that_run_do_not_expire),
        STAGE(many_responses_expire_in_one_round),
        STAGE(responses_under_legal_hold_stay),
        STAGE(D10_conversations_expire_with_their_workspace),
        STAGE(completions_expire),
        STAGE(lists_are_paged_and_filtered),
        STAGE(writers_take_turns),
        STAGE(a_conversation_has_a_largest_number_of_items),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
