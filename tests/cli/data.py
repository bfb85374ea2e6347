#!/usr/bin/env python3
"""data.py OLE - runs `ole data`: lists, checks, and downloads from a server on the loopback address.

The server can break a connection in the middle and can refuse ranges; it serves what is made here.
"""
import gzip
import hashlib
import http.server
import io
import json
import os
import shutil
import ssl
import struct
import subprocess
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import run
from run import check, check_that, read_json

BIG = bytes(i * i % 251 for i in range(300000))
MD5 = hashlib.md5(BIG).hexdigest()
SHA256 = hashlib.sha256(BIG).hexdigest()


# ---- The server ---------------------------------------------------------------------------------

class Handler(http.server.BaseHTTPRequestHandler):
    files = {}     # path: bytes
    breaks = {}    # path: how many bytes a connection lasts; each break is used once
    ranges = True  # whether Range is honoured
    changed = None  # Last-Modified
    requests = []  # (path, Range header)
    slow = None    # (bytes, an event): what comes before the event, which the rest waits for

    moved = {}     # path: the address it redirects to

    def send_without_end(self, piece, pause, announced=None):
        """Pieces for as long as the other side reads, whatever size is announced; no more than a minute."""
        self.send_response(200)
        if announced:
            self.send_header("Content-Length", announced)
        self.end_headers()
        try:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                self.wfile.write(piece)
                time.sleep(pause)
        except OSError:
            pass  # it has closed
        self.close_connection = True

    def do_GET(self):
        Handler.requests.append((self.path, self.headers.get("Range")))
        if self.path == "/endless.bin":
            self.send_without_end(BIG, 0)
            return
        if self.path == "/drops.bin":
            self.send_without_end(b"x", 0.5, "100000")
            return
        if self.path in Handler.moved:
            self.send_response(302)
            self.send_header("Location", Handler.moved[self.path])
            self.end_headers()
            return
        body = Handler.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        start = 0
        asked = self.headers.get("Range")
        if asked and Handler.ranges:
            start = int(asked.removeprefix("bytes=").split("-")[0])
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        if Handler.changed:
            self.send_header("Last-Modified", Handler.changed)
        self.end_headers()
        lasts = Handler.breaks.pop(self.path, None)
        if Handler.slow:
            head, event = Handler.slow
            self.wfile.write(body[start:start + head])
            event.wait(60)
            start += head
        try:
            self.wfile.write(body[start:] if lasts is None else body[start:start + lasts])
        except OSError:
            pass  # the other side has had enough
        self.close_connection = True

    def log_message(self, *args):
        pass


def start_server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}"


def start_secure_server(work):
    """The same over https, and the file of its certificate; None where there is no openssl to make one."""
    if not shutil.which("openssl"):
        return None
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1",
                           "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", work / "key.pem", "-out",
                           work / "cert.pem", "-days", "2"], stderr=subprocess.DEVNULL, check=False)
    if made.returncode != 0:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(work / "cert.pem", work / "key.pem")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"https://127.0.0.1:{server.server_port}"


def serve(path, body, breaks=None, ranges=True):
    Handler.files[path] = body
    Handler.breaks = {path: breaks} if breaks else {}
    Handler.ranges = ranges
    Handler.requests = []


# ---- Files --------------------------------------------------------------------------------------

