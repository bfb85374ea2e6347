/* src/train/options/schedule.c - milestones, cosine and warm-up. */
#include "train/options/schedule.h"

#include "base/error.h"
#include "base/number.h"
#include "base/quote.h"

#include <math.h>
#include <string.h>

/* Fills the milestones, which must rise; false for a mistake. If the number of epochs is not known
 * yet (0), shares are compared with shares. */
static bool parse_milestones(ole_schedule *schedule, const char *text) {
    double last[2] = {0.0, 0.0};
    for (const char *at = text; *at;) {
        char *end;
        double value = ole_number_read(at, &end);
        if (end == at || !isfinite(value)) return false;
        bool share = *end == '%', apart = share && schedule->epochs == 0.0;
        if (share) end++;
        if (share && !apart) value = value * schedule->epochs / 100.0; /* exact where it is whole */
        if (value <= last[apart] || schedule->milestones == OLE_MAX_MILESTONES) return false;
        schedule->milestone[schedule->milestones++] = last[apart] = value;
        if (*end == ',' && end[1])
            end++;
        else if (*end)
            return false;
        at = end;
    }
    return true;
}

ole_status ole_schedule_init(ole_schedule *schedule, const ole_train_options *options,
                             int64_t steps_per_epoch, ole_error *error) {
    *schedule = (ole_schedule){
        .lr = options->lr,
        .gamma = options->gamma,
        .warmup = options->warmup,
        .epochs = (double)(options->epochs > 0 ? options->epochs - options->probe_epochs : 0),
        .probe = options->probe_epochs,
        .steps_per_epoch = steps_per_epoch,
        .cosine = strcmp(options->milestones, "cosine") == 0,
    };
    if (options->epochs > 0 && options->probe_epochs >= options->epochs)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "probe_epochs %lld: leaves none of %lld epochs for the other layers; to "
                        "train the classifier alone, use freeze backbone",
                        (long long)options->probe_epochs, (long long)options->epochs);
    if (schedule->cosine || strcmp(options->milestones, "none") == 0) return OLE_OK;
    if (parse_milestones(schedule, options->milestones)) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "milestones '%s': expected rising epochs or shares such as 81,122 or "
                    "50%%,75%%, cosine or none",
                    ole_quote_string(options->milestones).text);
}

double ole_schedule_rate(const ole_schedule *schedule, int64_t epoch, int64_t step) {
    if (epoch < schedule->probe) return schedule->lr;
    epoch -= schedule->probe;
    double steps = (double)schedule->steps_per_epoch;
    double time = (double)epoch + (double)step / steps;
    double rate = schedule->lr;
    if (schedule->cosine) {
        double whole = schedule->epochs - schedule->warmup;
        double at = (double)epoch < schedule->epochs
                        ? time /* else that of its last step */
                        : schedule->epochs - 1.0 + (steps - 1.0) / steps;
        double done = whole > 0.0 ? (at - schedule->warmup) / whole : 1.0;
        if (done > 0.0) rate *= 0.5 * (1.0 + cos(acos(-1.0) * fmin(done, 1.0)));
    }
    for (int i = 0; i < schedule->milestones; i++)
        if (time >= schedule->milestone[i]) rate *= schedule->gamma;
    double warm = ((double)epoch * steps + (double)step + 1.0) / (schedule->warmup * steps);
    return warm < 1.0 ? rate * warm : rate;
}
