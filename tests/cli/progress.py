#!/usr/bin/env python3
"""progress.py OLE - how far commands are, on a terminal and nowhere else; Ctrl-C in their middle.

Jobs are so long that they are stopped, as soon as the line that is waited for is there.
"""
import array
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import zlib

import npyfile
import run
from run import check_that

# A net that takes a while for an image, on one thread.
NET = "C64-C64-C64-MP-C64-C64-C64-MP-FC16"
# Keeps a fast CPU busy for as long as a slow one: it may not use its widest instructions.
SLOW = {"OLE_CPU": "generic"}
BAR = r"\[=*>? *\]"
CLEAR = "\r\033[K"


# ---- A terminal ---------------------------------------------------------------------------------

class Watched:
    """A command whose stderr is a terminal; `lines` are those drawn one over the other so far."""

    def __init__(self, ole, args, columns=0, environment=None, **files):
        self.master, end = pty.openpty()
        self.resize(columns)
        self.process = subprocess.Popen([ole.path, *args.split()], cwd=ole.work, stderr=end,
                                        env={**ole.environment, **(environment or {})},
                                        **{"stdout": subprocess.PIPE, **files})
        os.close(end)
        self.text = ""

    def resize(self, columns):
        """Sets the width; 0: the terminal does not tell it."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if columns else 0, columns, 0, 0))

    @property
    def lines(self):
        return self.text.split(CLEAR)

    def read(self, seconds):
        """Takes what is drawn within these seconds; false when there will be no more."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            more = os.read(self.master, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.text += more.decode()
        return bool(more)

    def wait_for(self, pattern, seconds=60):
        """Whether a line with the pattern is drawn."""
        end = time.monotonic() + seconds
        while not any(re.fullmatch(pattern, line) for line in self.lines):
            if time.monotonic() > end or not self.read(1):
                return False
        return True

    def end(self, number=None):
        """The exit code, after a signal or not; what is still drawn is read."""
        if number:
            self.process.send_signal(number)
        while self.read(60):
            continue
        os.close(self.master)
        if self.process.stdout:
            self.out = self.process.stdout.read().decode()
            self.process.stdout.close()
        return self.process.wait(60)


def check_stopped(ole, args, pattern, message, environment=None, **files):
    """The line is drawn; Ctrl-C then ends with 130 and the message on a line of its own."""
    job = Watched(ole, args, environment=environment, **files)
    check_that(f"ole {args}: {pattern!r}", job.wait_for(pattern))
    code = job.end(signal.SIGINT)
    check_that(f"ole {args}: interrupted, {code}, {job.lines[-1]!r}",
               code == 130 and job.lines[-1] == f"{message}\r\n")
    return job


# ---- Commands -----------------------------------------------------------------------------------

def write_files(ole, work):
    """A model, images that it takes long for, features and pairs."""
    for name, count in (("few", 20), ("many", 12000)):
        pixels = bytes((i * 7 + i // 3072) % 256 for i in range(3072)) * count
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, 3, 32, 32), }}"
        (work / f"{name}.npy").write_bytes(npyfile.frame(header, pixels))
        (work / f"{name}-y.npy").write_bytes(npyfile.array("<i8", (count,), [i % 2 for i in
                                                                            range(count)]))
    (work / "S.npy").write_bytes(npyfile.array("<f4", (2, 2), [1, 0, 0, 1]))
    (work / "S-y.npy").write_bytes(npyfile.array("<i8", (2,), [0, 1]))
    (work / "a.ppm").write_bytes(b"P6 32 32 255\n" + bytes(3072))
    made = ole.run("train", "npy:few.npy,few-y.npy", "--net", NET, "--epochs", "1", "--threads",
                   "1", "--val-split", "20%", "--out", "m", "--no-report")
    check_that(f"a model: {made.stderr}", made.returncode == 0)


