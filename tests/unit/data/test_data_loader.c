/*
 * tests/unit/data/test_data_loader.c - batches: the same bits whatever the threads and the order of
 * asking; crop, flip and normalisation by hand; photo augmentation and mixup
 * against NumPy; balanced batches.
 */
#include "base/philox.h"
#include "data/loader/augment.h"
#include "data/loader/loader.h"
#include "data/loader/order.h"
#include "data_files.h"
#include "held_memory.h"
#include "ole/npy.h"

#include "../../recorded/photo_augment.h"

#include <math.h>
#include <pthread.h>

static ole_loader_options defaults(void) {
    ole_loader_options options;
    ole_loader_options_init(&options);
    return options;
}

static ole_loader *create(const ole_dataset *set, ole_split split,
                          const ole_loader_options *options) {
    ole_loader *loader;
    ole_error error;
    assert_ok(ole_loader_create(&loader, set, split, options, &error), &error);
    return loader;
}

static ole_batch get(ole_loader *loader, int64_t epoch, int64_t batch) {
    ole_batch out;
    ole_error error;
    assert_ok(ole_loader_get(loader, epoch, batch, &out, &error), &error);
    return out;
}

static void assert_same_batch(const ole_batch *a, const ole_batch *b, int64_t size) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->images, b->images, (size_t)(a->count * size) * sizeof *a->images);
    assert_memory_equal(a->labels, b->labels, (size_t)a->count * sizeof *a->labels);
    assert_memory_equal(a->indices, b->indices, (size_t)a->count * sizeof *a->indices);
}

static ole_loader_options everything(void) {
    ole_loader_options options = defaults();
    options.batch_size = 50;
    options.seed = 42;
    options.shuffle = options.flip = true;
    options.crop = 2;
    options.mean[0] = 0.3f;
    options.deviation[0] = 0.4f;
    return options;
}

/* ---- The same bits ------------------------------------------------------------------------ */

static void test_threads(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    ole_loader_options options = everything();
    for (int balanced = 0; balanced < 2; balanced++) {
        options.balanced_classes = 7 * balanced;
        options.balanced_samples = 6 * balanced;
        options.threads = 0;
        ole_loader *plain = create(set, OLE_SPLIT_TRAIN, &options);
        options.threads = 1;
        ole_loader *one = create(set, OLE_SPLIT_TRAIN, &options);
        options.threads = 3;
        ole_loader *three = create(set, OLE_SPLIT_TRAIN, &options);
        int64_t batches = ole_loader_batches(plain);
        assert_int_equal(ole_loader_batches(three), batches);
        for (int64_t epoch = 0; epoch < 3; epoch++)
            for (int64_t b = 0; b < batches; b++) {
                ole_batch expected = get(plain, epoch, b);
                ole_batch from_one = get(one, epoch, b), from_three = get(three, epoch, b);
                assert_same_batch(&expected, &from_one, 64);
                assert_same_batch(&expected, &from_three, 64);
            }
        ole_loader_destroy(plain);
        ole_loader_destroy(one);
        ole_loader_destroy(three);
    }
    ole_dataset_close(set);
}

static void test_asking_order(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    ole_loader_options options = everything();
    for (int balanced = 0; balanced < 2; balanced++) {
        options.balanced_classes = 4 * balanced;
        options.balanced_samples = 5 * balanced;
        options.threads = 0;
        ole_loader *plain = create(set, OLE_SPLIT_TRAIN, &options);
        options.threads = 2;
        ole_loader *ahead = create(set, OLE_SPLIT_TRAIN, &options);
        const int64_t asked[][2] = {{5, 3}, {5, 4}, {0, 0},  {5, 3},
                                    {5, 3}, {2, 9}, {2, 10}, {1, 0}};
        for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
            ole_batch expected = get(plain, asked[i][0], asked[i][1]);
            ole_batch got = get(ahead, asked[i][0], asked[i][1]);
            assert_same_batch(&expected, &got, 64);
        }
        ole_loader_destroy(plain);
        ole_loader_destroy(ahead);
    }
    ole_dataset_close(set);
}

