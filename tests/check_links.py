#!/usr/bin/env python3
"""check_links.py - every relative link and anchor in the Markdown files resolves, and the indexes have every page.

Reads README.md, CONTRIBUTING.md and the like at the top, docs/*.md and the READMEs of folders. docs/README.md and
docs/llms.txt must link to every page of docs/. A link to a heading is
checked against the anchors that GitHub makes: lower case, punctuation dropped, spaces as hyphens, -1 for a repetition.
"""
import re
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^()\s<>]+(?:\([^()]*\)[^()\s<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`+[^`\n]*`+")
HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)?$", re.MULTILINE)


def anchors(text):
    """The anchors of a page's headings."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        name = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").strip().lower()
        name = "".join(c for c in name if c.isalnum() or c in " -_").replace(" ", "-")
        number, unique = 0, name
        while unique in found:
            number += 1
            unique = f"{name}-{number}"
        found.add(unique)
    return found


def prose(text):
    """The text without code, in which nothing is a link; an image's link stands alone."""
    lines = [line for line in FENCE.sub("", text).split("\n") if not re.match(r"(    |\t)(?! *[-*] )", line)]
    return CODE.sub("", "\n".join(lines))


def pages():
    skipped = ("build", "build-", ".")
    yield from sorted(ROOT.glob("*.md"))
    yield ROOT / "docs" / "llms.txt"
    for folder in sorted(path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(skipped)):
        yield from sorted(folder.glob("*.md") if folder.name == "docs" else folder.rglob("README.md"))


def main():
    texts = {path: path.read_text() for path in pages()}
    problems, links = [], {}
    for path, text in texts.items():
        links[path] = set()
        for link in LINK.findall(prose(text)):
            if re.match(r"[a-z][a-z0-9+.-]*:", link):
                continue
            place, _, anchor = unquote(link).partition("#")
            target = (path.parent / place).resolve() if place else path
            links[path].add(target)
            if not target.exists():
                problems.append(f"{path.relative_to(ROOT)}: {link}: no such file")
            elif anchor and (target.suffix != ".md" or anchor not in anchors(target.read_text())):
                problems.append(f"{path.relative_to(ROOT)}: {link}: no such heading")
    docs = ROOT / "docs"
    for index in docs / "README.md", docs / "llms.txt":
        problems += [f"{index.relative_to(ROOT)}: does not link to {page.name}" for page in sorted(docs.glob("*.md"))
                     if page != index and page not in links[index]]
    if problems:
        sys.exit("\n".join(problems))
    print(f"links of {len(texts)} pages are right")


main()
