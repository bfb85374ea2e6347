/*
 * cli/reproduce/command.c - the command that makes a row of the results again, as a shell reads it.
 */
#include "reproduce/reproduce.h"

#include "base/memory_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void put_word(FILE *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./+-:,=@%";
    if (*word && word[strspn(word, plain)] == '\0') {
        fprintf(out, " %s", word);
        return;
    }
    fprintf(out, " '");
    for (; *word; word++) {
        if (*word == '\'') fprintf(out, "'\\'");
        fputc(*word, out);
    }
    fprintf(out, "'");
}

/* Whether the recipe is the program's own, unchanged. */
static bool is_own(const paper *p) {
    bool same = false;
    for (int i = 0; i < paper_count(); i++) {
        paper own;
        if (strcmp(paper_name(i), p->name) != 0) continue;
        same = paper_open(&own, p->name) && strcmp(own.text, p->text) == 0;
        paper_close(&own);
    }
    return same;
}

char *row_command(const row *r, const char *out, bool quick) {
    const ole_train_options *is = &r->train, *was = &r->runs->train;
    const char *usual = quick ? "reproduced-quick" : "reproduced";
    char path[ROW_PATH];
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return NULL;
    FILE *to = memory.file;
    join_path(path, r->folder, "recipe.yaml");
    fprintf(to, "ole reproduce");
    put_word(to, is_own(&r->asked) ? r->asked.name : path);
    if (quick) fprintf(to, " --quick");
    fprintf(to, " --seeds %" PRId64, is->seeds);
    if (is->epochs != (quick ? QUICK_EPOCHS : was->epochs))
        fprintf(to, " --epochs %" PRId64, is->epochs);
    if (is->eval_every != (quick ? QUICK_EPOCHS : was->eval_every))
        fprintf(to, " --eval-every %" PRId64, is->eval_every);
    if (is->precision && strcmp(is->precision, was->precision ? was->precision : "fp32") != 0)
        fprintf(to, " --precision %s", is->precision);
    if (strcmp(out, usual) != 0) {
        fprintf(to, " --out");
        put_word(to, out);
    }
    return ole_memory_file_close(&memory);
}
