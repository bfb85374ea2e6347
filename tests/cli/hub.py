#!/usr/bin/env python3
"""hub.py OLE - models on a hub, from a server on the loopback that behaves as Hugging Face's does.

The server redirects the files of me/digits to its storage, with X-Linked-ETag and X-Linked-Size; it can break a
transfer off, lie, and go away.
"""
import base64
import hashlib
import http.server
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ole = os.path.abspath(sys.argv[1])
folder = Path(tempfile.mkdtemp())
cache = folder / "cache"
passed = 0


class Hub:
    """What the server does next, and what it was asked."""
    content = b""
    commit = "0" * 40
    etag = None        # instead of the sha256 sum
    plain = 'W/"plain"'  # where nothing is redirected; None: none
    sends = None       # bytes after which a transfer breaks off
    corrupt = False    # sends other bytes than it announces
    linked = True      # answers with a redirect to the storage
    size = None        # announced instead of the size
    endless = False    # names no size, and sends 64 MB
    asked = []
    password = "Basic " + base64.b64encode(b"me:SECRET1").decode()
    beside = {}        # what else is in the repository


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, body):
        Hub.asked.append((self.command, self.path, self.headers.get("Range")))
        match = re.fullmatch(r"/me/digits/resolve/(main|v1|0{40})/model.safetensors", self.path)
        name = self.path.rsplit("/", 1)[-1]
        if self.path.startswith("/weights/") and name not in ("none.safetensors", "none.caffemodel"):
            self.send(body)
        elif self.path.startswith("/me/digits/resolve/main/") and name in Hub.beside:
            self.send_response(200)
            self.send_header("Content-Length", str(len(Hub.beside[name])))
            self.end_headers()
            self.wfile.write(Hub.beside[name])
        elif self.path.startswith("/private/"):
            good = self.path.endswith("?token=SECRET2") and self.headers.get("Authorization") == Hub.password
            self.send(body) if good else self.send_error(401)
        elif self.path == "/storage" or (match and not Hub.linked):
            self.send(body)
        elif match:
            self.send_response(302)
            self.send_header("ETag", '"of the redirect"')
            self.send_header("X-Linked-ETag", f'"{Hub.etag or hashlib.sha256(Hub.content).hexdigest()}"')
            self.send_header("X-Linked-Size", str(Hub.size or len(Hub.content)))
            self.send_header("X-Repo-Commit", Hub.commit)
            self.send_header("Location", "/storage")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path.startswith("/old/"):
            self.send_response(307)
            self.send_header("Location", self.path.replace("/old/name/", "/me/digits/"))
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.send_error(404)

    def send_without_end(self, body):
        self.send_response(206 if "Range" in self.headers else 200)
        if "Range" in self.headers:
            start = int(self.headers["Range"][len("bytes="):-1])
            self.send_header("Content-Range", f"bytes {start}-{10**12}/*")
        self.end_headers()
        self.close_connection = True
        try:
            for _ in range(64 if body else 0):
                self.wfile.write(bytes(10**6))
        except OSError:
            pass  # the other side has closed

    def send(self, body):
        if Hub.endless:
            self.send_without_end(body)
            return
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        content = Hub.content[start:]
        self.send_response(206 if asked else 200)
        if Hub.plain:
            self.send_header("ETag", Hub.plain)
        self.send_header("Content-Length", str(Hub.size if Hub.size and self.path.startswith("/weights/") else len(content)))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(Hub.content) - 1}/{len(Hub.content)}")
        self.end_headers()
        if not body:
            return
        if Hub.corrupt:
            content = content[:-1] + bytes([content[-1] ^ 1])
        if Hub.sends is not None:
            content, Hub.sends = content[:Hub.sends], None
            self.close_connection = True
        self.wfile.write(content)


def run(*words, code=0, **variables):
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "HF_ENDPOINT": endpoint, **variables}
    environment.pop("OLE_DATA", None)
    r = subprocess.run([ole, *words], capture_output=True, text=True, env=environment, cwd=folder)
    assert r.returncode == code, (words, r.returncode, r.stdout, r.stderr)
    return r


def check(what, good, shown=""):
    global passed
    assert good, (what, shown)
    passed += 1


def fails(message, *words, code=1, **variables):
    r = run(*words, code=code, **variables)
    check(message, re.search(message, r.stderr) and r.stderr.count("\n") == 1, r.stderr)