/* The parts of a batch, one after the other, are the batch; the last one has fewer rows than parts
 * where they are many. */
static void test_parts(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    ole_loader_options options = everything();
    for (int parts = 1; parts <= 25; parts += 4) {
        for (int64_t b = 0; b < 26; b += 25) {
            options.parts = options.part = options.threads = 0;
            ole_loader *whole = create(set, OLE_SPLIT_TRAIN, &options);
            assert_int_equal(ole_loader_batches(whole), 26);
            ole_batch all = get(whole, 2, b);
            assert_int_equal(all.count, b == 0 ? 50 : 8);
            int64_t first = 0;
            for (int part = 0; part < parts; part++) {
                options.part = part;
                options.parts = parts;
                options.threads = part % 2;
                ole_loader *loader = create(set, OLE_SPLIT_TRAIN, &options);
                assert_int_equal(ole_loader_batches(loader), 26);
                ole_batch ours = get(loader, 2, b);
                int64_t count = all.count / parts + (part < all.count % parts);
                ole_batch expected = {count, all.images + first * 64, all.labels + first,
                                      all.indices + first};
                assert_same_batch(&ours, &expected, 64);
                first += count;
                ole_loader_destroy(loader);
            }
            assert_int_equal(first, all.count);
            ole_loader_destroy(whole);
        }
    }
    ole_dataset_close(set);
}

/* ---- Order -------------------------------------------------------------------------------- */

static void test_in_order(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    ole_loader_options options = defaults();
    options.batch_size = 100;
    options.threads = 1;
    ole_loader *loader = create(set, OLE_SPLIT_TEST, &options);
    assert_int_equal(ole_loader_batches(loader), 6);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t b = 0; b < 6; b++) {
            ole_batch batch = get(loader, 0, b);
            assert_int_equal(batch.count, b < 5 ? 100 : 39);
            for (int64_t i = 0; i < batch.count; i++) {
                assert_int_equal(batch.indices[i], b * 100 + i);
                float sample[64];
                ole_dataset_sample(set, OLE_SPLIT_TEST, b * 100 + i, sample, NULL);
                assert_memory_equal(sample, batch.images + i * 64, sizeof sample);
                assert_int_equal(batch.labels[i],
                                 ole_dataset_labels(set, OLE_SPLIT_TEST)[b * 100 + i]);
            }
        }
    ole_loader_destroy(loader);
    options.drop_last = true;
    loader = create(set, OLE_SPLIT_TEST, &options);
    assert_int_equal(ole_loader_batches(loader), 5);
    ole_loader_destroy(loader);
    ole_dataset_close(set);
}

static void test_shuffle(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    ole_loader_options options = defaults();
    options.shuffle = true;
    ole_loader *loader = create(set, OLE_SPLIT_TEST, &options);
    int64_t order[3][539];
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        bool seen[539] = {false};
        int64_t at = 0;
        for (int64_t b = 0; b < ole_loader_batches(loader); b++) {
            ole_batch batch = get(loader, epoch, b);
            for (int64_t i = 0; i < batch.count; i++, at++) {
                order[epoch][at] = batch.indices[i];
                assert_false(seen[batch.indices[i]]); /* each sample once */
                seen[batch.indices[i]] = true;
            }
        }
        assert_int_equal(at, 539);
    }
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    for (int64_t i = 0; i < 539; i++) /* Fisher and Yates, as documented */
        order[2][i] = i;
    for (int64_t i = 538; i > 0; i--) {
        uint32_t words[4];
        ole_philox(options.seed, OLE_RANDOM_SHUFFLE, 1, (uint64_t)i, words);
        int64_t j = (int64_t)(((uint64_t)words[0] * (uint64_t)(i + 1)) >> 32), item = order[2][i];
        order[2][i] = order[2][j];
        order[2][j] = item;
    }
    assert_memory_equal(order[1], order[2], sizeof order[1]);
    ole_loader_destroy(loader);
    ole_dataset_close(set);
}

