/*
 * tests/unit/data/test_data_folder.c - folders of images: classes, parts, sizes, bad images,
 * alignment.
 */
#include "data/formats/landmarks.h"
#include "data/source.h"
#include "data_files.h"

#include <complex.h>
#include <math.h>
#include <time.h>

/* A pgm of width x height, all pixels `value`. */
static void write_grey(const char *name, int width, int height, int value) {
    unsigned char bytes[600];
    int used = snprintf((char *)bytes, sizeof bytes, "P5 %d %d 255\n", width, height);
    memset(bytes + used, value, (size_t)(width * height));
    data_write(name, bytes, (size_t)(used + width * height));
}

static float first_pixel(const ole_dataset *set, ole_split split, int64_t i) {
    float sample[3 * 64];
    ole_error error;
    assert_ok(ole_dataset_sample(set, split, i, sample, &error), &error);
    return sample[0] * 255.0f;
}

static int write_animals(void **state) {
    if (data_dir_empty(state) != 0) return -1;
    char name[100];
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "dog/%d.pgm", i);
        write_grey(name, 4, 3, 100 + i);
        snprintf(name, sizeof name, "cat/%d.PGM", i);
        write_grey(name, 4, 3, 10 + i);
    }
    data_write("cat/notes.txt", "not an image", 12);
    data_write("cat/.hidden.pgm", "not an image", 12);
    data_write("readme.md", "beside the classes", 18);
    return 0;
}

static void test_classes(void **state) {
    (void)state;
    write_grey("cat/folder.pgm/1.pgm", 4, 3, 1); /* a folder, whatever its name */
    ole_dataset *set = data_open(data_name("folder", ""), NULL);
    const ole_dataset_info *info = ole_dataset_get_info(set);
    assert_int_equal(info->classes, 2);
    assert_string_equal(info->class_names[0], "cat");
    assert_string_equal(info->class_names[1], "dog");
    assert_int_equal(info->count[OLE_SPLIT_TRAIN], 16);
    assert_int_equal(info->count[OLE_SPLIT_TEST], 4);
    assert_int_equal(info->channels, 1);
    assert_int_equal(info->height, 3);
    assert_int_equal(info->width, 4);
    for (int64_t i = 0; i < 16; i++) {
        float pixel = first_pixel(set, OLE_SPLIT_TRAIN, i);
        assert_int_equal(ole_dataset_labels(set, OLE_SPLIT_TRAIN)[i], pixel > 50);
        const char *file = ole_dataset_file_name(set, OLE_SPLIT_TRAIN, i);
        assert_int_equal(atoi(file + 4) + (pixel > 50 ? 100 : 10), (int)(pixel + 0.5f));
        assert_int_equal(strncmp(file, pixel > 50 ? "dog/" : "cat/", 4), 0);
    }
    assert_null(ole_dataset_file_name(set, OLE_SPLIT_TRAIN, -1));
    assert_null(ole_dataset_file_name(set, OLE_SPLIT_TEST, 4));
    assert_null(ole_dataset_file_name(set, OLE_SPLIT_VALIDATION, 0));
    assert_null(ole_dataset_file_name(NULL, OLE_SPLIT_TEST, 0));
    assert_int_equal(ole_dataset_row(set, OLE_SPLIT_TEST, 4), -1);
    assert_int_equal(ole_dataset_row(NULL, OLE_SPLIT_TEST, 0), -1);
    ole_dataset_close(set);
}

static void test_parts(void **state) {
    data_dir_empty(state);
    write_grey("train/a/1.pgm", 2, 2, 1);
    write_grey("train/b/1.pgm", 2, 2, 2);
    write_grey("test/b/1.pgm", 2, 2, 3);
    ole_dataset *set = data_open(data_name("folder", ""), NULL);
    assert_int_equal(ole_dataset_get_info(set)->count[OLE_SPLIT_TRAIN], 2);
    assert_int_equal(ole_dataset_get_info(set)->count[OLE_SPLIT_TEST], 1);
    assert_int_equal(ole_dataset_labels(set, OLE_SPLIT_TEST)[0], 1);
    assert_float_equal(first_pixel(set, OLE_SPLIT_TEST, 0), 3, 1e-4);
    assert_string_equal(ole_dataset_file_name(set, OLE_SPLIT_TEST, 0), "test/b/1.pgm");
    assert_int_equal(ole_dataset_row(set, OLE_SPLIT_TEST, 0), 0); /* counted apart */
    ole_dataset_close(set);
    data_write("test/run/metrics.jsonl", "", 0); /* no class but a run */
    data_write("test/run/config.yaml", "", 0);
    ole_dataset_close(data_open(data_name("folder", ""), NULL));
    write_grey("test/c/1.pgm", 2, 2, 3);
    data_expect(data_name("folder", ""), NULL, OLE_ERROR_DATA,
                "test/c: this class has no training folder");
}

