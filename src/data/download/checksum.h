/*
 * src/data/download/checksum.h - MD5 and SHA-256 of files, to compare with what authors publish.
 *
 * MD5 detects damage; it does not withstand an attacker.
 */
#ifndef OLE_SRC_DATA_DOWNLOAD_CHECKSUM_H
#define OLE_SRC_DATA_DOWNLOAD_CHECKSUM_H

#include "ole/base.h"

enum { OLE_MD5_DIGITS = 32, OLE_SHA256_DIGITS = 64 };

typedef struct ole_checksum {
    int digits; /* OLE_MD5_DIGITS or OLE_SHA256_DIGITS */
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} ole_checksum;

/* `digits` says which sum. */
void ole_checksum_begin(ole_checksum *sum, int digits);
void ole_checksum_add(ole_checksum *sum, const void *bytes, size_t size);

/* The sum in small hexadecimal digits, terminated. */
void ole_checksum_end(ole_checksum *sum, char text[OLE_SHA256_DIGITS + 1]);

/* The same for a whole file. */
ole_status ole_checksum_file(const char *path, int digits, char text[OLE_SHA256_DIGITS + 1],
                             ole_error *error);

#endif
