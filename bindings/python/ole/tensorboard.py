"""The curves of training runs in TensorBoard.

    python3 -m ole.tensorboard runs/first logs     # then: tensorboard --logdir logs

writes the metrics.jsonl of a run folder, or of every run below a folder, as TensorBoard's event files into LOGDIR,
one folder per run.  Running it again replaces them.  Only Python's own library is needed: the format is a sequence of
records (length, checksum, protocol buffer, checksum), of which a few lines below write the part in use.
"""
from __future__ import annotations

import argparse
import json
import os
import struct
import sys
from pathlib import Path
from typing import Iterator, Optional

FILE = "events.out.tfevents.0.ole"
TAGS = {"train_error": "error/train", "validation_error": "error/validation", "test_error": "error/test",
        "knn1_error": "error/1-NN", "softmax_loss": "loss/softmax", "ole_loss": "loss/OLE", "loss": "loss/total",
        "lr": "learning rate", "images_per_s": "speed/images per second", "ole_share": "speed/share of OLE"}


def _checksum_table() -> list[int]:
    """CRC-32C by bytes."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CHECKSUMS = _checksum_table()


def _checksum(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CHECKSUMS[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _record(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + _checksum(length) + event + _checksum(event)


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def _text(field: int, data: bytes) -> bytes:
    """A field of bytes: a text, or another message."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _event(time: float, step: int, scalars: dict[str, float]) -> bytes:
    """Event{wall_time, step, Summary{Value{tag, simple_value}...}}"""
    values = b"".join(_text(1, _text(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
                      for tag, value in scalars.items())
    return b"\x09" + struct.pack("<d", time) + b"\x10" + _varint(step) + _text(5, values)


def _epochs(path: Path) -> Iterator[dict[str, object]]:
    """The lines of the epochs; the last line may be half-written."""
    for number, line in enumerate(path.read_text().splitlines(keepends=True), 1):
        if not line.endswith("\n"):
            return
        try:
            entry = json.loads(line)
            if entry["event"] == "epoch":
                yield {**entry, "epoch": int(entry["epoch"]), "seconds": float(entry.get("seconds") or 0)}
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path}, line {number}: not a line of a run's metrics") from None


def convert(run: Path, folder: Path) -> int:
    """Writes the event file of a run into the folder; the number of its epochs.

    >>> from pathlib import Path
    >>> from ole.tensorboard import convert
    >>> with open("metrics.jsonl", "w") as file:
    ...     print('{"event": "epoch", "epoch": 1, "train_error": 40.0}', file=file)
    >>> convert(Path("."), Path("logs"))
    1
    """
    metrics = run / "metrics.jsonl"
    epochs = list(_epochs(metrics))
    time = metrics.stat().st_mtime - sum(float(str(entry["seconds"])) for entry in epochs)
    records = [_record(b"\x09" + struct.pack("<d", time) + _text(3, b"brain.Event:2"))]
    for entry in epochs:
        time += float(str(entry["seconds"]))
        scalars = {tag: float(value) for key, tag in TAGS.items() if isinstance(value := entry.get(key), (int, float))}
        records.append(_record(_event(time, int(str(entry["epoch"])), scalars)))
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / ".unfinished"
    unfinished.write_bytes(b"".join(records))
    os.replace(unfinished, folder / FILE)
    return len(epochs)


def main(arguments: Optional[list[str]] = None) -> int:
    """The command; returns its exit status.

    >>> import os
    >>> from ole.tensorboard import main
    >>> os.makedirs("runs/first")
    >>> with open("runs/first/metrics.jsonl", "w") as file:
    ...     print('{"event": "epoch", "epoch": 1}', '{"event": "epoch", "epoch": 2}', sep=chr(10), file=file)
    >>> main(["runs", "logs"])
    logs/first: 2 epochs
    0
    """
    parser = argparse.ArgumentParser(prog="python3 -m ole.tensorboard",
                                     description="Writes the curves of training runs for TensorBoard.",
                                     epilog="Then: tensorboard --logdir LOGDIR")
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder of 'ole train', 'ole tune' or 'ole sweep'")
    parser.add_argument("logdir", type=Path, metavar="LOGDIR", help="folder for the event files")
    given = parser.parse_args(arguments)
    runs = sorted(path.parent for path in given.run.glob("**/metrics.jsonl"))
    if not runs:
        print(f"ole.tensorboard: {given.run}: no metrics.jsonl in it; give a folder of 'ole train'", file=sys.stderr)
        return 1
    try:
        for run in runs:
            name = run.relative_to(given.run)
            folder = given.logdir / (name if name.parts else Path(given.run.resolve().name))
            print(f"{folder}: {convert(run, folder)} epochs")
    except (OSError, ValueError) as error:
        print(f"ole.tensorboard: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
