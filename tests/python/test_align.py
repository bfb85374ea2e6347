"""ole_align() of ole/align.h against SciPy's orthogonal_procrustes, and by its definition."""
import ctypes
import unittest
from ctypes import POINTER, byref, c_double, c_int, c_int64, c_void_p

import numpy as np
from support import main

from ole import _library as native

try:
    from scipy.linalg import orthogonal_procrustes
except ImportError:
    orthogonal_procrustes = None

calls = native.Calls({"ole_align": [c_void_p] * 4, "ole_align_apply": [c_void_p] * 3},
                     {"ole_alignment_free": [None, c_void_p],
                      "ole_align_options_init_sized": [None, c_void_p, ctypes.c_size_t]})


class Matrix(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("rows", c_int64), ("cols", c_int64), ("stride", c_int64), ("dtype", c_int)]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("centre", ctypes.c_bool), ("threads", c_int)]


class Alignment(ctypes.Structure):
    _fields_ = [("from_", c_int64), ("to", c_int64), ("map", POINTER(c_double)), ("shift", POINTER(c_double)),
                ("rank", c_int64), ("scale", c_double), ("residual", c_double), ("cosine", c_double)]


def view(a):
    return Matrix(a.ctypes.data, a.shape[0], a.shape[1], 0, 3 if a.dtype == np.float32 else 4)


def align(a, b, centre=False, threads=1, rows=None):
    """The map, the result's numbers, and `rows` mapped."""
    o, out = Options(), Alignment()
    calls("ole_align_options_init_sized", byref(o), ctypes.sizeof(o))
    o.centre, o.threads = centre, threads
    calls("ole_align", byref(out), byref(view(a)), byref(view(b)), byref(o))
    r = np.ctypeslib.as_array(out.map, (a.shape[1], b.shape[1])).copy()
    mapped = np.empty((len(a if rows is None else rows), b.shape[1]), a.dtype)
    calls("ole_align_apply", byref(out), byref(view(a if rows is None else rows)), byref(view(mapped)))
    numbers = out.rank, out.scale, out.residual, out.cosine
    calls("ole_alignment_free", byref(out))
    return r, numbers, mapped


class Align(unittest.TestCase):
    @unittest.skipIf(orthogonal_procrustes is None, "no SciPy")
    def test_against_scipy(self):
        random = np.random.default_rng(0)
        for rows, dim, dtype in ((50, 7, np.float64), (3000, 33, np.float32), (1025, 64, np.float32)):
            a = random.standard_normal((rows, dim)).astype(dtype)
            turn = np.linalg.qr(random.standard_normal((dim, dim)))[0]
            b = (a @ turn + 0.3 * random.standard_normal((rows, dim))).astype(dtype)
            r, (rank, scale, residual, cosine), mapped = align(a, b, threads=2)
            x, y = a.astype(np.float64), b.astype(np.float64)
            want, total = orthogonal_procrustes(x, y)
            np.testing.assert_allclose(r, want, atol=1e-9)
            self.assertEqual(rank, dim)
            self.assertAlmostEqual(scale, total / np.sum(x ** 2), places=9)
            self.assertAlmostEqual(residual, np.linalg.norm(x @ want - y) / np.linalg.norm(y), places=9)
            z = x @ want
            each = np.sum(z * y, 1) / np.linalg.norm(z, axis=1) / np.linalg.norm(y, axis=1)
            self.assertAlmostEqual(cosine, each.mean(), places=9)
            np.testing.assert_allclose(mapped, z, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(align(a, b)[0], r)  # threads

    def test_centred_into_more_dimensions(self):
        random = np.random.default_rng(1)
        a = random.standard_normal((200, 5))
        turn = np.linalg.qr(random.standard_normal((9, 9)))[0][:5]
        b = a @ turn + random.standard_normal(9)
        r, (rank, scale, residual, cosine), mapped = align(a, b, centre=True)
        np.testing.assert_allclose(r, turn, atol=1e-10)
        np.testing.assert_allclose(mapped, b, atol=1e-10)
        self.assertEqual(rank, 5)
        self.assertLess(residual, 1e-12)
        self.assertAlmostEqual(scale, 1, places=12)
        self.assertAlmostEqual(cosine, 1, places=12)

    def test_fewer_items_than_dimensions(self):
        """Then many maps fit: the one found is orthogonal and exact."""
        a = np.random.default_rng(2).standard_normal((4, 10))
        r, (rank, _, residual, _), _ = align(a, a[:, ::-1].copy())
        np.testing.assert_allclose(r @ r.T, np.eye(10), atol=1e-12)
        self.assertEqual(rank, 4)
        self.assertLess(residual, 1e-12)

    def test_zeros(self):
        r, (rank, scale, residual, cosine), _ = align(np.zeros((3, 2)), np.zeros((3, 2)))
        np.testing.assert_allclose(r @ r.T, np.eye(2), atol=1e-12)
        self.assertEqual(rank, 0)
        self.assertTrue(np.isnan([scale, residual, cosine]).all())


if __name__ == "__main__":
    main()