def check_samples(ole, work):
    """eval, features and novelty: part, bar, images a second and the time left."""
    def line(part):
        return rf"{part} +{BAR}  \d+ samples/s, \d[\d a-z]* left"
    many = "npy:many.npy,many-y.npy --threads 1"
    job = check_stopped(ole, f"eval m {many} --test-share 80%", line("test samples"),
                        "ole eval: interrupted; there is no result", SLOW)
    check_that("eval: no data", job.out == "")
    check_stopped(ole, f"features m {many} --split train --out F.npy L.npy",
                  line("training samples"), "ole features: interrupted; nothing was written", SLOW)
    check_that("features: no file", not list(work.glob("[FL].npy*")))
    model = (work / "m/best.safetensors").read_bytes()
    check_stopped(ole, "novelty m --known npy:few.npy,few-y.npy --val-split 20% --novel "
                  f"{many} --scores s.csv", line("novel samples"),
                  "ole novelty: interrupted; the model file is unchanged", SLOW)
    check_that("novelty: as it was", (work / "m/best.safetensors").read_bytes() == model and
               not (work / "s.csv").exists())


def check_images(ole, work):
    """predict: what is printed until then is whole."""
    with open(work / "out.json", "w") as out:
        check_stopped(ole, "predict m --json --threads 1 " + "a.ppm " * 4000,
                      rf"files +{BAR}  \d+ samples/s, \d[\d a-z]* left",
                      "ole predict: interrupted; the remaining files were skipped", stdout=out)
    text = (work / "out.json").read_text()
    check_that("predict: whole", text.endswith("]\n") and 0 < text.count('"image"') < 4000)


def check_bench(ole):
    check_stopped(ole, f"bench --net {NET} --input 3x32x32 --batch-size 8 --threads 1 --seconds 600",
                  rf"steps +{BAR}  \d+ samples/s, \d[\d a-z]* left",
                  "ole bench: interrupted; there is no result")


def check_fit(ole, work):
    """fit: part and step; no model."""
    rows = (hash_of(i) / 500 - 1 for i in range(3000 * 128))
    (work / "E.npy").write_bytes(npyfile.array("<f4", (3000, 128), list(rows)))
    (work / "E.txt").write_text("".join(f"{i % 60}\n" for i in range(3000)))
    check_stopped(ole, "fit E.npy E.txt --out e.safetensors --tolerance 0 --threads 1",
                  r"trial \d+, fold \d of \d, step \d+ of at most 200", "ole fit: interrupted; no model was written")
    check_that("fit: no file", not list(work.glob("e.safetensors*")))


def hash_of(i):
    """0 to 999, without order."""
    return (i * 2654435761 % 2**32 >> 7) % 1000


