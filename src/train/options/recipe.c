/*
 * src/train/options/recipe.c - reads options from YAML and writes them, by libyaml.
 *
 * A recipe is one map from options to scalars; a list of scalars is the same with commas between.
 * The key `paper` has a map of notes, which are kept and change no option; `data_at` says where the
 * data lay when a run wrote its recipe.  Aliases and other maps are errors; anchors and tags change
 * nothing.
 *
 * A recipe may come from anywhere (config.yaml lies beside every model), so reading one takes time
 * and memory in proportion to its size, which is limited.
 */
#include "train/options/recipe.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/memory_file.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "base/utf8.h"
#include "data/find.h"
#include "formats/input.h"
#include "train/options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yaml.h>

/* Limits: bytes; notes, which are compared pairwise; lines for directives, which libyaml compares
 * pairwise. */
enum { MAX_BYTES = 1 << 20, MAX_NOTES = 1000, MAX_DIRECTIVES = 100 };

typedef struct kept {
    struct kept *next;
    char *text;
} kept;

struct ole_recipe {
    kept *texts; /* every string that options and notes point to */
    ole_recipe_note *notes;
    size_t note_count;
    bool noted;          /* the key of the notes was seen */
    const char *data_at; /* data by absolute path; or NULL */
};

typedef struct reader {
    yaml_parser_t parser;
    const char *name; /* of the file, shown */
    ole_recipe *recipe;
    ole_train_options *options;
    bool seen[OLE_TRAIN_MOST_OPTIONS];
} reader;

/* ---- Reading ------------------------------------------------------------------------------ */

static ole_status fail_at(const reader *r, yaml_mark_t where, const char *what, ole_error *error) {
    return ole_fail(error, OLE_ERROR_FORMAT, "%s, line %zu: %s", r->name, where.line + 1, what);
}

static ole_status out_of_memory(const reader *r, ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", r->name);
}

static ole_status next_event(reader *r, yaml_event_t *event, ole_error *error) {
    if (yaml_parser_parse(&r->parser, event)) {
        bool cut = event->type == YAML_SCALAR_EVENT &&
                   memchr(event->data.scalar.value, 0, event->data.scalar.length) != NULL;
        if (!cut) return OLE_OK;
        ole_status status = fail_at(r, event->start_mark, "text with a zero byte", error);
        yaml_event_delete(event);
        return status;
    }
    if (r->parser.error == YAML_MEMORY_ERROR) return out_of_memory(r, error);
    const char *problem = r->parser.problem ? r->parser.problem : "not YAML";
    return fail_at(r, r->parser.problem_mark, problem, error);
}

/* Gives the recipe ownership of the text, which may be NULL; returns it, or NULL when out of
 * memory. */
static const char *keep(ole_recipe *recipe, char *text) {
    kept *k = text ? malloc(sizeof *k) : NULL;
    if (!k) {
        free(text);
        return NULL;
    }
    *k = (kept){recipe->texts, text};
    recipe->texts = k;
    return text;
}

static const char *scalar_text(const yaml_event_t *event) {
    return (const char *)event->data.scalar.value;
}

/* Prints a scalar, or a list of them with commas between. */
static ole_status join_scalars(reader *r, FILE *joined, ole_error *error) {
    yaml_event_t event;
    bool list = false, first = true;
    for (;;) {
        ole_status status = next_event(r, &event, error);
        if (status != OLE_OK) return status;
        yaml_event_type_t type = event.type;
        if (type == YAML_SCALAR_EVENT) {
            fprintf(joined, "%s%s", first ? "" : ",", scalar_text(&event));
            first = false;
        } else if (type == YAML_SEQUENCE_START_EVENT && !list) {
            list = true;
        } else if (type == YAML_ALIAS_EVENT) {
            status = fail_at(r, event.start_mark, "aliases are not supported; write the value out",
                             error);
        } else if (type != YAML_SEQUENCE_END_EVENT) {
            status = fail_at(r, event.start_mark, "expected a value or a list of values", error);
        }
        yaml_event_delete(&event);
        if (status != OLE_OK) return status;
        if (type == YAML_SEQUENCE_END_EVENT || (type == YAML_SCALAR_EVENT && !list)) return OLE_OK;
    }
}

/* The value behind a key. */
static ole_status read_value(reader *r, const char **value, ole_error *error) {
    ole_memory_file joined;
    if (!ole_memory_file_open(&joined)) return out_of_memory(r, error);
    ole_status status = join_scalars(r, joined.file, error);
    *value = keep(r->recipe, ole_memory_file_close(&joined));
    return status == OLE_OK && !*value ? out_of_memory(r, error) : status;
}

