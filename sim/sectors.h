/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SECTORS_H
#define SIM_SECTORS_H

/* What is beneath the log of a simulation: a file system of one folder, and a disk that has sectors
 * of 512 bytes. The log in files (store/log_file.h) is the real one; the linker leads its calls of
 * open, pwrite, fsync and so on here (sim/meson.build), where those for files in SECTORS_DIR end.
 *
 * The model: what is written lies with the system first, and comes to the disk sector by sector, in
 * any order, whenever it likes. A sync, or a write to a file opened with O_DSYNC, returns when it
 * is there. A name comes to the disk by the sync of the folder. When the process dies, everything
 * that the system has stays, and of the call that was under way some sectors. When the power fails,
 * of all that was not synced each sector and each name is as before or as after. A write that fails
 * leaves some sectors written; a sync that fails leaves the others with the system, which believes
 * from then on that the disk has them.
 *
 * One disk at a time; all that is left to chance follows from the seed. */

#include <stdbool.h>
#include <stdint.h>

#define SECTORS_DIR "/sectors"

void sectors_begin(uint64_t seed);
void sectors_end(void);
/* The process dies in the middle of its count-th write or sync from now on; 0: it does not. What it
 * does after that has no effect on the disk that sectors_crash leaves. */
void sectors_die_at(unsigned count);
/* Whether it has come to that. */
bool sectors_died(void);
/* The end of the process, which has closed its files; with `power` of the machine. */
void sectors_crash(bool power);
/* The count-th write or sync from now on fails with this errno; with `keep` its effect is there
 * nevertheless. 0: none. */
void sectors_fail_at(unsigned count, int no, bool keep);
/* The system brings everything to the disk. */
void sectors_write_back(void);
/* A disk that had a sector and has it no more, of those that are not empty: it reads as zeros; as
 * before its last write; that write came to another sector instead; or it and another one have
 * changed places. Or a whole file has its name no more. */
enum sectors_fault {
    SECTORS_LOST,
    SECTORS_STALE,
    SECTORS_MISDIRECTED,
    SECTORS_SWAPPED,
    SECTORS_FILE_LOST
};
#define SECTORS_FAULTS 5
/* Does so to one that chance chooses, until sectors_mend; only who reads may come between. */
void sectors_spoil(enum sectors_fault fault);
void sectors_mend(void);
/* Writes and syncs since sectors_begin. */
uint64_t sectors_calls(void);

#endif
