#!/usr/bin/env python3
"""freeze.py BUILD [--check] - keeps what a soname promises: which functions the libraries in the folder BUILD export.

Writes, for the version in include/ole/base.h and its soname (0.2):
  debian/libole0.2.symbols, debian/liboletrain0.2.symbols    for dpkg-gensymbols, with the version each function came in
  tests/frozen/0.2/libole-symbols.txt and liboletrain-...    for tests/check_symbols.sh
  tests/frozen/0.2/include                                   the headers that tests/consumer/old_program.c needs
Headers are copied only until the version of the soname is released: afterwards they must stay as they were.

--check writes nothing and exits with 1 if something differs, or if a function of a released version with the same
soname (a git tag such as v0.2.0) is gone.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def read(path):
    path = ROOT / path
    return path.read_text("utf-8") if path.exists() else None


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout


def version():
    return ".".join(re.findall(r"^#define OLE_VERSION_\w+ (\d+)", read("include/ole/base.h"), re.M))


def soname():
    return re.search(r"set\(ole_soversion (.*)\)", read("CMakeLists.txt"))[1]


def exported(library):
    """The public functions: what is versioned OLE_<soname>."""
    found = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return sorted(re.findall(rf"(\S+)@@OLE_{re.escape(soname())}$", found, re.M))


def debian_symbols(name, functions):
    """Functions that the file has keep the version they came in. The private ones are for our own packages of exactly
    this version, which depend on it."""
    text = read(f"debian/{name}{soname()}.symbols") or ""
    since = dict(re.findall(r"^ (\S+)@OLE_\S+ (\S+)$", text, re.M))
    lines = [f"{name}.so.{soname()} {name}{soname()} #MINVER#", "* Build-Depends-Package: libole-dev",
             f" (symver|optional)OLE_PRIVATE_{version()} {version()}"]
    lines += [f" {f}@OLE_{soname()} {since.get(f, version())}" for f in sorted([f"OLE_{soname()}", *functions])]
    return "\n".join(lines) + "\n"


def frozen_files(build):
    """Every path with its text."""
    files = {}
    for name in ("libole", "liboletrain"):
        functions = exported(build / f"{name}.so")
        files[f"debian/{name}{soname()}.symbols"] = debian_symbols(name, functions)
        files[f"tests/frozen/{soname()}/{name}-symbols.txt"] = "\n".join(functions) + "\n"
    if not released():
        folder = f"tests/frozen/{soname()}/include"
        for path in sorted((ROOT / folder).rglob("*.h")):
            name = path.relative_to(ROOT / folder)
            files[f"{folder}/{name}"] = read(f"include/{name}")
    return files


def released():
    return [tag for tag in git("tag", "--list", f"v{soname()}.*").split() if tag != f"v{version()}"]


def lost(build):
    """Functions that a released version had and this build lacks."""
    for name in ("libole", "liboletrain"):
        have = set(exported(build / f"{name}.so"))
        for tag in released():
            before = git("show", f"{tag}:tests/frozen/{soname()}/{name}-symbols.txt").split()
            for function in sorted(set(before) - have):
                yield f"{name}.so.{soname()} has lost {function}() of {tag}: a new soname is due"


def main():
    words = [w for w in sys.argv[1:] if w != "--check"]
    if len(words) != 1:
        sys.exit(__doc__)
    build = Path(words[0])
    wrong = list(lost(build))
    for path, text in frozen_files(build).items():
        if read(path) == text:
            continue
        if "--check" in sys.argv:
            wrong.append(f"{path} is not what the build exports: run './dev freeze'")
            continue
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, "utf-8")
        print(f"wrote {path}")
    sys.exit("\n".join(wrong) or 0)


main()