static void test_balanced(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    ole_loader_options options = defaults();
    options.balanced_classes = 4;
    options.balanced_samples = 8;
    ole_loader *loader = create(set, OLE_SPLIT_TRAIN, &options);
    assert_int_equal(ole_loader_batches(loader), 1258 / 32);
    int64_t used[10] = {0};
    for (int64_t b = 0; b < ole_loader_batches(loader); b++) {
        ole_batch batch = get(loader, 3, b);
        assert_int_equal(batch.count, 32);
        int in_batch[10] = {0};
        for (int64_t i = 0; i < batch.count; i++) {
            in_batch[batch.labels[i]]++;
            for (int64_t k = 0; k < i; k++)
                assert_true(batch.indices[k] != batch.indices[i]);
        }
        for (int c = 0; c < 10; c++) {
            assert_true(in_batch[c] == 0 || in_batch[c] == 8);
            used[c] += in_batch[c] / 8;
        }
    }
    for (int c = 0; c < 10; c++) /* 39 batches of 4 are 15.6 a class */
        assert_true(used[c] == 15 || used[c] == 16);
    ole_loader_destroy(loader);
    ole_dataset_close(set);
}

/* A class with fewer samples than a batch wants has them several times. */
static void test_balanced_few(void **state) {
    (void)state;
    ole_dataset_options few;
    ole_dataset_options_init(&few);
    few.samples_per_class = 3;
    ole_dataset *set = data_open("digits", &few);
    ole_loader_options options = defaults();
    options.balanced_classes = 10;
    options.balanced_samples = 7;
    ole_loader *loader = create(set, OLE_SPLIT_TRAIN, &options);
    assert_int_equal(ole_loader_batches(loader), 1);
    ole_batch batch = get(loader, 0, 0);
    int times[30] = {0};
    for (int64_t i = 0; i < batch.count; i++)
        times[batch.indices[i]]++;
    for (int i = 0; i < 30; i++)
        assert_true(times[i] == 2 || times[i] == 3);
    ole_loader_destroy(loader);
    ole_dataset_close(set);
}

/* ---- Pixels ------------------------------------------------------------------------------- */

enum { SIDE = 4, PIXELS = 2 * SIDE * SIDE, SAMPLES = 40 };

/* Two-channel float or byte images whose pixels are all different; none is 0. */
static const char *write_images(bool bytes) {
    static char name[1300];
    float floats[SAMPLES][PIXELS];
    uint8_t small[SAMPLES][PIXELS];
    int64_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i % 2;
        for (int k = 0; k < PIXELS; k++) {
            small[i][k] = (uint8_t)(1 + (i * PIXELS + k) % 255);
            floats[i][k] = (float)(1 + i * PIXELS + k);
        }
    }
    const int64_t shape[4] = {SAMPLES, 2, SIDE, SIDE};
    ole_error error;
    assert_ok(ole_npy_write(data_path("X.npy"), bytes ? OLE_U8 : OLE_F32, 4, shape,
                            bytes ? (void *)small : floats, &error),
              &error);
    assert_ok(ole_npy_write(data_path("y.npy"), OLE_I64, 1, shape, labels, &error), &error);
    snprintf(name, sizeof name, "npy:%s,%s", data_path("X.npy"), data_path("y.npy"));
    return name;
}

/* The augmentation written down again: pad with black, crop, mirror, normalise. */
static void augment(const float *image, const ole_loader_options *o, int64_t epoch, int64_t sample,
                    float *out) {
    uint32_t words[4];
    ole_philox(o->seed, OLE_RANDOM_WINDOW, (uint64_t)epoch, (uint64_t)sample, words);
    int padded = SIDE + 2 * o->crop;
    int top = (int)ole_below(words[0], 2 * (uint32_t)o->crop + 1);
    int left = (int)ole_below(words[1], 2 * (uint32_t)o->crop + 1);
    bool mirror = o->flip && words[2] >= 0x80000000u;
    for (int c = 0; c < 2; c++) {
        float canvas[SIDE * 5][SIDE * 5] = {{0}};
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                canvas[y + o->crop][x + o->crop] = image[c * SIDE * SIDE + y * SIDE + x];
        assert_true(padded <= SIDE * 5);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                float value = canvas[y + top][left + (mirror ? SIDE - 1 - x : x)];
                *out++ = (value - o->mean[c]) / o->deviation[c];
            }
    }
}

