// The stepper in the browser. Knows how to lay out the graph, which step it is, and how to show arrays; all numbers, words and
// formulas come with the page, in DATA (stepper.py says what is in it). Position 0 is the beginning, position p step p, and the
// position after the last step shows what the leaves received.
"use strict";

const { nodes, groups, steps, rules, arrays } = DATA;
const END = steps.length + 1;
const $ = id => document.getElementById(id);
const stepOf = new Map(steps.map((step, i) => [step.node, i + 1]));
const root = steps[0].node;
const arrivals = nodes.map(() => []);  // for each node the shares it receives: {position, share, from}
steps.forEach((step, i) => step.shares.forEach(share => arrivals[share.to].push({ position: i + 1, share, from: step.node })));

let position = 0;
let chosen = null;       // a node that is looked at without being the step's: a leaf, or one without a gradient
let opened = new Set();  // groups that the reader opened
let closed = new Set();  // groups that the reader closed, though the step is inside
let timer = null;

// ---------------------------------------------------------------- making elements

function element(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) key === "onclick" ? (made.onclick = value) : made.setAttribute(key, value);
  made.append(...inside.flat(9).filter(part => part != null && part !== ""));
  return made;
}

function drawn(name, attributes = {}, ...inside) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

function formula(mathml) {
  const made = element("p", { class: "formula" });
  made.innerHTML = mathml;  // from formulas.py, not from the reader's data
  return made;
}

// ---------------------------------------------------------------- numbers

const isStrange = x => typeof x === "string";  // "nan", "inf", "-inf", which JSON has no numbers for

function short(x) {
  if (typeof x !== "number") return String(x);
  if (Number.isInteger(x) && Math.abs(x) < 1e6) return String(x);
  const size = Math.abs(x);
  return size >= 1e5 || size < 1e-3 ? x.toExponential(2) : String(+x.toPrecision(4));
}

function brief(at) {
  // an array of up to three numbers as text, for the graph; else nothing
  if (at == null || Array.isArray(at)) return "";
  const { numbers, shape } = arrays[at];
  if (arrays[at].shown || numbers.length > 3 || shape.length > 1 && numbers.length > 1) return "";
  return shape.length ? `[${numbers.map(short).join(", ")}]` : short(numbers[0]);
}

const shapeText = shape => shape.length > 1 ? `(${shape.join(", ")})` : shape.length ? `(${shape[0]},)` : "one number";

function figure(at, caption = "") {
  // an array as a figure: numbers while they are few, else a heat map with the numbers behind a fold
  if (at == null) return element("p", { class: "soft" }, "nothing");
  if (Array.isArray(at)) return element("div", {}, at.map((one, i) => figure(one, `${caption} ${i + 1} of ${at.length}`)));
  const array = arrays[at], { shape, low, high, strange } = array, size = shape.reduce((a, b) => a * b, 1);
  const range = size > 1 && low != null ? `, from ${short(low)} to ${short(high)}` : "";
  const cut = array.shown ? `; shown are the first ${array.shown.join(" × ")}` : "";
  const note = strange ? element("span", { class: "strange" }, `${strange} of ${size} ${strange === 1 ? "is" : "are"} NaN or infinite`) : "";
  const all = matrices(array), few = all.every(m => m.cols <= 10 && m.rows * m.cols <= 64) && array.numbers.length <= 128;
  const shown = few ? tables(all, array) : [maps(all, array), fold("as numbers", () => tables(all, array))];
  return element("figure", { class: "array" }, element("figcaption", {}, caption, caption ? ": " : "", shapeText(shape), range, cut, " ", note), shown);
}

function matrices({ numbers, shape, shown }) {
  // the matrices that an array consists of: {rows, cols, numbers, index}, index being that of the axes before the last two
  const sizes = shown ?? shape, cols = sizes.at(-1) ?? 1, rows = sizes.length > 1 ? sizes.at(-2) : 1;
  const count = rows * cols ? numbers.length / (rows * cols) : 0;
  return Array.from({ length: count }, (_, i) => ({ rows, cols, numbers: numbers.slice(i * rows * cols, (i + 1) * rows * cols), index: count > 1 ? indexOf(i, shape.slice(0, -2)) : "" }));
}

function indexOf(i, lead) {
  const index = [];
  for (const n of [...lead].reverse()) { index.unshift(i % n); i = Math.floor(i / n); }
  return `[${index.join(", ")}]`;
}

