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

const arg_action ole_commands[] = {
#define ROW(name, heading, traits) {#name, name##_summary, run_##name, traits, heading},
    COMMANDS(ROW)
#undef ROW
        {0},
};
enum { COUNT = sizeof ole_commands / sizeof *ole_commands - 1 };

const char program_examples[] =
#ifdef OLE_TRAIN
    "ole demo\n"
    "ole train digits --net C32-MP-C64-MP-FC64 --out runs/first\n"
#endif
    "ole score features.npy labels.npy\n";

static int print_usage(void) {
    printf("%s\n"
           "Orthogonal low-rank embeddings: features that are orthogonal between classes.\n\n",
           program_examples);
    for (const arg_action *c = ole_commands; c->name; c++) {
        bool starts = c == ole_commands || strcmp(c->heading, c[-1].heading) != 0;
        if (starts) printf("%s%s:\n", c == ole_commands ? "" : "\n", c->heading);
        printf("  %-12s%s\n", c->name, c->summary);
    }
    printf("\n'ole COMMAND --help' explains a command; 'ole --version' prints the version.\n");
    return EXIT_DONE;
}

static int unknown_command(const char *name) {
    const char *names[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        names[i] = ole_commands[i].name;
    const char *nearest = ole_nearest_name(name, names, COUNT);
    const char *what = name[0] == '-' ? "option" : "command";
    if (nearest)
        fprintf(failures(), "ole: unknown %s '%s'; did you mean '%s'?\n", what, name, nearest);
    else
        fprintf(failures(), "ole: unknown %s '%s'; 'ole --help' lists the commands\n", what, name);
    return EXIT_USAGE;
}

/* One process of a launch prints. Whether this one has anything else to do. */
static bool is_needed(bool together) {
    if (ole_ranks_launched_rank() == 0) return true;
    return together && freopen("/dev/null", "w", stdout);
}

static int run_command(const arg_action *command, int argc, char **argv) {
    bool together = command->traits & RANKS;
    ole_cpu cpu;
    ole_error error;
    if (ole_cpu_describe(&cpu, &error) != OLE_OK) { /* OLE_CPU is wrong */
        if (ole_ranks_launched_rank() == 0) fprintf(stderr, "ole: %s\n", error.message);
        return EXIT_USAGE;
    }
    start_again(argv - 1, cpu.openblas_core, command->traits & LONG_WORK);
    if (!is_needed(together)) return EXIT_DONE;
    if (together) launch_expect(command->name);
    return launch_settle(command->run(argc, argv));
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
    if (strcmp(name, "__complete") == 0) return complete_words(argc - 2, argv + 2);
    const arg_action *command = args_find(ole_commands, name);
    if (command) return run_command(command, argc - 1, argv + 1);
    launch_expect(name);
    return launch_settle(unknown_command(name));
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