static void check_augmented(bool bytes, int crop, bool flip) {
    ole_dataset_options all;
    ole_dataset_options_init(&all);
    all.test_share = 0;
    ole_dataset *set = data_open(write_images(bytes), &all);
    ole_loader_options options = defaults();
    options.seed = 9;
    options.crop = crop;
    options.flip = flip;
    options.mean[0] = 0.25f;
    options.mean[1] = 0.5f;
    options.deviation[0] = 2.0f;
    options.deviation[1] = 0.3f;
    ole_loader *loader = create(set, OLE_SPLIT_TRAIN, &options);
    int changed = 0;
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        ole_batch batch = get(loader, epoch, 0);
        assert_int_equal(batch.count, SAMPLES);
        for (int64_t i = 0; i < SAMPLES; i++) {
            float image[PIXELS], expected[PIXELS];
            ole_dataset_sample(set, OLE_SPLIT_TRAIN, i, image, NULL);
            augment(image, &options, epoch, i, expected);
            for (int k = 0; k < PIXELS; k++)
                assert_float_equal(batch.images[i * PIXELS + k], expected[k], 0);
            changed += batch.images[i * PIXELS] != (image[0] - 0.25f) / 2.0f;
        }
    }
    if (crop > 0 || flip)
        assert_true(changed > SAMPLES / 3);
    else
        assert_int_equal(changed, 0);
    ole_loader_destroy(loader);
    ole_dataset_close(set);
}

static void test_augmentation(void **state) {
    (void)state;
    for (int bytes = 0; bytes < 2; bytes++) {
        check_augmented(bytes, 0, false);
        check_augmented(bytes, 1, false);
        check_augmented(bytes, 0, true);
        check_augmented(bytes, 2, true);
        check_augmented(bytes, 7, true); /* windows that see nothing but the pad */
    }
}

/* ---- Refusals ----------------------------------------------------------------------------- */

static void expect(const ole_dataset *set, ole_split split, const ole_loader_options *options,
                   const char *words) {
    ole_loader *loader = (ole_loader *)1;
    ole_error error = {0};
    assert_int_equal(ole_loader_create(&loader, set, split, options, &error), OLE_ERROR_ARGUMENT);
    assert_null(loader);
    if (!strstr(error.message, words))
        fail_msg("message \"%s\", which should have \"%s\"", error.message, words);
}

static void test_errors(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    expect(set, OLE_SPLIT_VALIDATION, NULL, "digits has no samples in split 2");
    expect(set, 7, NULL, "digits has no samples in split 7");
    ole_loader_options options = defaults();
    options.batch_size = 0;
    expect(set, OLE_SPLIT_TRAIN, &options, "options.batch_size is 0");
    options.batch_size = 2000;
    options.drop_last = true;
    expect(set, OLE_SPLIT_TRAIN, &options, "fewer than one batch of 2000");
    options = defaults();
    options.crop = -1;
    expect(set, OLE_SPLIT_TRAIN, &options, "options.crop is -1");
    options = defaults();
    options.threads = -1;
    expect(set, OLE_SPLIT_TRAIN, &options, "options.threads is -1");
    options = defaults();
    options.deviation[0] = 0;
    expect(set, OLE_SPLIT_TRAIN, &options, "a deviation over 0");
    options = defaults();
    options.balanced_classes = 11;
    options.balanced_samples = 2;
    expect(set, OLE_SPLIT_TRAIN, &options, "options.balanced_classes is 11; must be 1 to 10");
    options.balanced_classes = 10;
    options.balanced_samples = 0;
    expect(set, OLE_SPLIT_TRAIN, &options, "options.balanced_samples is 0");
    options = defaults();
    options.part = options.parts = 2;
    expect(set, OLE_SPLIT_TRAIN, &options, "options.part is 2 of options.parts 2");
    options.struct_size = 3;
    expect(set, OLE_SPLIT_TRAIN, &options, "options.struct_size is 3");

    ole_loader *loader = create(set, OLE_SPLIT_TRAIN, NULL);
    ole_batch batch;
    ole_error error;
    assert_int_equal(ole_loader_get(loader, 0, 20, &batch, &error), OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message,
                        "ole_loader_get: there is no batch 20 of epoch 0: an epoch has 20");
    assert_int_equal(ole_loader_get(loader, -1, 0, &batch, &error), OLE_ERROR_ARGUMENT);
    ole_loader_destroy(loader);
    ole_loader_destroy(NULL);
    ole_dataset_close(set);
}

