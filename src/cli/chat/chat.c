/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox chat: questions in words to a model that runs code in a session.
 * A conversation of the service keeps what was said; chat_turn.c asks and
 * shows one answer. Here are the prompt, its commands (lines that start with a
 * slash), the files that go with a question, and -p, one question for scripts.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/chat/chat.h"
#include "cli/common.h"

#define QUESTION_MAX (1u << 20)
#define ATTACHED_MAX 50u /* files of one question */
#define STDIN_MAX ((uint64_t)512 << 20)
#define TITLE_CHARS 80u
#define TITLE_BYTES 200u /* as many as the service takes */
#define NAMES_MAX 200u   /* models that are completed */

struct chat_flags {
    const char *model, *conversation, *question, *charts;
    bool is_new;
    /* not of the line */
    struct cli_chat chat;
    struct cli_prompt *prompt;
    json_t *models; /* names for completion; owned, or NULL */
    bool over;
    int status;
};

static void flags_done(void *arg)
{
    struct chat_flags *f = arg;

    json_decref(f->chat.attached);
    json_decref(f->chat.codes);
    json_decref(f->chat.files);
    json_decref(f->models);
}

static void report_failure(struct chat_flags *f, const struct error *err)
{
    int status = cli_fail(f->chat.c, err);

    if (!f->chat.interactive) {
        f->over = true;
        f->status = status;
    }
}

/* ---- files that go with a question -------------------------------------- */

static bool is_image(const char *name)
{
    static const char *const suffixes[] = {".png", ".jpg", ".jpeg", ".gif",
                                           ".webp"};
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < ARRAY_SIZE(suffixes); i++)
        if (strcasecmp(dot, suffixes[i]) == 0)
            return true;
    return false;
}

static int attach_fd(struct cli_chat *chat, int fd, uint64_t size,
                     const char *name, struct error *err)
{
    struct cli_transfer t cleanup(cli_transfer_done) = CLI_TRANSFER_INIT;
    json_t *file cleanup(json_unref) = NULL;
    const char *id;
    int r;

    if (json_array_size(chat->attached) >= ATTACHED_MAX)
        return error_set(err, ERR_LIMIT,
                         "a question takes at most %u files; ask with these "
                         "first",
                         ATTACHED_MAX);
    t.method = "POST";
    t.path = "/v1/files";
    t.in = fd;
    t.in_size = size;
    t.form_name = name;
    t.form_purpose = "user_data";
    t.label = name;
    t.unhurried = true;
    r = cli_transfer_run(chat->c, &t, err);
    if (r == 0)
        r = cli_http_answer(chat->c, &t, &file, err);
    if (r < 0)
        return error_wrap(err, "%.100s was not uploaded", name);
    id = cli_json_text(file, "id", NULL);
    if (!id)
        return error_set(err, ERR_INTERNAL,
                         "the service stored %.100s and "
                         "gave it no id",
                         name);
    (void)json_array_append_new(
        chat->attached,
        json_pack("{s:s, s:s}", "type",
                  is_image(name) ? "input_image" : "input_file", "file_id",
                  id));
    return 0;
}

static int attach_file(struct cli_chat *chat, const char *path,
                       struct error *err)
{
    int fd cleanup(fd_close) = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, ERR_INVALID, errno, "cannot read %.200s",
                           path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERR_INVALID,
                         "%.200s is not a file; name the files of a folder "
                         "one by one",
                         path);
    return attach_fd(chat, fd, (uint64_t)st.st_size, cli_place_base_name(path),
                     err);
}

