// The attention explorer's script. DATA.records: [{name, layers: [{path, kind, shape, weights, queries, keys, writes, entropy, most}]}].
const $ = id => document.getElementById(id);
const chosen = { record: 0, kind: null, layer: 0, head: 0, query: 0, key: null };
const percent = w => (100 * w).toPrecision(3) + " %";

// ---------------------------------------------------------------- the weights

for (const record of DATA.records) for (const layer of record.layers) {
  const bytes = Uint8Array.from(atob(layer.weights), c => c.charCodeAt(0));
  layer.weights = new Float32Array(bytes.buffer);
}

function layers() { return DATA.records[chosen.record].layers.filter(layer => layer.kind === chosen.kind); }
function layer() { return layers()[chosen.layer]; }

function weight(layer, head, query, key) { // the last head is the average of the others
  const [heads, queries, keys] = layer.shape;
  const one = h => layer.weights[(h * queries + query) * keys + key];
  if (head < heads) return one(head);
  let sum = 0;
  for (let h = 0; h < heads; h++) sum += one(h);
  return sum / heads;
}

function headName(head) { return head < layer().shape[0] ? `head ${head + 1}` : "average of its heads"; }
function isMasked(layer, query, key) { return layer.kind === "decoder" && key > query; }

// ---------------------------------------------------------------- colours

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const shade = w => `color-mix(in srgb, var(--forward) ${Math.round(100 * Math.sqrt(w))}%, var(--panel))`;
function rgb(hex) { return [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)); }

function painter() { // the same shades for a canvas, which knows no variables
  const [low, high] = [rgb(colour("--panel")), rgb(colour("--forward"))];
  return w => `rgb(${low.map((c, i) => Math.round(c + Math.sqrt(w) * (high[i] - c)))})`;
}

function tint(element, w) {
  element.style.background = shade(w);
  element.style.color = w > 0.3 ? "var(--back)" : "var(--ink)";
}

// ---------------------------------------------------------------- drawing

function make(tag, text, parent) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

function cells(canvas, layer, head, size, left, top) { // draw every weight as a square of `size` pixels
  const [, queries, keys] = layer.shape, paint = painter(), pen = canvas.getContext("2d");
  for (let q = 0; q < queries; q++) for (let k = 0; k < keys; k++) {
    pen.fillStyle = paint(weight(layer, head, q, k));
    pen.fillRect(left + k * size, top + q * size, size, size);
  }
}

function drawHeads() {
  const grid = $("heads");
  const columns = Math.max(...layers().map(l => l.shape[0])) + 1;
  grid.replaceChildren();
  grid.style.gridTemplateColumns = `auto repeat(${columns}, auto)`;
  layers().forEach((layer, index) => {
    make("span", `layer ${index + 1}`, grid).title = layer.path;
    for (let head = 0; head <= layer.shape[0]; head++) drawHead(grid, layer, index, head).style.gridColumn = head + 2;
  });
}

function drawHead(grid, layer, index, head) {
  const button = make("button", "", grid), canvas = make("canvas", "", button);
  const name = head < layer.shape[0] ? `head ${head + 1}` : "average";
  [canvas.width, canvas.height] = [layer.shape[2], layer.shape[1]];
  cells(canvas, layer, head, 1, 0, 0);
  make("b", name, button);
  make("span", `${layer.entropy[head].toFixed(2)} of ${layer.most.toFixed(2)} bits`, button);
  button.setAttribute("aria-label", `layer ${index + 1}, ${name}, entropy ${layer.entropy[head].toFixed(2)} of ${layer.most.toFixed(2)} bits`);
  button.onclick = () => choose({ layer: index, head });
  Object.assign(button.dataset, { layer: index, head });
  return button;
}

