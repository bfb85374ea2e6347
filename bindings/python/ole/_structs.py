"""Mirrors of the structs of libole's headers for features: geometry, classify, analyze, tsne, roc, verify, align.

Field by field; tests/python/test_structs.py compares them with a C compiler's view of the headers.
"""
from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)

ProgressCallback = CFUNCTYPE(None, c_void_p, c_char_p, c_double)
StopCallback = CFUNCTYPE(c_bool, c_void_p)
PartCallback = CFUNCTYPE(c_bool, c_void_p, c_char_p, c_int64, c_int64)


class Embedding(Structure):
    """ole_embedding"""

    _fields_ = [
        ("rows", c_int64),
        ("dim", c_int64),
        ("dtype", c_int),
        ("features", c_void_p),
        ("labels", c_void_p),
    ]


class RowSpectrum(Structure):
    """ole_row_spectrum"""

    _fields_ = [
        ("label", c_int64),
        ("rows", c_int64),
        ("count", c_int64),
        ("sigma", c_void_p),
        ("norm", c_double),
        ("effective_rank", c_double),
    ]


class Spectra(Structure):
    """ole_spectra"""

    _fields_ = [
        ("all", RowSpectrum),
        ("classes", c_int64),
        ("of", POINTER(RowSpectrum)),
        ("loss", c_double),
        ("class_term", c_double),
        ("global_norm", c_double),
    ]


class AngleSummary(Structure):
    """ole_angle_summary"""

    _fields_ = [("pairs", c_int64)] + [
        (name, c_double) for name in ("mean", "minimum", "q05", "q25", "median", "q75", "q95", "maximum")
    ]


class Angles(Structure):
    """ole_angles"""

    _fields_ = [
        ("rows", c_int64),
        ("zeros", c_int64),
        ("of_rows", c_int64),
        ("within", AngleSummary),
        ("between", AngleSummary),
        ("within_bins", c_int64 * 180),
        ("between_bins", c_int64 * 180),
        ("side", c_int64),
        ("picture", c_void_p),
        ("classes", c_int64),
        ("labels", c_void_p),
        ("begins", c_void_p),
    ]


class FeatureErrors(Structure):
    """ole_feature_errors"""

    _fields_ = [
        ("references", c_int64),
        ("queries", c_int64),
        ("of_queries", c_int64),
        ("k", c_int),
        ("knn1", c_double),
        ("knn", c_double),
        ("centroid", c_double),
        ("subspace", c_double),
        ("directions", c_double),
    ]


class Overlap(Structure):
    """ole_overlap"""

    _fields_ = [("label_a", c_int64), ("label_b", c_int64), ("angle", c_double)]


class AnalyzeOptions(Structure):
    """ole_analyze_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("test", POINTER(Embedding)),
        ("k", c_int),
        ("energy", c_double),
        ("sample", c_int64),
        ("picture", c_int64),
        ("map", c_bool),
        ("seed", c_uint64),
        ("threads", c_int),
        ("progress", ProgressCallback),
        ("context", c_void_p),
        ("names", POINTER(c_char_p)),
        ("name_count", c_int64),
        ("errors", c_bool),
        ("overlap", c_bool),
        ("stop", StopCallback),
        ("classifier", c_void_p),
    ]


class LinearClassifier(Structure):
    """ole_linear_classifier"""

    _fields_ = [("classes", c_int64), ("dim", c_int64), ("weight", c_void_p), ("bias", c_void_p)]


class Collapse(Structure):
    """ole_collapse"""

    _fields_ = [
        ("classes", c_int64),
        ("nc1", c_double),
        ("nc2_norms", c_double),
        ("nc2_cosines", c_double),
        ("nc2_simplex", c_double),
        ("mean_cosine", c_double),
        ("nc3", c_double),
        ("nc4", c_double),
        ("angle_mean", c_double),
        ("angle_most", c_double),
        ("angle", c_void_p),
    ]


class Retrieval(Structure):
    """ole_retrieval"""

    _fields_ = [
        ("queries", c_int64),
        ("of_queries", c_int64),
        ("map_at_r", c_double),
        ("r_precision", c_double),
        ("k", c_int * 4),
        ("recall", c_double * 4),
    ]


class Analysis(Structure):
    """ole_analysis"""

    _fields_ = [
        ("rows", c_int64),
        ("ignored", c_int64),
        ("dim", c_int64),
        ("classes", c_int64),
        ("tested", c_bool),
        ("errors", FeatureErrors),
        ("angles", Angles),
        ("spectra", Spectra),
        ("overlaps", POINTER(Overlap)),
        ("overlap_count", c_int64),
        ("points", c_int64),
        ("point_rows", c_void_p),
        ("point_labels", c_void_p),
        ("map", c_void_p),
        ("kl", c_double),
        ("space", c_void_p),
        ("names", POINTER(c_char_p)),
        ("name_count", c_int64),
        ("collapse", Collapse),
        ("retrieval", Retrieval),
    ]


class TsneProgress(Structure):
    """ole_tsne_progress"""

    _fields_ = [
        ("stage", c_char_p),
        ("share", c_double),
        ("iteration", c_int),
        ("iterations", c_int),
        ("kl", c_double),
        ("map", c_void_p),
    ]


TsneCallback = CFUNCTYPE(c_bool, c_void_p, POINTER(TsneProgress))


class TsneOptions(Structure):
    """ole_tsne_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("perplexity", c_double),
        ("theta", c_double),
        ("iterations", c_int),
        ("exaggeration", c_double),
        ("exaggerated", c_int),
        ("learning_rate", c_double),
        ("pca", c_int),
        ("seed", c_uint64),
        ("start", c_void_p),
        ("threads", c_int),
        ("every", c_int),
        ("callback", TsneCallback),
        ("callback_context", c_void_p),
    ]


class Roc(Structure):
    """ole_roc"""

    _fields_ = [
        ("positives", c_int64),
        ("negatives", c_int64),
        ("auroc", c_double),
        ("ap_positive", c_double),
        ("ap_negative", c_double),
        ("fpr95", c_double),
        ("points", c_int64),
        ("threshold", c_void_p),
        ("tpr", c_void_p),
        ("fpr", c_void_p),
    ]


class Pair(Structure):
    """ole_pair"""

    _fields_ = [("a", c_int64), ("b", c_int64), ("same", c_bool), ("fold", c_int)]


class Pairs(Structure):
    """ole_pairs"""

    _fields_ = [("count", c_int64), ("folds", c_int), ("pair", POINTER(Pair))]


class Verification(Structure):
    """ole_verification"""

    _fields_ = [
        ("count", c_int64),
        ("same", c_int64),
        ("accuracy", c_double),
        ("accuracy_std", c_double),
        ("folds", c_int),
        ("fold_accuracy", c_void_p),
        ("fold_threshold", c_void_p),
        ("score", c_void_p),
        ("threshold", c_double),
        ("roc", Roc),
    ]


class Matrix(Structure):
    """ole_matrix"""

    _fields_ = [
        ("data", c_void_p),
        ("rows", c_int64),
        ("cols", c_int64),
        ("stride", c_int64),
        ("dtype", c_int),
    ]


class AlignOptions(Structure):
    """ole_align_options"""

    _fields_ = [("struct_size", c_size_t), ("centre", c_bool), ("threads", c_int)]


class Alignment(Structure):
    """ole_alignment"""

    _fields_ = [
        ("from", c_int64),
        ("to", c_int64),
        ("map", c_void_p),
        ("shift", c_void_p),
        ("rank", c_int64),
        ("scale", c_double),
        ("residual", c_double),
        ("cosine", c_double),
    ]
