/* fuzz/fuzz_landmarks.c - a file of landmarks: every row it takes aligns an image, or says why not.
 */
#include "data/formats/landmarks.h"
#include "fuzz.h"

#include <math.h>
#include <string.h>

enum { HEIGHT = 6, WIDTH = 4 };

static void align(const ole_landmarks *landmarks, const char *file) {
    static uint8_t pixels[3 * 5] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const ole_image image = {.width = 5, .height = 3, .channels = 1, .planar = pixels};
    uint8_t out[HEIGHT * WIDTH];
    ole_similarity t;
    ole_error error = {0};
    ole_status status = ole_landmarks_fit(landmarks, file, HEIGHT, WIDTH, &t, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        return;
    }
    require(isfinite(t.cosine) && isfinite(t.sine) && isfinite(t.x) && isfinite(t.y),
            "a transform that is not finite");
    require(ole_image_align(&image, &t, HEIGHT, WIDTH, 1, out) == OLE_OK, "it cannot be aligned");
    for (int i = 0; i < HEIGHT * WIDTH; i++)
        require(out[i] >= 1 && out[i] <= 15, "a pixel that the image does not have");
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    enum { MOST = 20 };
    static ole_landmarks landmarks;
    ole_error error = {0};
    put_file("places.csv", bytes, size);
    ole_status status = ole_landmarks_read(&landmarks, fuzz_folder(), "places.csv", &error);
    if (status != OLE_OK) check_error(status, &error);
    for (int64_t i = 0; status == OLE_OK && i < landmarks.count && i < MOST; i++) {
        require(i == 0 || strcmp(landmarks.files[i - 1], landmarks.files[i]) < 0, "a name twice");
        align(&landmarks, landmarks.files[i]);
    }
    if (status == OLE_OK) align(&landmarks, "none.png");
    ole_landmarks_free(&landmarks);
}
