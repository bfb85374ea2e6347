/* src/study/losses_report.c - a comparison of losses: losses.csv, losses.json and report.html. */
#include "study/losses_parts.h"

#include "base/memory_file.h"
#include "base/quote.h"
#include "formats/json.h"
#include "model/run_folder.h"
#include "report/text_table.h"
#include "study/by_kind.h"
#include "train/options/option_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- losses.csv: a line for each loss and seed -------------------------------------------- */

static bool print_csv(const ole_losses *l, const ole_train_options *train, FILE *file) {
    const char *names[4 + OLE_MEASURES] = {"loss", "seed", "tuned", "value"};
    for (int m = 0; m < OLE_MEASURES; m++)
        names[4 + m] = ole_measured_key[m];
    ole_text_table table = {.columns = 4 + OLE_MEASURES, .names = names};
    for (const ole_loss_entry *e = l->entry; e < l->entry + l->count; e++)
        for (int64_t s = 0; s < l->seeds && isfinite(e->picked); s++) {
            char room[OLE_OPTION_VALUE];
            ole_text_table_add(&table, "%s", e->name);
            ole_text_table_add(&table, "%" PRIu64, train->seed + (uint64_t)s);
            ole_text_table_add(&table, "%s", e->tuned);
            ole_text_table_add(&table, "%s", ole_option_number(e->picked, room));
            for (int m = 0; m < OLE_MEASURES; m++) {
                double value = e->measured[s * OLE_MEASURES + m];
                ole_text_table_add(&table, "%s",
                                   isfinite(value) ? ole_option_number(value, room) : "");
            }
        }
    ole_text_table_print_csv(&table, file);
    ole_text_table_free(&table);
    return !table.out_of_memory;
}

/* ---- losses.json: means, deviations, paired differences from the first loss ---------------- */

static void put_spread(ole_json *w, const char *key, ole_study_error e) {
    ole_json_object(w, key, J("mean", e.mean), J("std", e.std));
}

static bool print_json(const ole_losses *l, const ole_train_options *train, FILE *file) {
    ole_json w = ole_json_begin(file, 2, '{');
    ole_json_put(&w, J("data", train->data), J("net", train->net ? train->net : ""),
                 J("seeds", l->seeds), J("settings", l->settings),
                 J("reference", l->entry[0].name));
    ole_json_open(&w, "losses", '[');
    for (const ole_loss_entry *e = l->entry; e < l->entry + l->count; e++) {
        ole_json_open(&w, NULL, '{');
        ole_json_put(&w, J("loss", e->name), J("tuned", e->tuned), J("value", e->picked),
                     J("finished", e->finished));
        put_spread(&w, "validation_error", e->validation);
        for (int m = 0; m < OLE_MEASURES; m++)
            put_spread(&w, ole_measured_key[m], ole_losses_spread(l, e, NULL, m));
        ole_json_open(&w, "difference", '{');
        for (int m = 0; m < OLE_MEASURES; m++)
            put_spread(&w, ole_measured_key[m], ole_losses_spread(l, e, &l->entry[0], m));
        ole_json_close(&w);
        ole_json_close(&w);
    }
    ole_json_close(&w);
    ole_json_close(&w);
    return ole_json_good(&w);
}

/* ---- report.html -------------------------------------------------------------------------- */

static void add_table(ole_page *page, const ole_losses *l, bool differences) {
    const char *names[3 + OLE_MEASURES] = {"loss", "chosen", "validation error, %"};
    int shown[OLE_MEASURES], count = 0;
    for (int m = 0; m < OLE_MEASURES; m++) {
        bool any = false;
        for (const ole_loss_entry *e = l->entry; e < l->entry + l->count; e++)
            any |= isfinite(ole_losses_spread(l, e, NULL, m).mean);
        if (any) names[3 + count] = ole_measured_title[m], shown[count++] = m;
    }
    ole_text_table table = {.columns = 3 + count, .names = names};
    for (const ole_loss_entry *e = l->entry; e < l->entry + l->count; e++) {
        if (!isfinite(e->picked) || (differences && e == l->entry)) continue;
        ole_text_table_add(&table, "%s", e->name);
        ole_text_table_add(&table, "%s %g", ole_losses_tuned(e), e->picked);
        ole_text_table_add(&table, "%s", ole_study_error_text(e->validation, "").text);
        for (int i = 0; i < count; i++)
            ole_text_table_add(
                &table, "%s",
                ole_study_error_text(
                    ole_losses_spread(l, e, differences ? l->entry : NULL, shown[i]), "")
                    .text);
    }
    ole_text_table_add_to_page(&table, page,
                               differences
                                   ? "Paired differences from the first loss, seed by seed: mean "
                                     "and standard deviation."
                                   : "Means and standard deviations over the seeds. Angles are "
                                     "medians in degrees.");
}

static ole_status write_page(const ole_losses *l, const ole_train_options *train,
                             ole_error *error) {
    char path[OLE_RUN_PATH];
    const ole_loss_entry *best = NULL;
    const ole_short_text title =
        ole_printed("Losses on %s", ole_quote_string(ole_page_data_name(train->data)).text);
    const ole_short_text subtitle =
        ole_printed("%" PRId64 " settings per loss, chosen on validation data · %" PRId64 " seed%s",
                    l->settings, l->seeds, l->seeds == 1 ? "" : "s");
    ole_page *page;
    ole_status status = ole_run_output(path, train->out, "report.html", error);
    if (status == OLE_OK) status = ole_page_create(&page, title.text, subtitle.text, error);
    if (status != OLE_OK) return status;
    for (const ole_loss_entry *e = l->entry; e < l->entry + l->count; e++) {
        double mean = ole_losses_spread(l, e, NULL, OLE_MEASURED_ERROR).mean;
        if (isfinite(mean) &&
            (!best || mean < ole_losses_spread(l, best, NULL, OLE_MEASURED_ERROR).mean))
            best = e;
    }
    if (best)
        ole_page_headline(
            page, "lowest test error",
            ole_study_error_text(ole_losses_spread(l, best, NULL, OLE_MEASURED_ERROR), " %").text,
            best->name);
    ole_page_section(page, "Losses");
    add_table(page, l, false);
    ole_page_section(page, "Differences");
    ole_page_text(page, "A difference matters where it is larger than its standard deviation over "
                        "the seeds.");
    add_table(page, l, true);
    status = ole_page_write(page, path, error);
    ole_page_free(page);
    return status;
}

ole_status ole_losses_write(const ole_losses *l, const ole_train_options *train, ole_error *error) {
    ole_memory_file memory;
    if (ole_memory_file_open(&memory)) memory.failed |= !print_csv(l, train, memory.file);
    ole_status status = ole_run_put_memory(train->out, "losses.csv", &memory, error);
    if (status != OLE_OK) return status;
    if (ole_memory_file_open(&memory)) memory.failed |= !print_json(l, train, memory.file);
    status = ole_run_put_memory(train->out, "losses.json", &memory, error);
    return status == OLE_OK ? write_page(l, train, error) : status;
}