const largest = array => Math.max(Math.abs(array.low ?? 0), Math.abs(array.high ?? 0)) || 1;

function tables(all, array) {
  const top = largest(array);
  const cell = x => element("td", { title: String(x), style: tint(x, top) }, isStrange(x) ? element("span", { class: "strange" }, x) : short(x));
  const table = m => element("table", { class: "grid" }, Array.from({ length: m.rows }, (_, r) => element("tr", {}, m.numbers.slice(r * m.cols, (r + 1) * m.cols).map(cell))));
  return element("div", { class: "matrices" }, all.map(m => element("div", {}, m.index ? element("p", {}, m.index) : "", table(m))));
}

// blue below 0, orange above, the stronger the larger; the same in grids and heat maps
function tint(x, top) {
  if (typeof x !== "number" || !x) return "";
  return `background: color-mix(in srgb, var(--${x < 0 ? "forward" : "backward"}) ${Math.round(8 + 37 * Math.abs(x) / top)}%, transparent)`;
}

function maps(all, array) {
  const readout = element("p", { class: "hover soft" }, "Point at a cell to read it.");
  return [element("div", { class: "matrices" }, all.map(m => element("div", {}, m.index ? element("p", {}, m.index) : "", heatMap(m, array, readout)))), readout];
}

function heatMap(m, array, readout) {
  const cell = Math.max(3, Math.min(16, Math.floor(320 / Math.max(m.cols, m.rows))));
  const canvas = element("canvas", { width: m.cols, height: m.rows, role: "img", style: `width: ${m.cols * cell}px`,
    "aria-label": `Heat map ${m.index}, ${m.rows} × ${m.cols}; the numbers are under “as numbers”` });
  const pixels = canvas.getContext("2d"), top = largest(array), style = getComputedStyle(document.documentElement);
  const colours = { below: style.getPropertyValue("--forward"), above: style.getPropertyValue("--backward") };
  m.numbers.forEach((x, i) => {
    pixels.globalAlpha = isStrange(x) ? 1 : Math.abs(x) / top;
    pixels.fillStyle = isStrange(x) ? "#d0021b" : x < 0 ? colours.below : colours.above;
    pixels.fillRect(i % m.cols, Math.floor(i / m.cols), 1, 1);
  });
  canvas.onpointermove = event => {
    const box = canvas.getBoundingClientRect();
    const c = Math.min(m.cols - 1, Math.floor((event.clientX - box.left) / box.width * m.cols)), r = Math.min(m.rows - 1, Math.floor((event.clientY - box.top) / box.height * m.rows));
    if (c >= 0 && r >= 0) readout.textContent = `${m.index} row ${r}, column ${c}: ${m.numbers[r * m.cols + c]}`;
  };
  return canvas;
}

function fold(title, inside, open = false) {
  const made = element("details", open ? { open: "" } : {}, element("summary", {}, title));
  const fill = () => made.children.length === 1 && made.append(inside());
  open ? fill() : made.addEventListener("toggle", fill);  // made when it is opened: most never are
  return made;
}

// ---------------------------------------------------------------- which boxes are open

const keyOf = item => Array.isArray(item) ? `g${item[0]}` : `n${item}`;
const parentOf = key => key[0] === "g" ? groups[+key.slice(1)].parent : nodes[+key.slice(1)].group;

function around(key) {
  // the groups around a node or group, innermost first, without group 0
  const found = [];
  for (let g = parentOf(key); g; g = groups[g].parent) found.push(g);
  return found;
}

function isOpen(g) {
  if (g === 0 || opened.has(g)) return true;
  const step = steps[position - 1], node = chosen ?? step?.node;
  return !closed.has(g) && node != null && around(`n${node}`).includes(g);
}

function shownAs(key) {
  // the node itself, or the outermost closed group around it
  const shut = around(key).filter(g => !isOpen(g)).at(-1);
  return shut == null ? key : `g${shut}`;
}

// ---------------------------------------------------------------- the layout: layers, from the leaves down to the loss

const GAP = 14, ROW = 34, PAD = 10, HEAD = 22, BEND = 8;

function edgesShown() {
  // {from, to}, each once, of what is to be seen
  const found = new Map();
  nodes.forEach((node, n) => node.parents.forEach(([, p]) => {
    const from = shownAs(`n${p}`), to = shownAs(`n${n}`);
    if (from !== to) found.set(`${from}>${to}`, { from, to });
  }));
  return [...found.values()];
}

