/*
 * cli/bench/peer.c - hands the network's graph to a Python script over a pipe and reads the answer.
 *
 * The script travels inside the program (peer_script.h is made from bench/peer_torch.py), so that
 * an installed `ole` needs no other file.
 */
#include "bench/peer.h"

#include "common/common.h"
#include "common/progress.h"
#include "peer_script.h"

#include "net/write_graph.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The ways that a PyTorch user would try on that device, in the same precision. */
static void write_modes(ole_json *w, const peer_job *job) {
    static const char *const cpu[] = {"nchw", "nhwc", NULL};
    static const char *const gpu[] = {"nhwc-graph", "nchw-graph", NULL};
    char mode[40];
    ole_json_open(w, "modes", '[');
    for (const char *const *way = strcmp(job->device, "cuda") == 0 ? gpu : cpu; *way; way++) {
        snprintf(mode, sizeof mode, "%s-%s", job->precision, *way);
        ole_json_string(w, NULL, mode);
    }
    ole_json_close(w);
}

static void write_job(FILE *to, const peer_job *job) {
    ole_json w = ole_json_begin(to, 0, '{');
    ole_json_put(&w, J("batch", job->batch), J("threads", job->threads), J("seconds", job->seconds),
                 J("device", job->device));
    write_modes(&w, job);
    ole_net_write_graph(job->net, &w, "nodes");
    ole_json_close(&w);
}

/* In the child: standard input from a file, output into the pipe. Does not return. */
static void become_python(FILE *input, int out) {
    const char *python = getenv("OLE_PYTHON");
    if (!python) python = "python3";
    rewind(input);
    if (lseek(fileno(input), 0, SEEK_SET) == 0 && dup2(fileno(input), STDIN_FILENO) >= 0 &&
        dup2(out, STDOUT_FILENO) >= 0)
        execlp(python, python, "-c", peer_script, (char *)NULL);
    _exit(127);
}

/* All that comes through the pipe, up to size - 1 bytes. */
static void read_all(int from, char *text, size_t size) {
    size_t used = 0;
    ssize_t got;
    while (used + 1 < size && (got = read(from, text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
}

/* Reads what the child says until it ends; its status, -1 where there is none. Closes `from`. */
static int wait_for(pid_t child, int from, char *text, size_t size) {
    progress line = progress_start();
    int status = -1;
    progress_wait(&line, "PyTorch's steps");
    if (child > 0) read_all(from, text, size);
    close(from);
    if (child > 0 && interrupted()) kill(child, SIGTERM);
    if (child > 0 && waitpid(child, &status, 0) != child) status = -1;
    progress_clear(&line);
    return status;
}

/* The number that `object` has for a mode, or NAN. */
static double number_of(const json_t *object, const char *mode) {
    const json_t *number = json_object_get(object, mode);
    return json_is_number(number) ? json_number_value(number) : NAN;
}

/*
 * {"library": "torch 2.5", "modes": {"fp32-nchw": 1.5, ...}, "processor_ms": {...},
 *  "peak_bytes": {...}}
 */
static void read_answer(const char *text, peer_answer *answer) {
    json_t *json = json_loads(text, 0, NULL), *ms;
    const json_t *memory = json_object_get(json, "peak_bytes");
    const json_t *processor = json_object_get(json, "processor_ms");
    const char *name, *library = json_string_value(json_object_get(json, "library"));
    *answer = (peer_answer){.best_ms = HUGE_VAL};
    snprintf(answer->library, sizeof answer->library, "%s", library ? library : "");
    json_object_foreach(json_object_get(json, "modes"), name, ms) {
        if (answer->modes == PEER_MODES) break;
        peer_mode *mode = &answer->mode[answer->modes++];
        snprintf(mode->name, sizeof mode->name, "%s", name);
        mode->ms = json_number_value(ms);
        mode->processor_ms = number_of(processor, name);
        mode->peak_bytes = number_of(memory, name);
        answer->best_ms = fmin(answer->best_ms, mode->ms);
    }
    json_decref(json);
}

bool peer_run(const peer_job *job, peer_answer *answer) {
    char text[1024] = "";
    int ends[2];
    FILE *input = tmpfile();
    if (!input || pipe(ends) != 0) {
        if (input) fclose(input);
        return refuse("bench", "--peer torch: the system refused a pipe or a temporary file");
    }
    write_job(input, job);
    fflush(input);
    pid_t child = fork();
    if (child == 0) become_python(input, ends[1]);
    close(ends[1]);
    fclose(input);
    int status = wait_for(child, ends[0], text, sizeof text);
    if (interrupted()) return false;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return refuse("bench", "--peer torch: python3 with PyTorch did not run; set OLE_PYTHON to "
                               "one that has it (Debian, Ubuntu: apt install python3-torch)");
    read_answer(text, answer);
    if (isfinite(answer->best_ms)) return true;
    return refuse("bench", "--peer torch: python3 printed no time: %.*s", (int)strcspn(text, "\n"),
                  text);
}