/* A name that tells the model what standard input is. */
static const char *stdin_name(const char *head, size_t len)
{
    const char *end = memchr(head, '\n', len);
    size_t line = end ? (size_t)(end - head) : len;

    if (len >= 4 && memcmp(head, "%PDF", 4) == 0)
        return "stdin.pdf";
    if (len >= 4 && memcmp(head, "\x89PNG", 4) == 0)
        return "stdin.png";
    if (len >= 4 && memcmp(head, "PAR1", 4) == 0)
        return "stdin.parquet";
    if (len >= 4 && memcmp(head, "PK\3\4", 4) == 0)
        return "stdin.zip";
    if (len >= 2 && (head[0] == '{' || head[0] == '['))
        return "stdin.json";
    if (memchr(head, '\t', line))
        return "stdin.tsv";
    if (memchr(head, ',', line) || memchr(head, ';', line))
        return "stdin.csv";
    return "stdin.txt";
}

/* Standard input of a pipe or a file becomes a file of the question; nothing
 * of a terminal, of a device, or when it is empty. */
static int attach_stdin(struct cli_chat *chat, struct error *err)
{
    int spool cleanup(fd_close) = -1;
    char head[512], block[65536];
    size_t head_len = 0;
    uint64_t size = 0;
    struct stat st;

    if (fstat(STDIN_FILENO, &st) < 0 || S_ISCHR(st.st_mode))
        return 0;
    spool = memfd_create("glovebox-chat", MFD_CLOEXEC);
    if (spool < 0)
        return error_errno(err, ERR_INTERNAL, errno,
                           "cannot store standard input");
    for (;;) {
        ssize_t n = read(STDIN_FILENO, block, sizeof(block));
        int r;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, ERR_INVALID, errno,
                               "cannot read standard input");
        if (n == 0)
            break;
        size += (uint64_t)n;
        if (size > STDIN_MAX)
            return error_set(err, ERR_TOO_LARGE,
                             "standard input is over 512 MiB");
        if (head_len < sizeof(head)) {
            size_t more = MIN((size_t)n, sizeof(head) - head_len);

            memcpy(head + head_len, block, more);
            head_len += more;
        }
        r = fd_write_all(spool, block, (size_t)n);
        if (r < 0)
            return error_errno(err, ERR_INTERNAL, -r,
                               "cannot store standard input");
    }
    if (size == 0)
        return 0;
    if (lseek(spool, 0, SEEK_SET) < 0)
        return error_errno(err, ERR_INTERNAL, errno,
                           "cannot read standard input again");
    return attach_fd(chat, spool, size, stdin_name(head, head_len), err);
}

/* ---- the conversation --------------------------------------------------- */

/* The first line of the question, cut after TITLE_CHARS whole characters. */
static char *title_of(const char *question)
{
    size_t len = 0, chars = 0;

    question += strspn(question, " \t\r\n");
    while (question[len] && question[len] != '\n') {
        if (((unsigned char)question[len] & 0xc0) != 0x80 &&
            (++chars > TITLE_CHARS || len + 4 > TITLE_BYTES))
            break;
        len++;
    }
    return xstrndup(question, len);
}

static int ensure_conversation(struct cli_chat *chat, const char *question,
                               struct error *err)
{
    char *title cleanup(mem_free) = title_of(question);
    json_t *body cleanup(json_unref) = json_pack("{s:s}", "title", title);
    json_t *made cleanup(json_unref) = NULL;
    int r;

    if (chat->conversation[0])
        return 0;
    if (!body)
        return error_set(err, ERR_INVALID, "the question is not valid UTF-8");
    r = cli_http_json(chat->c, "POST", "/api/conversations", body, &made, err);
    if (r < 0)
        return err->code == ERR_NOT_FOUND && !err->hint[0]
                   ? error_hint(err,
                                "The service at %s may be older than this "
                                "program.",
                                chat->c->base)
                   : r;
    (void)snprintf(chat->conversation, sizeof(chat->conversation), "%s",
                   cli_json_text(made, "id", ""));
    return 0;
}

static void add_message_text(const json_t *item, struct buf *out)
{
    const json_t *content = json_object_get(item, "content"), *part;
    size_t i;

    json_array_foreach (content, i, part)
        buf_adds(out, cli_json_text(part, "text",
                                    cli_json_text(part, "refusal", "")));
}

