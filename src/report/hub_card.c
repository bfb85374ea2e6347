/*
 * src/report/hub_card.c - writes the model card: what the model is, how good, and how to load it.
 *
 * Names of classes and data come from files of whoever trained it: in YAML they are quoted as JSON
 * strings, which YAML reads; in Markdown every character with a meaning is escaped.
 */
#include "report/hub_card.h"

#include "base/memory_file.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "formats/json.h"
#include "train/options/recipe.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 1000 }; /* in the table of errors */

/* ---- Foreign text ------------------------------------------------------------------------- */

static void put_yaml(FILE *out, const char *text) {
    ole_json w;
    ole_json_init(&w, out, 0);
    ole_json_string(&w, NULL, text);
}

static void put_markdown(FILE *out, const char *text) {
    while (*text) {
        size_t length = ole_utf8_sequence(text), control = ole_control_length(text);
        if (length == 0 || control > 0) {
            fputs(OLE_UTF8_REPLACEMENT, out);
            text += control > 0 ? control : 1;
            continue;
        }
        if (strchr("\\`*_{}[]<>()#+!|~&$", *text)) fputc('\\', out);
        fwrite(text, 1, length, out);
        text += length;
    }
}

/* The last part of each path; "npy:" has several, with commas. */
void ole_hub_data_name(const char *data, char *name, size_t room) {
    size_t kind = strcspn(data, ":"), used = 0;
    kind += data[kind] == ':';
    bool several = strncmp(data, "npy:", 4) == 0;
    const char *at = data + kind;
    if (snprintf(name, room, "%.*s", (int)kind, data) >= (int)room) return;
    used = kind;
    while (*at) {
        size_t length = several ? strcspn(at, ",") : strlen(at), end = length;
        while (end > 1 && at[end - 1] == '/')
            end--;
        size_t start = end;
        while (start > 0 && at[start - 1] != '/')
            start--;
        const char *comma = at[length] ? "," : "";
        int put =
            snprintf(name + used, room - used, "%.*s%s", (int)(end - start), at + start, comma);
        if (put < 0 || (size_t)put >= room - used) return;
        used += (size_t)put;
        at += length + (at[length] != 0);
    }
}

/* ---- Parts -------------------------------------------------------------------------------- */

static bool takes_images(const ole_hub_card *c) {
    return c->model->height > 1 || c->model->width > 1;
}

static const char *split_name(const ole_hub_card *c) {
    return c->run && c->run->split == OLE_SPLIT_VALIDATION ? "validation" : "test";
}

static void put_front_matter(FILE *out, const ole_hub_card *c, const char *data) {
    const char *task = takes_images(c) ? "image-classification" : "tabular-classification";
    fprintf(out, "---\nlibrary_name: ole\npipeline_tag: %s\ntags:\n- ole\n- %s\n", task, task);
    if (c->model->threshold_score != OLE_SCORE_NONE) fprintf(out, "- open-set-recognition\n");
    fprintf(out, "- safetensors\n- onnx\n");
    if (data && !strchr(data, ':')) fprintf(out, "datasets:\n- %s\n", data);
    fprintf(out, "model-index:\n- name: ");
    put_yaml(out, c->name);
    fprintf(out, "  results:");
    if (!data || !isfinite(c->results.error)) {
        fprintf(out, " []\n---\n");
        return;
    }
    fprintf(out, "\n  - task:\n      type: %s\n    dataset:\n      name: ", task);
    put_yaml(out, data);
    fprintf(out, "      type: ");
    put_yaml(out, data);
    fprintf(out, "      split: %s\n    metrics:\n    - type: accuracy\n      value: %.6g\n",
            split_name(c), 1.0 - c->results.error / 100.0);
    fprintf(out, "---\n");
}

static void put_input(FILE *out, const ole_model_info *m) {
    if (m->height == 1 && m->width == 1)
        fprintf(out, "vectors of %d numbers", m->channels);
    else
        fprintf(out, "%s images of %d × %d pixels",
                m->channels == 1   ? "grey"
                : m->channels == 3 ? "colour"
                                   : "multichannel",
                m->width, m->height);
}