function layout(g, edges) {
  // the inside of a group: {width, height, places: key -> {x, y, width, height}, bends: edge -> points}, relative to its corner
  const cells = new Map(groups[g].items.map(item => [keyOf(item), { key: keyOf(item), ...sizeOf(keyOf(item), edges), above: [], below: [] }]));
  const childFor = key => { while (key && parentOf(key) !== g) key = parentOf(key) ? `g${parentOf(key)}` : null; return key; };
  const links = linksIn(childFor, edges);
  const layers = layersOf(cells, links);
  bend(links, cells, layers);
  sortLayers(layers);
  return arrange(layers, cells, links);
}

function linksIn(childFor, edges) {
  // the edges as they are seen in one group: from child to child, from outside (a null) or to the outside (b null)
  const links = new Map();
  for (const { from, to } of edges) {
    const a = childFor(from), b = childFor(to);
    if (a !== b) links.set(`${from}>${b}`, { from, a, b, chain: [] });
  }
  return links;
}

function layersOf(cells, links) {
  const before = new Map([...cells.keys()].map(key => [key, []])), after = new Map([...cells.keys()].map(key => [key, []]));
  for (const { a, b } of links.values()) if (a && b) { before.get(b).push(a); after.get(a).push(b); }
  const layerOf = new Map();
  const find = key => {
    if (!layerOf.has(key)) layerOf.set(key, Math.max(-1, ...before.get(key).map(find)) + 1);
    return layerOf.get(key);
  };
  [...cells.keys()].forEach(find);
  const layers = [];
  for (const [key, cell] of cells) {
    const isSource = key[0] === "n" && nodes[+key.slice(1)].kind !== "op" && after.get(key).length;
    cell.layer = isSource ? Math.min(...after.get(key).map(find)) - 1 : find(key);  // a parameter stands just above its first use
  }
  const lowest = Math.min(0, ...[...cells.values()].map(cell => cell.layer));
  for (const cell of cells.values()) { cell.layer -= lowest; (layers[cell.layer] ??= []).push(cell); }
  return Array.from(layers, layer => layer ?? []);
}

function bend(links, cells, layers) {
  // where an edge passes a layer it gets a narrow cell there, so that nothing stands in its way
  for (const link of links.values()) {
    const { a, b } = link, start = a ? cells.get(a).layer + 1 : 0, end = b ? cells.get(b).layer : layers.length;
    for (let layer = start; layer < end; layer++) {
      const cell = { width: BEND, height: 0, above: [], below: [], layer };
      layers[layer].push(cell);
      link.chain.push(cell);
    }
    const all = [cells.get(a), ...link.chain, cells.get(b)].filter(Boolean);
    all.slice(1).forEach((cell, i) => { all[i].below.push(cell); cell.above.push(all[i]); });
  }
}

function sortLayers(layers) {
  // fewer crossings: each cell goes to the mean place of its neighbours, down and up a few times
  const number = layer => layer.forEach((cell, i) => { cell.place = layer.length > 1 ? i / (layer.length - 1) : .5; });
  layers.forEach(number);
  for (let sweep = 0; sweep < 8; sweep++) {
    const side = sweep % 2 ? "below" : "above";
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      layer.forEach(cell => { cell.wish = cell[side].length ? mean(cell[side].map(other => other.place)) : cell.place; });
      layer.sort((a, b) => a.wish - b.wish);
      number(layer);
    }
  }
}

const mean = xs => xs.reduce((a, b) => a + b, 0) / xs.length;

function arrange(layers, cells, links) {
  for (const layer of layers) { let x = 0; for (const cell of layer) { cell.x = x + cell.width / 2; x += cell.width + GAP; } }
  for (let sweep = 0; sweep < 16; sweep++) for (const layer of sweep % 2 ? [...layers].reverse() : layers) straighten(layer, sweep % 2 ? "below" : "above");
  const all = layers.flat(), left = Math.min(...all.map(cell => cell.x - cell.width / 2));
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(0, ...layer.map(cell => cell.height));
    for (const cell of layer) { cell.x -= left; cell.top = y; cell.y = y + (height - cell.height) / 2; cell.bottom = y + height; }
    y += height + ROW;
  }
  const places = new Map([...cells].map(([key, cell]) => [key, { x: cell.x - cell.width / 2, y: cell.y, width: cell.width, height: cell.height, inside: cell.inside }]));
  const bends = new Map([...links].map(([key, { chain }]) => [key, chain.map(cell => [[cell.x, cell.top], [cell.x, cell.bottom]])]));
  return { width: Math.max(...all.map(cell => cell.x + cell.width / 2)), height: y - ROW, places, bends };
}

