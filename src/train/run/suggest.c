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

/* " --flag value" for what the options say about data, network and weights. */
static void put_options(FILE *to, const ole_train_options *options) {
    static const char *const kept[] = {"net",       "init_from", "normalize",         "resize",
                                       "channels",  "classes",   "samples_per_class", "seed",
                                       "val_split", "skip_bad",  "test_share"};
    ole_train_options usual;
    ole_train_options_init(&usual);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char room[OLE_OPTION_VALUE], flag[OLE_OPTION_FLAG];
        const ole_option *o = ole_option_find(ole_train_table, kept[i], strlen(kept[i]));
        if (!o || !ole_option_differs(o, options, &usual)) continue;
        const char *value = ole_option_text(o, options, room);
        char *shown = ole_without_secrets(value ? value : "");
        char *word = shown ? ole_shell_word(shown) : NULL;
        free(shown);
        fprintf(to, " %s", ole_option_flag(o, flag));
        if (o->kind != OLE_SWITCH) fprintf(to, " %s", word ? word : "");
        free(word);
    }
}

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
    put_options(memory.file, o);
    fprintf(memory.file, " --freeze backbone --epochs 1 --no-report --out backbone && "
                         "ole features backbone --split train --out F.npy L.npy && "
                         "ole fit F.npy L.npy --out fitted.safetensors");
    char *commands = ole_memory_file_close(&memory);
    if (commands && data && strlen(commands) < LONGEST)
        ole_run_say(o, "%lld images are few; with the backbone as it is: %s", samples, commands);
    free(commands);
    free(data);
}