static void test_sizes(void **state) {
    (void)state;
    write_grey("dog/5.pgm", 5, 3, 9);
    data_expect(data_name("folder", ""), NULL, OLE_ERROR_DATA, "dog/5.pgm: is 5x3 pixels, ");
    data_expect(data_name("folder", ""), NULL, OLE_ERROR_DATA,
                "cat/0.PGM is 4x3; scale all to one size");
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.resize = 2;
    options.channels = 3;
    ole_dataset *set = data_open(data_name("folder", ""), &options);
    const ole_dataset_info *info = ole_dataset_get_info(set);
    assert_int_equal(info->channels, 3);
    assert_int_equal(info->height, 2);
    assert_int_equal(info->width, 2);
    assert_int_equal(info->sizes.least_height, 3);
    assert_int_equal(info->sizes.most_height, 3);
    assert_int_equal(info->sizes.least_width, 4);
    assert_int_equal(info->sizes.most_width, 5);
    ole_dataset_close(set);
    options.resize_width = 3;
    set = data_open(data_name("folder", ""), &options);
    assert_int_equal(ole_dataset_get_info(set)->height, 2);
    assert_int_equal(ole_dataset_get_info(set)->width, 3);
    ole_dataset_close(set);
    options.resize = 0;
    data_expect(data_name("folder", ""), &options, OLE_ERROR_ARGUMENT,
                "options.resize_width is 3; must be 0 to 4096, with the height in options.resize");
}

/* What is known before the images are read. */
static void test_look(void **state) {
    (void)state;
    ole_probe probe;
    ole_error error;
    assert_ok(ole_dataset_probe(data_name("folder", ""), NULL, &probe, &error), &error);
    assert_int_equal(probe.channels, 1);
    assert_int_equal(probe.height, 3);
    assert_int_equal(probe.width, 4);
    assert_int_equal(probe.side, 3);
    assert_false(probe.sizes_differ);
    assert_false(probe.channels_differ);
    for (int i = 0; i < 11; i++) {
        char name[100];
        snprintf(name, sizeof name, "dog/large%d.pgm", i);
        write_grey(name, 9, 20, 9);
    }
    data_write("cat/0.PGM", "nonsense", 8);
    data_write("dog/0.pgm", "P6 4 3 255\n------------------------------------", 47);
    assert_ok(ole_dataset_probe(data_name("folder", ""), NULL, &probe, &error), &error);
    assert_int_equal(probe.channels, 1);
    assert_int_equal(probe.height, 3);
    assert_int_equal(probe.side, 3); /* 19 of 3, 11 of 9 */
    assert_true(probe.sizes_differ);
    assert_true(probe.channels_differ);
}

static void test_look_at_nothing(void **state) {
    data_dir_empty(state);
    ole_probe probe;
    ole_error error;
    data_write("cat/a.png", "nonsense", 8);
    data_write("cat/b.png", "also", 4);
    assert_int_equal(ole_dataset_probe(data_name("folder", ""), NULL, &probe, &error),
                     OLE_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "cat/a.png: byte 0: not a png"));
    assert_int_equal(ole_dataset_probe("folder:", NULL, &probe, &error), OLE_ERROR_ARGUMENT);
    assert_ok(ole_dataset_probe("digits", NULL, &probe, &error), &error);
    assert_int_equal(probe.height, 8);
}

/* What the callback for bad images was told. */
typedef struct told {
    int count;
    char text[400];
} told;

static void note_bad(void *context, const char *path, const char *reason) {
    told *t = context;
    t->count++;
    size_t used = strlen(t->text);
    snprintf(t->text + used, sizeof t->text - used, "%s|%s\n", path + strlen(data_dir), reason);
}

