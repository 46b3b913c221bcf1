// HTML elements, and arrays as figures: small arrays as grids of numbers, large ones as heat maps.

// ---------------------------------------------------------------- making elements

function element(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) key === "onclick" ? (made.onclick = value) : made.setAttribute(key, value);
  made.append(...inside.flat(9).filter(part => part != null && part !== ""));
  return made;
}

function svgElement(name, attributes = {}, ...inside) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

function formula(mathml) {
  const made = element("p", { class: "formula" });
  made.innerHTML = mathml;  // safe: from formulas.py, not from the reader's data
  return made;
}

// ---------------------------------------------------------------- numbers

const isStrange = x => typeof x === "string";  // "nan", "inf", "-inf", which JSON lacks

function short(x) {
  if (typeof x !== "number") return String(x);
  if (Number.isInteger(x) && Math.abs(x) < 1e6) return String(x);
  const size = Math.abs(x);
  return size >= 1e5 || size < 1e-3 ? x.toExponential(2) : String(+x.toPrecision(4));
}

function brief(at) {
  // format an array of up to three elements for the graph; "" for a larger one
  if (at == null || Array.isArray(at)) return "";
  const { numbers, shape } = arrays[at];
  if (arrays[at].shown || numbers.length > 3 || shape.length > 1 && numbers.length > 1) return "";
  return shape.length ? `[${numbers.map(short).join(", ")}]` : short(numbers[0]);
}

const shapeText = shape => shape.length > 1 ? `(${shape.join(", ")})` : shape.length ? `(${shape[0]},)` : "a scalar";

function figure(at, caption = "") {
  // show a small array as numbers, a large one as a heat map with the numbers behind a fold
  if (at == null) return element("p", { class: "soft" }, "none");
  if (Array.isArray(at)) return element("div", {}, at.map((one, i) => figure(one, `${caption} ${i + 1} of ${at.length}`)));
  const array = arrays[at], { shape, low, high, strange } = array, size = shape.reduce((a, b) => a * b, 1);
  const cut = array.shown ? `; only the first corner is shown, ${shapeText(array.shown)}` : "";
  const note = strange ? element("span", { class: "strange" }, `${strange} of ${size} ${strange === 1 ? "is" : "are"} NaN or infinite`) : "";
  const all = matrices(array), few = all.every(m => m.cols <= 10 && m.rows * m.cols <= 64) && array.numbers.length <= 128;
  const range = !few && low != null ? `, from ${short(low)} to ${short(high)}` : "";
  const shown = few ? tables(all, array) : [maps(all, array), fold("as numbers", () => tables(all, array))];
  return element("figure", { class: "array" }, element("figcaption", {}, caption, caption ? ": " : "", shapeText(shape), range, cut, " ", note), shown);
}

function matrices({ numbers, shape, shown }) {
  // split an array into matrices {rows, cols, numbers, index}; index: the indices along the axes before the last two
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
  const top = largest(array), alone = array.numbers.length === 1;
  const cell = x => element("td", { title: String(x), style: alone ? "" : tint(x, top) }, isStrange(x) ? element("span", { class: "strange" }, x) : short(x));
  const table = m => element("table", { class: "grid" }, Array.from({ length: m.rows }, (_, r) => element("tr", {}, m.numbers.slice(r * m.cols, (r + 1) * m.cols).map(cell))));
  return element("div", { class: "matrices" }, all.map(m => element("div", {}, m.index ? element("p", {}, m.index) : "", table(m))));
}

// blue below 0, orange above, stronger for larger elements; the same in grids and heat maps
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
  const canvas = element("canvas", { width: m.cols, height: m.rows, role: "img", style: `width: ${m.cols * cell}px; height: ${m.rows * Math.max(cell, m.rows === 1 ? 14 : 0)}px`,
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
  open ? fill() : made.addEventListener("toggle", fill);  // filled when it is opened: most never are
  return made;
}
