/* A small database of numbered counters that survives its own end, and an example of every call.
 * Arguments: two directories for the log, and how often this was run on them before. */
#include "holdfast_vlog.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTERS 100

static void expect(int line, const char *what, long long found, long long expected) {
    if (found != expected) {
        fprintf(stderr, "line %d: %s is %lld, not %lld; %s\n", line, what, found, expected, hvl_error());
        exit(1);
    }
}

#define IS(call, number) expect(__LINE__, #call, (long long)(call), (number))
#define OK(call) IS(call, HVL_OK)

/* An entry: what is in memory, and where its record is. */
typedef struct {
    int used;
    uint64_t value;
    hvl_position position;
} counter;

typedef struct {
    pthread_mutex_t lock;
    counter counters[COUNTERS];
    int found;
} database;

/* A record is the counter's number and its value. */
typedef struct {
    uint32_t number;
    uint32_t reserved;
    uint64_t value;
} record;

static void take(void *context, uint32_t stream, hvl_position position, uint64_t order,
                 const uint8_t *payload, size_t length) {
    database *db = context;
    record found;
    IS(length, (long long)sizeof found);
    IS(order > 0, 1);
    memcpy(&found, payload, sizeof found);
    IS(found.number % 8, stream);
    pthread_mutex_lock(&db->lock);
    IS(db->counters[found.number].used, 0);
    db->counters[found.number] = (counter){1, found.value, position};
    db->found += 1;
    pthread_mutex_unlock(&db->lock);
}

static void add(hvl_log *log, database *db, uint32_t number, hvl_receipt *receipt) {
    counter *at = &db->counters[number];
    record now = {number, 0, at->value + 1};
    hvl_position position;
    OK(hvl_append(log, number % 8, (const uint8_t *)&now, sizeof now, at->used ? &at->position : NULL,
                  &position, receipt));
    *at = (counter){1, now.value, position};
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    const char *directories[] = {arguments[1], arguments[2]};
    int before = atoi(arguments[3]);
    static database db;
    pthread_mutex_init(&db.lock, NULL);
    hvl_log *log = (hvl_log *)&log;
    hvl_log *second;
    hvl_options options;
    hvl_receipt receipt;
    hvl_status status;
    int yes = -1;

    OK(hvl_options_default(&options));
    IS(options.sync, HVL_SYNC_EVERY);
    options.lanes = 2;
    options.segment_bytes = 4096;
    options.sync = HVL_SYNC_ALWAYS;
    if (before == 0) {
        IS(strlen(hvl_error()), 0);
        IS(hvl_open("db", directories, 2, &options, take, &db, &log), HVL_MISSING);
        IS(log == NULL, 1);
        IS(strlen(hvl_error()) > 0, 1);
        OK(hvl_create("db", directories, 2));
    }
    IS(hvl_create("db", directories, 2), HVL_EXISTS);
    IS(hvl_open("db", directories, 1, &options, take, &db, &log), HVL_DIRECTORIES);
    options.lanes = 0;
    IS(hvl_open("db", directories, 2, &options, take, &db, &log), HVL_OPTION);
    options.lanes = 2;
    OK(hvl_open("db", directories, 2, &options, take, &db, &log));
    IS(hvl_open("db", directories, 2, NULL, NULL, NULL, &second), HVL_BUSY);
    IS(db.found, before == 0 ? 0 : COUNTERS - 1);
    for (uint32_t number = 1; number < COUNTERS; number++) IS(db.counters[number].value, before * 50);

    for (int round = 0; round < 49; round++) {
        for (uint32_t number = 0; number < COUNTERS; number++) add(log, &db, number, &receipt);
        OK(hvl_durable(log, &receipt));
        OK(hvl_is_durable(log, &receipt, &yes));
        IS(yes, 1);
    }
    /* The last round as one change, on both lanes; counter 0 goes. */
    static hvl_change changes[COUNTERS];
    static record records[COUNTERS];
    for (uint32_t number = 0; number < COUNTERS; number++) {
        counter *at = &db.counters[number];
        records[number] = (record){number, 0, at->value + 1};
        changes[number] = (hvl_change){.stream = number % 8,
                                       .kill = number == 0,
                                       .replaces = 1,
                                       .payload = (const uint8_t *)&records[number],
                                       .length = sizeof(record),
                                       .position = at->position};
    }
    OK(hvl_group(log, changes, COUNTERS, &receipt));
    OK(hvl_durable(log, &receipt));
    IS(hvl_kill(log, 0, &db.counters[0].position, NULL), HVL_NOT_LIVE);
    hvl_position extra;
    OK(hvl_append(log, 3, NULL, 0, NULL, &extra, NULL));
    OK(hvl_kill(log, 3, &extra, &receipt));
    do OK(hvl_compact(log, 50, &yes));
    while (yes);
    OK(hvl_status_of(log, &status));
    IS(status.records_live, COUNTERS - 1);
    IS(status.refuses, 0);
    IS(status.compactions > 0, 1);
    IS(hvl_append(log, 1, NULL, 7, NULL, &extra, NULL), HVL_MISUSE);
    IS(hvl_append(NULL, 1, NULL, 0, NULL, &extra, NULL), HVL_MISUSE);
    IS(hvl_group(log, NULL, 1, NULL), HVL_MISUSE);
    OK(hvl_close(log));
    OK(hvl_close(NULL));
    puts("every call was made");
    return 0;
}
