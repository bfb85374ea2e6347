"""Batches of P classes × K samples for PyTorch: OLÉ compares whole classes, so a batch should hold several of each."""
from __future__ import annotations

from typing import Any, Iterator, List, Optional, cast

import numpy
from torch.utils.data import Sampler

from . import _library as native
from ._arrays import Labels, labels_of


class _Cycle:
    """Numbers in random order, again and again: each comes equally often."""

    def __init__(self, numbers: "numpy.ndarray[Any, Any]", random: numpy.random.Generator) -> None:
        self._numbers, self._random = numbers, random
        self._left: List[int] = []

    def take(self, count: int) -> List[int]:
        """``count`` numbers, different ones as far as there are enough."""
        taken = self._left[:count]
        self._left = self._left[count:]
        while len(taken) < count:
            order = cast("List[int]", self._random.permutation(self._numbers).tolist())
            already = set(taken) if len(taken) < len(order) else set()
            fresh = [number for number in order if number not in already]
            wanted = count - len(taken)
            taken += fresh[:wanted]
            self._left = fresh[wanted:] + [number for number in order if number in already]
        return taken


class BalancedBatchSampler(Sampler[List[int]]):
    """Batches of ``classes`` classes with ``samples`` samples each, for ``DataLoader(batch_sampler=...)``.

    ``labels`` [N] are those of the data set: integers (below 0: never drawn) or strings.  Classes come equally often,
    and so do the samples of a class; a class with fewer than ``samples`` repeats some.  An epoch has ``batches``
    batches per rank, by default as many as the data set has samples for.

    The batches follow from ``seed`` and the epoch.  Each iteration is the next epoch; ``set_epoch`` continues from
    another one, as after a resume.  With torch.distributed, each rank gets batches of its own: ``rank`` and
    ``replicas`` are found when the iteration starts unless given.  All ranks get equally many.

    >>> from ole.torch import BalancedBatchSampler
    >>> labels = ["cat", "dog", "owl"] * 8
    >>> sampler = BalancedBatchSampler(labels, classes=2, samples=4, seed=1)
    >>> batch = next(iter(sampler))
    >>> len(sampler), len(batch), len({labels[i] for i in batch})
    (3, 8, 2)
    """

    def __init__(
        self,
        labels: Any,
        classes: int,
        samples: int,
        *,
        batches: Optional[int] = None,
        seed: int = 0,
        rank: Optional[int] = None,
        replicas: Optional[int] = None,
    ) -> None:
        of = _codes(labels)
        numbers = [int(code) for code in numpy.unique(of.codes) if code >= 0]
        self._rows = [numpy.flatnonzero(of.codes == code) for code in numbers]
        for name, value in (("classes", classes), ("samples", samples), ("batches", batches)):
            if value is not None and (value != int(value) or value < 1):
                raise native.InputError(f"{name} is {value}; use a whole number of at least 1")
        if classes > len(numbers):
            raise native.InputError(f"classes is {classes}, but the labels have only {len(numbers)}")
        if (rank is None) != (replicas is None) or (rank is not None and not 0 <= rank < (replicas or 0)):
            raise native.InputError(f"rank is {rank} of {replicas} replicas; give both, with 0 <= rank < replicas")
        self.classes, self.samples, self.seed = int(classes), int(samples), int(seed)
        self._batches, self._rank, self._replicas = batches, rank, replicas
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next iteration.

        >>> from ole.torch import BalancedBatchSampler
        >>> sampler = BalancedBatchSampler([0, 0, 0, 1, 1, 1], classes=2, samples=2)
        >>> first = list(sampler)
        >>> sampler.set_epoch(0)
        >>> list(sampler) == first
        True
        """
        self._epoch = int(epoch)

    def _ranks(self) -> "tuple[int, int]":
        import torch.distributed as distributed

        if self._rank is not None and self._replicas is not None:
            return self._rank, self._replicas
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        return 0, 1

    def __len__(self) -> int:
        """Batches per rank."""
        if self._batches is not None:
            return int(self._batches)
        rows = sum(len(rows) for rows in self._rows)
        return max(1, rows // (self.classes * self.samples * self._ranks()[1]))

    def __iter__(self) -> Iterator[List[int]]:
        rank, replicas = self._ranks()
        random = numpy.random.default_rng([self.seed, self._epoch])
        self._epoch += 1
        classes = _Cycle(numpy.arange(len(self._rows)), random)
        rows = [_Cycle(rows, random) for rows in self._rows]
        for number in range(len(self) * replicas):
            batch = [row for kind in classes.take(self.classes) for row in rows[kind].take(self.samples)]
            if number % replicas == rank:
                yield batch


def _codes(labels: Any) -> Labels:
    if hasattr(labels, "detach"):  # a tensor
        labels = labels.detach().cpu().numpy()
    labels = numpy.asarray(labels)
    if labels.ndim != 1 or len(labels) == 0:
        raise native.InputError(f"labels have shape {labels.shape}; give one per sample of the data set")
    return labels_of(labels, len(labels))