/* The rest of a map: `take` gets each key and reads its value. */
static ole_status read_map(reader *r,
                           ole_status (*take)(reader *, const yaml_event_t *key, ole_error *),
                           ole_error *error) {
    for (;;) {
        yaml_event_t event;
        ole_status status = next_event(r, &event, error);
        if (status != OLE_OK) return status;
        bool end = event.type == YAML_MAPPING_END_EVENT;
        if (!end) status = take(r, &event, error);
        yaml_event_delete(&event);
        if (end || status != OLE_OK) return status;
    }
}

/* ---- Notes -------------------------------------------------------------------------------- */

static ole_status add_note(reader *r, const yaml_event_t *key, ole_error *error) {
    ole_recipe *recipe = r->recipe;
    const char *value;
    if (key->type != YAML_SCALAR_EVENT)
        return fail_at(r, key->start_mark, "expected the name of a note", error);
    if (recipe->note_count == MAX_NOTES)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s, line %zu: more than %d notes", r->name,
                        key->start_mark.line + 1, MAX_NOTES);
    const char *name = keep(recipe, strdup(scalar_text(key)));
    ole_status status = name ? OLE_OK : out_of_memory(r, error);
    for (size_t i = 0; i < recipe->note_count && status == OLE_OK; i++)
        if (strcmp(recipe->notes[i].key, name) == 0)
            status = fail_at(r, key->start_mark, "this key appears twice", error);
    if (status == OLE_OK) status = read_value(r, &value, error);
    if (status != OLE_OK) return status;
    ole_recipe_note *more =
        realloc(recipe->notes, (recipe->note_count + 1) * sizeof *recipe->notes);
    if (!more) return out_of_memory(r, error);
    recipe->notes = more;
    more[recipe->note_count++] = (ole_recipe_note){name, value};
    return OLE_OK;
}

/* The map behind `paper`. */
static ole_status read_notes(reader *r, const yaml_event_t *key, ole_error *error) {
    yaml_event_t event;
    if (r->recipe->noted) return fail_at(r, key->start_mark, "this key appears twice", error);
    r->recipe->noted = true;
    ole_status status = next_event(r, &event, error);
    if (status != OLE_OK) return status;
    if (event.type != YAML_MAPPING_START_EVENT)
        status = fail_at(r, event.start_mark, "expected a map of notes", error);
    yaml_event_delete(&event);
    return status == OLE_OK ? read_map(r, add_note, error) : status;
}

const ole_recipe_note *ole_recipe_notes(const ole_recipe *recipe, size_t *count) {
    *count = recipe ? recipe->note_count : 0;
    return recipe ? recipe->notes : NULL;
}

/* ---- Options ------------------------------------------------------------------------------ */

static ole_status read_pair(reader *r, const yaml_event_t *key, ole_error *error) {
    const char *value;
    if (key->type != YAML_SCALAR_EVENT)
        return fail_at(r, key->start_mark, "expected the name of an option", error);
    if (strcmp(scalar_text(key), "paper") == 0) return read_notes(r, key, error);
    const char *name = scalar_text(key);
    const ole_option *option = ole_option_find(ole_train_table, name, strlen(name));
    bool at = strcmp(name, "data_at") == 0,
         *seen = option ? &r->seen[option - ole_train_table] : NULL;
    if (at && r->recipe->data_at)
        return fail_at(r, key->start_mark, "this key appears twice", error);
    if (seen && *seen) return fail_at(r, key->start_mark, "this key appears twice", error);
    if (seen) *seen = true;
    ole_status status = read_value(r, &value, error);
    if (status != OLE_OK) return status;
    if (at) {
        r->recipe->data_at = value;
        return OLE_OK;
    }
    ole_error inner;
    status = ole_train_options_set(r->options, name, value, &inner);
    return status == OLE_OK ? OLE_OK : fail_at(r, key->start_mark, inner.message, error);
}

/* From the start of the stream to its end; an empty recipe changes nothing. */
static ole_status read_stream(reader *r, ole_error *error) {
    for (bool done = false;;) {
        yaml_event_t event;
        ole_status status = next_event(r, &event, error);
        if (status != OLE_OK) return status;
        yaml_event_type_t type = event.type;
        yaml_mark_t where = event.start_mark;
        bool empty = type == YAML_SCALAR_EVENT && event.data.scalar.length == 0;
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT) return OLE_OK;
        if (type == YAML_MAPPING_START_EVENT && !done) {
            status = read_map(r, read_pair, error);
            done = true;
        } else if (!empty && type != YAML_STREAM_START_EVENT && type != YAML_DOCUMENT_START_EVENT &&
                   type != YAML_DOCUMENT_END_EVENT) {
            status = fail_at(r, where, "a recipe is a map, such as 'epochs: 20'", error);
        }
        if (status != OLE_OK) return status;
    }
}

