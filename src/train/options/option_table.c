/*
 * src/train/options/option_table.c - every option of a training run: the struct's fields, their
 * defaults, the keys of a recipe and the flags of the commands that train.
 *
 * A new option is a row here and a field of ole_train_options.  Recipes are written in this order.
 */
#include "train/options/option_table.h"

#include "data/loader/loader.h"
#include "ole/loss.h"
#include "ole/train/train.h"

/* Those that stand beside softmax or alone. */
#define OLE_ADDED_LOSSES "center|contrastive|triplet|supcon|mcr2|opl|ssole|ole-unit"

#define ROW(field, type)                                                                           \
    .name = #field, .kind = OLE_##type, .offset = offsetof(ole_train_options, field)

const ole_option ole_train_table[] = {
    {ROW(data, TEXT), .value = "NAME[:PATH]", .help = "data set",
     .flags = OLE_RESUMABLE | OLE_PER_RANK, .heading = "The run"},
    {ROW(net, TEXT), .value = "NET",
     .help = "network: a name from 'ole net' or layers such as C32-MP-FC64 (default: chosen to "
             "suit the data)",
     .flags = OLE_START},
    {ROW(out, TEXT), .value = "FOLDER", .help = "output folder",
     .flags = OLE_EXECUTION | OLE_PER_RANK | OLE_TRANSIENT},
    {ROW(resume, SWITCH), .help = "continue in the output folder, with its options",
     .flags = OLE_EXECUTION | OLE_PER_RANK | OLE_TRANSIENT},
    {ROW(restart_schedule, SWITCH),
     .help = "on resuming a finished run with more epochs: spread the schedule over all of them "
             "instead of keeping the last learning rate",
     .flags = OLE_EXECUTION | OLE_TRANSIENT},

    {ROW(loss, SET), .value = "A[+B]", .initial = "softmax+ole",
     .words = "softmax|ole|center|contrastive|triplet|l-softmax|a-softmax|cosface|arcface|"
              "supcon|mcr2|opl|ssole|logit-norm|ole-unit",
     .help = "what to minimise: softmax, or l-softmax, a-softmax, cosface, arcface or logit-norm "
             "in its place; +ole, and +center, contrastive, triplet, supcon, mcr2, opl, ssole or "
             "ole-unit; all of the latter but center also alone",
     .heading = "Loss"},
    {ROW(lambda, NUMBER), .value = "X", .initial = "0.25", .help = "weight of OLE",
     .idle_with = "loss=!ole"},
    {ROW(loss_weight, NUMBER), .value = "X", .initial = "auto", .special = "auto",
     .special_value = OLE_LOSS_WEIGHT_AUTO, .flags = OLE_LATER,
     .idle_with = "loss=!" OLE_ADDED_LOSSES,
     .help = "weight of the loss that is added to softmax and is not OLE (default auto: its own)"},
    {ROW(loss_options, TEXT), .value = "A=X,...", .initial = "", .flags = OLE_LATER,
     .idle_with = "loss=!" OLE_ADDED_LOSSES "|l-softmax|a-softmax|cosface|arcface|logit-norm",
     .help = "parameters of that loss, such as margin=0.5,scale=30"},
    {ROW(label_smoothing, SHARE), .value = "X", .flags = OLE_LATER, .idle_with = "loss=!softmax",
     .help = "share of softmax's target spread over all classes (default 0)"},
    {ROW(ole_at, TEXT), .value = "N[:W],...", .initial = "",
     .help = "apply OLE after these tokens of the network, with these weights (default: to the "
             "classifier's input, with lambda)",
     .idle_with = "loss=!ole"},
    {ROW(delta_floor, NUMBER), .value = "X", .initial = "1", .flags = OLE_LATER,
     .help = "minimum of each class's nuclear norm", .idle_with = "loss=!ole"},
    {ROW(delta_abs, NUMBER), .value = "X", .initial = "1e-6", .flags = OLE_LATER,
     .help = "treat singular values up to X as zero", .idle_with = "loss=!ole"},
    {ROW(delta_rel, NUMBER), .value = "X", .initial = "auto", .flags = OLE_LATER, .special = "auto",
     .special_value = OLE_DELTA_REL_AUTO, .idle_with = "loss=!ole",
     .help = "the same, relative to the largest one (default auto: 64 epsilon)"},

    {ROW(epochs, WHOLE), .value = "N", .initial = "20", .max = 1e9,
     .help = "passes over the training set (default 20; 'ole train' uses more for small sets)",
     .flags = OLE_RESUMABLE | OLE_NOT_ZERO, .heading = "Optimisation"},
    {ROW(batch_size, WHOLE), .value = "N", .initial = "64", .min = 1, .max = 1e9,
     .help = "samples per step", .idle_with = "sampler=!balanced"},
    {ROW(opt, WORD), .value = "sgd|adam|adamw", .initial = "sgd",
     .help = "optimiser; adamw is adam with decoupled weight decay"},
    {ROW(lr, NUMBER), .value = "X",
     .help = "learning rate (default 0.1 for sgd, 0.001 for the others)", .flags = OLE_NOT_ZERO},
    {ROW(milestones, TEXT), .value = "50%,75%", .initial = "50%,75%",
     .help = "when the learning rate drops: shares of the run, epochs, cosine or none"},
    {ROW(gamma, NUMBER), .value = "X", .initial = "0.1",
     .help = "factor of the learning rate at each milestone",
     .idle_with = "milestones=cosine|none"},
    {ROW(warmup, NUMBER), .value = "EPOCHS", .help = "length of the linear warm-up"},
    {ROW(momentum, NUMBER), .value = "X", .initial = "0.9", .max = 1, .help = "momentum of sgd",
     .idle_with = "opt=adam|adamw"},
    {ROW(nesterov, SWITCH), .initial = "true", .help = "Nesterov momentum",
     .idle_with = "opt=adam|adamw"},
    {ROW(beta1, SHARE), .value = "X", .initial = "0.9", .flags = OLE_LATER,
     .help = "decay of the mean gradient of adam and adamw", .idle_with = "opt=sgd"},
    {ROW(beta2, SHARE), .value = "X", .initial = "0.999", .flags = OLE_LATER,
     .help = "decay of the mean squared gradient", .idle_with = "opt=sgd"},
    {ROW(eps, NUMBER), .value = "X", .initial = "1e-8", .flags = OLE_LATER,
     .help = "added to the root of the mean squared gradient", .idle_with = "opt=sgd"},
    {ROW(weight_decay, NUMBER), .value = "X", .initial = "1e-4",
     .help =
         "L2 penalty, added to the gradient; with adamw, the share of lr by which weights shrink "
         "per step"},

    {ROW(clip_norm, NUMBER), .value = "X", .flags = OLE_LATER,
     .help = "scale the gradients so that their norm, all together, is at most X (default 0: off)"},
    {ROW(ema, SHARE), .value = "0.999", .flags = OLE_LATER,
     .help = "evaluate and keep the moving average of the weights, of this decay per step (default "
             "0: off)"},
    {ROW(lr_backbone, TEXT), .value = "0.1x|X", .initial = "1x", .flags = OLE_LATER,
     .help = "learning rate of all layers but the classifier: a multiple of --lr, or a rate"},

    {ROW(augment, TEXT), .value = "crop:4,flip", .initial = "",
     .help = "random changes of each image: crop:PIXELS (padded), resized-crop:SHARE, flip, "
             "rotate:DEGREES, jitter:X, erase:P, cutout:PIXELS, mixup:ALPHA (default none)",
     .heading = "Batches and seeds"},
    {ROW(normalize, TEXT), .value = "HOW", .initial = "auto",
     .help = "auto (mean and deviation of the training set), none, half, cifar, imagenet, or "
             "M,M,M/S,S,S",
     .flags = OLE_START},
    {ROW(sampler, TEXT), .value = "balanced[:CxK]", .initial = "",
     .help = "batches of C classes with K samples each; balanced alone chooses both for "
             "--batch-size (default: shuffled samples)"},
    {ROW(seed, SEED), .value = "N", .help = "random seed", .flags = OLE_START},
    {ROW(seeds, WHOLE), .value = "K", .initial = "1", .min = 1, .max = 1e6,
     .help = "number of runs, with consecutive seeds", .flags = OLE_EXECUTION},

    {ROW(samples_per_class, WHOLE), .value = "K", .max = 1e9,
     .help = "train on K samples per class (default 0: all)", .heading = "Data",
     .flags = OLE_START},
    {ROW(classes, TEXT), .value = "A,B,...", .help = "use only these classes", .flags = OLE_START},
    {ROW(val_split, SHARE), .value = "10%",
     .help = "share of the training set held out for validation, stratified (default 0)",
     .flags = OLE_START},
    {ROW(calibration, SHARE), .value = "10%", .flags = OLE_LATER, .idle_with = "unknown=false",
     .help = "share held out to set the threshold for 'unknown', where every class has 20 samples "
             "(default 10% of folder: and npy: data without --val-split, else 0)"},
    {ROW(keep, WORD), .value = "auto|best|last", .initial = "auto", .flags = OLE_LATER,
     .help = "the model that is kept: of the epoch with the lowest error on the samples held out, "
             "or of the last (default auto: best with --val-split, else last)"},
    {ROW(unknown, SWITCH), .initial = "true", .flags = OLE_EXECUTION | OLE_LATER,
     .help = "store in the model the threshold below which predictions are 'unknown'"},
    {ROW(test_share, SHARE), .value = "20%", .initial = "20%",
     .help = "share held out for testing, if the data have no test set", .flags = OLE_START},
    {ROW(skip_test, SWITCH), .help = "never read the test set; report validation errors only"},
    {ROW(resize, INTEGER), .value = "N", .max = 4096,
     .help = "image folders: scale the shorter side to N pixels, then crop the centre (default "
             "0: only if needed)",
     .flags = OLE_START},
    {ROW(channels, INTEGER), .value = "1|3", .max = 4,
     .help = "image folders: grey or colour (default 0: as the files are)", .flags = OLE_START},
    {ROW(align, TEXT), .value = "FILE.csv", .initial = "", .flags = OLE_LATER | OLE_START,
     .help = "image folders: bring the landmarks in this file (of the folder, or a path) to a "
             "template by scaling, turning and shifting each image"},
    {ROW(skip_bad, SWITCH), .help = "image folders: skip unreadable images", .flags = OLE_START},

    {ROW(init, WORD), .value = "xavier|msra", .initial = "xavier", .help = "random initial weights",
     .heading = "Initial weights"},
    {ROW(init_from, TEXT), .value = "FILE|URL|hf:OWNER/MODEL",
     .help = "initial weights from a .safetensors or .caffemodel file, downloaded if necessary",
     .flags = OLE_RESUMABLE | OLE_START},
    {ROW(freeze, TEXT), .value = "A,B,...",
     .help = "keep parameters whose names start with these; also stem, stage1, ..., backbone"},
    {ROW(probe_epochs, WHOLE), .value = "N", .max = 1e9, .flags = OLE_LATER,
     .help = "train only the classifier in the first N epochs (default 0)"},

    {ROW(eval_every, WHOLE), .value = "N", .initial = "1", .min = 1, .max = 1e9,
     .help = "epochs between evaluations", .flags = OLE_EXECUTION,
     .heading = "Where and how it runs"},
    {ROW(save_every, WHOLE), .value = "N", .max = 1e9,
     .help = "epochs between checkpoints (default 0: as often as 5% of the time allows)",
     .flags = OLE_EXECUTION},
    {ROW(device, TEXT), .value = "auto|cpu|cuda[:i]|ref", .initial = "auto",
     .help = "device to train on", .flags = OLE_EXECUTION | OLE_PER_RANK},
    {ROW(precision, WORD), .value = "fp32|tf32|bf16", .initial = "fp32",
     .help = "precision of the arithmetic"},
    {ROW(conv, WORD), .value = "auto|direct", .initial = "auto",
     .help = "convolutions: the fastest algorithm, or never Winograd"},
    {ROW(bn, WORD), .value = "sync|local", .initial = "sync",
     .help = "multiple ranks: batch norm over the whole batch or over each rank's part"},
    {ROW(ole_scope, WORD), .value = "global|local", .initial = "global",
     .help = "multiple ranks: OLE of the whole batch or of each rank's part"},
    {ROW(threads, INTEGER), .value = "N", .max = 1024,
     .help = "threads (default 0: all processors)", .flags = OLE_EXECUTION | OLE_PER_RANK},
    {ROW(workers, INTEGER), .value = "N", .initial = "1", .max = OLE_LOADER_MAX_THREADS,
     .help = "threads that assemble batches", .flags = OLE_EXECUTION | OLE_PER_RANK},
    {0},
};

_Static_assert(sizeof ole_train_table / sizeof *ole_train_table <= OLE_TRAIN_MOST_OPTIONS,
               "raise OLE_TRAIN_MOST_OPTIONS");