/* The session of the conversation, before any code of this prompt ran. */
static bool find_container(struct cli_chat *chat)
{
    struct buf path cleanup(buf_done) = {0};
    json_t *known cleanup(json_unref) = NULL;
    struct error err;

    if (chat->container[0] || !chat->conversation[0])
        return chat->container[0] != '\0';
    buf_adds(&path, "/api/conversations/");
    cli_http_escape(&path, chat->conversation, false);
    /* A failure means the same as none: no files are known. */
    if (cli_http_json(chat->c, "GET", path.data, NULL, &known, &err) == 0)
        (void)snprintf(chat->container, sizeof(chat->container), "%s",
                       cli_json_text(known, "session", ""));
    return chat->container[0] != '\0';
}

/* The conversation that was used last, for `-c last`. */
static int last_conversation(struct cli_chat *chat, char ret[CLI_CHAT_ID],
                             struct error *err)
{
    json_t *list cleanup(json_unref) = NULL;
    const json_t *one;
    size_t i;
    int r = cli_http_json(chat->c, "GET", "/api/conversations?limit=100", NULL,
                          &list, err);

    if (r < 0)
        return r;
    json_array_foreach (json_object_get(list, "data"), i, one)
        if (strncmp(cli_json_text(one, "id", ""), "conv_", 5) == 0) {
            (void)snprintf(ret, CLI_CHAT_ID, "%s",
                           cli_json_text(one, "id", ""));
            return 0;
        }
    return error_set(err, ERR_NOT_FOUND, "there is no conversation yet");
}

/* Continues a stored conversation: finds where its code runs, and shows its
 * last answer to a person. */
static int open_conversation(struct chat_flags *f, struct error *err)
{
    struct cli_chat *chat = &f->chat;
    struct buf path cleanup(buf_done) = {0};
    json_t *list cleanup(json_unref) = NULL;
    const json_t *items, *item;
    char id[CLI_CHAT_ID] = "";
    bool shown = false;
    size_t i;
    int r;

    if (strlen(f->conversation) >= sizeof(id))
        return error_set(err, ERR_INVALID, "that is no conversation's id");
    (void)snprintf(id, sizeof(id), "%s", f->conversation);
    if (strcmp(id, "last") == 0) {
        r = last_conversation(chat, id, err);
        if (r < 0)
            return r;
    }
    buf_adds(&path, "/v1/conversations/");
    cli_http_escape(&path, id, false);
    buf_adds(&path, "/items?limit=100&order=desc&include[]="
                    "code_interpreter_call.outputs");
    r = cli_http_json(chat->c, "GET", path.data, NULL, &list, err);
    if (r < 0)
        return r;
    memcpy(chat->conversation, id, sizeof(id));
    items = json_object_get(list, "data");
    json_array_foreach (items, i, item) {
        const char *type = cli_json_text(item, "type", "");

        if (strcmp(type, "code_interpreter_call") == 0) {
            (void)json_array_insert(chat->codes, 0, (json_t *)item);
            if (!chat->container[0])
                (void)snprintf(chat->container, sizeof(chat->container), "%s",
                               cli_json_text(item, "container_id", ""));
        } else if (!shown && chat->interactive && !chat->quiet &&
                   strcmp(type, "message") == 0 &&
                   strcmp(cli_json_text(item, "role", ""), "assistant") == 0) {
            struct buf text cleanup(buf_done) = {0};

            add_message_text(item, &text);
            cli_chat_turn_text(chat, text.data ? text.data : "");
            shown = true;
        }
    }
    return 0;
}

/* ---- asking ------------------------------------------------------------- */

