"""The OLÉ loss as a PyTorch user would write it, timed: `python3 bench/peer_loss_torch.py [cuda|cpu]`.

Variants: the authors' (SVDs on the host, class by class), torch.linalg.svd on the device, one batched
eigendecomposition of masked Gram matrices in float64, and on a GPU NVIDIA's cusolverDnXsyevBatched called
directly: the Gram matrices of the classes, padded to the largest of them, in one call, that of all rows in
another.  Prints one JSON object per line: rows, dim, classes, and for each variant the median in ms and the
error of its gradient against the first variant in float64; `solve_ms` is the two calls of cuSOLVER alone.
The features resemble those of a network in training: one direction per class plus noise, rectified.
"""
import ctypes
import json
import statistics
import sys
import time

import numpy as np
import torch

ROWS = ((26, 1024, 500), (32, 256, 10), (64, 256, 10), (64, 512, 10), (64, 512, 100), (128, 512, 10),
        (256, 512, 10), (512, 512, 100), (1024, 512, 100))
FLOOR, CUT = 1.0, 1e-6


def make(rows, dim, classes):
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(rows) % classes
    centre = torch.rand(classes, dim, generator=random)[labels]
    scale = 1 + torch.rand(rows, 1, generator=random)
    return torch.relu(centre * scale + 0.3 * torch.randn(rows, dim, generator=random)), labels


def on_host(x, labels):
    """Value and gradient over N by LAPACK's SVD of every class and of the whole."""
    whole, names = x.cpu().numpy(), labels.cpu().numpy()
    gradient, value = np.zeros_like(whole), 0.0

    def norm_and_polar(block):
        u, s, v = np.linalg.svd(block, full_matrices=False)
        kept = s > CUT
        return s.sum(), u[:, kept] @ v[kept]

    for name in np.unique(names):
        norm, polar = norm_and_polar(whole[names == name])
        value += max(norm, FLOOR)
        if norm > FLOOR:
            gradient[names == name] += polar
    norm, polar = norm_and_polar(whole)
    return (value - norm) / len(whole), torch.from_numpy((gradient - polar) / len(whole)).to(x.device)


def by_svd(x, labels):
    gradient, value = torch.zeros_like(x), 0.0

    def norm_and_polar(block):
        u, s, v = torch.linalg.svd(block, full_matrices=False)
        return s.sum(), (u * (s > CUT)) @ v

    for name in torch.unique(labels):
        rows = labels == name
        norm, polar = norm_and_polar(x[rows])
        value = value + norm.clamp(min=FLOOR)
        gradient[rows] += polar * (norm > FLOOR)
    norm, polar = norm_and_polar(x)
    return (value - norm) / len(x), (gradient - polar) / len(x)


def by_eigh(x, labels):
    wide = x.double()
    gram = wide @ wide.T
    of_class = torch.nn.functional.one_hot(labels).T.bool()
    blocks = gram * (of_class[:, :, None] & of_class[:, None, :])
    values, vectors = torch.linalg.eigh(torch.cat([blocks, gram[None]]))
    sigma = values.clamp(min=0).sqrt()
    inverse = torch.where(sigma > CUT, 1 / sigma.clamp(min=CUT), 0.0)
    roots = (vectors * inverse[:, None]) @ vectors.transpose(1, 2)
    norms = sigma.sum(1)
    weights = torch.cat([(norms[:-1] > FLOOR).double(), -norms.new_ones(1)])
    gradient = ((roots * weights[:, None, None]).sum(0) @ wide).to(x.dtype)
    return (norms[:-1].clamp(min=FLOOR).sum() - norms[-1]) / len(x), gradient / len(x)


