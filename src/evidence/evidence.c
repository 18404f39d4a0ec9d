/* SPDX-License-Identifier: Apache-2.0 */
#include "evidence/evidence.h"
void evidence_record(struct evidence *ev, const struct evidence_run *run)
{
    (void)ev;
    (void)run;
}
int evidence_open(const struct evidence_settings *settings,
                  struct store *store, struct audit *audit,
                  struct evidence **ret, struct error *err)
{
    (void)settings;
    (void)store;
    (void)audit;
    (void)err;
    *ret = 0;
    return 0;
}
void evidence_close(struct evidence *ev)
{
    (void)ev;
}
