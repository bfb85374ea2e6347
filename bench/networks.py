#!/usr/bin/env python3
"""Times the networks for photos beside PyTorch and ONNX Runtime on the CPU, in turn and in one run.

    python3 bench/networks.py [--ole build/ole] [--threads 2] [--rounds 3] [--seconds 3] [--images 32]
                              [--only steps|inference]

Training steps come from `ole bench --peer torch`.  For inference, ResNet-50 at 224x224 runs in a process per engine:
Olé through liboletrain, torchvision's module in PyTorch (eager in both memory formats, and frozen TorchScript) and in
ONNX Runtime what `ole export --onnx` writes; then `ole predict` and `ole features` on JPEG files, without their
start.  All engines must give the same logits.  Times are medians over the rounds, per step or image: on the wall, and
of processors (all threads), which is what to compare on a machine that others use.  Needs PyTorch and torchvision; what else is missing is skipped and said.
"""
import argparse
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "bindings" / "python")]

STEPS = [("resnet18-cifar", "3x32x32", 32), ("resnet18", "3x224x224", 8), ("resnet50", "3x224x224", 8),
         ("wrn16-8", "3x32x32", 16)]
MOST = 1e-3  # between logits of two engines, in units of the largest


# ---- Training steps -------------------------------------------------------------------------------


