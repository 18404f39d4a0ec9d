/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs other than the Python extension use of kernel/.
 */
#ifndef GLOVEBOX_KERNEL_KERNEL_H
#define GLOVEBOX_KERNEL_KERNEL_H

/* plain.c: the whole life of a zygote for an image without a usable Python,
 * and in a session that of its kernel. sock, spec_fd: as zygote_msg.h has
 * them. */
_Noreturn void plain_zygote_run(int sock, int spec_fd);

#endif