function straighten(layer, side) {
  // every cell as near as it can be to below (or above) its neighbours, in the order that was found
  const apart = (a, b) => (a.width + b.width) / 2 + GAP;
  const wish = layer.map(cell => cell[side].length ? mean(cell[side].map(other => other.x)) : cell.x);
  const right = [...wish], left = [...wish];
  for (let i = 1; i < layer.length; i++) right[i] = Math.max(wish[i], right[i - 1] + apart(layer[i - 1], layer[i]));
  for (let i = layer.length - 2; i >= 0; i--) left[i] = Math.min(wish[i], left[i + 1] - apart(layer[i], layer[i + 1]));
  layer.forEach((cell, i) => { cell.x = (right[i] + left[i]) / 2; });
}

function sizeOf(key, edges) {
  const at = +key.slice(1);
  if (key[0] === "g" && isOpen(at)) {
    const inside = layout(at, edges);
    return { width: Math.max(inside.width, 7 * titleOf(at).length + 20) + 2 * PAD, height: inside.height + HEAD + PAD, inside };
  }
  const lines = linesOf(key);
  return { width: Math.max(48, ...lines.map(line => 6.6 * line.length + 18)), height: 10 + 14 * lines.length };
}

const titleOf = g => `${groups[g].label} · ${groups[g].kind}`;

function linesOf(key) {
  // what is written on a node: its name, its value or shape, and room for its gradient where that is short
  const at = +key.slice(1);
  if (key[0] === "g") return [groups[at].label, groups[at].kind];
  const node = nodes[at], setting = node.setting && node.setting.length < 16 ? ` ${node.setting}` : "";
  const value = brief(node.value), gradient = brief(node.gradient);
  return [node.short + setting, value || node.shape, ...(gradient ? [`g = ${gradient}`] : [])];
}

// ---------------------------------------------------------------- drawing

let drawing = null;  // {places, paths} of what is to be seen, absolute

function draw() {
  const edges = edgesShown(), inside = layout(0, edges), places = new Map(), bends = new Map(), boxes = [];
  const settle = (part, x, y) => {
    for (const [key, points] of part.bends) bends.set(`${part.group}:${key}`, points.map(pair => pair.map(([px, py]) => [px + x, py + y])));
    for (const [key, place] of part.places) {
      const own = { ...place, x: place.x + x, y: place.y + y };
      places.set(key, own);
      if (place.inside) { boxes.push([+key.slice(1), own]); settle({ ...place.inside, group: +key.slice(1) }, own.x + (own.width - place.inside.width) / 2, own.y + HEAD); }
    }
  };
  settle({ ...inside, group: 0 }, PAD, PAD);
  const paths = edges.map(edge => ({ ...edge, points: route(edge, places, bends) }));
  drawing = { places, paths, width: inside.width + 2 * PAD, height: inside.height + 2 * PAD };
  const svg = drawn("svg", { width: drawing.width, height: drawing.height, viewBox: `0 0 ${drawing.width} ${drawing.height}`, role: "group", "aria-label": "Graph" });
  svg.append(...boxes.map(([g, place]) => boxOf(g, place)), ...paths.map(edgeOf), ...[...places].filter(([, place]) => !place.inside).map(([key, place]) => nodeOf(key, place)), drawn("g", { id: "tags" }));
  const had = $("graph").contains(document.activeElement) ? document.activeElement.dataset.key : null;
  $("graph").replaceChildren(svg);
  drawing.open = openNow();
  if (had) svg.querySelector(`[data-key="${had}"]`)?.focus({ preventScroll: true });
}

const openNow = () => groups.map((_, g) => +isOpen(g)).join("");

function route({ from, to }, places, bends) {
  // from a node's lower edge to another's upper one, through the bends of every group on the way
  const a = places.get(from), b = places.get(to), points = [];
  const inner = [parentOf(from), ...around(from).slice(1), 0], outer = [...around(to), 0];
  const common = inner.find(g => outer.includes(g));
  const upwards = around(from).slice(0, around(from).indexOf(common) < 0 ? undefined : around(from).indexOf(common));
  const downwards = around(to).slice(0, around(to).indexOf(common) < 0 ? undefined : around(to).indexOf(common)).reverse();
  const childIn = (g, key) => { while (parentOf(key) !== g) key = `g${parentOf(key)}`; return key; };
  for (const g of upwards) points.push(...bends.get(`${g}:${from}>null`) ?? []);
  points.push(...bends.get(`${common}:${from}>${childIn(common, to)}`) ?? []);
  for (const g of downwards) points.push(...bends.get(`${g}:${from}>${childIn(g, to)}`) ?? []);
  return [[a.x + a.width / 2, a.y + a.height], ...points.flat(), [b.x + b.width / 2, b.y]];
}

