#!/usr/bin/env python3
"""shell.py OLE - the help, manual pages and completion that come from the tables of options: every line of help fits,
the pages pass their linters, and bash, zsh and fish, where installed, complete command lines as users type them."""
import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import run
from run import check, check_that

ROOT = Path(__file__).resolve().parents[2]


def all_commands(ole):
    """Every command, and the actions of those that have some."""
    lines = ole.run("--help").stdout.splitlines()
    commands = [line.split()[0] for line in lines if line.startswith("  ")]
    actions = [f"data {name}" for name in ("list", "get", "check")] if "data" in commands else []
    return commands + actions


# ---- Help ---------------------------------------------------------------------------------------

def check_help(ole):
    """An example first, then groups of options, in 80 columns; `ole help COMMAND` prints the same."""
    for command in all_commands(ole):
        text = ole.run(*command.split(), "--help").stdout
        lines = text.splitlines()
        check_that(f"ole {command} --help starts with an example", re.match(r"  \$ (ole|man|mpirun|source) ", lines[0]))
        check_that(f"ole help {command}", ole.run("help", *command.split()).stdout == text)
        for line in lines:
            check_that(f"ole {command} --help fits 80 columns: {line}", len(line) <= 80)
            check_that(f"ole {command} --help: no space before a comma: {line}", not re.search(r"\) [,;.)]", line))
        options = [i for i, line in enumerate(lines) if re.match("  (-[a-z], )?--", line)]
        headings = [i for i, line in enumerate(lines) if re.fullmatch(r"[A-Z][\w ]*:", line) and not lines[i - 1]]
        check_that(f"ole {command} --help: options under headings", headings and headings[0] == options[0] - 1 and
                   len(options) <= 12 * len(headings))
        check_that(f"ole {command} --help: one empty line at most", "\n\n\n" not in text)
    text = ole.run("train", "--help").stdout
    check_that("a decay is no percentage", "adamw\n                               (default 0.9)" in text and "90%" not in text)


def check_documents(ole):
    """Commands in README and docs, in blocks and in backticks, name commands and options that there are."""
    options = {command: set(re.findall(r"--(?:\[no-\])?([\w-]+)", ole.run(*command.split(), "--help").stdout))
               for command in all_commands(ole)}
    found = 0
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"(?:^(?:    |\$ )?|`|\| |; |n \d+ )(?:build/)?ole ([a-z][^`\n|;#]*)", text, re.M):
            words = line.split()
            command = " ".join(words[:2]) if words[0] == "data" else words[0]
            flags = {word[2:].split("=")[0].removeprefix("no-") for word in words[1:] if re.match("--[a-z]", word)}
            if command in options:
                found += 1
                unknown = {flag for flag in flags if flag not in options[command] and "no-" + flag not in options[command]}
                check_that(f"{path.name}: ole {line}: {unknown}", not unknown)
    check_that(f"{found} commands in the documents", found > 100)


# ---- Manual pages -------------------------------------------------------------------------------

SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "OPTIONS", "EXIT STATUS"]


def check_pages(ole, work):
    check(ole, "man --out nowhere", code=1, err="ole man: nowhere/ole.1: cannot write: No such file or directory\n")
    (work / "pages").mkdir()
    check(ole, "man --out pages")
    names = {path.name for path in (work / "pages").iterdir()}
    check_that(f"a page per command: {sorted(names)}", names == {
        "ole.1", *(f"ole-{command.replace(' ', '-')}.1" for command in all_commands(ole))})
    for name in sorted(names):
        path = work / "pages" / name
        command = name[:-2].replace("-", " ").split()[1:]
        page = path.read_text()
        check_that(f"{name} is what 'ole man' prints", ole.run("man", *command).stdout == page)
        sections = re.findall(r"^\.SH (.*)", page, re.M)
        check_that(f"sections of {name}: {sections}", sections[:6] == SECTIONS and sections[-1] == "SEE ALSO")
        help_text = ole.run(*command, "--help").stdout
        flags = set(re.findall(r"^  (?:-\w, )?--(?:\[no-\])?([\w-]+)", help_text, re.M))
        shown = set(re.findall(r"^(?:\\fB|\.B )(?:\\-\w, )?\\-\\-(?:\[no\\-\])?(\S+?)(?:\\fI| \\fI|$)", page, re.M))
        shown = {flag.replace("\\-", "-") for flag in shown} - {"version"}
        check_that(f"options of {name}: {sorted(flags ^ shown)}", (flags or {"help"}) == shown)
        headings = [name for name in re.findall(r"\n\n([A-Z][\w -]*):\n", help_text) if name != "Options"]
        check_that(f"groups of {name}", [name.replace("\\-", "-") for name in re.findall(r"^\.SS (.*)", page, re.M)] == headings)
        lint(path)
    check(ole, "man trane", code=2, err="ole man: trane: no such command; 'ole --help' lists them\n")
    check(ole, "man data put", code=2, err="ole man: data put: no such command; 'ole --help' lists them\n")
    if "ole-train.1" in names:
        overview = (work / "pages/ole.1").read_text()
        table = (ROOT / "docs/reference.md").read_text().split("## Environment")[1].split("\n## ")[0]
        known = set(re.findall(r"`([A-Z_]+)`", " ".join(re.findall(r"^\| (`.*?) \|", table, re.M)))) - {"OLE_LIBRARY"}
        shown = set(re.findall(r"[A-Z_]{6,}", " ".join(re.findall(r"^\.B ([A-Z][A-Z_, ]+)$", overview, re.M))))
        check_that(f"variables of docs/reference.md: {sorted(known ^ shown)}", known == shown)
        check_that("files of a run", all(f".B {name}\n" in (work / "pages/ole-train.1").read_text() for name in
                                         ("config.yaml", "metrics.jsonl", "best.safetensors", "report.html")))


