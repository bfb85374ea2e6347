/* bindings/python/native/plans.c - the idle plans of this process. */
#include "plans.h"

#include <pthread.h>
#include <string.h>

typedef struct entry {
    plan_kind kind;
    ole_loss_plan *plan;
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry idle[PLANS_KEPT]; /* least recently used first */
static int idle_count;

static bool same_kind(const plan_kind *a, const plan_kind *b) {
    const ole_loss_options *p = &a->options, *q = &b->options;
    return a->rows == b->rows && a->dim == b->dim && a->dtype == b->dtype &&
           a->stream == b->stream && p->delta_floor == q->delta_floor &&
           p->delta_abs == q->delta_abs && p->delta_rel == q->delta_rel && p->weight == q->weight &&
           p->reduction == q->reduction && p->device == q->device && p->threads == q->threads &&
           p->gpu == q->gpu;
}

/* Removes entry i; the caller holds the lock. */
static ole_loss_plan *remove_entry(int i) {
    ole_loss_plan *plan = idle[i].plan;
    idle_count--;
    memmove(&idle[i], &idle[i + 1], (size_t)(idle_count - i) * sizeof *idle);
    return plan;
}

ole_loss_plan *plans_take(const plan_kind *kind, ole_error *error) {
    ole_loss_plan *plan = NULL;
    pthread_mutex_lock(&lock);
    for (int i = idle_count - 1; i >= 0 && !plan; i--)
        if (same_kind(&idle[i].kind, kind)) plan = remove_entry(i);
    pthread_mutex_unlock(&lock);
    if (!plan)
        ole_loss_plan_create(&plan, kind->rows, kind->dim, kind->dtype, &kind->options, error);
    return plan;
}

void plans_give(const plan_kind *kind, ole_loss_plan *plan) {
    ole_loss_plan *spare = NULL;
    pthread_mutex_lock(&lock);
    if (idle_count == PLANS_KEPT) spare = remove_entry(0);
    idle[idle_count++] = (entry){*kind, plan};
    pthread_mutex_unlock(&lock);
    ole_loss_plan_destroy(spare);
}
