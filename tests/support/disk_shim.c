/* Preloaded into a process: notes what it writes under DISK_SHIM_DIR and when that is synced, in order with what it says on its
 * standard output, in the file DISK_SHIM_LOG. While the file DISK_SHIM_FAIL is there, every sync fails with EIO; while the file
 * DISK_SHIM_FAIL_READS is there, every read does, where that file is empty only behind the first page. While the file
 * DISK_SHIM_READ_ONLY is there, the folder is on a file system that was remounted read-only: what would change it fails with EROFS.
 *
 * One note: op (1 byte), offset (8), length of the path (4), length of the data (4), path, data; numbers as the machine has them.
 * A write is noted before it is done, a sync after: what a note of a sync covers is on the disk, whatever came in between.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FIRST_PAGE 4096

static int note_fd = -1;
static const char *folder, *failing, *failing_reads, *read_only;
static size_t folder_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fsync)(int), (*real_fdatasync)(int);

__attribute__((constructor)) static void begin(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_read = dlsym(RTLD_NEXT, "read");
    real_pread = dlsym(RTLD_NEXT, "pread64");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    folder = getenv("DISK_SHIM_DIR");
    failing = getenv("DISK_SHIM_FAIL");
    failing_reads = getenv("DISK_SHIM_FAIL_READS");
    read_only = getenv("DISK_SHIM_READ_ONLY");
    folder_bytes = folder ? strlen(folder) : 0;
    if (getenv("DISK_SHIM_LOG")) note_fd = open(getenv("DISK_SHIM_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
}

/* The path behind fd, in path; 0 when it is not under the folder. */
static int is_ours(int fd, char *path, size_t size) {
    char link[64];
    if (note_fd < 0 || !folder) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, size - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    return strncmp(path, folder, folder_bytes) == 0;
}

static void note(char op, uint64_t offset, const char *path, const void *data, uint32_t bytes) {
    uint32_t path_bytes = strlen(path);
    char head[17];
    head[0] = op;
    memcpy(head + 1, &offset, 8);
    memcpy(head + 9, &path_bytes, 4);
    memcpy(head + 13, &bytes, 4);
    struct iovec parts[3] = {{head, 17}, {(void *)path, path_bytes}, {(void *)data, bytes}};
    pthread_mutex_lock(&lock);
    if (writev(note_fd, parts, 3) < 0) abort();
    pthread_mutex_unlock(&lock);
}

/* Whether what would change path fails; errno says why. */
static int is_kept(const char *path) {
    if (!read_only || !folder || strncmp(path, folder, folder_bytes) != 0 || access(read_only, F_OK) != 0) return 0;
    errno = EROFS;
    return 1;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t offset) {
    char path[4096];
    int ours = is_ours(fd, path, sizeof path);
    if (ours && is_kept(path)) return -1;
    if (ours) note('w', offset, path, data, bytes);
    return real_pwrite(fd, data, bytes, offset);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) { return pwrite64(fd, data, bytes, offset); }

static int is_unreadable(int fd, off_t offset) {
    char path[4096];
    struct stat status;
    if (!failing_reads || !is_ours(fd, path, sizeof path) || stat(failing_reads, &status) != 0) return 0;
    return status.st_size > 0 || offset >= FIRST_PAGE;
}

ssize_t pread64(int fd, void *data, size_t bytes, off_t offset) {
    if (is_unreadable(fd, offset)) { errno = EIO; return -1; }
    if (!real_pread) real_pread = dlsym(RTLD_NEXT, "pread64");
    return real_pread(fd, data, bytes, offset);
}
ssize_t pread(int fd, void *data, size_t bytes, off_t offset) { return pread64(fd, data, bytes, offset); }

ssize_t read(int fd, void *data, size_t bytes) {
    if (!real_read) real_read = dlsym(RTLD_NEXT, "read"); /* another library's constructor may come first */
    if (failing_reads && is_unreadable(fd, lseek(fd, 0, SEEK_CUR))) { errno = EIO; return -1; }
    return real_read(fd, data, bytes);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    char path[4096];
    if (fd == 1 && note_fd >= 0) note('s', 0, "", data, bytes);
    else if (fd != note_fd && is_ours(fd, path, sizeof path)) {
        if (is_kept(path)) return -1;
        note('w', lseek(fd, 0, SEEK_CUR), path, data, bytes);
    }
    return real_write(fd, data, bytes);
}

int ftruncate64(int fd, off_t size) {
    char path[4096];
    int ours = is_ours(fd, path, sizeof path);
    if (ours && is_kept(path)) return -1;
    if (ours) note('t', size, path, NULL, 0);
    return real_ftruncate(fd, size);
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int unlink(const char *path) {
    static int (*real)(const char *);
    if (!real) real = dlsym(RTLD_NEXT, "unlink");
    if (is_kept(path)) return -1;
    if (note_fd >= 0 && folder && strncmp(path, folder, folder_bytes) == 0) note('u', 0, path, NULL, 0);
    return real(path);
}

static int synced(int fd, int (*real)(int)) {
    char path[4096];
    int ours = is_ours(fd, path, sizeof path);
    if (ours && failing && access(failing, F_OK) == 0) {
        note('e', 0, path, NULL, 0);
        errno = EIO;
        return -1;
    }
    int done = real(fd);
    if (ours && done == 0) note('f', 0, path, NULL, 0);
    return done;
}
int fsync(int fd) { return synced(fd, real_fsync); }
int fdatasync(int fd) { return synced(fd, real_fdatasync); }

static int opened(int at, const char *path, int flags, mode_t mode) {
    static int (*real)(int, const char *, int, ...);
    if (!real) real = dlsym(RTLD_NEXT, "openat64");
    if ((flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) && is_kept(path)) return -1;
    return real(at, path, flags, mode);
}
#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return opened(at, path, flags, mode); }
