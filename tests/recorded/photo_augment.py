#!/usr/bin/env python3
"""photo_augment.py - writes photo_augment.h: augmented pixels, computed in NumPy from the same random draws.

An independent statement of what src/data/loader/photo.h does: Philox4x32-10, resized crop, rotation, jitter, erasing
and cutout, in float64 and whole arrays. Pillow's own affine transform confirms the geometry inside the image.

    python3 tests/recorded/photo_augment.py && clang-format -i tests/recorded/photo_augment.h

Needs NumPy and Pillow; the test needs only the header.
"""
from pathlib import Path

import numpy
from PIL import Image

HEIGHT, WIDTH, SAMPLES, SEED = 10, 14, 3, 2026
CASES = [  # channels, crop, flip, resized, rotate, jitter, erase, cutout
    (3, 0, False, 0.25, 0, 0, 0, 0),
    (3, 0, False, 0, 20, 0, 0, 0),
    (3, 0, False, 0, 0, 0.5, 0, 0),
    (3, 0, False, 0, 0, 0, 0.6, 0),
    (3, 0, False, 0, 0, 0, 0, 5),
    (3, 2, True, 0.4, 12, 0.3, 0.5, 4),
    (1, 1, True, 0.5, 45, 0.4, 0.5, 3),
]
MEAN, DEVIATION = (0.3, 0.45, 0.6), (0.25, 0.5, 0.4)


