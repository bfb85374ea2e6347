/*
 * src/train/choose.c - net, size, channels and epochs, chosen by a look at the data's headers.
 */
#include "train/choose.h"

#include "data/look.h"
#include "ole/net.h"
#include "train/run.h"

#include <math.h>
#include <string.h>

enum { LARGE = 128 }; /* pixels of the longer side, up to which images stay as they are */

/* Few samples take more epochs: in fewer steps neither the weights nor the means and deviations of
 * batch norm get where they belong. */
enum { EPOCHS = 20, MOST_EPOCHS = 100, STEPS = 200 };

/* Of 32, 64 and 96 the nearest. */
static int nearest_side(int side) {
    return side < 48 ? 32 : side < 80 ? 64 : 96;
}

static void choose_size(ole_train_options *o, ole_look *look) {
    bool large = look->height > LARGE || look->width > LARGE;
    if (o->resize == 0 && (look->sizes_differ || (large && !o->net))) {
        o->resize = nearest_side(look->side);
        ole_run_say(o, "images: %dx%d, chosen as they %s; --resize takes another size", o->resize,
                    o->resize, look->sizes_differ ? "differ in size" : "are large");
    }
    if (o->resize > 0) look->height = look->width = o->resize;
}

static void choose_channels(ole_train_options *o, ole_look *look) {
    if (o->channels == 0 && look->channels_differ) {
        o->channels = 3;
        ole_run_say(o, "images: in colour, though some are grey; --channels 1 makes all grey");
    }
    if (o->channels > 0) look->channels = o->channels;
}

static void choose_net(ole_train_options *o, const ole_look *look) {
    o->net = ole_net_suggest(look->channels, look->height, look->width);
    if (look->height == 1 && look->width == 1)
        ole_run_say(o, "net: %s, chosen for vectors of %d; --net takes another", o->net,
                    look->channels);
    else
        ole_run_say(o, "net: %s, chosen for %dx%dx%d; --net takes another", o->net, look->channels,
                    look->height, look->width);
}

/* Those that are held out do not count; a choice of classes or samples is not looked at. */
static void choose_epochs(ole_train_options *o, const ole_look *look) {
    double share = (1.0 - o->val_split) * (look->has_test ? 1.0 : 1.0 - o->test_share);
    double samples = share * (double)look->samples;
    int64_t steps = (int64_t)ceil(samples / (double)o->batch_size);
    o->epochs = EPOCHS;
    if (steps == 0 || EPOCHS * steps >= STEPS) return;
    o->epochs = (STEPS + steps - 1) / steps;
    if (o->epochs > MOST_EPOCHS) o->epochs = MOST_EPOCHS;
    ole_run_say(o, "epochs: %lld, chosen for about %.0f samples; --epochs takes another number",
                (long long)o->epochs, samples);
}

ole_status ole_train_choose(ole_train_options *o, ole_error *error) {
    bool folder = strncmp(o->data, "folder:", 7) == 0;
    bool images = folder && (o->resize == 0 || o->channels == 0);
    if (o->net && o->epochs > 0 && !images) return OLE_OK;
    ole_look look;
    ole_status status = ole_dataset_look(o->data, o->out, &look, error);
    if (status != OLE_OK) return status;
    if (folder) {
        choose_size(o, &look);
        choose_channels(o, &look);
    }
    if (!o->net) choose_net(o, &look);
    if (o->epochs == 0) choose_epochs(o, &look);
    return OLE_OK;
}
