/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glovebox-init: the zygote of images without a usable Python, a static
 * program that runs on any distribution. Started by the warden inside the
 * image's root, with the descriptors of wire/zygote_msg.h; see kernel/plain.c.
 */
#include "kernel/kernel.h"
#include "wire/zygote_msg.h"

int main(void)
{
    plain_zygote_run(ZYGOTE_SOCKET_FD, ZYGOTE_SPEC_FD);
}
