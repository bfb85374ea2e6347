/* src/loss/group.h - which rows belong to which class: a stable sort of the rows by label. */
#ifndef OLE_SRC_LOSS_GROUP_H
#define OLE_SRC_LOSS_GROUP_H

#include "base/arena.h"
#include "ole/base.h"

/* Rows by class. Class c holds order[start[c]] to order[start[c + 1] - 1]. */
typedef struct ole_groups {
    int64_t rows;    /* those that are not ignored */
    int64_t classes; /* labels present */
    int64_t *order;  /* [rows] row numbers: by rising label, then in input order */
    int64_t *label;  /* [classes] */
    int64_t *start;  /* [classes + 1] */
    int64_t *spare;  /* scratch of the sort */
} ole_groups;

void ole_groups_lay_out(ole_groups *groups, ole_arena *arena, int64_t max_rows);

/* Label i of an OLE_I32 or OLE_I64 array. */
int64_t ole_label_at(const void *labels, ole_dtype type, int64_t i);

/* Groups the rows whose label is not negative. */
void ole_groups_fill(ole_groups *groups, const void *labels, ole_dtype type, int64_t rows);

#endif
