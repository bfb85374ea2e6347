/*
 * src/train/choose.c - net, size and channels, chosen by a look at the data's headers.
 */
#include "train/choose.h"

#include "data/look.h"
#include "ole/net.h"
#include "train/run.h"

#include <string.h>

enum { LARGE = 128 }; /* pixels of the longer side, up to which images stay as they are */

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

ole_status ole_train_choose(ole_train_options *o, ole_error *error) {
    bool folder = strncmp(o->data, "folder:", 7) == 0;
    if (o->net && !(folder && (o->resize == 0 || o->channels == 0))) return OLE_OK;
    ole_look look;
    ole_status status = ole_dataset_look(o->data, &look, error);
    if (status != OLE_OK) return status;
    if (folder) {
        choose_size(o, &look);
        choose_channels(o, &look);
    }
    if (!o->net) choose_net(o, &look);
    return OLE_OK;
}
