/* The log of an in-memory database: the C interface of Holdfast's vlog.
 *
 * The database keeps its data in memory. For each entry it appends a record, keeps the record's
 * position (6 bytes) beside the entry, and names that position when it replaces or deletes the entry.
 * After a crash hvl_open hands back each live record once. Dead records are dropped beside the work;
 * positions never change while the log is open.
 *
 * Every call that returns int returns 0 or one of the numbers below, which never change their
 * meaning; hvl_error() then says in words what happened. Unless a number says otherwise nothing was
 * changed. A pointer is null (HVL_MISUSE) or points to what is asked for; a pointer to bytes may be
 * null where their number is 0.
 *
 * Calls on one log may come from several threads at once, except hvl_close. One process has a log
 * open at a time (HVL_BUSY); a log is not used in the child of a fork.
 */
#ifndef HOLDFAST_VLOG_H
#define HOLDFAST_VLOG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HVL_OK 0
#define HVL_OPTION 1       /* an option is out of range */
#define HVL_EXISTS 2       /* there is one where one was to be made */
#define HVL_MISSING 3      /* there is none where one was to be opened */
#define HVL_BUSY 4         /* another process has it open */
#define HVL_FOREIGN 5      /* a directory is another log's, or in another's place */
#define HVL_DIRECTORIES 6  /* the log has more or fewer directories */
#define HVL_VERSION 7      /* written by a newer version */
#define HVL_TOO_LONG 8
#define HVL_NOT_LIVE 9     /* the position names no live record */
#define HVL_SEGMENTS 10    /* live records in 2^24 segments */
#define HVL_FULL 11        /* the disk is full: what was appended waits in memory, appends are refused */
#define HVL_STOPPED 12     /* a write failed: close, and open again to recover */
#define HVL_IO 13          /* a file operation failed: see hvl_error */
#define HVL_CORRUPT 14     /* found by checksum: see hvl_error for file and place */
#define HVL_LOST 15        /* a file is gone: see hvl_error */
#define HVL_MISUSE 100     /* an argument that no call can work with */
#define HVL_PANIC 101      /* a bug in the library: the log takes no more calls but hvl_close */

typedef struct hvl_log hvl_log;

/* Where a record is, as long as the log is open and the record live. */
typedef struct {
    uint8_t bytes[6];
} hvl_position;

/* What to wait for until a change is durable. */
typedef struct {
    uint32_t lane;
    uint64_t number;
} hvl_receipt;

#define HVL_SYNC_ALWAYS 0 /* as soon as there is something to sync, never on the calling thread */
#define HVL_SYNC_EVERY 1  /* every sync_ms milliseconds */
#define HVL_SYNC_NEVER 2  /* when the system likes to */

typedef struct {
    uint32_t lanes;              /* files written at once; stream s goes to lane s % lanes */
    uint32_t sync;               /* HVL_SYNC_... */
    uint32_t sync_ms;
    uint32_t dead_percent_min;   /* a file is compacted when so much of it is dead, 1 to 100 */
    uint32_t recovery_threads;
    uint32_t reserved;           /* 0 */
    uint64_t segment_bytes;
    uint64_t pending_bytes_max;  /* of a lane, before an append waits for the disk */
    uint64_t compaction_bytes_per_s_max; /* 0 for no bound */
} hvl_options;

/* One change of a group. */
typedef struct {
    uint32_t stream;
    uint32_t kill;               /* 0: append payload, in place of position if replaces is not 0;
                                    1: kill position */
    uint32_t replaces;
    uint32_t reserved;           /* 0 */
    const uint8_t *payload;
    size_t length;
    hvl_position position;       /* of an append, after the call: the new record's */
} hvl_change;

typedef struct {
    uint64_t records_live;
    uint64_t records;
    uint64_t files;
    uint64_t bytes;
    uint64_t bytes_pending;
    uint64_t tracking_bytes;     /* memory, besides the positions */
    uint64_t bytes_written;
    uint64_t syncs;
    uint64_t compactions;
    uint64_t compacted_bytes_read;
    uint64_t compacted_bytes_written;
    uint64_t refuses;            /* not 0: appends are refused now */
} hvl_status;

/* Takes a live record; called from recovery_threads threads at once, in no order. Of two records of one
 * stream the later has the larger order. payload is good until it returns. */
typedef void (*hvl_sink)(void *context, uint32_t stream, hvl_position position, uint64_t order,
                         const uint8_t *payload, size_t length);

/* Why this thread's last call that failed did; empty before the first. Valid until its next call. */
const char *hvl_error(void);

/* Fills in what is usual: one lane, synced every second. */
int hvl_options_default(hvl_options *options);

/* Makes an empty log called name in directories that exist (best one on each disk; the first has the
 * manifest), durably. */
int hvl_create(const char *name, const char *const *directories, size_t count);

/* Opens a log with all its directories, in their order, and calls sink (null: nobody) for every live
 * record. options may be null. Where something is damaged the log is left as it is. *log is null after
 * a failure. */
int hvl_open(const char *name, const char *const *directories, size_t count,
             const hvl_options *options, hvl_sink sink, void *context, hvl_log **log);

/* Makes everything durable and closes. The log is gone after every result. Null is fine. */
int hvl_close(hvl_log *log);

/* Appends a record, in place of the one at replaces if that is not null: the record of the same entry on the
 * same stream. (An entry of another stream that goes away with it is a kill in the same group.) Does no I/O unless
 * pending_bytes_max bytes wait. receipt may be null. */
int hvl_append(hvl_log *log, uint32_t stream, const uint8_t *payload, size_t length,
               const hvl_position *replaces, hvl_position *position, hvl_receipt *receipt);

/* The record at position is dead from now on. stream: that of its entry.
 * receipt may be null. */
int hvl_kill(hvl_log *log, uint32_t stream, const hvl_position *position, hvl_receipt *receipt);

/* Makes all changes or none, also after a crash, on any number of streams. receipt may be null. */
int hvl_group(hvl_log *log, hvl_change *changes, size_t count, hvl_receipt *receipt);

/* Returns when the change would survive any crash. */
int hvl_durable(hvl_log *log, const hvl_receipt *receipt);

/* Whether it would now: *durable is 0 or 1. */
int hvl_is_durable(hvl_log *log, const hvl_receipt *receipt, int *durable);

/* Compacts once what has so many percent dead; *compacted is 0 where nothing has. compacted may be null. */
int hvl_compact(hvl_log *log, uint32_t dead_percent_min, int *compacted);

int hvl_status_of(hvl_log *log, hvl_status *status);

#ifdef __cplusplus
}
#endif

#endif
