"""areas.py - the areas of the campaign: each function makes one random attempt in a folder of its own."""
import io
import os
import pty
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import threading
import time
import warnings
import zipfile
from dataclasses import dataclass, field


@dataclass
class Attempt:
    what: str
    words: list
    environment: dict = field(default_factory=dict)
    streams: dict = field(default_factory=dict)
    launcher: tuple = ()
    before: object = None        # in the child, before the program starts
    check: object = None         # of the result: what is wrong, or None
    close: object = lambda: None
    long: bool = False           # may run for hours: interrupted after a while
    mute: bool = False           # cannot say why it fails
    terminal: bool = False       # may move the cursor
    signals: tuple = ()          # that may end it


def mutate(chance, data, most=8):
    """Some bytes changed, lost, repeated, or replaced by numbers that readers trip over."""
    data = bytearray(data)
    for _ in range(chance.randint(1, most)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at:at + chance.choice((1, 4, 100))]
        elif kind == 2:
            data[at:at] = data[at:at + chance.randint(1, 50)]
        elif kind == 3:
            number = chance.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 1 << 62, (1 << 64) - 1))
            data[at:at + 8] = struct.pack("<Q", number)
        elif kind == 4:
            digits = [m for m in re.finditer(rb"\d+", bytes(data[:4000]))]
            if digits:
                m = chance.choice(digits)
                data[m.start():m.end()] = chance.choice(NUMBERS).encode()
        else:
            data[at:] = b""
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


NUMBERS = ("0", "-1", "1", "2", "-0", "0.5", "1e999", "-1e999", "nan", "inf", "-inf", "1e308", "1e-320", "1e18", "1e19",
           "2147483647", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808",
           "18446744073709551616", "0x10", "1/0", "1/3", "5%", "100%", "101%", "-5%", "", " ", "1 2", "1,2", "1;2", "١",
           "1_000", "+3", "--3", "1e", "e1", ".", "1.", "auto", "none", "a" * 5000, "9" * 400, "\x1b[31m", "1\n2", "%s%n",
           "\u202e1", "../..", "$(id)", "';--", "-")


# ---- Models -------------------------------------------------------------------------------------

def models(world, folder, chance):
    """models, checkpoints, recipes, histories and studies with damage"""
    run = folder / "run"
    if chance.random() < 0.15:
        study = folder / "grid/study.json"
        study.write_bytes(mutate(chance, study.read_bytes()))
        return Attempt(study.name, chance.choice((["sweep", "--resume", "--out", "grid"], ["tune", "--resume", "--out", "grid"],
                                                  ["report", "grid", "--no-tsne", "--out", "r.html"])), long=True)
    target = chance.choice((run / "best.safetensors", run / "last.safetensors", run / "config.yaml",
                            run / "metrics.jsonl", folder / "fit.safetensors"))
    data = target.read_bytes()
    target.write_bytes(mutate(chance, data))
    if target.suffix == ".safetensors" and chance.random() < 0.6:  # a good frame around a bad header
        size = struct.unpack("<Q", data[:8])[0]
        header = re.sub(rb'"checksum":"\w*",?', b"", data[8:8 + size])
        header = mutate(chance, header, 2)
        target.write_bytes(struct.pack("<Q", len(header)) + header + data[8 + size:])
    model = "fit.safetensors" if target.parent == folder else chance.choice(("run", f"run/{target.name}"))
    if target.suffix != ".safetensors":
        model = "run"
    words = chance.choice((
        ["predict", model, "X.npy"], ["predict", model, "X.npy", "--json"], ["eval", model],
        ["export", model, "--onnx", "m.onnx"], ["export", model, "--hub", "hub"],
        ["report", "run", "--no-tsne", "--out", "r.html"], ["novelty", model, "--known", "npy:X.npy,y.npy"],
        ["apply", model, "X.npy", "--out", "o.npy"], ["features", model, "--out", "o.npy"],
        ["train", "--resume", "--out", "run", "--epochs", "3", "--no-report"],
        ["train", "npy:X.npy,y.npy", "--net", "FC4", "--init-from", model, "--epochs", "1", "--out", "new", "--no-report"],
        ["train", "run/config.yaml", "--out", "new", "--epochs", "1", "--no-report"]))
    return Attempt(target.name, words)


# ---- Archives -----------------------------------------------------------------------------------