/* All of them are told of, in order, whether they are skipped or an error. */
static void test_told(void **state) {
    (void)state;
    data_write("cat/0.PGM", "P5 4 3 255\nshort", 16);
    data_write("cat/9.PGM", "", 0);
    data_write("dog/3.pgm", "nonsense", 8);
    told t;
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.bad_image = note_bad;
    options.bad_image_context = &t;
    for (int i = 0; i < 4; i++) {
        t = (told){0};
        options.skip_bad = i % 2;
        options.threads = 1 + i / 2;
        if (options.skip_bad)
            ole_dataset_close(data_open(data_name("folder", ""), &options));
        else
            data_expect(data_name("folder", ""), &options, OLE_ERROR_FORMAT,
                        "cut off; 3 images are unreadable, 'ole data check' lists them");
        assert_int_equal(t.count, 3);
        assert_string_equal(
            t.text, "/cat/0.PGM|byte 11: the file ends before its 4x3 pixels do: it is cut off\n"
                    "/cat/9.PGM|byte 0: not a png, jpeg, webp, bmp, tiff, pgm or ppm image\n"
                    "/dog/3.pgm|byte 0: not a png, jpeg, webp, bmp, tiff, pgm or ppm image\n");
    }
    data_dir_empty(state);
    data_write("a/1.png", "nothing", 7);
    data_write("b/1.png", "nothing", 7);
    t = (told){0};
    options.skip_bad = true;
    data_expect(data_name("folder", ""), &options, OLE_ERROR_FORMAT,
                "none of the 2 images can be read");
    assert_int_equal(t.count, 2);
}

static void test_bad_images(void **state) {
    (void)state;
    data_write("cat/0.PGM", "P5 4 3 255\nshort", 16);
    data_write("dog/3.pgm", "nonsense", 8);
    data_expect(data_name("folder", ""), NULL, OLE_ERROR_FORMAT, "cat/0.PGM: byte 11: ");
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.skip_bad = true;
    options.test_share = 0;
    for (options.threads = 1; options.threads <= 3; options.threads++) {
        ole_dataset *set = data_open(data_name("folder", ""), &options);
        const ole_dataset_info *info = ole_dataset_get_info(set);
        assert_int_equal(info->skipped, 2);
        assert_int_equal(info->count[OLE_SPLIT_TRAIN], 18);
        for (int64_t i = 0; i < 18; i++) {
            int64_t expected = i < 9 ? 11 + i : i < 12 ? 100 + i - 9 : 101 + i - 9;
            assert_float_equal(first_pixel(set, OLE_SPLIT_TRAIN, i), (float)expected, 1e-4);
            const char *file = ole_dataset_file_name(set, OLE_SPLIT_TRAIN, i);
            assert_int_equal(atoi(file + 4), expected % 100 - (i < 9 ? 10 : 0));
        }
        ole_dataset_close(set);
    }
    options.threads = 1;
    for (int i = 0; i < 10; i++) {
        char name[100];
        snprintf(name, sizeof name, "cat/%d.PGM", i);
        data_write(name, "bad", 3);
    }
    data_expect(data_name("folder", ""), &options, OLE_ERROR_DATA,
                "folder: class 0 'cat' has no training samples");
}

static void test_empty(void **state) {
    (void)state;
    data_write("bird/notes.txt", "no images", 9);
    data_expect(data_name("folder", ""), NULL, OLE_ERROR_DATA, "bird: no images in this class");
    data_write("bird/small/notes.txt", "no images", 9);
    data_expect(data_name("folder", ""), NULL, OLE_ERROR_DATA,
                "bird: this class folder holds folders, not images; name the folder right above "
                "the classes");
    data_expect(data_name("folder", "cat"), NULL, OLE_ERROR_DATA,
                "cat: 0 subfolders; classification needs one per class");
    data_expect(data_name("folder", "nowhere"), NULL, OLE_ERROR_IO,
                "nowhere: cannot open the folder: No such file or directory");
    data_expect("folder", NULL, OLE_ERROR_ARGUMENT, "as in folder:photos");
    data_expect("folder:", NULL, OLE_ERROR_ARGUMENT, "as in folder:photos");
}

/* ---- Alignment by landmarks ---------------------------------------------------------------- */

enum { FACE_WIDTH = 24, FACE_HEIGHT = 20 };

