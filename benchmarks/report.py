# SPDX-License-Identifier: Apache-2.0
"""What `./dev bench` found, as a Markdown page with a bar chart (SVG) per workload."""
import html

COLOURS = {"etude": "#2a6f97", "staged": "#61a5c2", "torch": "#bc6c25", "libtorch": "#dda15e", "jax": "#6a994e"}
NAMES = {"etude": "Etude", "staged": "staged", "torch": "PyTorch", "libtorch": "libtorch", "jax": "JAX"}
WIDTH, LABEL, BAR, GAP = 560, 80, 20, 8


def human(seconds):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if seconds >= scale or unit == "ns":
            return f"{seconds / scale:.3g} {unit}"


def ratio(results, peer):
    """How many times as long the peer takes as Etude eagerly, or staged where it has no eager mode; None where
    either has no figure."""
    ours, theirs = results.get("etude", results.get("staged", {})), results.get(peer, {})
    return theirs["median"] / ours["median"] if "median" in ours and "median" in theirs else None


def chart(name, results):
    """Bars of the medians, with lines from the tenth to the ninetieth percentile."""
    rows = [(system, r) for system, r in results.items() if "median" in r]
    longest = max(r["p90"] for _, r in rows)
    room = WIDTH - LABEL - 90
    height = GAP + len(rows) * (BAR + GAP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             f'font-family="sans-serif" font-size="13" role="img" aria-label="{html.escape(name)}">']
    for i, (system, r) in enumerate(rows):
        y = GAP + i * (BAR + GAP)
        length, low, high = (room * r[key] / longest for key in ("median", "p10", "p90"))
        middle = y + BAR / 2
        parts += [f'<text x="{LABEL - 8}" y="{middle + 5}" text-anchor="end" fill="#666">{NAMES[system]}</text>',
                  f'<rect x="{LABEL}" y="{y}" width="{max(1, length):.1f}" height="{BAR}" rx="2" '
                  f'fill="{COLOURS[system]}"/>',
                  f'<path d="M{LABEL + low:.1f} {middle}H{LABEL + high:.1f}" stroke="#888" stroke-width="2"/>',
                  f'<text x="{LABEL + high + 8:.1f}" y="{middle + 5}" fill="#666">{human(r["median"])}</text>']
    return "\n".join(parts + ["</svg>"]) + "\n"


def table_rows(results, peers):
    for name, found in results.items():
        cells = [human(found[s]["median"]) if "median" in found.get(s, {}) else "" for s in ["etude", *peers]]
        ratios = [f"{r:.2f}" if r else "" for r in (ratio(found, p) for p in peers)]
        yield f"| `{name}` | " + " | ".join(cells + ratios) + " |"


def write(folder, record):
    """Writes folder/README.md and folder/NAME.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    results = record["results"]
    peers = [p for p in list(NAMES)[1:] if any(p in r for r in results.values())]
    machine, probes = record["machine"], record["probes"]
    lines = ["# Benchmark results", "",
             f"{machine['cpu']}, {record['threads']} thread(s), {machine['time']}; "
             + ", ".join(f"{NAMES[s]} {v}" for s, v in record["versions"].items()) + ".", "",
             f"Probes of the machine: {probes['gflops']:.0f} GFLOP/s of fused multiply-adds, copies of "
             f"{probes['copy_gb']:.1f} GB/s (read and written).", "",
             "| workload | " + " | ".join(NAMES[s] for s in ["etude", *peers])
             + "".join(f" | / {NAMES[p]}" for p in peers) + " |",
             "| --- |" + " --- |" * (1 + 2 * len(peers)), *table_rows(results, peers), ""]
    lines += [f"{NAMES[name]} is missing: {reason}." for name, reason in record["skipped"].items()]
    for name, found in results.items():
        if not any("median" in r for r in found.values()):
            continue
        (folder / f"{name}.svg").write_text(chart(name, found))
        lines += ["", f"## {name}", "", f"![{name}]({name}.svg)"]
    (folder / "README.md").write_text("\n".join(lines) + "\n")