function edgeOf(path) {
  const [first, ...rest] = path.points;
  let [x, y] = first, d = `M${x},${y}`;
  for (const [px, py] of rest) { d += px === x ? `L${px},${py}` : `C${x},${(y + py) / 2} ${px},${(y + py) / 2} ${px},${py}`; [x, y] = [px, py]; }
  path.element = drawn("path", { class: "edge", d });
  return path.element;
}

function pressable(made, key, label, act) {
  made.dataset.key = key;
  made.setAttribute("role", "button");
  made.setAttribute("aria-label", label);
  made.onclick = act;
  made.onkeydown = event => { if (event.key === "Enter") { event.stopPropagation(); act(); } };
  return made;
}

function nodeOf(key, { x, y, width, height }) {
  const at = +key.slice(1), isGroup = key[0] === "g", lines = linesOf(key);
  const texts = lines.map((line, i) => drawn("text", { x: x + width / 2, y: y + 17 + 14 * i, class: i === 0 ? "" : line.startsWith("g = ") && i === 2 ? "gradient" : "small" }, line));
  const made = drawn("g", {}, drawn("rect", { x, y, width, height, rx: isGroup ? 3 : 9 }), ...texts);
  const label = isGroup ? `Open ${groups[at].path}, ${groups[at].kind}` : `${nodes[at].label}, ${nodes[at].shape}${stepOf.has(at) ? `, step ${stepOf.get(at)}` : ""}`;
  return pressable(made, key, label, () => isGroup ? toggle(at) : look(at));
}

function boxOf(g, { x, y, width, height }) {
  const title = drawn("g", { class: "close", tabindex: 0, "aria-expanded": "true" }, drawn("text", { x: x + 8, y: y + 15 }, `− ${titleOf(g)}`));
  return drawn("g", { class: "box" }, drawn("rect", { x, y, width, height, rx: 6 }), pressable(title, `g${g}`, `Close ${groups[g].path}`, () => toggle(g)));
}

function toggle(g) {
  const was = isOpen(g);
  (was ? closed : opened).add(g);
  (was ? opened : closed).delete(g);
  draw();
  paint();
}

// ---------------------------------------------------------------- how far it has come

const arrived = n => arrivals[n].filter(a => a.position <= position);

function stateOf(n) {
  if (stepOf.get(n) === position) return "now";
  const here = arrived(n).length;
  return n === root ? "done" : !here ? "" : here < arrivals[n].length ? "some" : "done";
}

function statesIn(g) {
  return groups[g].items.flatMap(item => Array.isArray(item) ? statesIn(item[0]) : arrivals[item].length || item === root ? [stateOf(item)] : []);
}

function groupState(g) {
  const states = statesIn(g);
  return states.includes("now") ? "now" : states.every(s => s === "done") ? "done" : states.some(s => s) ? "some" : "";
}

function paint() {
  const step = steps[position - 1], here = shownAs(`n${chosen ?? step?.node ?? root}`);
  for (const made of $("graph").querySelectorAll("[data-key]:not(.close)")) {
    const key = made.dataset.key, at = +key.slice(1), isGroup = key[0] === "g";
    const kind = isGroup ? "group" : nodes[at].kind, state = isGroup ? groupState(at) : stateOf(at);
    made.setAttribute("class", `node ${kind} ${state} ${at === chosen && !isGroup ? "chosen" : ""}`);
    made.setAttribute("tabindex", isGroup || key === here ? 0 : -1);  // one stop for the graph, and one for each box
    if (key === here) made.setAttribute("aria-current", "step"); else made.removeAttribute("aria-current");
    const gradient = made.querySelector(".gradient");
    if (gradient) gradient.textContent = gradientSoFar(at);
  }
  paintEdges(step);
  scrollTo(here);
}

function gradientSoFar(n) {
  const last = arrived(n).at(-1);
  return last ? `g = ${brief(last.share.after)}` : n === root ? `g = ${brief(nodes[n].gradient)}` : "";
}