static void ask(struct chat_flags *f, const char *question)
{
    struct cli_chat *chat = &f->chat;
    json_t *response cleanup(json_unref) = NULL;
    struct error err = {0};
    int r = ensure_conversation(chat, question, &err);

    if (r == 0)
        r = cli_chat_turn_run(chat, question, &response, &err);
    if (response || (r < 0 && err.errnum == EINTR))
        (void)json_array_clear(chat->attached); /* they have been sent */
    if (response && chat->c->json) {
        if (f->question) {
            cli_print_json(chat->c, response);
        } else { /* one line each, for a reader of lines */
            (void)json_dumpf(response, stdout, JSON_COMPACT);
            (void)fputc('\n', stdout);
        }
        (void)fflush(stdout);
    }
    if (r < 0 && err.errnum == EINTR) {
        if (chat->c->tty_err)
            (void)fputs("interrupted; the answer is not shown further\n",
                        stderr);
        f->status = CLI_EXIT_CANCELLED;
        f->over = !chat->interactive;
    } else if (r < 0 && response && chat->c->json) {
        (void)fprintf(stderr, "glovebox: %s\n", err.message);
        f->status = CLI_EXIT_FAILED;
        f->over = !chat->interactive;
    } else if (r < 0) {
        report_failure(f, &err);
    } else if (!chat->interactive) {
        f->status = cli_chat_turn_exit(response);
        f->over = f->status != CLI_EXIT_OK;
    }
}

/* ---- lines that start with a slash -------------------------------------- */

static void chat_help(struct chat_flags *f, char **words);

static void chat_files(struct chat_flags *f, char **words)
{
    struct cli_place place cleanup(cli_place_done) = {0};
    struct error err;

    (void)words;
    if (json_array_size(f->chat.attached))
        (void)fprintf(stderr, "%zu file%s will go with the next question\n",
                      json_array_size(f->chat.attached),
                      json_array_size(f->chat.attached) == 1 ? "" : "s");
    if (!find_container(&f->chat)) {
        (void)fputs("no code has run in this conversation, so it has no files "
                    "yet\n",
                    stderr);
        return;
    }
    if (cli_place_find(f->chat.c, "", f->chat.container, &place, &err) < 0 ||
        cli_files_list(f->chat.c, &place, &err) < 0)
        report_failure(f, &err);
}

static void chat_get(struct chat_flags *f, char **words)
{
    char *saved cleanup(mem_free) = NULL;
    struct error err;

    if (!find_container(&f->chat))
        (void)fputs("no code has run in this conversation, so it has no files "
                    "yet\n",
                    stderr);
    else if (cli_files_get(f->chat.c, f->chat.container, words[0], words[1],
                           &saved, &err) < 0)
        report_failure(f, &err);
    else if (saved && f->chat.c->tty_err)
        (void)fprintf(stderr, "saved %s\n", saved);
}

static void chat_add(struct chat_flags *f, char **words)
{
    struct error err;

    for (; *words; words++) {
        if (attach_file(&f->chat, *words, &err) < 0) {
            report_failure(f, &err);
            return;
        }
        if (f->chat.c->tty_err)
            (void)fprintf(stderr, "%s goes with the next question\n", *words);
    }
}

static void chat_new(struct chat_flags *f, char **words)
{
    (void)words;
    f->chat.conversation[0] = f->chat.container[0] = '\0';
    (void)json_array_clear(f->chat.codes);
    (void)json_array_clear(f->chat.files);
    if (f->chat.c->tty_err)
        (void)fputs("a new conversation; nothing of the one before is known "
                    "in it\n",
                    stderr);
}

/* The models that this key may use. */
static int load_models(struct chat_flags *f, struct error *err)
{
    json_t *list cleanup(json_unref) = NULL;
    const json_t *one;
    size_t i;
    int r;

    if (f->models)
        return 0;
    r = cli_http_json(f->chat.c, "GET", "/v1/models", NULL, &list, err);
    if (r < 0)
        return r;
    f->models = json_array();
    json_array_foreach (json_object_get(list, "data"), i, one)
        if (i < NAMES_MAX && cli_json_text(one, "id", NULL))
            (void)json_array_append(f->models, json_object_get(one, "id"));
    return 0;
}

