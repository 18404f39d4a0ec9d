/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox-revive: makes a zygote again from its image. Started by the warden
 * in place of the image's python3: in the same root, as the same user, with no
 * more rights (wire/zygote_msg.h has its descriptors). Maps everything where
 * it was and continues there; nothing of this program stays.
 *
 * It has no C library, and its code, data and stack are linked to the room
 * that no image uses (Makefile), so that none of them is in the way of what it
 * maps. The host's kernel has put a stack and the vdso at random places: the
 * stack is left and unmapped, the vdso is moved to the room and then to its
 * place. Every file that is mapped must be the one that the zygote had, by
 * path, inode, size and time of change.
 *
 * A failure is an exit code; the warden then starts the zygote anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "base/mem.h"
#include "kernel/image.h"
#include "kernel/raw_call.h"
#include "wire/zygote_msg.h"

#define OWN_MAX 64u /* mappings of this program; it has about ten */
#define STACK_BYTES ((size_t)256 << 10)
#define STACK_ROOM ((uint64_t)8 << 20) /* what the main stack may grow to */
#define AT_TABLES ((uint64_t)16 << 20) /* in the room */
#define TABLES_BYTES ((size_t)32 << 20)
#define AT_SYSTEM ((uint64_t)56 << 20)
#define RSEQ_SIGNATURE 0x53053053u
#define SET_FS 0x1002 /* of arch_prctl */

enum {
    EXIT_NO_IMAGE = 1,
    EXIT_OTHER_HOST,
    EXIT_OTHER_FILE,
    EXIT_NO_ROOM,
    EXIT_NO_PLACE,
    EXIT_NO_BRK
};

struct own_map {
    uint64_t start, end;
    bool system; /* vdso and the like */
};

/* All state is in the room, like the code. */
static struct image im;
static struct own_map own[OWN_MAX];
static unsigned own_count;
static char text[65536];
static char stack[STACK_BYTES] __attribute__((aligned(16), used));

static _Noreturn void leave(int code)
{
    for (;;)
        (void)CALL3(SYS_exit_group, code, 0, 0);
}

/* ---- what image_read.c and the compiler use of a C library ---------------
 */

/* Under the names of the C library, whose headers declare them. */
ssize_t own_pread(int fd, void *to, size_t len, off_t at) __asm__("pread");
int own_fstat(int fd, struct stat *ret) __asm__("fstat");
int own_uname(struct utsname *ret) __asm__("uname");
void *own_memcpy(void *to, const void *from, size_t len) __asm__("memcpy");
void *own_memset(void *to, int byte, size_t len) __asm__("memset");
int own_memcmp(const void *a, const void *b, size_t len) __asm__("memcmp");
size_t own_strnlen(const char *s, size_t most) __asm__("strnlen");
int *own_errno(void) __asm__("__errno_location");

static int last_error;

int *own_errno(void)
{
    return &last_error;
}

static long or_error(long r)
{
    if (r < 0)
        last_error = (int)-r;
    return r < 0 ? -1 : r;
}

ssize_t own_pread(int fd, void *to, size_t len, off_t at)
{
    return or_error(CALL4(SYS_pread64, fd, to, len, at));
}

int own_fstat(int fd, struct stat *ret)
{
    return (int)or_error(CALL3(SYS_fstat, fd, ret, 0));
}

int own_uname(struct utsname *ret)
{
    return (int)or_error(CALL3(SYS_uname, ret, 0, 0));
}