def evaluate(name="hf:me/digits", **variables):
    return json.loads(run("eval", name, "digits", "--json", **variables).stdout)["error"]


def requests(method):
    return [path for command, path, _ in Hub.asked if command == method]


def forget():
    for path in sorted(cache.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    Hub.asked.clear()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
endpoint = f"http://127.0.0.1:{server.server_address[1]}"

run("train", "digits", "--net", "C8-MP-FC32", "--epochs", "2", "--out", "run", "--val-split", "20%", "--no-report")
best = folder / "run/best.safetensors"
Hub.content = best.read_bytes()
right = evaluate(str(best))

# ---- Fetching and the cache ---------------------------------------------------------------------

check("fetched", evaluate() == right)
check("of the commit that was announced", requests("GET") == [f"/me/digits/resolve/{Hub.commit}/model.safetensors", "/storage"],
      Hub.asked)
kept = cache / "ole/hub/me/digits/main"
check("cached", sorted(p.name for p in kept.iterdir()) == ["etag", "model.safetensors"])
check("cached as it was", (kept / "model.safetensors").read_bytes() == Hub.content)
Hub.asked.clear()
check("not fetched twice", evaluate() == right and not requests("GET") and len(requests("HEAD")) == 1, Hub.asked)
check("another revision", evaluate("hf:me/digits@v1") == right and (kept.parent / "v1").is_dir())
check("a renamed model", evaluate("hf:old/name") == right)
(kept / "etag").unlink()
Hub.asked.clear()
check("a lost etag fetches nothing", evaluate() == right and not requests("GET") and (kept / "etag").exists())

# Every command that takes a model, and weights to start from.
image = folder / "image.pgm"
image.write_bytes(b"P5 8 8 255 " + bytes(range(64)))
check("predict", run("predict", "hf:me/digits", "image.pgm").stdout == run("predict", str(best), "image.pgm").stdout)
run("features", "hf:me/digits", "image.pgm", "--out", "F.npy", "L.txt")
run("export", "hf:me/digits", "--onnx", "m.onnx")
run("novelty", "hf:me/digits", "--known", "digits", "--val-split", "20%", "--no-store")
r = run("train", "digits", "--net", "C8-MP-FC32", "--epochs", "1", "--out", "tuned", "--init-from", "hf:me/digits", "--no-report")
check("weights to start from", "0 skipped" in r.stderr, r.stderr)

# What is stated beside the weights: normalisation, image size, network, licence.
TUNE = ["train", "digits", "--samples-per-class", "4", "--epochs", "1", "--no-report", "--init-from"]
Hub.beside["config.json"] = json.dumps({"architecture": "cnn5", "pretrained_cfg": {
    "mean": [0.25], "std": [0.5], "input_size": [1, 8, 8]}}).encode()
Hub.beside["README.md"] = b"---\ntags:\n- image\nlicense: apache-2.0\n---\nlicense: other\n"
r = run(*TUNE, "hf:me/digits", "--net", "C8-MP-FC32", "--out", "stated")
check("licence", "hf:me/digits: licence apache-2.0, from its model card" in r.stderr, r.stderr)
check("normalisation", "normalize: 0.25/0.5, from the config.json of the weights" in r.stderr and
      "normalize: 0.25/0.5" in (folder / "stated/config.yaml").read_text(), r.stderr)
r = run(*TUNE, "hf:me/digits", "--net", "C8-MP-FC32", "--normalize", "half", "--out", "half")
check("a given normalisation stays", "normalize: half" in (folder / "half/config.yaml").read_text(), r.stderr)
r = run(*TUNE, "hf:me/digits", "--net", "C8-MP-FC32", "--out", "offline", HF_HUB_OFFLINE="1")
check("as cached", "licence apache-2.0" in r.stderr and "normalize: 0.25/0.5" in r.stderr, r.stderr)
Hub.beside["config.json"] = b'{"mean": [1, "x"], "std": [0], "input_size": [1, 1e9, 3], "architecture": "../x"}'
Hub.beside["README.md"] = b"---\nlanguage: en\n---\nlicense: other\n"
r = run(*TUNE, "hf:me/digits", "--net", "C8-MP-FC32", "--out", "unstated")
check("nonsense is ignored", "states no licence" in r.stderr and "normalize" not in r.stderr and
      "net:" not in r.stderr, r.stderr)
Hub.beside.clear()
local = folder / "local"
local.mkdir()
(local / "w.safetensors").write_bytes(Hub.content)
(local / "config.json").write_text('{"image_mean": [0.5], "image_std": [0.25], "input_size": [1, 12, 12], "architecture": "cnn5"}')
# Deviations that no images have, also of a hub; a normalisation that is given makes up for them.
for deviation in ("1e-30", "0", "-0.5", "NaN"):
    stated = f'{{"mean": [0.5], "std": [{deviation}]}}'
    (local / "bad").mkdir(exist_ok=True)
    (local / "bad/config.json").write_text(stated)
    (local / "bad/w.safetensors").write_bytes(Hub.content)
    expected = ("line 1: .*NaN'" if deviation == "NaN" else f"a standard deviation of {deviation}: expected 1e-6 or more") + \
        "; mend the file, or set --normalize"
    fails("^ole train: local/bad/config.json: " + expected, *TUNE, "local/bad/w.safetensors", "--net", "C8-MP-FC32", "--out", "bad")
Hub.beside["config.json"] = stated.encode()
fails("config.json: line 1: .*NaN'", *TUNE, "hf:me/digits", "--net", "C8-MP-FC32", "--out", "bad")
run(*TUNE, "local/bad/w.safetensors", "--net", "C8-MP-FC32", "--normalize", "half", "--out", "good")
check("nothing was begun with them", not (folder / "bad").exists())
Hub.beside.clear()
for name in ("a", "b"):
    (folder / "tiny" / name).mkdir(parents=True)
    for i in range(6):
        (folder / "tiny" / name / f"{i}.pgm").write_bytes(b"P5 8 8 255 " + os.urandom(64))
r = run("train", "folder:tiny", "--epochs", "1", "--no-report", "--init-from", "local/w.safetensors", "--net", "C8-MP-FC32",
        "--out", "sized")
check("size from a local config.json", "images: 12x12, from the config.json" in r.stderr and "normalize: 0.5/0.25" in r.stderr and
      "warning: local/w.safetensors: 3.linear.weight is for images of another size; it starts untrained" in r.stderr, r.stderr)

# Few images: the commands that are printed leave the backbone as it is, and run as they are.
r = run(*TUNE, "hf:me/digits", "--net", "C8-MP-FC32", "--normalize", "half", "--out", "few")
commands = re.search(r"with only 40 images, a classifier on the pretrained features may have the lower error: (.*)", r.stderr)[1]
r = subprocess.run(["bash", "-ec", f'ole() {{ "{ole}" "$@"; }}; {commands}'], capture_output=True, text=True, cwd=folder,
                   env={**os.environ, "XDG_CACHE_HOME": str(cache), "HF_ENDPOINT": endpoint})
check("commands for few images", r.returncode == 0 and (folder / "fitted.safetensors").exists() and
      "a classifier on the pretrained" not in r.stderr, r.stderr)
begun, kept_weights = ((folder / p).read_bytes() for p in ("run/best.safetensors", "backbone/best.safetensors"))


def tensor(data, name):
    at = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])[name]["data_offsets"]
    start = 8 + struct.unpack("<Q", data[:8])[0]
    return data[start + at[0]:start + at[1]]


