#!/usr/bin/env python3
"""check_installed.py BUILD - all that is installed of a build is made by its target ole_installed, which is
what `./dev install` makes."""
import re
import subprocess
import sys
from pathlib import Path

build = Path(sys.argv[1]).resolve()
if not (build / "build.ninja").exists():
    print("skipped: not a build by Ninja")
    sys.exit(77)
commands = subprocess.run(["ninja", "-C", build, "-t", "commands", "ole_installed"], text=True, check=True,
                          stdout=subprocess.PIPE).stdout
made = set(re.findall(r" -o (\S+)", commands))
installed = re.findall(rf'"{re.escape(str(build))}/([^"/]+)"', (build / "cmake_install.cmake").read_text())
products = {name for name in installed if name == "ole" or ".so" in name}
links = {name for name in products if re.search(r"[.]so[.]\d+[.]\d+$", name)} | {"libole.so", "liboletrain.so"}  # to one file
if "ole" not in products or not any(name.startswith("libole.so") for name in products):
    sys.exit(f"cmake_install.cmake installs {sorted(products)}: where are the program and the library?")
missing = sorted(products - links - made)
if missing:
    sys.exit(f"installed, but not built with the target ole_installed: {', '.join(missing)}")
