/*
 * fuzz/fuzz_pairs.c - files of pairs and lists of names that are nearly right: no crash, no leak,
 * pairs within the rows and folds, and an error is one line.
 *
 *     fuzz_pairs [COUNT [SEED]]     COUNT mutated files (default 20000)
 *
 * The same target serves libFuzzer: clang -fsanitize=fuzzer -DOLE_LIBFUZZER.  One file is both, the
 * pairs and the list: what is a pair of one kind is a wrong line of the other.
 */
#include "files.h"
#include "ole/verify.h"

enum { ROWS = 6, FOLDS = 2 };

static char list[64]; /* a good one */

static void remove_list(void) {
    unlink(list);
}

static void put_list(void) {
    if (list[0]) return;
    strcpy(list, "/tmp/ole-fuzz-names-XXXXXX");
    int fd = mkstemp(list);
    static const char text[] = "A_1.jpg\nA_2.jpg\nx/A_0003.pgm\nB 1\nB 2\nB_3\n";
    require(fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1, "cannot write a list");
    close(fd);
    atexit(remove_list);
}

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    put_file(bytes, size);
    put_list();
    read_pairs(path, NULL);
    read_pairs(path, list);
    read_pairs(path, path);
    return 0;
}

#ifndef OLE_LIBFUZZER

enum { MAX_FILE = 1024 };

static const char by_row[] = "# rows\n0 1 1\n2 3 1\r\n\n0\t4\t0\n1 5 0\n";
static const char by_name[] = "2\t1\nA\t1\t2\nA\t3\tB\t1\nB\t1\t3\nA\t2\tB\t2\n";
static const char one_list[] = "2\nA 1 2\nB 2 3\nA 1 B 1\nA 2 B 2\n";

static const char *const words[] = {"\n", " ",  "\t", "0",    "99",      "99999999999999999999",
                                    "-1", "#",  "A",  "B 1",  "_",       ".",
                                    "/",  "\r", "1",  "\n\n", "10 300\n"};

static size_t make_list(uint8_t *bytes) {
    static const char *const good[] = {by_row, by_name, one_list};
    const char *text = good[next_random(3)];
    memcpy(bytes, text, strlen(text));
    return strlen(text);
}

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "fuzz_pairs", MAX_FILE, make_list, words,
                      sizeof words / sizeof *words);
}

#endif