check("the backbone as it was", all(tensor(begun, n) == tensor(kept_weights, n) for n in (
    "1.conv.weight", "1.norm.weight", "1.norm.running_mean", "1.norm.running_var", "3.linear.weight")))

# Weights at a URL, with and without a checksum.
url = f"{endpoint}/weights/w-1.safetensors"
summed = f"{url}?x=1#sha256={hashlib.sha256(Hub.content).hexdigest()}"
Hub.asked.clear()
NET = ["--net", "C8-MP-FC32", "--out"]
check("by URL", "0 skipped" in run(*TUNE, url, *NET, "url1").stderr and requests("GET"))
Hub.asked.clear()
check("the same version is not fetched again", "0 skipped" in run(*TUNE, url, *NET, "url2").stderr and not requests("GET"))
# Without an ETag nothing tells versions apart: each run fetches once, and with seeds too.
Hub.plain = None
for i, seeds in enumerate(("1", "1", "2")):
    Hub.asked.clear()
    run(*TUNE, url, *NET, f"untagged{i}", "--seeds", seeds)
    check("once per run", [a[0] for a in Hub.asked] == ["HEAD", "GET"], Hub.asked)
Hub.plain = 'W/"plain"'
check("with a checksum", "0 skipped" in run(*TUNE, summed, *NET, "url3").stderr)
Hub.asked.clear()
check("a checked file needs no server", "0 skipped" in run(*TUNE, summed, *NET, "url4").stderr and not Hub.asked)
for path in cache.glob("ole/url/*/*"):
    path.unlink()
