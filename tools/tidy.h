/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put in front of every file by `make lint-tidy`, never compiled: tells the
 * analyzer, which looks at one file at a time, that failing returns less than
 * zero and that the x-allocators never return NULL. Without it a value set
 * only on success looks uninitialised after each checked call.
 */
#include <stddef.h>

#include "base/error.h"
#include "base/mem.h"

#define error_set(...) ((void)error_set(__VA_ARGS__), -1)
#define error_errno(...) ((void)error_errno(__VA_ARGS__), -1)
#define error_wrap(...) ((void)error_wrap(__VA_ARGS__), -1)
#define error_hint(...) ((void)error_hint(__VA_ARGS__), -1)
#define error_retry(...) ((void)error_retry(__VA_ARGS__), -1)

void *xmalloc(size_t size) __attribute__((returns_nonnull));
void *xcalloc(size_t count, size_t size) __attribute__((returns_nonnull));
void *xrealloc(void *old, size_t size) __attribute__((returns_nonnull));
