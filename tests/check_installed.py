#!/usr/bin/env python3
"""check_installed.py BUILD - what is installed of a build is made by its target ole_installed: `./dev install` makes no more."""
import re
import subprocess
import sys
from pathlib import Path

build = Path(sys.argv[1]).resolve()
if not (build / "build.ninja").exists():
    sys.exit(77)
needed = subprocess.run(["ninja", "-C", build, "-t", "inputs", "ole_installed"], text=True, stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL)
if needed.returncode != 0:
    print("this Ninja is too old to say what a target needs (1.11 can)")
    sys.exit(77)
made = {line.strip() for line in needed.stdout.splitlines()} | {"ole"}
installed = re.findall(rf'"{re.escape(str(build))}/([^"/]+)"', (build / "cmake_install.cmake").read_text())
products = {name for name in installed if name == "ole" or ".so" in name}
versions = {name for name in products if re.search(r"[.]so[.]\d+[.]\d+$", name)} | {"libole.so"}  # links to one file
if "ole" not in products or not any(name.startswith("libole.so") for name in products):
    sys.exit(f"cmake_install.cmake installs {sorted(products)}: where are the program and the library?")
missing = sorted(products - versions - made)
if missing:
    sys.exit(f"installed, but not built with the target ole_installed: {', '.join(missing)}")
