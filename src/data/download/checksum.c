/*
 * src/data/download/checksum.c - MD5 (RFC 1321) and SHA-256 (FIPS 180-4), plain.
 *
 * They are short and never change; a cryptographic library for them alone would be the largest
 * dependency of the project.
 */
#include "data/download/checksum.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/read_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static uint32_t rotate_left(uint32_t x, int n) {
    return x << n | x >> (32 - n);
}

/* ---- MD5 ---------------------------------------------------------------------------------- */

/* floor(2^32 |sin(i + 1)|) */
static const uint32_t md5_table[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

static void md5_block(uint32_t state[4], const uint8_t *block) {
    static const int shift[4][4] = {
        {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    uint32_t word[16], a = state[0], b = state[1], c = state[2], d = state[3];
    for (int i = 0; i < 16; i++, block += 4)
        word[i] = block[0] | (uint32_t)block[1] << 8 | (uint32_t)block[2] << 16 |
                  (uint32_t)block[3] << 24;
    for (int i = 0; i < 64; i++) {
        uint32_t f;
        int k;
        switch (i / 16) {
        case 0:
            f = (b & c) | (~b & d), k = i;
            break;
        case 1:
            f = (d & b) | (~d & c), k = (5 * i + 1) % 16;
            break;
        case 2:
            f = b ^ c ^ d, k = (3 * i + 5) % 16;
            break;
        default:
            f = c ^ (b | ~d), k = 7 * i % 16;
        }
        uint32_t turned = rotate_left(a + f + md5_table[i] + word[k], shift[i / 16][i % 4]);
        a = d, d = c, c = b;
        b += turned;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

/* ---- SHA-256 ------------------------------------------------------------------------------ */

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t sha_table[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static void sha_block(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++, block += 4)
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 |
               block[3];
    for (int i = 16; i < 64; i++) {
        uint32_t x = w[i - 15], y = w[i - 2];
        uint32_t low = rotate_left(x, 25) ^ rotate_left(x, 14) ^ x >> 3;
        uint32_t high = rotate_left(y, 15) ^ rotate_left(y, 13) ^ y >> 10;
        w[i] = w[i - 16] + low + w[i - 7] + high;
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = s[4], a = s[0];
        uint32_t turn_e = rotate_left(e, 26) ^ rotate_left(e, 21) ^ rotate_left(e, 7);
        uint32_t turn_a = rotate_left(a, 30) ^ rotate_left(a, 19) ^ rotate_left(a, 10);
        uint32_t choice = (e & s[5]) ^ (~e & s[6]);
        uint32_t majority = (a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]);
        uint32_t first = s[7] + turn_e + choice + sha_table[i] + w[i];
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += first;
        s[0] = first + turn_a + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

/* ---- Both --------------------------------------------------------------------------------- */

void ole_checksum_begin(ole_checksum *sum, int digits) {
    static const uint32_t md5[8] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    static const uint32_t sha[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    *sum = (ole_checksum){.digits = digits};
    memcpy(sum->state, digits == OLE_MD5_DIGITS ? md5 : sha, sizeof sum->state);
}

static void add_block(ole_checksum *sum, const uint8_t *block) {
    if (sum->digits == OLE_MD5_DIGITS)
        md5_block(sum->state, block);
    else
        sha_block(sum->state, block);
}

void ole_checksum_add(ole_checksum *sum, const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    size_t held = sum->bytes % 64;
    sum->bytes += size;
    for (; size > 0 && held > 0; size--) {
        sum->block[held++] = *at++;
        if (held < 64) continue;
        add_block(sum, sum->block);
        held = 0;
    }
    for (; size >= 64; size -= 64, at += 64)
        add_block(sum, at);
    if (size > 0) memcpy(sum->block, at, size);
}

void ole_checksum_end(ole_checksum *sum, char text[OLE_SHA256_DIGITS + 1]) {
    bool md5 = sum->digits == OLE_MD5_DIGITS;
    uint64_t bits = sum->bytes * 8;
    static const uint8_t padding[64] = {0x80};
    ole_checksum_add(sum, padding, 1 + (119 - sum->bytes % 64) % 64);
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[md5 ? i : 7 - i] = (uint8_t)(bits >> 8 * i);
    ole_checksum_add(sum, length, 8);
    for (int i = 0; i < sum->digits / 8; i++) {
        uint32_t word = md5 ? __builtin_bswap32(sum->state[i]) : sum->state[i];
        snprintf(text + 8 * i, 9, "%08x", word);
    }
}

ole_status ole_checksum_file(const char *path, int digits, char text[OLE_SHA256_DIGITS + 1],
                             ole_error *error) {
    const ole_quoted quoted = ole_quote_string(path);
    FILE *file = ole_fopen_regular(path);
    if (!file)
        return ole_fail(error, OLE_ERROR_IO, "%s: cannot open: %s", quoted.text,
                        ole_open_reason(errno));
    ole_checksum sum;
    ole_checksum_begin(&sum, digits);
    char bytes[1 << 15];
    size_t got;
    while ((got = fread(bytes, 1, sizeof bytes, file)) > 0)
        ole_checksum_add(&sum, bytes, got);
    ole_status status = OLE_OK;
    if (ferror(file))
        status = ole_fail(error, OLE_ERROR_IO, "%s: cannot read: %s", quoted.text, strerror(errno));
    fclose(file);
    ole_checksum_end(&sum, text);
    return status;
}
