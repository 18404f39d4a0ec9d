/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System V objects outlive who made them, and what they hold counts as the
 * session's memory; an interpreter that died of too much of it could not be
 * followed by a fresh one. Runs in a session's pid 1, when nothing else lives.
 */
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include "kernel/kernel_int.h"

union semun { /* as semctl(2) has its callers define it */
    int val;
    struct semid_ds *buf;
    struct seminfo *info;
};

void init_forget_ipc(void)
{
    struct shm_info shm;
    struct shmid_ds shm_one;
    struct msginfo msg;
    struct msqid_ds msg_one;
    struct seminfo sem;
    struct semid_ds sem_one;
    int last;

    /* The highest index in use, or -1; what is gone meanwhile is gone. */
    last = shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&shm);
    for (int i = 0; i <= last; i++) {
        int id = shmctl(i, SHM_STAT, &shm_one);

        if (id >= 0)
            (void)shmctl(id, IPC_RMID, NULL);
    }
    last = msgctl(0, MSG_INFO, (struct msqid_ds *)(void *)&msg);
    for (int i = 0; i <= last; i++) {
        int id = msgctl(i, MSG_STAT, &msg_one);

        if (id >= 0)
            (void)msgctl(id, IPC_RMID, NULL);
    }
    last = semctl(0, 0, SEM_INFO, (union semun){.info = &sem});
    for (int i = 0; i <= last; i++) {
        int id = semctl(i, 0, SEM_STAT, (union semun){.buf = &sem_one});

        if (id >= 0)
            (void)semctl(id, 0, IPC_RMID);
    }
}