/* ---- Where the data are ------------------------------------------------------------------- */

/* Cuts the first path off: npy names several files, other sets have one path. */
static char *next_path(char **rest, bool several) {
    char *path = *rest, *comma = several ? strchr(path, ',') : NULL;
    if (comma) *comma = '\0';
    *rest = comma ? comma + 1 : NULL;
    return path;
}

bool ole_recipe_data_here(const char *data) {
    char paths[OLE_PATH_ROOM], file[PATH_MAX], *rest = paths;
    bool here = ole_dataset_locate(data, paths, sizeof paths, NULL) == OLE_OK;
    bool several = strncmp(data, "npy:", 4) == 0;
    while (here && rest && *paths) {
        const char *path = next_path(&rest, several);
        if (several) ole_input_file(path, file); /* data.csv of data.csv:column */
        here = access(several ? file : path, F_OK) == 0;
    }
    return here;
}

/* The data by absolute paths, to be freed; NULL if they are already absolute, or are no paths. */
static char *absolute_data(const char *data) {
    char paths[OLE_PATH_ROOM], here[OLE_PATH_ROOM], *rest = paths;
    bool several = data && strncmp(data, "npy:", 4) == 0, relative = false;
    ole_memory_file text;
    if (!data || ole_dataset_locate(data, paths, sizeof paths, NULL) != OLE_OK || !*paths)
        return NULL;
    if (!getcwd(here, sizeof here) || (several && strchr(here, ','))) return NULL;
    if (!ole_memory_file_open(&text)) return NULL;
    fprintf(text.file, "%.*s", (int)strcspn(data, ":"), data);
    for (char separator = ':'; rest; separator = ',') {
        const char *path = next_path(&rest, several);
        relative |= *path != '/';
        fprintf(text.file, "%c%s%s%s", separator, *path == '/' ? "" : here, *path == '/' ? "" : "/",
                path);
    }
    char *absolute = ole_memory_file_close(&text);
    if (relative && absolute && ole_utf8_is_valid(absolute)) return absolute; /* as YAML is */
    free(absolute);
    return NULL;
}

const char *ole_recipe_data_at(const ole_recipe *recipe) {
    return recipe ? recipe->data_at : NULL;
}

/* ---- Recipes ------------------------------------------------------------------------------ */

/* Lines that a YAML directive can be on: '%' after a line break, in whichever encoding. */
static size_t count_directives(const char *bytes, size_t length) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char before = i > 0 ? (unsigned char)bytes[i - 1] : '\n';
        count += bytes[i] == '%' && (before < 0x20 || before >= 0x80);
    }
    return count;
}

/* Whether libyaml can read it in reasonable time. */
static ole_status check_size(const reader *r, const char *bytes, size_t length, ole_error *error) {
    if (length > MAX_BYTES)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: a recipe of %zu bytes; the limit is %d",
                        r->name, length, MAX_BYTES);
    if (count_directives(bytes, length) > MAX_DIRECTIVES)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: more than %d lines start with '%%'; a recipe needs no YAML directives",
                        r->name, MAX_DIRECTIVES);
    return OLE_OK;
}

ole_status ole_recipe_parse(ole_recipe **recipe, const char *bytes, size_t length, const char *name,
                            ole_train_options *options, ole_error *error) {
    if (!recipe || !bytes || !options)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_recipe_parse: an argument is NULL");
    *recipe = NULL;
    ole_train_options changed;
    ole_status status = ole_train_options_read(&changed, options, error);
    if (status != OLE_OK) return status;
    size_t size = options->struct_size < sizeof changed ? options->struct_size : sizeof changed;
    changed.struct_size = size; /* ole_train_options_set() refuses what the caller's lack */
    const ole_quoted quoted = ole_quote_string(name ? name : "recipe");
    reader r = {.name = quoted.text, .recipe = calloc(1, sizeof *r.recipe), .options = &changed};
    status = check_size(&r, bytes, length, error);
    if (status == OLE_OK && r.recipe && yaml_parser_initialize(&r.parser)) {
        yaml_parser_set_input_string(&r.parser, (const unsigned char *)bytes, length);
        status = read_stream(&r, error);
        yaml_parser_delete(&r.parser);
    } else if (status == OLE_OK) {
        status = out_of_memory(&r, error);
    }
    if (status == OLE_OK) {
        const char *at = r.recipe->data_at;
        if (at && changed.data != options->data && !ole_recipe_data_here(changed.data) &&
            ole_recipe_data_here(at))
            changed.data = at;
        changed.struct_size = options->struct_size;
        memcpy(options, &changed, size);
        *recipe = r.recipe;
    } else {
        ole_recipe_free(r.recipe);
    }
    return status;
}

