// Every public header in C++, together.
#include <ole/align.h>
#include <ole/analyze.h>
#include <ole/base.h>
#include <ole/classify.h>
#include <ole/geometry.h>
#include <ole/linalg.h>
#include <ole/loss.h>
#include <ole/novelty.h>
#include <ole/npy.h>
#include <ole/ranks.h>
#include <ole/roc.h>
#include <ole/tsne.h>
#include <ole/verify.h>

#if __has_include(<ole/train/train.h>) // a build without training has none of these
#include <ole/train/data.h>
#include <ole/train/embed.h>
#include <ole/train/evaluate.h>
#include <ole/train/export.h>
#include <ole/train/history.h>
#include <ole/train/model.h>
#include <ole/train/net.h>
#include <ole/train/novelty.h>
#include <ole/train/report.h>
#include <ole/train/study.h>
#include <ole/train/train.h>
#endif

#include <iostream>

int main() {
    ole_loss_options options;
    ole_loss_options_init(&options);
    std::cout << "C++: weight " << options.weight << "\n";
    return options.weight == 1.0 ? 0 : 1;
}
