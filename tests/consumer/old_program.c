/*
 * tests/consumer/old_program.c - a program compiled against the headers of version 0.2.0
 * (tests/frozen/0.2) and run with a library whose options have grown since.
 *
 * The options end where a page ends, and the next page can be neither read nor written: a library
 * that takes them for its own, longer ones crashes here.
 */
#include <ole/loss.h>
#include <ole/train/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* `size` bytes of garbage before a page that nobody may touch. */
static void *at_the_edge(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) exit(2);
    memset(pages, 0xA5, page);
    return pages + page - size;
}

static void require(bool good, const char *what, const ole_error *error) {
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, error->message);
    exit(1);
}

static void evaluate_loss(void) {
    const double features[4][3] = {{2, 0, 0}, {3, 0, 0}, {1, 1, 2}, {1, 2, 4}};
    const int labels[4] = {0, 0, 1, 1};
    ole_loss_options *options = at_the_edge(sizeof *options);
    ole_loss_options_init(options);
    ole_loss_batch batch = {
        .rows = 4, .features = features, .labels = labels, .label_type = OLE_I32};
    ole_loss_result results[2] = {0};
    ole_error error = {OLE_OK, ""};
    for (int i = 0; i < 2; i++) { /* the weight doubles */
        ole_loss_plan *plan;
        options->weight = i + 1;
        require(ole_loss_plan_create(&plan, 4, 3, OLE_F64, options, &error) == OLE_OK, "plan",
                &error);
        require(ole_loss_eval(plan, &batch, NULL, &results[i], &error) == OLE_OK, "loss", &error);
        ole_loss_plan_destroy(plan);
    }
    require(options->struct_size == sizeof *options, "struct_size of the loss", &error);
    require(results[0].value > 0.0 &&
                fabs(results[1].value - 2.0 * results[0].value) < 1e-12 * results[1].value,
            "the weight has no effect", &error);
    options->struct_size -= sizeof(double);
    ole_loss_plan *plan;
    require(ole_loss_plan_create(&plan, 4, 3, OLE_F64, options, &error) == OLE_ERROR_ARGUMENT &&
                strstr(error.message, "options.struct_size is"),
            "options shorter than those of 0.2 pass", &error);
}

static void train(void) {
    ole_train_options *options = at_the_edge(sizeof *options);
    ole_train_options_init(options);
    ole_error error = {OLE_OK, ""};
    ole_recipe *recipe;
    static const char text[] = "net: FC8\nepochs: 1\nsamples_per_class: 10\n";
    require(ole_train_options_set(options, "data", "digits", &error) == OLE_OK, "data", &error);
    require(ole_recipe_parse(&recipe, text, sizeof text - 1, "text", options, &error) == OLE_OK,
            "recipe", &error);
    require(options->struct_size == sizeof *options && options->epochs == 1, "recipe", &error);
    options->threads = 1;
    ole_train_summary summary;
    require(ole_train(options, &summary, &error) == OLE_OK, "training", &error);
    require(summary.epochs == 1, "training", &error);
    ole_recipe_free(recipe);
}

int main(void) {
    evaluate_loss();
    train();
    puts("a program of 0.2.0 works with longer options");
    return 0;
}