Hub.sends = 1000
check("resumed", "0 skipped" in run(*TUNE, summed, *NET, "url5").stderr and ("GET", "/weights/w-1.safetensors?x=1", "bytes=1000-") in Hub.asked,
      Hub.asked)
fails("the checksum is .*; removed", *TUNE, url + "#sha256=" + 64 * "0", *NET, "url6")
Hub.size = 5_000_000_000
fails("w-1.safetensors has 5 GB, over the limit of 4 GB; if it should, download it by hand and name the file", *TUNE, url, *NET,
      "url6")
Hub.size = None
# A body without an end: what is missing to the limit arrives, behind a part with a hole.
forget()
run(*TUNE, url, *NET, "url5b")
place = next(cache.glob("ole/url/*/w-1.safetensors"))
place.unlink()
Hub.endless = True
with open(f"{place}.part", "wb") as part:
    part.truncate(4_000_000_000 - 100_000)
fails("w-1.safetensors: larger than the limit of 4 GB; removed; if it should be, download it by hand and name the file", *TUNE, url,
      *NET, "url6")
check("the part is removed", [p.name for p in place.parent.iterdir()] == ["etag"], list(place.parent.iterdir()))
Hub.endless = False
fails("the server answers with HTTP 404", *TUNE, f"{endpoint}/weights/none.safetensors", *NET, "url6")
fails("after '#' expected sha256= and 64 digits", *TUNE, url + "#sha256=0", *NET, "url6", code=2)
for bad in ("/weights/w.pth", "/weights/", "/weights/..safetensors", "/weights/a%2fb.safetensors", "/x.safetensors/", ""):
    fails("expected the URL of a .safetensors or .caffemodel file", *TUNE, endpoint + bad, *NET, "url6", code=2)
check("nothing was begun", not (folder / "url6").exists())
fails("cannot be stored in a model on a hub; pass --no-store", "novelty", "hf:me/digits", "--known", "digits", code=2)
fails("name the data", "eval", "hf:me/digits", code=2)

# User, password and token of a URL are sent, but neither printed nor stored.
forget()
private = f"{endpoint}/private/w.safetensors".replace("//", "//me:SECRET1@")
r = run(*TUNE, f"{private}?token=SECRET2#sha256={hashlib.sha256(Hub.content).hexdigest()}", *NET, "url7")
shown = r.stdout + r.stderr
stored = [p for place in (folder / "url7", cache) for p in place.rglob("*") if p.is_file()]
check("loaded with a password", "0 skipped" in shown and "a classifier on the pretrained" in shown, shown)
check("no secret is printed", "SECRET" not in shown and "@127" not in shown, shown)
check("nor stored", len(stored) > 5 and not [p for p in stored if re.search(rb"SECRET|me:S", p.read_bytes())], stored)
check("but the URL is", f"init_from: {endpoint}/private/w.safetensors#sha256=" in (folder / "url7/config.yaml").read_text(),
      (folder / "url7/config.yaml").read_text())
Hub.asked.clear()
run("train", "--resume", "--out", "url7", "--epochs", "2")
check("resumed without the password", "epochs: 2\n" in (folder / "url7/config.yaml").read_text() and not Hub.asked, Hub.asked)
for bad, message in ((f"{private}?token=SECRET3", "HTTP 401"), (f"{private}?token=SECRET2#sum", "after '#' expected"),
                     (f"{private}.pth?token=SECRET2", "expected the URL of"),
                     (f"{private}?token=SECRET2#sha256={64 * '0'}", "the checksum is"),
                     ("http://me:SECRET1@127.0.0.1:1/w.safetensors?SECRET2", "no answer"), ("ftp://me:SECRET1@x/w", "cannot read")):
    r = subprocess.run([ole, *TUNE, bad, *NET, "url8"], capture_output=True, text=True, cwd=folder,
                       env={**os.environ, "XDG_CACHE_HOME": str(cache)})
    check("no secret in an error", r.returncode in (1, 2) and message in r.stderr and "SECRET" not in r.stderr, r.stderr)