function drawMap() { // the chosen head, large, with its tokens at the edges
  const [, queries, keys] = layer().shape, canvas = $("map"), pen = canvas.getContext("2d");
  const size = Math.max(6, Math.min(22, Math.floor(Math.min(460, $("view").clientWidth - 90) / Math.max(queries, keys))));
  const labels = size >= 10, letters = `${Math.min(13, size)}px "DejaVu Sans Mono", Menlo, Consolas, monospace`;
  pen.font = letters;
  const longest = names => labels ? 6 + Math.max(...names.map(name => pen.measureText(name).width)) : 0;
  const rows = layer().queries.map((name, q) => nameOf(q)), upright = Math.max(...layer().keys.map(name => name.length)) < 3;
  const [left, top] = [longest(rows), upright ? (labels ? size : 0) : longest(layer().keys)].map(Math.ceil);
  const [width, height] = [left + keys * size + 1, top + queries * size + 1], scale = window.devicePixelRatio || 1;
  [canvas.width, canvas.height, canvas.style.width, canvas.style.height] = [width * scale, height * scale, width + "px", height + "px"];
  pen.scale(scale, scale);
  cells(canvas, layer(), chosen.head, size, left, top);
  Object.assign(drawMap, { size, left, top });
  pen.font = letters;
  pen.strokeStyle = pen.fillStyle = colour("--ink");
  pen.strokeRect(left + .5, top + chosen.query * size + .5, keys * size - 1, size - 1);
  if (!labels) return;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  rows.forEach((name, q) => pen.fillText(name, left - 4, top + (q + .5) * size));
  pen.textAlign = upright ? "center" : "left";
  layer().keys.forEach((name, k) => {
    pen.save();
    pen.translate(left + (k + .5) * size, top - (upright ? size / 2 : 4));
    if (!upright) pen.rotate(-Math.PI / 2);
    pen.fillText(name, 0, 0);
    pen.restore();
  });
}

function nameOf(query) { // the token that attends, and the token written at its position
  const written = layer().writes[query];
  return layer().queries[query] + (written ? " → " + written : "");
}

function drawQueries() {
  $("queries").replaceChildren();
  layer().queries.forEach((name, query) => {
    const button = make("button", name, $("queries")), written = layer().writes[query];
    if (written) make("small", "→ " + written, button);
    button.setAttribute("aria-label", `position ${query + 1}, ${name}` + (written ? `, writes ${written}` : ""));
    button.onclick = button.onfocus = button.onmouseenter = () => choose({ query });
  });
}

function drawKeys() {
  const { queries, keys, writes } = layer(), query = chosen.query;
  const all = keys.map((_, key) => weight(layer(), chosen.head, query, key)), best = all.indexOf(Math.max(...all));
  const doing = writes[query] ? `To write “${writes[query]}”, “${queries[query]}”` : `“${queries[query]}”`;
  $("said").textContent = `${doing} (position ${query + 1}) attends most to “${keys[best]}” (position ${best + 1}): ${percent(all[best])}`;
  $("keys").replaceChildren();
  all.forEach((w, key) => {
    const item = make("li", keys[key], $("keys")), masked = isMasked(layer(), query, key);
    make("small", masked ? "masked" : w < 0.0005 ? "0" : w.toFixed(3), item);
    item.title = masked ? "masked: a later token" : `position ${key + 1}: ${w.toPrecision(4)}`;
    item.classList.toggle("masked", masked);
    item.classList.toggle("pointed", key === chosen.key);
    tint(item, w);
  });
}

// ---------------------------------------------------------------- choosing