static void put_head(FILE *out, const ole_hub_card *c, const char *data) {
    const ole_model_info *m = c->model;
    fprintf(out, "\n# ");
    put_markdown(out, c->name);
    fprintf(out, "\n\nA classifier of ");
    put_input(out, m);
    fprintf(out, " into %d class%s", m->classes, m->classes == 1 ? "" : "es");
    if (data) {
        fprintf(out, ", trained on ");
        put_markdown(out, data);
    }
    fprintf(out, " with Olé. The OLÉ loss (Lezama et al., CVPR 2018) makes the features of "
                 "different classes orthogonal and those of each class low-rank.\n\n");
    fprintf(out, "| | |\n|---|---|\n| network | `%s` |\n| input | ", m->net);
    put_input(out, m);
    fprintf(out, " |\n| features | %" PRId64 " |\n| classes | ", m->features);
    for (int k = 0; k < m->classes && k < MOST_CLASSES; k++) {
        if (k) fprintf(out, ", ");
        put_markdown(out, m->class_names[k]);
    }
    fprintf(out, "%s |\n", m->classes > MOST_CLASSES ? ", ..." : "");
    if (data) {
        fprintf(out, "| data | ");
        put_markdown(out, data);
        fprintf(out, " |\n");
    }
    if (!m->classifier)
        fprintf(out, "\nThe classifier was not trained (OLÉ alone): use the features; the logits "
                     "mean nothing.\n");
}

/* ---- Loading ------------------------------------------------------------------------------ */

static void put_ole(FILE *out, const ole_hub_card *c) {
    const char *file = takes_images(c) ? "image.jpg" : "X.npy";
    fprintf(out,
            "\n## How to use it\n\nWith Olé, on the command line (`OWNER` is the account on the "
            "hub; a path to the folder's `model.safetensors` works too):\n\n"
            "```sh\nole %s hf:OWNER/%s %s%s\n```\n",
            c->model->classifier ? "predict" : "features", c->name, file,
            c->model->classifier ? "" : " --out F.npy L.txt");
    fprintf(out, "\nWith Olé, in Python:\n\n```python\n");
    if (!takes_images(c)) fprintf(out, "import numpy as np\n");
    fprintf(out, "import ole\n\nmodel = ole.load(\"hf:OWNER/%s\")\nprint(model.%s(%s)%s)\n```\n",
            c->name, c->model->classifier ? "predict" : "features",
            takes_images(c) ? "\"image.jpg\"" : "np.load(\"X.npy\")",
            c->model->classifier ? "[0].best" : ".shape");
}

/* Reads the file into `images`, [1, C, H, W] float32 from 0 to 1. */
static void put_image_reading(FILE *out, const ole_model_info *m) {
    fprintf(out,
            "image = ImageOps.exif_transpose(Image.open(\"image.jpg\")).convert(\"%s\")\n"
            "image = ImageOps.fit(image, (%d, %d), Image.BILINEAR)\n"
            "images = np.asarray(image, np.float32)[None%s] / 255\n",
            m->channels == 1 ? "L" : "RGB", m->width, m->height, m->channels == 1 ? ", None" : "");
    if (m->channels != 1) fprintf(out, "images = images.transpose(0, 3, 1, 2).copy()\n");
}

/* Reads the file into what the network takes, vectors with the `axes` added; the variable's name.
 */
static const char *put_reading(FILE *out, const ole_hub_card *c, const char *axes) {
    if (takes_images(c)) {
        put_image_reading(out, c->model);
        return "images";
    }
    fprintf(out, "x = np.load(\"X.npy\").astype(np.float32)%s\n", axes);
    return "x";
}

static void put_torch(FILE *out, const ole_hub_card *c) {
    fprintf(out,
            "\nWith PyTorch and `load_in_torch.py` of this folder; it needs nothing of Olé:\n\n"
            "```python\nimport numpy as np\nimport torch\n");
    if (takes_images(c)) fprintf(out, "from PIL import Image, ImageOps\n");
    fprintf(out, "from load_in_torch import OleNet\n\n"
                 "net = OleNet(\"model.safetensors\").eval()  # normalises images itself\n");
    const char *input = put_reading(out, c, "[:, :, None, None]");
    fprintf(out, "with torch.no_grad():\n    features, logits = net(torch.from_numpy(%s))\n",
            input);
    if (c->model->classifier)
        fprintf(out, "print(net.class_names[logits[0].argmax()])\n```\n");
    else
        fprintf(out, "print(features.shape)\n```\n");
}

static void put_onnx(FILE *out, const ole_hub_card *c) {
    fprintf(out, "\nWith ONNX Runtime:\n\n```python\nimport json\nimport numpy as np\n"
                 "import onnxruntime\n");
    if (takes_images(c)) fprintf(out, "from PIL import Image, ImageOps\n");
    fprintf(out, "\nsession = onnxruntime.InferenceSession(\"model.onnx\", "
                 "providers=[\"CPUExecutionProvider\"])\n");
    const char *input = put_reading(out, c, "");
    fprintf(out, "features, logits = session.run([\"features\", \"logits\"], {\"%s\": %s})\n",
            input, input);
    if (c->model->classifier)
        fprintf(out, "names = json.loads(session.get_modelmeta().custom_metadata_map"
                     "[\"class_names\"])\nprint(names[logits[0].argmax()])\n```\n");
    else
        fprintf(out, "print(features.shape)\n```\n");
}

