/* src/base/nearest_name.c - the known name closest to an unknown word, for "did you mean". */
#include "base/nearest_name.h"

#include <stdbool.h>
#include <string.h>

enum { MAX_WORD = 64 };

static size_t smallest(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* How many letters must be added, removed, replaced or swapped with a neighbour. */
static size_t edit_distance(const char *a, const char *b) {
    size_t rows[3][MAX_WORD + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    size_t width = strlen(b);
    for (size_t j = 0; j <= width; j++)
        last[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        now[0] = i;
        for (size_t j = 1; j <= width; j++) {
            now[j] = smallest(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < now[j]) now[j] = before[j - 2] + 1;
        }
        size_t *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[width];
}

const char *ole_nearest_name(const char *word, const char *const *names, size_t count) {
    size_t length = word ? strlen(word) : 0;
    if (!word || length > MAX_WORD) return NULL;
    size_t least = (length + 1) / 3 + 1; /* one slip in three letters is close */
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) > MAX_WORD) continue;
        size_t distance = edit_distance(word, names[i]);
        if (distance < least) {
            least = distance;
            nearest = names[i];
        }
    }
    return nearest;
}
