/*
 * tests/unit/features/test_verify.c - pairs of both kinds, right and wrong; cosines; folds by hand.
 */
#include "ole/verify.h"

#include "shares.h"
#include "temporary.h"
#include "test.h"

#include <math.h>

/* Writes a file into the temporary directory; its path. */
static const char *write_text(const char *name, const char *text) {
    const char *path = temporary_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

static ole_pairs read_good(const char *text, const char *names, int64_t rows, int folds) {
    ole_pairs pairs;
    ole_error error;
    const char *path = write_text("pairs.txt", text);
    const char *list = names ? write_text("names.txt", names) : NULL;
    assert_ok(ole_pairs_read(&pairs, path, list, rows, folds, &error), &error);
    return pairs;
}

static void assert_pair(const ole_pairs *pairs, int64_t i, int64_t a, int64_t b, bool same,
                        int fold) {
    const ole_pair *p = &pairs->pair[i];
    if (p->a != a || p->b != b || p->same != same || p->fold != fold)
        fail_msg("pair %d is %d %d %d in fold %d", (int)i, (int)p->a, (int)p->b, p->same, p->fold);
}

/* ---- Reading ------------------------------------------------------------------------------ */

static void test_rows(void **state) {
    (void)state;
    ole_pairs p = read_good("# rows\n0 1 1\n\n2\t3 0\r\n  4 5 1\n0 5 0", NULL, 6, 2);
    assert_int_equal(p.count, 4);
    assert_int_equal(p.folds, 2);
    assert_pair(&p, 0, 0, 1, true, 0);
    assert_pair(&p, 1, 2, 3, false, 0);
    assert_pair(&p, 2, 4, 5, true, 1);
    assert_pair(&p, 3, 0, 5, false, 1);
    ole_pairs_free(&p);
    assert_null(p.pair);
    ole_pairs_free(NULL);
}

/* All pairs of the rarer kind, or as many as were asked for; none twice. */
static void test_drawn(void **state) {
    (void)state;
    const int64_t labels[9] = {5, 2, 5, -1, 2, 5, 2, 7, 5};
    ole_pairs p;
    ole_error error;
    for (int64_t most = 4; most <= 20; most += 16) {
        assert_ok(ole_pairs_draw(&p, 9, labels, most, 2, 1, &error), &error);
        int64_t each = most < 9 ? most : 9; /* 6 + 3 pairs of one class, 19 of two */
        assert_int_equal(p.count, 2 * each);
        for (int64_t i = 0; i < p.count; i++) {
            const ole_pair *at = &p.pair[i];
            assert_true(at->same == (i < each) && at->fold == i % each % 2 && at->a != at->b);
            assert_true((labels[at->a] == labels[at->b]) == at->same);
            assert_true(labels[at->a] >= 0 && labels[at->b] >= 0);
            for (int64_t k = 0; k < i; k++)
                assert_false(p.pair[k].a == at->a && p.pair[k].b == at->b);
        }
        ole_pairs_free(&p);
    }
    assert_int_equal(ole_pairs_draw(&p, 3, labels, 10, 2, 1, &error), OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message, "1 same and 2 different pairs are too few for 2 folds; "
                                       "use more rows or fewer folds");
    assert_int_equal(ole_pairs_draw(&p, 9, NULL, 10, 2, 1, &error), OLE_ERROR_ARGUMENT);
}

static const char names[] = "lfw/Ada_Lovelace/Ada_Lovelace_0001.jpg\n"
                            "Ada_Lovelace 2\n"
                            "Alan_Turing_0001.pgm\n"
                            "Alan_Turing_0010\n";

static void test_names(void **state) {
    (void)state;
    const char text[] = "2\t1\n"
                        "Ada_Lovelace\t1\t2\n"
                        "Ada_Lovelace\t2\tAlan_Turing\t10\n"
                        "Alan_Turing\t10\t1\n"
                        "Alan_Turing\t1\tAda_Lovelace\t1\n";
    ole_pairs p = read_good(text, names, 4, 10);
    assert_int_equal(p.count, 4);
    assert_int_equal(p.folds, 2); /* the file's own */
    assert_pair(&p, 0, 0, 1, true, 0);
    assert_pair(&p, 1, 1, 3, false, 0);
    assert_pair(&p, 2, 3, 2, true, 1);
    assert_pair(&p, 3, 2, 0, false, 1);
    ole_pairs_free(&p);
    const char one[] = "2\nAda_Lovelace 1 2\nAlan_Turing 1 10\n"
                       "Ada_Lovelace 1 Alan_Turing 1\nAda_Lovelace 2 Alan_Turing 1\n";
    p = read_good(one, names, 4, 2);
    assert_int_equal(p.folds, 2); /* dealt: one set of pairs has none */
    assert_pair(&p, 1, 2, 3, true, 1);
    assert_pair(&p, 2, 0, 2, false, 0);
    ole_pairs_free(&p);
}

/* The message about a bad file, after its folder. */
static void expect(const char *text, const char *list, int folds, const char *message) {
    ole_pairs pairs = {.count = 7};
    ole_error error;
    const char *path = write_text("pairs.txt", text);
    const char *second = list ? write_text("names.txt", list) : NULL;
    assert_int_not_equal(ole_pairs_read(&pairs, path, second, 4, folds, &error), OLE_OK);
    assert_int_equal(pairs.count, 7);
    size_t folder = strlen(temporary_dir) + 1;
    if (strlen(error.message) < folder || strcmp(error.message + folder, message) != 0)
        fail_msg("\"%s\" and not \"%s\"", error.message, message);
}

static void test_bad_rows(void **state) {
    (void)state;
    expect("", NULL, 2, "pairs.txt: holds no pairs");
    expect("# nothing\n\n", NULL, 2, "pairs.txt: holds no pairs");
    expect("0 1 1\n0 4 0\n", NULL, 2, "pairs.txt, line 2: no row 4; the features have rows 0 to 3");
    expect("0 1 1\n\n0 -1 0\n", NULL, 2,
           "pairs.txt, line 3: expected two rows and 1 (same) or 0 (different), found '0 -1 0'");
    expect("0 1 2\n", NULL, 2,
           "pairs.txt, line 1: expected two rows and 1 (same) or 0 (different), found '0 1 2'");
    expect("0 1 1\n0 1\n", NULL, 2,
           "pairs.txt, line 2: expected two rows and 1 (same) or 0 (different), found '0 1'");
    expect("0 1 1 1\n", NULL, 2,
           "pairs.txt, line 1: expected rows as '0 17 1', or LFW's first line as '10 300', "
           "found '0 1 1 1'");
    expect("a b\n", NULL, 2,
           "pairs.txt, line 1: expected rows as '0 17 1', or LFW's first line as '10 300', "
           "found 'a b'");
    expect("0 99999999999999999999 1\n", NULL, 2,
           "pairs.txt, line 1: expected two rows and 1 (same) or 0 (different), found '0 "
           "99999999999999999999 1'");
    expect("0 1 1\n0 2 0\n1 2 0\n", NULL, 2,
           "pairs.txt: 1 same and 2 different pairs are too few for 2 folds, which need one of "
           "each kind; use more pairs or fewer folds");
}

/* However deep the folders, they cost no stack. */
static void test_deep_folders(void **state) {
    (void)state;
    enum { DEPTH = 1 << 21 };
    static const char last[] = "A_1.jpg\nA_2.jpg\nB_1.jpg\nB_2.jpg\n";
    char *list = malloc(2 * DEPTH + sizeof last);
    assert_non_null(list);
    for (int i = 0; i < DEPTH; i++)
        memcpy(list + 2 * i, "d/", 2);
    memcpy(list + 2 * DEPTH, last, sizeof last);
    ole_pairs p = read_good("2 1\nA 1 2\nA 1 B 1\nB 1 2\nA 2 B 2\n", list, 4, 2);
    assert_int_equal(p.count, 4);
    assert_int_equal(p.pair[0].a, 0);
    ole_pairs_free(&p);
    free(list);
}

static void test_bad_names(void **state) {
    (void)state;
    expect("2 1\nA 1 2\n", NULL, 2,
           "pairs.txt: these pairs are names, so --names must list the name of "
           "each row");
    const char list[] = "A_1\nA_2\nB_1\nB_2\n";
    expect("0 1\n", list, 2,
           "pairs.txt, line 1: expected the numbers of folds and of pairs in each, as '10 "
           "300', found '0 1'");
    expect("0 1 1\n2 3 0\n", list, 2,
           "pairs.txt: these pairs are row numbers, which need no list of names; omit --names");
    ole_pairs pairs;
    ole_error error;
    const char *path = write_text("pairs.txt", "2 1\nA 1 3\nA 1 B 1\nB 1 2\nA 2 B 2\n");
    assert_int_equal(ole_pairs_read(&pairs, path, write_text("names.txt", list), 4, 2, &error),
                     OLE_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "pairs.txt, line 2: picture 3 of 'A' is not in "));
    assert_non_null(strstr(error.message, "names.txt"));
}