static void chat_model(struct chat_flags *f, char **words)
{
    struct error err;
    const json_t *name;
    size_t i;

    json_decref(take_ptr(f->models));
    if (load_models(f, &err) < 0) {
        report_failure(f, &err);
        return;
    }
    if (words[0]) {
        json_array_foreach (f->models, i, name)
            if (strcmp(json_string_value(name), words[0]) == 0) {
                f->chat.model = json_string_value(name);
                if (f->chat.c->tty_err)
                    (void)fprintf(stderr, "answers come from %s now\n",
                                  f->chat.model);
                return;
            }
        (void)fprintf(stderr, "there is no model '%s'\n", words[0]);
    }
    if (json_array_size(f->models) == 0)
        (void)fputs("no model is configured; `glovebox model add` adds one\n",
                    stderr);
    json_array_foreach (f->models, i, name) {
        bool used = f->chat.model &&
                    strcmp(f->chat.model, json_string_value(name)) == 0;

        (void)printf("%s %s\n", used ? "*" : " ", json_string_value(name));
    }
}

static void chat_code(struct chat_flags *f, char **words)
{
    const json_t *codes = f->chat.codes;
    size_t count = json_array_size(codes);
    uint64_t number = count;

    if (count == 0) {
        (void)fputs("no code has run in this conversation\n", stderr);
        return;
    }
    if (words[0] && (cli_values_count(words[0], &number) < 0 || number < 1 ||
                     number > count)) {
        (void)fprintf(stderr, "code has a number from 1 to %zu\n", count);
        return;
    }
    cli_chat_turn_unfold(&f->chat, json_array_get(codes, number - 1));
}

static void chat_id(struct chat_flags *f, char **words)
{
    (void)words;
    if (f->chat.conversation[0])
        (void)printf("%s\n", f->chat.conversation);
    else
        (void)fputs("the conversation begins with the next question\n",
                    stderr);
}

static void chat_quit(struct chat_flags *f, char **words)
{
    (void)words;
    f->over = true;
}

static const struct {
    const char *name;
    const char *args;
    size_t min;
    void (*run)(struct chat_flags *f, char **words);
    const char *help;
} commands[] = {
    {"help", "", 0, chat_help, "this list"},
    {"files", "", 0, chat_files, "list the files of the conversation"},
    {"get", " NAME [FILE]", 1, chat_get, "download one of them"},
    {"add", " FILE...", 1, chat_add, "send files with the next question"},
    {"code", " [N]", 0, chat_code,
     "show code N and its output; else the last"},
    {"model", " [NAME]", 0, chat_model, "list models, or change the model"},
    {"new", "", 0, chat_new, "begin a new conversation"},
    {"conversation", "", 0, chat_id, "print the conversation's id, for -c"},
    {"quit", "", 0, chat_quit, "leave; so does Ctrl-D"},
};

static void chat_help(struct chat_flags *f, char **words)
{
    (void)f;
    (void)words;
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        char left[40];

        (void)snprintf(left, sizeof(left), "/%s%s", commands[i].name,
                       commands[i].args);
        (void)printf("  %-20s %s\n", left, commands[i].help);
    }
    (void)puts(
        "Any other line is a question. A backslash at its end continues "
        "it on the next\nline. Ctrl-C cancels the answer and keeps the "
        "conversation. Tab completes.");
}

static void run_slash_line(struct chat_flags *f, char *line)
{
    char *words[10] = {NULL};
    char *rest = NULL;
    size_t count = 0;

    for (char *w = strtok_r(line + 1, " \t", &rest);
         w && count < ARRAY_SIZE(words) - 1; w = strtok_r(NULL, " \t", &rest))
        words[count++] = w;
    for (size_t i = 0; count > 0 && i < ARRAY_SIZE(commands); i++) {
        if (strcmp(commands[i].name, words[0]) != 0)
            continue;
        if (count - 1 < commands[i].min)
            (void)fprintf(stderr, "usage: /%s%s\n", commands[i].name,
                          commands[i].args);
        else
            commands[i].run(f, words + 1);
        (void)fflush(stdout);
        return;
    }
    (void)fputs("no such command; /help lists them\n", stderr);
}

