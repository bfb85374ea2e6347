/* cli/novelty/novelty_report.h - what `ole novelty` found, as text, JSON, a table of scores and
 * figures. */
#ifndef OLE_CLI_NOVELTY_NOVELTY_REPORT_H
#define OLE_CLI_NOVELTY_NOVELTY_REPORT_H

#include "common/figure_output.h"

#include "formats/json.h"
#include <ole/train/novelty.h>

typedef struct novelty_report {
    const ole_novelty *result;
    const ole_model_info *model;
    const ole_dataset_info *set[2]; /* known, novel */
    ole_score score;                /* whose threshold is stored */
    const char *path;               /* of the model; NULL: none */
    bool of_features, tested;       /* without a network; on test rows, not on held-out ones */
    bool stored, temperature_given;
} novelty_report;

void novelty_print_text(const novelty_report *report);
void novelty_print_json(const novelty_report *report);

/* How a score was chosen without novel samples; `exported`: of those that can be exported. */
void novelty_print_choice(const ole_novelty_choice *choice, bool exported);

/* Reports on stderr that a score which was stored keeps the model from being exported, and which
 * one would not. */
void novelty_tell_export(const char *command, ole_score score, const ole_novelty_choice *choice);

/* Warns that the temperature makes the calibration worse, if it does. */
void novelty_tell_calibration(const ole_novelty *novelty);

void novelty_json_choice(ole_json *w, const ole_novelty_choice *choice);

/* "auto" is OLE_SCORE_NONE; false for an unknown name, which it reports. */
bool novelty_parse_score(const char *command, const char *name, ole_score *score);

/* A .csv file, one line per sample. The exit code. */
int novelty_write_scores(const novelty_report *report, const char *path);

/* Figures and page, where they are wanted. The exit code. */
int novelty_draw(const novelty_report *report, const figure_options *options);

#endif
