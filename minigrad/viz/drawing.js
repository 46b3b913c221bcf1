// The stepper's graph as SVG: redrawn when a group opens or closes, repainted at every step. layers.js computes the
// layout, stepper.js how far the pass has come.

// ---------------------------------------------------------------- the text of a node

const LONGEST = 24;  // characters of a name on a node; the tooltip has all of it
const cut = name => name.length <= LONGEST ? name : `${name.slice(0, LONGEST / 2 - 1)}…${name.slice(-LONGEST / 2)}`;
const titleOf = g => `${cut(groups[g].label)} · ${cut(groups[g].kind)}`;

function linesOf(key) {
  // the lines of text on a node: its name, its value or shape, and a short gradient
  const at = +key.slice(1);
  if (key[0] === "g") return [cut(groups[at].label), cut(groups[at].kind)];
  const node = nodes[at], setting = node.setting && node.setting.length < 16 ? ` ${node.setting}` : "";
  const value = node.exact || brief(node.value), gradient = brief(node.gradient);
  return [cut(node.short) + setting, value || node.shape, ...(gradient ? [`g = ${gradient}`] : [])];
}

// ---------------------------------------------------------------- drawing

let drawing = null;  // {places, paths} of what is visible, in absolute coordinates

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
  const svg = svgElement("svg", { width: drawing.width, height: drawing.height, viewBox: `0 0 ${drawing.width} ${drawing.height}`, role: "group", "aria-label": "Graph" });
  svg.append(...boxes.map(([g, place]) => boxOf(g, place)), ...paths.map(edgeOf), ...[...places].filter(([, place]) => !place.inside).map(([key, place]) => nodeOf(key, place)), svgElement("g", { id: "tags" }));
  const had = $("graph").contains(document.activeElement) ? document.activeElement.dataset.key : null;
  $("graph").replaceChildren(svg);
  drawing.open = openNow();
  if (had) svg.querySelector(`[data-key="${had}"]`)?.focus({ preventScroll: true });
}

const openNow = () => groups.map((_, g) => +isOpen(g)).join("");

function route({ from, to }, places, bends) {
  // route an edge from a node's lower side to another's upper side, through the bends of every group on the way
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
  path.element = svgElement("path", { class: "edge", d });
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
  const texts = lines.map((line, i) => svgElement("text", { x: x + width / 2, y: y + 17 + 14 * i, class: i === 0 ? "" : line.startsWith("g = ") && i === 2 ? "gradient" : "small" }, line));
  const title = svgElement("title", {}, isGroup ? `${groups[at].path}, ${groups[at].kind}` : nodes[at].label);
  const made = svgElement("g", {}, title, svgElement("rect", { x, y, width, height, rx: isGroup ? 3 : 9 }), ...texts);
  const label = isGroup ? `Open ${groups[at].path}, ${groups[at].kind}` : `${nodes[at].label}, ${nodes[at].shape}${stepOf.has(at) ? `, step ${stepOf.get(at)}` : ""}`;
  return pressable(made, key, label, () => isGroup ? toggle(at) : select(at));
}

function boxOf(g, { x, y, width, height }) {
  const title = svgElement("g", { class: "close", tabindex: 0, "aria-expanded": "true" }, svgElement("title", {}, groups[g].path), svgElement("text", { x: x + 8, y: y + 15 }, `− ${titleOf(g)}`));
  return svgElement("g", { class: "box" }, svgElement("rect", { x, y, width, height, rx: 6 }), pressable(title, `g${g}`, `Close ${groups[g].path}`, () => toggle(g)));
}

function toggle(g) {
  const was = isOpen(g);
  (was ? closed : opened).add(g);
  (was ? opened : closed).delete(g);
  draw();
  paint();
}

// ---------------------------------------------------------------- painting the state of a step onto the drawing

function paint() {
  const step = steps[position - 1], here = visibleKey(`n${chosen ?? step?.node ?? root}`);
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
  const last = arrivalsSoFar(n).at(-1);
  return last ? `g = ${brief(last.share.after)}` : n === root ? `g = ${brief(nodes[n].gradient)}` : "";
}

function paintEdges(step) {
  const now = new Map(), sent = new Set(), tags = [];
  steps.slice(0, position).forEach((s, i) => s.shares.forEach(share => {
    const edge = `${visibleKey(`n${share.to}`)}>${visibleKey(`n${s.node}`)}`;
    sent.add(edge);
    if (i === position - 1) now.set(edge, [...now.get(edge) ?? [], share]);
  }));
  for (const { from, to, element: path } of drawing.paths) {
    const edge = `${from}>${to}`;
    path.setAttribute("class", `edge ${now.has(edge) ? "now" : sent.has(edge) ? "sent" : ""}`);
    if (now.has(edge)) tags.push(tagOf(now.get(edge), path));
  }
  $("tags").replaceChildren(...placeTags(tags));
}

function tagOf(shares, path) {
  // the label of an edge, near its end: what is sent, with Σ if broadcasting is undone, += if it is added
  const text = shares.map(share => (share.before == null ? "" : "+= ") + (share.undone ? "Σ " : "") + (brief(share.sent) || share.letter)).join(", ");
  const { x, y } = path.getPointAtLength(Math.min(17, path.getTotalLength() / 2)), width = 6.4 * text.length + 12;
  return { text, x, y, width };
}

function placeTags(tags) {
  // move tags apart that would overlap
  tags.sort((a, b) => a.x - b.x);
  for (let i = 1; i < tags.length; i++) {
    const over = (tags[i - 1].width + tags[i].width) / 2 + 3 - (tags[i].x - tags[i - 1].x);
    if (over > 0 && Math.abs(tags[i].y - tags[i - 1].y) < 18) { tags[i].x += over / 2; tags[i - 1].x -= over / 2; }
  }
  return tags.map(({ text, x, y, width }) => svgElement("g", { class: "tag" }, svgElement("rect", { x: x - width / 2, y: y - 9, width, height: 18, rx: 9 }), svgElement("text", { x, y: y + 4 }, text)));
}

function scrollTo(key) {
  const place = drawing.places.get(key), pane = $("graph");
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (place) pane.scrollTo({ left: place.x + place.width / 2 - pane.clientWidth / 2, top: place.y + place.height / 2 - pane.clientHeight / 2, behavior: calm ? "auto" : "smooth" });
}
