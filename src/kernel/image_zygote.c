/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image of a zygote, from which glovebox-revive (revive.c) makes the same
 * process again: same addresses, same frozen heap, same id, so that images of
 * its sessions wake in forks of either. Runs once in the zygote, when its
 * imports are done; no code of a session has run in it.
 *
 * The frozen heap (freeze.c) is a file already and is handed over as it is.
 * The image proper has what is left: which mappings there are and of what,
 * the stack, the few pages outside the frozen heap, and what an exec would
 * set. A process that is revived continues where the context was saved, before
 * the freeze, and finds its heap frozen.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "kernel/image.h"
#include "kernel/kernel_int.h"

#define MAPS_MAX 8192u
#define RUNS_MAX 16384u
#define FILES_MAX 2048u
#define STRINGS_MAX (1u << 20)
#define RSEQ_LEAST 32u /* what the C library registers at least */

struct zygote_saving {
    struct image_head head;
    struct image_map maps[MAPS_MAX];
    struct image_run runs[RUNS_MAX];
    struct image_file files[FILES_MAX];
    char strings[STRINGS_MAX];
    char lines[IMAGE_LINES_ROOM];
    int heap;
    uint64_t heap_inode;
    int failed; /* the first error, or 0 */
};

static void fail(struct zygote_saving *s, int errnum)
{
    if (!s->failed)
        s->failed = -errnum;
}

/* ---- mappings ----------------------------------------------------------- */

static uint32_t add_string(struct zygote_saving *s, const char *text)
{
    size_t len = strlen(text) + 1;
    uint32_t at = s->head.strings_bytes;

    if (len > STRINGS_MAX - at) {
        fail(s, E2BIG);
        return 0;
    }
    memcpy(s->strings + at, text, len);
    s->head.strings_bytes += (uint32_t)len;
    return at;
}

/* The file as it is now; glovebox-revive maps it if it is still the same. */
static uint32_t add_same(struct zygote_saving *s, const struct image_vma *v,
                         const char *name)
{
    struct image_file *f = &s->files[s->head.file_count];
    struct stat st;

    for (uint32_t i = 0; i < s->head.file_count; i++)
        if (strcmp(s->strings + s->files[i].path, name) == 0)
            return s->files[i].path;
    if (s->head.file_count == FILES_MAX || name[0] != '/' ||
        stat(name, &st) < 0 || !S_ISREG(st.st_mode) || st.st_ino != v->inode) {
        fail(s, ESTALE);
        return 0;
    }
    s->head.file_count++;
    *f = (struct image_file){.path = add_string(s, name),
                             .kind = IMAGE_FILE_SAME,
                             .inode = st.st_ino,
                             .size = (uint64_t)st.st_size,
                             .mtime_ns = st.st_mtim.tv_sec * 1000000000LL +
                                         st.st_mtim.tv_nsec};
    return f->path;
}

/* A page as the host's kernel reads it: false for a guard page, and for one
 * of zeros. */
static bool has_bytes(uint64_t at, uint64_t words[IMAGE_PAGE / 8])
{
    struct iovec local = {words, IMAGE_PAGE};
    struct iovec remote = {(void *)at, IMAGE_PAGE};

    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) !=
        (ssize_t)IMAGE_PAGE)
        return false;
    for (size_t i = 0; i < IMAGE_PAGE / 8; i++)
        if (words[i])
            return true;
    return false;
}

static void add_runs(struct zygote_saving *s, const struct image_vma *v)
{
    uint64_t words[IMAGE_PAGE / 8];
    struct image_run *last = NULL;

    for (uint64_t at = v->start; at < v->end; at += IMAGE_PAGE) {
        if (!has_bytes(at, words))
            continue;
        s->head.page_count++;
        if (last && last->start + last->pages * IMAGE_PAGE == at) {
            last->pages++;
            continue;
        }
        if (s->head.run_count == RUNS_MAX) {
            fail(s, E2BIG);
            return;
        }
        last = &s->runs[s->head.run_count++];
        *last = (struct image_run){.start = at, .pages = 1};
    }
}

static uint16_t kind_of(const struct zygote_saving *s,
                        const struct image_vma *v)
{
    if (v->flags & VMA_KERNEL)
        return IMAGE_MAP_SYSTEM;
    if (v->shared)
        return IMAGE_MAP_SHARED_FILE; /* a table of the C library */
    if (v->inode && v->inode == s->heap_inode)
        return IMAGE_MAP_HEAP;
    if (v->flags & VMA_DROPPABLE)
        return IMAGE_MAP_DROPPABLE;
    if (v->flags & VMA_WIPED)
        return IMAGE_MAP_WIPED;
    if (v->flags & VMA_GROWS)
        return IMAGE_MAP_STACK;
    /* A library's page that was written to is the zygote's own. */
    return v->inode && v->own_kib == 0 ? IMAGE_MAP_FILE : IMAGE_MAP_ANON;
}