def tar_gz(members, links=(), kind=tarfile.LNKTYPE):
    """Members by their names; links, as pairs of names, behind them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        for name, other in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, other
            tar.addfile(entry)
    return out.getvalue()


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def idx(magic, shape, data):
    return struct.pack(f">{1 + len(shape)}I", magic, *shape) + data


def write_mnist(folder):
    folder.mkdir(parents=True)
    for part, count in (("train", 20), ("t10k", 10)):
        images = idx(0x803, (count, 2, 2), bytes(4 * count))
        labels = idx(0x801, (count,), bytes(i % 10 for i in range(count)))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))


def pgm(value):
    return b"P5 2 2 255\n" + bytes([value] * 4)


# ---- Checks -------------------------------------------------------------------------------------

def check_usage(ole):
    check(ole, "data", err="ole data: list, get or check expected; see 'ole data --help'\n", code=2)
    check(ole, "data put",
          err="ole data: put: list, get or check expected; see 'ole data --help'\n", code=2)
    check(ole, "data get", err="ole data get: missing argument NAME: a data set of 'ole data list', or a "
          "URL; see 'ole data get --help'\n", code=2)
    check(ole, "data get http://127.0.0.1/x.bin", err="ole data get: http://127.0.0.1/x.bin: a URL "
          "needs --out FOLDER\n", code=2)
    check(ole, "data get mnits", err="ole data get: mnits: unknown data set; 'ole data list' "
          "shows the known ones\n", code=2)
    for name in ("mnits", "mnits:somewhere"):
        check(ole, f"data check {name}", code=2, err="ole data check: mnits: unknown data set; choose "
              "digits, mnist, fashion-mnist, svhn, cifar10, cifar100, stl10, folder:PATH or npy:X.npy,y.npy\n")
    for args in ("data --help", "data list --help", "data get --help", "data check --help"):
        text = ole.run(*args.split())
        check_that(f"ole {args}", text.returncode == 0 and text.stdout.startswith("  $ ole data"))


def check_list(ole):
    text = ole.run("data", "list").stdout
    check_that("ole data list: digits", "digits         1,797 handwritten digits" in text)
    check_that("ole data list: where",
               "not here; 'ole data get cifar10' downloads 170.1 MB" in text)
    sets = read_json(ole, "data", "list", "--json")
    check_that("ole data list --json", [s["name"] for s in sets] == [
        "digits", "mnist", "fashion-mnist", "svhn", "cifar10", "cifar100", "stl10"])
    check_that("ole data list --json: here", [s["here"] for s in sets] == [True] + [False] * 6)


def check_check(ole, work):
    check(ole, "data check digits", "digits: 1258 samples to train on, 539 to test; 10 classes; "
          "1x8x8 bytes\n")
    write_mnist(work / "small")
    differs = "".join(f"differs    {part}-{kind}-ubyte.gz\n" for part in ("train", "t10k")
                      for kind in ("images-idx3", "labels-idx1"))
    check(ole, "data check mnist:small", differs + "mnist: 20 samples to train on, 10 to test; 10 "
          "classes; 1x2x2 bytes\n", "ole data check: mnist:small: 4 files are not as published; "
          "to download them again: ole data get mnist --out 'small'\n", 1)
    told = read_json(ole, "data", "check", "mnist:small", "--json")
    check_that("ole data check --json", told["good"] is False and told["train"] == 20 and
               told["shape"] == [1, 2, 2] and len(told["files"][0]["md5"]) == 32)
    for name, value in (("cat", 10), ("dog", 20)):
        for i in range(5):
            path = work / "photos" / name / f"{i}.pgm"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(pgm(value + i))
    check(ole, "data check folder:photos", "folder: 8 samples to train on, 2 to test; 2 classes; "
          "1x2x2 bytes\n")
    for other in ("photos/cat/9.gif", "photos/dog/notes.txt", "photos/dog/.hidden", "photos/beside.pgm"):
        (work / other).write_bytes(b"P5 2 2 255\nxxxx")
    (work / "photos/dog/more").mkdir()
    others = [("photos/cat/9.gif", "its name is not that of an image"), ("photos/dog/more", "a folder in a class folder"),
              ("photos/dog/notes.txt", "its name is not that of an image"), ("photos/beside.pgm", "not in a class folder")]
    listed = "".join(f"skipped    {path}: {reason}\n" for path, reason in others)
    check(ole, "data check folder:photos", f"{listed}folder: 8 samples to train on, 2 to test; 2 classes; 1x2x2 bytes; "
          "4 other files skipped: not images, or not in a class folder\n")
    told = read_json(ole, "data", "check", "folder:photos", "--json")
    check_that("what is passed over, as JSON", told["other_file_count"] == 4 and told["unreadable"] == [] and
               told["other_files"] == [{"file": path, "reason": reason} for path, reason in others])
    done = ole.run(*"train folder:photos --net FC4 --epochs 1 --no-report --out passed".split())
    check_that(f"... by training too: {done.stderr}", done.stderr.startswith(
        "ole train: folder:photos: skipped 4 files: not an image, or not directly inside a class folder "
        "(ole data check folder:photos lists them)\n"))
    (work / "photos/cat/1.pgm").write_bytes(b"P5 2 2 255\nx")
    cut = "byte 11: the file ends before its 2x2 pixels do: it is cut off"
    check(ole, "data check folder:photos", f"{listed}unreadable photos/cat/1.pgm: {cut}\n", code=1,
          err="ole data check: folder:photos: 1 unreadable image: fix or remove it, or train with --skip-bad\n")
    (work / "photos/dog/1.pgm").write_bytes(b"nonsense")
    none = "byte 0: not a png, jpeg, webp, bmp, tiff, pgm or ppm image"
    check(ole, "data check folder:photos", f"{listed}unreadable photos/cat/1.pgm: {cut}\nunreadable photos/dog/1.pgm: {none}\n",
          code=1, err="ole data check: folder:photos: 2 unreadable images: fix or remove them, or train with --skip-bad\n")
    done = ole.run("data", "check", "folder:photos", "--json")
    told = json.loads(done.stdout)
    check_that("ole data check --json lists them", done.returncode == 1 and told["good"] is False and
               len(told["other_files"]) == 4 and told["unreadable"] == [
                   {"file": "photos/cat/1.pgm", "reason": cut}, {"file": "photos/dog/1.pgm", "reason": none}])
    (work / "photos/dog/1.pgm").write_bytes(pgm(101))
    told = read_json(ole, "data", "check", "folder:photos", "--skip-bad", "--json")
    check_that("ole data check --skip-bad", told["skipped"] == 1 and told["good"] is True)
    (work / "photos/cat/1.pgm").unlink()
    os.mkfifo(work / "photos/cat/1.pgm")
    pipe = "photos/cat/1.pgm: cannot open: a pipe or a device; copy it to a file first"
    check(ole, "train folder:photos --net FC4 --epochs 1", code=1,
          err=f"ole train: {pipe}; fix it or pass --skip-bad\n")
    check(ole, "data check folder:photos", f"{listed}unreadable {pipe}\n", code=1,
          err="ole data check: folder:photos: 1 unreadable image: fix or remove it, or train with --skip-bad\n")
    told = read_json(ole, "data", "check", "folder:photos", "--skip-bad", "--json")
    check_that("ole data check --skip-bad, a pipe", told["skipped"] == 1 and told["good"] is True)


def check_unpacked(ole, work):
    """idx files that are unpacked, or have a dot in their names, are checked as they are read."""
    write_mnist(work / "raw")
    for path in (work / "raw").glob("*.gz"):
        (work / "raw" / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    (work / "raw/t10k-labels-idx1-ubyte").rename(work / "raw/t10k-labels.idx1-ubyte")
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
             "t10k-labels.idx1-ubyte")
    for data in ("mnist", "fashion-mnist"):
        told = read_json(ole, "data", "check", f"{data}:raw", "--json")
        check_that(f"unpacked {data}", [(file["name"], file["state"]) for file in told["files"]] ==
                   [(name, "differs") for name in names] and told["train"] == 20)
    (work / "raw/train-labels-idx1-ubyte").unlink()
    told = read_json(ole, "data", "check", "mnist:raw", "--json")
    check_that("one of them missing", told["files"][1]["name"] == "train-labels-idx1-ubyte.gz" and
               told["files"][1]["state"] == "missing")
    blank = {"train-images-idx3-ubyte": idx(0x803, (60000, 28, 28), bytes(60000 * 784)),
             "train-labels-idx1-ubyte": idx(0x801, (60000,), bytes(i % 10 for i in range(60000))),
             "t10k-images-idx3-ubyte": idx(0x803, (10000, 28, 28), bytes(10000 * 784)),
             "t10k-labels-idx1-ubyte": idx(0x801, (10000,), bytes(i % 10 for i in range(10000)))}
    (work / "whole").mkdir()
    for name, data in blank.items():
        (work / "whole" / name).write_bytes(data)
    check(ole, "data check fashion-mnist:whole", "".join(f"differs    {name}\n" for name in blank) +
          "fashion-mnist: 60000 samples to train on, 10000 to test; 10 classes; 1x28x28 bytes\n",
          "ole data check: fashion-mnist:whole: 4 files are not as published; to download them again: ole data get "
          "fashion-mnist --out 'whole'\n", 1)


def check_installed(ole, work):
    """Debian's package has packed the files again; what it installed is never to be overwritten."""
    folder = Path("/usr/share/datasets/fashion-mnist")
    if not folder.exists():
        return
    names = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    check(ole, f"data check fashion-mnist:{folder}", "".join(f"repacked   {name}\n" for name in names) +
          "fashion-mnist: 60000 samples to train on, 10000 to test; 10 classes; 1x28x28 bytes\n")
    check(ole, f"data check mnist:{folder}", "".join(f"differs    {name}\n" for name in names) +
          "mnist: 60000 samples to train on, 10000 to test; 10 classes; 1x28x28 bytes\n",
          f"ole data check: mnist:{folder}: 4 files are not as published; to download them again: ole data get mnist\n", 1)
    shutil.copytree(folder, work / "installed")
    labels = gzip.decompress((folder / names[3]).read_bytes())
    (work / "installed" / names[3]).write_bytes(gzip.compress(labels[:-1] + bytes([labels[-1] ^ 1])))
    told = read_json(ole, "data", "check", "fashion-mnist:installed", "--json")
    check_that("another content", [file["state"] for file in told["files"]] == ["repacked"] * 3 + ["differs"])