class Cusolver:
    """The loss of one shape by cusolverDnXsyevBatched in float64; the places of the classes' rows are found once."""

    VECTORS, LOWER, DOUBLE = 1, 0, 1  # CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, CUDA_R_64F

    def __init__(self, labels):
        torch.linalg.eigh(torch.eye(4, device="cuda"))  # loads the library that PyTorch uses
        with open("/proc/self/maps") as maps:
            path = next(line.split()[-1] for line in maps if "libcusolver.so" in line)
        self.library = ctypes.CDLL(path)
        self.handle, self.params = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("Create", ctypes.byref(self.handle))
        self.call("CreateParams", ctypes.byref(self.params))
        self.call("SetStream", self.handle, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        of_class = [torch.nonzero(labels == name).flatten() for name in torch.unique(labels)]
        self.index = torch.nn.utils.rnn.pad_sequence(of_class, batch_first=True, padding_value=len(labels))
        self.grams = torch.zeros(self.index.shape[0], self.index.shape[1], self.index.shape[1],
                                 dtype=torch.float64, device="cuda")
        self.whole = torch.zeros(1, len(labels), len(labels), dtype=torch.float64, device="cuda")
        self.solvers = [self.prepare(a) for a in (self.grams, self.whole)]

    def call(self, name, *arguments):
        status = getattr(self.library, "cusolverDn" + name)(*arguments)
        if status:
            raise RuntimeError(f"cusolverDn{name}: status {status}")

    def prepare(self, a):
        batch, n = a.shape[:2]
        values = torch.empty(batch, n, dtype=torch.float64, device="cuda")
        info = torch.empty(batch, dtype=torch.int32, device="cuda")
        device, host = ctypes.c_size_t(), ctypes.c_size_t()
        common = [self.handle, self.params, self.VECTORS, self.LOWER, ctypes.c_int64(n), self.DOUBLE,
                  ctypes.c_void_p(a.data_ptr()), ctypes.c_int64(n), self.DOUBLE, ctypes.c_void_p(values.data_ptr()),
                  self.DOUBLE]
        self.call("XsyevBatched_bufferSize", *common, ctypes.byref(device), ctypes.byref(host), ctypes.c_int64(batch))
        room = torch.empty(max(device.value, 1), dtype=torch.uint8, device="cuda")
        spare = ctypes.create_string_buffer(max(host.value, 1))
        arguments = [*common, ctypes.c_void_p(room.data_ptr()), device, spare, host,
                     ctypes.c_void_p(info.data_ptr()), ctypes.c_int64(batch)]
        return values, arguments, (room, spare, info)

    def solve(self):
        for _, arguments, _ in self.solvers:
            self.call("XsyevBatched", *arguments)

    def loss(self, x, _labels):
        wide = torch.cat([x.double(), x.new_zeros(1, x.shape[1], dtype=torch.float64)])
        of_class = wide[self.index]  # [C, n, D], short classes with rows of zeros
        torch.matmul(of_class, of_class.transpose(1, 2), out=self.grams)
        torch.matmul(wide[:-1], wide[:-1].T, out=self.whole[0])
        self.solve()  # in place: row j of a matrix is its eigenvector j
        gradient, norms = torch.zeros_like(wide), []
        for rows, vectors, (values, *_) in ((of_class, self.grams, self.solvers[0]),
                                            (wide[None, :-1], self.whole, self.solvers[1])):
            sigma = values.clamp(min=0).sqrt()
            inverse = torch.where(sigma > CUT, 1 / sigma.clamp(min=CUT), 0.0)
            norms.append(sigma.sum(1))
            polar = (vectors.transpose(1, 2) * inverse[:, None]) @ (vectors @ rows)
            if rows is of_class:
                gradient[self.index] = polar * (norms[0] > FLOOR)[:, None, None]
            else:
                gradient[:-1] -= polar[0]
        value = norms[0].clamp(min=FLOOR).sum() - norms[1][0]
        return value / len(x), gradient[:-1].to(x.dtype) / len(x)


def median_ms(call, sync):
    for _ in range(3):
        call()
    sync()
    times, end = [], time.time() + 0.5
    while len(times) < 5 or (time.time() < end and len(times) < 300):
        start = time.perf_counter()
        call()
        sync()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    sync = torch.cuda.synchronize if device == "cuda" else lambda: None
    for rows, dim, classes in ROWS:
        x, labels = (t.to(device) for t in make(rows, dim, classes))
        truth = on_host(x.double(), labels)[1]
        line = {"rows": rows, "dim": dim, "classes": classes}
        ways = {"authors": on_host, "svd": by_svd, "eigh": by_eigh}
        if device == "cuda":
            cusolver = Cusolver(labels)
            ways["cusolver"] = cusolver.loss
        for name, way in ways.items():
            error = float((way(x, labels)[1].double() - truth).norm() / truth.norm())
            line[name] = {"ms": median_ms(lambda: way(x, labels), sync), "error": error}
        if device == "cuda":
            line["cusolver"]["solve_ms"] = median_ms(cusolver.solve, sync)
        right = [line[w]["ms"] for w in ways if line[w]["error"] < 1e-3]
        line["best_right_ms"] = min(right)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
