#!/usr/bin/env python3
"""coverage.py BUILD [FILE...] - the lines of each module that ran since the counters of BUILD were removed, by gcov.

Prints a table of modules; of each FILE, such as src/base/option.c, the lines that did not run. A line counts once, even
if it is compiled for several instruction sets, and as run if it did in any of them. The GPU's code is not counted, nor what a
process ran that was killed.
"""
import datetime
import json
import os
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 40  # objects per call of gcov
SPLIT = ("src/device", "src/loss")  # modules of parts that are told apart
GPU = ("/cuda/", "src/train/recorded/")


def read_counts(build, notes):
    """{file: {line: times}} of some objects."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", *map(str, notes)], cwd=build, capture_output=True,
                          text=True, check=True)
    counts = defaultdict(dict)
    for text in done.stdout.splitlines():
        if not text.startswith("{"):
            continue
        for file in json.loads(text)["files"]:
            path = os.path.relpath(os.path.join(build, file["file"]), ROOT)
            for line in file["lines"]:
                number = line["line_number"]
                counts[path][number] = max(counts[path].get(number, 0), line["count"])
    return counts


def module_of(path):
    parts = path.split("/")
    depth = 3 if "/".join(parts[:2]) in SPLIT and len(parts) > 3 else 2
    return parts[0] if parts[0] != "src" else "/".join(parts[:min(depth, len(parts) - 1)])


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = Path(sys.argv[1]).resolve()
    notes = [note for part in ("src", "cli", "bindings") for note in sorted((build / part).rglob("*.gcno"))]
    notes += sorted((build / "tests").rglob("bindings/**/*.gcno"))  # what only a test compiles
    if not notes:
        sys.exit(f"{build}: no counters; ./dev coverage makes them")
    lines = defaultdict(dict)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        batches = [notes[i:i + AT_ONCE] for i in range(0, len(notes), AT_ONCE)]
        for counts in pool.map(lambda batch: read_counts(build, batch), batches):
            for path, file in counts.items():
                if path.startswith(("src/", "cli/", "bindings/")) and not any(part in path for part in GPU):
                    for number, times in file.items():
                        lines[path][number] = max(lines[path].get(number, 0), times)
    for path in sys.argv[2:]:
        missed = sorted(number for number, times in lines[path].items() if not times)
        print(f"{path}: {len(missed)} of {len(lines[path])} lines: {' '.join(map(str, missed))}")
    if len(sys.argv) > 2:
        return
    modules = defaultdict(lambda: [0, 0])
    for path, file in lines.items():
        modules[module_of(path)][0] += sum(times > 0 for times in file.values())
        modules[module_of(path)][1] += len(file)
    table = [*sorted(modules.items()), ("all", [sum(row[i] for row in modules.values()) for i in (0, 1)])]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True,
                            check=False).stdout.strip()
    print(f"{datetime.date.today()}, {commit or 'no commit'}\n\n| module | lines | run |\n|---|---:|---:|")
    for module, (ran, all_lines) in table:
        print(f"| {f'`{module}/`' if module != 'all' else module} | {all_lines:,} | {100 * ran / all_lines:.1f} % |")
    worst = sorted(lines, key=lambda path: -sum(not times for times in lines[path].values()))[:20]
    print("\nmost lines that did not run:")
    for path in worst:
        missed = sum(not times for times in lines[path].values())
        print(f"  {path}: {missed} of {len(lines[path])}")


if __name__ == "__main__":
    main()
