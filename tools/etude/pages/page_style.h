// SPDX-License-Identifier: Apache-2.0
// The frame, the style and the script of the page of `etude inspect --html`.
#pragma once

namespace etude::tools {

inline constexpr const char* kInspectPage = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{name}</title><style>{style}</style></head><body>
<h1>{name}</h1>
<p class="note">{what}. Rows are calls in the order in which they run. A line leads from the row that makes a value to
the rows that read it soon. Each operand is a link to the row that makes it. Rows of one layer fold.
<span class="key element-wise">element-wise</span> <span class="key linear">linear</span>
<span class="key composition">composed</span> <span class="key general">other</span></p>
{body}<script>{script}</script></body></html>
)";

inline constexpr const char* kInspectStyle = R"(
:root { --ink: #1d2733; --soft: #5d6b7a; --paper: #fff; --box: #f5f7fa; --edge: #d8dee6; --wire: #8a9bb0;
  --link: #1a56a8; --hit: #fff3c4; --element-wise: #4a7fb5; --linear: #c2761b; --composition: #7b5ea7; --general: #6b7785;
  --input: #2f8a4c; --output: #a8436b; --step: 16px }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ef; --soft: #9aa8b7; --paper: #14191f; --box: #1d242c;
  --edge: #333d48; --wire: #6d7f94; --link: #7fb2f0; --hit: #4a4010 } }
* { box-sizing: border-box }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  padding: 16px 24px 80px; max-width: 1080px }
h1 { font-size: 22px; overflow-wrap: anywhere } h2 { font-size: 18px; margin: 32px 0 4px; overflow-wrap: anywhere }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
.note, .facts, .type, .bytes { color: var(--soft) } .note { margin: 4px 0 10px }
.fold { margin: 4px 0 8px } button { font: inherit; font-size: 12px; color: var(--ink); background: var(--box);
  border: 1px solid var(--edge); border-radius: 4px; padding: 2px 10px; cursor: pointer }
.graph > summary, .inner > summary { cursor: pointer; padding: 8px 10px; background: var(--box); border-radius: 6px;
  overflow-wrap: anywhere; margin-top: 6px }
.rows { margin: 6px 0 14px }
.row { display: flex; align-items: stretch; min-height: 26px }
.row:target > .box, :target > .box { background: var(--hit) }
.group > summary { cursor: pointer; list-style: none } .group > summary::-webkit-details-marker { display: none }
.group > summary .head b::before { content: "\25B8\00A0"; color: var(--soft) }
.group[open] > summary .head b::before { content: "\25BE\00A0" }
.group > summary .box { background: var(--box); border-left-color: var(--edge) }
.group[open] > summary .when-closed, .group:not([open]) > summary .when-open { display: none }
.gutter { flex: 0 0 var(--gutter); display: flex; flex-direction: column; overflow: hidden }
.gutter svg { display: block; flex: none } .gutter .rest { flex: 1 1 0; min-height: 0 }
.gutter path { fill: none; stroke: var(--wire); stroke-width: 1.6; vector-effect: non-scaling-stroke }
.gutter circle { fill: var(--wire) }
.box { flex: 1 1 auto; min-width: 0; margin: 1px 0 1px calc(4px + var(--depth) * var(--step)); padding: 2px 10px 3px;
  border-left: 4px solid var(--general); border-radius: 3px }
.box:hover { background: var(--box) }
.element-wise { border-color: var(--element-wise) } .linear { border-color: var(--linear) }
.composition { border-color: var(--composition) } .input { border-color: var(--input) }
.output { border-color: var(--output) }
.key { border-left: 4px solid var(--general); padding: 0 8px 0 5px; white-space: nowrap }
.key.element-wise { border-color: var(--element-wise) } .key.linear { border-color: var(--linear) }
.key.composition { border-color: var(--composition) }
.head { display: flex; flex-wrap: wrap; column-gap: 8px; align-items: baseline; overflow-wrap: anywhere }
.layer { color: var(--soft); font-weight: 600 }
.value { font-family: ui-monospace, monospace; font-size: 12px; color: var(--soft) }
.type { font-family: ui-monospace, monospace; font-size: 12px }
.facts { font-size: 12px; display: flex; flex-wrap: wrap; column-gap: 14px; overflow-wrap: anywhere }
.facts > span { min-width: 0 } .facts i { font-style: normal; font-family: ui-monospace, monospace; font-size: 11px }
.state { color: var(--ink) } .state i { color: var(--soft) } .line { margin-left: auto; white-space: nowrap }
.time { margin-left: auto; display: inline-flex; align-items: center; gap: 6px; font-size: 12px;
  font-variant-numeric: tabular-nums; white-space: nowrap }
.time::before { content: ""; width: 0 }
.time i { display: inline-block; height: 8px; min-width: 1px; max-width: 100%; background: var(--linear);
  border-radius: 2px; flex: none }
.time { width: 190px; justify-content: flex-end } .time i { max-width: 110px }
.tree summary, .leaf { display: flex; gap: 10px; align-items: baseline; padding: 1px 6px;
  padding-left: calc(6px + var(--depth) * var(--step)); border-bottom: 1px solid var(--edge) }
.tree summary { cursor: pointer; list-style: none } .tree summary::-webkit-details-marker { display: none }
.tree summary b::before { content: "\25B8\00A0"; color: var(--soft) }
.tree details[open] > summary b::before { content: "\25BE\00A0" }
.tree b, .leaf > :first-child { flex: 1 1 auto; min-width: 0; overflow-wrap: anywhere }
.bytes { flex: 0 0 64px; text-align: right; font-size: 12px; font-variant-numeric: tabular-nums }
li { overflow-wrap: anywhere }
@media (max-width: 600px) { body { padding: 10px 10px 60px; font-size: 13px } :root { --step: 7px }
  .box { padding: 2px 6px 3px } .line { margin-left: 0; white-space: normal } .time { width: auto } .time i { max-width: 60px }
  .bytes { flex-basis: 52px } }
)";

// Opens the groups around the target of a link; folds and opens all groups of a function.
inline constexpr const char* kInspectScript = R"(
function reveal() {
  const target = document.getElementById(location.hash.slice(1));
  for (let at = target; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true;
  if (target) target.scrollIntoView({ block: 'center' });
}
addEventListener('hashchange', reveal);
reveal();
for (const button of document.querySelectorAll('[data-fold]')) {
  button.onclick = () => {
    const isOpen = button.dataset.fold === 'open';
    for (const each of button.closest('section').querySelectorAll('details.group, details.inner')) each.open = isOpen;
  };
}
)";

}  // namespace etude::tools
