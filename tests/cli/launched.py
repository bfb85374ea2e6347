"""launched.py - the program as several ranks under mpirun, on this machine and over loopback."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import run

SKIPPED = 77


class Launched(run.Program):
    def __init__(self, path, work):
        super().__init__(path, work)
        # MPI keeps memory until the process ends: leaks are listed, and are no failure.
        self.environment["LSAN_OPTIONS"] = "exitcode=0:" + self.environment.get("LSAN_OPTIONS", "")
        self.environment["OMP_NUM_THREADS"] = "1"
        # No network but loopback.  In the environment, as Open MPI 5 has no second of these and refuses it as a flag.
        self.environment["OMPI_MCA_btl"] = "self,vader"
        self.environment["OMPI_MCA_oob_tcp_if_include"] = "lo"
        # Once a rank is lost, the launcher gives the others a second to end by themselves; from Open MPI 5 on a quarter
        # of one, in which not every rank of a busy machine gets to print.
        version = subprocess.run(["mpirun", "--version"], env=self.environment, text=True,
                                 stdout=subprocess.PIPE, check=False).stdout
        self.launcher_is_hasty = re.search(r"Open MPI\) ([5-9]|\d\d)", version) is not None

    def command(self, ranks, *args, program=None):
        """`ranks` is a number, or for each rank its arguments and the folder it runs in."""
        launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
        path = program or self.path
        if isinstance(ranks, int):
            return launcher + ["-n", str(ranks), path, *args]
        # By a shell in each rank: mpirun's own way, parts between colons, is a segmentation fault in Open MPI 5.0.7.
        cases = (f"{i}) cd {shlex.quote(str(folder))} && exec {shlex.join([path, *own.split()])};;"
                 for i, (own, folder) in enumerate(ranks))
        return launcher + ["-n", str(len(ranks)), "sh", "-c",
                           f"case $OMPI_COMM_WORLD_RANK in {' '.join(cases)} esac"]

    def start(self, ranks, line="", program=None, **environment):
        return subprocess.Popen(self.command(ranks, *line.split(), program=program), cwd=self.work,
                                text=True, env=dict(self.environment, **environment),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def launch(self, ranks, line="", program=None, **environment):
        """Return code, stdout, stderr."""
        process = self.start(ranks, line, program, **environment)
        try:
            out, err = process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return "still running after 100 s", out, said(err)
        return process.returncode, out, said(err)


def said(text):
    """What ranks printed: the launcher's own words, between lines of dashes, may stand in the middle of theirs, and
    theirs between two of its lines."""
    def theirs(block):
        return "".join(line for line in block[0].splitlines(keepends=True) if line.startswith("ole "))

    return re.sub(r"(?s)-{60,}\n.*?-{60,}\n", theirs, text)


def ranks_of(process, name="ole"):
    """The processes that a launcher has started, by rank."""
    ranks = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == process.pid and (folder / "comm").read_text().strip() == name:
                words = dict(word.split("=", 1) for word in
                             (folder / "environ").read_text().split("\0") if "=" in word)
                ranks[int(words["OMPI_COMM_WORLD_RANK"])] = int(folder.name)
        except (OSError, KeyError, IndexError, ValueError):
            continue  # it has ended, or is not there yet
    return ranks


def wait_for(condition, seconds=60):
    """What the condition returns once it holds, or at the end of the time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def open_mpi():
    """The major version of Open MPI's mpirun, or 0 where mpirun is another's."""
    environment = {"HOME": "/", **os.environ}  # Open MPI 5 does not start without one
    version = subprocess.run(["mpirun", "--version"], text=True, stdout=subprocess.PIPE, env=environment)
    found = re.search(r"Open MPI\)? (\d+)", version.stdout)
    return int(found[1]) if found else 0


def missing(program):
    """Why nothing can be launched here, or None."""
    if not shutil.which("mpirun"):
        return "no mpirun"
    if not open_mpi():
        return "mpirun is not Open MPI's"
    if not (Path(os.path.abspath(program)).parent / "libole_mpi.so").exists():
        return "built without MPI"
    return None


def conduct(doc, what, check_all, arguments=1):
    """run.conduct() over ranks, or a word on why `what` not tested."""
    reason = missing(sys.argv[1]) if len(sys.argv) == 1 + arguments else None
    if reason:
        print(f"{reason}: {what} not tested")
        sys.exit(SKIPPED)
    run.conduct(doc, check_all, Launched, arguments)