NAMES = ("../canary/file", "../../canary/file", "/tmp/ole-campaign-escape", "a/../../canary/file", "./a", "a//b", "a\\..\\b",
         "C:\\x", "a" * 300, "/".join("d" * 40), "x\n\x1b[31my", "\u202egpj.exe", ".", "..", "", "con", "-rf", "a/b/c/1.png",
         ".bashrc", "train/a/1.pgm", "b\udcff.pgm")


def make_tar(chance, canary):
    out = io.BytesIO()
    mode = chance.choice(("w:gz", "w:gz", "w"))
    with tarfile.open(fileobj=out, mode=mode, format=chance.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))) as tar:
        for _ in range(chance.randint(1, 5)):
            info = tarfile.TarInfo(chance.choice(NAMES) or "x")
            data = b"changed" * chance.choice((1, 1, 1000))
            info.type = chance.choice((tarfile.REGTYPE,) * 4 + (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE,
                                                                tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.GNUTYPE_SPARSE))
            info.linkname = chance.choice(("..", "../../canary", str(canary), "/etc/passwd", "a"))
            info.mode = chance.choice((0o644, 0o4777, 0))
            if info.type == tarfile.REGTYPE:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
            else:
                tar.addfile(info)
    return out.getvalue()


def make_zip(chance):
    out = io.BytesIO()
    warnings.simplefilter("ignore")  # of names that are there twice
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for _ in range(chance.randint(1, 5)):
            info = zipfile.ZipInfo(chance.choice(NAMES).replace("\udcff", "") or "x")
            info.external_attr = chance.choice((0o100644, 0o120777, 0o100000, 0o020666)) << 16
            archive.writestr(info, chance.choice((b"changed", b"../canary", bytes(chance.choice((100, 10 ** 7))))))
    return out.getvalue()


def archives(world, folder, chance):
    """archives that climb, link, swell or are broken"""
    kind = chance.choice(("tar.gz", "zip"))
    data = make_tar(chance, world.canary) if kind == "tar.gz" else make_zip(chance)
    if chance.random() < 0.5:
        data = mutate(chance, data, 3)
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(data) + data
    port, close = serve(lambda request: [reply])

    def check(_):
        escaped = [path for path in folder.rglob("*") if path.is_symlink()]
        if escaped or os.path.exists("/tmp/ole-campaign-escape"):
            return f"links or files outside: {escaped}"
        return None
    return Attempt(kind, ["data", "get", f"http://127.0.0.1:{port}/a.{kind}", "--out", "got", "--retries", "1",
                          "--max-size", "0.005", "--max-files", "50"], check=check, close=close)


# ---- Servers ------------------------------------------------------------------------------------

