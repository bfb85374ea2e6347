"""Finds and loads liboletrain, which models need, and mirrors its structs (ole/train/model.h, ole/train/embed.h).

It lies beside libole; the loss and the analyses work without it.
"""
from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, Structure, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Iterator

from . import _library as native
from ._library import library, library_path
from ._structs import PartCallback, Roc


class ModelInfo(Structure):
    """ole_model_info"""

    _fields_ = [
        ("net", c_char_p),
        ("channels", c_int),
        ("height", c_int),
        ("width", c_int),
        ("features", c_int64),
        ("classes", c_int),
        ("class_names", POINTER(c_char_p)),
        ("threshold", c_double),
        ("threshold_score", c_int),
        ("temperature", c_double),
        ("classifier", c_bool),
        ("threshold_from", c_int),
        ("threshold_samples", c_int64),
    ]


RUNNERS_UP = 4


class Prediction(Structure):
    """ole_prediction"""

    _fields_ = [
        ("label", c_int),
        ("best", c_int),
        ("score", c_double),
        ("runner_up", c_int * RUNNERS_UP),
        ("runner_up_score", c_double * RUNNERS_UP),
        ("known_score", c_double),
    ]


class EmbedTrial(Structure):
    """ole_embed_trial"""

    _fields_ = [
        ("lambda", c_double),
        ("weight_decay", c_double),
        ("width", c_int64),
        ("accuracy", c_double),
        ("nll", c_double),
    ]


class EmbedSummary(Structure):
    """ole_embed_summary"""

    _fields_ = [
        ("interrupted", c_bool),
        ("rows", c_int64),
        ("dim", c_int64),
        ("features", c_int64),
        ("classes", c_int),
        ("rarest", c_int64),
        ("single", c_int),
        ("lambda", c_double),
        ("weight_decay", c_double),
        ("width", c_int64),
        ("trials", c_int64),
        ("trial", POINTER(EmbedTrial)),
        ("held_out", c_int64),
        ("held_out_accuracy", c_double),
        ("training_accuracy", c_double),
        ("objective", c_double),
        ("iterations", c_int64),
        ("seconds", c_double),
    ]


class EmbedOptions(Structure):
    """ole_embed_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("method", c_int),
        ("threads", c_int),
        ("lambda", c_double),
        ("weight_decay", c_double),
        ("width", c_int64),
        ("epochs", c_int64),
        ("batch_size", c_int64),
        ("learning_rate", c_double),
        ("tolerance", c_double),
        ("class_weights", c_void_p),
        ("balanced", c_bool),
        ("unknown", c_bool),
        ("folds", c_int),
        ("seed", c_uint64),
        ("device", c_char_p),
        ("callback", PartCallback),
        ("callback_context", c_void_p),
    ]


class NoveltyOptions(Structure):
    """ole_novelty_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("keep", c_double),
        ("temperature", c_double),
        ("known_split", c_int),
        ("novel_split", c_int),
        ("novel_all", c_bool),
        ("choose", c_bool),
        ("threads", c_int),
        ("callback", PartCallback),
        ("callback_context", c_void_p),
    ]


SCORES, GROUPS = 13, 5


class Calibration(Structure):
    """ole_calibration"""

    _fields_ = [
        ("temperature", c_double),
        ("ece", c_double),
        ("nll", c_double),
        ("count", c_int64 * 15),
        ("score", c_double * 15),
        ("accuracy", c_double * 15),
    ]


class NoveltyScore(Structure):
    """ole_novelty_score"""

    _fields_ = [
        ("score", c_int),
        ("threshold", c_double),
        ("kept", c_double),
        ("accuracy", c_double),
        ("accepted", c_double),
        ("roc", Roc),
        ("accuracy_at", c_void_p),
        ("known", c_void_p),
        ("novel", c_void_p),
        ("scorer", c_void_p),
    ]


class NoveltyChoice(Structure):
    """ole_novelty_choice"""

    _fields_ = [
        ("score", c_int),
        ("groups", c_int),
        ("map_refitted", c_bool),
        ("rows", c_int64),
        ("held_out", c_int64),
        ("auroc", c_double * GROUPS * SCORES),
        ("mean", c_double * SCORES),
        ("threshold", c_double * SCORES),
        ("temperature", c_double),
    ]


class Novelty(Structure):
    """ole_novelty"""

    _fields_ = [
        ("interrupted", c_bool),
        ("validation_count", c_int64),
        ("known_count", c_int64),
        ("novel_count", c_int64),
        ("accuracy", c_double),
        ("validation_accuracy", c_double),
        ("temperature_fitted", c_bool),
        ("before", Calibration),
        ("after", Calibration),
        ("score", NoveltyScore * SCORES),
        ("known_label", c_void_p),
        ("known_predicted", c_void_p),
        ("novel_label", c_void_p),
        ("novel_predicted", c_void_p),
        ("choice", NoveltyChoice),
    ]


def _candidates() -> Iterator[str]:
    path = Path(library_path())
    if path.parent != Path("."):
        yield str(path.with_name(path.name.replace("libole", "liboletrain", 1)))
    yield "liboletrain.so.0.2"


@functools.lru_cache(maxsize=None)
def train_library() -> ctypes.CDLL:
    """liboletrain, loaded on the first call."""
    library()
    reasons = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as reason:
            reasons.append(str(reason))
    raise native.Error(
        f"models need liboletrain, which cannot be loaded ({reasons[0]}); this package may be built without training: "
        "install a wheel with it, or set OLE_LIBRARY to the libole.so of a whole build"
    )
