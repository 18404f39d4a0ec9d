/* SPDX-License-Identifier: Apache-2.0 */
/* How soon this process gets the processor when it has something to do. */
#ifndef GLOVEBOX_BASE_SCHED_H
#define GLOVEBOX_BASE_SCHED_H

/* From now on this thread, and those it makes, go before ordinary ones, in
 * short turns: for those who answer. Only what the caller may have is taken;
 * the rest is left, without an error. */
void sched_prompt(void);
/* From now on this thread goes behind the others of its process: for work
 * that has time. */
void sched_patient(void);
/* As it was before, for a child that runs somebody else's code. */
void sched_usual(void);

#endif