function paintEdges(step) {
  const now = new Map(), sent = new Set(), tags = [];
  steps.slice(0, position).forEach((s, i) => s.shares.forEach(share => {
    const edge = `${shownAs(`n${share.to}`)}>${shownAs(`n${s.node}`)}`;
    sent.add(edge);
    if (i === position - 1) now.set(edge, [...now.get(edge) ?? [], share]);
  }));
  for (const { from, to, element: path } of drawing.paths) {
    const edge = `${from}>${to}`;
    path.setAttribute("class", `edge ${now.has(edge) ? "now" : sent.has(edge) ? "sent" : ""}`);
    if (now.has(edge)) tags.push(tagOf(now.get(edge), path));
  }
  $("tags").replaceChildren(...tags);
}

function tagOf(shares, path) {
  // what is sent along an edge, written near its goal: Σ where broadcasting is undone, += where something had arrived before
  const text = shares.map(share => (share.before == null ? "" : "+= ") + (share.undone ? "Σ " : "") + (brief(share.sent) || `∂L/∂${share.letter}`)).join(", ");
  const { x, y } = path.getPointAtLength(Math.min(17, path.getTotalLength() / 2)), width = 6.4 * text.length + 12;
  return drawn("g", { class: "tag" }, drawn("rect", { x: x - width / 2, y: y - 9, width, height: 18, rx: 9 }), drawn("text", { x, y: y + 4 }, text));
}

function scrollTo(key) {
  const place = drawing.places.get(key), pane = $("graph");
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (place) pane.scrollTo({ left: place.x + place.width / 2 - pane.clientWidth / 2, top: place.y + place.height / 2 - pane.clientHeight / 2, behavior: calm ? "auto" : "smooth" });
}

// ---------------------------------------------------------------- the step in words and numbers

const nameOf = n => nodes[n].kind === "op" ? `${nodes[n].label}${stepOf.has(n) ? ` (step ${stepOf.get(n)})` : ""}` : nodes[n].label;
const link = (n, text = nameOf(n)) => element("button", { class: "link", onclick: () => look(n) }, text);
const part = (kind, ...inside) => element("section", { class: `part ${kind}` }, inside);
const listed = items => items.flatMap((item, i) => i ? [i === items.length - 1 ? " and " : ", ", item] : [item]);

function says() {
  if (chosen != null) return `${nodes[chosen].label}: ${nodes[chosen].kind === "leaf" ? "a leaf. The pass ends here; nothing is behind it." : nodes[chosen].kind === "constant" ? "a constant, which wants no gradient." : "no gradient gets here."}`;
  if (position === 0) return "The beginning. The gradient of the loss with respect to itself is 1; from there it goes back, newest value first.";
  if (position === END) return "The end. Every leaf has its whole gradient.";
  const { node, shares } = steps[position - 1];
  const told = shares.map(share => `${nameOf(share.to)}${share.undone ? ", summed over what was repeated" : ""}${share.before == null ? "" : ", added to what was there"}`);
  return `Step ${position} of ${steps.length}, ${nodes[node].label}: its gradient is complete, and it sends a share to ${told.join("; to ")}.`;
}

function card() {
  if (chosen != null) return leafCard(chosen);
  if (position === 0) return beginning();
  if (position === END) return ending();
  return stepCard(steps[position - 1]);
}

function heading(n) {
  const node = nodes[n], path = groups[node.group].path;
  const home = path ? ` in ${path} (${groups[node.group].kind})` : "";
  return element("h2", {}, node.label, element("small", {}, node.setting ? `${node.setting} · ` : "", node.kind === "op" ? "op" : node.kind, home));
}

function stepCard({ node: n, shares }) {
  const node = nodes[n], rule = rules[node.rule], result = rule.letters[1] === "y" ? "z" : "y";
  return [
    heading(n),
    element("div", { class: "side" },
      part("value", element("h3", {}, "What it computed"), rule.value ? formula(rule.value) : "", figure(node.value, "its value"), fold("from", () => argumentsOf(node), node.parents.every(([, p]) => brief(nodes[p].value)))),
      part("share", element("h3", {}, "The gradient that arrived"), formula(`<math><mi>g</mi><mo>=</mo><mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo><mi>${result}</mi></mrow></mfrac></math>`), figure(node.gradient, "g"), cameFrom(n))),
    element("h3", {}, "The rule"),
    rule.words ? element("p", {}, rule.words) : "",
    rule.derivation ? element("p", {}, "Its derivation: ", rule.derivation) : "",
    rule.sources.map(source => fold(source.where, () => element("pre", {}, source.text), source.text.split("\n").length <= 8)),
    element("h3", {}, shares.length > 1 ? `The ${shares.length} shares it sends` : shares.length ? "The share it sends" : "It sends nothing on"),
    element("div", { class: "side" }, shares.map(share => shareCard(share, rule))),
  ];
}

