/* Fails the n-th system call on the files of one directory, or the n-th allocation of memory.
 *
 * Preloaded into a Python process (LD_PRELOAD), which says by ctypes which call fails. It wraps the
 * functions of the C library that Python and SQLite call; calls on other files are not counted.
 * Needs glibc: the wrapped allocation functions are its __libc_malloc and so on. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DESCRIPTORS = 4096 };

static char directory[PATH_MAX];
static char is_open[MAX_DESCRIPTORS];
static int counts_calls, counts_allocations; /* what is armed */
static int fault, is_sticky, is_short;       /* errno; whether later calls fail; half transfers */
static long target, counted;
static char failed[32];

/* --- what Python calls ------------------------------------------------------------------------ */

void faults_watch(const char *path) {
    strncpy(directory, path, sizeof directory - 1);
    memset(is_open, 0, sizeof is_open);
}

void faults_arm_calls(long n, int error, int sticky, int shorten) {
    fault = error, is_sticky = sticky, is_short = shorten;
    target = n, counted = 0, failed[0] = 0;
    counts_calls = 1;
}

void faults_arm_allocations(long n) {
    is_sticky = 0, target = n, counted = 0, failed[0] = 0;
    counts_allocations = 1;
}

long faults_disarm(void) {
    counts_calls = counts_allocations = 0;
    return counted;
}

const char *faults_failed(void) { return failed; }

int faults_open(void) {
    int n = 0;
    for (int i = 0; i < MAX_DESCRIPTORS; i++) n += is_open[i];
    return n;
}

/* --- which call fails --------------------------------------------------------------------------- */

static int due(const char *name) {
    counted++;
    if (counted != target && !(is_sticky && counted > target)) return 0;
    if (counted == target) strncpy(failed, name, sizeof failed - 1);
    return 1;
}

static int fails(const char *name) { /* sets errno */
    if (!counts_calls || is_short || !due(name)) return 0;
    errno = fault;
    return 1;
}

static int fails_once(const char *name) { /* for locks, which are in memory, not on the disk */
    int sticky = is_sticky, failing;
    is_sticky = 0;
    failing = fails(name);
    is_sticky = sticky;
    return failing;
}

static int is_ours(const char *path) {
    size_t n = strlen(directory);
    return n && path && !strncmp(path, directory, n);
}

static int watched(int fd) { return fd >= 0 && fd < MAX_DESCRIPTORS && is_open[fd]; }

static int note(int fd) {
    if (fd >= 0 && fd < MAX_DESCRIPTORS) is_open[fd] = 1;
    return fd;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* --- calls with a path -------------------------------------------------------------------------- */

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; \
        va_start(more, flags); \
        int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0; \
        va_end(more); \
        if (!is_ours(path)) return real(path, flags, mode); \
        return fails("open") ? -1 : note(real(path, flags, mode)); \
    }
OPEN(open)
OPEN(open64)

#define ON_PATH(name, parameters, ...) \
    int name parameters { \
        REAL(name); \
        return is_ours(path) && fails(#name) ? -1 : real(__VA_ARGS__); \
    }
ON_PATH(mkdir, (const char *path, mode_t mode), path, mode)
ON_PATH(unlink, (const char *path), path)
ON_PATH(rename, (const char *path, const char *to), path, to)
ON_PATH(access, (const char *path, int mode), path, mode)
ON_PATH(stat, (const char *path, struct stat *to), path, to)
ON_PATH(lstat, (const char *path, struct stat *to), path, to)
ON_PATH(stat64, (const char *path, struct stat64 *to), path, to)
ON_PATH(lstat64, (const char *path, struct stat64 *to), path, to)

DIR *opendir(const char *path) {
    REAL(opendir);
    return is_ours(path) && fails("opendir") ? NULL : real(path);
}

/* --- calls with a descriptor -------------------------------------------------------------------- */

#define ON_DESCRIPTOR(name, parameters, ...) \
    int name parameters { \
        REAL(name); \
        return watched(fd) && fails(#name) ? -1 : real(__VA_ARGS__); \
    }
ON_DESCRIPTOR(fsync, (int fd), fd)
ON_DESCRIPTOR(fdatasync, (int fd), fd)
ON_DESCRIPTOR(ftruncate, (int fd, off_t size), fd, size)
ON_DESCRIPTOR(ftruncate64, (int fd, off64_t size), fd, size)
ON_DESCRIPTOR(fstat, (int fd, struct stat *to), fd, to)
ON_DESCRIPTOR(fstat64, (int fd, struct stat64 *to), fd, to)

#define TRANSFER(name, parameters, ...) \
    ssize_t name parameters { \
        REAL(name); \
        if (watched(fd) && counts_calls && is_short && n > 1 && due(#name)) n /= 2; \
        return watched(fd) && fails(#name) ? -1 : real(__VA_ARGS__); \
    }
TRANSFER(read, (int fd, void *to, size_t n), fd, to, n)
TRANSFER(write, (int fd, const void *from, size_t n), fd, from, n)
TRANSFER(pread, (int fd, void *to, size_t n, off_t at), fd, to, n, at)
TRANSFER(pread64, (int fd, void *to, size_t n, off64_t at), fd, to, n, at)
TRANSFER(pwrite, (int fd, const void *from, size_t n, off_t at), fd, from, n, at)
TRANSFER(pwrite64, (int fd, const void *from, size_t n, off64_t at), fd, from, n, at)

int close(int fd) { /* the descriptor is released whether close fails or not, as in Linux */
    REAL(close);
    if (!watched(fd)) return real(fd);
    is_open[fd] = 0;
    int failing = fails("close"), error = errno, result = real(fd);
    if (!failing) return result;
    errno = error;
    return -1;
}

int flock(int fd, int operation) {
    REAL(flock);
    return watched(fd) && fails_once("flock") ? -1 : real(fd, operation);
}

#define FCNTL(name) \
    int name(int fd, int command, ...) { \
        REAL(name); \
        va_list more; \
        va_start(more, command); \
        void *argument = va_arg(more, void *); \
        va_end(more); \
        int locks = command == F_SETLK || command == F_SETLKW || command == F_GETLK; \
        return locks && watched(fd) && fails_once("fcntl") ? -1 : real(fd, command, argument); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

#define MMAP(name, offset) \
    void *name(void *at, size_t size, int allowed, int flags, int fd, offset from) { \
        REAL(name); \
        if (watched(fd) && fails("mmap")) return MAP_FAILED; \
        return real(at, size, allowed, flags, fd, from); \
    }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

/* --- time ----------------------------------------------------------------------------------------- */

/* SQLite waits up to ten seconds for a lock that no process holds; nothing else here calls usleep. */
int usleep(useconds_t time) {
    (void)time;
    return 0;
}

/* --- memory ------------------------------------------------------------------------------------- */

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

static int no_memory(const char *name) {
    if (!counts_allocations || !due(name)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n) { return no_memory("malloc") ? NULL : __libc_malloc(n); }
void *calloc(size_t m, size_t n) { return no_memory("calloc") ? NULL : __libc_calloc(m, n); }
void *realloc(void *old, size_t n) { return no_memory("realloc") ? NULL : __libc_realloc(old, n); }
