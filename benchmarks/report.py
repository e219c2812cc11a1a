# SPDX-License-Identifier: Apache-2.0
"""What `./dev bench` found, as a Markdown page with bar charts (SVG): one of all workloads, and one of each."""
import html
import math

COLOURS = {"etude": "#2a6f97", "staged": "#61a5c2", "lazy": "#a9d6e5", "torch": "#bc6c25", "compile": "#e9c46a",
           "libtorch": "#dda15e", "jax": "#6a994e", "tensorflow": "#9b5de5", "xla": "#c8a2e8"}
NAMES = {"etude": "Etude", "staged": "staged", "lazy": "lazy", "torch": "PyTorch", "compile": "torch.compile",
         "libtorch": "libtorch", "jax": "JAX", "tensorflow": "TensorFlow", "xla": "TF XLA"}
OURS = ("etude", "staged", "lazy")
RIVALS = tuple(name for name in NAMES if name not in OURS)
WIDTH, LABEL, BAR, GAP = 560, 104, 20, 8
PICTURE = "against_best.svg"


def human(seconds):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if seconds >= scale or unit == "ns":
            return f"{seconds / scale:.3g} {unit}"


def best_rival(results):
    """(name, seconds) of the rival that takes the shortest time; None where none has a figure."""
    timed = [(results[name]["median"], name) for name in RIVALS if "median" in results.get(name, {})]
    return min(timed)[::-1] if timed else None


def against_best(results, mode):
    """How many times as long the best rival takes as Etude in this mode; None where one has no figure."""
    best, ours = best_rival(results), results.get(mode, {})
    return best[1] / ours["median"] if best and "median" in ours else None


def text(x, y, words, anchor="start", size=13):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="#777">{html.escape(words)}</text>'


def svg(height, title, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'font-family="sans-serif" font-size="13" role="img" aria-label="{html.escape(title)}">')
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def chart(name, results):
    """Bars of the medians, with lines from the tenth to the ninetieth percentile."""
    rows = [(system, r) for system, r in results.items() if "median" in r]
    longest = max(r["p90"] for _, r in rows)
    room = WIDTH - LABEL - 90
    parts = []
    for i, (system, r) in enumerate(rows):
        y = GAP + i * (BAR + GAP)
        length, low, high = (room * r[key] / longest for key in ("median", "p10", "p90"))
        middle = y + BAR / 2
        parts += [text(LABEL - 8, middle + 5, NAMES[system], "end"),
                  f'<rect x="{LABEL}" y="{y}" width="{max(1, length):.1f}" height="{BAR}" rx="2" '
                  f'fill="{COLOURS[system]}"/>',
                  f'<path d="M{LABEL + low:.1f} {middle}H{LABEL + high:.1f}" stroke="#888" stroke-width="2"/>',
                  text(LABEL + high + 8, middle + 5, human(r["median"]))]
    return svg(GAP + len(rows) * (BAR + GAP), name, parts)


def picture(results):
    """Bars for each workload, from the line where the best rival is: to the right of it Etude is faster. The
    scale is logarithmic."""
    left, thin, row, top = 150, 5, 24, 52
    rows = [(name, best_rival(found)[0], {mode: r for mode in OURS if (r := against_best(found, mode))})
            for name, found in results.items() if best_rival(found)]
    exponents = [math.log2(r) for _, _, ratios in rows for r in ratios.values()] + [0]
    low, high = math.floor(min(exponents)), math.ceil(max(exponents))
    scale = (WIDTH - left - 100) / max(1, high - low)
    place = lambda exponent: left + (exponent - low) * scale
    height = top + row * len(rows) + 6
    parts = [text(left, 16, "times as fast as the best rival", size=12)]
    for i, mode in enumerate(OURS):
        x = WIDTH - 210 + 72 * i
        parts += [f'<rect x="{x}" y="8" width="10" height="8" fill="{COLOURS[mode]}"/>',
                  text(x + 14, 16, "eager" if mode == "etude" else mode, size=12)]
    step = max(1, math.ceil((high - low) / 9))
    for exponent in range(math.ceil(low / step) * step, high + 1, step):
        bold = 1.5 if exponent == 0 else 0.5
        value = f"{2 ** exponent}" if exponent >= 0 else f"1/{2 ** -exponent}"
        parts += [f'<path d="M{place(exponent):.1f} {top - 8}V{height}" stroke="#999" stroke-width="{bold}"/>',
                  text(place(exponent), top - 14, value, "middle", 11)]
    for i, (name, best, ratios) in enumerate(rows):
        y = top + i * row
        parts += [text(left - 8, y + 13, name, "end", 12), text(WIDTH - 4, y + 13, NAMES[best], "end", 11)]
        for k, (mode, ratio) in enumerate(ratios.items()):
            x = sorted((place(0), place(math.log2(ratio))))
            parts.append(f'<rect x="{x[0]:.1f}" y="{y + 1 + k * (thin + 1)}" width="{max(1.5, x[1] - x[0]):.1f}" '
                         f'height="{thin}" fill="{COLOURS[mode]}"/>')
    return svg(height, "Etude beside the best rival of each workload", parts)


def table_rows(results, systems):
    for name, found in results.items():
        cells = [human(found[s]["median"]) if "median" in found.get(s, {}) else "" for s in systems]
        best = best_rival(found)
        ratios = [f"{r:.2f}" if (r := against_best(found, mode)) else "" for mode in OURS]
        yield f"| `{name}` | " + " | ".join([*cells, NAMES[best[0]] if best else "", *ratios]) + " |"


def write(folder, record):
    """Writes folder/README.md, folder/against_best.svg and folder/NAME.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    results = record["results"]
    systems = [s for s in NAMES if any(s in r for r in results.values())]
    machine, probes = record["machine"], record["probes"]
    lines = ["# Benchmark results", "",
             f"{machine['cpu']}, {record['threads']} thread(s), {machine['time']}; "
             + ", ".join(f"{NAMES[s]} {v}" for s, v in record["versions"].items()) + ".", "",
             f"Probes of the machine: {probes['gflops']:.0f} GFLOP/s of fused multiply-adds, copies of "
             f"{probes['copy_gb']:.1f} GB/s (read and written).", ""]
    if any(best_rival(found) for found in results.values()):
        (folder / PICTURE).write_text(picture(results))
        lines += [f"![Etude beside the best rival of each workload]({PICTURE})", ""]
    lines += ["The last columns: how many times as long the best rival takes.", "",
              "| workload | " + " | ".join(NAMES[s] for s in systems) + " | best rival | eager | staged | lazy |",
              "| --- |" + " --- |" * (len(systems) + 4), *table_rows(results, systems), ""]
    lines += [f"{NAMES[name]} is missing: {reason}." for name, reason in record["skipped"].items()]
    for name, found in results.items():
        if not any("median" in r for r in found.values()):
            continue
        (folder / f"{name}.svg").write_text(chart(name, found))
        lines += ["", f"## {name}", "", f"![{name}]({name}.svg)"]
    (folder / "README.md").write_text("\n".join(lines) + "\n")
