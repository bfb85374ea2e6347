/* examples/analyze.c - what saved features look like: analyze FEATURES.npy LABELS.npy */
#include <ole/analyze.h>
#include <ole/npy.h>

#include <stdio.h>
#include <stdlib.h>

static ole_error error;

static void check(ole_status status) {
    if (status == OLE_OK) return;
    fprintf(stderr, "%s\n", error.message);
    exit(1);
}

/* The elements of a .npy file, converted to `type`. */
static void *load(const char *path, ole_dtype type, ole_npy_header *header) {
    ole_npy *file;
    check(ole_npy_open(&file, path, &error));
    *header = *ole_npy_get_header(file);
    void *data = malloc((size_t)header->count * ole_dtype_size(type) + 1);
    if (!data) abort();
    check(ole_npy_read(file, type, data, &error));
    ole_npy_close(file);
    return data;
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: analyze FEATURES.npy LABELS.npy\n"), 2;
    ole_npy_header x, y;
    void *features = load(argv[1], OLE_F32, &x), *labels = load(argv[2], OLE_I64, &y);
    if (x.ndim != 2 || y.count != x.shape[0])
        return fprintf(stderr, "features must be [N, D], labels [N]\n"), 1;
    ole_embedding e = {x.shape[0], x.shape[1], OLE_F32, features, labels};

    ole_feature_errors errors; /* each row classified by all others */
    check(ole_classify_features(&errors, &e, NULL, NULL, &error));
    printf("error: 1-NN %.2f %%, nearest subspace %.2f %%\n", errors.knn1, errors.subspace);

    ole_angles angles; /* OLE aims for 0 degrees within and 90 between classes */
    check(ole_angles_measure(&angles, &e, NULL, &error));
    printf("median angle: within classes %.1f, between %.1f degrees\n", angles.within.median,
           angles.between.median);
    ole_angles_free(&angles);

    ole_spectra spectra; /* how many directions each class takes */
    check(ole_spectra_measure(&spectra, &e, 1, &error));
    printf("OLE loss %.4f, effective rank of all rows %.1f\n", spectra.loss,
           spectra.all.effective_rank);
    for (int64_t c = 0; c < spectra.classes; c++)
        printf("class %lld: %lld rows, effective rank %.1f\n", (long long)spectra.of[c].label,
               (long long)spectra.of[c].rows, spectra.of[c].effective_rank);
    ole_spectra_free(&spectra);

    ole_overlap closest[3]; /* classes whose subspaces nearly share a direction */
    int64_t pairs;
    check(ole_overlaps(&e, 0.95, 1, closest, 3, &pairs, NULL, NULL, &error));
    for (int64_t i = 0; i < pairs; i++)
        printf("classes %lld and %lld: %.1f degrees\n", (long long)closest[i].label_a,
               (long long)closest[i].label_b, closest[i].angle);
    free(features);
    free(labels);
    return 0;
}
