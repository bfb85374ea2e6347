// Every public header in C++, together.
#include <ole/analyze.h>
#include <ole/base.h>
#include <ole/classify.h>
#include <ole/drawing.h>
#include <ole/figure.h>
#include <ole/geometry.h>
#include <ole/json.h>
#include <ole/linalg.h>
#include <ole/loss.h>
#include <ole/npy.h>
#include <ole/page.h>
#include <ole/ranks.h>
#include <ole/roc.h>
#include <ole/tsne.h>
#include <ole/verify.h>

#if __has_include(<ole/train.h>) // a build without training has none of these
#include <ole/bench.h>
#include <ole/data.h>
#include <ole/evaluate.h>
#include <ole/export.h>
#include <ole/history.h>
#include <ole/model.h>
#include <ole/net.h>
#include <ole/novelty.h>
#include <ole/study.h>
#include <ole/train.h>
#endif

#include <iostream>

int main() {
    ole_loss_options options;
    ole_loss_options_init(&options);
    std::cout << "C++: weight " << options.weight << "\n";
    return options.weight == 1.0 ? 0 : 1;
}
