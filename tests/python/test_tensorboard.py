"""ole.tensorboard: what it writes is what TensorBoard's own reader (build/venv has it) and a few lines of ours read."""
import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support

sys.path.insert(0, str(support.PACKAGE))
EPOCHS = [{"event": "epoch", "epoch": 1, "lr": 0.1, "softmax_loss": 1.5, "ole_loss": 0.5, "train_error": 40.0,
           "test_error": 30.25, "validation_error": None, "images_per_s": 1000, "seconds": 2.0},
          {"event": "epoch", "epoch": 300, "lr": 0.01, "softmax_loss": 0.5, "ole_loss": 0.25, "train_error": 4.0,
           "test_error": 3.5, "validation_error": None, "images_per_s": 1000, "seconds": 3.0}]


def write_run(folder, lines=EPOCHS, rest=""):
    folder.mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text + json.dumps({"event": "end", "test_error": 3.5}) + "\n" + rest)


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "ole.tensorboard", *map(str, arguments)], text=True,
                          capture_output=True, cwd=support.PACKAGE)


class Tensorboard(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def test_checksum(self):
        from ole import tensorboard
        crc = 0xE3069283  # CRC-32C of "123456789", as its definition has it
        masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        self.assertEqual(tensorboard._checksum(b"123456789"), struct.pack("<I", masked))

    def test_one_run(self):
        write_run(self.folder / "first", rest='{"event": "ep')
        done = run(self.folder / "first", self.folder / "logs")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"{self.folder}/logs/first: 2 epochs\n")
        before = (self.folder / "logs/first/events.out.tfevents.0.ole").read_bytes()
        self.assertEqual(run(self.folder / "first", self.folder / "logs").returncode, 0)
        files = [path.name for path in (self.folder / "logs/first").iterdir()]
        self.assertEqual(files, ["events.out.tfevents.0.ole"])
        self.assertEqual((self.folder / "logs/first" / files[0]).read_bytes(), before)

    def test_readable(self):
        """Tags, steps, values and times by TensorBoard's reader, which checks the checksums."""
        try:
            from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
            from tensorboard.compat.proto.event_pb2 import Event
        except ImportError as error:
            self.skipTest(f"TensorBoard is not installed: {error}")
        for seed in (0, 1):
            write_run(self.folder / f"study/seed-{seed}")
        self.assertEqual(run(self.folder / "study", self.folder / "logs").returncode, 0)
        for seed in (0, 1):
            path = self.folder / f"logs/seed-{seed}/events.out.tfevents.0.ole"
            events = [Event.FromString(raw) for raw in RawEventFileLoader(str(path)).Load()]
            self.assertEqual(events[0].file_version, "brain.Event:2")
            self.assertEqual([event.step for event in events[1:]], [1, 300])
            self.assertAlmostEqual(events[2].wall_time - events[1].wall_time, 3.0, places=3)
            scalars = {value.tag: value.simple_value for value in events[2].summary.value}
            self.assertEqual(scalars, {"error/train": 4.0, "error/test": 3.5, "loss/softmax": 0.5, "loss/OLE": 0.25,
                                       "learning rate": struct.unpack("<f", struct.pack("<f", 0.01))[0],
                                       "speed/images per second": 1000.0})

    def test_mistakes(self):
        (self.folder / "empty").mkdir()
        done = run(self.folder / "empty", self.folder / "logs")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("empty: no metrics.jsonl in it; give a folder of 'ole train'", done.stderr)
        write_run(self.folder / "broken", rest="not JSON\n")
        done = run(self.folder / "broken", self.folder / "logs")
        self.assertEqual(done.returncode, 1)
        self.assertIn("broken/metrics.jsonl, line 4: not a line of a run's metrics", done.stderr)


if __name__ == "__main__":
    support.main()
