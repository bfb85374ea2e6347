/* src/train/options/choose.c - chooses net, image size, channels and epochs from file headers. */
#include "train/options/choose.h"

#include "base/min_max.h"
#include "data/source.h"
#include "ole/train/net.h"
#include "train/run/run.h"

#include <math.h>
#include <string.h>

enum { LARGE = 128 }; /* pixels of the longer side, up to which images stay as they are */

/* Small sets get more epochs: with fewer steps neither the weights nor batch norm's running
 * statistics converge. */
enum { EPOCHS = 20, MOST_EPOCHS = 100, STEPS = 200 };

ole_status ole_train_choose(ole_train_options *o, ole_error *error) {
    bool folder = strncmp(o->data, "folder:", 7) == 0;
    bool images = folder && (o->resize == 0 || o->channels == 0);
    if (o->net && o->epochs > 0 && !images) return OLE_OK;
    ole_probe probe;
    ole_status status = ole_dataset_probe(o->data, o->out, &probe, error);
    if (status != OLE_OK) return status;
    bool large = probe.height > LARGE || probe.width > LARGE;
    if (folder && o->resize == 0 && (probe.sizes_differ || (large && !o->net))) {
        o->resize = probe.side < 48 ? 32 : probe.side < 80 ? 64 : 96; /* the nearest of the three */
        ole_run_say(o, "images: %dx%d, chosen as they %s; --resize takes another size", o->resize,
                    o->resize, probe.sizes_differ ? "differ in size" : "are large");
    }
    if (folder && o->channels == 0 && probe.channels_differ) {
        o->channels = 3;
        ole_run_say(o, "images: in colour, though some are grey; --channels 1 makes all grey");
    }
    if (folder && o->resize > 0) probe.height = probe.width = o->resize;
    if (folder && o->channels > 0) probe.channels = o->channels;
    if (!o->net) {
        o->net = ole_net_suggest(probe.channels, probe.height, probe.width);
        if (probe.height == 1 && probe.width == 1)
            ole_run_say(o, "net: %s, chosen for vectors of %d; --net takes another", o->net,
                        probe.channels);
        else
            ole_run_say(o, "net: %s, chosen for %dx%dx%d; --net takes another", o->net,
                        probe.channels, probe.height, probe.width);
    }
    if (o->epochs > 0) return OLE_OK;
    /* Held-out samples do not count; a choice of classes or of samples per class is not known. */
    double share = (1.0 - o->val_split) * (probe.has_test ? 1.0 : 1.0 - o->test_share);
    double samples = share * (double)probe.samples;
    int64_t steps = (int64_t)ceil(samples / (double)o->batch_size);
    o->epochs = EPOCHS;
    if (steps == 0 || EPOCHS * steps >= STEPS) return OLE_OK;
    o->epochs = ole_min((STEPS + steps - 1) / steps, MOST_EPOCHS);
    ole_run_say(o, "epochs: %lld, chosen for about %.0f samples; --epochs takes another number",
                (long long)o->epochs, samples);
    return OLE_OK;
}