static void test_vectors(void **state) {
    (void)state;
    const float x[4][6] = {{1, 2, 3, 4, 5, 6}, {2, 3, 4, 5, 6, 7}, {0}, {9, 9, 9, 9, 9, 9}};
    const int64_t labels[4] = {0, 1, 0, 1}, shape[2] = {4, 6};
    ole_error error;
    assert_ok(ole_npy_write(data_path("X.npy"), OLE_F32, 2, shape, x, &error), &error);
    assert_ok(ole_npy_write(data_path("y.npy"), OLE_I64, 1, shape, labels, &error), &error);
    char name[1300];
    snprintf(name, sizeof name, "npy:%s,%s", data_path("X.npy"), data_path("y.npy"));
    ole_dataset_options all;
    ole_dataset_options_init(&all);
    all.test_share = 0;
    ole_dataset *set = data_open(name, &all);
    ole_loader_options options = defaults();
    options.mean[0] = 1;
    options.deviation[0] = 2;
    ole_loader *loader = create(set, OLE_SPLIT_TRAIN, &options);
    ole_batch batch = get(loader, 0, 0);
    for (int i = 0; i < 24; i++)
        assert_float_equal(batch.images[i], (x[i / 6][i % 6] - 1) / 2, 0);
    ole_loader_destroy(loader);
    options.flip = true;
    expect(set, OLE_SPLIT_TRAIN, &options, "are for images; npy has vectors");
    ole_dataset_close(set);
}

/* ---- Photos against tests/recorded/photo_augment.py ---------------------------------------- */

enum { PHOTO_AREA = PHOTO_HEIGHT * PHOTO_WIDTH };

/* The images of photo_augment.py, as bytes or as floats from 0 to 1. */
static ole_dataset *open_photos(int channels, bool bytes) {
    static uint8_t small[PHOTO_SAMPLES][3 * PHOTO_AREA];
    static float floats[PHOTO_SAMPLES * 3 * PHOTO_AREA];
    uint8_t *all = &small[0][0];
    int64_t size = (int64_t)channels * PHOTO_AREA;
    for (int64_t i = 0; i < PHOTO_SAMPLES * size; i++) {
        int64_t k = i % size + 1000 * (i / size);
        all[i] = (uint8_t)((k * k * 7 + k * 31) % 251);
        floats[i] = (float)all[i] / 255.0f;
    }
    const int64_t labels[PHOTO_SAMPLES] = {0, 1, 0};
    const int64_t shape[4] = {PHOTO_SAMPLES, channels, PHOTO_HEIGHT, PHOTO_WIDTH};
    ole_error error;
    assert_ok(ole_npy_write(data_path("X.npy"), bytes ? OLE_U8 : OLE_F32, 4, shape,
                            bytes ? (void *)all : floats, &error),
              &error);
    int64_t count = PHOTO_SAMPLES;
    assert_ok(ole_npy_write(data_path("y.npy"), OLE_I64, 1, &count, labels, &error), &error);
    char name[1300];
    snprintf(name, sizeof name, "npy:%s,%s", data_path("X.npy"), data_path("y.npy"));
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.test_share = 0;
    return data_open(name, &options);
}

