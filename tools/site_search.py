# SPDX-License-Identifier: Apache-2.0
"""The index that the search of the documentation site reads: a row for each section of each page. Used by site.py.

It is a script, not JSON, so that pages opened from a folder may read it. site_search.js looks things up in it.
"""
import json
import re
import unicodedata

SECTION = re.compile(r"^(?:# |## |### )", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LONGEST = 4000  # characters of a section
# What a reader asks for ranks by where it stands: (beginning of the path, weight).
WEIGHTS = (("guides/", 4), ("index.md", 3), ("examples/", 2), ("reference/", 1), ("", 1))


def slug(heading, taken):
    """The anchor that Markdown gives to a heading, as the extension `toc` does."""
    text = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    text = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())
    anchor, n = text, 0
    while anchor in taken:
        n += 1
        anchor = f"{text}_{n}"
    taken.add(anchor)
    return anchor


def plain(text):
    """Markdown without its marks; code stays, since names are looked for."""
    text = re.sub(r"(?s:<!--.*?-->)|^```.*$|^\| ---.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)\s]+\)", r"\1", text).replace("&lt;", "<")
    return re.sub(r"\s+", " ", re.sub(r"[`*|]+", " ", text)).strip()


def rows_of(path, text):
    """[address, title of the page, heading, text, weight] of each section of a page."""
    weight = next(w for begin, w in WEIGHTS if path.startswith(begin))
    masked = CODE.sub(lambda code: re.sub(r"^#", " ", code[0], flags=re.MULTILINE), text)
    starts = [match.start() for match in SECTION.finditer(masked)]
    title, taken = None, set()
    for begin, end in zip(starts, starts[1:] + [len(masked)]):
        line, _, body = masked[begin:end].partition("\n")
        heading = plain(line.lstrip("# "))
        anchor = slug(heading, taken)
        address = path.removesuffix(".md") + ".html" + (f"#{anchor}" if title else "")
        title = title or heading
        body = "\n".join([CODE.sub("", body), *CODE.findall(body)])  # an excerpt begins with prose
        yield [address, title, heading, plain(body)[:LONGEST], weight]


def script(pages):
    """The source of search_index.js, of {path: Markdown}."""
    rows = [row for path, text in pages.items() for row in rows_of(path, text)]
    return "var searchIndex = " + json.dumps(rows, ensure_ascii=False, separators=(",", ":")) + ";\n"


def self_test():
    text = ("# A page\n\nOne [link](a.md).\n\n```sh\n# no heading\n```\n\nMore.\n\n"
            "## Save `x`, & load\n\n| a |\n| --- |\n| `b` |\n\n## Save x  load\n")
    assert list(rows_of("guides/a.md", text)) == [
        ["guides/a.html", "A page", "A page", "One link. More. no heading", 4],
        ["guides/a.html#save-x-load", "A page", "Save x , & load", "a b", 4],
        ["guides/a.html#save-x-load_1", "A page", "Save x load", "", 4]], list(rows_of("guides/a.md", text))
    assert script({"index.md": "# é"}) == 'var searchIndex = [["index.html","é","é","",3]];\n'


if __name__ == "__main__":
    self_test()