static bool add_vma(void *ctx, const struct image_vma *v, const char *name)
{
    struct zygote_saving *s = ctx;
    struct image_map *m = &s->maps[s->head.map_count];
    uint16_t kind = kind_of(s, v);

    if (v->end > IMAGE_TOP)
        return true; /* vsyscall, which every process has */
    if (v->start >= IMAGE_ROOM && v->end <= IMAGE_ROOM + IMAGE_ROOM_BYTES)
        return true; /* where this is done */
    if (v->shared && (v->prot & PROT_WRITE || !v->inode))
        fail(s, ENOTSUP); /* an import has made something of its own */
    if (s->head.map_count == MAPS_MAX)
        fail(s, E2BIG);
    if (s->failed)
        return false;
    s->head.map_count++;
    *m = (struct image_map){
        .start = v->start, .end = v->end, .kind = kind, .prot = v->prot};
    if (v->inode && kind != IMAGE_MAP_ANON)
        m->offset = v->offset;
    if (kind == IMAGE_MAP_FILE || kind == IMAGE_MAP_SHARED_FILE)
        m->path = add_same(s, v, name);
    else if (kind == IMAGE_MAP_STACK ||
             (kind == IMAGE_MAP_ANON && (v->prot & PROT_READ)))
        add_runs(s, v);
    else if (kind == IMAGE_MAP_ANON && v->own_kib)
        fail(s, ENOTSUP); /* pages that cannot be read */
    return true;
}

/* ---- the process -------------------------------------------------------- */

/* Fields of /proc/self/stat, counted from the state on, which is the first
 * behind the name. */
static int read_stat(struct image_process *p)
{
    char text[2048] = "", *at;
    uint64_t field[50] = {0};
    int fd cleanup(fd_close) = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof(text) - 1);

    at = n > 0 ? strrchr(text, ')') : NULL;
    if (!at)
        return -EIO;
    at += 4; /* ") S " */
    for (size_t i = 1; i < ARRAY_SIZE(field) && *at; i++)
        field[i] = strtoull(at, &at, 10);
    p->code_start = field[23];
    p->code_end = field[24];
    p->stack_start = field[25];
    p->data_start = field[42];
    p->data_end = field[43];
    p->brk_start = field[44];
    p->arg_start = field[45];
    p->arg_end = field[46];
    p->env_start = field[47];
    p->env_end = field[48];
    return p->stack_start && p->env_end ? 0 : -ENOTSUP;
}

/* On the stack: the number of arguments, they, NULL, the environment, NULL,
 * then pairs up to AT_NULL. */
static void read_auxv(struct image_process *p)
{
    const uint64_t *at = (const uint64_t *)p->stack_start;
    size_t n = 0;

    at += 1 + *at + 1;
    while (*at)
        at++;
    at++;
    while (n + 2 <= ARRAY_SIZE(p->auxv)) {
        p->auxv[n] = at[n];
        p->auxv[n + 1] = at[n + 1];
        n += 2;
        if (at[n - 2] == 0)
            break;
    }
    p->auxv_bytes = (uint32_t)(n * sizeof(*p->auxv));
}

/* The word in which the C library keeps this thread's id: the host's kernel
 * clears it when the thread ends. */
static uint64_t find_tid(void)
{
    const uint32_t *word = (const uint32_t *)pthread_self();
    uint32_t tid = (uint32_t)syscall(SYS_gettid);

    for (size_t i = 0; i < 512; i++)
        if (word[i] == tid)
            return (uint64_t)(word + i);
    return 0;
}

static int add_process(struct image_process *p)
{
    const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
    const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");
    void *robust = NULL;
    size_t len = 0;
    int r = read_stat(p);

    if (r < 0)
        return r;
    read_auxv(p);
    p->fs_base = (uint64_t)__builtin_thread_pointer();
    p->tid_address = find_tid();
    if (syscall(SYS_get_robust_list, 0, &robust, &len) == 0) {
        p->robust = (uint64_t)robust;
        p->robust_bytes = len;
    }
    if (offset && size && *size) {
        p->rseq = p->fs_base + (uint64_t)*offset;
        p->rseq_bytes = MAX(*size, RSEQ_LEAST);
    }
    (void)prctl(PR_GET_NAME, p->name);
    return p->tid_address ? 0 : -ENOTSUP;
}