ole_status ole_recipe_read(ole_recipe **recipe, const char *path, ole_train_options *options,
                           ole_error *error) {
    if (!recipe || !path || !options)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_recipe_read: an argument is NULL");
    *recipe = NULL;
    size_t length;
    char *bytes;
    ole_status status = ole_read_file(path, MAX_BYTES, &bytes, &length, error);
    if (status == OLE_OK) status = ole_recipe_parse(recipe, bytes, length, path, options, error);
    free(bytes);
    return status;
}

void ole_recipe_free(ole_recipe *recipe) {
    if (!recipe) return;
    for (kept *k = recipe->texts, *next; k; k = next) {
        next = k->next;
        free(k->text);
        free(k);
    }
    free(recipe->notes);
    free(recipe);
}

/* ---- Writing ------------------------------------------------------------------------------ */

static int write_bytes(void *file, unsigned char *bytes, size_t size) {
    return fwrite(bytes, 1, size, file) == size;
}

static int add_scalar(yaml_document_t *document, const char *value) {
    yaml_scalar_style_t style = *value ? YAML_ANY_SCALAR_STYLE : YAML_SINGLE_QUOTED_SCALAR_STYLE;
    return yaml_document_add_scalar(document, NULL, (const yaml_char_t *)value, (int)strlen(value),
                                    style);
}

static bool add_pair(yaml_document_t *document, int map, const char *key, const char *value) {
    int first = add_scalar(document, key), second = first ? add_scalar(document, value) : 0;
    return second && yaml_document_append_mapping_pair(document, map, first, second);
}

static bool add_options(yaml_document_t *document, const ole_train_options *options,
                        const char *data_at) {
    ole_train_options usual;
    ole_train_options_init(&usual);
    int map = yaml_document_add_mapping(document, NULL, YAML_BLOCK_MAPPING_STYLE);
    if (!map) return false;
    for (const ole_option *o = ole_train_table; o->name; o++) {
        char room[OLE_OPTION_VALUE];
        const char *value = ole_option_text(o, options, room);
        if (!value || o->flags & OLE_TRANSIENT) continue;
        if (o->flags & OLE_LATER && !ole_option_differs(o, options, &usual)) continue;
        char *shown = ole_without_secrets(value);
        bool added = shown && add_pair(document, map, o->name, shown);
        free(shown);
        if (!added) return false;
    }
    return !data_at || add_pair(document, map, "data_at", data_at);
}

static char *recipe_text(const ole_train_options *options, const char *data_at) {
    ole_memory_file memory;
    yaml_emitter_t emitter;
    yaml_document_t document;
    bool good = ole_memory_file_open(&memory) && yaml_emitter_initialize(&emitter);
    if (good) {
        yaml_emitter_set_output(&emitter, write_bytes, memory.file);
        yaml_emitter_set_unicode(&emitter, 1);
        yaml_emitter_set_width(&emitter, -1);
        good = yaml_document_initialize(&document, NULL, NULL, NULL, 1, 1);
        if (good && !add_options(&document, options, data_at)) {
            yaml_document_delete(&document);
            good = false;
        }
        good = good && yaml_emitter_dump(&emitter, &document) && yaml_emitter_close(&emitter);
        yaml_emitter_delete(&emitter);
    }
    char *text = ole_memory_file_close(&memory);
    if (good) return text;
    free(text);
    return NULL;
}

char *ole_recipe_text(const ole_train_options *options) {
    return recipe_text(options, NULL);
}

ole_status ole_recipe_write(const char *path, const ole_train_options *options, ole_error *error) {
    ole_train_options o;
    ole_status status = ole_train_options_read(&o, options, error);
    if (status != OLE_OK) return status;
    char *data_at = absolute_data(o.data), *bytes = recipe_text(&o, data_at);
    free(data_at);
    if (!bytes) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a recipe");
    status = ole_atomic_file_put(path, bytes, strlen(bytes), error);
    free(bytes);
    return status;
}
