/*
 * cli/main.c - the program `ole`: finds the command, and makes sure that what it printed arrived.
 */
#include "commands.h"
#include "common/common.h"
#include "common/guard.h"
#include "common/launch.h"
#include "common/omp_spin.h"

#include "base/nearest_name.h"

#include <ole/ranks.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One command a line, whatever the #ifdef. */
/* clang-format off */
static const struct {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
    bool together; /* the processes of a launch work together; else the first one works alone */
    bool long_work; /* of several threads */
} commands[] = {
#ifdef OLE_TRAIN
    {"demo", demo_summary, run_demo, false, true},
    {"train", train_summary, run_train, true, true},
    {"tune", tune_summary, run_tune, true, true},
    {"sweep", sweep_summary, run_sweep, true, true},
    {"reproduce", reproduce_summary, run_reproduce, true, true},
    {"eval", eval_summary, run_eval, false, true},
    {"predict", predict_summary, run_predict, false, false},
    {"report", report_summary, run_report, false, false},
    {"features", features_summary, run_features, false, true},
    {"novelty", novelty_summary, run_novelty, false, true},
    {"export", export_summary, run_export, false, false},
#endif
    {"score", score_summary, run_score, false, true},
    {"analyze", analyze_summary, run_analyze, false, true},
    {"verify", verify_summary, run_verify, false, false},
    {"tsne", tsne_summary, run_tsne, false, true},
#ifdef OLE_TRAIN
    {"bench", bench_summary, run_bench, true, true},
    {"data", data_summary, run_data, false, false},
    {"net", net_summary, run_net, false, false},
#endif
    {"info", info_summary, run_info, false, false},
};
/* clang-format on */
enum { COMMANDS = sizeof commands / sizeof *commands };

static int print_usage(void) {
#ifdef OLE_TRAIN
    printf("ole demo\n"
           "ole train digits --net C32-MP-C64-MP-FC64 --out runs/first\n");
#endif
    printf("ole score features.npy labels.npy\n\n"
           "Orthogonal low-rank embeddings: features that are orthogonal between classes.\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    printf("\n'ole COMMAND --help' explains a command; 'ole --version' prints the version.\n");
    return EXIT_DONE;
}

static int unknown_command(const char *name) {
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *nearest = ole_nearest_name(name, names, COMMANDS);
    const char *what = name[0] == '-' ? "option" : "command";
    if (nearest)
        fprintf(failures(), "ole: unknown %s %s; did you mean '%s'?\n", what, name, nearest);
    else
        fprintf(failures(), "ole: unknown %s %s; 'ole --help' lists the commands\n", what, name);
    return EXIT_USAGE;
}

/* One process of a launch prints. Whether this one has anything else to do. */
static bool is_needed(bool together) {
    if (ole_ranks_launched_rank() == 0) return true;
    return together && freopen("/dev/null", "w", stdout);
}

/* False, after a message, where OLE_CPU is wrong. */
static bool prepare(char **argv, bool long_work) {
    ole_cpu cpu;
    ole_error error;
    if (ole_cpu_describe(&cpu, &error) != OLE_OK) {
        if (ole_ranks_launched_rank() == 0) fprintf(stderr, "ole: %s\n", error.message);
        return false;
    }
    start_again(argv, cpu.openblas_core, long_work);
    return true;
}

/* Without training no command is one of several processes. */
static void expect_others(const char *command) {
#ifdef OLE_TRAIN
    launch_expect(command);
#else
    (void)command;
#endif
}

static int settle(int code) {
#ifdef OLE_TRAIN
    return launch_settle(code);
#else
    return code;
#endif
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c) {
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

static int dispatch(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "help") == 0) { /* "help train" becomes "train --help" */
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
        static char help[] = "--help";
        argv[argc - 1] = help;
    }
    const char *name = argc > 1 ? argv[1] : "--help";
    if (is_one_of(name, "--help", "-h", "help"))
        return is_needed(false) ? print_usage() : EXIT_DONE;
    if (is_one_of(name, "--version", "-V", "version")) {
        if (is_needed(false)) printf("ole %s\n", ole_version());
        return EXIT_DONE;
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(name, commands[i].name) != 0) continue;
        if (!prepare(argv, commands[i].long_work)) return EXIT_USAGE;
        if (!is_needed(commands[i].together)) return EXIT_DONE;
        if (commands[i].together) expect_others(name);
        return settle(commands[i].run(argc - 1, argv + 1));
    }
    expect_others(name);
    return settle(unknown_command(name));
}

/*
 * A closed standard stream would hand its number to the next file opened, and output would land in
 * that file.  A stand-in opened the wrong way round keeps the number taken and every write failing.
 */
static bool occupy_standard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return false;
    }
    return true;
}

/* Whether standard output is a pipe whose reader has gone, such as `head`. */
static bool has_lost_reader(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && out.revents & POLLERR;
}

int main(int argc, char **argv) {
    if (!occupy_standard_streams()) return EXIT_FAILED;
    guard_signals();
    int code = dispatch(argc, argv);
    errno = 0;
    bool printed = fflush(stdout) == 0 && !ferror(stdout);
    if (!printed && code == EXIT_DONE) {
        if (has_lost_reader()) { /* the work is done and saved: end quietly, as other programs do */
            signal(SIGPIPE, SIG_DFL);
            raise(SIGPIPE);
        }
        fprintf(stderr, "ole: cannot write to standard output: %s\n",
                errno ? strerror(errno) : "an earlier write failed");
        code = EXIT_FAILED;
    }
    return code;
}