def philox(stream, a, b):
    """Salmon et al. 2011: ten rounds on the counter (b, a) with the key (seed, stream)."""
    x = [b & 0xFFFFFFFF, b >> 32, a & 0xFFFFFFFF, a >> 32]
    key = [SEED & 0xFFFFFFFF, (SEED >> 32) ^ (stream << 24)]
    for _ in range(10):
        low, high = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [(high >> 32) ^ x[1] ^ key[0], high & 0xFFFFFFFF, (low >> 32) ^ x[3] ^ key[1], low & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return x


def unit(word):
    return (word >> 8) / 2**24


def below(word, n):
    return word * n >> 32


def picture(sample, channels):
    """Bytes [channels, HEIGHT, WIDTH]; the test makes the same."""
    k = numpy.arange(channels * HEIGHT * WIDTH, dtype=numpy.int64) + 1000 * sample
    return ((k * k * 7 + k * 31) % 251).astype(numpy.uint8).reshape(channels, HEIGHT, WIDTH)


def turn_about(degrees, y, x):
    angle = numpy.deg2rad(degrees)
    dy, dx = y - (HEIGHT - 1) / 2, x - (WIDTH - 1) / 2
    return ((HEIGHT - 1) / 2 + numpy.cos(angle) * dy - numpy.sin(angle) * dx,
            (WIDTH - 1) / 2 + numpy.sin(angle) * dy + numpy.cos(angle) * dx)


def bilinear(plane, y, x):
    """`plane` at the positions y, x; black outside."""
    pad = 64
    padded = numpy.pad(plane, pad)
    row, column = numpy.floor(y).astype(int), numpy.floor(x).astype(int)
    down, along = y - row, x - column
    take = lambda r, c: padded[r + pad, c + pad]
    return ((1 - down) * ((1 - along) * take(row, column) + along * take(row, column + 1))
            + down * ((1 - along) * take(row + 1, column) + along * take(row + 1, column + 1)))


def confirm(plane, y, x, mine):
    """Pillow's affine transform agrees where all four pixels lie inside."""
    corner = [y[0, 0], x[0, 0]]
    by_column = [y[0, 1] - y[0, 0], x[0, 1] - x[0, 0]]
    by_row = [y[1, 0] - y[0, 0], x[1, 0] - x[0, 0]]
    shift = [corner[i] + 0.5 - 0.5 * (by_column[i] + by_row[i]) for i in range(2)]  # Pillow counts from pixel corners
    matrix = (by_column[1], by_row[1], shift[1], by_column[0], by_row[0], shift[0])
    theirs = numpy.asarray(Image.fromarray(plane.astype(numpy.float32), "F").transform(
        (WIDTH, HEIGHT), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR))
    inside = (y > 0.01) & (y < HEIGHT - 1.01) & (x > 0.01) & (x < WIDTH - 1.01)
    assert numpy.abs(theirs - mine)[inside].max(initial=0) < 1e-4


def rectangle(words):
    sides = []
    for word, whole in zip(words, (HEIGHT, WIDTH)):
        least, most = max(whole // 8, 1), max(whole // 2, 1)
        sides.append(least + below(word, most - least + 1))
    top, left = below(words[2], HEIGHT - sides[0] + 1), below(words[3], WIDTH - sides[1] + 1)
    return top, left, top + sides[0], left + sides[1]


def augmented(case, epoch, sample):
    channels, crop, flip, resized, rotate, jitter, erase, cutout = case
    image = picture(sample, channels) / 255.0
    draw = lambda stream: philox(stream, epoch, sample)
    y, x = (grid.astype(float) for grid in numpy.mgrid[:HEIGHT, :WIDTH])
    window = draw(2)
    if flip and window[2] >> 31:
        x = WIDTH - 1 - x
    y, x = y + below(window[0], 2 * crop + 1) - crop, x + below(window[1], 2 * crop + 1) - crop
    if resized:
        words = draw(10)
        area, aspect = resized + (1 - resized) * unit(words[0]), 2 * unit(words[1]) - 1
        ratio = 1 + aspect / 3 if aspect >= 0 else 1 / (1 - aspect / 3)
        tall, wide = min((area / ratio) ** 0.5, 1), min((area * ratio) ** 0.5, 1)
        y = (1 - tall) * unit(words[2]) * HEIGHT + tall * (y + 0.5) - 0.5
        x = (1 - wide) * unit(words[3]) * WIDTH + wide * (x + 0.5) - 0.5
    y, x = turn_about(rotate * (2 * unit(window[3]) - 1), y, x)
    planes = numpy.stack([bilinear(plane, y, x) for plane in image])
    for plane, mine in zip(image, planes):
        confirm(plane, y, x, mine)
    words = draw(11)
    if jitter:
        bright, contrast, colour = (1 + jitter * (2 * unit(word) - 1) for word in words[:3])
        planes = 0.5 + contrast * (bright * planes - 0.5)
        if channels == 3:
            grey = numpy.tensordot((0.299, 0.587, 0.114), planes, 1)
            planes = grey + colour * (planes - grey)
        planes = planes.clip(0, 1)
    planes = (planes - numpy.reshape(MEAN[:channels], (-1, 1, 1))) / numpy.reshape(DEVIATION[:channels], (-1, 1, 1))
    if unit(words[3]) < erase:
        top, left, bottom, right = rectangle(draw(12))
        planes[:, top:bottom, left:right] = 0
    if cutout:
        words = draw(13)
        top, left = below(words[0], HEIGHT) - cutout // 2, below(words[1], WIDTH) - cutout // 2
        planes[:, max(top, 0):max(top + cutout, 0), max(left, 0):max(left + cutout, 0)] = 0
    return planes


def mixup_share(alpha, epoch, batch):
    """The larger share of Beta(alpha, alpha), by Johnk's method as Devroye (1986) states it."""
    for draw in range(2**20):
        words = philox(14, epoch, batch * 2**20 + draw)
        for pair in (words[:2], words[2:]):
            x, y = (((word + 0.5) / 2**32) ** (1 / alpha) for word in pair)
            if x + y <= 1:
                return max(x, y) / (x + y)


def main():
    lines = ["/*", " * tests/recorded/photo_augment.h - written by photo_augment.py: pixels of augmented images,",
             " * computed in NumPy.", " */", "#include <stdbool.h>", "",
             f"enum {{ PHOTO_HEIGHT = {HEIGHT}, PHOTO_WIDTH = {WIDTH}, PHOTO_SAMPLES = {SAMPLES}, PHOTO_SEED = {SEED} }};",
             "", "typedef struct photo_case {", "    int channels, crop;", "    bool flip;",
             "    double resized, rotate, jitter, erase;", "    int cutout;",
             "    double epoch[2];  /* sum over all pixels of all samples, each times 1 + its number modulo 17 */",
             "    float pixel[2][PHOTO_SAMPLES][6]; /* at 6 places, spread evenly */", "} photo_case;", "",
             "static const photo_case photo_cases[] = {"]
    for case in CASES:
        channels, crop, flip, resized, rotate, jitter, erase, cutout = case
        size = channels * HEIGHT * WIDTH
        all_epochs = [numpy.stack([augmented(case, epoch, i) for i in range(SAMPLES)]).reshape(SAMPLES, size)
                      for epoch in range(2)]
        sums = [float((pixels.ravel() * (1 + numpy.arange(pixels.size) % 17)).sum()) for pixels in all_epochs]
        rows = ["{" + ",\n             ".join(
            "{" + ", ".join(f"{pixels[i, k * (size - 1) // 5]:.6f}f" for k in range(6)) + "}" for i in range(SAMPLES)) + "}"
            for pixels in all_epochs]
        lines.append(f"    {{{channels}, {crop}, {str(flip).lower()}, {resized}, {rotate}, {jitter}, {erase}, {cutout},"
                     f" {{{sums[0]:.5f}, {sums[1]:.5f}}},\n        {{" + ",\n         ".join(rows) + "}},")
    lines += ["};", "", "/* The shares of mixup: alpha, epoch, batch, share. */", "static const double mixup_shares[][4] = {"]
    lines += [f"    {{{alpha}, {epoch}, {batch}, {mixup_share(alpha, epoch, batch):.9f}}},"
              for alpha in (0.2, 1, 4) for epoch, batch in ((0, 0), (0, 1), (3, 0), (7, 25))]
    lines.append("};")
    (Path(__file__).parent / "photo_augment.h").write_text("\n".join(lines) + "\n")


main()