/* Grey rises by `right` per column and `down` per row, so that any interpolation is exact. */
static void write_slope(const char *name, int right, int down) {
    unsigned char bytes[600];
    int used = snprintf((char *)bytes, sizeof bytes, "P5 %d %d 255\n", FACE_WIDTH, FACE_HEIGHT);
    for (int i = 0; i < FACE_WIDTH * FACE_HEIGHT; i++)
        bytes[used + i] = (unsigned char)(10 + right * (i % FACE_WIDTH) + down * (i / FACE_WIDTH));
    data_write(name, bytes, (size_t)(used + FACE_WIDTH * FACE_HEIGHT));
}

static void write_text(const char *name, const char *text) {
    data_write(name, text, strlen(text));
}

static ole_dataset_options align_options(void) {
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.test_share = 0;
    options.resize = 8;
    options.align = "marks.csv";
    return options;
}

/* The eyes at these places of the source determine where each output pixel comes from. */
static void check_aligned(double _Complex left, double _Complex right, int rise, int fall) {
    char text[300];
    snprintf(text, sizeof text, "file,lx,ly,rx,ry\na/1.pgm,%g,%g,%g,%g\nb/1.pgm,9,9,14,9\n",
             creal(left), cimag(left), creal(right), cimag(right));
    write_text("marks.csv", text);
    write_slope("a/1.pgm", rise, fall);
    ole_dataset_options options = align_options();
    ole_dataset *set = data_open(data_name("folder", ""), &options);
    float sample[64];
    ole_error error;
    assert_ok(ole_dataset_sample(set, OLE_SPLIT_TRAIN, 0, sample, &error), &error);
    double _Complex from = 0.34 * 8 - 0.5 + (0.44 * 8 - 0.5) * I, to = from + 0.32 * 8;
    double _Complex turn = (right - left) / (to - from);
    int inside = 0;
    for (int v = 0; v < 8; v++)
        for (int u = 0; u < 8; u++) {
            double _Complex place = left + turn * (u + v * I - from);
            double x = creal(place), y = cimag(place), edge = cabs(turn);
            if (x < edge || x > FACE_WIDTH - 1 - edge || y < edge || y > FACE_HEIGHT - 1 - edge)
                continue;
            inside++;
            assert_float_equal(255 * sample[v * 8 + u], 10 + rise * x + fall * y, 0.51);
        }
    assert_true(inside > 30);
    ole_dataset_close(set);
}

static void test_align(void **state) {
    (void)state;
    write_slope("b/1.pgm", 1, 1);
    check_aligned(9 + 8 * I, 12.2 + 8 * I, 5, 3);   /* larger than the template's 2.56 */
    check_aligned(10 + 9 * I, 12 + 10.5 * I, 4, 4); /* turned */
    check_aligned(12 + 9 * I, 11 + 7 * I, 3, 6);    /* upside down, and enlarged */
    check_aligned(8 + 8 * I, 14 + 7 * I, 5, 3);     /* shrunk by more than 2 */
}

/* Landmarks far apart, of a small image, read no more of it than there is: one second and not one
 * for each image, or more. */
static void test_align_far(void **state) {
    (void)state;
    enum { IMAGES = 16 };
    char text[60 * IMAGES], *to = text + sprintf(text, "file,lx,ly,rx,ry\nb/1.pgm,9,9,14,9\n");
    write_slope("b/1.pgm", 1, 1);
    for (int i = 0; i < IMAGES; i++) {
        char name[20];
        snprintf(name, sizeof name, "a/%d.pgm", i);
        write_slope(name, 1, 1);
        to += sprintf(to, "%s,0,0,1e5,1e5\n", name);
    }
    write_text("marks.csv", text);
    ole_dataset_options options = align_options();
    options.resize = 256;
    clock_t before = clock();
    ole_dataset_close(data_open(data_name("folder", ""), &options));
    assert_true((double)(clock() - before) / CLOCKS_PER_SEC < 4.0);
}

