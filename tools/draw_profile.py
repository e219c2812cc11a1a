#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what `etude profile` found, for pages: draw_profile.py TRACE TABLE FOLDER.

TRACE is the trace it wrote, TABLE what it printed. FOLDER gets profile_table.svg, the table as it stands in a
terminal, and profile_trace.svg, the calls of the last whole round of the program's main loop.
"""
import html
import json
import pathlib
import sys

WIDTH, LEFT, ROW = 1000, 10, 24
COLOURS = ("#2a6f97", "#bc6c25", "#588157", "#9b5de5", "#c1121f", "#6c757d", "#0a9396", "#ca6702")


def svg(width, height, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="12">')
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>"]) + "\n"


def table_picture(lines):
    shown = [line.rstrip() for line in lines if line.strip()]
    width = 20 + max(len(line) for line in shown) * 7.3
    parts = [f'<text x="10" y="{20 + 17 * i}" xml:space="preserve" fill="#222"'
             + (' font-weight="bold"' if i == 0 else "") + f">{html.escape(line)}</text>"
             for i, line in enumerate(shown)]
    return svg(int(width), 17 * len(shown) + 16, parts)


def last_round(events):
    """The events from the last but one start of the main loop to the last."""
    first = next(e for e in events if e["args"]["line"] and e["name"] == "conv2d")
    starts = [i for i, e in enumerate(events)
              if (e["name"], e["args"]["line"]) == (first["name"], first["args"]["line"])]
    return events[starts[-2]:starts[-1]]


def trace_picture(events):
    begin = events[0]["ts"]
    length = max(e["ts"] + e["dur"] for e in events) - begin
    room = WIDTH - 2 * LEFT
    totals = {}
    for e in events:
        totals[e["name"]] = totals.get(e["name"], 0) + e["dur"]
    names = sorted(totals, key=totals.get, reverse=True)
    colour = {name: COLOURS[min(i, len(COLOURS) - 1)] for i, name in enumerate(names)}
    parts, ends = [], []
    for e in events:
        while ends and ends[-1] <= e["ts"]:
            ends.pop()
        x, width = LEFT + room * (e["ts"] - begin) / length, max(.4, room * e["dur"] / length)
        y = 30 + ROW * len(ends)
        ends.append(e["ts"] + e["dur"])
        parts.append(f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{ROW - 2}" fill="{colour[e["name"]]}">'
                     f'<title>{html.escape(e["name"])} {e["dur"]:.1f} us, {html.escape(e["args"]["line"])}</title></rect>')
        if width > 7.5 * len(e["name"]) + 6:
            parts.append(f'<text x="{x + 4:.2f}" y="{y + 15}" fill="#fff">{html.escape(e["name"])}</text>')
    deepest = max(float(p.split('y="')[1].split('"')[0]) for p in parts)
    parts.append(f'<text x="{LEFT}" y="20" fill="#222">one step, {length / 1e3:.2f} ms, {len(events)} calls</text>')
    x, y = LEFT, deepest + ROW + 26
    for name in names[:len(COLOURS)]:
        label = name if names.index(name) < len(COLOURS) - 1 else "others"
        text = f"{label} {totals[name] / length * 100:.0f}%" if label != "others" else label
        parts += [f'<rect x="{x}" y="{y - 10}" width="10" height="10" fill="{colour[name]}"/>',
                  f'<text x="{x + 14}" y="{y}" fill="#222">{html.escape(text)}</text>']
        x += 26 + 7.4 * len(text)
        if x > WIDTH - 220:
            x, y = LEFT, y + 18
    return svg(WIDTH, int(y + 14), parts)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    trace, table, folder = map(pathlib.Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    events = sorted(json.loads(trace.read_text())["traceEvents"], key=lambda e: (e["ts"], -e["dur"]))
    lines = table.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("op "))
    end = next(i for i, line in enumerate(lines) if line.startswith("all "))
    (folder / "profile_table.svg").write_text(table_picture(lines[start:end + 1]))
    (folder / "profile_trace.svg").write_text(trace_picture(last_round(events)))


if __name__ == "__main__":
    main()
