"""The structs of the package against the public headers: a C program prints size and offsets of every field.

ole_loss.h's and those of liboletrain are among them; a struct of the package names its C struct in its docstring.
"""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import ROOT, main

from ole import _library, _structs, _train_library

MODULES = [_library, _structs, _train_library]
PLAIN = {"Call"}  # structs of the package alone


def mirrors():
    """The structs of the package with the name of each in C."""
    for module in MODULES:
        for name, kind in vars(module).items():
            if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and kind.__module__ == module.__name__:
                if name not in PLAIN:
                    yield kind, kind.__doc__.split()[0]


class Structs(unittest.TestCase):
    def test_layout(self):
        compiler = os.environ.get("CC", "cc").split()
        if shutil.which(compiler[0]) is None:
            self.skipTest(f"there is no {compiler[0]}")
        headers = sorted((ROOT / "include").rglob("*.h"))
        lines = [f'#include "{header.relative_to(ROOT / "include")}"' for header in headers]
        lines += ["#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
        wanted = []
        for kind, c_name in mirrors():
            lines.append(f'printf("%zu\\n", sizeof({c_name}));')
            wanted.append((c_name, ctypes.sizeof(kind)))
            for field in kind._fields_:
                lines.append(f'printf("%zu\\n", offsetof({c_name}, {field[0]}));')
                wanted.append((f"{c_name}.{field[0]}", getattr(kind, field[0]).offset))
        self.assertGreater(len(wanted), 50)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "structs.c"
            source.write_text("\n".join([*lines, "}"]))
            program = Path(folder) / "structs"
            subprocess.run([*compiler, "-I", ROOT / "include", source, "-o", program], check=True)
            found = subprocess.run([program], check=True, text=True, capture_output=True).stdout.split()
        self.assertEqual([(name, int(number)) for (name, _), number in zip(wanted, found)], wanted)


if __name__ == "__main__":
    main()
