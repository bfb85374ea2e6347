/*
 * tests/support/counted_exit.c - a part of everything that ./dev coverage builds: a process that
 * ends by _exit(), as a rank does that has lost another, writes its counts first.
 *
 * gcov's own function for that is hidden in each library and in the program, and writes the counts
 * of that one alone. So each adds its own to a list that all share.
 */
typedef void write_counts(void);
extern write_counts __gcov_dump;
_Noreturn void __real__exit(int code);
_Noreturn void __wrap__exit(int code);

enum { MOST = 64 };
#define SHARED __attribute__((weak, visibility("default")))
SHARED write_counts *ole_counts_writer[MOST];
SHARED int ole_counts_writers;

__attribute__((constructor)) static void add_own(void) {
    for (int i = 0; i < ole_counts_writers; i++)
        if (ole_counts_writer[i] == __gcov_dump) return;
    if (ole_counts_writers < MOST) ole_counts_writer[ole_counts_writers++] = __gcov_dump;
}

/* In the place of _exit(), by the linker's option --wrap.  A launcher may soon kill the process:
 * the module with the ranks, the last to be loaded, comes first. */
__attribute__((weak)) void __wrap__exit(int code) {
    for (int i = ole_counts_writers - 1; i >= 0; i--)
        ole_counts_writer[i]();
    __real__exit(code);
}