# A new version replaces the cached one.
before = Hub.content
head = json.loads(before[8:8 + struct.unpack("<Q", before[:8])[0]])
run("train", "digits", "--net", "C8-MP-FC32", "--epochs", "1", "--out", "newer", "--val-split", "20%", "--no-report")
Hub.content = (folder / "newer/best.safetensors").read_bytes()
check("a new version", evaluate() == evaluate("newer/best.safetensors") != right)
Hub.content = before
check("and back", evaluate() == right)

# ---- Exporting to a folder ----------------------------------------------------------------------

FILES = ["README.md", "config.json", "load_in_torch.py", "model.onnx", "model.safetensors"]


def read_tensors(path):
    data = path.read_bytes()
    return json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])


def card(hub):
    """The front matter, as flat lines, and the text of README.md."""
    check("five files", sorted(p.name for p in (folder / hub).iterdir()) == FILES)
    front, text = (folder / hub / "README.md").read_text("utf-8").split("---\n", 2)[1:]
    check("nothing of this machine", str(folder) not in front + text, text)
    return front.splitlines(), text


r = run("export", "run", "--hub", "hub/first digits!")
check("what was written", f"error {right:.2f} % on 539 samples" in r.stdout and "OWNER/first-digits 'hub" in r.stdout, r.stdout)
front, text = card("hub/first digits!")
check("front matter", {"library_name: ole", "- image-classification", "- digits", '- name: "first-digits"',
                       "      split: test", "- open-set-recognition"} <= set(front), front)
value = float(next(line.split()[1] for line in front if "value:" in line))
check("accuracy", abs(value - (1 - right / 100)) < 1e-5, value)
errors = {c["class"]: c["error"] for c in json.loads(run("eval", "run", "digits", "--json").stdout)["per_class"]}
check("errors of classes", all(f"| {name} | " in text and f" | {error:.2f} % |" in text for name, error in errors.items()))
check("calibration and threshold", "expected calibration error" in text and "A sample is `unknown`" in text)
check("the recipe", "\nval_split: 0.2\n" in text and "\ndata: digits\n" in text)
check("weights as they were", read_tensors(folder / "hub/first digits!/model.safetensors").keys() == head.keys())
config = json.loads((folder / "hub/first digits!/config.json").read_text())
check("configuration", config["net"] == "C8-MP-FC32" and config["id2label"]["9"] == "9" and
      config["graph"] == json.loads(run("net", "C8-MP-FC32", "--input", "1x8x8", "--graph").stdout))
check("the loader", (folder / "hub/first digits!/load_in_torch.py").read_bytes() ==
      (Path(__file__).resolve().parents[2] / "examples/load_in_torch.py").read_bytes())
run("export", "run", "--onnx", "same.onnx")
check("the ONNX file", (folder / "same.onnx").read_bytes() == (folder / "hub/first digits!/model.onnx").read_bytes())
Hub.content = (folder / "hub/first digits!/model.safetensors").read_bytes()
check("from a folder to the hub and back", evaluate() == right)
Hub.content = before
fails("README.md|model.safetensors: already exists; remove it, or choose another folder", "export", "run", "--hub", "hub/first digits!")

# A checkpoint leaves its optimizer and its paths here; so do the paths of a folder of photos, whose names mean nothing.
for name in ("a|b", "<c>", "d\"e"):
    place = folder / "my photos" / name
    place.mkdir(parents=True)
    for i in range(6):
        (place / f"{i}.pgm").write_bytes(b"P5 8 8 255 " + os.urandom(64))
run("train", f"folder:{folder}/my photos/", "--net", "C4-MP-FC8", "--epochs", "1", "--out", "photos", "--no-report")
(folder / "photos/best.safetensors").unlink()
r = json.loads(run("export", "photos", "--hub", "hub/photos", "--onnx", "p.onnx", "--json").stdout)
check("JSON of both", r["samples"] == 3 and r["name"] == "photos" and r["onnx"] == "p.onnx", r)
front, text = card("hub/photos")
check("a name without its folders", '      name: "folder:my photos"' in front and "\ndata: folder:my photos\n" in text, text)
check("names that could be markup", r"\<c\>, a\|b, d" in text, text)
tensors = read_tensors(folder / "hub/photos/model.safetensors")
check("no optimizer", not [t for t in tensors if t.startswith(("optimizer", "train"))] and "config" not in tensors["__metadata__"])
check("no path in any file", not [p for p in (folder / "hub/photos").iterdir() if str(folder).encode() in p.read_bytes()])
(folder / "my photos").rename(folder / "gone")
r = run("export", "photos", "--hub", "hub/without")
check("not measured", "not measured: " in r.stdout and "my photos" in r.stdout, r.stdout)
check("the run's own error", "test error" in card("hub/without")[1])
(folder / "alone").mkdir()
(folder / "alone/m.safetensors").write_bytes(before)
r = run("export", "alone/m.safetensors", "--hub", "hub/alone")
check("a model without its run", "Not measured." in card("hub/alone")[1] and "not measured: no run folder" in r.stdout)
run("export", "hf:me/digits", "--hub", "hub/fetched")
check("a model of the hub", "Not measured." in card("hub/fetched")[1])