/* ---- the prompt --------------------------------------------------------- */

static char *nth_match(const json_t *names, const char *member,
                       const char *word, size_t n)
{
    const json_t *one;
    size_t i;

    json_array_foreach (names, i, one) {
        const char *name =
            member ? cli_json_text(one, member, "") : json_string_value(one);

        if (strncmp(name, word, strlen(word)) == 0 && n-- == 0)
            return xstrdup(name);
    }
    return NULL;
}

/* After a slash the commands; after /get the files that answers named; after
 * /model the models. */
static char *complete_word(void *ctx, const char *line, const char *word,
                           size_t n)
{
    struct chat_flags *f = ctx;
    struct error err;

    if (line[0] != '/')
        return nth_match(f->chat.files, "path", word, n);
    if (strncmp(line, "/get ", 5) == 0)
        return nth_match(f->chat.files, "path", word, n);
    if (strncmp(line, "/model ", 7) == 0) {
        if (load_models(f, &err) < 0)
            return NULL; /* `/model` itself tells why */
        return nth_match(f->models, NULL, word, n);
    }
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        if (!strchr(line, ' ') &&
            strncmp(commands[i].name, word, strlen(word)) == 0 && n-- == 0)
            return xstrdup(commands[i].name);
    return NULL;
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

static void take_line(struct chat_flags *f, char *line, struct buf *question)
{
    size_t len = strlen(line);
    bool more = len > 0 && line[len - 1] == '\\';

    if (question->len == 0 && line[0] == '/') {
        run_slash_line(f, line);
        return;
    }
    if (more)
        line[len - 1] = '\0';
    buf_addf(question, "%s%s", question->len ? "\n" : "", line);
    if (question->len > QUESTION_MAX) {
        (void)fputs(
            "that question is over 1 MiB; put its text into a file and "
            "/add it\n",
            stderr);
        buf_reset(question);
    }
    if (more)
        return;
    if (question->len && !is_blank(question->data))
        ask(f, question->data);
    buf_reset(question);
}

static void read_questions(struct chat_flags *f)
{
    struct buf question cleanup(buf_done) = {0};

    while (!f->over) {
        char *line cleanup(mem_free) = NULL;

        switch (
            cli_prompt_read(f->prompt, question.len ? "... " : "> ", &line)) {
        case CLI_PROMPT_LINE:
            take_line(f, line, &question);
            break;
        case CLI_PROMPT_INTERRUPTED:
            buf_reset(&question);
            break;
        case CLI_PROMPT_END:
            if (question.len && !is_blank(question.data))
                ask(f, question.data);
            f->over = true;
            break;
        case CLI_PROMPT_STOPPED:
            f->over = true;
            f->status = CLI_EXIT_CANCELLED;
            break;
        }
    }
}

static void print_greeting(const struct chat_flags *f)
{
    if (!f->chat.interactive || f->chat.c->json)
        return;
    (void)fprintf(stderr,
                  "Ask about your files or anything that code can find out. "
                  "/help lists commands,\nCtrl-D leaves.%s%s%s\n",
                  f->chat.model ? " Answers come from " : "",
                  f->chat.model ? f->chat.model : "",
                  f->chat.model ? "." : "");
}

/* ---- the command -------------------------------------------------------- */

static int chat_check(struct cli *c, const struct cli_words *words, void *arg)
{
    const struct chat_flags *f = arg;

    (void)words;
    if (f->conversation && f->is_new)
        return cli_usage_error(c, "--conversation continues one, --new begins "
                                  "one: use one of them");
    if (f->conversation && !*f->conversation)
        return cli_usage_error(c, "--conversation needs an id");
    if (f->question && is_blank(f->question))
        return cli_usage_error(c, "the question of -p is empty");
    if (f->question && strlen(f->question) > QUESTION_MAX)
        return cli_usage_error(c, "the question of -p is over 1 MiB; give its "
                                  "text as a file");
    return CLI_EXIT_OK;
}

static int run_chat(struct cli *c, const struct cli_words *words, void *arg)
{
    struct chat_flags *f = arg;
    struct cli_chat *chat = &f->chat;
    struct error err;
    int r = cli_connect(c, CLI_NEED_RUNNING, NULL, NULL, &err);

    chat->c = c;
    chat->model = f->model;
    chat->attached = json_array();
    chat->codes = json_array();
    chat->files = json_array();
    chat->quiet = c->json;
    chat->charts = f->charts ? f->charts : c->json ? NULL : ".";
    cli_render_init(&chat->render, c, chat->charts);
    chat->interactive =
        !f->question && isatty(STDIN_FILENO) == 1 && c->tty_err;
    if (r == 0 && f->conversation)
        r = open_conversation(f, &err);
    for (size_t i = 0; r == 0 && i < words->count; i++)
        r = attach_file(chat, words->items[i], &err);
    if (r == 0 && f->question)
        r = attach_stdin(chat, &err);
    if (r < 0)
        return cli_fail(c, &err);
    if (f->question) {
        ask(f, f->question);
        return f->status;
    }
    f->prompt = cli_prompt_open(c, &(const struct cli_prompt_hooks){
                                       .complete = complete_word,
                                       .ctx = f,
                                       .history = "chat_history",
                                       .files_after = "/add ",
                                       .prose = true,
                                   });
    print_greeting(f);
    read_questions(f);
    cli_prompt_close(f->prompt);
    if (chat->interactive && chat->conversation[0] && !c->json)
        (void)fprintf(stderr, "`glovebox chat -c %s` continues.\n",
                      chat->conversation);
    return f->status;
}

#define AT(member) offsetof(struct chat_flags, member)

static const struct cli_option options[] = {
    {"model", 'm', CLI_OPT_TEXT, AT(model), "MODEL",
     "the model that answers; else the service's default", NULL},
    {"conversation", 'c', CLI_OPT_TEXT, AT(conversation), "ID",
     "continue this conversation; last: the latest one", NULL},
    {"new", 0, CLI_OPT_FLAG, AT(is_new), NULL,
     "begin a new conversation, which is the default", NULL},
    {"prompt", 'p', CLI_OPT_TEXT, AT(question), "QUESTION",
     "ask this, print the answer, end; stdin is a file", NULL},
    {"charts", 0, CLI_OPT_TEXT, AT(charts), "DIR",
     "where charts are saved; else here", NULL},
    {0},
};

const struct cli_command cli_chat = {
    .name = "chat",
    .summary = "Ask in words; a model answers and runs code",
    .notes =
        "FILES go with the first question. The model runs Python in a session\n"
        "of the conversation; each run is shown as one line, /code N shows it in\n"
        "full. Charts are saved as chart-1.png, chart-2.png, ... and shown where\n"
        "the terminal can. /help at the prompt lists its commands. Ctrl-C\n"
        "cancels the answer and keeps the conversation, Ctrl-D leaves.\n\n"
        "-p asks one question, for scripts: the answer goes to standard output\n"
        "as Markdown, all else to standard error. Standard input, if it is a\n"
        "pipe or a file, goes with the question. With --json the response object\n"
        "is printed instead. From a pipe without -p each line is a question.\n\n"
        "`glovebox model list` shows the models; `echo` is a built-in model for\n"
        "trials, which understands nothing.\n"
        "\nExit status: 0 it was answered, 2 wrong command line, 3 the model or\n"
        "the service failed, 5 a limit or a budget, 7 cancelled, 10 code waits\n"
        "for approval.\n",
    .online = true,
    .options = options,
    .flags_size = sizeof(struct chat_flags),
    .verbs =
        (const struct cli_verb[]){
            {"", NULL, "[FILE...]", .run = run_chat},
            {0},
        },
    .check = chat_check,
    .flags_done = flags_done,
};
