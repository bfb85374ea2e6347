"""Times the same training step in PyTorch, for `ole bench --peer torch`.

Reads one JSON object from standard input: the network's graph, batch, threads and device.
Writes {"library":..., "modes":{mode: ms}, "processor_ms":{mode: ms}, "peak_bytes":{mode: bytes}}: the median time of
each mode, the processor time of a step (all threads), and the memory of a process that runs only that mode.
The step is that of `ole bench`: forward, softmax loss, backward, SGD with momentum.
"""
import json
import os
import statistics
import sys
import time

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    sys.exit("PyTorch is not installed for this python3 (Debian, Ubuntu: python3-torch)")


class BatchNorm(nn.BatchNorm2d):
    """For images and vectors."""

    def _check_input_dim(self, x):
        pass


class Net(nn.Module):
    """The ops of the graph, one module each, run in order."""

    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes
        self.ops = nn.ModuleList(self.module(n) for n in nodes)
        last = {}
        for i, n in enumerate(nodes):
            for k in n["input"]:
                last[k] = i
        self.dead = [[k for k, i in last.items() if i == j] for j in range(len(nodes))]

    @staticmethod
    def module(n):
        op, cin, cout = n["op"], n["in"][0], n["out"][0]
        if op == "conv":
            return nn.Conv2d(cin, cout, n["kernel"], n["stride"], n["pad"], bias=n["bias"])
        if op == "norm":
            return BatchNorm(cout, affine=n["affine"])
        if op == "linear":
            return nn.Linear(cin * n["in"][1] * n["in"][2], cout, bias=n["bias"])
        if op == "dropout":
            return nn.Dropout(n["rate"])
        if op == "relu":
            return nn.ReLU(inplace=True)
        if op == "max pool":
            return nn.MaxPool2d(n["kernel"], n["stride"], n["pad"])
        if op == "avg pool":
            return nn.AvgPool2d(n["kernel"], n["stride"]) if n["kernel"] else nn.AdaptiveAvgPool2d(1)
        return nn.Flatten() if op == "flatten" else nn.Identity()

    def forward(self, x):
        out = {0: x}
        for i, (n, op) in enumerate(zip(self.nodes, self.ops)):
            if n["op"] == "input":
                continue
            a = out[n["input"][0]]
            if n["op"] == "add":
                out[i] = a + out[n["input"][1]]
            elif n["op"] == "concat":
                out[i] = torch.cat([a, out[n["input"][1]]], 1)
            else:
                out[i] = op(a)
            for k in self.dead[i]:
                del out[k]
        return out[len(self.nodes) - 1]


def measure_steps(step, sync, seconds):
    """Median and mean processor milliseconds."""
    for _ in range(2):
        step()
    sync()
    times, end, processor = [], time.time() + seconds, time.process_time()
    while len(times) < 3 or (time.time() < end and len(times) < 200):
        start = time.perf_counter()
        step()
        sync()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), (time.process_time() - processor) * 1e3 / len(times)


def capture(step):
    """The whole step as one CUDA graph: PyTorch at its strongest for small networks."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measure(job, mode):
    """A mode is words joined by '-': fp32, tf32 or bf16; nchw or nhwc; graph; compile."""
    device, layout = job["device"], torch.channels_last if "nhwc" in mode else torch.contiguous_format
    torch.manual_seed(0)
    net = Net(job["nodes"]).to(device).to(memory_format=layout)
    c, h, w = job["nodes"][0]["out"]
    x = torch.randn(job["batch"], c, h, w, device=device).contiguous(memory_format=layout)
    y = (torch.arange(job["batch"]) % job["nodes"][-1]["out"][0]).to(device)
    fused = {"fused": True} if device == "cuda" else {}
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=1e-4,
                          **fused)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = "fp32" not in mode
    run = torch.compile(net, mode="reduce-overhead") if "compile" in mode else net

    def step():
        with torch.autocast(device, torch.bfloat16, enabled="bf16" in mode):
            logits = run(x)
        loss = F.cross_entropy(logits.float(), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()

    sync = torch.cuda.synchronize if device == "cuda" else lambda: None
    return measure_steps(capture(step) if "graph" in mode else step, sync, job["seconds"])


def measure_alone(job, mode):
    """Time and peak memory of a child process that does nothing else."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        torch.set_num_threads(job["threads"])
        ms, processor = measure(job, mode)
        peak = torch.cuda.max_memory_allocated() if job["device"] == "cuda" else 0
        os.write(into, f"{ms!r} {processor!r} {peak}".encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as pipe:
        text = pipe.read()
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"PyTorch failed in mode {mode}")
    ms, processor, on_gpu = text.split()
    return float(ms), float(processor), int(on_gpu) or usage.ru_maxrss * 1024


def main():
    job = json.load(sys.stdin)
    runs = {mode: measure_alone(job, mode) for mode in job["modes"]}
    json.dump({"library": f"PyTorch {torch.__version__}",
               "modes": {mode: ms for mode, (ms, _, _) in runs.items()},
               "processor_ms": {mode: processor for mode, (_, processor, _) in runs.items()},
               "peak_bytes": {mode: peak for mode, (_, _, peak) in runs.items()}}, sys.stdout)


main()