static void test_bad_lists(void **state) {
    (void)state;
    const char pairs[] = "2 1\nA 1 2\nA 1 B 1\nB 1 2\nA 2 B 2\n";
    expect(pairs, "A_1\nA_2\nB_1\n", 2,
           "names.txt names 3 pictures but the features have 4 rows; they must match");
    expect(pairs, "A_1\nA_2\nB_1\nB_2\nB_3\n", 2,
           "names.txt names 5 pictures but the features have 4 rows; they must match");
    expect(pairs, "A_1\nA_2\nB\nB_2\n", 2,
           "names.txt, line 3: expected a picture's name as Ada_Lovelace_0004.jpg or "
           "Ada_Lovelace 4, found 'B'");
    expect(pairs, "A_1\nA_2\nB_x.jpg\nB_2\n", 2,
           "names.txt, line 3: expected a picture's name as Ada_Lovelace_0004.jpg or "
           "Ada_Lovelace 4, found 'B_x.jpg'");
    expect(pairs, "A_1\nB_2\nA_1.png\nB_1\n", 2,
           "names.txt: picture 1 of 'A' appears twice, as rows 0 and 2");
    const char list[] = "A_1\nA_2\nB_1\nB_2\n";
    expect("2 1\nA 1 2\nA 1 B 1\nB 1 2\n# end\n", list, 2,
           "pairs.txt: the file ends after 3 pairs, its first line announces more");
    expect("2 1\nA 1 2\nA 1 B 1\nB 1 2\nA 2 B 2\nA 1 2\n", list, 2,
           "pairs.txt, line 6: expected the end of the file, after the pairs its first line "
           "announces, found 'A 1 2'");
    expect("2 1\nA 1 B 1\nA 1 2\nB 1 2\nA 2 B 2\n", list, 2,
           "pairs.txt, line 2: expected two pictures of one person, NAME N N, found 'A 1 B 1'");
    expect("2 1\nA 1 2\nA 1 B x\nB 1 2\nA 2 B 2\n", list, 2,
           "pairs.txt, line 3: expected NAME N N or NAME N NAME N, found 'A 1 B x'");
    expect("10 300\nA 1 2\n", list, 2,
           "pairs.txt, line 1: announces 10 folds of 300 same and as many different pairs, but the "
           "file has 3 lines");
}