static void check_photos(const photo_case *expected, bool bytes) {
    ole_dataset *set = open_photos(expected->channels, bytes);
    ole_loader_options options = defaults();
    options.seed = PHOTO_SEED;
    options.crop = expected->crop;
    options.flip = expected->flip;
    options.resized_crop = expected->resized;
    options.rotate = expected->rotate;
    options.jitter = expected->jitter;
    options.erase = expected->erase;
    options.cutout = expected->cutout;
    const float mean[3] = {0.3f, 0.45f, 0.6f}, deviation[3] = {0.25f, 0.5f, 0.4f};
    memcpy(options.mean, mean, sizeof mean);
    memcpy(options.deviation, deviation, sizeof deviation);
    ole_loader *loader = create(set, OLE_SPLIT_TRAIN, &options);
    int64_t size = (int64_t)expected->channels * PHOTO_AREA;
    for (int epoch = 0; epoch < 2; epoch++) {
        ole_batch batch = get(loader, epoch, 0);
        double sum = 0;
        for (int64_t i = 0; i < PHOTO_SAMPLES * size; i++)
            sum += (double)(1 + i % 17) * (double)batch.images[i];
        assert_float_equal(sum, expected->epoch[epoch], 0.05);
        for (int i = 0; i < PHOTO_SAMPLES; i++)
            for (int k = 0; k < 6; k++)
                assert_float_equal(batch.images[i * size + k * (size - 1) / 5],
                                   expected->pixel[epoch][i][k], 2e-5);
    }
    ole_loader_destroy(loader);
    ole_dataset_close(set);
}

static void test_photos(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof photo_cases / sizeof *photo_cases; i++) {
        check_photos(&photo_cases[i], true);
        if (photo_cases[i].jitter == 0) check_photos(&photo_cases[i], false);
    }
    ole_dataset *set = open_photos(3, false);
    ole_loader_options options = defaults();
    options.jitter = 0.2;
    expect(set, OLE_SPLIT_TRAIN, &options, "options.jitter is for images of bytes; npy has floats");
    options.jitter = 1.5;
    expect(set, OLE_SPLIT_TRAIN, &options, "options.jitter is 1.5; must be 0 to 1");
    options = defaults();
    options.resized_crop = NAN;
    expect(set, OLE_SPLIT_TRAIN, &options, "options.resized_crop is nan; must be 0 to 1");
    ole_dataset_close(set);
}

/* ---- Mixup ---------------------------------------------------------------------------------- */

static ole_loader *create_mixed(const ole_dataset *set, const ole_loader_options *options) {
    ole_loader *loader = create(set, OLE_SPLIT_TRAIN, options);
    ole_error error;
    assert_null(ole_loader_mix(loader));
    assert_ok(ole_loader_mix_up(loader, 0.4, &error), &error);
    return loader;
}

/* A batch is the plain one, blended with itself backwards. */
static void test_mixup(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    ole_loader_options options = everything();
    options.batch_size = 51; /* the row in the middle stays as it is */
    ole_loader *plain = create(set, OLE_SPLIT_TRAIN, &options);
    for (options.threads = 0; options.threads < 3; options.threads++) {
        ole_loader *loader = create_mixed(set, &options);
        for (int64_t b = 0; b < 25; b += 8) {
            ole_batch found = get(loader, 1, b), rows = get(plain, 1, b);
            const ole_mix *mix = ole_loader_mix(loader);
            float share = ole_mixup_share(42, 0.4, 1, b);
            int64_t n = rows.count;
            assert_int_equal(n, b == 24 ? 34 : 51);
            assert_true(*mix->share == share && share >= 0.5f && share < 1);
            assert_memory_equal(found.labels, rows.labels, (size_t)n * sizeof *rows.labels);
            for (int64_t i = 0; i < n; i++) {
                int64_t other = n - 1 - i;
                assert_int_equal(mix->labels[i], rows.labels[other]);
                for (int64_t k = 0; k < 64; k++)
                    assert_float_equal(found.images[i * 64 + k],
                                       share * rows.images[i * 64 + k] +
                                           (1 - share) * rows.images[other * 64 + k],
                                       1e-6);
            }
        }
        ole_loader_destroy(loader);
    }
    ole_loader_destroy(plain);
    ole_dataset_close(set);
}

