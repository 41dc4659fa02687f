/* Custom metadata of files: the C interface of Holdfast's filemeta.
 *
 * A store is a directory with metadata for the files of the file system that it is on (ext4, XFS,
 * btrfs), whatever their names are. A request changes metadata of any number of files as one: after
 * a crash all of it is there, or nothing.
 *
 * Every call that returns int returns 0 or one of the numbers below, which never change their
 * meaning; hfm_error() then says in words what happened. Unless a number says otherwise nothing was
 * changed. A pointer is null (HFM_MISUSE) or points to what is asked for; a pointer to bytes may be
 * null where their number is 0.
 *
 * Calls on one store may come from several threads at once, except hfm_close. A request is used by
 * one thread at a time. One process has a store open at a time (HFM_BUSY); a store and its requests
 * are not used in the child of a fork. CAP_DAC_READ_SEARCH and, for an attribute in trusted.*,
 * CAP_SYS_ADMIN are needed.
 */
#ifndef HOLDFAST_FILEMETA_H
#define HOLDFAST_FILEMETA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HFM_OK 0
#define HFM_NO_HANDLES 1         /* the file system has no file handles, or they are not allowed */
#define HFM_HANDLE_TOO_LONG 2
#define HFM_NO_STORE 3           /* there is none where one was to be opened */
#define HFM_EXISTS 4             /* there is one where one was to be made */
#define HFM_BUSY 5               /* another process has it open */
#define HFM_WRONG_STORE 6
#define HFM_STORE_CORRUPT 7
#define HFM_ATTRIBUTE_NAME 8     /* not trusted.NAME, user.NAME or security.NAME of at most 63 bytes */
#define HFM_OWNER_GONE 9         /* the file was removed */
#define HFM_FOREIGN 10           /* the attribute came with a copy of another file: hfm_reset */
#define HFM_ATTRIBUTE_CORRUPT 11 /* hfm_reset */
#define HFM_NO_SUCH_ENTRY 12     /* nothing under that tag */
#define HFM_WRONG_KIND 13        /* the tag stands for metadata of another kind */
#define HFM_MISSING 14           /* the metadata's own file is gone */
#define HFM_OTHER_STORE 15
#define HFM_CORRUPT 16           /* found by checksum; never wrong bytes */
#define HFM_OUT_OF_RANGE 17
#define HFM_TOO_LONG 18
#define HFM_NO_ATTRIBUTE_SPACE 19
#define HFM_NO_SPACE 20
#define HFM_JOURNAL_FULL 21
#define HFM_STOPPED 22           /* a write failed: close, and open again to recover */
#define HFM_LOG 23               /* the journal: see hfm_error */
#define HFM_RECORD 24
#define HFM_IO 25                /* a file operation failed: see hfm_error */
#define HFM_MISUSE 100           /* an argument that no call can work with */
#define HFM_TOO_SMALL 101        /* the buffer; *length says what is needed */
#define HFM_PANIC 102            /* a bug in the library: the store takes no more calls but hfm_close */

typedef struct hfm_store hfm_store;
typedef struct hfm_request hfm_request;

/* A file, whatever its name is. Filled by hfm_handle_of; may be copied and kept on a disk. */
typedef struct {
    uint8_t length;
    uint8_t bytes[64];
} hfm_handle;

/* Why this thread's last call that failed did; empty before the first. Valid until its next call. */
const char *hfm_error(void);

/* Makes an empty store in the directory root, which is made if it is missing (its parent has to be
 * there), and opens it. id: 16 bytes that no other store has. attribute: the extended attribute that
 * every file with metadata gets, such as "trusted.hfm". *store is null after a failure. */
int hfm_create(const char *root, const uint8_t id[16], const char *attribute, hfm_store **store);

/* Opens the store in root, and ends what a crash has cut. Open notes, which only Rust programs make,
 * stay open. */
int hfm_open(const char *root, hfm_store **store);

/* Brings everything into the files and closes. The store is gone after every result but HFM_MISUSE:
 * then requests are open on it. Null is fine. */
int hfm_close(hfm_store *store);

/* Makes what was submitted durable. */
int hfm_flush(hfm_store *store);

/* The file of that name in the open directory dir, or AT_FDCWD; with the name "" dir itself. A
 * symbolic link is not followed. HFM_MISUSE for a file on another file system than the store. */
int hfm_handle_of(hfm_store *store, int dir, const char *name, hfm_handle *handle);

/* All metadata of a tag, 0 to 63. *length: bytes of the buffer before, of the metadata after the
 * call, also after HFM_TOO_SMALL. */
int hfm_get(hfm_store *store, const hfm_handle *file, uint8_t tag, void *buffer, size_t *length);

/* Bytes of the linked metadata (hfm_put) of a tag. */
int hfm_length(hfm_store *store, const hfm_handle *file, uint8_t tag, uint64_t *length);

/* Part of the linked metadata of a tag: all length bytes from offset, or HFM_OUT_OF_RANGE. After a
 * failure the buffer holds zeros or part of the metadata. */
int hfm_read(hfm_store *store, const hfm_handle *file, uint8_t tag, uint64_t offset, void *buffer,
             size_t length);

/* Begins a request. It ends with hfm_commit, hfm_submit or hfm_abandon, and is gone then. */
int hfm_begin(hfm_store *store, hfm_request **request);

/* The following are noted, and happen in this order when the request is committed or submitted.
 * What is wrong with them is told then, but for HFM_MISUSE. */

/* A tiny value, up to 255 bytes, kept in the file's attribute. */
int hfm_set_value(hfm_request *request, const hfm_handle *file, uint8_t tag, const void *value,
                  size_t length);
/* Linked metadata, up to 1 GiB: makes it or replaces it. */
int hfm_put(hfm_request *request, const hfm_handle *file, uint8_t tag, const void *content,
            size_t length);
/* Bytes inside linked metadata. */
int hfm_patch(hfm_request *request, const hfm_handle *file, uint8_t tag, uint64_t offset,
              const void *content, size_t length);
/* Cuts linked metadata, or makes it longer with zeros. */
int hfm_resize(hfm_request *request, const hfm_handle *file, uint8_t tag, uint64_t length);
/* Metadata that is kept once for all files with the same, such as an access control list. */
int hfm_share(hfm_request *request, const hfm_handle *file, uint8_t tag, const void *content,
              size_t length);
/* Removes the metadata of a tag, whatever it is; nothing where there is none. */
int hfm_clear(hfm_request *request, const hfm_handle *file, uint8_t tag);
/* Removes all metadata of a file, as before the file is removed. */
int hfm_forget(hfm_request *request, const hfm_handle *file);
/* Lets go of an attribute that is damaged or another file's: the file has no metadata then. */
int hfm_reset(hfm_request *request, const hfm_handle *file);

/* Makes the changes, all or none; durable when it returns 0. After HFM_STOPPED the next hfm_open
 * decides whether they are there. */
int hfm_commit(hfm_request *request);
/* Makes the changes, all or none, for everybody to see; durable with the next hfm_commit of anybody,
 * or hfm_flush. */
int hfm_submit(hfm_request *request);
/* Makes no change. Null is fine. */
void hfm_abandon(hfm_request *request);

#ifdef __cplusplus
}
#endif

#endif