def check_pipes(ole, work):
    """A pipe that nobody writes to and a device without an end are refused at once, wherever a file is read."""
    refused = "cannot open: a pipe or a device; copy it to a file first\n"
    first = {"mnist": "train-images-idx3-ubyte", "fashion-mnist": "train-images-idx3-ubyte.gz",
             "cifar10": "data_batch_1.bin", "stl10": "train_X.bin", "svhn": "train_32x32.mat"}
    for name, file in first.items():
        path = work / f"pipe-{name}" / file
        path.parent.mkdir()
        for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path)):
            make(path)
            for command in (f"data check {name}:pipe-{name}",
                            f"train {name}:pipe-{name} --net FC4 --epochs 1 --out never"):
                done = ole.run(*command.split(), shell='timeout 20 "$@"')
                check_that(f"a pipe or device, {command}: {done.returncode} {done.stderr}", done.returncode == 1 and
                           (done.stderr.endswith(f"pipe-{name}/{file}: {refused}") or "this build cannot" in done.stderr))
            path.unlink()
    os.mkfifo(work / "pipe.yaml")
    done = ole.run("reproduce", "pipe.yaml", shell='timeout 20 "$@"')
    check_that(f"a recipe: {done.stderr}", done.stderr == "ole reproduce: pipe.yaml: cannot read this recipe\n")
    (work / "piped").mkdir()
    os.mkfifo(work / "piped/metrics.jsonl")
    done = ole.run(*"train digits --net FC4 --epochs 1 --out piped".split(), shell='timeout 20 "$@"')
    check_that(f"metrics: {done.returncode} {done.stderr}", done.returncode in (1, 2) and "piped" in done.stderr)