/* Parts of a batch are those of the whole one, bit for bit, though their rows lie in others. */
static void test_mixup_parts(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    ole_loader_options options = everything();
    ole_loader *whole = create_mixed(set, &options);
    for (int64_t b = 0; b < 26; b += 25) {
        ole_batch all = get(whole, 2, b);
        const ole_mix *mix = ole_loader_mix(whole);
        int64_t first = 0;
        options.parts = 3;
        for (options.part = 0; options.part < 3; options.part++) {
            options.threads = options.part % 2;
            ole_loader *loader = create_mixed(set, &options);
            ole_batch ours = get(loader, 2, b);
            ole_batch expected = {ours.count, all.images + first * 64, all.labels + first,
                                  all.indices + first};
            assert_same_batch(&ours, &expected, 64);
            assert_true(*ole_loader_mix(loader)->share == *mix->share);
            assert_memory_equal(ole_loader_mix(loader)->labels, mix->labels + first,
                                (size_t)ours.count * sizeof *mix->labels);
            first += ours.count;
            ole_loader_destroy(loader);
        }
        assert_int_equal(first, all.count);
    }
    ole_loader_destroy(whole);
    ole_dataset_close(set);
}

/* Shares against NumPy, and the variance of Beta(alpha, alpha), which is that about the middle. */
static void test_mixup_shares(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mixup_shares / sizeof *mixup_shares; i++) {
        const double *row = mixup_shares[i];
        double share = ole_mixup_share(PHOTO_SEED, row[0], (int64_t)row[1], (int64_t)row[2]);
        assert_float_equal(share, row[3], 1e-7);
    }
    static const double alphas[] = {0.01, 0.2, 1, 4};
    for (size_t i = 0; i < sizeof alphas / sizeof *alphas; i++) {
        enum { MANY = 20000 };
        double expected = 0.25 / (2 * alphas[i] + 1), sum = 0;
        for (int64_t b = 0; b < MANY; b++) {
            double away = (double)ole_mixup_share(5, alphas[i], 1, b) - 0.5;
            assert_true(away >= 0 && away <= 0.5);
            sum += away * away / MANY;
        }
        assert_float_equal(sum, expected, 0.03 * expected);
    }
}

/* ---- Two threads -------------------------------------------------------------------------- */

typedef struct caller {
    ole_loader *loader;
    ole_batch *out;
    ole_status status;
} caller;

static void *get_into(void *argument) {
    caller *c = argument;
    c->status = ole_loader_get(c->loader, 0, 0, c->out, NULL);
    return NULL;
}

/* A call while another one stands still, where it hands over its batch, is refused. */
static void test_two_threads(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    ole_loader_options options = everything();
    for (options.threads = 0; options.threads < 2; options.threads++) {
        ole_loader *loader = create(set, OLE_SPLIT_TRAIN, &options);
        caller first = {loader, held_make(sizeof(ole_batch)), OLE_OK};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, get_into, &first), 0);
        held_wait();
        ole_batch batch;
        ole_error error = {0};
        ole_status status = ole_loader_get(loader, 0, 1, &batch, &error);
        held_let_go();
        pthread_join(thread, NULL);
        assert_int_equal(status, OLE_ERROR_ARGUMENT);
        assert_string_equal(error.message,
                            "the loader is in use by another thread; make one loader per thread");
        assert_int_equal(first.status, OLE_OK);
        assert_int_equal(first.out->count, 50);
        assert_int_equal(get(loader, 0, 1).count, 50);
        held_free();
        ole_loader_destroy(loader);
    }
    ole_dataset_close(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),      cmocka_unit_test(test_asking_order),
        cmocka_unit_test(test_in_order),     cmocka_unit_test(test_shuffle),
        cmocka_unit_test(test_balanced),     cmocka_unit_test(test_balanced_few),
        cmocka_unit_test(test_augmentation), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_vectors),      cmocka_unit_test(test_parts),
        cmocka_unit_test(test_photos),       cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_mixup),        cmocka_unit_test(test_mixup_parts),
        cmocka_unit_test(test_mixup_shares),
    };
    return cmocka_run_group_tests(tests, data_dir_make, data_dir_remove);
}