static void add_signals(struct image_head *h)
{
    mode_t mask = umask(0);
    stack_t alt;

    (void)umask(mask);
    h->umask = mask & 0777;
    for (int i = 0; i < IMAGE_SIGNALS; i++)
        (void)syscall(SYS_rt_sigaction, i + 1, NULL, &h->signals[i], 8);
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &h->signal_mask, 8);
    if (sigaltstack(NULL, &alt) == 0) {
        h->altstack = (uint64_t)alt.ss_sp;
        h->altstack_bytes = alt.ss_size;
        h->altstack_flags = (uint32_t)alt.ss_flags & SS_DISABLE;
    }
}

/* ---- writing ------------------------------------------------------------ */

static int put_pages(const struct zygote_saving *s, int fd)
{
    uint64_t words[IMAGE_PAGE / 8];
    int r = 0;

    for (uint32_t i = 0; i < s->head.run_count; i++)
        for (uint32_t k = 0; k < s->runs[i].pages && r == 0; k++) {
            /* Has changed to zeros meanwhile: then it is zeros. */
            if (!has_bytes(s->runs[i].start + k * IMAGE_PAGE, words))
                memset(words, 0, sizeof(words));
            r = fd_write_all(fd, words, sizeof(words));
        }
    return r;
}

static int put_tables(const struct zygote_saving *s, int fd)
{
    const struct image_head *h = &s->head;
    const struct iovec parts[] = {
        {(void *)h, sizeof(*h)},
        {(void *)s->maps, h->map_count * sizeof(*s->maps)},
        {(void *)s->runs, h->run_count * sizeof(*s->runs)},
        {(void *)s->files, h->file_count * sizeof(*s->files)},
        {(void *)s->strings, h->strings_bytes},
    };
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(parts) && r == 0; i++)
        r = fd_write_all(fd, parts[i].iov_base, parts[i].iov_len);
    if (r == 0 && lseek(fd, (off_t)image_pages_at(h), SEEK_SET) < 0)
        r = -errno;
    return r;
}

static int collect(struct zygote_saving *s, const struct image_ids *ids,
                   const struct image_context *context)
{
    struct image_head *h = &s->head;
    struct stat st;
    char cwd[64];
    int r;

    if (fstat(s->heap, &st) < 0 || !getcwd(cwd, sizeof(cwd)))
        return -errno;
    s->heap_inode = st.st_ino;
    memcpy(h->magic, IMAGE_MAGIC, sizeof(h->magic));
    h->version = IMAGE_VERSION;
    h->ids = *ids;
    h->brk = (uint64_t)syscall(SYS_brk, 0);
    h->context = *context;
    h->cwd = add_string(s, cwd);
    h->process.heap_bytes = (uint64_t)st.st_size;
    add_signals(h);
    r = add_process(&h->process);
    if (r == 0)
        r = image_vmas(true, s->lines, add_vma, s);
    if (r == 0)
        r = s->failed;
    h->total_bytes = image_files_at(h) + h->file_bytes;
    return r;
}

static int seal(int fd)
{
    int all = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

    return fcntl(fd, F_ADD_SEALS, all) < 0 ? -errno : 0;
}

/* In memory of its own, which no image contains. */
static int save(const struct image_ids *ids,
                const struct image_context *context, int heap, int *ret_tables)
{
    struct zygote_saving *s =
        mmap((void *)IMAGE_ROOM, sizeof(*s), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
             -1, 0);
    int fd cleanup(fd_close) = -1;
    int r;

    if (s != (void *)IMAGE_ROOM)
        return s == MAP_FAILED ? -errno : -EEXIST;
    s->heap = heap;
    fd = memfd_create("zygote", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    r = fd < 0 ? -errno : collect(s, ids, context);
    if (r == 0)
        r = put_tables(s, fd);
    if (r == 0)
        r = put_pages(s, fd);
    if (r == 0)
        r = seal(fd);
    if (r == 0)
        r = seal(heap);
    (void)munmap(s, sizeof(*s));
    if (r == 0)
        *ret_tables = take_fd(fd);
    return r;
}

int image_zygote_freeze(int *ret_tables, int *ret_heap)
{
    const struct image_ids *ids = image_zygote_name();
    struct image_context context;
    int heap cleanup(fd_close) = -1;
    int r;

    if (ids && image_context_save(&context)) {
        /* The program that revived this process lies there. */
        (void)munmap((void *)IMAGE_ROOM, IMAGE_ROOM_BYTES);
        heap = *ret_tables = *ret_heap = -1;
        return 0;
    }
    r = freeze_heap(&heap);
    if (r < 0)
        return r;
    r = ids ? save(ids, &context, heap, ret_tables) : -ENOTSUP;
    if (r < 0)
        log_event(LOG_WARN, "no_zygote_image, ignoring", "errno",
                  strerrorname_np(-r), NULL);
    else
        *ret_heap = take_fd(heap);
    return 0;
}
