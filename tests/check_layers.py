#!/usr/bin/env python3
"""check_layers.py - includes point downwards only, and each public header stands alone.

A room of src/ includes the rooms below it, itself and the public headers; the program includes
<ole/...>, its own headers and those in SHARED; nothing but src/ itself (info.c) may look at all
rooms.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOMS = ["base", "ranks", "linalg", "loss", "device", "net", "data", "train", "analyze", "report",
         "study"]
SHARED = {"base/memory_file.h"}  # compiled into the program as well: libole does not export it
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def includes(path):
    return INCLUDE.findall(path.read_text())


def check_rooms(problems):
    for path in sorted(Path("src").glob("*/**/*.[ch]")):
        room = path.parts[1]
        if room not in ROOMS:
            problems.append(f"{path}: {room} is no room of the house")
            continue
        for kind, name in includes(path):
            if kind == "<" or name.startswith("ole/"):
                continue
            target = name.split("/")[0]
            if "/" not in name or target not in ROOMS:
                problems.append(f'{path}: write "{name}" with its room, as in "base/error.h"')
            elif ROOMS.index(target) > ROOMS.index(room):
                problems.append(f"{path}: {room} is below {target} and must not include {name}")


def check_program(problems):
    for path in sorted(Path("cli").glob("**/*.[ch]")):
        for kind, name in includes(path):
            made = Path("cli") / (name + ".in")  # by the build
            own = kind == '"' and ((Path("cli") / name).exists() or made.exists())
            public = name.startswith("ole/")
            if kind == '"' and not own and not public and name not in SHARED:
                problems.append(f"{path}: the program may not include {name}")


def check_headers(problems):
    for path in sorted(Path("include/ole").glob("*.h")):
        for kind, name in includes(path):
            if kind == '"' and not name.startswith("ole/"):
                problems.append(f"{path}: a public header may not include {name}")
        for language, standard in (("c", "c17"), ("c++", "c++11")):
            command = ["cc", "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Werror",
                       "-pedantic", "-fsyntax-only", "-Iinclude", "-"]
            run = subprocess.run(command, input=f'#include "ole/{path.name}"\n', text=True,
                                 capture_output=True)
            if run.returncode != 0:
                problems.append(f"{path}: does not compile alone as {standard}:\n{run.stderr}")


def main():
    problems = []
    check_rooms(problems)
    check_program(problems)
    check_headers(problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