def check_archive_there(ole, work):
    """An archive that nobody unpacked is told, with the command."""
    (work / "packed").mkdir()
    (work / "packed/cifar-10-binary.tar.gz").write_bytes(tar_gz({
        f"cifar-10-batches-bin/{name}.bin": bytes(i % 10 if at == 0 else 7 for i in range(10)
                                                  for at in range(3073))
        for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]}))
    unpack = "tar -xzf {0}/cifar-10-binary.tar.gz -C {0}"
    check(ole, "data check cifar10:packed", code=1, err="ole data check: packed/cifar-10-binary.tar.gz is "
          f"there but not unpacked; run {unpack.format('packed')}\n")
    (work / "it's packed").symlink_to("packed")
    told = ole.run("data", "check", "cifar10:it's packed").stderr
    check_that(f"quoted for the shell: {told}", "tar -xzf 'it'\\''s packed/cifar-10-binary.tar.gz' -C 'it'\\''s packed'\n"
               in told)
    (work / "data").mkdir()
    (work / "data/cifar10").symlink_to("../packed")
    told = ole.run("train", "cifar10", "--net", "C4", "--out", "never")
    check_that("in one of the usual places", told.returncode == 1 and
               unpack.format("data/cifar10") in told.stderr)
    ole.run(shell=unpack.format("packed"))
    told = read_json(ole, "data", "check", "cifar10", "--json")
    check_that("the command unpacks it", told["train"] == 50 and told["test"] == 10)


def check_sizes(ole, work):
    """A folder of images of several sizes needs no --resize to be checked."""
    for name, header in (("a/1", "P5 2 3"), ("a/2", "P5 7 1"), ("b/1", "P6 2 2"), ("b/2", "P5 4 4")):
        path = work / "sizes" / f"{name}.ppm"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"{header} 255\n".encode() + bytes(16))
    check(ole, "data check folder:sizes", "folder: 2 samples to train on, 2 to test; 2 classes; "
          "2 to 7 pixels wide, 1 to 4 high\n")
    check(ole, "data check folder:sizes --resize 3", "folder: 2 samples to train on, 2 to test; 2 "
          "classes; 1x3x3 bytes\n")
    told = read_json(ole, "data", "check", "folder:sizes", "--json")
    check_that("ole data check --json: sizes", told["shape"] == [1, None, None] and
               told["heights"] == [1, 4] and told["widths"] == [2, 7])
    (work / "sizes/b/2.ppm").write_bytes(b"P5 4 4 255\n")
    cut = "unreadable sizes/b/2.ppm: byte 11: the file ends before its 4x4 pixels do: it is cut off\n"
    check(ole, "data check folder:sizes", cut, code=1,
          err="ole data check: folder:sizes: 1 unreadable image: fix or remove it, or train with --skip-bad\n")
    check(ole, "data check digits --resize 4", err="ole data check: --resize 4 applies to image folders "
          "(folder:PATH) only, not to digits\n", code=2)
    check(ole, "data check folder:sizes --skip-bad", f"{cut}folder: 2 samples to train on, 1 to test; 2 "
          "classes; 2 to 7 pixels wide, 1 to 3 high; 1 skipped as unreadable\n")


def check_download(ole, work, url):
    serve("/big.bin", BIG)
    for digits in (MD5, SHA256, SHA256.upper()):
        out = f"got-{digits[:4]}"
        check(ole, f"data get {url}/big.bin --out {out} --checksum {digits}",
              f"{url}/big.bin is in {out}\n")
        check_that("the file is whole", (work / out / "big.bin").read_bytes() == BIG)
        check_that("nothing else is left", os.listdir(work / out) == ["big.bin"])
    Handler.requests = []
    check(ole, f"data get {url}/big.bin --out got-{MD5[:4]} --checksum {MD5}",
          f"{url}/big.bin is in got-{MD5[:4]}\n")
    check_that("what is there is kept", Handler.requests == [])


def check_two(ole, work, url):
    """Who comes second is told so, and disturbs nothing."""
    serve("/big.bin", BIG)
    Handler.slow = (1000, threading.Event())
    first = subprocess.Popen([ole.path, "data", "get", f"{url}/big.bin", "--out", "both"], cwd=ole.work,
                             env=ole.environment, stdout=subprocess.DEVNULL)
    while not (work / "both/big.bin.part").exists() or not Handler.requests:
        time.sleep(0.01)
    check(ole, f"data get {url}/big.bin --out both", code=1, err=f"ole data get: {url}/big.bin: another process is "
          "downloading it into the same folder; wait for it to finish, then try again\n")
    Handler.slow[1].set()
    Handler.slow = None
    check_that("the first is undisturbed", first.wait(60) == 0 and (work / "both/big.bin").read_bytes() == BIG and
               os.listdir(work / "both") == ["big.bin"])


