#!/usr/bin/env python3
"""check_docs.py - the files and functions that documents for developers name exist, and docs/c.md has all headers.

Checks every path in backticks in docs/design.md, CONTRIBUTING.md and the READMEs of module folders, where a bare file
name is one inside the folder. In "From the command to the kernel", a function, `name()`, must be in the file named last.
Words in capitals stand for any name.
"""
import re
import sys
from pathlib import Path

TICKED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w+.-]*[\w/+*-]+(?:\.(?:c|h|cu|cuh|py|sh|md|yaml|cmake|txt)|/)")


def documents():
    yield Path("docs/design.md")
    yield Path("CONTRIBUTING.md")
    for pattern in ("src/**/README.md", "cli/README.md", "tests/README.md", "recipes/README.md", "bench/README.md",
                    "fuzz/README.md"):
        yield from sorted(Path(".").glob(pattern))


def exists(path, folder):
    if path.startswith("build") or re.search(r"[A-Z]{3,}", path.removesuffix("README.md").removesuffix(".txt")):
        return True
    if "/" not in path and folder not in (Path("."), Path("docs")):
        return any(folder.glob("**/" + path))
    return any(any(place.glob(path.rstrip("/"))) for place in (Path("."), folder, Path("include"), Path("src")))


def check_paths(document, problems):
    for word in TICKED.findall(document.read_text()):
        if PATH.fullmatch(word) and not exists(word, document.parent):
            problems.append(f"{document}: there is no {word}")


def check_trace(problems):
    text = Path("docs/design.md").read_text()
    section = text.split("## From the command to the kernel", 1)[1].split("\n## ", 1)[0]
    source = None
    for word in TICKED.findall(section):
        if PATH.fullmatch(word):
            source = Path(word)
        elif word.endswith("()") and source and source.exists():
            if not re.search(rf"\b{re.escape(word[:-2])}\(", source.read_text()):
                problems.append(f"docs/design.md: there is no {word} in {source}")


def check_headers(problems):
    """The tables of docs/c.md: all public headers and no others."""
    named = set(re.findall(r"`(ole/[\w/]+\.h)`", Path("docs/c.md").read_text()))
    public = {str(path.relative_to("include")) for path in Path("include").glob("**/*.h")}
    problems += [f"docs/c.md: {name} is {'no public header' if name in named else 'missing'}" for name in named ^ public]


def main():
    problems = []
    for document in documents():
        check_paths(document, problems)
    check_trace(problems)
    check_headers(problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
