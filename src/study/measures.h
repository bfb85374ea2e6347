/*
 * src/study/measures.h - numbers.csv: what was measured on a study's runs after training, which
 * runs the figures show, and how large the data set was.
 *
 *     side,seed,measure,value,run
 *     ,,training samples,5000,
 *     ole,0,AUROC of known and novel,97.1,9d3f6a0c51e7b284
 *     ole,0,figures,"angles,map",9d3f6a0c51e7b284
 *
 * Each line is one measure: of a run, or of the data where side, seed and run are empty.  `run` is
 * a digest of the run's metrics.jsonl, which contains times, so every training has its own: a line
 * whose run has been trained again since is outdated and not read.
 */
#ifndef OLE_SRC_STUDY_MEASURES_H
#define OLE_SRC_STUDY_MEASURES_H

#include "base/export.h"
#include "base/spread.h"
#include "ole/train/study.h"

enum { OLE_SIDE_NONE = -1, OLE_SIDE_SOFTMAX = 0, OLE_SIDE_OLE = 1, OLE_SIDES = 2 };

/* One training of one run. */
typedef struct ole_run_mark {
    int side; /* of its λ: 0 is softmax */
    uint64_t seed;
    char digest[17]; /* "": not finished */
} ole_run_mark;

typedef struct ole_measure {
    ole_run_mark run; /* OLE_SIDE_NONE: a measure of the data */
    char name[48], value[128];
} ole_measure;

typedef struct ole_measures {
    ole_measure *items;
    int count;
    bool old_figures;   /* they show a run that was trained again since */
    bool out_of_memory; /* a measure was lost: writing fails */
} ole_measures;

#define OLE_MEASURE_TRAINING "training samples"
#define OLE_MEASURE_TEST "test samples"
#define OLE_MEASURE_PART "part of the data" /* that is here, of what is published; "": all */
#define OLE_MEASURE_FIGURES "figures"       /* that show the run: their kinds */

/* The name of a side in files: "softmax", "ole"; "" for OLE_SIDE_NONE. */
OLE_INTERNAL const char *ole_side_name(int side);

/* The training of a run of the study in `folder`. */
OLE_INTERNAL ole_run_mark ole_run_mark_of(const ole_study_result *study, int64_t run,
                                          const char *folder);

/* Reads FOLDER/numbers.csv and, where version 0.1 wrote them, samples.csv and drawn.csv: measures
 * of the data, and of the runs among `marks`.  A missing file has no measures. */
OLE_INTERNAL ole_status ole_measures_read(ole_measures *measures, const char *folder,
                                          const ole_run_mark *marks, int64_t mark_count,
                                          ole_error *error);
OLE_INTERNAL ole_status ole_measures_write(const ole_measures *measures, const char *folder,
                                           ole_error *error);
OLE_INTERNAL void ole_measures_free(ole_measures *measures);

/* `run` is NULL for a measure of the data. */
OLE_INTERNAL void ole_measures_add(ole_measures *measures, const ole_run_mark *run,
                                   const char *name, const char *value);
OLE_INTERNAL void ole_measures_add_number(ole_measures *measures, const ole_run_mark *run,
                                          const char *name, double value);

/* Removes all measures of runs with this name; NULL: with any name. */
OLE_INTERNAL void ole_measures_remove(ole_measures *measures, const char *name);

/* The value of a measure; NULL: there is none. */
OLE_INTERNAL const char *ole_measures_find(const ole_measures *measures, const ole_run_mark *run,
                                           const char *name);

/* Mean and deviation over the runs of a side. */
OLE_INTERNAL ole_spread ole_measures_spread(const ole_measures *measures, int side,
                                            const char *name);

#endif
