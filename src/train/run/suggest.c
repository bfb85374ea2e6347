/*
 * src/train/run/suggest.c - with pretrained weights and few images, the commands that leave the
 * backbone as it is: its features once, and `ole fit` on them.
 */
#include "base/memory_file.h"
#include "base/quote.h"
#include "train/options/options.h"
#include "train/run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 2000, LONGEST = 500 }; /* samples; characters of a message */

void ole_run_suggest(const ole_run *run) {
    const ole_train_options *o = &run->options;
    long long samples = ole_dataset_get_info(run->set)->count[OLE_SPLIT_TRAIN];
    bool frozen = true;
    for (int i = 0; i < run->network.graph->params; i++)
        if (run->network.graph->param[i].node != run->network.graph->classifier)
            frozen &= ole_params_is_frozen(run->network.params, i);
    if (!o->init_from || o->resume || frozen || samples >= FEW) return;
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return;
    char *data = ole_shell_word(o->data);
    fprintf(memory.file, "ole train %s", data ? data : "");
    ole_train_put_flags(memory.file, o, OLE_START);
    fprintf(memory.file, " --freeze backbone --epochs 1 --no-report --out backbone && "
                         "ole features backbone --split train --out F.npy L.npy && "
                         "ole fit F.npy L.npy --out fitted.safetensors");
    char *commands = ole_memory_file_close(&memory);
    if (commands && data && strlen(commands) < LONGEST)
        ole_run_say(o,
                    "with only %lld images, a classifier on the pretrained features may have the "
                    "lower error: %s",
                    samples, commands);
    free(commands);
    free(data);
}