/* No change of the transform brings five landmarks nearer to the template. */
static void test_align_least(void **state) {
    (void)state;
    static const double source[5][2] = {{7, 8}, {14, 9}, {10, 13}, {8, 16}, {13, 15}};
    static const double aim[5][2] = {
        {0.34, 0.44}, {0.66, 0.44}, {0.5, 0.62}, {0.37, 0.80}, {0.63, 0.80}};
    write_text("marks.csv", "file,a,b,c,d,e,f,g,h,i,j\na/1.pgm,7,8,14,9,10,13,8,16,13,15\n");
    ole_landmarks marks;
    ole_similarity t;
    ole_error error;
    assert_ok(ole_landmarks_read(&marks, data_path(""), "marks.csv", &error), &error);
    assert_ok(ole_landmarks_fit(&marks, "a/1.pgm", 50, 100, &t, &error), &error);
    ole_landmarks_free(&marks);
    double _Complex forth = 1 / (t.cosine + t.sine * I), shift = -forth * (t.x + t.y * I);
    double best = 0;
    for (int change = 0; change < 9; change++) {
        static const double _Complex steps[4] = {1, -1, I, -I};
        double _Complex a = forth + (change > 4 ? 1e-3 * steps[change - 5] : 0), sum = 0;
        double _Complex b = shift + (change > 0 && change < 5 ? 1e-2 * steps[change - 1] : 0);
        for (int k = 0; k < 5; k++) {
            double _Complex off = a * (source[k][0] + source[k][1] * I) + b -
                                  (100 * aim[k][0] - 0.5 + (50 * aim[k][1] - 0.5) * I);
            sum += off * conj(off);
        }
        if (change == 0) best = creal(sum);
        assert_true(change == 0 || creal(sum) > best);
    }
}

static void test_align_mistakes(void **state) {
    (void)state;
    write_slope("a/1.pgm", 1, 1);
    write_slope("a/2.pgm", 1, 1);
    write_slope("b/1.pgm", 1, 1);
    write_slope("b/2.pgm", 1, 1);
    ole_dataset_options options = align_options();
    const char *name = data_name("folder", "");
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"file,x,y,x,y\na/1.pgm,1,2,3,4\na/1.pgm,1,2,3,4\n",
         "'a/1.pgm' appears in another row too"},
        {"file,x,y,x,y\na/1.pgm,1,2,3,left\nb/1.pgm,1,2,3,4\n", "found 'left'"},
        {"file,x,y\na/1.pgm,1,2\n", "3 columns; must be the file and x and y of 2 to 128"},
        {"file,x,y,x,y,x,y\na/1.pgm,1,2,3,4,5,6\n", "3 landmarks per image need a row called"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_text("marks.csv", wrong[i].text);
        data_expect(name, &options, OLE_ERROR_DATA, wrong[i].message);
    }
    write_text("marks.csv", "file,x,y,x,y\na/1.pgm,1,2,3,4\nb/1.pgm,5,5,5,5\nb/2.pgm,1,2,3,4\n");
    data_expect(name, &options, OLE_ERROR_FORMAT, "a/2.pgm: no row in ");
    options.skip_bad = true; /* a/2.pgm has no row, b/1.pgm no extent */
    ole_dataset *set = data_open(name, &options);
    assert_int_equal(ole_dataset_get_info(set)->skipped, 2);
    assert_int_equal(ole_dataset_get_info(set)->count[OLE_SPLIT_TRAIN], 2);
    ole_dataset_close(set);
    write_text("marks.csv", "file,x,y,x,y,x,y\ntemplate,.2,.2,.8,.2,.5,.8\na/1.pgm,1,2,9,2,5,8\n"
                            "b/2.pgm,1,2,9,2,5,8\n");
    set = data_open(name, &options);
    assert_int_equal(ole_dataset_get_info(set)->count[OLE_SPLIT_TRAIN], 2);
    ole_dataset_close(set);
    options.resize = 0;
    data_expect(name, &options, OLE_ERROR_ARGUMENT, "options.align needs the size of the images");
    options.resize = 8;
    options.align = "nowhere.csv";
    data_expect(name, &options, OLE_ERROR_IO, "nowhere.csv");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_classes, write_animals),
        cmocka_unit_test_setup(test_parts, write_animals),
        cmocka_unit_test_setup(test_sizes, write_animals),
        cmocka_unit_test_setup(test_look, write_animals),
        cmocka_unit_test_setup(test_look_at_nothing, write_animals),
        cmocka_unit_test_setup(test_told, write_animals),
        cmocka_unit_test_setup(test_bad_images, write_animals),
        cmocka_unit_test_setup(test_empty, write_animals),
        cmocka_unit_test_setup(test_align, data_dir_empty),
        cmocka_unit_test_setup(test_align_far, data_dir_empty),
        cmocka_unit_test_setup(test_align_least, data_dir_empty),
        cmocka_unit_test_setup(test_align_mistakes, data_dir_empty),
    };
    return cmocka_run_group_tests(tests, data_dir_make, data_dir_remove);
}