def step(options, net, size, batch):
    """One round: ours, then PyTorch's memory formats."""
    done = subprocess.run(
        [options.ole, "bench", "--net", net, "--input", size, "--batch-size", str(batch), "--device", "cpu",
         "--threads", str(options.threads), "--seconds", str(options.seconds), "--softmax-only", "--peer", "torch", "--json"],
        env={**os.environ, "OLE_PYTHON": sys.executable}, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def median(values):
    return statistics.median(list(values))


def steps(options):
    print(f"{'step':16}{'batch':>6}  {'ours ms':>9}{'theirs':>9}{'ratio':>7}  {'processor':>9}{'theirs':>9}{'ratio':>7}"
          f"  {'MiB':>6}{'theirs':>7}", flush=True)
    for net, size, batch in STEPS:
        rounds = [step(options, net, size, batch) for _ in range(options.rounds)]
        peers = [r["peer"]["modes"].values() for r in rounds]
        rows = []
        for key in ("step_ms", "processor_ms"):  # the ratio of each round, to the better memory format there
            best = [min(mode[key] for mode in modes) for modes in peers]
            rows.append((median(r[key] for r in rounds), median(best), median(b / r[key] for b, r in zip(best, rounds))))
        memory = median(r["peak_bytes"] for r in rounds), median(min(m["peak_bytes"] for m in modes) for modes in peers)
        (ours, theirs, ratio), (ours_cpu, theirs_cpu, ratio_cpu) = rows
        print(f"{net:16}{batch:6}  {ours:9.1f}{theirs:9.1f}{ratio:7.2f}  {ours_cpu:9.1f}{theirs_cpu:9.1f}{ratio_cpu:7.2f}"
              f"  {memory[0] / 2**20:6.0f}{memory[1] / 2**20:7.0f}", flush=True)


# ---- Inference ------------------------------------------------------------------------------------


def images_of(options):
    import numpy as np
    return np.random.default_rng(1).random((options.images, 3, 224, 224), dtype=np.float32)


def engine_ole(options, work):
    import numpy as np
    library = ctypes.CDLL(str(Path(options.ole).resolve().parent / "liboletrain.so"))
    model, error = ctypes.c_void_p(), ctypes.create_string_buffer(1024)
    if library.ole_model_load(ctypes.byref(model), f"{work}/model.safetensors".encode(), options.threads, error):
        raise RuntimeError(error.raw[4:].split(b"\0")[0].decode())
    features, logits = (np.empty((options.images, width), np.float32) for width in (2048, 1000))

    def run(images):
        pointers = (ctypes.c_void_p(a.ctypes.data) for a in (features, logits))
        if library.ole_model_run(model, ctypes.c_void_p(images.ctypes.data), ctypes.c_int64(len(images)), *pointers, error):
            raise RuntimeError(error.raw[4:].split(b"\0")[0].decode())
        return logits

    return run


def engine_torch(mode):
    def make(options, work):
        import torch
        import torchvision
        torch.set_num_threads(options.threads)
        module = torchvision.models.resnet50()
        module.load_state_dict(torch.load(f"{work}/model.pth"))
        layout = torch.channels_last if mode == "nhwc" else torch.contiguous_format
        module = module.eval().to(memory_format=layout)
        if mode == "frozen":
            with torch.no_grad():
                module = torch.jit.freeze(torch.jit.trace(module, torch.zeros(options.images, 3, 224, 224)))
                module = torch.jit.optimize_for_inference(module)

        def run(images):
            with torch.no_grad():
                return module(torch.from_numpy(images).to(memory_format=layout)).numpy()

        return run

    return make


def engine_onnx(options, work):
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(f"{work}/model.onnx", settings, providers=["CPUExecutionProvider"])
    return lambda images: session.run(["logits"], {"images": images})[0]


ENGINES = {"Olé": engine_ole, "PyTorch, nchw": engine_torch("nchw"), "PyTorch, nhwc": engine_torch("nhwc"),
           "PyTorch, frozen": engine_torch("frozen"), "ONNX Runtime": engine_onnx}


def serve(name, options, work, pipe):
    """A process of one engine: each message is a round, answered by its times per image."""
    try:
        run, images = ENGINES[name](options, work), images_of(options)
        pipe.send(run(images).copy())
        while pipe.recv():
            wall, processor, count, end = time.perf_counter(), time.process_time(), 0, time.perf_counter() + options.seconds
            while count < 2 or time.perf_counter() < end:
                run(images)
                count += 1
            share = 1e3 / count / options.images
            pipe.send(((time.perf_counter() - wall) * share, (time.process_time() - processor) * share,
                       resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
    except (ImportError, RuntimeError, OSError) as reason:
        pipe.send(str(reason))
    except EOFError:  # the end of the run
        pass


def command(options, *words):
    """Wall and processor milliseconds of a run of `ole`."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([options.ole, *words, "--threads", str(options.threads)], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (time.perf_counter() - start) * 1e3, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def write_files(options, work):
    """The model in three forms, and two folders of photos: `few` with a quarter of the images of `many`."""
    import numpy as np
    import torch
    import torchvision
    from ole import convert
    from PIL import Image
    torch.manual_seed(0)
    torch.save(torchvision.models.resnet50().state_dict(), f"{work}/model.pth")
    if convert.main([f"{work}/model.pth", f"{work}/model.safetensors", "--net", "resnet50", "--input", "3x224x224",
                     "--classes", "1000"]):
        sys.exit(1)
    subprocess.run([options.ole, "export", f"{work}/model.safetensors", "--onnx", f"{work}/model.onnx", "--fold"],
                   stdout=subprocess.DEVNULL, check=True)
    random = np.random.default_rng(0)
    for name, count in (("few", options.images // 4), ("many", options.images)):
        (Path(work) / name).mkdir()
        for i in range(count):
            pixels = np.kron(random.integers(0, 256, (28, 28, 3)), np.ones((8, 8, 1))).astype(np.uint8)
            Image.fromarray(pixels).save(f"{work}/{name}/{i}.jpg", quality=90)


def agree(name, logits, first):
    import numpy as np
    apart = float(np.abs(logits - first).max() / np.abs(first).max())
    if not apart <= MOST:
        sys.exit(f"{name}: logits differ from ours by {apart:.1e}")


def start_engines(options, work):
    fresh, engines, first = get_context("spawn"), {}, None
    for name in ENGINES:
        ours, theirs = fresh.Pipe()
        process = fresh.Process(target=serve, args=(name, options, work, theirs), daemon=True)
        process.start()
        answer = ours.recv()
        if isinstance(answer, str):
            print(f"{name}: skipped: {answer}", file=sys.stderr)
            continue
        first = answer if first is None else first
        agree(name, answer, first)
        engines[name] = ours
    return engines


def inference(options, work):
    write_files(options, work)
    engines = start_engines(options, work)
    rounds = {name: [] for name in engines}
    calls = {"predict": [], "features": []}
    for _ in range(options.rounds):
        for name, pipe in engines.items():
            pipe.send(True)
            rounds[name].append(pipe.recv())
        for word, times in calls.items():
            out = ["--out", f"{work}/F.npy", f"{work}/L.npy"] if word == "features" else []
            few, many = (command(options, word, f"{work}/model.safetensors", f"{work}/{name}", *out)
                         for name in ("few", "many"))
            more = options.images - options.images // 4
            times.append([(b - a) / more for a, b in zip(few, many)])
    print(f"\n{'resnet50, 3x224x224, per image':32}{'ms':>9}{'ratio':>7}  {'processor':>9}{'ratio':>7}  {'MiB':>6}", flush=True)
    first = next(iter(rounds))
    for name, times in rounds.items():
        ratios = [median(t[k] / f[k] for t, f in zip(times, rounds[first])) for k in (0, 1)]
        print(f"{name:32}{median(t[0] for t in times):9.1f}{ratios[0]:7.2f}  {median(t[1] for t in times):9.1f}"
              f"{ratios[1]:7.2f}  {max(t[2] for t in times) / 2**20:6.0f}")
    for word, times in calls.items():
        print(f"ole {word:28}{median(t[0] for t in times):9.1f}{'':7}  {median(t[1] for t in times):9.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ole", default=str(HERE.parent / "build" / "ole"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="per engine and round")
    parser.add_argument("--images", type=int, default=32, help="per batch of inference, at least 4 (default 32)")
    parser.add_argument("--only", choices=("steps", "inference"))
    options = parser.parse_args()
    import torch
    print(f"PyTorch {torch.__version__}, {options.threads} threads, {options.rounds} rounds", flush=True)
    if options.only != "inference":
        steps(options)
    if options.only != "steps":
        with tempfile.TemporaryDirectory(prefix="ole-networks-") as work:
            inference(options, work)


if __name__ == "__main__":
    main()
