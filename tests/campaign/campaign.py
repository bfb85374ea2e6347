#!/usr/bin/env python3
"""campaign.py OLE [ATTEMPTS [SEED [AREA...]]] - tries to break the program OLE from outside, as a stranger would.

Per area, ATTEMPTS (20) random attempts: hostile models, archives, servers on the loopback, numbers, links, terminals and
MPI starts (areas.py). Whatever the input, the program ends by itself, with exit code 0, 1, 2 or 130 (interrupted); an
error is a plain line; no name steers the terminal; a small input costs at most 20 s of the processor and 2 GB; nothing
outside its output is touched. Prints a table of attempts and findings; each finding names the command that shows it.
"""
import hashlib
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))
import areas  # noqa: E402
import npyfile  # noqa: E402

SECONDS = 20   # of the processor
WAITING = 120  # seconds, in all
BYTES = 2 << 30
INTERRUPT = 8  # seconds after which a command that may run long is interrupted
ADDRESSES = 16 << 30  # a command that asks for more is told that there is no memory


class World:
    """What commands read, and what they must not touch."""

    def __init__(self, ole, work):
        self.ole, self.work = os.path.abspath(ole), work
        self.home = work / "home"
        self.start = work / "start"  # copied for each attempt
        self.canary = work / "canary"
        for folder in (self.home, self.start, self.canary):
            folder.mkdir()
        (self.canary / "file").write_text("alive")
        rng = random.Random(3)
        rows = [[rng.gauss(2.0 * (c == k), 0.5) for k in range(4)] for c in [i % 3 for i in range(60)]]
        flat = [x for row in rows for x in row]
        (self.start / "X.npy").write_bytes(npyfile.array("<f4", (60, 4), flat))
        (self.start / "y.npy").write_bytes(npyfile.array("<i8", (60,), [i % 3 for i in range(60)]))
        for name in "ab":
            (self.start / "photos" / name).mkdir(parents=True)
            for i in range(6):
                pixels = bytes(rng.randrange(256) for _ in range(64))
                (self.start / "photos" / name / f"{i}.pgm").write_bytes(b"P5 8 8 255\n" + pixels)
        self.made = [self.run(self.start, command) for command in (
            ["train", "npy:X.npy,y.npy", "--net", "FC4", "--epochs", "2", "--batch-size", "12", "--out", "run",
             "--val-split", "20%", "--no-report", "--threads", "1"],
            ["sweep", "digits", "--net", "FC4", "--epochs", "1", "--samples", "4", "--lambdas", "0,0.25", "--seeds", "1",
             "--out", "grid", "--threads", "1"],
            ["fit", "X.npy", "y.npy", "--lambda", "0.1", "--weight-decay", "0.01", "--score", "energy", "--out",
             "fit.safetensors", "--threads", "1"])]

    def environment(self, changes):
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LC_ALL": "C.UTF-8", "OMP_WAIT_POLICY": "passive",
               "CUDA_VISIBLE_DEVICES": ""}
        own.update({name: value for name, value in changes.items() if value is not None})
        return {name: value for name, value in own.items() if changes.get(name, value) is not None}

    def run(self, folder, words, attempt=None):
        """(exit code, stdout, stderr, seconds of the processor, bytes, what was wrong with how it ended)."""
        def limit():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
            if attempt and attempt.before:
                attempt.before()
        command = [*(attempt.launcher if attempt else ()), self.ole, *words]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, **(attempt.streams if attempt else {})}
            process = subprocess.Popen(command, cwd=folder, preexec_fn=limit, start_new_session=True,
                                       env=self.environment(attempt.environment if attempt else {}), **streams)
            timers = []
            late = []
            if attempt and attempt.long:
                timers.append(threading.Timer(INTERRUPT, lambda: os.killpg(process.pid, signal.SIGINT)))

            def give_up():
                late.append(True)
                os.killpg(process.pid, signal.SIGKILL)
            timers.append(threading.Timer(WAITING, give_up))
            for timer in timers:
                timer.start()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            for timer in timers:
                timer.cancel()
            try:  # what it has left behind
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            out.seek(0)
            err.seek(0)
            return (process.returncode, out.read(), err.read(), used.ru_utime + used.ru_stime, used.ru_maxrss * 1024,
                    late)

    def outside(self):
        """A digest of what no attempt may change."""
        digest = hashlib.sha256()
        for path in sorted(self.canary.rglob("*")):
            digest.update(str(path).encode() + (path.read_bytes() if path.is_file() else b""))
        return digest.hexdigest() + str(sorted(os.listdir(self.work)))


