/*
 * ole/train/embed.h - learn a map and a classifier for embeddings of any model.
 *
 * Example: fit, save, and predict the class of the first row.
 *
 *     ole_embedding train = {rows, dim, OLE_F32, features, labels};
 *     ole_model *model;
 *     ole_error error;
 *     if (ole_embed_fit(&model, &train, NULL, 0, NULL, NULL, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     ole_prediction p;
 *     if (ole_model_predict(model, features, 1, &p, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     puts(p.label < 0 ? "unknown" : ole_model_get_info(model)->class_names[p.label]);
 *     if (ole_model_save(model, "model.safetensors", &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     ole_model_free(model);
 *
 * The result is a model like any other (ole/train/model.h): ole_model_run() gives the mapped rows
 * as its features, and `ole predict`, `eval`, `apply`, `novelty`, `export` and `report` take its
 * file.  The same input, options and build give the same model, for OLE_EMBED_LINEAR and
 * _TRANSFORM whatever the number of threads.
 */
#ifndef OLE_TRAIN_EMBED_H
#define OLE_TRAIN_EMBED_H

#include "ole/geometry.h"
#include "ole/train/model.h"

#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ole_embed_method {
    /*
     * One matrix W and a bias, for the loss softmax(W x + b) + lambda * OLE(W x).  With lambda 0 it
     * is logistic regression, a convex problem.  W = U T is stored as the map T, [min(classes,
     * dim), dim], and the classifier U with orthonormal columns, so T x has the angles of W x.
     */
    OLE_EMBED_LINEAR = 1,
    OLE_EMBED_MLP = 2, /* one hidden layer (linear, batch norm, ReLU) and a linear classifier */
    /*
     * The linear transform of Qiu and Sapiro (JMLR 2015): min over T of sum_c ‖T Y_c‖_* - ‖T Y‖_*,
     * ‖T‖_2 = 1.  It has no classifier.  Unless `epochs` gives the number of steps, it is that with
     * the lowest error of the nearest neighbour on a held-out fifth: many steps lead to maps that
     * keep little of the rows.
     */
    OLE_EMBED_TRANSFORM = 3,
    OLE_EMBED_NONE = 4, /* the embeddings as they are, without a classifier */
} ole_embed_method;

/* "linear", "mlp", ...; never NULL. */
OLE_API const char *ole_embed_method_name(ole_embed_method method);

/* One setting that was tried. */
typedef struct ole_embed_trial {
    double lambda, weight_decay;
    int64_t width;
    double accuracy; /* % of the held-out rows */
    double nll;      /* their mean negative log-likelihood, at the best temperature */
} ole_embed_trial;

typedef struct ole_embed_summary {
    bool interrupted; /* by the callback: there is no model */
    int64_t rows;     /* with a label >= 0 */
    int64_t dim, features;
    int classes;
    int64_t rarest;              /* rows of the smallest class */
    int single;                  /* classes of one row, of which none can be held out */
    double lambda, weight_decay; /* in use; NaN where the method has none */
    int64_t width;               /* of the hidden layer; 0: none */
    int64_t trials;
    ole_embed_trial *trial;   /* [trials], in order; NULL: every setting was given */
    int64_t held_out;         /* rows that were scored by a model that had not seen them */
    double held_out_accuracy; /* % of them, with the settings in use (transform: of the */
                              /* nearest neighbour); NaN for none */
    double training_accuracy; /* % ; NaN without a classifier */
    double objective;         /* what was minimised, at the end */
    int64_t iterations;       /* steps of the last fit */
    double seconds;
} ole_embed_summary;

OLE_API void ole_embed_summary_free(ole_embed_summary *summary);

/* Fill with ole_embed_options_init(), then change what differs. */
typedef struct ole_embed_options {
    size_t struct_size;      /* set by init; see "Versions" in ole/base.h */
    ole_embed_method method; /* default OLE_EMBED_LINEAR */
    int threads;             /* 0 (default): all processors */
    double lambda;           /* weight of OLÉ; NaN (default): chosen on held-out rows */
    double weight_decay; /* L2 penalty weight_decay/2 ‖W‖², for rows that are centred and whose */
                         /* mean square length is 1; NaN (default): chosen */
    int64_t width;       /* MLP: hidden units; 0 (default): chosen */
    int64_t epochs;      /* most passes over the rows; 0 (default): until it converges, at most */
                         /* 200 (MLP: 30) */
    int64_t batch_size;   /* MLP; 0 (default): 256, or fewer for few rows */
    double learning_rate; /* MLP; 0 (default): 2e-3 */
    double tolerance; /* linear: stops once the gradient has this norm relative to the first one; */
                      /* default 1e-3 */
    const double *class_weights; /* [classes], by rising label: weight of each class's rows; NULL */
                                 /* (default): all 1 */
    bool balanced;               /* weights that give each class the same sum; default false */
    bool unknown;                /* find temperature and threshold on held-out rows; default true */
    int folds;     /* of cross-validation; 0 (default): 5, but over 5,000 rows one held-out fifth */
    uint64_t seed; /* of folds, initial weights and batches; default 0 */
    const char *device; /* of MLP training and of the model: "auto", "cpu", ...; NULL (default): */
                        /* "auto" */
    /* Called between steps with the part ("fit", "fold 2 of 5") and its steps; true stops. */
    ole_part_callback *callback;
    void *callback_context;
} ole_embed_options;

OLE_API void ole_embed_options_init_sized(ole_embed_options *options, size_t struct_size);
static inline void ole_embed_options_init(ole_embed_options *options) {
    ole_embed_options_init_sized(options, sizeof *options);
}

/*
 * Fits a model to labelled rows; rows with a label < 0 are ignored.  The classes are the labels
 * that occur, by rising value.  With `names` NULL a class is named by its number; else label c is
 * names[c], and `classes` is the number of names.  `options` and `summary` may be NULL; free
 * the summary with ole_embed_summary_free() after success.
 *
 * OLE_OK with summary.interrupted and *model NULL: the callback stopped it.  OLE_ERROR_DATA: NaN or
 * Inf in a row, which the message names.  OLE_ERROR_ARGUMENT: no rows, a single class, a label
 * without a name, or an option out of range.
 */
OLE_API ole_status ole_embed_fit(ole_model **model, const ole_embedding *train,
                                 const char *const *names, int64_t classes,
                                 const ole_embed_options *options, ole_embed_summary *summary,
                                 ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
