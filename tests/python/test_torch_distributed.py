"""OLELoss(group=...) over gloo processes: each rank's gradient is its part of the global loss's."""
import datetime
import os
import re
import sys
import tempfile
import traceback
import unittest

import numpy as np
from support import import_torch, main, make, reference

torch = import_torch()
if torch is None:
    sys.exit(77)
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    print("skipped: this torch has no gloo")
    sys.exit(77)

import ole  # noqa: E402
import torch.distributed as dist  # noqa: E402
from ole.torch import OLELoss  # noqa: E402


def work(rank, ranks, file, sizes, options, failures):
    """One rank: compares with the single-process reference; leaves a trace of what went wrong."""
    try:
        dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=ranks,
                                timeout=datetime.timedelta(seconds=120))
        check_rank(rank, ranks, sizes, **options)
        os._exit(0)  # destroy_process_group() can deadlock before torch 2.8: it waits for gloo's threads, and they for the GIL
    except BaseException:
        with open(os.path.join(failures, str(rank)), "w") as out:
            traceback.print_exc(file=out)
        raise


def check_rank(rank, ranks, sizes, dtype=torch.float32, averaged=False, rows_per_rank=None,
               some=False, tolerance=1e-6):
    torch.set_num_threads(1)
    group, members = "world", list(range(ranks))
    if some:  # every rank but the first
        members = members[1:]
        group = dist.new_group(members)
        if rank not in members:
            try:
                OLELoss(group=group)(torch.ones(2, 3), torch.zeros(2, dtype=torch.long))
            except ole.Error as reason:
                assert "not in the group" in str(reason), reason
                return
            raise AssertionError("a rank outside the group was taken")
    sizes = [sizes[member] for member in members]
    features, labels = make(sum(sizes), 16, 4, dtype=np.float64)
    wide = torch.from_numpy(features).to(dtype)
    value, gradient = reference(wide.double().numpy(), labels, weight=0.5)
    start = sum(sizes[:members.index(rank)])
    part = slice(start, start + sizes[members.index(rank)])

    layer = torch.nn.Identity()
    mine = wide[part].clone().requires_grad_()
    criterion = OLELoss(weight=0.5, group=group, averaged=averaged, rows_per_rank=rows_per_rank)
    for _ in range(2):
        mine.grad = None
        loss = criterion(layer(mine), torch.from_numpy(labels[part]))
        (loss * 3).backward()
    factor = 3 * (len(members) if averaged else 1)
    np.testing.assert_allclose(float(loss), value, rtol=tolerance)
    np.testing.assert_allclose(mine.grad.double().numpy(), factor * gradient[part], atol=3 * tolerance)
    with torch.no_grad():
        np.testing.assert_allclose(float(criterion(mine, torch.from_numpy(labels[part]))), value, rtol=tolerance)


def check_ddp(rank, ranks, sizes):
    """Under DistributedDataParallel, averaged=True gives the single-process gradient of the weights."""
    torch.set_num_threads(1)
    features, labels = make(sum(sizes), 16, 4)
    x, y = torch.from_numpy(features), torch.from_numpy(labels)
    start = sum(sizes[:rank])
    part = slice(start, start + sizes[rank])
    torch.manual_seed(0)
    alone = torch.nn.Linear(16, 12)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 12))
    net.module.load_state_dict(alone.state_dict())
    OLELoss(weight=0.5)(alone(x), y).backward()
    OLELoss(weight=0.5, group="world", averaged=True)(net(x[part]), y[part]).backward()
    torch.testing.assert_close(net.module.weight.grad, alone.weight.grad, rtol=1e-5, atol=1e-6)


def work_ddp(rank, ranks, file, sizes, options, failures):
    global check_rank
    check_rank = check_ddp
    work(rank, ranks, file, sizes, options, failures)


def check_refusals(rank, ranks, sizes):
    """A batch that does not fit is an error on every rank, and the group goes on working."""
    torch.set_num_threads(1)
    criterion = OLELoss(group="world")
    x, y = torch.ones(6, 4), torch.zeros(6, dtype=torch.long)
    first = rank == 0
    cases = (
        (x, y[:1] if first else y, r"labels have shape \(1,\)" if first else "rank 0 .* see its own error"),
        (x, y + 0.7 if first else y, "use integers" if first else "rank 0 .* see its own error"),
        (x[0] if first else x, y, "one row per sample" if first else "rank 0 .* see its own error"),
        (x[:, :3].contiguous() if first else x, y, "width 3.* width 4" if first else "width 4.* width 3"),
        (x.double() if first else x, y, "float64.*float32" if first else "float32.*float64"),
    )
    for features, labels, words in cases:
        try:
            criterion(features, labels)
        except ole.Error as reason:
            assert re.search(words, str(reason)), f"'{words}' is not in '{reason}'"
        else:
            raise AssertionError(f"nobody said '{words}'")
    assert criterion(x, y).item() == 0.0, "one class in all: its norm is the whole's"
    for rows, width in ((1, 5), (0, 5), (3, 0)):  # whose bytes begin anywhere, or are none
        few = torch.ones(rows, width, requires_grad=True)
        loss = criterion(few, torch.zeros(rows, dtype=torch.int32))
        loss.backward()
        assert loss.item() == 0.0 and few.grad.shape == few.shape, f"{rows} rows of {width}"


def work_refusals(rank, ranks, file, sizes, options, failures):
    global check_rank
    check_rank = check_refusals
    work(rank, ranks, file, sizes, options, failures)


class Gloo(unittest.TestCase):
    def run_ranks(self, sizes, target=work, **options):
        context = torch.multiprocessing.get_context("spawn")
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "meeting")
            processes = [context.Process(target=target, args=(rank, len(sizes), file, sizes, options, folder))
                         for rank in range(len(sizes))]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
            for rank, process in enumerate(processes):
                trace = os.path.join(folder, str(rank))
                if os.path.exists(trace):
                    self.fail(f"rank {rank}:\n{open(trace).read()}")
                self.assertEqual(process.exitcode, 0)

    def test_two(self):
        self.run_ranks([12, 12])

    def test_four_uneven(self):
        self.run_ranks([9, 0, 14, 5])

    def test_two_uneven_double_averaged(self):
        self.run_ranks([3, 20], dtype=torch.float64, averaged=True, tolerance=1e-10)

    def test_two_rows_given_bfloat16(self):
        self.run_ranks([7, 10], dtype=torch.bfloat16, rows_per_rank=16, tolerance=1e-3)

    def test_part_of_the_world(self):
        self.run_ranks([4, 9, 12], some=True)

    def test_refusals(self):
        self.run_ranks([6, 6], target=work_refusals)

    def test_ddp(self):
        self.run_ranks([9, 14], target=work_ddp)


if __name__ == "__main__":
    main()