def lint(path):
    """mandoc and groff find nothing to warn of."""
    if shutil.which("mandoc"):
        found = subprocess.run(["mandoc", "-Tlint", "-Wwarning", path], text=True, capture_output=True)
        check_that(f"mandoc: {found.stdout}", found.returncode == 0 and not found.stdout)
    if shutil.which("groff"):
        found = subprocess.run(["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-z", path], text=True, capture_output=True)
        check_that(f"groff: {found.stderr}", found.returncode == 0 and not found.stderr)


# ---- What the program offers --------------------------------------------------------------------

def check_offers(ole, work, trains):
    def offered(*words):
        lines = ole.run("__complete", *words).stdout.splitlines()
        check_that(f"each candidate has a text: {words}", all(line[0] == ":" or "\t" in line for line in lines))
        return [line.split("\t")[0] for line in lines]

    for words, expected in (
            (("scor",), ["score"]),
            (("--v",), ["--version"]),
            (("score", "F.npy", "L.npy", "--red"), ["--reduction"]),
            (("score", "--reduction", ""), ["mean", "sum"]),
            (("score", "--reduction=s"), ["--reduction=sum"]),
            (("score", "--delta-rel", ""), ["auto"]),
            (("score", "--weight", ""), []),
            (("score", ""), [":files"]),
            (("score", "--grad", ""), [":files"]),
            (("score", "--grad=a"), [":files --grad="]),
            (("score", "F.npy", "L.npy", "--", "--"), []),
            (("analyze", "--test", "F.npy", ""), [":files"]),
            (("analyze", "--figures", ""), [":folders"]),
            (("completion", ""), ["bash", "zsh", "fish"]),
            (("help", "tsn"), ["tsne"]),
            (("no-such", ""), [])):
        check_that(f"completion of {words}: {offered(*words)}", offered(*words) == expected)
    check_that("options where no argument is left", "--json" in offered("score", "F.npy", "L.npy", ""))
    check_that("all commands", set(all_commands(ole)) - {"data list", "data get", "data check"} <= set(offered("")))
    if not trains:
        return
    for words, expected in (
            (("train", "cifar"), ["cifar10", "cifar100"]),
            (("train", "digits", "--loss", ""), 
             ["softmax", "ole", "center", "contrastive", "triplet", "l-softmax", "a-softmax", "cosface", "arcface",
              "supcon", "mcr2", "opl", "ssole", "logit-norm", "ole-unit"]),
            (("train", "digits", "--loss=softmax+o"), ["--loss=softmax+ole", "--loss=softmax+opl", "--loss=softmax+ole-unit"]),
            (("train", "digits", "--net", "vgg"), [name for name in ole.run("net").stdout.split()
                                                   if name.startswith("vgg")]),
            (("train", "digits", "--device", "cu"), ["cuda"]),
            (("train", "digits", "--no-n"), ["--no-nesterov"]),
            (("train", "-c", ""), [":files"]),
            (("train", "--out", ""), [":folders"]),
            (("train", "folder:pho"), [":folders folder:"]),
            (("train", "npy:X.npy,y"), [":files npy:X.npy,"]),
            (("novelty", "m", "--known=folder:a"), [":folders --known=folder:"]),
            (("data", ""), ["list", "get", "check"]),
            (("data", "get", "stl"), ["stl10"]),
            (("data", "get", "fol"), []),
            (("data", "list", "--"), ["--json", "--help"]),
            (("reproduce", "stl10+"), ["stl10+-cnn5", ":files"])):
        check_that(f"completion of {words}: {offered(*words)}", offered(*words) == expected)


