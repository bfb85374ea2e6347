#!/usr/bin/env python3
"""Decoding image folders, beside Pillow and torchvision on the same cores.

    python3 bench/peer_decode.py [FOLDER] [--size 96] [--threads 1] [--rounds 5] [--bench build/bench/bench_decode]

All three decode every image of FOLDER (one subfolder per class), turn it upright, scale it with the same filter
(bilinear, antialiased) until it covers SIZE x SIZE, cut out the middle and keep it as bytes in memory. Without FOLDER
they take 96 jpegs of 1024x768 made up here. Pillow and torchvision run THREADS processes, since Python's threads share
one interpreter. The rounds alternate; the median of each is printed as images per second of wall time and per second of
CPU time. On a machine that does other work too, only the latter compares.
"""
import argparse
import concurrent.futures
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
from PIL import Image, ImageOps

ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".pgm", ".ppm")


def make_photos(folder, count=96):
    """Smooth noise of several scales, which compresses about as photos do."""
    rng = numpy.random.default_rng(1)
    for i in range(count):
        picture = numpy.zeros((768, 1024, 3))
        for step in (4, 16, 64, 256):
            noise = rng.normal(0, step ** 0.75, (768 // step + 1, 1024 // step + 1, 3))
            bytes_ = (noise * 2 + 128).clip(0, 255).astype(numpy.uint8)
            picture += numpy.asarray(Image.fromarray(bytes_).resize((1024, 768), Image.Resampling.BICUBIC), float) - 128
        path = Path(folder) / f"class{i % 2}" / f"{i:03}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray((picture + 128).clip(0, 255).astype(numpy.uint8)).save(path, quality=90)


def pillow(path, size):
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    scale = max(size / image.width, size / image.height)
    wide, high = max(round(image.width * scale), size), max(round(image.height * scale), size)
    image = image.resize((wide, high), Image.Resampling.BILINEAR)
    left, top = (wide - size) // 2, (high - size) // 2
    return numpy.asarray(image.crop((left, top, left + size, top + size)))


def torchvision(path, size):
    import torch
    import torchvision.transforms.functional as F
    from torchvision.io import ImageReadMode, read_image
    torch.set_num_threads(1)
    image = F.resize(read_image(path, ImageReadMode.RGB), size, antialias=True)
    return F.center_crop(image, [size, size]).numpy()


def decode(job):
    """(images, CPU seconds) of one share."""
    function, paths, size = job
    function(paths[0], size)  # imports and first calls are not counted
    start = time.process_time()
    kept = [function(path, size) for path in paths]
    return len(kept), time.process_time() - start


def run_python(function, paths, size, threads, pool):
    start = time.perf_counter()
    jobs = [(function, paths[i::threads], size) for i in range(threads)]
    parts = list(pool.map(decode, jobs)) if pool else [decode(jobs[0])]
    return sum(n for n, _ in parts), time.perf_counter() - start, sum(cpu for _, cpu in parts)


def run_ole(bench, folder, size, threads):
    done = subprocess.run([bench, str(folder), str(size), str(threads)], capture_output=True, text=True, check=True)
    count, wall, cpu = map(float, done.stdout.split())
    return int(count), wall, cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bench", default="build/bench/bench_decode")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        if not o.folder:
            make_photos(work)
        folder = Path(o.folder or work)
        paths = sorted(str(p) for p in folder.glob("*/*") if p.suffix.lower() in ENDINGS)
        pool = concurrent.futures.ProcessPoolExecutor(
            o.threads, mp_context=multiprocessing.get_context("spawn")) if o.threads > 1 else None
        ways = {"ole": lambda: run_ole(o.bench, folder, o.size, o.threads),
                "Pillow": lambda: run_python(pillow, paths, o.size, o.threads, pool)}
        try:
            import torchvision as module
            assert module
            ways["torchvision"] = lambda: run_python(torchvision, paths, o.size, o.threads, pool)
        except ImportError:
            print("torchvision is not installed", file=sys.stderr)
        rates = {name: [] for name in ways}
        for _ in range(o.rounds):
            for name, way in ways.items():
                count, wall, cpu = way()
                assert count == len(paths), (name, count, len(paths))
                rates[name].append((count / wall, count / cpu))
        print(f"{len(paths)} images, {o.size}x{o.size}, {o.threads} threads, median of {o.rounds} rounds")
        print(f"{'':12} {'per second':>12} {'per CPU second':>16} {'of Pillow':>10}")
        medians = {name: [statistics.median(r[k] for r in all_) for k in range(2)] for name, all_ in rates.items()}
        for name, (wall, cpu) in medians.items():
            print(f"{name:12} {wall:12.0f} {cpu:16.0f} {cpu / medians['Pillow'][1]:10.2f}")


if __name__ == "__main__":
    main()
