/*
 * src/base/available_memory.c - the memory left, as Linux tells it.
 *
 * Allocating more than there is succeeds; filling it gets the process killed, which cannot be
 * caught.  So it has to be known before.  A control group (of a container, a batch system) may hold
 * less than the machine, and so may each group above it.  Files in the page cache count as used in
 * a group, but make room when it is needed.  So do caches that Linux does not count (ZFS): hence a
 * way to go on all the same.
 */
#include "base/available_memory.h"

#include "base/error.h"
#include "base/min_max.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 4096, LINE = 512 };

/* The two kinds of control groups: where they are, and what their files are called. */
typedef struct group_kind {
    const char *folder, *limit, *used, *cache[2];
    const char *swap[2]; /* what may be swapped out is the first less the second */
} group_kind;

static const group_kind kinds[2] = {
    {"sys/fs/cgroup",
     "memory.max",
     "memory.current",
     {"active_file", "inactive_file"},
     {"memory.swap.max", "memory.swap.current"}},
    {"sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_active_file", "total_inactive_file"},
     {"memory.memsw.limit_in_bytes", "memory.limit_in_bytes"}},
};

static FILE *open_file(const char *folder, const char *name) {
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, "re");
}

/* The number behind a key, in a file of lines "key number" or "key: number kB"; for a NULL key, the
 * number in a file that holds nothing else.  `otherwise` where there is none, or a word, as "max".
 */
static int64_t find_number(const char *folder, const char *name, const char *key,
                           int64_t otherwise) {
    FILE *file = open_file(folder, name);
    char line[LINE], word[64];
    long long number = 0;
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found =
            key ? sscanf(line, "%63[^: ]%*[: ]%lld", word, &number) == 2 && strcmp(word, key) == 0
                : sscanf(line, "%lld", &number) == 1;
    if (file) fclose(file);
    return found ? number : otherwise;
}

/* Of the machine's `swap` what a group may use; all of it where it says nothing. */
static int64_t swap_of_group(const char *folder, const group_kind *kind, int64_t swap) {
    int64_t limit = find_number(folder, kind->swap[0], NULL, -1);
    int64_t used = find_number(folder, kind->swap[1], NULL, -1);
    if (limit < 0 || used < 0) return swap;
    return limit > used ? ole_min(swap, limit - used) : 0;
}

static int64_t left_in_group(const char *folder, const group_kind *kind, int64_t swap) {
    int64_t limit = find_number(folder, kind->limit, NULL, -1);
    int64_t used = find_number(folder, kind->used, NULL, -1);
    if (limit < 0 || used < 0) return INT64_MAX;
    for (int i = 0; i < 2; i++)
        used -= find_number(folder, "memory.stat", kind->cache[i], 0);
    if (used < 0) used = 0;
    int64_t left = limit > used ? limit - used : 0;
    swap = swap_of_group(folder, kind, swap);
    return left < INT64_MAX - swap ? left + swap : INT64_MAX;
}

/* The least of a group and those above it, up to the folder where groups are. */
static int64_t left_in_groups(const char *root, const group_kind *kind, const char *group,
                              int64_t swap) {
    char path[PATH];
    int above = snprintf(path, sizeof path, "%s/%s", root, kind->folder);
    int length = snprintf(path, sizeof path, "%s/%s%s", root, kind->folder, group);
    if (length < 0 || length >= (int)sizeof path) return INT64_MAX;
    int64_t least = INT64_MAX;
    for (;;) {
        least = ole_min(least, left_in_group(path, kind, swap));
        char *slash = strrchr(path, '/');
        if (slash - path < above) return least;
        *slash = '\0';
    }
}

/* Of the groups in proc/self/cgroup: lines "0::/group", or "4:memory:/group" of the older kind. */
static int64_t left_in_own_groups(const char *root, int64_t swap) {
    char folder[PATH], line[LINE];
    int64_t least = INT64_MAX;
    snprintf(folder, sizeof folder, "%s/proc/self", root);
    FILE *file = open_file(folder, "cgroup");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = NULL;
        if (controllers) group = strchr(++controllers, ':');
        if (!group) continue;
        *group++ = '\0';
        bool older = strcmp(controllers, "memory") == 0;
        if (*controllers && !older) continue;
        least = ole_min(least, left_in_groups(root, &kinds[older], group, swap));
    }
    if (file) fclose(file);
    return least;
}

int64_t ole_memory_left(const char *root) {
    char folder[PATH];
    snprintf(folder, sizeof folder, "%s/proc", root);
    int64_t machine = find_number(folder, "meminfo", "MemAvailable", 0);
    int64_t swap = find_number(folder, "meminfo", "SwapFree", 0) * 1024;
    int64_t left = left_in_own_groups(root, swap);
    return machine > 0 ? ole_min(left, machine * 1024 + swap) : left;
}

ole_status ole_memory_check(size_t bytes, const char *what, const char *remedy, ole_error *error) {
    const char *check = getenv("OLE_MEMORY_CHECK");
    int64_t left = ole_memory_left("");
    if (left == INT64_MAX || bytes <= (uint64_t)left || (check && strcmp(check, "off") == 0))
        return OLE_OK;
    return ole_fail(
        error, OLE_ERROR_MEMORY,
        "%s: needs %.3g GiB of memory, %.3g GiB are free: %s; OLE_MEMORY_CHECK=off tries it anyway",
        what, (double)bytes / 1073741824.0, (double)left / 1073741824.0, remedy);
}
