/*
 * src/base/option.h - typed options by name.  One row of a table serves a C struct's default, a key
 * of a recipe, a flag of the command line, its line of help, and the check of its value.
 *
 *     static const ole_option table[] = {
 *         {"epochs", OLE_WHOLE, .offset = offsetof(settings, epochs), .value = "N",
 *          .initial = "20", .min = 1, .help = "passes over the training set"},
 *         {0},
 *     };
 *     settings s = {0};
 *     ole_options_init(table, &s);
 *     if (!ole_option_set(&table[0], &s, "--epochs", "ten", why)) puts(why);
 *
 * prints "--epochs 'ten': expected a whole number of at least 1".
 */
#ifndef OLE_SRC_BASE_OPTION_H
#define OLE_SRC_BASE_OPTION_H

#include "base/export.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ole_option_kind {
    OLE_SWITCH,  /* bool; as a flag it takes no value */
    OLE_TEXT,    /* const char * */
    OLE_PAIR,    /* const char *[2]: two words, `--name A B`, on a command line only */
    OLE_WORD,    /* const char *, one of the words of `value`, which '|' separates */
    OLE_CHOICE,  /* int: the index of one of those words, counted from `min` */
    OLE_SET,     /* int: some of `words` with '+' between, as bits */
    OLE_NUMBER,  /* double; "1/4" is understood */
    OLE_SHARE,   /* double, less than 1 unless `max` is given; "10%" is understood */
    OLE_INTEGER, /* int */
    OLE_WHOLE,   /* int64_t */
    OLE_SEED,    /* uint64_t */
} ole_option_kind;

/* What depends on an option, as bits of `flags`. */
enum {
    OLE_EXECUTION = 1, /* where and how long it runs: a run learns the same either way */
    OLE_RESUMABLE = 2, /* affects the run, and may still change when one is resumed */
    OLE_PER_RANK = 4,  /* each rank may have its own */
    OLE_TRANSIENT = 8, /* not stored in recipes */
    OLE_LATER = 16,    /* stored only if not the default: versions without it read the rest */
    OLE_NOT_ZERO = 32, /* 0 in a recipe means "choose one"; a flag's 0 is a mistake */
    OLE_REQUIRED = 64, /* a text that a command line must have */
    OLE_START = 128,   /* of training: the samples, the network and its initial weights */
};

typedef struct ole_option {
    const char *name; /* '-' and '_' are the same in it; NULL ends a table */
    ole_option_kind kind;
    void *to;             /* the variable; NULL: `offset` bytes into a struct */
    const char *value;    /* what help calls the value: "N", "sgd|adam"; NULL for a switch */
    const char *help;     /* one line; help adds the default unless the line mentions it */
    double min, max;      /* both allowed; max 0: no upper limit */
    const char *special;  /* a word that a number may also be, such as "auto" */
    double special_value; /* what the word stands for */
    char letter;          /* a short form, as -c; 0: none */
    bool *given;          /* set when a command line has the option; or NULL */
    size_t offset;
    const char *initial;   /* the default as text; NULL: 0, or no text */
    const char *heading;   /* a new group of options begins here in the help */
    const char *idle_with; /* the option has no effect if another has one of these values, */
                           /* "milestones=cosine|none", any value, "sampler", or any but these, */
                           /* "sampler=!balanced"; of a set, one of these among its words */
    const char *words;     /* of a set, with '|' between */
    unsigned flags;
} ole_option;

enum { OLE_OPTION_VALUE = 48, OLE_OPTION_FLAG = 48, OLE_OPTION_WHY = 512 };

/* The row of that name, of `length` bytes; NULL: there is none. */
OLE_INTERNAL const ole_option *ole_option_find(const ole_option *table, const char *name,
                                               size_t length);

/* The row whose name is closest to a mistyped one; NULL: none is close. */
OLE_INTERNAL const ole_option *ole_option_nearest(const ole_option *table, const char *name,
                                                  size_t length);

/* "--batch-size" */
OLE_INTERNAL const char *ole_option_flag(const ole_option *option, char room[OLE_OPTION_FLAG]);

/* The word at `index` of "sgd|adam"; NULL behind the last. */
OLE_INTERNAL const char *ole_option_word(const char *list, int index, char room[OLE_OPTION_VALUE]);

/* Gives every field of `base`, which is zeroed, its default. */
OLE_INTERNAL void ole_options_init(const ole_option *table, void *base);

/*
 * Sets the option in `base` (unused by rows with `to`) from text, which must outlive it.  False:
 * the value is as it was, and `why` has the reason, in which `name` is what the option is called.
 */
OLE_INTERNAL bool ole_option_set(const ole_option *option, void *base, const char *name,
                                 const char *text, char why[OLE_OPTION_WHY]);

/* Checks a value that was not set by ole_option_set(). */
OLE_INTERNAL bool ole_option_check(const ole_option *option, const void *base, const char *name,
                                   char why[OLE_OPTION_WHY]);

/* The value as text that ole_option_set() reads back to the same; NULL: there is none. */
OLE_INTERNAL const char *ole_option_text(const ole_option *option, const void *base,
                                         char room[OLE_OPTION_VALUE]);

OLE_INTERNAL bool ole_option_differs(const ole_option *option, const void *a, const void *b);
OLE_INTERNAL void ole_option_copy(const ole_option *option, void *to, const void *from);

/* A number in as few digits as read back to the same. */
OLE_INTERNAL const char *ole_option_number(double value, char room[OLE_OPTION_VALUE]);

/* Whether the option has no effect beside the others in `base`; `beside` is then one of them, as
 * "--opt adam". */
OLE_INTERNAL bool ole_option_is_idle(const ole_option *option, const ole_option *table,
                                     const void *base, char beside[OLE_OPTION_WHY]);

#endif