def check_resume(ole, work, url):
    # A broken connection is taken up again in the same call.
    serve("/big.bin", BIG, breaks=100000)
    check(ole, f"data get {url}/big.bin --out broken --checksum {MD5}",
          f"{url}/big.bin is in broken\n")
    check_that("whole after a break", (work / "broken/big.bin").read_bytes() == BIG)
    check_that("resumed where it broke", Handler.requests == [
        ("/big.bin", None), ("/big.bin", "bytes=100000-")])

    # Without retries the first call fails, keeps what it has, and the next goes on from there.
    serve("/big.bin", BIG, breaks=70000)
    failed = ole.run("data", "get", f"{url}/big.bin", "--out", "later", "--retries", "0")
    check_that("a broken connection is an error",
               failed.returncode == 1 and failed.stderr.startswith(
                   f"ole data get: {url}/big.bin: cannot download: "))
    check_that("what arrived is kept", os.listdir(work / "later") == ["big.bin.part"] and
               (work / "later/big.bin.part").read_bytes() == BIG[:70000])
    check(ole, f"data get {url}/big.bin --out later --checksum {SHA256}",
          f"{url}/big.bin is in later\n")
    check_that("whole after two calls", (work / "later/big.bin").read_bytes() == BIG and
               Handler.requests[-1] == ("/big.bin", "bytes=70000-"))

    # A server without ranges: from the start again.
    serve("/big.bin", BIG, breaks=50000, ranges=False)
    check(ole, f"data get {url}/big.bin --out whole --checksum {MD5} --max-size 0.0003",
          f"{url}/big.bin is in whole\n")
    check_that("whole from a server without ranges", (work / "whole/big.bin").read_bytes() == BIG)

    # A .part that is already complete.
    serve("/big.bin", BIG)
    (work / "done").mkdir()
    (work / "done/big.bin.part").write_bytes(BIG)
    check(ole, f"data get {url}/big.bin --out done --checksum {MD5}", f"{url}/big.bin is in done\n")
    check_that("a complete part is used", (work / "done/big.bin").read_bytes() == BIG)


def check_changed(ole, work, url):
    """What a call left is not continued with another file's bytes, nor taken for the whole of it."""
    serve("/big.bin", BIG, breaks=70000)
    ole.run("data", "get", f"{url}/big.bin", "--out", "changed", "--retries", "0")
    new = BIG[::-1]
    for date, body in (("Fri, 01 Jan 2100 00:00:00 GMT", new), (None, new[:50000])):
        serve("/big.bin", body)
        Handler.changed = date
        (work / "changed/big.bin.part").write_bytes(BIG[:70000])
        check(ole, f"data get {url}/big.bin --out changed --retries 0", f"{url}/big.bin is in changed\n")
        check_that("the file of now", (work / "changed/big.bin").read_bytes() == body)
        (work / "changed/big.bin").unlink()
    Handler.changed = "Thu, 01 Jan 1970 00:00:01 GMT"
    serve("/big.bin", BIG)
    (work / "changed/big.bin.part").write_bytes(BIG[:70000])
    check(ole, f"data get {url}/big.bin --out changed", f"{url}/big.bin is in changed\n")
    check_that("one that is as it was is continued", Handler.requests == [("/big.bin", "bytes=70000-")] and
               (work / "changed/big.bin").read_bytes() == BIG)
    Handler.changed = None


def check_errors(ole, work, url):
    serve("/big.bin", BIG)
    wrong = "0" * 32
    check(ole, f"data get {url}/big.bin --out wrong --checksum {wrong}",
          err=f"ole data get: {url}/big.bin: the checksum is {MD5}, not {wrong}: the file "
          "was damaged on the way or is another one; removed\n", code=1)
    check_that("a wrong file is removed", os.listdir(work / "wrong") == [])
    check(ole, f"data get {url}/big.bin --out wrong --checksum xyz", err="ole data get: "
          "checksum xyz: expected 32 hexadecimal digits (MD5) or 64 (SHA-256)\n", code=2)
    check(ole, f"data get {url}/none.bin --out wrong", err=f"ole data get: {url}/none.bin: cannot "
          "download: The requested URL returned error: 404\n", code=1)
    check_that("nor is anything left of one that is not there", os.listdir(work / "wrong") == [])
    check(ole, f"data get {url}/big.bin --out full", err="ole data get: full/big.bin.part: cannot write: "
          "File too large; the part that arrived is kept, and the next call resumes there\n", code=1,
          shell="trap '' XFSZ; ulimit -f 100; \"$@\"")
    check(ole, f"data get {url}/big.bin --out full --checksum {MD5}", f"{url}/big.bin is in full\n")
    check(ole, f"data get {url}/ --out wrong", err=f"ole data get: {url}/: this URL does not "
          "end in a file name\n", code=2)
    check(ole, f"data get {url}/big.bin --out photos/cat/0.pgm", err="ole data get: "
          "photos/cat/0.pgm: cannot create the folder: File exists\n", code=1)
    refused = ole.run("data", "get", "http://127.0.0.1:1/x.bin", "--out", "wrong")
    check_that("nobody listens", refused.returncode == 1 and "cannot download" in refused.stderr)
    scheme = ole.run("data", "get", f"file://{work}/photos/cat/0.pgm", "--out", "wrong")
    check_that("only http and https", scheme.returncode == 1 and not scheme.stdout)


