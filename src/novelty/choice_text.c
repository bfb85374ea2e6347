/*
 * src/novelty/choice_text.c - a choice of a score as one line of JSON, as model files keep it, and
 * back.
 */
#include "novelty/choose.h"

#include "base/memory_file.h"
#include "formats/json.h"
#include "formats/parse_json.h"

#include <math.h>
#include <string.h>

char *ole_choice_text(const ole_novelty_choice *c) {
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return NULL;
    ole_json w = ole_json_begin(memory.file, 0, '{');
    ole_json_put(&w, J("score", ole_score_name(c->score)), J("map_refitted", c->map_refitted),
                 J("rows", c->rows), J("held_out", c->held_out));
    ole_json_open(&w, "auroc", '{');
    for (int s = 0; s < OLE_SCORES; s++)
        ole_json_numbers(&w, ole_score_name((ole_score)(s + 1)), c->auroc[s], c->groups);
    ole_json_close(&w);
    ole_json_close(&w);
    char *text = ole_memory_file_close(&memory);
    if (text && memory.size > 0 && text[memory.size - 1] == '\n') text[memory.size - 1] = '\0';
    return text;
}

/* The AUROCs of one score; false: not numbers, or too many. */
static bool read_groups(ole_novelty_choice *c, int score, const json_t *list) {
    size_t groups = json_array_size(list);
    if (groups < 1 || groups > OLE_NOVELTY_GROUPS || (c->groups > 0 && (int)groups != c->groups))
        return false;
    c->groups = (int)groups;
    c->mean[score] = 0.0;
    for (size_t g = 0; g < groups; g++) {
        const json_t *value = json_array_get(list, g);
        if (!json_is_number(value) && !json_is_null(value)) return false;
        c->auroc[score][g] = json_is_null(value) ? (double)NAN : json_number_value(value);
        c->mean[score] += c->auroc[score][g] / (double)groups;
    }
    return true;
}

static bool read_choice(ole_novelty_choice *c, const json_t *root) {
    const json_t *auroc = json_object_get(root, "auroc");
    const char *name = json_string_value(json_object_get(root, "score"));
    if (!name || !ole_score_parse(name, &c->score) || c->score == OLE_SCORE_NONE) return false;
    c->map_refitted = json_is_true(json_object_get(root, "map_refitted"));
    c->rows = json_integer_value(json_object_get(root, "rows"));
    c->held_out = json_integer_value(json_object_get(root, "held_out"));
    for (int s = 0; s < OLE_SCORES; s++)
        if (!read_groups(c, s, json_object_get(auroc, ole_score_name((ole_score)(s + 1)))))
            return false;
    return true;
}

bool ole_choice_read(ole_novelty_choice *choice, const char *text) {
    json_error_t where;
    bool no_memory;
    *choice = (ole_novelty_choice){.temperature = 1.0};
    json_t *root = ole_parse_json(text, strlen(text), JSON_REJECT_DUPLICATES, &where, &no_memory);
    bool good = root && read_choice(choice, root);
    json_decref(root);
    if (!good) *choice = (ole_novelty_choice){.temperature = 1.0};
    return good;
}