def write_numbers(path, descr, shape):
    """An array whose rows differ."""
    numbers = array.array(descr[-1].replace("4", "f").replace("8", "d"),
                          (i * i % 997 - 498 for i in range(10007))).tobytes()
    size = shape[0] * shape[1] * int(descr[-1])
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    path.write_bytes(npyfile.frame(header, (numbers * (size // len(numbers) + 1))[:size]))


def check_shares(ole, work):
    """Comparisons of known number: a bar and the time left; Ctrl-C ends them at once."""
    write_numbers(work / "V.npy", "<f4", (2, 8192))
    (work / "pairs.txt").write_text("0 1 1\n0 1 0\n" * 200000)
    write_numbers(work / "O.npy", "<f4", (16000, 512))
    (work / "O-y.npy").write_bytes(npyfile.array("<i8", (16000,), [i % 2000 for i in range(16000)]))
    for command, part in (("verify V.npy --pairs pairs.txt", "comparing pairs"),
                          ("score O.npy O-y.npy --threads 1", "overlaps")):
        job = Watched(ole, command)
        check_that(f"{command}: {job.lines}", job.wait_for(rf"{part} +{BAR}  \d[\d a-z]* left"))
        check_that(f"{command}: stopped", job.end(signal.SIGINT) == -signal.SIGINT and not job.out)


def check_waiting(ole, work):
    """Work that tells nothing: what it is and since when; Ctrl-C ends it at once."""
    write_numbers(work / "W.npy", "<f8", (3000, 3000))
    (work / "W-y.npy").write_bytes(npyfile.array("<i8", (3000,), [0] * 3000))
    job = Watched(ole, "score W.npy W-y.npy --threads 1", environment=SLOW)
    check_that(f"score: {job.lines}", job.wait_for(r"loss +2 s") and
               sum("loss" in line for line in job.lines) == 2)
    check_that("score: stopped", job.end(signal.SIGINT) == -signal.SIGINT and not job.out)


def check_quality(ole, work):
    """Both parts of --quality are whole: Ctrl-C in the first is heard before the second."""
    check_stopped(ole, "tsne O.npy --iterations 0 --quality --threads 1 --out q.npy",
                  r"quality +\d+ s", "ole tsne: interrupted; no map was written")
    check_that("no map", not (work / "q.npy").exists())


def write_large_picture(path, side):
    """A PNG, all black, that takes long to read and is small."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = zlib.compress(bytes(side * (1 + 3 * side)))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0,
                                                                       0, 0)) +
                     chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def check_training(ole, work):
    """Before the first step, too, which may be a while after the messages."""
    for name in ("black", "dark"):
        (work / "photos" / name).mkdir(parents=True)
    write_large_picture(work / "large.png", 4000)
    for i in range(60):
        os.link(work / "large.png", work / "photos" / ("black", "dark")[i % 2] / f"{i}.png")
    for command in ("train", "sweep --samples 5 --lambdas 0"):
        job = Watched(ole, f"{command} folder:photos --epochs 1 --threads 1 --out t-{command[0]}")
        check_that(f"ole {command}: {job.lines}", job.wait_for(r"preparing +2 s"))
        job.end(signal.SIGKILL)
        check_that(f"ole {command}: messages first", re.match(r"(ole \w+: .*\r\n)+", job.text) and
                   "net: " in job.text)


def check_page_told(ole):
    """Where the first epoch takes long, the page is told of before it is over, and is there."""
    job = Watched(ole, "train digits --net C256-C256-C256-C256-MP-FC16 --epochs 9 --threads 1 --out slow", environment=SLOW)
    told = "ole train: slow/report.html shows the curves from the first epoch on, and refreshes itself"
    found = job.wait_for(f"(?s).*{re.escape(told)}.*", 30)
    there = (ole.work / "slow/report.html").exists()
    job.end(signal.SIGINT)
    check_that(f"the page is told of early: {job.text}", found and there and "epoch 1/9  softmax" not in job.text)


def check_width(ole):
    """A line keeps within the terminal's columns, also after a resize: whole fields, as many as fit."""
    study = "tune npy:many.npy,many-y.npy --net C4-MP-FC4 --epochs 100000 --threads 1 --out "
    head = r"run 1/\d+  [\d?][\d a-z]* left"
    fields = rf"{head}(  lambda-0/seed-0(  epoch 1/100000 {BAR}(  \d+ samples/s)?)?)?"
    for columns, environment, width in ((80, {}, 80), (40, {"COLUMNS": "120"}, 40), (0, {}, 80),
                                        (0, {"COLUMNS": "30"}, 30), (0, {"COLUMNS": "120"}, 120)):
        job = Watched(ole, f"{study}w-{columns}-{width}", columns, environment)
        least = {30: head, 40: head, 80: rf"{head}  lambda-0/seed-0.*", 120: fields.replace(")?", ")")}[width]
        check_that(f"{columns} columns, {environment}: {job.lines[-3:]}", job.wait_for(least))
        drawn = job.lines[1:-1]
        while drawn and re.fullmatch(r"preparing +\d+ s", drawn[0]):  # where that takes a second
            drawn.pop(0)
        check_that(f"{columns} columns: {job.lines[:5]}", max(map(len, job.lines[1:])) < width and
                   all(re.fullmatch(fields, line) for line in drawn))
        if columns == 80:
            job.resize(60)
            check_that(f"resized: {job.lines[-1]!r}", job.wait_for(rf"{head}  lambda-0/seed-0"))
        job.end(signal.SIGKILL)


def check_quiet(ole, work):
    """Nothing in a pipe, however long; nothing on a terminal where it is done within a second."""
    process = subprocess.Popen([ole.path, "eval", "m", "npy:many.npy,many-y.npy", "--test-share", "20%",
                                "--threads", "1"], cwd=work, env=ole.environment, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    check_that(f"a pipe: {err}", process.returncode == 130 and not out and
               err == "ole eval: interrupted; there is no result\n")
    short = Watched(ole, "score S.npy S-y.npy")
    check_that(f"a short one: {short.text!r}", short.end() == 0 and short.text == "" and
               short.out.startswith("loss"))


def check_all(ole, work):
    write_files(ole, work)
    check_samples(ole, work)
    check_images(ole, work)
    check_bench(ole)
    check_fit(ole, work)
    check_shares(ole, work)
    check_quality(ole, work)
    check_waiting(ole, work)
    check_training(ole, work)
    check_page_told(ole)
    check_width(ole)
    check_quiet(ole, work)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