def check_limits(ole, work, url):
    """Neither a file without an end nor a connection that barely moves is read for ever."""
    serve("/big.bin", BIG)
    began = time.monotonic()
    for path, size in (("/endless.bin", 0.01), ("/big.bin", 0.0002)):
        check(ole, f"data get {url}{path} --out limited --max-size {size}", code=1, err=f"ole data get: {url}{path}: "
              f"larger than the limit of {size} GB; raise it with --max-size (C: options.max_bytes)\n")
    check_that("no more is kept than the limit", all(
        path.stat().st_size <= 10e6 for path in (work / "limited").iterdir()))
    check_that("what says its size is not begun", not (work / "limited/big.bin.part").exists())
    check(ole, f"data get {url}/big.bin --out limited --max-size 0.0003", f"{url}/big.bin is in limited\n")
    Handler.files["/mirror/train-images-idx3-ubyte.gz"] = bytes(9912423)
    check(ole, f"data get mnist --from {url}/mirror --out published", code=1,
          err=f"ole data get: {url}/mirror/train-images-idx3-ubyte.gz: longer than the published "
          "9912422 bytes, so another file; removed\n")
    check_that("nothing of it is left", os.listdir(work / "published") == [])
    check(ole, f"data get {url}/drops.bin --out limited --stall 2 --retries 1 --max-size 0.0001", code=1, err=f"ole data get: "
          f"{url}/drops.bin: cannot download: less than 1000 bytes per second arrived for 2 s; the part that arrived is "
          "kept, and the next call resumes there\n")
    # It ignored the range: its length is no reason to call the file too large, and it begins again.
    check_that("begun again", [bool(asked) for path, asked in Handler.requests if path == "/drops.bin"] == [False, True, False])
    check_that("it is kept", b"x" in [path.read_bytes()[:1] for path in (work / "limited").glob("drops.bin.part")])
    check_that("in bounded time", time.monotonic() - began < 50)
    for option, message in (("--stall 0", "--stall '0': expected a whole number from 1 to 86400"),
                            ("--max-size 0", "--max-size '0': expected a number from 1e-09 to 9000000000")):
        check(ole, f"data get {url}/big.bin --out limited {option}", code=2, err=f"ole data get: {message}\n")


def check_part(ole, work, url):
    """What is fetched goes neither through links nor into a pipe that lies where the .part belongs."""
    serve("/big.bin", BIG)
    (work / "parts").mkdir()
    part = work / "parts/big.bin.part"
    (work / "precious").write_text("old")
    part.symlink_to("../precious")
    check(ole, f"data get {url}/big.bin --out parts", code=1, err="ole data get: parts/big.bin.part: cannot write: "
          "Too many levels of symbolic links\n")
    check_that("the link's target is untouched", (work / "precious").read_text() == "old")
    part.unlink()
    part.hardlink_to(work / "precious")
    check(ole, f"data get {url}/big.bin --out parts", shell='"$@" >/dev/null 2>&1')
    check_that("the other name keeps its bytes", (work / "precious").read_text() == "old" and
               (work / "parts/big.bin").read_bytes() == BIG)
    (work / "parts/big.bin").unlink()
    os.mkfifo(part)
    check(ole, f"data get {url}/big.bin --out parts", code=1, err="ole data get: parts/big.bin.part: not a regular "
          "file: remove it\n", shell='timeout 20 "$@"')


def check_secure(ole, work, url):
    """https is left for http neither by the first nor by a later redirect; http may lead to https."""
    secure = start_secure_server(work)
    if not secure:
        print("no certificate can be made: https is not tested")
        return
    serve("/big.bin", BIG)
    Handler.moved = {"/down.bin": f"{url}/big.bin", "/twice.bin": f"{secure}/down.bin",
                     "/along.bin": f"{secure}/big.bin", "/up.bin": f"{secure}/big.bin"}
    refused = ole.run("data", "get", f"{secure}/big.bin", "--out", "https")
    check_that(f"an unknown certificate is refused: {refused.stderr}", refused.returncode == 1)
    ole.environment["CURL_CA_BUNDLE"] = str(work / "cert.pem")
    for name in ("down", "twice"):
        Handler.requests = []
        check(ole, f"data get {secure}/{name}.bin --out https", code=1, err=f"ole data get: {secure}/{name}.bin: the "
              "server redirects from https to an unencrypted protocol; use a URL that stays on https\n")
        check_that("http was not asked", ("/big.bin", None) not in Handler.requests)
    for address in (f"{secure}/big.bin", f"{secure}/along.bin", f"{url}/up.bin"):
        check(ole, f"data get {address} --out https --checksum {MD5}", f"{address} is in https\n")
    del ole.environment["CURL_CA_BUNDLE"]


