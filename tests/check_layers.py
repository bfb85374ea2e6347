#!/usr/bin/env python3
"""check_layers.py - includes point downwards only, each public header stands alone, and no type is defined twice.

A module of src/ includes itself, the modules below it and the public headers of those; libole's modules know nothing of
liboletrain. The program includes <ole/...>, its own headers and the private ones named in SHARED. Only the two files
directly in src/ (info.c, train_info.c) may ask any module.
"""
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

LIBOLE = ["base", "formats", "ranks", "linalg", "loss", "features", "tsne"]
LIBOLETRAIN = ["data", "device", "net", "model", "train", "embed", "novelty", "bench", "report", "study"]
MODULES = LIBOLE + LIBOLETRAIN
MOST_SOURCES = 26  # of one folder
OF_EACH_BACKEND = {"ole_device_context"}  # a type of which every backend has its own

# The private headers that the program may include: all functions in them are marked OLE_INTERNAL.
SHARED = {
    "base/atomic_file.h",
    "base/clock.h",
    "base/cpu.h",
    "base/error.h",
    "base/memory_file.h",
    "base/nearest_name.h",
    "base/number.h",
    "base/option.h",
    "base/quote.h",
    "base/read_file.h",
    "base/sort.h",
    "base/spread.h",
    "base/utf8.h",
    "bench/bench.h",
    "data/find_path.h",
    "data/images/image_name.h",
    "formats/input.h",
    "formats/json.h",
    "model/image_file.h",
    "model/run_folder.h",
    "model/threshold_words.h",
    "net/write_graph.h",
    "report/drawing.h",
    "report/feature_page.h",
    "report/model_page.h",
    "report/run_view.h",
    "report/text_table.h",
    "study/by_kind.h",
    "study/losses.h",
    "study/measures.h",
    "train/options/option_table.h",
    "train/options/recipe.h",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
SOURCES = ("*.c", "*.h", "*.cu", "*.cuh")


def sources(folder):
    return sorted(path for pattern in SOURCES for path in Path(folder).glob("**/" + pattern))


def includes(path):
    return INCLUDE.findall(path.read_text())


def check_modules(problems):
    for path in sources("src"):
        if len(path.parts) == 2:
            continue
        module = path.parts[1]
        if module not in MODULES:
            problems.append(f"{path}: {module} is not a module; add it to MODULES in check_layers.py")
            continue
        for kind, name in includes(path):
            if name.startswith("ole/train/") and module in LIBOLE:
                problems.append(f"{path}: {module} is part of libole and must not include {name}")
            if kind == "<" or name.startswith("ole/"):
                continue
            target = name.split("/")[0]
            if "/" not in name or target not in MODULES:
                problems.append(f'{path}: write "{name}" with its module, as in "base/error.h"')
            elif MODULES.index(target) > MODULES.index(module):
                problems.append(f"{path}: {module} is below {target} and must not include {name}")


def check_folders(problems):
    paths = {path.with_suffix("") for path in sources("src") + sources("cli")}
    for folder, count in sorted(Counter(path.parent for path in paths).items()):
        if count > MOST_SOURCES:
            problems.append(f"{folder}: {count} sources; split the folder by subject")


def check_types(problems):
    """A name is one struct, union or enum, in whichever file it is defined."""
    where = {}
    for path in sources("src") + sources("include"):
        for name in re.findall(r"^(?:typedef )?(?:struct|union|enum) (ole_\w+) \{", path.read_text(), re.MULTILINE):
            other = where.setdefault(name, path)
            if other != path and name not in OF_EACH_BACKEND:
                problems.append(f"{path}: {name} is also defined in {other}")


def check_program(problems):
    unused = set(SHARED)
    for path in sources("cli"):
        for kind, name in includes(path):
            made = [parent / (name + ".in") for parent in (path.parent, Path("cli"))]  # by the build
            own = (Path("cli") / name).exists() or any(file.exists() for file in made)
            if kind == '"' and not own and not name.startswith("ole/") and name not in SHARED:
                problems.append(f"{path}: the program may not include {name}")
            unused.discard(name)
    problems += [f"tests/check_layers.py: the program includes no {name}; remove it from SHARED" for name in unused]


def check_headers(problems):
    for path in sorted(Path("include/ole").glob("**/*.h")):
        for kind, name in includes(path):
            if kind == '"' and not name.startswith("ole/"):
                problems.append(f"{path}: a public header may not include {name}")
            if name.startswith("ole/train/") and path.parent.name != "train":
                problems.append(f"{path}: a header of libole may not include {name}")
        for language, standard in (("c", "c17"), ("c++", "c++11")):
            command = ["cc", "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Werror",
                       "-pedantic", "-fsyntax-only", "-Iinclude", "-"]
            header = path.relative_to("include")
            run = subprocess.run(command, input=f'#include "{header}"\n', text=True, capture_output=True)
            if run.returncode != 0:
                problems.append(f"{path}: does not compile alone as {standard}:\n{run.stderr}")


def check_streams(problems):
    """Random numbers of different purposes come from different streams (base/philox.h)."""
    streams = {}
    for path in sorted(Path("src").glob("**/*.[ch]")):
        for name, number in re.findall(r"\b(OLE_RANDOM_\w+) = (\d+)", path.read_text()):
            other = streams.setdefault(int(number), name)
            if other != name:
                problems.append(f"{path}: {name} draws from stream {number} of {other}")


def main():
    problems = []
    check_modules(problems)
    check_folders(problems)
    check_types(problems)
    check_program(problems)
    check_headers(problems)
    check_streams(problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
