/*
 * fuzz/fuzz_pairs.c - a file of pairs and a list of names.
 *
 * One file is both: what is a pair of one kind is a wrong line of the other.
 */
#include "fuzz.h"
#include "ole/verify.h"

enum { ROWS = 6, FOLDS = 2 };

static void read_pairs(const char *pairs_path, const char *names) {
    ole_pairs pairs;
    ole_error error = {0};
    ole_status status = ole_pairs_read(&pairs, pairs_path, names, ROWS, FOLDS, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        return;
    }
    int64_t kinds[2] = {0, 0};
    for (int64_t i = 0; i < pairs.count; i++) {
        const ole_pair *p = &pairs.pair[i];
        require(p->a >= 0 && p->a < ROWS && p->b >= 0 && p->b < ROWS, "a row that is not there");
        require(p->fold >= 0 && p->fold < pairs.folds, "a fold that is not there");
        kinds[p->same]++;
    }
    require(pairs.folds >= 2 && kinds[0] >= pairs.folds && kinds[1] >= pairs.folds,
            "too few pairs of a kind");
    ole_pairs_free(&pairs);
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    static const char list[] = "A_1.jpg\nA_2.jpg\nx/A_0003.pgm\nB 1\nB 2\nB_3\n";
    const char *path = put_file("pairs.txt", bytes, size);
    read_pairs(path, NULL);
    read_pairs(path, put_file("list.txt", list, sizeof list - 1));
    read_pairs(path, path);
}
