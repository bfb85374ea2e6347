/*
 * src/loss/criteria/table.c - the table of criteria, and reading their parameters.
 *
 * The order is that of the words of the training option `loss` behind softmax and ole, and of the
 * bits of ole_loss_kind: a new criterion goes to the end.
 */
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/number.h"
#include "base/quote.h"
#include "loss/criteria/criterion.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const ole_criterion *const table[] = {
    &ole_center,  &ole_contrastive, &ole_triplet,  &ole_l_softmax, &ole_a_softmax,
    &ole_cosface, &ole_arcface,     &ole_supcon,   &ole_mcr2,      &ole_opl,
    &ole_ssole,   &ole_logit_norm,  &ole_ole_unit,
};

enum { COUNT = sizeof table / sizeof *table };

const ole_criterion *ole_criterion_at(int index) {
    return index >= 0 && index < COUNT ? table[index] : NULL;
}

const ole_criterion *ole_criterion_find(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (strcmp(table[i]->name, name) == 0) return table[i];
    return NULL;
}

void ole_criterion_defaults(const ole_criterion *c, double param[OLE_CRITERION_PARAMS]) {
    for (int i = 0; i < OLE_CRITERION_PARAMS; i++)
        param[i] = c->param[i].initial;
}

/* ---- Parameters --------------------------------------------------------------------------- */

static ole_status fail_unknown(const ole_criterion *c, const char *name, ole_error *error) {
    char list[OLE_CRITERION_TEXT] = "";
    for (int i = 0; i < OLE_CRITERION_PARAMS && c->param[i].name; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", c->param[i].name);
    }
    return ole_fail(error, OLE_ERROR_ARGUMENT, "loss_options: %s has no parameter '%s'; it has %s",
                    c->name, ole_quote_string(name).text, list);
}

static ole_status fail_value(const ole_criterion_param *p, const char *text, ole_error *error) {
    char expected[OLE_CRITERION_TEXT];
    if (p->words)
        snprintf(expected, sizeof expected, "one of %s", p->words);
    else
        snprintf(expected, sizeof expected, "a %snumber from %g to %g", p->whole ? "whole " : "",
                 p->min, p->max);
    for (char *c = expected; p->words && *c; c++)
        if (*c == '|') *c = ',';
    return ole_fail(error, OLE_ERROR_ARGUMENT, "loss_options: %s '%s': expected %s", p->name,
                    ole_quote_string(text).text, expected);
}

/* The index of a word in "hard|semi-hard"; -1: none. */
static int find_word(const char *words, const char *text) {
    size_t length = strlen(text);
    for (int i = 0; words; i++) {
        size_t next = strcspn(words, "|");
        if (next == length && strncmp(words, text, length) == 0) return i;
        words = words[next] ? words + next + 1 : NULL;
    }
    return -1;
}

static ole_status read_value(const ole_criterion_param *p, const char *text, double *value,
                             ole_error *error) {
    char *end;
    double number = p->words ? find_word(p->words, text) : ole_number_read(text, &end);
    bool good = p->words ? number >= 0 : end != text && !*end && isfinite(number);
    if (!good || number < p->min || number > p->max || (p->whole && number != floor(number)))
        return fail_value(p, text, error);
    *value = number;
    return OLE_OK;
}

static ole_status read_pair(const ole_criterion *c, const char *pair,
                            double param[OLE_CRITERION_PARAMS], ole_error *error) {
    char name[OLE_CRITERION_TEXT];
    size_t length = strcspn(pair, "=");
    if (pair[length] != '=')
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "loss_options '%s': expected NAME=VALUE, with commas between",
                        ole_quote_string(pair).text);
    snprintf(name, sizeof name, "%.*s", (int)length, pair);
    for (int i = 0; i < OLE_CRITERION_PARAMS && c->param[i].name; i++)
        if (strcmp(c->param[i].name, name) == 0)
            return read_value(&c->param[i], pair + length + 1, &param[i], error);
    return fail_unknown(c, name, error);
}

ole_status ole_criterion_read(const ole_criterion *c, const char *text,
                              double param[OLE_CRITERION_PARAMS], ole_error *error) {
    char pair[OLE_CRITERION_TEXT];
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        if (length >= sizeof pair)
            return ole_fail(error, OLE_ERROR_ARGUMENT, "loss_options: '%.40s...' is too long", at);
        snprintf(pair, sizeof pair, "%.*s", (int)length, at);
        ole_status status = read_pair(c, pair, param, error);
        if (status != OLE_OK) return status;
        at += length + (at[length] == ',');
    }
    return OLE_OK;
}
