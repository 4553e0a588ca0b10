"use strict";
// The page's data stands in JSON blocks of this document and is read a block at a time.
// Whatever comes out of a transcript becomes text nodes only: no markup, no links.

const $ = (id) => document.getElementById(id);

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "depth") element.style.setProperty("--depth", value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// ---- Data ------------------------------------------------------------------------------

const NONE = -1;

class Log {
  constructor(info, number) {
    this.info = info;
    this.length = info.length;
    const n = info.length;
    this.types = [];
    this.type = new Uint32Array(n);
    this.time = new Float64Array(n);
    this.label = new Int32Array(n).fill(NONE); // place on the surface, NONE: never a node
    this.by = new Int32Array(n).fill(NONE); // what replaced it, NONE: nothing did
    this.rows = new Uint16Array(n); // lines of text, to guess heights
    this.replaced = new Map(); // replacement → what it replaced, in surface order
    this.sources = new Map();
    this.citing = new Map();
    this.blocks = []; // [first seq, element of the bodies, parsed bodies or null]
    const names = new Map();
    for (const script of document.querySelectorAll(`script[data-head="${number}"]`)) {
      this.readHead(JSON.parse(script.textContent), names);
      script.remove();
    }
    for (const script of document.querySelectorAll(`script[data-body="${number}"]`))
      this.blocks.push([Number(script.dataset.first), script, null]);
    for (const list of this.replaced.values()) list.sort((a, b) => this.label[a] - this.label[b]);
  }

  readHead(head, names) {
    head.events.forEach(([type, time, rows, start], index) => {
      const seq = head.first + index;
      const name = head.types[type];
      if (!names.has(name)) {
        names.set(name, this.types.length);
        this.types.push(name);
      }
      this.type[seq] = names.get(name);
      this.time[seq] = time;
      this.rows[seq] = Math.min(rows, 65535);
      if (start !== null) this.label[seq] = start < 0 ? seq : this.label[start];
    });
    for (const [seq, replacement] of head.by) {
      this.by[seq] = replacement;
      push(this.replaced, replacement, seq);
    }
    for (const [seq, sources] of head.sources) {
      this.sources.set(seq, sources);
      for (const source of sources) push(this.citing, source, seq);
    }
  }

  typeOf(seq) {
    return this.types[this.type[seq]];
  }

  body(seq) {
    let low = 0;
    let high = this.blocks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.blocks[middle][0] <= seq) low = middle;
      else high = middle - 1;
    }
    const block = this.blocks[low];
    if (block[2] === null) {
      block[2] = JSON.parse(block[1].textContent);
      recent.push(block);
      // Parsed bodies are many times the size of their text; a few blocks are enough.
      if (recent.length > 40) recent.shift()[2] = null;
    }
    return block[2][seq - block[0]];
  }

  classAt(seq, length) {
    if (this.label[seq] === NONE) return "log-only";
    return this.by[seq] !== NONE && this.by[seq] < length ? "shadowed" : "current";
  }

  surfaceAt(length) {
    const nodes = [];
    for (let seq = 0; seq < length; seq++)
      if (this.classAt(seq, length) === "current") nodes.push(seq);
    return nodes.sort((a, b) => this.label[a] - this.label[b]);
  }
}

const recent = [];