function choose(change) { // redraw only what changes
  Object.assign(chosen, { key: null }, change);
  const fresh = "record" in change || "kind" in change;
  if (fresh) Object.assign(chosen, sharpest());
  chosen.head = Math.min(chosen.head, layer().shape[0]);
  chosen.query = Math.min(chosen.query, layer().queries.length - 1);
  if (fresh) drawHeads();
  if (fresh || "layer" in change) drawQueries();
  $("panel").setAttribute("aria-labelledby", "tab-" + chosen.kind);
  $("most").textContent = layer().most.toFixed(2);
  $("about").textContent = DATA.kinds[chosen.kind][1];
  $("chosen").textContent = `Layer ${chosen.layer + 1}, ${headName(chosen.head)}`;
  $("map").setAttribute("aria-label", `Map of the weights of ${$("chosen").textContent}; the weights are listed beside it.`);
  drawMap();
  drawKeys();
  mark($("tabs"), "aria-selected", button => button.dataset.kind === chosen.kind);
  mark($("heads"), "aria-pressed", button => +button.dataset.layer === chosen.layer && +button.dataset.head === chosen.head);
  mark($("queries"), "aria-pressed", (button, index) => index === chosen.query);
}

function sharpest() { // the head with the lowest entropy, and the query in the middle of those that write a token
  const heads = layers().flatMap((one, layer) => one.entropy.slice(0, -1).map((bits, head) => ({ layer, head, bits })));
  const { layer, head } = heads.reduce((best, next) => next.bits <= best.bits ? next : best);
  const { queries, writes } = layers()[layer], writing = queries.map((_, q) => q).filter(q => !writes.length || writes[q]);
  return { layer, head, query: writing[writing.length >> 1] || 0 };
}

function mark(group, attribute, isChosen) { // mark one button of a group; the tab key reaches only that one
  group.querySelectorAll("button").forEach((button, index) => {
    button.setAttribute(attribute, isChosen(button, index));
    button.tabIndex = isChosen(button, index) ? 0 : -1;
  });
}

function enableArrows(group, down) { // arrow keys move to the neighbour and choose it; down() is the length of a row
  group.addEventListener("keydown", event => {
    const buttons = [...group.querySelectorAll("button")], at = buttons.indexOf(document.activeElement);
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: down(), ArrowUp: -down(), Home: -at, End: buttons.length - 1 - at };
    const next = buttons[at + steps[event.key]];
    if (!(event.key in steps) || !next) return;
    event.preventDefault();
    next.focus();
    next.click();
  });
}

function choosePointed(event) { // choose the row of the map under the pointer
  const box = $("map").getBoundingClientRect(), [, queries, keys] = layer().shape;
  const query = Math.floor((event.clientY - box.top - drawMap.top) / drawMap.size);
  const key = Math.floor((event.clientX - box.left - drawMap.left) / drawMap.size);
  const inside = query >= 0 && query < queries && key >= 0 && key < keys;
  if (inside && (query !== chosen.query || key !== chosen.key)) choose({ query, key });
}

function chooseRecord(record) {
  chosen.record = record;
  const kinds = Object.keys(DATA.kinds).filter(kind => DATA.records[record].layers.some(layer => layer.kind === kind));
  $("tabs").replaceChildren();
  for (const kind of kinds) {
    const tab = make("button", DATA.kinds[kind][0], $("tabs"));
    Object.assign(tab, { id: "tab-" + kind, onclick: () => choose({ kind }) });
    Object.assign(tab.dataset, { kind });
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", "panel");
  }
  $("text").textContent = DATA.records[record].name;
  choose({ record, kind: kinds.includes(chosen.kind) ? chosen.kind : kinds[kinds.length - 1] });
}

function start() {
  DATA.records.forEach((record, index) => make("option", record.name, $("record")).value = index);
  $("texts").hidden = DATA.records.length < 2;
  $("record").onchange = event => chooseRecord(+event.target.value);
  for (const w of [0, .01, .05, .1, .25, .5, 1]) tint(make("span", w, $("legend")), w);
  enableArrows($("tabs"), () => 1);
  enableArrows($("heads"), () => layer().shape[0] + 1);
  enableArrows($("queries"), () => 1);
  $("map").onmousemove = $("map").onclick = choosePointed;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chooseRecord(chosen.record));
  chooseRecord(0);
}

start();
