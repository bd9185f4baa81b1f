#!/usr/bin/env python3
"""corpus.py - build the training text of the demo model from Debian packages, by name.

SPDX-License-Identifier: Apache-2.0

Inputs:  nothing but a Debian 12 with apt sources; packages are fetched with `apt-get download` and unpacked with `dpkg -x`, not installed.
Outputs: OUT/train.txt and OUT/heldout.txt (every 40th document): plain ASCII, paragraphs end in a newline, documents in a form feed.
         Some documents are chats: \\x01 begins the user's part, \\x02 the assistant's (train.py turns these three into special tokens).
         OUT/words.txt: the word list of package wamerican. A table of packages, versions, licences and bytes on stdout.
Of each page only paragraphs of running text are used. Tables, code, menus, indices and text with too few common words are left out.
"""
import argparse
import collections
import html.parser
import pathlib
import random
import re
import struct
import subprocess
import zlib

PACKAGES = {  # name: (kind, where the text is, licence)
    "bible-kjv-text": ("kjv", "usr/lib", "public domain"),
    "bible-kjv": ("tool", "usr/bin/bible", "GPL-2+ (only run, to unpack bible-kjv-text)"),
    "r-cran-janeaustenr": ("rdb", "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb", "novels in the public domain, package MIT"),
    "debian-handbook": ("html", "usr/share/doc/debian-handbook/html/en-US", "GPL-2+ or CC-BY-SA-3.0"),
    "debian-reference-en": ("html", "usr/share/debian-reference", "GPL-2+"),
    "python3.11-doc": ("html", "usr/share/doc/python3.11/html", "PSF-2.0"),
    "postgresql-doc-15": ("html", "usr/share/doc/postgresql-doc-15/html", "PostgreSQL"),
    "libreoffice-help-en-us": ("html", "usr/share/libreoffice/help/en-US/text", "MPL-2.0"),
    "perl-doc": ("pod", "usr/share/perl/5.36.0/pod", "GPL-1+ or Artistic"),
    "gimp-help-en": ("html", "usr/share/gimp/2.0/help/en", "GFDL-1.2+, no invariant sections"),
    "installation-guide-amd64": ("html", "usr/share/doc/installation-guide-amd64/en", "GPL-2+"),
    "aptitude-doc-en": ("html", "usr/share/doc/aptitude/html/en", "GPL-2+"),
    "wamerican": ("words", "usr/share/dict/american-english", "public domain and SCOWL (permissive)"),
}
SKIP_PAGES = re.compile(r"genindex|search|changelog|whatsnew|release|contents|py-modindex|biblio|links|delta|perltoc|perlhist|perluniprops")
ASCII = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "--", "\u2026": "...", "\u00a0": " ",
                       "\u2212": "-", "\u00ad": "", "\u2011": "-", "\u2010": "-", "\u00b6": "", "\u00e9": "e", "\u00e8": "e", "\u00ef": "i"})


class Paragraphs(html.parser.HTMLParser):
    """Collects the text of <p> and <dd> elements outside tables, navigation and code."""
    OUT, OFF = {"p", "dd", "li"}, {"pre", "table", "nav", "script", "style", "title", "head", "footer"}

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.off, self.text, self.found = 0, None, []

    def flush(self):
        if self.text:
            self.found.append("".join(self.text))
        self.text = None

    def handle_starttag(self, tag, attrs):
        if tag in self.OFF:
            self.flush()
            self.off += 1
        elif tag in self.OUT or ("class", "para") in attrs:  # div class="para" is Publican's paragraph
            self.flush()
            self.text = None if self.off else []
        elif tag in ("div", "ul", "ol", "dl", "dt", "h1", "h2", "h3"):
            self.flush()

    def handle_endtag(self, tag):
        if tag in self.OFF:
            self.off = max(0, self.off - 1)
        elif tag in self.OUT or tag == "div":
            self.flush()

    def handle_data(self, data):
        if self.text is not None:
            self.text.append(data)


def clean(text, words, floor):
    """-> one line of ASCII, or None when it is no running text: too short, odd characters, too few words of the list."""
    text = re.sub(r"\s+", " ", text.translate(ASCII)).strip()
    text = re.sub(r"\[\d+\]", "", text)
    if len(text) < 60 or not text.isascii() or re.search(r"[<>{}\\|=_@#~^*+]|::|https?:|\(\)|\w/\w+/\w", text):
        return None
    tokens = re.findall(r"[A-Za-z']+", text)
    known = sum(t.strip("'").lower() in words for t in tokens)
    letters = sum(c.isalpha() or c == " " for c in text)
    if not tokens or known < floor * len(tokens) or letters < 0.93 * len(text) or text[-1] not in ".!?\"':;,)":
        return None
    return text


