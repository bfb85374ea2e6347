/*
 * tests/unit/base/test_atomic_file.c - the old file or the new, and nothing beside it.
 */
#include "base/atomic_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "temporary.h"

static void assert_holds(const char *path, const char *text) {
    char content[64] = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(content, 1, sizeof content - 1, file), strlen(text));
    fclose(file);
    assert_string_equal(content, text);
}

static void test_creates_and_replaces(void **state) {
    (void)state;
    const char *path = temporary_path("file");
    assert_int_equal(ole_atomic_file_put(path, "one", 3, NULL), OLE_OK);
    assert_holds(path, "one");
    assert_int_equal(ole_atomic_file_put(path, "second", 6, NULL), OLE_OK);
    assert_holds(path, "second");
    assert_int_equal(ole_atomic_file_put(path, NULL, 0, NULL), OLE_OK);
    assert_holds(path, "");
    assert_int_equal(temporary_each(NULL), 1);
}

static void test_abort_keeps_the_old_file(void **state) {
    (void)state;
    const char *path = temporary_path("file");
    assert_int_equal(ole_atomic_file_put(path, "old", 3, NULL), OLE_OK);
    ole_atomic_file file;
    assert_int_equal(ole_atomic_file_begin(&file, path, NULL), OLE_OK);
    assert_int_equal(ole_atomic_file_write(&file, "new", 3, NULL), OLE_OK);
    assert_holds(path, "old");
    ole_atomic_file_abort(&file);
    ole_atomic_file_abort(&file);
    assert_holds(path, "old");
    assert_int_equal(temporary_each(NULL), 1);
}

/* A process that ends in the middle of it leaves the old file, and nothing that nobody would clear
 * away. */