def check_bombs(ole, work, url):
    """Archives that unpack to more than is asked for."""
    zeros = bytes(20_000_000)
    for name, body in (("bomb.zip", zipped({"a": zeros, "b": zeros})), ("bomb.tar.gz", tar_gz({"a": zeros, "b": zeros}))):
        out = name.replace(".", "-")
        serve(f"/{name}", body)
        check(ole, f"data get {url}/{name} --out {out} --max-size 0.03", code=1, err=f"ole data get: {out}/{name}: "
              "unpacks to more than the limit of 0.03 GB; raise it with --max-size (C: "
              "options.max_bytes)\n")
        check_that(f"{name}: the first file is whole, nothing else is there",
                   sorted(os.listdir(work / out)) == ["a", name])
        check(ole, f"data get {url}/{name} --out {out}", f"{url}/{name} is in {out}\n")
        check_that(f"{name}: it is, with a higher limit", sorted(os.listdir(work / out)) == ["a", "b"])
    serve("/many.zip", zipped({f"{i}.txt": b"" for i in range(100)}))
    check(ole, f"data get {url}/many.zip --out many --max-files 99", code=1, err="ole data get: many/many.zip: holds "
          "more files than the limit of 99; raise it with --max-files (C: options.max_files)\n")
    check(ole, f"data get {url}/many.zip --out many --max-files 100", f"{url}/many.zip is in many\n")


def check_kept(ole, work, url):
    """An archive changes no file that is there, and writes nothing through a link."""
    members = {"set/a.txt": b"theirs", "set/b.txt": b"more"}
    kept = work / "kept/set"
    kept.mkdir(parents=True)
    for name, body in (("set.zip", zipped(members)), ("set.tar.gz", tar_gz(members))):
        serve(f"/{name}", body)
        for other in (b"mine", b"theirs and more", b"the", b""):
            (kept / "a.txt").write_bytes(other)
            check(ole, f"data get {url}/{name} --out kept", code=1, err="ole data get: kept/set/a.txt: exists and "
                  f"differs from the one in kept/{name}; move it away, or choose another folder\n")
            check_that("it is as it was", (kept / "a.txt").read_bytes() == other and os.listdir(kept) == ["a.txt"])
        (kept / "a.txt").write_bytes(b"theirs")
        before = (kept / "a.txt").stat().st_ino
        check(ole, f"data get {url}/{name} --out kept", f"{url}/{name} is in kept\n")
        check_that("the same bytes are left alone", (kept / "a.txt").stat().st_ino == before and
                   (kept / "b.txt").read_bytes() == b"more")
        (kept / "b.txt").unlink()
    serve("/linked.tar.gz", tar_gz({"set/a.txt": b"theirs"}, [("set/c.txt", "set/a.txt")]))
    (kept / "c.txt").write_bytes(b"mine")
    check(ole, f"data get {url}/linked.tar.gz --out kept", code=1, err="ole data get: kept/set/c.txt: exists and "
          "differs from the one in kept/linked.tar.gz; move it away, or choose another folder\n")
    check_that("a link leaves it too", (kept / "c.txt").read_bytes() == b"mine")
    (work / "elsewhere").mkdir()
    (work / "through").mkdir()
    (work / "through/set").symlink_to("../elsewhere")
    serve("/set.zip", zipped(members))
    check(ole, f"data get {url}/set.zip --out through", code=1, err="ole data get: through/set: a symbolic link, "
          "and through/set.zip is not unpacked through links; remove it, or choose another folder\n")
    check_that("nothing went through", os.listdir(work / "elsewhere") == [])
    (work / "through/set").unlink()
    (work / "through/set").mkdir()
    (work / "through/set/a.txt").symlink_to("../../elsewhere/new")
    check(ole, f"data get {url}/set.zip --out through", code=1, err="ole data get: through/set/a.txt: exists and "
          "differs from the one in through/set.zip; move it away, or choose another folder\n")
    check_that("nor through a file's name", os.listdir(work / "elsewhere") == [])
    (work / "through/set/a.txt").unlink()
    (work / "through/.ole-unpack.part").symlink_to("../elsewhere/new")
    check(ole, f"data get {url}/set.zip --out through", f"{url}/set.zip is in through\n")
    check_that("nor through what an earlier call left", os.listdir(work / "elsewhere") == [] and
               os.listdir(work / "through") == ["set"])