static void test_no_file(void **state) {
    (void)state;
    ole_pairs pairs;
    ole_error error;
    assert_int_equal(ole_pairs_read(&pairs, temporary_path("none.txt"), NULL, 4, 2, &error),
                     OLE_ERROR_IO);
    assert_non_null(strstr(error.message, "none.txt: cannot read: No such file"));
    assert_int_equal(ole_pairs_read(&pairs, NULL, NULL, 4, 2, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_pairs_read(&pairs, "x", NULL, 4, 1, &error), OLE_ERROR_ARGUMENT);
}

/* ---- Verifying ---------------------------------------------------------------------------- */

static void test_cosines(void **state) {
    (void)state;
    const float f32[] = {1, 0, 1, 1, 0, -2, 0, 0, 3e38f, 3e38f, 1e-40f, 0};
    const double f64[] = {1, 0, 1, 1, 0, -2, 0, 0, 1e300, 1e300, 1e-300, 0};
    const ole_pair pair[] = {{0, 1, true, 0}, {1, 2, false, 0}, {0, 3, false, 1},
                             {1, 4, true, 1}, {0, 5, true, 0},  {0, 2, false, 1}};
    const double expected[] = {sqrt(0.5), -sqrt(0.5), 0, 1, 1, 0};
    const ole_pairs pairs = {6, 2, (ole_pair *)pair};
    for (int t = 0; t < 2; t++) {
        ole_verification v;
        ole_error error;
        assert_ok(ole_verify(&v, 6, 2, t ? OLE_F64 : OLE_F32, t ? (const void *)f64 : f32, &pairs,
                             NULL, NULL, &error),
                  &error);
        assert_int_equal(v.same, 3);
        for (int i = 0; i < 6; i++)
            assert_true(fabs(v.score[i] - expected[i]) < 1e-15);
        assert_true(v.roc.auroc == 1.0);
        ole_verification_free(&v);
    }
}

/* Rows at angles whose cosines are the scores wanted, each paired with row 0. */
static ole_verification verify_scores(const double *scores, ole_pair *pair, int count, int folds) {
    double features[64][2] = {{1, 0}};
    for (int i = 0; i < count; i++) {
        features[i + 1][0] = scores[i];
        features[i + 1][1] = sqrt(1 - scores[i] * scores[i]);
        pair[i].a = 0;
        pair[i].b = i + 1;
    }
    const ole_pairs pairs = {count, folds, pair};
    ole_verification v;
    ole_error error;
    assert_ok(ole_verify(&v, count + 1, 2, OLE_F64, features, &pairs, NULL, NULL, &error), &error);
    return v;
}

/* Two folds by hand: the threshold of each is found on the other. */
static void test_folds(void **state) {
    (void)state;
    const double scores[] = {0.9, 0.5, 0.4, 0.1, /* fold 0 */ 0.8, 0.46, 0.55, 0.2};
    ole_pair pair[] = {{.same = true, .fold = 0},  {.same = true, .fold = 0},
                       {.same = false, .fold = 0}, {.same = false, .fold = 0},
                       {.same = true, .fold = 1},  {.same = true, .fold = 1},
                       {.same = false, .fold = 1}, {.same = false, .fold = 1}};
    ole_verification v = verify_scores(scores, pair, 8, 2);
    /* fold 1 is right but for one pair at 0.33 and at 0.675: the lower is taken */
    assert_true(fabs(v.fold_threshold[0] - 0.33) < 1e-12);
    assert_true(v.fold_accuracy[0] == 75.0);
    /* fold 0 is all right at 0.45, and fold 1 but for 0.55 */
    assert_true(fabs(v.fold_threshold[1] - 0.45) < 1e-12);
    assert_true(v.fold_accuracy[1] == 75.0);
    assert_true(v.accuracy == 75.0 && v.accuracy_std == 0.0);
    ole_verification_free(&v);
    ole_verification_free(NULL);
}

/* Where every pair of the others is different, nothing is accepted; where all are the same, all. */
static void test_one_sided_folds(void **state) {
    (void)state;
    const double scores[] = {0.9, 0.8, 0.1, 0.2};
    ole_pair pair[] = {{.same = true, .fold = 0},
                       {.same = true, .fold = 0},
                       {.same = false, .fold = 1},
                       {.same = false, .fold = 1}};
    ole_verification v = verify_scores(scores, pair, 4, 2);
    assert_true(v.fold_threshold[0] > 0.2 && v.fold_accuracy[0] == 100.0);
    assert_true(fabs(v.fold_threshold[1] - 0.8) < 1e-12 && v.fold_accuracy[1] == 100.0);
    ole_verification_free(&v);
}

static void test_progress(void **state) {
    (void)state;
    enum { COUNT = 5, DIM = 1 << 20 };
    float *x = calloc(2 * DIM, sizeof *x);
    assert_non_null(x);
    ole_pair pair[COUNT] = {{0, 1, true, 0}, {1, 0, false, 1}, {0, 1, true, 1}, {1, 1, true, 0}};
    const ole_pairs pairs = {COUNT, 2, pair};
    ole_verification v;
    ole_error error;
    shares told = {0};
    assert_ok(ole_verify(&v, 2, DIM, OLE_F32, x, &pairs, shares_note, &told, &error), &error);
    assert_int_equal(told.calls, 3); /* every second pair */
    assert_string_equal(told.what, "comparing pairs");
    assert_true(told.last == 4.0 / COUNT);
    ole_verification_free(&v);
    free(x);
}

static void test_bad_features(void **state) {
    (void)state;
    float x[] = {1, 0, 0, 1, NAN, 0, 1, 1};
    ole_pair pair[] = {{0, 1, true, 0}, {1, 3, false, 1}, {0, 3, true, 0}, {0, 1, false, 1}};
    ole_pairs pairs = {4, 2, pair};
    ole_verification v;
    ole_error error;
    shares told = {0};
    assert_ok(ole_verify(&v, 4, 2, OLE_F32, x, &pairs, shares_note, &told, &error), &error);
    assert_int_equal(told.calls, 1); /* so few are compared in a moment; row 2 is in no pair */
    ole_verification_free(&v);
    pairs.folds = 3;
    assert_int_equal(ole_verify(&v, 4, 2, OLE_F32, x, &pairs, NULL, NULL, &error),
                     OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message, "ole_verify: fold 2 has no pairs");
    pairs.folds = 2;
    pair[1].b = 2;
    assert_int_equal(ole_verify(&v, 4, 2, OLE_F32, x, &pairs, NULL, NULL, &error), OLE_ERROR_DATA);
    assert_string_equal(error.message, "features: row 2 holds NaN or Inf");
    pair[1].b = 4;
    assert_int_equal(ole_verify(&v, 4, 2, OLE_F32, x, &pairs, NULL, NULL, &error),
                     OLE_ERROR_ARGUMENT);
    pair[1] = (ole_pair){0, 1, true, 1};
    pair[3].same = true;
    assert_int_equal(ole_verify(&v, 4, 2, OLE_F32, x, &pairs, NULL, NULL, &error),
                     OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message, "all pairs are the same: both kinds are needed");
    assert_int_equal(ole_verify(&v, 4, 2, OLE_I64, x, &pairs, NULL, NULL, &error),
                     OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_verify(NULL, 4, 2, OLE_F32, x, &pairs, NULL, NULL, &error),
                     OLE_ERROR_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_bad_rows),
        cmocka_unit_test(test_deep_folders),
        cmocka_unit_test(test_bad_names),
        cmocka_unit_test(test_bad_lists),
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_cosines),
        cmocka_unit_test(test_folds),
        cmocka_unit_test(test_one_sided_folds),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_bad_features),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