static void test_a_killed_writer_leaves_nothing(void **state) {
    (void)state;
    int fd = open(temporary_dir, O_TMPFILE | O_WRONLY, 0600);
    if (fd < 0) skip(); /* this file system knows no files without a name */
    close(fd);
    const char *path = temporary_path("file");
    assert_int_equal(ole_atomic_file_put(path, "old", 3, NULL), OLE_OK);
    pid_t child = fork();
    if (child == 0) {
        ole_atomic_file file;
        bool good = ole_atomic_file_begin(&file, path, NULL) == OLE_OK &&
                    ole_atomic_file_write(&file, "new", 3, NULL) == OLE_OK;
        if (good) raise(SIGKILL);
        _exit(1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    assert_holds(path, "old");
    assert_int_equal(temporary_each(NULL), 1);
}

/* The system's rename(), before which a process that is asked to dies. */
static bool dies_at_rename;
int rename(const char *from, const char *to) {
    if (dies_at_rename) raise(SIGKILL);
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* Writes from another process, which is killed when it comes to rename.  Whether it was. */
static bool write_and_die(const char *path, const char *text) {
    pid_t child = fork();
    if (child == 0) {
        dies_at_rename = true;
        _exit(ole_atomic_file_put(path, text, strlen(text), NULL) == OLE_OK ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    if (!WIFSIGNALED(how)) assert_int_equal(how, 0);
    return WIFSIGNALED(how);
}

/* Between its name and its place a file can be left behind: until the next one is written. */
static void test_the_next_writer_clears_what_a_killed_one_left(void **state) {
    (void)state;
    const char *path = temporary_path("file");
    assert_int_equal(ole_atomic_file_put(path, "old", 3, NULL), OLE_OK);
    assert_true(write_and_die(path, "lost"));
    assert_true(write_and_die(path, "lost"));
    assert_holds(path, "old");
    assert_int_equal(temporary_each(NULL), 2);
    assert_int_equal(ole_atomic_file_put(path, "new", 3, NULL), OLE_OK);
    assert_holds(path, "new");
    assert_int_equal(temporary_each(NULL), 1);
}

/* A new file has no such moment: it gets its own name at once. */
static void test_a_new_file_is_never_left_half_named(void **state) {
    (void)state;
    int fd = open(temporary_dir, O_TMPFILE | O_WRONLY, 0600);
    if (fd < 0) skip(); /* this file system knows no files without a name */
    close(fd);
    const char *path = temporary_path("file");
    assert_false(write_and_die(path, "new"));
    assert_holds(path, "new");
    assert_int_equal(temporary_each(NULL), 1);
}

/* Another process at work on the same file keeps its own, and nothing is written through a link
 * under the name that would be next. */
static void test_names_that_are_taken(void **state) {
    (void)state;
    char name[600];
    const char *path = temporary_path("file");
    assert_int_equal(ole_atomic_file_put(path, "old", 3, NULL), OLE_OK);
    assert_true(write_and_die(path, "lost"));
    DIR *dir = opendir(temporary_dir);
    assert_non_null(dir);
    name[0] = '\0';
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strstr(entry->d_name, ".tmp"))
            snprintf(name, sizeof name, "%s/%s", temporary_dir, entry->d_name);
    closedir(dir);

    int fd = open(name, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(ole_atomic_file_put(path, "new", 3, NULL), OLE_OK);
    assert_holds(path, "new");
    assert_holds(name, "lost");
    close(fd);

    assert_int_equal(unlink(name), 0);
    assert_int_equal(ole_atomic_file_put(temporary_path("other"), "mine", 4, NULL), OLE_OK);
    assert_int_equal(symlink("other", name), 0);
    path = temporary_path("file");
    assert_int_equal(ole_atomic_file_put(path, "newer", 5, NULL), OLE_OK);
    assert_holds(path, "newer");
    assert_holds(temporary_path("other"), "mine");
}

/* A limit on the size of files stands for a full disk. */
static void test_a_failed_write_keeps_the_old_file(void **state) {
    (void)state;
    enum { SIZE = 1 << 16 };
    static char bytes[SIZE];
    const char *path = temporary_path("file");
    assert_int_equal(ole_atomic_file_put(path, "old", 3, NULL), OLE_OK);

    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = SIZE / 2;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ole_error error;
    ole_status status = ole_atomic_file_put(path, bytes, SIZE, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);

    assert_int_equal(status, OLE_ERROR_IO);
    assert_int_equal(error.status, OLE_ERROR_IO);
    assert_non_null(strstr(error.message, "/file: cannot write: File too large"));
    assert_holds(path, "old");
    assert_int_equal(temporary_each(NULL), 1);
}

static void test_keeps_permissions_and_links(void **state) {
    (void)state;
    const char *path = temporary_path("file"), *link = temporary_path("link");
    assert_int_equal(ole_atomic_file_put(path, "old", 3, NULL), OLE_OK);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(ole_atomic_file_put(link, "new", 3, NULL), OLE_OK);
    assert_holds(path, "new");
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0640);
    assert_int_equal(lstat(link, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_int_equal(temporary_each(NULL), 2);
}

static void test_new_files_follow_the_umask(void **state) {
    (void)state;
    mode_t before = umask(027);
    const char *path = temporary_path("file");
    assert_int_equal(ole_atomic_file_put(path, "x", 1, NULL), OLE_OK);
    umask(before);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0640);
}

static void test_devices_are_written_in_place(void **state) {
    (void)state;
    struct stat about;
    assert_int_equal(ole_atomic_file_put("/dev/null", "x", 1, NULL), OLE_OK);
    assert_int_equal(stat("/dev/null", &about), 0);
    assert_true(S_ISCHR(about.st_mode));
    ole_error error;
    assert_int_equal(ole_atomic_file_put("/dev/full", "x", 1, &error), OLE_ERROR_IO);
    assert_string_equal(error.message, "/dev/full: cannot write: No space left on device");
}

static void test_bad_paths(void **state) {
    (void)state;
    ole_error error;
    assert_int_equal(ole_atomic_file_put(temporary_dir, "x", 1, &error), OLE_ERROR_IO);
    assert_non_null(strstr(error.message, ": cannot write: Is a directory"));
    assert_int_equal(ole_atomic_file_put("no/such/dir/file", "x", 1, &error), OLE_ERROR_IO);
    assert_string_equal(error.message, "no/such/dir/file: cannot write: No such file or directory");
    assert_int_equal(ole_atomic_file_put("", "x", 1, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_atomic_file_put(NULL, "x", 1, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(temporary_each(NULL), 0);
}

/* The name beside is short whatever the target's is, so the longest name works. */
static void test_longest_name(void **state) {
    (void)state;
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    const char *path = temporary_path(name);
    assert_int_equal(ole_atomic_file_put(path, "x", 1, NULL), OLE_OK);
    assert_holds(path, "x");
}

static void test_relative_path(void **state) {
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(temporary_dir), 0);
    ole_status status = ole_atomic_file_put("plain", "x", 1, NULL);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, OLE_OK);
    assert_holds(temporary_path("plain"), "x");
}

/* ---- Appending ---------------------------------------------------------------------------- */

static ole_status append(const char *path, const char *text) {
    int fd;
    ole_status status = ole_append_open(&fd, path, NULL);
    if (status != OLE_OK) return status;
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
    return OLE_OK;
}

static void test_appends(void **state) {
    (void)state;
    const char *path = temporary_path("file");
    assert_int_equal(append(path, "one"), OLE_OK);
    assert_int_equal(append(path, ", two"), OLE_OK);
    assert_holds(path, "one, two");
}

static void test_other_names_keep_what_they_have(void **state) {
    (void)state;
    char path[4096], other[4096], third[4096];
    snprintf(path, sizeof path, "%s", temporary_path("file"));
    snprintf(other, sizeof other, "%s", temporary_path("other"));
    snprintf(third, sizeof third, "%s", temporary_path("third"));
    struct stat about;
    assert_int_equal(append(path, "one"), OLE_OK);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(link(path, other), 0);
    assert_int_equal(link(path, third), 0);
    assert_int_equal(append(path, ", two"), OLE_OK);
    assert_int_equal(append(path, ", three"), OLE_OK);
    assert_holds(path, "one, two, three");
    assert_holds(other, "one");
    assert_holds(third, "one");
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
    assert_int_equal(temporary_each(NULL), 3);
}

/* Whoever opens the file before another process has copied it must not write to the link. */
static void test_many_append_to_a_linked_file(void **state) {
    (void)state;
    enum { ROUNDS = 100, WRITERS = 4 };
    char path[4096], other[4096];
    snprintf(path, sizeof path, "%s", temporary_path("file"));
    snprintf(other, sizeof other, "%s", temporary_path("other"));
    for (int round = 0; round < ROUNDS; round++) {
        assert_int_equal(append(path, "1"), OLE_OK);
        assert_int_equal(link(path, other), 0);
        for (int i = 0; i < WRITERS; i++)
            if (fork() == 0) _exit(append(path, "2") == OLE_OK ? 0 : 1);
        for (int i = 0, ended; i < WRITERS; i++) {
            assert_true(wait(&ended) > 0);
            assert_int_equal(ended, 0);
        }
        assert_holds(path, "12222");
        assert_holds(other, "1");
        assert_int_equal(unlink(path), 0);
        assert_int_equal(unlink(other), 0);
    }
}

static void test_appends_through_no_link(void **state) {
    (void)state;
    char path[4096], target[4096];
    snprintf(path, sizeof path, "%s", temporary_path("file"));
    snprintf(target, sizeof target, "%s", temporary_path("target"));
    assert_int_equal(append(target, "one"), OLE_OK);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(append(path, "two"), OLE_ERROR_IO);
    assert_holds(target, "one");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(append(path, "two"), OLE_ERROR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_creates_and_replaces, temporary_clear),
        cmocka_unit_test_teardown(test_abort_keeps_the_old_file, temporary_clear),
        cmocka_unit_test_teardown(test_a_killed_writer_leaves_nothing, temporary_clear),
        cmocka_unit_test_teardown(test_the_next_writer_clears_what_a_killed_one_left,
                                  temporary_clear),
        cmocka_unit_test_teardown(test_a_new_file_is_never_left_half_named, temporary_clear),
        cmocka_unit_test_teardown(test_names_that_are_taken, temporary_clear),
        cmocka_unit_test_teardown(test_a_failed_write_keeps_the_old_file, temporary_clear),
        cmocka_unit_test_teardown(test_keeps_permissions_and_links, temporary_clear),
        cmocka_unit_test_teardown(test_new_files_follow_the_umask, temporary_clear),
        cmocka_unit_test_teardown(test_devices_are_written_in_place, temporary_clear),
        cmocka_unit_test_teardown(test_bad_paths, temporary_clear),
        cmocka_unit_test_teardown(test_longest_name, temporary_clear),
        cmocka_unit_test_teardown(test_relative_path, temporary_clear),
        cmocka_unit_test_teardown(test_appends, temporary_clear),
        cmocka_unit_test_teardown(test_other_names_keep_what_they_have, temporary_clear),
        cmocka_unit_test_teardown(test_many_append_to_a_linked_file, temporary_clear),
        cmocka_unit_test_teardown(test_appends_through_no_link, temporary_clear),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
