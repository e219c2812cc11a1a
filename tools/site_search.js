// SPDX-License-Identifier: Apache-2.0
// The search of the documentation site: a field in the head of each page, which looks into search_index.js. It needs
// no server and no other script. `/` goes to the field, arrows choose, Enter opens, Escape closes.
"use strict";

// The best rows [address, page, heading, text, weight] for the words of `query`; all words must be there.
function search(index, query, most) {
  const words = query.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter((word) => word);
  const begins = words.map((word) => new RegExp("(?<![\\p{L}\\p{N}])" + word, "u"));
  const wholes = words.map((word) => new RegExp("(?<![\\p{L}\\p{N}])" + word + "s?(?![\\p{L}\\p{N}_])", "u"));
  const at = (text, k) => wholes[k].test(text) ? 2 : begins[k].test(text) ? 1 : 0;
  const score = (row) => {
    const [page, heading, text] = [row[1], row[2], row[3]].map((part) => part.toLowerCase());
    let sum = 0, own = 0;  // own: of the section, and not of its page alone
    for (let k = 0; k < words.length; ++k) {
      const inside = 10 * at(heading, k) + at(text, k), one = inside + 6 * at(page, k);
      if (one === 0) return 0;
      own += inside;
      sum += one + Math.min(2, text.split(words[k]).length - 1);
    }
    return own > 0 ? sum * row[4] : 0;
  };
  if (words.length === 0) return [];
  return index.map((row) => [score(row), row]).filter((pair) => pair[0] > 0)
    .sort((a, b) => b[0] - a[0]).slice(0, most).map((pair) => pair[1]);
}

// The part of a text around the first of the words.
function excerpt(text, query) {
  const found = text.toLowerCase().indexOf(query.toLowerCase().split(/\s+/)[0]);
  const begin = Math.max(0, found - 40);
  return (begin > 0 ? "…" : "") + text.slice(begin, begin + 140);
}

function addSearch() {
  const base = JSON.parse(document.getElementById("__config").textContent).base + "/";
  const box = document.createElement("div");
  box.className = "etude-search";
  box.innerHTML = '<input type="search" placeholder="Search" aria-label="Search"><ol hidden></ol>';
  document.querySelector(".md-header__inner").append(box);
  const [field, list] = box.children;

  function show() {
    const rows = typeof searchIndex === "undefined" ? [] : search(searchIndex, field.value, 12);
    list.replaceChildren(...rows.map(([address, page, heading, text]) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      const head = document.createElement("b");
      head.textContent = heading === page ? page : page + " › " + heading;
      link.href = base + address;
      link.append(head, excerpt(text, field.value));
      item.append(link);
      return item;
    }));
    if (rows.length === 0) list.textContent = "Nothing has all of these words.";
    list.hidden = field.value.trim() === "";
  }
  function load() {  // once, when the field is first used
    if (document.getElementById("search-index")) return;
    const script = document.createElement("script");
    script.id = "search-index";
    script.src = base + "search_index.js";
    script.onload = show;
    document.head.append(script);
  }
  field.addEventListener("focus", load);
  field.addEventListener("input", show);
  box.addEventListener("keydown", (event) => {
    const stops = [field, ...list.querySelectorAll("a")];
    const at = stops.indexOf(document.activeElement);
    if (event.key === "Escape") list.hidden = true;
    if (event.key === "Enter" && at === 0 && stops[1]) stops[1].click();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      stops[(at + (event.key === "ArrowDown" ? 1 : stops.length - 1)) % stops.length].focus();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /INPUT|TEXTAREA/.test(document.activeElement.tagName)) return;
    event.preventDefault();
    field.focus();
  });
  document.addEventListener("click", (event) => { if (!box.contains(event.target)) list.hidden = true; });
}

if (typeof document === "undefined") module.exports = {search};  // for the test
else addSearch();