def read_kjv(root, bible):
    """One document a chapter, verses joined into paragraphs of about four."""
    out = subprocess.run([bible, "-f", "-l9999", "-p", root, "gen1:1-rev22:21"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout
    chapters = collections.OrderedDict()
    for book, chapter, text in re.findall(r"^(\w+?)(\d+):\d+ (.*)$", out, re.M):
        chapters.setdefault((book, chapter), []).append(text)
    for verses in chapters.values():
        yield [" ".join(verses[i:i + 4]) for i in range(0, len(verses), 4)]


def read_rdb(path):
    """An R lazy-load database: records of a length and a zlib stream; strings are CHARSXP (R internals, serialisation format)."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        unzip = zlib.decompressobj()
        raw = unzip.decompress(data[at + 4:])
        at = len(data) - len(unzip.unused_data)
        lines, i = [], raw.find(b"\0\x04\0\x09")
        while 0 <= i < len(raw) and raw[i:i + 4] == b"\0\x04\0\x09":
            n = struct.unpack(">I", raw[i + 4:i + 8])[0]
            lines.append(raw[i + 8:i + 8 + n].decode("utf-8", "replace"))
            i += 8 + n
        for chapter in re.split(r"\n\s*(?:CHAPTER|Chapter|VOLUME)\b[^\n]*\n", "\n".join(lines)):
            yield [p.replace("_", "") for p in re.split(r"\n\s*\n", chapter)]


def read_html(root):
    for path in sorted(root.rglob("*.html")):
        if SKIP_PAGES.search(path.name) or re.search(r"\.(?!en)[a-z]{2}(-[a-z]+)?\.html$", path.name) or "whatsnew" in str(path):
            continue
        page = Paragraphs()
        page.feed(path.read_text("utf-8", "replace"))
        page.flush()
        yield page.found


def read_pod(root):
    for path in sorted(root.rglob("*.pod")):
        if SKIP_PAGES.search(path.name):
            continue
        text = path.read_text("utf-8", "replace")
        text = re.sub(r"[BCFILSX]<<? ?([^<>|]*\|)?([^<>]*?) ?>>?", r"\2", text).replace("E<gt>", ">").replace("E<lt>", "<")
        yield [p for p in re.split(r"\n\s*\n", text) if p and p[0] not in "= \t"]


def chats(document, rng):
    """Turns some paragraphs into a question (the first sentence) and an answer (the rest)."""
    for p in document:
        first, _, rest = p.partition(". ")
        if len(rest) > 200 and 30 < len(first) < 160 and rng.random() < 0.06:
            yield f"\x01{first}.\x02{rest}"


def fetch(name, debs, tree):
    """Download and unpack one package -> its version."""
    if not list(debs.glob(name + "_*.deb")):
        subprocess.run(["apt-get", "download", name], cwd=debs, check=True, stdout=subprocess.DEVNULL)
    deb = sorted(debs.glob(name + "_*.deb"))[-1]
    (tree / name).mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg", "-x", deb, tree / name], check=True)
    return subprocess.run(["dpkg-deb", "-f", deb, "Version"], capture_output=True, text=True, check=True).stdout.strip()


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out", type=pathlib.Path)
    args = ap.parse_args()
    debs, tree = args.out / "debs", args.out / "tree"
    debs.mkdir(parents=True, exist_ok=True)
    versions = {name: fetch(name, debs, tree) for name in PACKAGES}
    word_file = (tree / "wamerican" / PACKAGES["wamerican"][1]).read_text("utf-8")
    words = {w.lower() for w in word_file.split()}
    (args.out / "words.txt").write_text(word_file)

    rng, seen, documents = random.Random(1), set(), []
    for name, (kind, where, licence) in PACKAGES.items():
        path, size = tree / name / where, 0
        source = {"kjv": lambda: read_kjv(path, tree / "bible-kjv" / PACKAGES["bible-kjv"][1]), "rdb": lambda: read_rdb(path),
                  "html": lambda: read_html(path), "pod": lambda: read_pod(path)}.get(kind, list)()
        for raw in source:
            kept = [c for c in (clean(p, words, 0.85 if kind in ("kjv", "rdb") else 0.93) for p in raw) if c]
            kept = [c for c in kept if c not in seen]
            seen.update(kept)
            if sum(map(len, kept)) >= 200:
                documents += ["\n".join(kept) + "\n", *chats(kept, rng)]
                size += sum(map(len, kept))
        print(f"| {name} | {versions[name]} | {licence} | {size / 1e6:.1f} MB |")
    rng.shuffle(documents)
    (args.out / "heldout.txt").write_text("\f".join(documents[::40]))
    (args.out / "train.txt").write_text("\f".join(d for i, d in enumerate(documents) if i % 40))
    print(f"{len(documents)} documents, {(args.out / 'train.txt').stat().st_size} bytes to train on, "
          f"{(args.out / 'heldout.txt').stat().st_size} held out")


if __name__ == "__main__":
    main()
