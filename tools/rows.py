#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which test shows which clause: writes tests/ROWS.md from the `spec:` citations in the tests.

A row of required behaviour is one promise, cited by its name (`V12`), or several clauses, each cited by
its own (`V9.a, V9.c`, or `V9.a..c`). tools/rows.txt lists both, one a line. A test cites the clauses that
its assertions show, and no others.

`tools/rows.py` writes the page. `tools/rows.py --check` fails when a test cites a clause that does not
exist or a row that has clauses, when a clause has neither a test nor a reason in tools/rows_pending.txt,
when it has both, and when the page is not current. A reason covers `V9.b`, the clauses `V9.b..d`, the row
`V60` with all its clauses, or the rows `V60..V68`.
"""
import os
import re
import sys

import check_common as common

ROWS, PENDING, PAGE = "tools/rows.txt", "tools/rows_pending.txt", "tests/ROWS.md"
TEST = re.compile(r"(_test\.(cc|py)|^python/tests/.*\.py|^tests/.*\.(cc|h|py|sh|cmake|txt)|^examples/.*)$")
CITATION = re.compile(r"(?://|#) spec: *([^\n]*(?:\n *(?://|#) {2,}[^\n]*)*)")
STRAY = re.compile(r"(?://|#) (?!spec:)[^\n]*\bspec:")
NAME = re.compile(r"[A-Z]+-?\d+(?:\.[a-z](?:\.\.[a-z])?|\.\.(?:[A-Z]+-?)?\d+)?(?![\w.]*\w)")
ROW_RANGE = re.compile(r"([A-Z]+-?)(\d+)\.\.\1?(\d+)")
CLAUSE_RANGE = re.compile(r"([A-Z]+-?\d+)\.([a-z])\.\.([a-z])")


class Rows:
    """What tools/rows.txt says: {name: text} of rows and clauses, and where pages and sections begin."""

    def __init__(self, text):
        self.clauses, self.titles, self.pages, self.sections = {}, {}, {}, {}
        page = section = None
        for line in text.splitlines():
            if line.startswith(("# ", "## ")):
                page, section = (line[2:], None) if line[1] == " " else (page, line[3:])
            elif line.strip() and not line.startswith("#"):
                name, title = line.split(None, 1)
                row = name.split(".")[0]
                if name == row:
                    self.titles[row], self.clauses[row], self.pages[row] = title, {name: title}, page
                    if section:
                        self.sections[row], section = section, None
                else:
                    self.clauses[row].pop(row, None)
                    self.clauses[row][name] = title

    def all_clauses(self):
        return {name: text for clauses in self.clauses.values() for name, text in clauses.items()}

    def named(self, word):
        """The clauses that a word of tools/rows_pending.txt covers; the word where it is unknown."""
        return [clause for name in expand(word) for clause in self.clauses.get(name, {name: ""})]


def expand(word):
    """V60..V62 as V60 V61 V62, the digits keeping their width; V9.a..c as V9.a V9.b V9.c."""
    if match := ROW_RANGE.fullmatch(word):
        family, first, last = match.groups()
        return [f"{family}{n:0{len(first)}}" for n in range(int(first), int(last) + 1)]
    if match := CLAUSE_RANGE.fullmatch(word):
        row, first, last = match.groups()
        return [f"{row}.{chr(n)}" for n in range(ord(first), ord(last) + 1)]
    return [word]


def citations(text):
    """The rows and clauses that a source cites, in order."""
    return list(dict.fromkeys(name for match in CITATION.finditer(text)
                              for word in NAME.findall(match.group(1)) for name in expand(word)))


def read_pending(text, rows):
    """{clause: reason}, and the faults of the file."""
    pending, faults = {}, []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, _, reason = line.partition(" ")
        if not reason.strip():
            faults.append(f"{PENDING}: '{word}' has no reason")
        for clause in rows.named(word) if reason.strip() else []:
            if clause in pending:
                faults.append(f"{PENDING}: {clause} is there twice")
            pending[clause] = reason.strip()
    return pending, faults


def faults_of(rows, cited, pending):
    """`cited` is {name: [tests]}."""
    clauses = rows.all_clauses()
    families = {re.match("[A-Z]+", row).group() for row in rows.titles}
    for name, text in clauses.items():
        if name not in cited and name not in pending:
            yield f"{name} ({text}): no test cites it; write `// spec: {name}` over one, or give a reason in {PENDING}"
        if name in cited and name in pending:
            yield f"{name}: {', '.join(cited[name])} cites it, so it is not pending; take it out of {PENDING}"
    for name in pending:
        if name not in clauses:
            yield f"{PENDING}: there is no clause {name}"
    for name, tests in cited.items():
        if name in rows.titles and name not in clauses:
            yield f"{tests[0]}: {name} has clauses; cite those that the test shows: {', '.join(rows.clauses[name])}"
        elif name not in clauses and re.match("[A-Z]+", name).group() in families:
            yield f"{tests[0]}: there is no clause {name}; {ROWS} lists them"


def counts(rows, cited):
    """Lines of a table: of each page, rows with all, some and none of their clauses tested."""
    total = {}
    for row, clauses in rows.clauses.items():
        done = sum(clause in cited for clause in clauses)
        sums = total.setdefault(rows.pages[row], [0] * 5)
        sums[0 if done == len(clauses) else 1 if done else 2] += 1
        sums[3] += done
        sums[4] += len(clauses)
    lines = total | {"all": [sum(column) for column in zip(*total.values())]}
    return [f"| {page} | {whole} | {part} | {none} | {done} of {of} |"
            for page, (whole, part, none, done, of) in lines.items()]


def page(rows, cited, pending):
    """The Markdown page."""
    out = ["<!-- Generated by tools/rows.py; do not edit: ./dev generate -->", "# Rows and their tests", "",
           "Required behaviour, in rows; a row with several promises has clauses. Beside each are the tests whose",
           "assertions show it, or why there is none.", "",
           "| page | rows whole | in part | without tests | clauses with tests |", "| --- | --- | --- | --- | --- |",
           *counts(rows, cited)]
    last = None
    for row, clauses in rows.clauses.items():
        if rows.pages[row] != last:
            last = rows.pages[row]
            out += ["", f"## {last}"]
        if row in rows.sections:
            out += ["", f"### {rows.sections[row]}", "", "| row | what | tests |", "| --- | --- | --- |"]
        if row not in clauses:
            done = sum(clause in cited for clause in clauses)
            out.append(f"| **{row}** | **{rows.titles[row]}** | {done} of {len(clauses)} |")
        for name, text in clauses.items():
            links = ", ".join(f"[{os.path.basename(path)}](../{path})" for path in cited.get(name, []))
            out.append(f"| {name} | {text} | {links or '*' + pending.get(name, 'none') + '*'} |")
    return "\n".join(out) + "\n"


def self_test():
    assert citations("// spec: IM-01, V1..V3\n") == ["IM-01", "V1", "V2", "V3"]
    assert citations("# spec: TP-01..TP-03, V9.b, V9.d..e.\n") == ["TP-01", "TP-02", "TP-03", "V9.b", "V9.d", "V9.e"]
    assert STRAY.search("// Exact. spec: T1") and not STRAY.search("// spec: T1")
    assert citations("// spec: T1 (creation),\n//       T2\nint V9;") == ["T1", "T2"]
    rows = Rows("# All\n## First\nV1 a\nV2 b\nV2.a ba\nV2.b bb\n")
    assert rows.all_clauses() == {"V1": "a", "V2.a": "ba", "V2.b": "bb"}
    pending, faults = read_pending("V1..V2 later\nV3\n", rows)
    assert pending == {"V1": "later", "V2.a": "later", "V2.b": "later"}
    assert faults == [f"{PENDING}: 'V3' has no reason"]
    assert not list(faults_of(rows, {"V1": ["t"], "D4": ["t"]}, {"V2.a": "later", "V2.b": "later"}))
    assert len(list(faults_of(rows, {"V1": ["t"], "V2.a": ["t"]}, {}))) == 1
    assert len(list(faults_of(rows, {"V1": ["t"], "V2": ["t"], "V2.c": ["t"]}, pending))) == 3
    text = page(rows, {"V1": ["a/t.cc"], "V2.a": ["a/t.cc"]}, {"V2.b": "later"})
    assert "| All | 1 | 1 | 0 | 2 of 3 |" in text and "| V2.b | bb | *later* |" in text


def gather():
    rows = Rows(common.read(ROWS))
    pending, faults = read_pending(common.read(PENDING), rows)
    cited = {}
    for path in filter(TEST.search, common.files()):
        text = common.read(path)
        for match in STRAY.finditer(text):
            faults.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: a citation begins its line: `// spec: ...`")
        for name in citations(text):
            cited.setdefault(name, []).append(path)
    return page(rows, cited, pending), faults + list(faults_of(rows, cited, pending))


def main():
    text, faults = gather()
    where = os.path.join(common.ROOT, PAGE)
    if "--check" in sys.argv:
        known = common.read(PAGE) if os.path.exists(where) else ""
        return faults + ([] if known == text else [f"{PAGE} is stale: run ./dev generate"])
    os.makedirs(os.path.dirname(where), exist_ok=True)
    with open(where, "w", encoding="utf-8") as file:
        file.write(text)
    return []


if __name__ == "__main__":
    sys.exit(common.run(main, self_test))