def judge(attempt, result):
    """What is wrong; None: nothing."""
    code, out, err, seconds, memory, late = result
    text = err.decode(errors="surrogateescape")
    lines = [line for line in text.splitlines() if line]
    if late:
        return f"it does not end within {WAITING} s"
    if code < 0 and -code not in attempt.signals:
        return f"killed by {signal.Signals(-code).name}"
    if code not in (0, 1, 2, 130) and code > 0 and not attempt.launcher:
        return f"exit code {code}"
    if "runtime error" in text or "Sanitizer" in text or "terminate called" in text:
        return "an error of the runtime"
    if attempt.launcher:  # it prints what it likes
        return None
    if any(ord(c) < 32 and c not in "\n" or c == "\x7f" or "\x80" <= c <= "\x9f" for c in text) and not attempt.terminal:
        return "control characters in the messages"
    if code in (1, 2) and not attempt.mute and (not lines or not lines[-1].startswith(("ole", "error"))):
        return "an error without a line that says why"
    if any(len(line) > 4000 + max(map(len, attempt.words), default=0) for line in lines):
        return "a line of more than 4,000 characters"
    if not attempt.long and seconds > SECONDS:
        return f"{seconds:.0f} s of the processor"
    if not attempt.long and memory > BYTES:
        return f"{memory >> 20} MB of memory"
    return None


def conduct(world, area, attempts, seed):
    """(attempts, those that succeeded, findings) of one area."""
    found, done, good = [], 0, 0
    for i in range(attempts):
        chance = random.Random(f"{seed} {area.__name__} {i}")
        folder = Path(tempfile.mkdtemp(dir=world.work, prefix="try-"))
        shutil.copytree(world.start, folder, dirs_exist_ok=True)
        attempt = area(world, folder, chance)
        if attempt is None:
            shutil.rmtree(folder)
            break
        before = world.outside()
        result = world.run(folder, attempt.words, attempt)
        attempt.close()
        problem = judge(attempt, result)
        if not problem and world.outside() != before:
            problem = "something outside has changed"
        if not problem and attempt.check:
            problem = attempt.check(result)
        done += 1
        good += result[0] == 0
        if problem:
            found.append(f"{area.__name__} {i}, {attempt.what}: {problem}: "
                         f"{' '.join(f'{k}={str(v)[:80]!r}' for k, v in attempt.environment.items())} ole {shlex.join(str(word)[:80] for word in attempt.words)[:400]}: "
                         f"{result[2].decode(errors='replace')[-300:]!r}")
        shutil.rmtree(folder, ignore_errors=True)
    return done, good, found


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    attempts = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    chosen = [area for area in areas.ALL if area.__name__ in sys.argv[4:] or not sys.argv[4:]]
    findings = []
    with tempfile.TemporaryDirectory(prefix="ole-campaign-") as name:
        world = World(sys.argv[1], Path(name))
        for made in world.made:
            if made[0] != 0:
                sys.exit(f"nothing to start from: {made[2].decode(errors='replace')}")
        print("| area | attempts | succeeded | refused | findings | seconds |\n|---|---:|---:|---:|---:|---:|")
        for area in chosen:
            start = time.monotonic()
            done, good, found = conduct(world, area, attempts, seed)
            print(f"| {area.__doc__.strip()} | {done} | {good} | {done - good} | {len(found)} | "
                  f"{time.monotonic() - start:.0f} |", flush=True)
            findings += found
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
