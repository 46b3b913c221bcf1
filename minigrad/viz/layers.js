// Layout of the stepper's graph: in layers, from the leaves down to the loss, open groups as boxes within boxes.
// stepper.js says which groups are open, drawing.js how large a node's text is.

const GAP = 14, ROW = 34, PAD = 10, HEAD = 22, BEND = 8;

function edgesShown() {
  // the visible edges {from, to}, each once
  const found = new Map();
  nodes.forEach((node, n) => node.parents.forEach(([, p]) => {
    const from = visibleKey(`n${p}`), to = visibleKey(`n${n}`);
    if (from !== to) found.set(`${from}>${to}`, { from, to });
  }));
  return [...found.values()];
}

function layout(g, edges) {
  // lay out the inside of a group, relative to its corner:
  // {width, height, places: key -> {x, y, width, height}, bends: edge -> points}
  const cells = new Map(groups[g].items.map(item => [keyOf(item), { key: keyOf(item), ...sizeOf(keyOf(item), edges), above: [], below: [] }]));
  const childFor = key => { while (key && parentOf(key) !== g) key = parentOf(key) ? `g${parentOf(key)}` : null; return key; };
  const links = linksIn(childFor, edges);
  const layers = layersOf(cells, links);
  bend(links, cells, layers);
  sortLayers(layers);
  return arrange(layers, cells, links);
}

function linksIn(childFor, edges) {
  // the edges visible in one group: from child to child, from outside (a null) or to the outside (b null)
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
  // reserve a narrow cell in each layer that an edge passes, so that no node is in its way
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
  // reduce crossings: move each cell to the mean position of its neighbours, sweeping down and up
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
  // move every cell as near as possible to its neighbours above (or below), keeping the order
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
  return { width: Math.max(48, ...lines.map((line, i) => (i || key[0] === "g" || nodes[at].kind !== "leaf" ? 6.6 : 7.6) * line.length + 18)), height: 10 + 14 * lines.length };
}
