"""Plans of the loss, and the cache that lends them.

A plan owns its memory and threads and serves one caller at a time, so the cache *lends* them: ``take``
returns an idle plan of the requested kind or creates one, ``give`` puts it back.  At most ``capacity``
idle plans are kept; the least recently used are freed first.  On a GPU the kind includes the stream:
work of the next caller is queued behind that of the last, so a plan can be given back while the GPU is
still using it.
"""
from __future__ import annotations

import os
import threading
from collections import deque
from ctypes import addressof, byref, c_void_p, sizeof
from typing import NamedTuple, Tuple, cast

from . import _library as native

Addresses = Tuple[int, int, int, int, int, int]
"""Arguments of a call: rows, features, stride, labels, label_type, gradient (0: none)."""


class Kind(NamedTuple):
    """What a plan is created for. Its weight is 1; callers multiply."""

    max_rows: int
    dim: int
    dtype: int
    mean: bool = True
    delta_floor: float = 1.0
    delta_abs: float = 1e-6
    delta_rel: float = native.AUTO
    threads: int = 1
    gpu: int = -1  # -1: the CPU
    stream: int = 0


def bucket(rows: int) -> int:
    """The number of rows to plan for: at most a quarter more, so that batches of similar size share a plan."""
    if rows <= 32:
        return 32
    step = 1 << ((rows - 1).bit_length() - 3)
    return -(-rows // step) * step


class Plan:
    """An ole_loss_plan and the structs of its calls. Raises if the library reports an error."""

    def __init__(self, kind: Kind) -> None:
        self._library = native.library()
        self._handle = c_void_p()
        self._call = native.Call()
        self._batch = addressof(self._call)
        self._gradient = self._batch + native.Call.gradient.offset
        self.result = native.Result()
        self._at_result = addressof(self.result)
        self._error = native.ErrorText()
        self._at_error = addressof(self._error)
        options = native.Options()
        self._library.ole_loss_options_init_sized(byref(options), sizeof(options))
        options.delta_floor = kind.delta_floor
        options.delta_abs = kind.delta_abs
        options.delta_rel = kind.delta_rel
        options.reduction = 0 if kind.mean else 1
        options.threads = kind.threads
        options.device = native.CPU if kind.gpu < 0 else native.CUDA
        options.gpu = kind.gpu
        status = self._library.ole_loss_plan_create(
            byref(self._handle), kind.max_rows, kind.dim, kind.dtype, byref(options), byref(self._error)
        )
        if status != native.OK:
            raise native.fail(self._error)

    def evaluate(self, addresses: Addresses, upstream: float) -> int:
        """Calls ole_loss_eval and returns its status; ``result`` has the numbers, ``failure()`` the reason."""
        native.FILL.pack_into(self._call, 0, *addresses, 0, upstream)
        status: int = self._library.ole_loss_eval(
            self._handle, self._batch, self._gradient if addresses[5] else None, self._at_result, self._at_error
        )
        return status

    def queue(self, addresses: Addresses, upstream: float, outcome: int, stream: int) -> None:
        """Calls ole_loss_queue; all addresses are in GPU memory."""
        native.FILL.pack_into(self._call, 0, *addresses, 0, upstream)
        status = self._library.ole_loss_queue(
            self._handle, self._batch, self._gradient if addresses[5] else None, outcome, stream, self._at_error
        )
        if status != native.OK:
            raise self.failure()

    def failure(self) -> native.Error:
        """The exception for the call that just failed."""
        return native.fail(self._error)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.ole_loss_plan_destroy(self._handle)
            self._handle = c_void_p()

    def abandon(self) -> None:
        """Drops the plan without freeing it: after a fork its threads are in the parent."""
        self._handle = c_void_p()


def make_plan(kind: Kind) -> Plan:
    """A new plan, of NumPy's where there is no native library."""
    if native.is_pure():
        from . import _pure

        return cast(Plan, _pure.Plan(kind))
    return Plan(kind)


class PlanCache:
    """Idle plans by kind, at most ``capacity`` of them. Safe to use from many threads."""

    def __init__(self, capacity: int = 32) -> None:
        self.capacity = capacity
        self._idle: deque[tuple[Kind, Plan]] = deque()  # least recently used first
        self._kept: list[Plan] = []
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):  # not on Windows
            os.register_at_fork(after_in_child=self._after_fork)

    def take(self, kind: Kind) -> Plan:
        """An idle plan of the kind, or a new one."""
        with self._lock:
            for i in range(len(self._idle) - 1, -1, -1):
                if self._idle[i][0] == kind:
                    plan = self._idle[i][1]
                    del self._idle[i]
                    return plan
        return make_plan(kind)

    def give(self, kind: Kind, plan: Plan) -> None:
        """Puts a plan back for the next caller."""
        spare = None
        with self._lock:
            self._idle.append((kind, plan))
            if len(self._idle) > self.capacity:
                spare = self._idle.popleft()
        del spare  # freed outside the lock

    def keep(self, plan: Plan) -> None:
        """Keeps a plan forever: a captured CUDA graph uses its memory."""
        with self._lock:
            self._kept.append(plan)

    def __len__(self) -> int:
        return len(self._idle)

    def clear(self) -> None:
        """Frees all idle plans."""
        with self._lock:
            idle, self._idle = self._idle, deque()
        del idle

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        for plan in [plan for _, plan in self._idle] + self._kept:
            plan.abandon()
        self._idle.clear()
        self._kept.clear()


plans = PlanCache()
"""The plans of this process."""