def serve(answer):
    """A server on the loopback: answer(request) gives the pieces to send. Returns its port and a function to end it."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def talk(connection):
        try:
            connection.settimeout(5)
            request = connection.recv(65536)
            for piece in answer(request):
                if ended.is_set():
                    break
                connection.sendall(piece)
            connection.close()
        except OSError:
            pass

    def listen():
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()
    threading.Thread(target=listen, daemon=True).start()

    def close():
        ended.set()
        try:
            listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        listener.close()
    return listener.getsockname()[1], close


def hostile_reply(chance, port, body):
    def drip(data):
        for i in range(0, len(data), 7):
            yield data[i:i + 7]
            time.sleep(0.002)
    length = chance.choice((len(body), 0, 1, len(body) * 2, -1, 10 ** 18, 2 ** 64, "x", ""))
    status = chance.choice(("200 OK", "200 OK", "200 OK", "206 Partial Content", "301 Moved", "302 Found", "304 Not", "401 No",
                            "404 Not Found", "416 No", "429 Slow", "500 Oh", "503 Oh", "999 ?", "0 x", "-1 x", "\x1b[31m"))
    etag = chance.choice(('"x"', "x" * 64, '"' + "0" * 64 + '"', "\x1b[31m", "a" * 5000, "", '"../../x"'))
    place = chance.choice((f"http://127.0.0.1:{port}/again", "file:///etc/passwd", "http://127.0.0.1:1/", "gopher://x/",
                           "/a" * 2000, "", "\x1b]0;x\x07", "http://user:SECRET@127.0.0.1:1/"))
    head = (f"HTTP/1.{chance.choice('0119')} {status}\r\nContent-Length: {length}\r\nETag: {etag}\r\n"
            f"X-Linked-Etag: {etag}\r\nX-Linked-Size: {length}\r\nX-Repo-Commit: {etag}\r\n")
    if status[0] == "3" or chance.random() < 0.1:
        head += f"Location: {place}\r\n"
    if chance.random() < 0.2:
        head += chance.choice(("Transfer-Encoding: chunked\r\n", "Content-Encoding: gzip\r\n", "Connection: keep-alive\r\n",
                               "Content-Range: bytes 5-4/3\r\n", "X: y\r\n" * 3000))
    head += "Connection: close\r\n\r\n"
    data = head.encode("utf-8", "replace") + body
    kind = chance.randrange(8)
    if kind == 0:
        return [data[:chance.randrange(len(data))]]
    if kind == 1:
        return drip(data[:3000])
    if kind == 2:
        return [bytes(chance.randrange(256) for _ in range(500))]
    if kind == 3:
        return [b""]
    return [data]


def servers(world, folder, chance):
    """servers that lie, break off, redirect or babble"""
    body = chance.choice(((folder / "fit.safetensors").read_bytes(), b"hello", bytes(100000),
                          mutate(chance, (folder / "fit.safetensors").read_bytes())))
    state = random.Random(chance.random())
    port, close = serve(lambda request: hostile_reply(state, port, body))
    url = f"http://127.0.0.1:{port}"
    words = chance.choice((
        ["data", "get", f"{url}/x.bin", "--out", "got", "--retries", "1", "--stall", "2", "--max-size", "0.001"],
        ["data", "get", f"{url}/x.zip", "--out", "got", "--retries", "1", "--stall", "2", "--max-size", "0.001"],
        ["data", "get", "mnist", "--from", url, "--out", "got", "--retries", "1", "--stall", "2"],
        ["predict", "hf:me/model", "X.npy"], ["eval", "hf:me/model@v1"], ["export", "hf:me/model", "--onnx", "m.onnx"],
        ["train", "npy:X.npy,y.npy", "--net", "FC4", "--init-from", "hf:me/model", "--epochs", "1", "--out", "new",
         "--no-report"],
        ["train", "npy:X.npy,y.npy", "--net", "FC4", "--init-from", f"{url}/w.safetensors", "--epochs", "1", "--out", "new",
         "--no-report"]))
    shutil.rmtree(world.home / ".cache", ignore_errors=True)

    def check(result):
        return "a password is printed" if b"SECRET" in result[1] + result[2] else None
    return Attempt("server", words, environment={"HF_ENDPOINT": url}, close=close, check=check)


# ---- Numbers ------------------------------------------------------------------------------------

BASES = {
    "train": ["npy:X.npy,y.npy", "--net", "FC4", "--epochs", "1", "--out", "new", "--no-report", "--threads", "1"],
    "score": ["X.npy", "y.npy"], "analyze": ["X.npy", "y.npy", "--threads", "1"],
    "fit": ["X.npy", "y.npy", "--lambda", "0.1", "--weight-decay", "0.01", "--no-unknown", "--out", "o.safetensors"],
    "novelty": ["run"], "predict": ["run", "X.npy"], "eval": ["run"], "tsne": ["X.npy", "--out", "o.csv"],
    "align": ["X.npy", "X.npy"], "export": ["run", "--onnx", "m.onnx"], "report": ["run", "--no-tsne"],
    "features": ["run", "--out", "o.npy"], "apply": ["fit.safetensors", "X.npy", "--out", "o.npy"],
    "net": ["C4-MP-FC8"], "bench": ["C4-FC8", "--steps", "1"], "data list": [], "info": [],
    "tune": ["npy:X.npy,y.npy", "--net", "FC4", "--epochs", "1", "--out", "new", "--lambdas", "0,0.1"],
}
_options = {}


def options_of(world, command):
    if command not in _options:
        done = subprocess.run([world.ole, *command.split(), "--help"], capture_output=True, text=True, check=False)
        _options[command] = re.findall(r"^ +(?:-\w, )?(--[\w-]+) \S", done.stdout, re.M)
    return _options[command]


def numbers(world, folder, chance):
    """options with hostile numbers and texts"""
    command = chance.choice(sorted(BASES))
    words = [*command.split(), *BASES[command]]
    for _ in range(chance.choice((1, 1, 2))):
        options = options_of(world, command)
        if options and chance.random() < 0.9:
            words.append(f"{chance.choice(options)}={chance.choice(NUMBERS)}")
        else:
            words.append(chance.choice(NUMBERS))
    words = [word.replace("\0", "") for word in words]
    return Attempt("numbers", words, long=True)


# ---- Terminals of our own --------------------------------------------------------------------------

def put_on_terminal(attempt, streams):
    """The attempt's streams become one terminal; returns what appears there, as it does."""
    master, slave = pty.openpty()
    shown = bytearray()

    def drain():
        try:
            while data := os.read(master, 65536):
                shown.extend(data)
        except OSError:
            pass
    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    attempt.streams = {stream: slave for stream in streams}

    def close():
        os.close(slave)
        reader.join(5)
        os.close(master)
    attempt.close = close
    return shown


