/*
 * src/report/model_page.c - parts of pages about one model: what its file says, and why its score
 * for unknown was chosen.
 */
#include "report/model_page.h"

#include "model/model.h"
#include "model/threshold_words.h"
#include "novelty/choose.h"
#include "report/text_table.h"

#include <inttypes.h>
#include <stdio.h>

void ole_page_add_choice(ole_page *page, const ole_novelty_choice *c) {
    const char *names[] = {"score",   "mean",    "group 1", "group 2",
                           "group 3", "group 4", "group 5", "what it measures"};
    names[2 + c->groups] = "what it measures";
    ole_text_table table = {.columns = 3 + c->groups, .names = names};
    for (int s = 0; s < OLE_SCORES; s++) {
        ole_score score = (ole_score)(s + 1);
        ole_text_table_add(&table, "%s%s", ole_score_name(score),
                           score == c->score ? " (chosen)" : "");
        ole_text_table_add(&table, "%.4f", c->mean[s]);
        for (int g = 0; g < c->groups; g++)
            ole_text_table_add(&table, "%.4f", c->auroc[s][g]);
        ole_text_table_add(&table, "%s", ole_score_title(score));
    }
    ole_page_section(page, "Which score to use");
    ole_text_table_add_to_page(
        &table, page,
        c->map_refitted
            ? "Chosen without novel samples: map and classifier were fitted again without one "
              "group "
              "of known classes at a time, and that group stood in for novel data. The numbers are "
              "AUROCs of held-out known samples against the group."
            : "Chosen without novel samples: the classifier was fitted again without one group of "
              "known classes at a time, and that group stood in for novel data. The numbers are "
              "AUROCs of held-out known samples against the group; they are too high, as the "
              "network itself has seen all classes.");
}

/* The score under which predictions are "unknown", and where that threshold comes from. */
ole_short_text ole_unknown_words(const ole_model_info *model) {
    const ole_short_text words = ole_threshold_words(model);
    const char *caution = ole_threshold_caution(model);
    ole_short_text under = {""};
    if (model->threshold_score != OLE_SCORE_NONE)
        under = ole_printed("under %.4f%s", model->threshold, *words.text ? ": " : "");
    return ole_printed("%.40s%.200s%s%s%s", under.text, words.text, caution ? " (" : "",
                       caution ? caution : "", caution ? ")" : "");
}

void ole_page_add_model(ole_page *page, const ole_model *model) {
    static const char *const names[2] = {"", "this model"};
    const ole_model_info *m = ole_model_get_info(model);
    ole_text_table table = {.columns = 2, .names = names};
    ole_text_table_row(&table, "network|%s", m->net);
    if (m->height == 1 && m->width == 1)
        ole_text_table_row(&table, "input|vectors of %d numbers", m->channels);
    else
        ole_text_table_row(&table, "input|images, %d × %d × %d", m->channels, m->height, m->width);
    ole_text_table_row(&table, "features|%" PRId64, m->features);
    ole_text_table_row(&table, "classes|%d", m->classes);
    if (m->classifier) {
        ole_text_table_row(&table, "temperature|%.4g", m->temperature);
        ole_text_table_row(&table, "unknown|%s", ole_unknown_words(m).text);
        if (m->threshold_score != OLE_SCORE_NONE)
            ole_text_table_row(&table, "score for unknown|%s", ole_score_title(m->threshold_score));
    } else {
        ole_text_table_row(&table, "classifier|none; compare features instead");
    }
    ole_page_section(page, "The model");
    ole_text_table_add_to_page(&table, page, "As stored in the model's file.");
    ole_novelty_choice choice;
    const char *text = ole_model_choice(model);
    if (text && ole_choice_read(&choice, text)) ole_page_add_choice(page, &choice);
}