def check_archives(ole, work, url):
    members = {"set/cat/1.pgm": pgm(1), "set/cat/2.pgm": pgm(2), "set/dog/1.pgm": pgm(3),
               "set/dog/2.pgm": pgm(4)}
    for name, body in (("set.tar.gz", tar_gz(members)), ("set.zip", zipped(members))):
        serve(f"/{name}", body)
        out = name.replace(".", "-")
        check(ole, f"data get {url}/{name} --out {out}", f"{url}/{name} is in {out}\n")
        check_that(f"{name} is unpacked", all((work / out / member).read_bytes() == data
                                              for member, data in members.items()))
        check_that(f"{name} itself is gone", os.listdir(work / out) == ["set"])
        check(ole, f"data check folder:{out}/set", "folder: 2 samples to train on, 2 to test; "
              "2 classes; 1x2x2 bytes\n")
    named = {f"photos/{name}/1.pgm": pgm(i) for i, name in enumerate(("cat", "K\u00e4se", "\u65e5\u672c"))}
    serve("/named.zip", zipped(named))
    check(ole, f"data get {url}/named.zip --out named", f"{url}/named.zip is in named\n")
    check_that("names of a zip in any script", all((work / "named" / name).read_bytes() == data
                                                   for name, data in named.items()))
    check(ole, f"data get {url}/set.zip --out x --from {url}", code=2, err="ole data get: --from works only with the sets of "
          "'ole data list'\n")
    check(ole, f"data get mnist --checksum {MD5}", code=2, err="ole data get: --checksum works only with a URL\n")
    serve("/evil.tar.gz", tar_gz({"../outside.txt": b"x"}))
    check(ole, f"data get {url}/evil.tar.gz --out evil", err="ole data get: evil/evil.tar.gz: its "
          "entry '../outside.txt' points outside the folder; do not use this archive\n", code=1)
    check_that("nothing outside", not (work / "outside.txt").exists())
    serve("/linked.tar.gz", tar_gz({"set/cat/1.pgm": pgm(7)}, [("set/dog/1.pgm", "set/cat/1.pgm")]))
    check(ole, f"data get {url}/linked.tar.gz --out linked", f"{url}/linked.tar.gz is in linked\n")
    check_that("a file of two names has both", all((work / f"linked/set/{name}/1.pgm").read_bytes() == pgm(7)
                                                   for name in ("cat", "dog")))
    serve("/linked.tar.gz", tar_gz({"a.txt": b"a"}, [("b.txt", "../outside.txt")]))
    check(ole, f"data get {url}/linked.tar.gz --out out", code=1, err="ole data get: out/linked.tar.gz: its entry "
          "'../outside.txt' points outside the folder; do not use this archive\n")
    serve("/linked.tar.gz", tar_gz({"a.txt": b"a"}, [("b.txt", "a.txt")], tarfile.SYMTYPE))
    check(ole, f"data get {url}/linked.tar.gz --out symbolic", code=1, err="ole data get: symbolic/linked.tar.gz: its "
          "entry 'b.txt' is a symbolic link or a device, not a file; unpack the archive yourself\n")
    check_that("... which is kept", (work / "symbolic/linked.tar.gz").exists())
    serve("/cut.tar.gz", tar_gz({"big.bin": os.urandom(50000)})[:30000])
    cut = ole.run("data", "get", f"{url}/cut.tar.gz", "--out", "cut")
    check_that("a damaged archive", cut.returncode == 1 and "damaged after byte" in cut.stderr)
    check_that("no half file", "big.bin" not in os.listdir(work / "cut"))
    serve("/cut.tar.gz", tar_gz({"big.bin": b"whole"}))
    check(ole, f"data get {url}/cut.tar.gz --out cut", f"{url}/cut.tar.gz is in cut\n")
    check_that("it was fetched again", os.listdir(work / "cut") == ["big.bin"])


def check_known(ole, work, url):
    """A known data set from a mirror: its checksums are the published ones, so ours are refused."""
    for name in os.listdir(work / "small"):
        Handler.files[f"/mirror/{name}"] = (work / "small" / name).read_bytes()
    Handler.requests, Handler.breaks = [], {}
    failed = ole.run("data", "get", "mnist", "--from", f"{url}/mirror", "--out", "known")
    check_that("a known data set has its checksums", failed.returncode == 1 and
               "not f68b3c2dcbeaaa9fbdd348bbdeb94873: the file was damaged" in failed.stderr)
    check_that("one file was tried", Handler.requests == [
        ("/mirror/train-images-idx3-ubyte.gz", None)])
    for more in ("", " --out here"):
        check(ole, f"data get digits{more}", "digits is in the library\n")


def check_all(ole, work):
    server, url = start_server()
    ole.environment["HOME"] = str(work)
    built = ole.run("info").stdout
    check_usage(ole)
    check_list(ole)
    check_check(ole, work)
    check_unpacked(ole, work)
    check_installed(ole, work)
    check_pipes(ole, work)
    check_archive_there(ole, work)
    check_sizes(ole, work)
    if "libcurl" in built:
        check_download(ole, work, url)
        check_two(ole, work, url)
        check_resume(ole, work, url)
        check_changed(ole, work, url)
        check_errors(ole, work, url)
        check_known(ole, work, url)
        check_limits(ole, work, url)
        check_part(ole, work, url)
        check_secure(ole, work, url)
    if "libcurl" in built and "libarchive" in built:
        check_archives(ole, work, url)
        check_bombs(ole, work, url)
        check_kept(ole, work, url)
    server.shutdown()


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