# ---- Links and odd files -------------------------------------------------------------------------

def links(world, folder, chance):
    """links, devices, pipes and folders in the place of files"""
    kind = chance.choice(("loop", "dangling", "folder", "null", "zero", "full", "self", "outside", "empty", "readonly",
                          "sparse", "name", "socket", "parent"))
    odd = "odd.npy"
    path = folder / odd
    if kind == "loop":
        path.symlink_to(odd)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "folder":
        path.mkdir()
    elif kind in ("null", "zero", "full"):
        path.symlink_to(f"/dev/{kind}")
    elif kind == "self":
        path.symlink_to(chance.choice(("/proc/self/mem", "/proc/self/maps", "/proc/kmsg", "/proc/self/fd/0")))
    elif kind == "outside":
        path.symlink_to(world.canary / "new")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "readonly":
        path.write_bytes(b"x")
        path.chmod(0)
    elif kind == "sparse":
        with open(path, "wb") as file:
            file.truncate(chance.choice((1 << 33, 1 << 40)))
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            old = os.getcwd()
            os.chdir(folder)
            listener.bind(odd)
            os.chdir(old)
    elif kind == "parent":
        odd = chance.choice((".", "..", "/", "", "odd.npy/x", "X.npy/x", "nowhere/x", "//", "-", "--", "run/../X.npy/"))
    else:
        odd = chance.choice(("a\nb.npy", "\x1b[31m.npy", "\u202e.npy", "a" * 250 + ".npy", "-x.npy", "a,b.npy", "a:b.npy",
                             "%s%n.npy", " .npy", "'\".npy", "a|b.npy", "é.npy"))
        shutil.copy(folder / "X.npy", folder / odd)
    reads = (["score", odd, "y.npy"], ["analyze", "X.npy", odd], ["predict", "run", odd], ["predict", odd, "X.npy"],
             ["report", odd], ["train", f"npy:{odd},y.npy", "--epochs", "1", "--net", "FC4", "--out", "new", "--no-report"],
             ["train", f"folder:{odd}", "--out", "new", "--no-report"], ["fit", odd, "y.npy", "--out", "o.safetensors"],
             ["eval", odd], ["tsne", odd], ["train", odd, "--out", "new"], ["verify", odd, odd], ["align", odd, odd],
             ["data", "check", "mnist", odd])
    writes = (["fit", "X.npy", "y.npy", "--lambda", "0.1", "--weight-decay", "0.01", "--no-unknown", "--out", odd],
              ["analyze", "X.npy", "y.npy", "--out", odd], ["report", "run", "--no-tsne", "--out", odd],
              ["export", "run", "--onnx", odd], ["train", "npy:X.npy,y.npy", "--net", "FC4", "--epochs", "1", "--no-report",
                                                 "--out", odd], ["tsne", "X.npy", "--out", odd],
              ["features", "run", "--out", odd], ["eval", "run", "--out", odd])
    words = chance.choice(reads if chance.random() < 0.6 else writes)
    attempt = Attempt(kind, words, long=odd in ("/", "//"))  # all files of the machine
    shown = put_on_terminal(attempt, ["stdout"]) if chance.random() < 0.5 else b""

    def check(_):
        steers = b"\x1b[31m" in shown or "\u202e".encode() in shown
        return "a name steers the terminal" if steers else None
    attempt.check = check
    return attempt


# ---- Terminals ----------------------------------------------------------------------------------