function argumentsOf(node) {
  const arrays = node.parents.map(([letter, p]) => element("div", {}, element("p", {}, element("em", {}, letter), ": ", link(p)), figure(nodes[p].value)));
  return element("div", {}, arrays, node.setting ? element("p", {}, element("code", {}, node.setting)) : "");
}

function cameFrom(n) {
  if (n === root) return element("p", {}, "The pass starts here, with the gradient of the loss with respect to itself.");
  const from = arrivals[n].map(({ from }) => link(from));
  return element("p", {}, from.length === 1 ? "All of it from " : `The sum of ${from.length} shares, from `, ...listed(from), from.length > 1 ? ": each use of a value counts." : ".");
}

function shareCard(share, rule) {
  const sum = share.before == null ? element("p", { class: "soft" }, arrivals[share.to].length > 1 ? `The first of ${arrivals[share.to].length} shares to arrive there: nothing to add it to yet.` : "The only share that arrives there.") :
    [element("p", {}, "Something had arrived there already, from another use of the value. The shares are added: ", element("code", {}, "+=")),
      element("div", { class: "row" }, figure(share.before, "before"), element("span", { class: "sign" }, "+"), figure(share.sent, "this share"), element("span", { class: "sign" }, "="), figure(share.after, "after"))];
  return part("share", element("h3", {}, "To ", element("em", {}, share.letter), ": ", link(share.to)),
    rule.to[share.formula] ? formula(rule.to[share.formula]) : "",
    figure(share.raw, share.undone ? "as the rule gives it" : "its share"),
    share.undone ? [element("p", {}, "Σ ", share.undone), figure(share.sent, "its share")] : "",
    sum);
}

function leafCard(n) {
  const node = nodes[n], all = arrivals[n];
  return [
    heading(n),
    part("value", element("h3", {}, "Its value"), figure(node.value)),
    node.kind === "constant" || node.gradient == null ? "" : part("share", element("h3", {}, "Its gradient, when all has arrived"), figure(node.gradient, "g"),
      element("h3", {}, all.length === 1 ? "From one step" : `From ${all.length} steps, added up`),
      all.map(({ from, share }) => element("div", {}, element("p", {}, "from ", link(from), share.undone ? ", broadcasting undone" : ""), figure(share.sent, "its share")))),
    element("p", { class: "soft" }, "The arrow keys go on with the steps."),
  ];
}

function beginning() {
  const kinds = { leaf: ["var(--leaf)", "a leaf: a parameter or input that wants a gradient"], op: ["var(--forward)", "a value that an op computed"], constant: ["var(--line)", "a constant"],
    some: ["var(--backward)", "dashed: part of its gradient is there; filled: all of it"] };
  const keys = [["→ ←", "a step on, a step back"], ["Home End", "to the beginning, to the end"], ["Space", "play, pause"], ["PageDown", "past this module"], ["/", "search"]];
  return [
    element("h2", {}, "How to read this"),
    element("p", {}, "On the graph values flow down, from the leaves to the loss. The reverse pass goes up. At each step one op, the newest whose turn it is, takes the gradient ", element("em", {}, "g"),
      " of its value and sends each of its arguments a share: by how much the loss changes with that argument."),
    element("p", {}, "A value that was used several times gets several shares, which are added (", element("code", {}, "+="), "). An op's turn comes when all who used its value have had theirs, so its gradient is then complete."),
    element("ul", { class: "legend" }, Object.values(kinds).map(([colour, text]) => element("li", {}, element("i", { style: `border-color: ${colour}` }), text))),
    element("p", {}, keys.flatMap(([key, text]) => [element("kbd", {}, key), ` ${text}. `]), "Or press a node", groups.length > 1 ? "; a grey box is a module, and opens." : "."),
    part("value", element("h3", {}, "The loss, ", link(root)), figure(nodes[root].value)),
    part("share", element("h3", {}, "Where the pass starts"), figure(nodes[root].gradient, "g")),
    element("p", {}, element("button", { onclick: () => go(1) }, "The first step ▶")),
  ];
}

