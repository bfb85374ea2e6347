/*
 * cli/info.c - `ole info`: what this build and this machine offer.
 */
#include "commands.h"

#include "formats/json.h"
#ifdef OLE_TRAIN
#include <ole/train/train.h>
#endif

#include <stdio.h>
#include <string.h>

const char info_summary[] = "show version, build options, devices and libraries";

enum { MAX_ROWS = 64 };

int run_info(int argc, char **argv) {
    bool json = false;
    const ole_option options[] = {
        JSON_OPTION(&json),
        {0},
    };
    const arg_command command = {
        .name = "info",
        .summary = info_summary,
        .example = "  $ ole info\n",
        .about = "Prints what this build holds and what this machine offers.\n",
        .options = options,
    };
    int code;
    if (!args_parse(&command, argc, argv, &code)) return code;

    ole_info_row rows[MAX_ROWS];
    size_t count = ole_info(rows, MAX_ROWS);
#ifdef OLE_TRAIN
    count += ole_train_info(rows + count, MAX_ROWS - count);
#endif
    if (json) {
        ole_json w = ole_json_begin(stdout, 2, '{');
        for (size_t i = 0; i < count; i++)
            ole_json_string(&w, rows[i].name, rows[i].value);
        ole_json_close(&w);
        return EXIT_DONE;
    }
    size_t widest = 0;
    for (size_t i = 0; i < count; i++)
        if (strlen(rows[i].name) > widest) widest = strlen(rows[i].name);
    for (size_t i = 0; i < count; i++)
        printf("%-*s  %s\n", (int)widest, rows[i].name, rows[i].value);
    return EXIT_DONE;
}
