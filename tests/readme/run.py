#!/usr/bin/env python3
"""run.py BUILD - runs the examples of README.md as printed, against BUILD installed in a fresh prefix.

A block marked `sh` is run by a shell; a block marked `text` right after it is what it must print,
where a line `...` stands for any lines, and in `text roughly` each number for any number; a block
marked `c` or `python` is written to the file that its first line names, for the shell blocks after it.
The reader's photos are small generated images.  The Python package is that of bindings/python with the
installed library; where the system's Python has no torch, blocks that run python3 are skipped with a
message.  The only other line that is skipped is `./dev test`, which runs this test.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^```(\w+(?: roughly)?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = {"c": re.compile(r"/\* (\w+\.c)\b"), "python": re.compile(r"# (\w+\.py)\b")}
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")


def script(path, program):
    """Makes `path` run the program."""
    path.write_text(f'#!/bin/sh\nexec "{program}" "$@"\n')
    path.chmod(0o755)


def write_image(path, red, blue, seed):
    """A PNG of 16x16 pixels in a colour, with a pattern; readers go by its content, whatever it is called."""
    rows = (bytes(value for x in range(16) for value in (red, (seed * 31 + x * y) % 97, blue)) for y in range(16))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b""))


def make_photos(work):
    """The reader's photos: two classes that any network tells apart."""
    for name, red, blue in ("cat", 200, 40), ("dog", 40, 200):
        (work / "photos" / name).mkdir(parents=True)
        for i in range(10):
            write_image(work / "photos" / name / f"{i}.jpg", red, blue, i)
    write_image(work / "cat.jpg", 200, 40, 10)


def furnish(work, build):
    """Makes `work` look like the checkout, with photos and the package installed; returns the environment."""
    make_photos(work)
    for entry in ROOT.iterdir():
        if entry.name not in ("dev", "build") and not entry.name.startswith("."):
            (work / entry.name).symlink_to(entry)
    (work / "build").symlink_to(build)
    script(work / "dev", ROOT / "dev")
    prefix = work / "prefix"
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True,
                   stdout=subprocess.DEVNULL)
    script(prefix / "bin" / "python3", PYTHON)
    return dict(os.environ, NO_COLOR="1",
                PATH=f"{prefix}/bin:{os.environ['PATH']}",
                PYTHONPATH=str(ROOT / "bindings" / "python"),
                OLE_LIBRARY=str(prefix / "lib" / "libole.so.0.2"),
                PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"),
                LD_LIBRARY_PATH=str(prefix / "lib"))


def run_shell(script, work, environment):
    script = "".join(line for line in script.splitlines(True) if not line.startswith("./dev test"))
    run = subprocess.run(["sh", "-eu", "-c", script], cwd=work, env=environment, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if run.returncode != 0:
        sys.exit(f"exit status {run.returncode} from\n{script}\n{run.stdout}{run.stderr}")
    return run.stdout


def blur(text):
    """The text with every number, and the room it takes, made alike."""
    return "\n".join(" ".join(NUMBER.sub("0", line).split()) for line in text.split("\n"))


def compare(expected, got, script, roughly):
    if roughly:
        expected, got = blur(expected), blur(got)
    pattern = "\n".join(".*" if line.strip() == "..." else re.escape(line.rstrip())
                        for line in expected.rstrip("\n").split("\n"))
    lines = "\n".join(line.rstrip() for line in got.rstrip("\n").split("\n"))
    if not re.fullmatch(pattern, lines, re.DOTALL):
        sys.exit(f"README shows\n{expected}\nbut\n{script}\nprints\n{got}")


def main():
    build = sys.argv[1]
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        environment = furnish(work, build)
        source = output = None
        have_torch = subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0
        for language, text in blocks:
            if language == "sh" and text.startswith("python3 ") and not have_torch:
                print(f"skipped, {PYTHON} has no torch: {text}", end="")
                source = output = None
            elif language == "sh":
                source, output = text, run_shell(text, work, environment)
            elif language.startswith("text") and output is not None:
                compare(text, output, source, language.endswith("roughly"))
            elif language.startswith("text"):
                continue
            elif language in FILE_NAME:
                name = FILE_NAME[language].match(text)
                if not name:
                    sys.exit(f"the first line does not name the file:\n{text}")
                (work / name[1]).write_text(text)
            else:
                sys.exit(f"cannot run a block marked {language}:\n{text}")
    print(f"{len(blocks)} blocks of README.md are right")


main()
