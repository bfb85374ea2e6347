#!/usr/bin/env python3
"""check_tidy.py BUILD - clang-tidy finds nothing in the C sources of src/ and cli/.

BUILD is a build folder of the preset `clang`, whose compile commands clang-tidy understands. Versions of clang-tidy
differ in what they find, so only the one the project is kept clean with counts; others skip (77). .clang-tidy lists
the checks and the reasons.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

VERSION = "14"


def skip(reason):
    print(reason)
    sys.exit(77)


def check(folder, source):
    """What clang-tidy prints about one source, empty if it is clean."""
    run = subprocess.run(["clang-tidy", "--quiet", "--warnings-as-errors=*", "-p", folder, source],
                         text=True, capture_output=True)
    return run.stdout + run.stderr if run.returncode != 0 else ""


def main():
    build = Path(sys.argv[1])
    if not shutil.which("clang-tidy"):
        skip("clang-tidy is not installed")
    version = subprocess.run(["clang-tidy", "--version"], text=True, capture_output=True).stdout
    version = re.search(r"version (\d+)", version)[1]
    if version != VERSION:
        skip(f"clang-tidy {VERSION} is what counts, here is {version}")
    if not (build / "compile_commands.json").exists():
        skip(f"{build} has no compile_commands.json: build the preset clang first")
    commands = {}  # one per source: variants for instruction sets and tests are the same text
    for command in json.loads((build / "compile_commands.json").read_text()):
        commands.setdefault(os.path.relpath(command["file"]), command)
    sources = sorted(source for source in commands if source.startswith(("src/", "cli/")))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        (Path(folder) / "compile_commands.json").write_text(json.dumps([commands[source] for source in sources]))
        found = [text for text in pool.map(lambda source: check(folder, source), sources) if text]
    print("\n".join(found), end="")
    print(f"{len(sources)} sources, {len(found)} of them with findings")
    return 1 if found else 0


sys.exit(main())
