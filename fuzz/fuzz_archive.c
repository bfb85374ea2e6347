/* fuzz/fuzz_archive.c - an archive from anywhere: nothing outside the folder, nothing too large. */
#include "data/download/unpack.h"
#include "fuzz.h"

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

enum { MAX_BYTES = 1 << 20, MAX_FILES = 50 };

static int64_t files, bytes_in_all;

static int weigh(const char *path, const struct stat *about, int type, struct FTW *walk) {
    (void)path, (void)walk;
    require(type == FTW_F || type == FTW_D, "neither a file nor a folder");
    files += type == FTW_F;
    bytes_in_all += type == FTW_F ? about->st_size : 0;
    return 0;
}

static void unpack(const char *archive) {
    static const ole_unpack_limits limits = {MAX_BYTES, MAX_FILES};
    char folder[100], canary[100];
    snprintf(canary, sizeof canary, "%s", put_file("canary", "alive", 5));
    snprintf(folder, sizeof folder, "%s", fuzz_path("out"));
    require(mkdir(folder, 0700) == 0, "cannot make a folder");
    ole_error error = {0};
    ole_status status = ole_unpack(archive, folder, NULL, &limits, &error);
    if (status != OLE_OK) check_error(status, &error);
    files = bytes_in_all = 0;
    nftw(folder, weigh, 16, FTW_PHYS);
    require(files <= MAX_FILES && bytes_in_all <= MAX_BYTES, "more than the limits allow");
    remove_folder(folder);
    struct stat about;
    require(stat(canary, &about) == 0 && about.st_size == 5, "a file outside has changed");
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    unpack(put_file("a.tar.gz", bytes, size));
    unpack(put_file("a.zip", bytes, size));
}
