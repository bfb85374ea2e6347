"""The build backend: scikit-build-core's, with a line of progress on the terminal and a question about the GPU.

pip hides what a build prints, unless called with -v, and this one takes about a minute, or many with the GPU module.
So both go to /dev/tty; without a terminal nothing is asked, and a GPU module is built where there is a GPU.
"""
from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Iterator, TextIO

from scikit_build_core import build as _backend
from scikit_build_core.build import *  # noqa: F403 - the other hooks

_DRIVERS = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg", "/dev/nvhost-ctrl-gpu")
_PATIENCE = 30  # seconds to wait for an answer


def _open() -> TextIO | None:
    try:
        return os.fdopen(os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY), "w")
    except OSError:
        return None


def _has_gpu() -> bool:
    nvcc = shutil.which("nvcc") or os.environ.get("CUDACXX") or os.path.exists("/usr/local/cuda/bin/nvcc")
    return bool(nvcc) and any(map(os.path.exists, _DRIVERS))


def _wants_gpu() -> bool:
    """Asks; yes is the answer of those who do not answer."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return True
    try:
        question = "\nole: compile the GPU module too? It takes several minutes [Y/n] "
        os.write(terminal, question.encode())
        ready, _, _ = select.select([terminal], [], [], _PATIENCE)
        answer = os.read(terminal, 100).decode(errors="replace") if ready else ""
        if not ready:
            os.write(terminal, b"\nole: no answer: it is compiled\n")
    finally:
        os.close(terminal)
    return not answer.strip().lower().startswith("n")


def _watch(folder: Path, ended: threading.Event, terminal: TextIO) -> None:
    """Counts object files against the compiler's calls, twice per second."""
    shown = ""
    while not ended.wait(0.5):
        try:
            total = len(json.loads((folder / "compile_commands.json").read_text()))
        except (OSError, ValueError):
            continue
        line = f"ole: compiled {sum(1 for _ in folder.rglob('*.o'))} of {total} files"
        if line != shown:
            shown = line
            terminal.write(f"\r{line}")
            terminal.flush()
    if shown:
        terminal.write("\r\033[K")
    terminal.flush()


@contextlib.contextmanager
def _progress(folder: Path) -> Iterator[None]:
    terminal = None if sys.stdout.isatty() else _open()  # with `pip -v` the build prints by itself
    if terminal is None:
        yield
        return
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(folder, ended, terminal))
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        terminal.close()


def build_wheel(  # type: ignore[no-redef]
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """scikit-build-core's, in a folder that can be watched."""
    settings = dict(config_settings or {})
    given = " ".join([os.environ.get("CMAKE_ARGS", ""), *settings])
    if "OLE_CUDA" not in given and settings.get("wheel.cmake") != "false" and _has_gpu():
        settings["cmake.define.OLE_CUDA"] = "ON" if _wants_gpu() else "OFF"
    with tempfile.TemporaryDirectory(prefix="ole-build-") as folder:
        settings.setdefault("build-dir", folder)
        with _progress(Path(settings["build-dir"])):
            return _backend.build_wheel(wheel_directory, settings, metadata_directory)