function ending() {
  const leaves = nodes.map((_, n) => n).filter(n => nodes[n].kind === "leaf");
  return [element("h2", {}, "What the leaves received"), element("p", {}, "These are the gradients that backward() leaves in .grad. A step of gradient descent subtracts a little of each from its leaf."),
    leaves.map(n => part("share", element("h3", {}, link(n), element("small", {}, ` ${nodes[n].shape}`)), leaves.length > 12 ? fold("its gradient", () => figure(nodes[n].gradient, "g")) : figure(nodes[n].gradient, "g")))];
}

// ---------------------------------------------------------------- going about

function show() {
  const step = steps[position - 1];
  if (!drawing || drawing.open !== openNow()) draw();
  paint();
  $("says").textContent = says();
  $("card").replaceChildren(...[card()].flat(9).filter(part => part !== ""));
  $("slider").value = position;
  $("slider").setAttribute("aria-valuetext", position === 0 ? "the beginning" : position === END ? "the end" : `step ${position}, ${nodes[step.node].label}`);
  $("count").textContent = position === 0 ? "the beginning" : position === END ? "the end" : `step ${position} of ${steps.length}`;
  for (const id of ["first", "back"]) $(id).disabled = position === 0;
  for (const id of ["next", "last"]) $(id).disabled = position === END;
  $("past").disabled = !step || !nodes[step.node].group;
  $("play").textContent = timer ? "❚❚ pause" : "▶ play";
}

function go(to) {
  position = Math.max(0, Math.min(END, to));
  chosen = null;
  closed.clear();  // what was closed by hand opens again when a step is inside
  if (position === END) stop();
  history.replaceState(null, "", position ? `#${position}` : "#");
  show();
}

function look(n) {
  if (stepOf.has(n)) return go(stepOf.get(n));
  chosen = n;
  show();
}

function past() {
  // to the first step outside the module that this step is in
  const step = steps[position - 1], g = step && nodes[step.node].group;
  if (!g) return;
  let to = position + 1;
  while (to < END && around(`n${steps[to - 1].node}`).includes(g)) to++;
  go(to);
}

function stop() { clearInterval(timer); timer = null; }

function play() {
  if (timer) stop();
  else {
    if (position === END) go(0);
    timer = setInterval(() => go(position + 1), 1500);
  }
  show();
}

function find(words) {
  // up to 30 nodes in whose name, shape or module every word occurs
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const text = n => [nodes[n].label, nodes[n].setting, nodes[n].shape, nodes[n].kind, groups[nodes[n].group].path].join(" ").toLowerCase();
  const hits = wanted.length ? nodes.map((_, n) => n).filter(n => wanted.every(word => text(n).includes(word))) : [];
  const item = n => element("li", {}, element("button", { onclick: () => { clear(); look(n); } }, nameOf(n), element("span", { class: "soft" }, ` ${nodes[n].shape} ${groups[nodes[n].group].path}`)));
  const more = hits.length > 30 ? [element("li", {}, element("p", { class: "soft" }, `and ${hits.length - 30} more`))] : [];
  const none = wanted.length && !hits.length ? [element("li", {}, element("p", { class: "soft" }, "nothing found"))] : [];
  $("found").replaceChildren(...hits.slice(0, 30).map(item), ...more, ...none);
}

function clear() { $("search").value = ""; find(""); }

const KEYS = { ArrowRight: () => go(position + 1), ArrowLeft: () => go(position - 1), Home: () => go(0), End: () => go(END), PageDown: past, " ": play, "/": () => $("search").focus() };

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") return clear();
  if (event.target.matches("input")) return;  // these have uses for the keys
  if (event.key === " " && event.target.matches("button, summary")) return;
  if (KEYS[event.key]) { event.preventDefault(); KEYS[event.key](); }
});
for (const [id, act] of Object.entries({ first: () => go(0), back: () => go(position - 1), next: () => go(position + 1), last: () => go(END), past, play })) $(id).onclick = act;
$("slider").max = END;
$("slider").oninput = event => go(+event.target.value);
$("search").oninput = event => find(event.target.value);
$("search").onkeydown = event => { if (event.key === "Enter") $("found").querySelector("button")?.click(); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);  // heat maps are painted in the page's colours
go(+location.hash.slice(1) || 0);