fails("name what to write", "export", "run", code=2)
fails("--fold works only with --onnx", "export", "run", "--hub", "x", "--fold", code=2)
(folder / "hub/linked").mkdir()
(folder / "hub/linked/README.md").symlink_to(folder / "mine")
fails("a symbolic link, and nothing is written through links", "export", "run", "--hub", "hub/linked")
check("what the link would have led to", not (folder / "mine").exists() and len(list((folder / "hub/linked").iterdir())) == 1)

# ---- What goes wrong ----------------------------------------------------------------------------

forget()
Hub.sends = 1000
check("resumed", evaluate() == right)
check("from where it broke off", ("GET", "/storage", "bytes=1000-") in Hub.asked, Hub.asked)
forget()
(kept).mkdir(parents=True)
(kept / "model.safetensors.part").write_bytes(b"of an older version" * 20)
check("a foreign part", evaluate() == right)
forget()
Hub.corrupt = True
fails("the checksum is .*; removed", "eval", "hf:me/digits", "digits")
check("nothing is left of it", not list(kept.iterdir()), list(kept.iterdir()))
Hub.corrupt = False
Hub.size = 30_000_000_000
fails("has 30 GB, over the limit of 20 GB", "eval", "hf:me/digits", "digits")
Hub.size = 100
fails("longer than the published 100 bytes", "eval", "hf:me/digits", "digits")
Hub.size = None
Hub.etag = "not a sum, and ../../up"
check("without a sum", evaluate() == right)
Hub.etag = None
Hub.linked = False
forget()
check("a small file is not redirected", evaluate() == right and (kept / "etag").read_text() == "plain")
Hub.linked = True
fails(r"hf:me/none: the hub has no such model .*HTTP 404", "eval", "hf:me/none", "digits")
for name in ("hf:", "hf:me", "hf:me/", "hf:/digits", "hf:../digits", "hf:me/..", "hf:me/a..b", "hf:me/.git", "hf:me/x/y",
             "hf:me/x@../../x", "hf:me/x@", "hf:me/x%2e%2e", "hf:me/x?y", "hf:-me/x", "hf:me/" + 97 * "x"):
    fails("not the name of a model on a hub", "eval", name, "digits", code=2)
fails("HF_ENDPOINT file:///etc: a URL of http or https expected", "eval", "hf:me/digits", "digits", code=2,
      HF_ENDPOINT="file:///etc")
Hub.content = b"<html>not a model</html>" * 100
forget()
fails("model.safetensors: ", "eval", "hf:me/digits", "digits")
Hub.content = before

# Nothing goes through links below the cache.
forget()
elsewhere = folder / "elsewhere"
elsewhere.mkdir()
(cache / "ole/hub").mkdir(parents=True)
(cache / "ole/hub/me").symlink_to(elsewhere)
fails("a symbolic link, and nothing is written through links", "eval", "hf:me/digits", "digits")
(cache / "ole/hub/me").unlink()
kept.mkdir(parents=True)
(folder / "mine").write_text("mine")
(kept / "model.safetensors").symlink_to(folder / "mine")
fails("a symbolic link, and nothing is written through links", "eval", "hf:me/digits", "digits")
check("what a link led to", (folder / "mine").read_text() == "mine" and not list(elsewhere.iterdir()))

# ---- Without the hub ----------------------------------------------------------------------------

forget()
check("once more", evaluate() == right)
Hub.asked.clear()
check("offline by choice", evaluate(HF_HUB_OFFLINE="1") == right and not Hub.asked)
fails("not in the cache, and HF_HUB_OFFLINE is set", "eval", "hf:me/other", "digits", HF_HUB_OFFLINE="1")
server.shutdown()
server.server_close()
check("the cached version serves", evaluate() == right)
fails("no answer", "eval", "hf:me/other", "digits")

print(f"{passed} checks passed")