/* ---- Results ------------------------------------------------------------------------------ */

static void put_number(FILE *out, const char *what, const char *format, double value) {
    if (!isfinite(value)) return;
    fprintf(out, "| %s | ", what);
    fprintf(out, format, value); /* a literal of put_results() */
    fprintf(out, " |\n");
}

static void put_results(FILE *out, const ole_hub_card *c) {
    const ole_hub_results *r = &c->results;
    const ole_model_info *m = c->model;
    bool any = isfinite(r->error) || isfinite(r->knn1_error);
    fprintf(out, "\n## Results\n\n");
    if (!any) fprintf(out, "Not measured.\n");
    if (any) {
        fprintf(out, "| on the %s set | |\n|---|---|\n", split_name(c));
        if (r->count) fprintf(out, "| samples | %" PRId64 " |\n", r->count);
        put_number(out, ole_printed("%s error", split_name(c)).text, "%.2f %%", r->error);
        put_number(out, "1-NN error, by training features, at the end of training", "%.2f %%",
                   r->knn1_error);
        put_number(out, "expected calibration error", "%.2f %%", 100.0 * r->ece);
        put_number(out, "called unknown", "%.2f %%", 100.0 * r->unknown);
    }
    if (r->class_count && m->classes <= MOST_CLASSES) {
        fprintf(out, "\n| class | samples | error |\n|---|---|---|\n");
        for (int k = 0; k < m->classes; k++) {
            fprintf(out, "| ");
            put_markdown(out, m->class_names[k]);
            fprintf(out, " | %" PRId64 " | ", r->class_count[k]);
            if (r->class_count[k])
                fprintf(out, "%.2f %%",
                        100.0 * (double)r->class_wrong[k] / (double)r->class_count[k]);
            fprintf(out, " |\n");
        }
    }
}

static void put_threshold(FILE *out, const ole_model_info *m) {
    if (!m->classifier && m->threshold_score == OLE_SCORE_NONE) return;
    fprintf(out, "\n## Calibration and unknown samples\n\n");
    fprintf(out, "Probabilities are softmax(logits / %.6g).\n", m->temperature);
    if (m->threshold_score == OLE_SCORE_NONE) {
        fprintf(out, "No threshold is stored, so every sample gets a class.\n");
        return;
    }
    static const char *const meaning[] = {
        [OLE_SCORE_SOFTMAX] = "the largest softmax score",
        [OLE_SCORE_CALIBRATED] = "the largest of these probabilities",
        [OLE_SCORE_RESIDUAL] = "the share of the feature's energy in the nearest class's subspace",
        [OLE_SCORE_COSINE] = "the cosine with the mean direction of the nearest class",
        [OLE_SCORE_ENERGY] = "the log-sum-exp of the logits",
    };
    fprintf(out,
            "A sample is `unknown` where its %s score, %s, is under %.6g. `model.safetensors` and "
            "`config.json` hold the threshold; `ole predict` applies it.\n",
            ole_score_name(m->threshold_score), meaning[m->threshold_score], m->threshold);
}

/* False: without memory for the recipe. */
static bool put_training(FILE *out, const ole_run_view *run, const char *data) {
    const ole_history *h = &run->history;
    ole_train_options options = run->options;
    options.data = data;
    options.init_from = options.init_from ? "WEIGHTS" : NULL; /* a path of whoever trained it */
    char *recipe = ole_recipe_text(&options);
    fprintf(out, "\n## Training\n\n%" PRId64 " epoch%s", h->count, h->count == 1 ? "" : "s");
    if (h->ended) fprintf(out, " in %.0f s on %s", h->seconds, h->device[0] ? h->device : "cpu");
    if (recipe)
        fprintf(out, ". The recipe, for `ole train -c recipe.yaml`:\n\n```yaml\n%s```\n", recipe);
    bool good = recipe;
    free(recipe);
    return good;
}

char *ole_hub_card_text(const ole_hub_card *c) {
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return NULL;
    char named[512] = "";
    const char *data = NULL;
    if (c->run && c->run->options.data) {
        ole_hub_data_name(c->run->options.data, named, sizeof named);
        data = named;
    }
    put_front_matter(memory.file, c, data);
    put_head(memory.file, c, data);
    put_ole(memory.file, c);
    put_torch(memory.file, c);
    put_onnx(memory.file, c);
    put_results(memory.file, c);
    put_threshold(memory.file, c->model);
    if (c->run) memory.failed |= !put_training(memory.file, c->run, data);
    return ole_memory_file_close(&memory);
}
