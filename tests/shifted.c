/* LD_PRELOAD of script/soak: the date of a process and of what it starts is SHIFTED_SECONDS later, its clock goes on.
 *
 * libfaketime of Debian 12 cannot do it for Python 3.11: with the monotonic clock shifted, too, a wait with a timeout
 * never ends (it has no sem_clockwait); with that clock left alone, time.sleep ends with EINVAL. Nor does it know
 * stat64, so that files are years older than the clock. Here only the date is shifted, and the times of files with it.
 */
#define _GNU_SOURCE
#define _LARGEFILE64_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

static time_t shift(void) {
    const char *seconds = getenv("SHIFTED_SECONDS");
    return seconds ? atoll(seconds) : 0;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int status = real(clock, now);
    if (!status && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift();
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    *now = (struct timeval){exact.tv_sec, exact.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (out) *out = exact.tv_sec;
    return exact.tv_sec;
}

/* Times that a test set itself were shifted back when they were written. */
#define LATER(file) (file->st_atim.tv_sec += shift(), file->st_mtim.tv_sec += shift(), file->st_ctim.tv_sec += shift())
#define STAT(name, parameters, ...) \
    int name parameters { REAL(name); int status = real(__VA_ARGS__); if (!status) LATER(file); return status; }
STAT(stat, (const char *restrict path, struct stat *restrict file), path, file)
STAT(stat64, (const char *restrict path, struct stat64 *restrict file), path, file)
STAT(lstat, (const char *restrict path, struct stat *restrict file), path, file)
STAT(lstat64, (const char *restrict path, struct stat64 *restrict file), path, file)
STAT(fstat, (int fd, struct stat *file), fd, file)
STAT(fstat64, (int fd, struct stat64 *file), fd, file)
STAT(fstatat, (int fd, const char *restrict path, struct stat *restrict file, int flags), fd, path, file, flags)
STAT(fstatat64, (int fd, const char *restrict path, struct stat64 *restrict file, int flags), fd, path, file, flags)

int statx(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict file) {
    REAL(statx);
    int status = real(fd, path, flags, mask, file);
    if (!status) {
        file->stx_atime.tv_sec += shift(), file->stx_mtime.tv_sec += shift();
        file->stx_ctime.tv_sec += shift(), file->stx_btime.tv_sec += shift();
    }
    return status;
}

static const struct timespec *earlier(const struct timespec times[2], struct timespec changed[2]) {
    if (!times) return NULL;
    for (int each = 0; each < 2; each++) {
        changed[each] = times[each];
        if (changed[each].tv_nsec != UTIME_NOW && changed[each].tv_nsec != UTIME_OMIT) changed[each].tv_sec -= shift();
    }
    return changed;
}

int utimensat(int fd, const char *path, const struct timespec times[2], int flags) {
    REAL(utimensat);
    struct timespec changed[2];
    return real(fd, path, earlier(times, changed), flags);
}

int futimens(int fd, const struct timespec times[2]) {
    REAL(futimens);
    struct timespec changed[2];
    return real(fd, earlier(times, changed));
}
