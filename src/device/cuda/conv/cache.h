/*
 * src/device/cuda/conv/cache.h - the file that remembers which algorithm is fastest for each
 * problem.
 *
 * It is in $OLE_CACHE, else $XDG_CACHE_HOME/ole, else ~/.cache/ole; an empty OLE_CACHE means no
 * file. A file that cannot be read or written is no error: the problem is measured again.
 */
#ifndef OLE_SRC_DEVICE_CUDA_CONV_CACHE_H
#define OLE_SRC_DEVICE_CUDA_CONV_CACHE_H

typedef struct cuda_cache cuda_cache;

/* NULL: no memory. `file`: its name in the folder. */
cuda_cache *cuda_cache_open(const char *file);
void cuda_cache_close(cuda_cache *cache);

/* The name of the algorithm for a problem, or NULL; valid until the next put. */
const char *cuda_cache_find(const cuda_cache *cache, const char *key);

/* Reads what others have written since, so that concurrent runs choose alike. */
void cuda_cache_refresh(cuda_cache *cache);

/* Remembers an algorithm and writes the file. Neither text may have white space. */
void cuda_cache_put(cuda_cache *cache, const char *key, const char *algorithm, double microseconds);

#endif