# ---- Shells -------------------------------------------------------------------------------------

class Shell:
    """An interactive shell in which `args` prints its words, completed as those of `ole`."""

    def __init__(self, ole, command, setup):
        self.master, end = pty.openpty()
        environment = {**ole.environment, "TERM": "vt100", "OLE": str(ole.path)}
        self.process = subprocess.Popen(command, cwd=ole.work, env=environment, stdin=end, stdout=end, stderr=end,
                                        start_new_session=True)
        os.close(end)
        function = ('args() { if [ "$1" = __complete ]; then "$OLE" "$@"; else printf "<%s>" "$@"; echo; fi; }; '
                    f"{setup}; echo set-up")
        self.type(function + "\n", "set-up\r")

    def type(self, keys, expected, seconds=20):
        """Whether text that matches appears after the keys."""
        os.write(self.master, keys.encode())
        text, ends = "", time.monotonic() + seconds
        while not re.search(expected, text) and time.monotonic() < ends:
            if select.select([self.master], [], [], 0.1)[0]:
                text += os.read(self.master, 4096).decode(errors="replace")
        self.text = text
        return bool(re.search(expected, text))

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


TYPED = (("scor\tF-1\tL-\t", "<score><F-1.npy><L-1.npy>"),
         ("help tsn\t", "<help><tsne>"),
         ("score F-1.npy L-1.npy --redu\tsu\t", "<score><F-1.npy><L-1.npy><--reduction><sum>"),
         ("score --reduction=me\t", "<score><--reduction=mean>"),
         ("verify my\\ fi\t", "<verify><my file.npy>"))
TYPED_TRAINING = (("train fash\t", "<train><fashion-mnist>"),
                  ("train fold\tph\tca\t", "<train><folder:photos/cats/?>"),
                  ("train digits --net preres\t--lamb\t1", "<train><digits><--net><preresnet110><--lambda><1>"),
                  ("train digits --loss=softmax+op\t", "<train><digits><--loss=softmax+opl>"),
                  ("data g\tstl\t", "<data><get><stl10>"))


def check_shell(ole, name, command, setup, trains):
    if not shutil.which(name):
        print(f"without {name}")
        return
    shell = Shell(ole, command, setup)
    for keys, expected in TYPED + (TYPED_TRAINING if trains else ()):
        good = shell.type(f"args {keys}\n", expected.replace("+", "[+]") + "\r")
        check_that(f"{name}: {keys!r} gives {shell.text!r}", good)
    shell.close()


def check_fish(ole, trains):
    if not shutil.which("fish"):
        print("without fish")
        return
    environment = {**ole.environment, "PATH": f"{Path(ole.path).parent}:{ole.environment['PATH']}"}
    cases = [("ole scor", "score"), ("ole score --reduction=s", "--reduction=sum"), ("ole score F-", "F-1.npy")]
    if trains:
        cases += [("ole train fash", "fashion-mnist"), ("ole train digits --loss so", "softmax"),
                  ("ole train folder:photos/c", "folder:photos/cats/"), ("ole train --out ph", "photos/")]
    for line, expected in cases:
        script = f"source '{ROOT}/cli/completion/ole.fish'; complete -C '{line}'"
        found = subprocess.run(["fish", "--no-config", "-c", script], cwd=ole.work, env=environment, text=True,
                               capture_output=True, timeout=60)
        check_that(f"fish: {line!r} gives {found.stdout!r} {found.stderr}",
                   expected in [candidate.split("\t")[0] for candidate in found.stdout.splitlines()])


def check_all(ole, work):
    trains = "  train " in ole.run("--help").stdout
    for name in ("F-1.npy", "L-1.npy", "my file.npy"):
        (work / name).write_text("")
    (work / "photos/cats").mkdir(parents=True)
    check_help(ole)
    if trains:
        check_documents(ole)
    check_pages(ole, work)
    check_offers(ole, work, trains)
    scripts = {"bash": "ole.bash", "zsh": "_ole", "fish": "ole.fish"}
    for shell, name in scripts.items():
        check(ole, f"completion {shell}", (ROOT / "cli/completion" / name).read_text())
    check(ole, "completion ksh", code=2, err="ole completion: shell 'ksh': expected one of bash, zsh, fish\n")
    source = f"source '{ROOT}/cli/completion/"
    check_shell(ole, "bash", ["bash", "--norc", "--noprofile", "-i"],
                f"{source}ole.bash'; complete -F _ole args", trains)
    check_shell(ole, "zsh", ["zsh", "-f", "-i"],
                f"autoload -U compinit; compinit -u -D; {source}_ole'; compdef _ole args", trains)
    check_fish(ole, trains)


if __name__ == "__main__":
    run.conduct(__doc__, check_all)