void *own_memcpy(void *to, const void *from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *own_memset(void *to, int byte, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((volatile char *)to)[i] = (char)byte;
    return to;
}

int own_memcmp(const void *a, const void *b, size_t len)
{
    const unsigned char *x = a, *y = b;

    for (size_t i = 0; i < len; i++)
        if (x[i] != y[i])
            return x[i] - y[i];
    return 0;
}

size_t own_strnlen(const char *s, size_t most)
{
    size_t n = 0;

    while (n < most && s[n])
        n++;
    return n;
}

/* ---- the image ---------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

/* Made on this host, by this build: the host is asked, the build is that of a
 * file that is mapped. */
static void read_image(void)
{
    struct image_head head;
    struct image_ids ids;
    void *room = (void *)(IMAGE_ROOM + AT_TABLES);

    if (pread(ZYGOTE_TABLES_FD, &head, sizeof(head), 0) !=
        (ssize_t)sizeof(head))
        leave(EXIT_NO_IMAGE);
    ids = head.ids;
    image_host_ids(&ids);
    if (memcmp(&ids, &head.ids, sizeof(ids)) != 0)
        leave(EXIT_OTHER_HOST);
    if (call6(SYS_mmap, (uint64_t)room, TABLES_BYTES, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                  MAP_FIXED_NOREPLACE,
              (uint64_t)-1, 0) != (long)(uint64_t)room)
        leave(EXIT_NO_ROOM);
    if (image_read(ZYGOTE_TABLES_FD, &ids, IMAGE_BYTES_MAX, room, TABLES_BYTES,
                   &im) != KERNEL_IMAGE_USABLE ||
        im.head.process.heap_bytes == 0)
        leave(EXIT_NO_IMAGE);
}

static const struct image_file *find_file(uint32_t path)
{
    for (uint32_t i = 0; i < im.head.file_count; i++)
        if (im.files[i].kind == IMAGE_FILE_SAME && im.files[i].path == path)
            return &im.files[i];
    return NULL;
}

static bool is_same(int fd, const struct image_file *f)
{
    struct stat st = {0};

    return f && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           st.st_ino == f->inode && (uint64_t)st.st_size == f->size &&
           st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec ==
               f->mtime_ns;
}

/* The program is given as a descriptor: this user may run it, not read it. */
static int open_same(uint32_t path)
{
    const struct image_file *f = find_file(path);
    long fd = CALL4(SYS_openat, AT_FDCWD, im.strings + path,
                    O_RDONLY | O_CLOEXEC, 0);

    if (fd == -EACCES)
        fd = CALL3(SYS_fcntl, ZYGOTE_PROGRAM_FD, F_DUPFD_CLOEXEC,
                   ZYGOTE_PROGRAM_FD + 1);
    if (fd < 0 || !is_same((int)fd, f))
        leave(EXIT_OTHER_FILE);
    return (int)fd;
}

/* Before anything is changed: then the warden knows at once. */
static void check_files(void)
{
    struct stat st = {0};

    for (uint32_t i = 0; i < im.head.file_count; i++)
        if (im.files[i].kind == IMAGE_FILE_SAME)
            (void)CALL3(SYS_close, open_same(im.files[i].path), 0, 0);
    if (fstat(ZYGOTE_HEAP_FD, &st) < 0 ||
        (uint64_t)st.st_size != im.head.process.heap_bytes)
        leave(EXIT_NO_IMAGE);
}

/* ---- this process ------------------------------------------------------- */

static const char *hex(const char *p, uint64_t *ret)
{
    uint64_t v = 0;

    for (;; p++) {
        if (*p >= '0' && *p <= '9')
            v = v << 4 | (uint64_t)(*p - '0');
        else if (*p >= 'a' && *p <= 'f')
            v = v << 4 | (uint64_t)(*p - 'a' + 10);
        else
            break;
    }
    *ret = v;
    return p;
}

/* Lines of /proc/self/maps: "start-end … [vdso]". */
static void read_own(void)
{
    long fd = CALL4(SYS_openat, AT_FDCWD, "/proc/self/maps",
                    O_RDONLY | O_CLOEXEC, 0);
    size_t len = 0;
    long n;

    while (fd >= 0 && len < sizeof(text) - 1 &&
           (n = CALL3(SYS_read, fd, text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)n;
    (void)CALL3(SYS_close, fd, 0, 0);
    for (const char *p = text; *p; p++) {
        struct own_map m = {0};
        bool name = false;

        p = hex(p, &m.start);
        p = hex(p + 1, &m.end);
        for (; *p && *p != '\n'; p++)
            if (p[0] == '[' && !name) {
                name = true;
                m.system = p[1] == 'v';
            }
        if (m.end > IMAGE_TOP)
            continue; /* vsyscall */
        if (m.start >= IMAGE_ROOM && m.end <= IMAGE_ROOM + IMAGE_ROOM_BYTES)
            continue;
        if (own_count == OWN_MAX)
            leave(EXIT_NO_ROOM);
        own[own_count++] = m;
        if (!*p)
            break;
    }
    if (own_count == 0)
        leave(EXIT_NO_ROOM);
}

static void move(uint64_t from, uint64_t bytes, uint64_t to)
{
    if (call6(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
              to, 0) != (long)to)
        leave(EXIT_NO_PLACE);
}

/* The vdso and its data to the room, and all else of this process away: the
 * image's places are free then. */
static void clear_away(void)
{
    uint64_t to = IMAGE_ROOM + AT_SYSTEM;
    uint32_t k = 0;

    for (unsigned i = 0; i < own_count; i++) {
        uint64_t bytes = own[i].end - own[i].start;

        if (!own[i].system) {
            (void)CALL3(SYS_munmap, own[i].start, bytes, 0);
            continue;
        }
        while (k < im.head.map_count && im.maps[k].kind != IMAGE_MAP_SYSTEM)
            k++;
        /* The same, in the same order, as the zygote had. */
        if (k == im.head.map_count ||
            im.maps[k].end - im.maps[k].start != bytes)
            leave(EXIT_OTHER_HOST);
        k++;
        move(own[i].start, bytes, to);
        own[i].start = to;
        own[i].end = to += bytes;
    }
}

static void map_fd(const struct image_map *m, int fd)
{
    int how = m->kind == IMAGE_MAP_SHARED_FILE ? MAP_SHARED : MAP_PRIVATE;

    if (call6(SYS_mmap, m->start, m->end - m->start, m->prot,
              (uint64_t)how | MAP_FIXED_NOREPLACE, (uint64_t)fd,
              m->offset) != (long)m->start)
        leave(EXIT_NO_PLACE);
}

/* As large as it may grow, for nothing keeps the place below it free. */
static void map_stack(const struct image_map *m, uint64_t below)
{
    struct image_map whole = *m;
    uint64_t room = m->end - MIN(m->end, STACK_ROOM);

    whole.start = MIN(m->start, MAX(room, below + IMAGE_ROOM_BYTES));
    image_place_anonymous(&whole);
}

static void map_all(void)
{
    unsigned k = 0;

    for (uint32_t i = 0; i < im.head.map_count; i++) {
        const struct image_map *m = &im.maps[i];

        if (m->kind == IMAGE_MAP_FILE || m->kind == IMAGE_MAP_SHARED_FILE) {
            int fd = open_same(m->path);

            map_fd(m, fd);
            (void)CALL3(SYS_close, fd, 0, 0);
        } else if (m->kind == IMAGE_MAP_HEAP) {
            map_fd(m, ZYGOTE_HEAP_FD);
        } else if (m->kind == IMAGE_MAP_SYSTEM) {
            while (k < own_count && !own[k].system)
                k++;
            if (k == own_count)
                leave(EXIT_OTHER_HOST);
            move(own[k].start, own[k].end - own[k].start, m->start);
            k++;
        } else if (m->kind == IMAGE_MAP_STACK) {
            map_stack(m, i ? im.maps[i - 1].end : 0);
        } else {
            image_place_anonymous(m);
        }
    }
}

/* ---- what an exec sets -------------------------------------------------- */

static void set_memory(const struct image_process *p, uint64_t brk)
{
    struct prctl_mm_map mm = {.start_code = p->code_start,
                              .end_code = p->code_end,
                              .start_data = p->data_start,
                              .end_data = p->data_end,
                              .start_brk = p->brk_start,
                              .brk = brk,
                              .start_stack = p->stack_start,
                              .arg_start = p->arg_start,
                              .arg_end = p->arg_end,
                              .env_start = p->env_start,
                              .env_end = p->env_end,
                              .auxv = (void *)p->auxv,
                              .auxv_size = p->auxv_bytes,
                              .exe_fd = (uint32_t)-1};

    if (call6(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, (uint64_t)&mm, sizeof(mm),
              0, 0) < 0 ||
        CALL3(SYS_brk, 0, 0, 0) != (long)brk)
        leave(EXIT_NO_BRK);
}

static void set_thread(const struct image_process *p)
{
    if (CALL3(SYS_arch_prctl, SET_FS, p->fs_base, 0) < 0)
        leave(EXIT_NO_PLACE);
    *(uint32_t *)p->tid_address =
        (uint32_t)CALL3(SYS_set_tid_address, p->tid_address, 0, 0);
    if (p->robust)
        (void)CALL3(SYS_set_robust_list, p->robust, p->robust_bytes, 0);
    /* cpu_id_start, cpu_id, rseq_cs and flags are for the host's kernel; a
     * thread that it does not register asks it for its processor. */
    if (p->rseq) {
        uint32_t *area = (uint32_t *)p->rseq;

        for (unsigned i = 0; i < 8; i++)
            area[i] = 0;
        area[1] = (uint32_t)-1;
        if (CALL4(SYS_rseq, p->rseq, p->rseq_bytes, 0, RSEQ_SIGNATURE) < 0)
            area[1] = (uint32_t)-2;
    }
    (void)CALL3(SYS_prctl, PR_SET_NAME, p->name, 0);
}

static __attribute__((used)) _Noreturn void revive(void)
{
    read_image();
    check_files();
    read_own();
    clear_away();
    map_all();
    set_memory(&im.head.process, im.head.brk);
    image_place_pages(&im, ZYGOTE_TABLES_FD);
    set_thread(&im.head.process);
    image_place_signals(&im.head);
    if (!same_text(im.strings + im.head.cwd, "/"))
        (void)CALL3(SYS_chdir, im.strings + im.head.cwd, 0, 0);
    (void)CALL3(SYS_close_range, ZYGOTE_TABLES_FD, ~0u, 0);
    image_context_load(&im.head.context);
}

/* Where the host's kernel begins. */
__asm__(".text\n"
        ".globl _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "  endbr64\n"
        "  xorl %ebp, %ebp\n"
        "  leaq stack+262144(%rip), %rsp\n"
        "  call revive\n"
        "  hlt\n"
        ".size _start, .-_start\n");
