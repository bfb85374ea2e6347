/* fuzz/fuzz_choice.c - why a score was chosen, as JSON in a model's file: the same after writing.
 */
#include "fuzz.h"
#include "novelty/choose.h"
#include "report/model_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A page shows whatever the numbers are. */
static void show(const ole_novelty_choice *choice) {
    ole_page *page;
    ole_error error = {0};
    require(ole_page_create(&page, "title", NULL, &error) == OLE_OK, error.message);
    ole_page_add_choice(page, choice);
    require(ole_page_write(page, fuzz_path("page.html"), &error) == OLE_OK, error.message);
    ole_page_free(page);
}

static void check_again(const ole_novelty_choice *choice) {
    ole_novelty_choice again;
    char *text = ole_choice_text(choice);
    require(text && ole_choice_read(&again, text), "it cannot be read after writing");
    require(again.score == choice->score && again.groups == choice->groups &&
                again.map_refitted == choice->map_refitted && again.rows == choice->rows &&
                again.held_out == choice->held_out,
            "another choice after writing");
    for (int s = 0; s < OLE_SCORES; s++)
        for (int g = 0; g < choice->groups; g++) {
            double a = choice->auroc[s][g], b = again.auroc[s][g];
            require(a == b || (isnan(a) && isnan(b)), "another AUROC after writing");
        }
    free(text);
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    ole_novelty_choice choice;
    char *text = calloc(size + 1, 1);
    require(text != NULL, "out of memory");
    memcpy(text, bytes, size);
    if (ole_choice_read(&choice, text)) {
        check_again(&choice);
        show(&choice);
    }
    free(text);
}
