/* A file system that shows a folder of another one, and takes its time: `slow_disk FOLDER MS ROOM WORDS PLACE`.
 *
 * Each request that opens, makes, reads, writes, reserves or syncs first says which thread asked (`write 4711`; the kernel
 * itself, which writes mapped files back, is 0), then waits MS milliseconds. ROOM is how many bytes files can grow by before
 * the disk is full; 0 for no such bound. WORDS: `reserve` for one that knows fallocate, as few network file systems do; `reads` for one that
 * is slow to write only. */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *folder;
static long wait_ms, room;
static bool reads;
static int result(long code) { return code < 0 ? -errno : (int)code; }

static const char *real(const char *path, char *buffer) {
    snprintf(buffer, PATH_MAX, "%s%s", folder, path);
    return buffer;
}
#define REAL(path) real(path, (char[PATH_MAX]){0})

static void take_time(const char *request) {
    struct timespec time = {wait_ms / 1000, wait_ms % 1000 * 1000000};
    dprintf(STDOUT_FILENO, "%s %d\n", request, (int)fuse_get_context()->pid);
    if (!reads || *request == 'w' || *request == 'f') nanosleep(&time, NULL);
}

/* Takes from the room what a file grows by up to `end`; false where there is none left. */
static bool grows(int fd, off_t end) {
    struct stat now;
    if (!room || fstat(fd, &now) || end <= now.st_size) return true;
    static long taken;
    long bytes = end - now.st_size;
    if (__atomic_add_fetch(&taken, bytes, __ATOMIC_SEQ_CST) <= room) return true;
    __atomic_sub_fetch(&taken, bytes, __ATOMIC_SEQ_CST);
    return false;
}

static void *slow_init(struct fuse_conn_info *connection, struct fuse_config *config) {
    (void)connection;
    config->nullpath_ok = 0;
    config->kernel_cache = 1; /* opening a file anew does not forget what was read: nobody else writes below */
    return NULL;
}

static int slow_getattr(const char *path, struct stat *found, struct fuse_file_info *info) {
    return result(info ? fstat((int)info->fh, found) : lstat(REAL(path), found));
}

static int slow_readdir(const char *path, void *into, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *info,
                        enum fuse_readdir_flags flags) {
    (void)offset, (void)info, (void)flags;
    DIR *open = opendir(REAL(path));
    if (!open) return -errno;
    for (struct dirent *one; (one = readdir(open));) fill(into, one->d_name, NULL, 0, 0);
    closedir(open);
    return 0;
}

static int slow_open(const char *path, struct fuse_file_info *info) {
    take_time("open");
    int fd = open(REAL(path), (info->flags & ~O_ACCMODE & ~O_APPEND) | O_RDWR);
    if (fd < 0 && (info->flags & O_ACCMODE) == O_RDONLY) fd = open(REAL(path), info->flags);
    info->fh = (uint64_t)fd;
    return fd < 0 ? -errno : 0;
}

static int slow_create(const char *path, mode_t mode, struct fuse_file_info *info) {
    take_time("create");
    int fd = open(REAL(path), O_RDWR | O_CREAT | (info->flags & (O_EXCL | O_TRUNC)), mode);
    info->fh = (uint64_t)fd;
    return fd < 0 ? -errno : 0;
}

static int slow_read(const char *path, char *into, size_t n, off_t at, struct fuse_file_info *info) {
    (void)path;
    take_time("read");
    return result(pread((int)info->fh, into, n, at));
}

static int slow_write(const char *path, const char *from, size_t n, off_t at, struct fuse_file_info *info) {
    (void)path;
    take_time("write");
    return grows((int)info->fh, at + (off_t)n) ? result(pwrite((int)info->fh, from, n, at)) : -ENOSPC;
}

static int slow_fallocate(const char *path, int mode, off_t at, off_t n, struct fuse_file_info *info) {
    (void)path;
    take_time("fallocate");
    return grows((int)info->fh, at + n) ? result(fallocate((int)info->fh, mode, at, n)) : -ENOSPC;
}

static int slow_fsync(const char *path, int data, struct fuse_file_info *info) {
    (void)path, (void)data, (void)info;
    take_time("fsync");
    return 0;
}

static int slow_release(const char *path, struct fuse_file_info *info) {
    (void)path;
    return result(close((int)info->fh));
}

static int slow_truncate(const char *path, off_t size, struct fuse_file_info *info) {
    return result(info ? ftruncate((int)info->fh, size) : truncate(REAL(path), size));
}

static int slow_rename(const char *from, const char *to, unsigned int flags) {
    return flags ? -EINVAL : result(rename(REAL(from), REAL(to)));
}

static int slow_readlink(const char *path, char *into, size_t n) {
    long length = readlink(REAL(path), into, n - 1);
    if (length < 0) return -errno;
    into[length] = 0;
    return 0;
}

static int slow_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *info) {
    return result(info ? futimens((int)info->fh, times) : utimensat(AT_FDCWD, REAL(path), times, AT_SYMLINK_NOFOLLOW));
}

static int slow_chmod(const char *path, mode_t mode, struct fuse_file_info *info) {
    return result(info ? fchmod((int)info->fh, mode) : chmod(REAL(path), mode));
}

static int slow_symlink(const char *to, const char *path) { return result(symlink(to, REAL(path))); }
static int slow_mkdir(const char *path, mode_t mode) { return result(mkdir(REAL(path), mode)); }
static int slow_unlink(const char *path) { return result(unlink(REAL(path))); }
static int slow_rmdir(const char *path) { return result(rmdir(REAL(path))); }
static int slow_statfs(const char *path, struct statvfs *found) { return result(statvfs(REAL(path), found)); }

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    folder = argv[1];
    wait_ms = atol(argv[2]);
    room = atol(argv[3]);
    reads = strstr(argv[4], "reads");
    struct fuse_operations operations = {
        .init = slow_init,
        .getattr = slow_getattr,
        .readdir = slow_readdir,
        .open = slow_open,
        .create = slow_create,
        .read = slow_read,
        .write = slow_write,
        .fallocate = strstr(argv[4], "reserve") ? slow_fallocate : NULL,
        .fsync = slow_fsync,
        .release = slow_release,
        .truncate = slow_truncate,
        .rename = slow_rename,
        .readlink = slow_readlink,
        .symlink = slow_symlink,
        .mkdir = slow_mkdir,
        .unlink = slow_unlink,
        .rmdir = slow_rmdir,
        .statfs = slow_statfs,
        .utimens = slow_utimens,
        .chmod = slow_chmod,
    };
    char *words[] = {argv[0], "-f", argv[5], NULL};
    return fuse_main(3, words, &operations, NULL);
}
