/* Makes every call of the interface. Arguments: a new directory for the store, a directory with the
 * files `letter` and `other`, and a file on another file system or "". Says what went wrong, where. */
#include "holdfast_filemeta.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void expect(int line, const char *what, long long found, long long expected) {
    if (found != expected) {
        fprintf(stderr, "line %d: %s is %lld, not %lld; %s\n", line, what, found, expected, hfm_error());
        exit(1);
    }
}

#define IS(call, number) expect(__LINE__, #call, (long long)(call), (number))
#define OK(call) IS(call, HFM_OK)

static const uint8_t ID[16] = {7};

int main(int count, char **arguments) {
    if (count != 4) return 2;
    const char *root = arguments[1];
    hfm_store *store = (hfm_store *)&store;
    hfm_request *request;
    hfm_handle letter, other, away;
    char buffer[100];
    size_t length;
    uint64_t long_length;

    IS(strlen(hfm_error()), 0);
    IS(hfm_open(root, &store), HFM_NO_STORE);
    IS(store == NULL, 1);
    IS(strlen(hfm_error()) > 0, 1);
    IS(hfm_create(root, ID, "nonsense", &store), HFM_ATTRIBUTE_NAME);
    OK(hfm_create(root, ID, "trusted.hfm", &store));
    int dir = open(arguments[2], O_RDONLY | O_DIRECTORY);
    OK(hfm_handle_of(store, dir, "letter", &letter));
    OK(hfm_handle_of(store, dir, "other", &other));
    OK(hfm_handle_of(store, dir, "", &away));
    IS(hfm_handle_of(store, dir, "absent", &away), HFM_IO);
    IS(hfm_handle_of(store, -1, "letter", &away), HFM_MISUSE);
    if (arguments[3][0] != 0) IS(hfm_handle_of(store, AT_FDCWD, arguments[3], &away), HFM_MISUSE);

    /* Several changes as one, of two files. */
    OK(hfm_begin(store, &request));
    OK(hfm_put(request, &letter, 1, "twenty bytes and one", 20));
    OK(hfm_set_value(request, &letter, 2, "tiny", 4));
    OK(hfm_share(request, &letter, 3, "list", 4));
    OK(hfm_share(request, &other, 3, "list", 4));
    OK(hfm_set_value(request, &other, 4, NULL, 0));
    IS(hfm_put(request, &letter, 64, "x", 1), HFM_MISUSE);
    IS(hfm_put(request, &letter, 1, NULL, 1), HFM_MISUSE);
    IS(hfm_put(request, NULL, 1, "x", 1), HFM_MISUSE);
    length = sizeof buffer;
    IS(hfm_get(store, &letter, 1, buffer, &length), HFM_NO_SUCH_ENTRY);
    OK(hfm_commit(request));

    length = sizeof buffer;
    OK(hfm_get(store, &letter, 2, buffer, &length));
    IS(length == 4 && memcmp(buffer, "tiny", 4) == 0, 1);
    length = 3;
    IS(hfm_get(store, &letter, 2, buffer, &length), HFM_TOO_SMALL);
    IS(length, 4);
    length = 0;
    OK(hfm_get(store, &other, 4, NULL, &length));
    length = sizeof buffer;
    OK(hfm_get(store, &other, 3, buffer, &length));
    IS(length == 4 && memcmp(buffer, "list", 4) == 0, 1);
    OK(hfm_length(store, &letter, 1, &long_length));
    IS(long_length, 20);

    /* All or nothing: the second change cannot be made, so the first is not. */
    OK(hfm_begin(store, &request));
    OK(hfm_set_value(request, &letter, 2, "lost", 4));
    OK(hfm_patch(request, &letter, 1, 19, "beyond", 6));
    IS(hfm_commit(request), HFM_OUT_OF_RANGE);
    length = sizeof buffer;
    OK(hfm_get(store, &letter, 2, buffer, &length));
    IS(memcmp(buffer, "tiny", 4), 0);

    /* Abandoned: nothing. Submitted and flushed: there. */
    OK(hfm_begin(store, &request));
    OK(hfm_forget(request, &letter));
    IS(hfm_close(store), HFM_MISUSE);
    hfm_abandon(request);
    hfm_abandon(NULL);
    OK(hfm_begin(store, &request));
    OK(hfm_patch(request, &letter, 1, 7, "BYTES", 5));
    OK(hfm_resize(request, &letter, 1, 12));
    OK(hfm_clear(request, &other, 4));
    OK(hfm_submit(request));
    OK(hfm_flush(store));
    OK(hfm_read(store, &letter, 1, 7, buffer, 5));
    IS(memcmp(buffer, "BYTES", 5), 0);
    IS(hfm_read(store, &letter, 1, 7, buffer, 6), HFM_OUT_OF_RANGE);
    IS(hfm_read(store, &letter, 1, 0, NULL, 1), HFM_MISUSE);
    OK(hfm_close(store));
    OK(hfm_close(NULL));

    /* Another name, another process's start: the metadata is that of the file. */
    OK(renameat(dir, "letter", dir, "moved"));
    OK(hfm_open(root, &store));
    hfm_store *second = NULL;
    IS(hfm_open(root, &second), HFM_BUSY);
    OK(hfm_handle_of(store, dir, "moved", &letter));
    OK(hfm_read(store, &letter, 1, 0, buffer, 12));
    IS(memcmp(buffer, "twenty BYTES", 12), 0);
    OK(hfm_begin(store, &request));
    OK(hfm_reset(request, &other));
    OK(hfm_commit(request));
    length = sizeof buffer;
    IS(hfm_get(store, &other, 3, buffer, &length), HFM_NO_SUCH_ENTRY);
    letter.length = 0;
    IS(hfm_get(store, &letter, 1, buffer, &length), HFM_MISUSE);
    letter.length = 65;
    IS(hfm_length(store, &letter, 1, &long_length), HFM_MISUSE);

    /* Null everywhere. */
    IS(hfm_create(NULL, ID, "trusted.hfm", &store), HFM_MISUSE);
    IS(hfm_create(root, NULL, "trusted.hfm", &second), HFM_MISUSE);
    IS(hfm_open(root, NULL), HFM_MISUSE);
    IS(hfm_flush(NULL), HFM_MISUSE);
    IS(hfm_begin(store, NULL), HFM_MISUSE);
    IS(hfm_commit(NULL), HFM_MISUSE);
    IS(hfm_submit(NULL), HFM_MISUSE);
    IS(hfm_forget(NULL, &other), HFM_MISUSE);
    IS(hfm_handle_of(store, dir, NULL, &other), HFM_MISUSE);
    OK(hfm_close(store));
    printf("every call was made\n");
    return 0;
}