def terminals(world, folder, chance):
    """terminals, closed streams and odd environments"""
    words = chance.choice((["analyze", "X.npy", "y.npy"], ["train", "npy:X.npy,y.npy", "--net", "FC4", "--epochs", "3", "--out",
                           "new", "--no-report"], ["--help"], ["net"], ["net", "resnet18"], ["info"], ["data", "list"],
                          ["predict", "run", "X.npy"], ["score", "X.npy", "y.npy", "--json"], ["man"], ["eval", "run"],
                          ["completion", "bash"], ["frobnicate"], [], ["help", "train"], ["--version"]))
    kind = chance.choice(("pty", "pty", "closed", "full", "pipe", "environment", "environment", "limits"))
    attempt = Attempt(kind, words, mute=kind in ("closed", "full", "pipe", "pty"), terminal=kind == "pty")
    odd = ("", "0", "-1", "1", "80", "1000000000", "x", "\x1b[31m", "a" * 100000, "../..", "/dev/null", "C", "tr_TR.UTF-8")
    for name in ("COLUMNS", "LINES", "TERM", "LANG", "LC_ALL", "NO_COLOR", "HOME", "TMPDIR", "XDG_CACHE_HOME", "OLE_DATA",
                 "OMP_NUM_THREADS", "OLE_CPU", "TZ", "OPENBLAS_NUM_THREADS", "GOMP_SPINCOUNT", "POSIXLY_CORRECT"):
        if chance.random() < 0.3:
            attempt.environment[name] = chance.choice((None, *odd))
    if kind == "pty":
        put_on_terminal(attempt, ["stdin", "stdout", "stderr"])
    elif kind == "closed":
        which = [fd for fd in (0, 1, 2) if chance.random() < 0.6]
        attempt.before = lambda: [os.close(fd) for fd in which]
    elif kind == "full":
        full = open("/dev/full", "wb")
        attempt.streams = {"stdout": full} if chance.random() < 0.5 else {"stdout": full, "stderr": full}
        attempt.close = full.close
    elif kind == "pipe":
        read, write = os.pipe()
        os.close(read)
        attempt.streams = {"stdout": write}
        attempt.signals = (signal.SIGPIPE,)
        attempt.close = lambda: os.close(write)
    elif kind == "limits":
        which, value = chance.choice(((resource.RLIMIT_NOFILE, 8), (resource.RLIMIT_FSIZE, 1000), (resource.RLIMIT_STACK, 1 << 20),
                                      (resource.RLIMIT_AS, 1 << 28), (resource.RLIMIT_NPROC, 1)))
        attempt.before = lambda: resource.setrlimit(which, (value, value))
        attempt.mute = True
        attempt.signals = (signal.SIGXFSZ,)
    return attempt


# ---- MPI ----------------------------------------------------------------------------------------

def launches(world, folder, chance):
    """starts by MPI, true and feigned"""
    words = chance.choice((["train", "npy:X.npy,y.npy", "--net", "FC4", "--epochs", "2", "--out", "new", "--no-report",
                            "--threads", "1"], ["eval", "run"], ["score", "X.npy", "y.npy"], ["info"],
                           ["train", "--resume", "--out", "run", "--epochs", "3", "--no-report"],
                           ["tune", "npy:X.npy,y.npy", "--net", "FC4", "--epochs", "1", "--out", "new", "--lambdas", "0,0.1"]))
    mpirun = shutil.which("mpirun")
    if mpirun and chance.random() < 0.5:
        count = chance.choice((2, 2, 3))
        launcher = (mpirun, "--allow-run-as-root", "--oversubscribe", "-n", str(count))
        if chance.random() < 0.3:  # each rank its own options
            script = folder / "each.sh"
            script.write_text('#!/bin/sh\nexec "$@" --seed "$OMPI_COMM_WORLD_RANK"\n')
            script.chmod(0o755)
            launcher += (str(script),)
        elif chance.random() < 0.3:  # one rank is killed
            script = folder / "each.sh"
            script.write_text('#!/bin/sh\n"$@" & p=$!\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] && sleep 0.'
                              f'{chance.randint(1, 9)} && kill -9 $p\nwait $p\n')
            script.chmod(0o755)
            launcher += (str(script),)
        return Attempt("mpirun", words, launcher=launcher)
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "SLURM_NTASKS",
             "SLURM_STEP_NUM_TASKS", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_FD",
             "OLE_RANK_SILENCE")
    environment = {name: chance.choice(("0", "1", "2", "4", "-1", "x", "", "99999999999", "1e9"))
                   for name in names if chance.random() < 0.5}
    if chance.random() < 0.5:
        words = [*words, "--ranks", chance.choice(("0", "1", "2", "-1", "1000", "x"))]
    # What all ranks would say, rank 0 says.
    mute = any(environment.get(name) not in (None, "0") for name in names if name.endswith("_RANK"))
    return Attempt("feigned", words, environment=environment, mute=mute)


ALL = (models, archives, servers, numbers, links, terminals, launches)
