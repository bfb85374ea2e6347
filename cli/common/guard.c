/*
 * cli/common/guard.c - SIGXFSZ and SIGBUS.
 *
 * Arrays are mapped, not read (ole/npy.h), so that features larger than memory can be used.  A file
 * that another program cuts off meanwhile then raises SIGBUS, wherever the library happens to read
 * it.  Nothing can go on from there, but the user should know which file it was: /proc/self/maps
 * says what lies at the address.  All that is called here is safe inside a signal handler.
 */
#include "common/guard.h"

#include "common/args.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static void say(const char *text, size_t size) {
    while (size > 0) {
        ssize_t written = write(STDERR_FILENO, text, size);
        if (written <= 0) return;
        text += written;
        size -= (size_t)written;
    }
}

/* A hexadecimal number; *at is left behind it and the character after it. */
static uintptr_t parse_address(const char **at) {
    uintptr_t value = 0;
    for (; **at && **at != '-' && **at != ' '; ++*at) {
        int digit = **at <= '9' ? **at - '0' : **at - 'a' + 10;
        value = value << 4 | (uintptr_t)digit;
    }
    if (**at) ++*at;
    return value;
}

/* The next line of the file without its newline; false at the end.  A longer one is cut. */
static bool read_line(int fd, char *line, size_t room) {
    size_t size = 0;
    char c;
    while (read(fd, &c, 1) == 1) {
        if (c == '\n') {
            line[size] = '\0';
            return true;
        }
        if (size + 1 < room) line[size++] = c;
    }
    return false;
}

/* The path of the file that is mapped at the address; NULL where none is. */
static char *mapped_file(const void *address, char *line, size_t room) {
    char *path = NULL;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !path && read_line(fd, line, room)) {
        const char *at = line;
        uintptr_t first = parse_address(&at), end = parse_address(&at);
        if ((uintptr_t)address >= first && (uintptr_t)address < end) path = strchr(line, '/');
        if ((uintptr_t)address < first) break;
    }
    if (fd >= 0) close(fd);
    return path;
}

static void end_truncated(int number, siginfo_t *about, void *context) {
    static const char before[] = "ole: ",
                      after[] = ": truncated by another program while it was being read; run the "
                                "command again once the file is complete\n";
    static volatile atomic_flag said;
    char line[4096 + 128];
    char *path =
        about->si_code == BUS_ADRERR ? mapped_file(about->si_addr, line, sizeof line) : NULL;
    (void)context;
    if (!path) { /* not a file: as without us, when the access is tried again */
        signal(number, SIG_DFL);
        return;
    }
    while (atomic_flag_test_and_set(&said)) /* another thread is at it */
        pause();
    for (char *c = path; *c; c++) /* nothing that could steer a terminal */
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    say(before, sizeof before - 1);
    say(path, strlen(path));
    say(after, sizeof after - 1);
    _exit(EXIT_FAILED);
}

void guard_signals(void) {
    const struct sigaction bus = {.sa_sigaction = end_truncated, .sa_flags = SA_SIGINFO};
    signal(SIGXFSZ, SIG_IGN);
    sigaction(SIGBUS, &bus, NULL);
}
