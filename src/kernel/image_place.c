/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the parts of an image in place, by system calls alone: the C library's
 * memory may be what is being replaced. Part of the extension (image_wake.c)
 * and of glovebox-revive (revive.c). A failure ends the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/mem.h"
#include "kernel/image.h"
#include "kernel/raw_call.h"

#define EXIT_LOST 71 /* the image could not be put in place */

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

void image_lost(int where)
{
    for (;;)
        (void)CALL3(SYS_exit_group, EXIT_LOST + where, 0, 0);
}

/* ---- the context -------------------------------------------------------- */

/* Offsets of struct image_context. */
__asm__(".text\n"
        ".globl image_context_save\n"
        ".hidden image_context_save\n"
        ".type image_context_save, @function\n"
        "image_context_save:\n"
        "  endbr64\n"
        "  movq %rbx, 0(%rdi)\n"
        "  movq %rbp, 8(%rdi)\n"
        "  movq %r12, 16(%rdi)\n"
        "  movq %r13, 24(%rdi)\n"
        "  movq %r14, 32(%rdi)\n"
        "  movq %r15, 40(%rdi)\n"
        "  leaq 8(%rsp), %rax\n"
        "  movq %rax, 48(%rdi)\n"
        "  movq (%rsp), %rax\n"
        "  movq %rax, 56(%rdi)\n"
        "  stmxcsr 64(%rdi)\n"
        "  fnstcw 68(%rdi)\n"
        "  xorl %eax, %eax\n"
        "  ret\n"
        ".size image_context_save, .-image_context_save\n"
        ".globl image_context_load\n"
        ".hidden image_context_load\n"
        ".type image_context_load, @function\n"
        "image_context_load:\n"
        "  endbr64\n"
        "  movq 0(%rdi), %rbx\n"
        "  movq 8(%rdi), %rbp\n"
        "  movq 16(%rdi), %r12\n"
        "  movq 24(%rdi), %r13\n"
        "  movq 32(%rdi), %r14\n"
        "  movq 40(%rdi), %r15\n"
        "  movq 48(%rdi), %rsp\n"
        "  ldmxcsr 64(%rdi)\n"
        "  fldcw 68(%rdi)\n"
        "  movl $1, %eax\n"
        "  jmpq *56(%rdi)\n"
        ".size image_context_load, .-image_context_load\n");

/* ---- memory ------------------------------------------------------------- */

void image_place_file(const struct image *im, const struct image_map *m)
{
    bool shared = m->kind == IMAGE_MAP_SHARED_FILE;
    int how = shared && m->prot & PROT_WRITE ? O_RDWR : O_RDONLY;
    long fd =
        CALL4(SYS_openat, AT_FDCWD, im->strings + m->path, how | O_CLOEXEC, 0);

    if (fd < 0)
        image_lost(2);
    if (call6(SYS_mmap, m->start, m->end - m->start, m->prot,
              (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED, (uint64_t)fd,
              m->offset) != (long)m->start)
        image_lost(3);
    (void)CALL3(SYS_close, fd, 0, 0);
}

void image_place_anonymous(const struct image_map *m)
{
    uint64_t len = m->end - m->start;
    int how = m->kind == IMAGE_MAP_SHARED_ANON ? MAP_SHARED
              : m->kind == IMAGE_MAP_DROPPABLE ? MAP_DROPPABLE
                                               : MAP_PRIVATE;
    long r;

    if (m->kind == IMAGE_MAP_STACK)
        how |= MAP_GROWSDOWN;
    how |= MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE;
    r = call6(SYS_mmap, m->start, len, m->prot, (uint64_t)how, (uint64_t)-1,
              0);
    if (r != (long)m->start && m->kind == IMAGE_MAP_DROPPABLE)
        r = call6(SYS_mmap, m->start, len, m->prot,
                  MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, (uint64_t)-1, 0);
    if (r != (long)m->start)
        image_lost(4);
    if ((m->kind == IMAGE_MAP_WIPED || m->kind == IMAGE_MAP_DROPPABLE) &&
        CALL3(SYS_madvise, m->start, len, MADV_WIPEONFORK) < 0 &&
        m->kind == IMAGE_MAP_WIPED)
        image_lost(5);
}

static void read_run(int image, const struct image_run *run,
                     const struct image_map *m, uint64_t at)
{
    uint64_t len = run->pages * IMAGE_PAGE, to = run->start;
    bool lazy = run->lazy && m->kind == IMAGE_MAP_ANON;

    if (lazy) {
        if (call6(SYS_mmap, to, len, m->prot, MAP_PRIVATE | MAP_FIXED,
                  (uint64_t)image, at) != (long)to)
            image_lost(7);
        return;
    }
    if (!(m->prot & PROT_WRITE) &&
        CALL3(SYS_mprotect, to, len, m->prot | PROT_READ | PROT_WRITE) < 0)
        image_lost(8);
    while (len > 0) {
        long n = CALL4(SYS_pread64, image, to, len, at);

        if (n == -EINTR)
            continue;
        if (n == -EFAULT) /* a guard page, which older kernels report */
            n = (long)IMAGE_PAGE;
        if (n <= 0)
            image_lost(9);
        to += (uint64_t)n;
        at += (uint64_t)n;
        len -= (uint64_t)n;
    }
    if (!(m->prot & PROT_WRITE) &&
        CALL3(SYS_mprotect, run->start, run->pages * IMAGE_PAGE, m->prot) < 0)
        image_lost(10);
}

void image_place_pages(const struct image *im, int image)
{
    uint64_t at = image_pages_at(&im->head);
    uint32_t m = 0;

    for (uint32_t i = 0; i < im->head.run_count; i++) {
        while (im->maps[m].end <= im->runs[i].start)
            m++;
        read_run(image, &im->runs[i], &im->maps[m], at);
        at += im->runs[i].pages * IMAGE_PAGE;
    }
}

/* ---- the rest of a process ---------------------------------------------- */

void image_place_signals(const struct image_head *h)
{
    struct {
        uint64_t sp;
        int32_t flags, unused;
        uint64_t size;
    } alt = {h->altstack, (int32_t)h->altstack_flags, 0, h->altstack_bytes};

    (void)CALL3(SYS_umask, h->umask, 0, 0);
    for (uint64_t i = 0; i < IMAGE_SIGNALS; i++)
        (void)CALL4(SYS_rt_sigaction, i + 1, &h->signals[i], 0, 8);
    (void)CALL3(SYS_sigaltstack, &alt, 0, 0);
    (void)CALL4(SYS_rt_sigprocmask, SIG_SETMASK, &h->signal_mask, 0, 8);
}