function push(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

// ---- Text of events --------------------------------------------------------------------

function blocksOf(data) {
  const content = data.content ?? data.message?.content;
  return Array.isArray(content) ? content : null;
}

function roleOf(log, seq, body) {
  const type = log.typeOf(seq);
  if (type === "assistant/message") return "assistant";
  if (type === "tool/result" || type === "tool/call") return "tool";
  if (type === "user/message") {
    const kind = body.data?.source?.kind;
    return kind && kind !== "user" ? "system" : "user";
  }
  return "event";
}

// Parts of an event as [kind, title, text]; kind "text" is shown, the others are folded.
function partsOf(body) {
  const parts = [];
  const walk = (blocks) => {
    for (const block of blocks) {
      if (block === null || typeof block !== "object") parts.push(["text", "", String(block)]);
      else if (block.type === "text") parts.push(["text", "", String(block.text ?? "")]);
      else if (block.type === "reasoning") parts.push(["fold", "reasoning", String(block.text ?? "")]);
      else if (block.type === "tool-call")
        parts.push(["fold", `call ${block.name ?? ""}`, pretty(block.arguments)]);
      else if (block.type === "tool-result" && Array.isArray(block.content)) walk(block.content);
      else parts.push(["fold", String(block.type ?? "block"), JSON.stringify(block, null, 2)]);
    }
  };
  const blocks = blocksOf(body.data);
  if (blocks) walk(blocks);
  else if (body.text) parts.push(["text", "", body.text]);
  else if (Object.keys(body.data).length)
    parts.push(["data", "", JSON.stringify(body.data)]);
  return parts;
}

function pretty(text) {
  if (typeof text !== "string") return JSON.stringify(text ?? null, null, 2);
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function searchText(body) {
  return partsOf(body)
    .map(([, title, text]) => `${title} ${text}`)
    .join("\n");
}

// ---- State -----------------------------------------------------------------------------

const index = JSON.parse($("index").textContent);
const logs = new Map();
const state = {
  number: 0,
  length: 0,
  mode: "surface",
  selected: null,
  opened: new Set(), // replacements whose events are shown
  unfolded: new Set(), // events shown in full
  hits: [],
  hit: -1,
  words: "",
};

function log() {
  if (!logs.has(state.number)) logs.set(state.number, new Log(index.sessions[state.number], state.number));
  return logs.get(state.number);
}

// ---- The list, of which only what is near the window exists ------------------------------

const LINE = 20;
const CLAMP_LINES = 14;
const CLAMP_CHARS = 8000; // more than so many lines of a wide window hold
const SHOWN_CHARS = 200000;
const PIECE_CHARS = 10000; // browsers lay out longer paragraphs in quadratic time
// An event stands in one row at most: heights and elements are kept by seq.
const list = { rows: [], tops: new Float64Array(1), heights: new Map(), elements: new Map() };

function buildRows() {
  const current = log();
  const rows = [];
  if (state.mode === "surface") {
    // Compactions of compactions may be nested deeper than calls can be.
    const left = current.surfaceAt(state.length).map((seq) => ({ seq, depth: 0 })).reverse();
    while (left.length) {
      const row = left.pop();
      rows.push(row);
      const covered = state.opened.has(row.seq) ? current.replaced.get(row.seq) || [] : [];
      for (let at = covered.length - 1; at >= 0; at--)
        left.push({ seq: covered[at], depth: row.depth + 1 });
    }
  } else for (let seq = 0; seq < state.length; seq++) rows.push({ seq, depth: 0 });
  list.rows = rows;
  layOut();
}

function guess(row) {
  const current = log();
  const lines = state.unfolded.has(row.seq)
    ? current.rows[row.seq]
    : Math.min(current.rows[row.seq], CLAMP_LINES + 1);
  return 44 + lines * LINE;
}

function layOut() {
  const tops = new Float64Array(list.rows.length + 1);
  list.rows.forEach((row, place) => {
    tops[place + 1] = tops[place] + (list.heights.get(row.seq) ?? guess(row));
  });
  list.tops = tops;
  $("canvas").style.height = `${tops[list.rows.length]}px`;
}

function placeAt(offset) {
  let low = 0;
  let high = list.rows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (list.tops[middle] <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}

function render() {
  const view = $("list");
  const canvas = $("canvas");
  const margin = 600;
  const shown = new Set();
  if (list.rows.length) {
    const first = placeAt(view.scrollTop - margin);
    const last = placeAt(view.scrollTop + view.clientHeight + margin);
    let above = null;
    for (let place = first; place <= last; place++) {
      const row = list.rows[place];
      shown.add(row.seq);
      let element = list.elements.get(row.seq);
      if (!element) {
        element = drawRow(row);
        list.elements.set(row.seq, element);
        // In the order of the rows, in which Tab goes and a selection is copied.
        if (above) above.after(element);
        else canvas.prepend(element);
      }
      element.style.transform = `translateY(${list.tops[place]}px)`;
      above = element;
    }
  }
  for (const [seq, element] of list.elements)
    if (!shown.has(seq)) {
      element.remove();
      list.elements.delete(seq);
    }
  measure();
}

function measure() {
  let changed = false;
  for (const [seq, element] of list.elements) {
    const height = element.offsetHeight;
    if (list.heights.get(seq) !== height) {
      list.heights.set(seq, height);
      changed = true;
    }
  }
  if (!changed) return;
  // What is above the window must not push the reader away from where they are.
  const view = $("list");
  const place = placeAt(view.scrollTop);
  const within = view.scrollTop - list.tops[place];
  layOut();
  if (list.rows.length) view.scrollTop = list.tops[place] + within;
  list.rows.forEach((row, at) => {
    const element = list.elements.get(row.seq);
    if (element) element.style.transform = `translateY(${list.tops[at]}px)`;
  });
}

let pending = 0;
function soon() {
  if (!pending)
    pending = requestAnimationFrame(() => {
      pending = 0;
      render();
    });
}

function redraw() {
  const focused = document.activeElement;
  const seq = focused.closest("#canvas .row")?.dataset.seq;
  for (const element of list.elements.values()) element.remove();
  list.elements.clear();
  render();
  if (seq === undefined) return;
  // Whoever pressed a button by key goes on from there.
  const again = list.elements.get(Number(seq))?.querySelector(`[class="${focused.className}"]`);
  (again ?? $("list")).focus({ preventScroll: true });
}

function refresh() {
  list.heights.clear();
  buildRows();
  redraw();
  showStatus();
}

// ---- One row ---------------------------------------------------------------------------

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const DATE_MAX = 8.64e15; // no calendar goes further, but times of a log may

function when(time) {
  if (time > DATE_MAX) return `${time} ms`;
  return time > 86400000 ? clock.format(new Date(time)) : "";
}

function drawRow({ seq, depth }) {
  const current = log();
  const body = current.body(seq);
  const role = roleOf(current, seq, body);
  const kind = current.classAt(seq, state.length);
  const covered = current.replaced.get(seq);
  const full = state.unfolded.has(seq);
  const article = make("article", {
    class: `row ${role} ${kind}${covered ? " replacement" : ""}${seq === state.selected ? " selected" : ""}`,
    depth,
    "data-seq": seq,
    onclick: (click) => {
      if (!click.target.closest("button,summary")) select(seq);
    },
  });
  article.append(
    make(
      "header",
      {},
      make("span", { class: "seq" }, `#${seq}`),
      make("span", { class: "role" }, role === "event" ? current.typeOf(seq) : role),
      covered ? make("span", { class: "badge" }, current.typeOf(seq) === "tool/result" ? "pruned" : "compacted") : null,
      kind === "shadowed" ? make("span", { class: "badge dim" }, `replaced by #${current.by[seq]}`) : null,
      make("time", {}, when(current.time[seq])),
    ),
  );
  const box = make("div", { class: full ? "body" : "body clamp" });
  let isCut = false;
  for (const [kindOfPart, title, whole] of partsOf(body)) {
    // Laying out what nobody sees would take minutes where a text has megabytes.
    const text = kindOfPart === "fold" ? whole : front(whole, full ? SHOWN_CHARS : CLAMP_CHARS);
    isCut ||= text.length < whole.length;
    if (kindOfPart === "fold")
      box.append(
        make("details", { ontoggle: () => soonMeasure(), open: full }, marked(make("summary"), title), pre(front(text, SHOWN_CHARS))),
      );
    else box.append(kindOfPart === "data" ? marked(make("code", { class: "data" }), front(text, PIECE_CHARS)) : pre(text));
    if (full) box.append(...rest(whole));
  }
  article.append(box);
  if (!full && (isCut || current.rows[seq] > CLAMP_LINES))
    article.append(
      make("button", { class: "more", onclick: () => unfold(seq) },
        current.rows[seq] > CLAMP_LINES ? `show all ${current.rows[seq].toLocaleString()} lines` : "show all of it"),
    );
  if (covered && state.mode === "surface")
    article.append(
      make("button", { class: "open", "aria-expanded": String(state.opened.has(seq)), onclick: () => toggle(seq) },
        state.opened.has(seq) ? `close what it replaced` : `open the ${covered.length.toLocaleString()} it replaced`),
    );
  return article;
}

// The beginning of a text, which no half of a character ends.
function front(text, most) {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? most - 1 : most);
}

function rest(text) {
  const left = text.length - SHOWN_CHARS;
  return left > 0 ? [make("p", { class: "facts" }, `… ${left.toLocaleString()} more characters; eventlog export has them`)] : [];
}

// A text in paragraphs that can be laid out, each ending with a line where one ends in time.
function pieces(text) {
  const found = [];
  for (let from = 0; from < text.length; ) {
    let piece = front(text.slice(from, from + PIECE_CHARS + 1), PIECE_CHARS);
    const line = piece.lastIndexOf("\n");
    if (from + piece.length < text.length && line > 0) piece = piece.slice(0, line + 1);
    from += piece.length;
    found.push(from < text.length && piece.endsWith("\n") ? piece.slice(0, -1) : piece);
  }
  return found;
}

function pre(text, kind) {
  if (text.length <= PIECE_CHARS) return marked(make("pre", { class: kind }), text);
  return make("div", { class: kind ? `long ${kind}` : "long" }, ...pieces(text).map((piece) => marked(make("pre"), piece)));
}

// Small letters, as many as there were: of all letters only İ becomes two.
function folded(text) {
  return text.replaceAll("İ", "i").toLowerCase();
}

function marked(element, text) {
  const words = folded(state.words);
  if (!words) {
    element.textContent = text;
    return element;
  }
  const lower = folded(text);
  let from = 0;
  for (let found = lower.indexOf(words); found >= 0; found = lower.indexOf(words, from)) {
    element.append(text.slice(from, found), make("mark", {}, text.slice(found, found + words.length)));
    from = found + words.length;
  }
  element.append(text.slice(from));
  return element;
}

function soonMeasure() {
  requestAnimationFrame(measure);
}

function unfold(seq) {
  state.unfolded.add(seq);
  buildRows();
  redraw();
}

function toggle(seq) {
  if (!state.opened.delete(seq)) state.opened.add(seq);
  buildRows();
  redraw();
}

// ---- The panel of one event ------------------------------------------------------------

function reference(seq) {
  return make("button", { class: "ref", onclick: () => go(seq) }, `#${seq}`);
}

function references(title, seqs) {
  if (!seqs || !seqs.length) return null;
  const shown = seqs.slice(0, 200);
  return make(
    "section", {},
    make("h3", {}, `${title} (${seqs.length.toLocaleString()})`),
    make("p", { class: "refs" }, ...shown.map(reference), seqs.length > shown.length ? " …" : null),
  );
}

function chain(seq) {
  const current = log();
  const found = [];
  for (let at = current.by[seq]; at !== NONE && found.length < 100; at = current.by[at]) found.push(at);
  return found;
}

function select(seq) {
  state.selected = seq;
  const current = log();
  const body = current.body(seq);
  const raw = JSON.stringify(body.data, null, 2);
  const panel = $("panel");
  panel.replaceChildren(make("div", {},
    make("header", {},
      make("h2", {}, `#${seq} ${current.typeOf(seq)}`),
      make("button", { class: "close", "aria-label": "close", onclick: closePanel }, "×")),
    make("p", { class: "facts" }, [current.classAt(seq, state.length), when(current.time[seq])].filter(Boolean).join(" · ")),
    references("replaced by, then by", chain(seq)),
    references("replaces", current.replaced.get(seq)),
    references("cites", current.sources.get(seq)),
    references("cited by", current.citing.get(seq)),
    make("section", {}, make("h3", {}, "data"), pre(front(raw, SHOWN_CHARS), "raw"), ...rest(raw)),
  ));
  panel.hidden = false;
  for (const element of list.elements.values())
    element.classList.toggle("selected", Number(element.dataset.seq) === seq);
  soonMeasure();
}

function closePanel() {
  state.selected = null;
  if ($("panel").contains(document.activeElement)) $("list").focus({ preventScroll: true });
  $("panel").hidden = true;
  redraw();
}

// Bring an event into view, opening or changing what hides it.
function go(seq) {
  if (seq >= state.length) setLength(log().length);
  if (state.mode === "surface") {
    const current = log();
    if (current.label[seq] === NONE) {
      setMode("log");
    } else {
      const opened = state.opened.size;
      for (let at = current.by[seq]; at !== NONE && at < state.length; at = current.by[at])
        state.opened.add(at);
      if (state.opened.size > opened) {
        buildRows();
        redraw();
      }
    }
  }
  scrollTo(seq);
  select(seq);
}

function scrollTo(seq) {
  const place = list.rows.findIndex((row) => row.seq === seq);
  // Twice, since what is drawn on the way may turn out higher or lower than was guessed.
  for (let time = 0; place >= 0 && time < 2; time++) {
    $("list").scrollTop = Math.max(0, list.tops[place] - 80);
    render();
  }
}

// ---- Controls --------------------------------------------------------------------------

function showStatus() {
  const current = log();
  const nodes = state.mode === "surface" ? list.rows.filter((row) => row.depth === 0).length : current.surfaceAt(state.length).length;
  $("at").textContent = `${state.length.toLocaleString()} of ${current.length.toLocaleString()} events`;
  $("status").textContent =
    state.mode === "surface"
      ? `the model saw ${nodes.toLocaleString()} of them`
      : `all events; ${nodes.toLocaleString()} on the surface`;
}

function setLength(length) {
  state.length = Math.max(0, Math.min(log().length, length));
  $("slider").value = String(state.length);
  refresh();
}

function setMode(mode) {
  state.mode = mode;
  for (const name of ["surface", "log"]) $(`mode-${name}`).setAttribute("aria-pressed", String(name === mode));
  refresh();
  if (state.selected !== null) scrollTo(state.selected);
  if (state.words) search(state.words);
}

function setSession(number) {
  state.number = number;
  state.opened.clear();
  state.unfolded.clear();
  state.selected = null;
  $("panel").hidden = true;
  const current = log();
  $("slider").max = String(current.length);
  const info = current.info;
  $("title").textContent = info.title || info.id;
  $("facts").textContent = [info.cwd, when(info.created_at), info.parent ? `from ${info.parent}` : null, info.fault]
    .filter(Boolean)
    .join(" · ");
  for (const button of document.querySelectorAll("#lineage button"))
    button.setAttribute("aria-pressed", String(Number(button.dataset.number) === number));
  setLength(current.length);
  search(state.words);
  $("list").scrollTop = list.tops[list.rows.length];
  render();
}

// Search covers what the mode can show: what ever was on the surface, or everything. It
// reads block after block and lets the page breathe between them.
let searching = 0;
async function search(words) {
  const run = ++searching;
  state.words = words.trim();
  state.hits = [];
  state.hit = -1;
  $("hits").textContent = "";
  redraw();
  if (!state.words) return;
  const wanted = folded(state.words);
  const current = log();
  for (let seq = 0; seq < current.length; seq++) {
    if (state.mode === "log" || current.label[seq] !== NONE)
      if (folded(searchText(current.body(seq))).includes(wanted)) state.hits.push(seq);
    if (seq % 500 === 499) {
      $("hits").textContent = `${state.hits.length} …`;
      await new Promise((resolve) => setTimeout(resolve));
      if (run !== searching) return;
    }
  }
  $("hits").textContent = state.hits.length ? `${state.hits.length} found` : "none found";
}

function step(by) {
  if (!state.hits.length) return;
  state.hit = (state.hit + by + state.hits.length) % state.hits.length;
  $("hits").textContent = `${state.hit + 1} of ${state.hits.length}`;
  go(state.hits[state.hit]);
  reveal(state.hits[state.hit]);
}

// Bring what matches in an event into view, unfolding the event where it is folded away.
function reveal(seq) {
  const found = () => {
    const box = list.elements.get(seq)?.querySelector(".body");
    const bottom = box?.getBoundingClientRect().bottom;
    return [...(box?.querySelectorAll("mark") ?? [])].find((mark) => mark.checkVisibility() && mark.getBoundingClientRect().bottom <= bottom);
  };
  if (!found()) unfold(seq);
  found()?.scrollIntoView({ block: "nearest" });
}

function move(by) {
  if (!list.rows.length) return;
  const at = list.rows.findIndex((row) => row.seq === state.selected);
  const start = at >= 0 ? at : placeAt($("list").scrollTop);
  go(list.rows[Math.max(0, Math.min(list.rows.length - 1, start + by))].seq);
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name;
}

const themes = ["auto", "light", "dark"];
const keys = {
  j: () => move(1),
  k: () => move(-1),
  "/": () => $("search").focus(),
  n: () => step(1),
  N: () => step(-1),
  "[": () => setLength(state.length - 1),
  "]": () => setLength(state.length + 1),
  m: () => setMode(state.mode === "surface" ? "log" : "surface"),
  o: () => state.selected !== null && log().replaced.has(state.selected) && toggle(state.selected),
  Escape: closePanel,
  "?": () => $("help").togglePopover(),
};

document.addEventListener("keydown", (press) => {
  if (press.ctrlKey || press.metaKey || press.altKey) return;
  if (press.target.id === "search") {
    if (press.key === "Escape") $("list").focus({ preventScroll: true });
    if (press.key === "Enter") step(press.shiftKey ? -1 : 1);
    return;
  }
  if (keys[press.key]) {
    press.preventDefault();
    keys[press.key]();
  }
});

let typing = 0;
$("search").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => search(event.target.value), 150);
});
$("slider").addEventListener("input", (event) => setLength(Number(event.target.value)));
$("mode-surface").addEventListener("click", () => setMode("surface"));
$("mode-log").addEventListener("click", () => setMode("log"));
$("previous").addEventListener("click", () => step(-1));
$("next").addEventListener("click", () => step(1));
$("theme").addEventListener("click", () =>
  setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length]),
);
$("list").addEventListener("scroll", soon, { passive: true });
window.addEventListener("resize", () => {
  list.heights.clear();
  layOut();
  soon();
});

// On paper there is no window to be near to: everything of the view is drawn, within reason.
const PRINT_MAX = 5000;
window.addEventListener("beforeprint", () => {
  document.body.classList.add("printing");
  const canvas = $("canvas");
  canvas.replaceChildren(...list.rows.slice(0, PRINT_MAX).map(drawRow));
  if (list.rows.length > PRINT_MAX)
    canvas.append(make("p", {}, `… ${list.rows.length - PRINT_MAX} more events`));
});
window.addEventListener("afterprint", () => {
  document.body.classList.remove("printing");
  $("canvas").replaceChildren();
  list.elements.clear();
  render();
});

if (index.sessions.length > 1)
  $("lineage").append(
    ...index.sessions.map((info, number) =>
      make("button", { "data-number": number, depth: info.depth, onclick: () => setSession(number) },
        `${info.title || info.id} (${info.length.toLocaleString()})`)),
  );
else $("lineage").hidden = true;

setTheme("auto");
setSession(index.start);
setMode("surface");
$("list").focus({ preventScroll: true }); // so that the keys which scroll do
document.documentElement.dataset.ready = String(Math.round(performance.now()));
