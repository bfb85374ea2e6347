#!/usr/bin/env python3
"""test_onnx.py - `ole export --onnx`: ONNX's own checker, and ONNX Runtime against Olé.

Every network of the paper's Table 1, and two more, with random weights, as they are and with --fold:
features and logits of ole_model_run() and the scores of `ole predict`, to 1e-4.  Then the ONNX Runtime part of model
cards, as printed.  Exits with 77 where onnx and onnxruntime are not installed.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import hub_cards
import networks

MOST = 1e-4
# Batch norms that --fold leaves: those that read a sum, a concatenation or a pool.
KEPT = {"preresnet110": 55, "densenet40": 39, list(networks.OTHERS)[0]: 1, list(networks.OTHERS)[1]: 3}


def export(ole, model, *flags):
    """The path of the ONNX file, checked as a whole, with shapes inferred."""
    path = model.with_suffix(".onnx")
    subprocess.run([ole, "export", model, "--onnx", path, *flags], check=True,
                   stdout=subprocess.DEVNULL)
    onnx.checker.check_model(str(path), full_check=True)
    return path


def run(path, images):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    return session.run(["features", "logits"], {given.name: images.reshape(len(images), *given.shape[1:])})


def predicted(ole, model, image):
    """{class: score} of `ole predict` for an image of bytes, [3, H, W]."""
    picture = model.with_suffix(".ppm")
    picture.write_bytes(b"P6 %d %d 255\n" % (image.shape[2], image.shape[1])
                        + image.transpose(1, 2, 0).tobytes())
    out = subprocess.check_output([ole, "predict", model, picture, "--json"])
    return {c["label"]: c["score"] for c in json.loads(out)[0]["classes"]}


def score_distance(ole, model, image, logits):
    scores = np.exp(logits - logits.max())
    scores /= scores.sum()
    return max(abs(scores[int(label.split()[1])] - score)
               for label, score in predicted(ole, model, image).items())


def norms(path):
    return sum(node.op_type == "BatchNormalization" for node in onnx.load(str(path)).graph.node)


def compare(ole, work, net):
    shape = networks.input_shape(ole, net)
    model = Path(work) / "model.safetensors"
    networks.write_model(ole, model, net, shape)
    pixels = networks.random_images(shape, 3)
    images = pixels.astype(np.float32) / 255
    distances, kept = [], []
    for flags in ((), ("--fold",)):
        path = export(ole, model, *flags)
        theirs = run(path, images)
        ours = networks.run_model(ole, model, images, theirs[0].shape[1])
        alone = run(path, images[1:2])  # the batch is free
        distances += [networks.distance(a, b) for a, b in zip(ours, theirs)]
        distances += [networks.distance(a[1:2], b) for a, b in zip(ours, alone)]
        if shape[0] == 3:
            distances.append(score_distance(ole, model, pixels[0], theirs[1][0]))
        kept.append(norms(path))
        path.unlink()
    model.unlink()
    print(f"{net}: differs by {max(distances):.1e}, {kept[0]} batch norms, {kept[1]} when folded,"
          f" logits vary by {ours[1].std(axis=0).max():.2g}")
    return max(distances) <= MOST and kept[1] == KEPT.get(net, 0) and ours[1].std(axis=0).max() > 0.01


def check_face(ole, work):
    """The net of the face experiment, on smaller images: its structure."""
    model = Path(work) / "face.safetensors"
    networks.write_model(ole, model, "vggface", [3, 32, 32])
    types = [node.op_type for node in onnx.load(str(export(ole, model))).graph.node]
    return (types.count("Conv"), types.count("Gemm"), types.count("MaxPool")) == (13, 4, 5) and \
        "Dropout" not in types


def check_card(ole, work):
    """What a reader of the file can know: names, shapes, versions, the classes."""
    model = Path(work) / "small.safetensors"
    networks.write_model(ole, model, "C4-MP-FC8", [1, 8, 8])
    proto = onnx.load(str(export(ole, model)))
    texts = {entry.key: entry.value for entry in proto.metadata_props}

    def shape(value):
        return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
    return (proto.ir_version, proto.opset_import[0].version, proto.producer_name) == (8, 17, "ole") \
        and shape(proto.graph.input[0]) == ["N", 1, 8, 8] and len(proto.graph.input) == 1 \
        and [(v.name, *shape(v)) for v in proto.graph.output] == [("features", "N", 8),
                                                                  ("logits", "N", 10)] \
        and texts["net"] == "C4-MP-FC8" and json.loads(texts["class_names"])[3] == "class 3"


def check_vectors(ole, work):
    """A model of vectors takes rows, whatever ops it begins with."""
    good = []
    for net in ("FC8", "C4[k1]-AP"):
        model = Path(work) / "vectors.safetensors"
        networks.write_model(ole, model, net, [5, 1, 1])
        path = export(ole, model)
        value = onnx.load(str(path)).graph.input[0]
        rows = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
        theirs = run(path, rows)
        ours = networks.run_model(ole, model, rows.reshape(3, 5, 1, 1), theirs[0].shape[1])
        good.append(value.name == "x" and [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim] == [
            "N", 5] and all(networks.distance(a, b) <= MOST for a, b in zip(ours, theirs)))
    return all(good)


def check_scores(ole, work):
    """A model with a threshold has the score that it is of as an output: as `ole predict` has it."""
    digits, out = "digits", str(Path(work) / "run")
    images = np.random.default_rng(0).random((20, 1, 8, 8)).astype(np.float32)
    np.save(Path(work) / "x.npy", images)

    def call(*args):
        return subprocess.run([ole, *args], check=True, capture_output=True).stdout
    call("train", digits, "--net", "C4-MP-FC8", "--classes", "0,1,2,3,4,5,6", "--val-split", "20%", "--epochs", "3",
         "--no-report", "--out", out)
    good = []
    for score in ("calibrated", "softmax", "residual", "cosine", "energy"):
        if score != "calibrated":  # what training stores
            call("novelty", out, "--known", digits, "--novel", digits, "--score", score)
        path = export(ole, Path(out))
        texts = {entry.key: entry.value for entry in onnx.load(str(path)).metadata_props}
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        theirs = session.run(["known_score"], {"images": images})[0]
        ours = json.loads(call("predict", out, str(Path(work) / "x.npy"), "--json"))
        distance = max(abs(a - b["known_score"]) for a, b in zip(theirs, ours))
        print(f"known_score of {score}: differs by {distance:.1e}")
        good.append(distance <= MOST and texts["threshold_score"] == score and theirs.shape == (20,) and
                    [b["known"] for b in ours] == list(theirs >= float(texts["threshold"])))
    return all(good)


def check_fit(ole, work):
    """A fit of embeddings: map, classifier and the threshold of the score that the fit chose, or was given."""
    random, names = np.random.default_rng(1), np.array([f"intent {c}" for c in range(6)])
    y = np.arange(240) % 6
    x, far = (random.normal(size=(240, 10)) + 3 * np.eye(10)[y]), random.normal(size=(60, 10))
    np.save(Path(work) / "X.npy", x.astype(np.float32))
    (Path(work) / "X.txt").write_text("".join(f"{names[c]}\n" for c in y))
    rows = np.concatenate([x[:40], far]).astype(np.float32)
    np.save(Path(work) / "R.npy", rows)
    model, good = Path(work) / "fit.safetensors", []
    for score in ("auto", "cosine"):
        subprocess.run([ole, "fit", "X.npy", "X.txt", "--out", model, "--lambda", "0.01", "--weight-decay", "0.001",
                        "--score", score], check=True, capture_output=True, cwd=work)
        path = export(ole, model)
        texts = {entry.key: entry.value for entry in onnx.load(str(path)).metadata_props}
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        logits, known = session.run(["logits", "known_score"], {"x": rows})
        ours = json.loads(subprocess.check_output([ole, "predict", model, "R.npy", "--json"], cwd=work))
        distance = max(abs(a - b["known_score"]) / (1 + abs(a)) for a, b in zip(known, ours))
        print(f"fit, known_score of {texts['threshold_score']}: differs by {distance:.1e}")
        good.append(distance <= MOST and score in ("auto", texts["threshold_score"]) and
                    [one["known"] for one in ours] == list(known >= float(texts["threshold"])) and
                    [one["classes"][0]["label"] for one in ours] == list(names[logits.argmax(1)]) and
                    0 < sum(one["known"] for one in ours) < len(rows))
    return all(good)


def main():
    ole = networks.program()
    with tempfile.TemporaryDirectory(prefix="ole-onnx-") as work:
        good = [compare(ole, work, net) for net in (*networks.TABLE_1, *networks.OTHERS)]
        good += [check_card(ole, work), check_vectors(ole, work), check_face(ole, work), check_scores(ole, work), check_fit(ole, work)]
        good.append(hub_cards.check(ole, work, "onnxruntime"))
    return 0 if all(good) else 1


sys.exit(main())
