"""check.py FILE HTML - is a report in Markdown small enough, and does no text from outside act as markup?

HTML is what cmark-gfm, GitHub's own renderer, made of FILE. Prints a line, or what is wrong. SPDX-License-Identifier: Apache-2.0
"""
import html.parser
import re
import sys

TAGS = set("h3 p table thead tbody tr th td strong code pre ul li details summary br".split())
GITHUB_MAX = 65536
# what GitHub turns into a notification or a link once the page is made
ACTIVE = re.compile(r"@[A-Za-z0-9]|(^|\W)#[0-9]|://|www\.")


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.wrong, self.open, self.rows, self.width, self.cells = [], [], 0, 0, 0

    def handle_starttag(self, tag, attrs):
        if tag not in TAGS:
            self.wrong.append(f"<{tag}> at line {self.getpos()[0]}")
        if [a for a in attrs if a[0] != "align" and a != ("class", "language-sh")]:
            self.wrong.append(f"<{tag} {attrs}>")
        if tag == "br":
            return
        self.open.append(tag)
        if tag == "table":
            self.width = 0
        elif tag == "tr":
            self.cells = 0
        elif tag in ("td", "th"):
            self.cells += 1

    def handle_endtag(self, tag):
        if tag == "br":
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes something else at line {self.getpos()[0]}")
        if tag == "tr":
            self.rows += 1
            if self.width and self.cells != self.width:
                self.wrong.append(f"a row of {self.cells} cells under {self.width} headings")
            self.width = self.width or self.cells

    def handle_data(self, data):
        if "code" not in self.open and ACTIVE.search(data):
            self.wrong.append(f"not disarmed: {ACTIVE.search(data).group(0)!r} in {data[:60]!r}")

    def handle_comment(self, data):
        self.wrong.append(f"a comment: {data[:40]}")


def check(text, page_text):
    page = Page()
    page.feed(page_text)
    page.close()
    if page.open:
        page.wrong.append(f"not closed: {page.open}")
    if len(text) > GITHUB_MAX:
        page.wrong.append(f"{len(text)} characters")
    if re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text):
        page.wrong.append("a control character")
    return page


if __name__ == "__main__":
    text = open(sys.argv[1], encoding="utf-8", newline="").read()
    page = check(text, open(sys.argv[2], encoding="utf-8").read())
    for w in page.wrong[:10]:
        print("wrong:", w)
    print(f"{page.rows} rows of tables, {len(text) // 1000} thousand characters")
    sys.exit(bool(page.wrong))
