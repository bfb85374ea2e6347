/* src/base/fnv.h - FNV-1a, a short hash that keeps its value across machines and versions. */
#ifndef OLE_SRC_BASE_FNV_H
#define OLE_SRC_BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t ole_fnv32(const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint32_t hash = 0x811c9dc5u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x01000193u;
    return hash;
}

static inline uint64_t ole_fnv64(const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
