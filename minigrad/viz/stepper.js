// The stepper in the browser: the current step, its description, keys and buttons. drawing.js and layers.js draw the
// graph, figures.js shows arrays. All numbers and formulas are in DATA, which as_data in stepper.py documents.
// Position 0 is the beginning, position p is step p, and the position after the last step shows the leaves' gradients.
const { nodes, groups, steps, rules, arrays } = DATA;
const END = steps.length + 1;
const $ = id => document.getElementById(id);
const stepOf = new Map(steps.map((step, i) => [step.node, i + 1]));
const root = steps[0].node;
const arrivals = nodes.map(() => []);  // for each node the shares it receives: {position, share, from}
steps.forEach((step, i) => step.shares.forEach(share => arrivals[share.to].push({ position: i + 1, share, from: step.node })));

let position = 0;
let chosen = null;       // a selected node that has no step: a leaf, or a node without a gradient
let opened = new Set();  // groups that the reader opened
let closed = new Set();  // groups that the reader closed although the step is inside
let timer = null;

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

function visibleKey(key) {
  // the node itself, or the outermost closed group around it
  const shut = around(key).filter(g => !isOpen(g)).at(-1);
  return shut == null ? key : `g${shut}`;
}

// ---------------------------------------------------------------- how far the pass has come

const arrivalsSoFar = n => arrivals[n].filter(a => a.position <= position);

function stateOf(n) {
  if (stepOf.get(n) === position) return "now";
  const here = arrivalsSoFar(n).length;
  return n === root ? "done" : !here ? "" : here < arrivals[n].length ? "some" : "done";
}

function statesIn(g) {
  return groups[g].items.flatMap(item => Array.isArray(item) ? statesIn(item[0]) : arrivals[item].length || item === root ? [stateOf(item)] : []);
}

function groupState(g) {
  const states = statesIn(g);
  return states.includes("now") ? "now" : states.every(s => s === "done") ? "done" : states.some(s => s) ? "some" : "";
}

// ---------------------------------------------------------------- the step in words and numbers

const nameOf = n => nodes[n].kind === "op" ? `${nodes[n].label}${stepOf.has(n) ? ` (step ${stepOf.get(n)})` : ""}` : nodes[n].label;
const link = (n, text = nameOf(n)) => element("button", { class: "link", onclick: () => select(n) }, text);
const part = (kind, ...inside) => element("section", { class: `part ${kind}` }, inside);
const joinWithAnd = items => items.flatMap((item, i) => i ? [i === items.length - 1 ? " and " : ", ", item] : [item]);

function describe() {
  if (chosen != null) return `${nodes[chosen].label}: ${nodes[chosen].kind === "leaf" ? "a leaf. The pass ends here." : nodes[chosen].kind === "constant" ? "a constant, which needs no gradient." : "no gradient arrives here."}`;
  if (position === 0) return "The beginning. The gradient of the loss with respect to itself is 1; from there the pass goes back, newest value first.";
  if (position === END) return "The end. The gradient of every leaf is complete.";
  const { node, shares } = steps[position - 1];
  const receivers = shares.map(share => `${nameOf(share.to)}${share.undone ? ", summed over the repeated axes" : ""}${share.before == null ? "" : ", added to the gradient so far"}`);
  return `Step ${position} of ${steps.length}, ${nodes[node].label}: its gradient is complete, and it sends a share to ${receivers.join("; to ")}.`;
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
  const node = nodes[n], rule = rules[node.rule];
  return [
    heading(n),
    element("div", { class: "side" },
      part("value", element("h3", {}, "What it computed"), rule.value ? formula(rule.value) : "", figure(node.value, "its value"), argumentsOf(node)),
      part("share", element("h3", {}, "The gradient that arrived"), formula(`<math displaystyle="true"><mi>g</mi><mo>=</mo><mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo><mi>${rule.result}</mi></mrow></mfrac></math>`), figure(node.gradient, "g"), cameFrom(n))),
    element("h3", {}, "The rule"),
    rule.words ? element("p", {}, rule.words) : "",
    rule.derivation ? element("p", {}, "Its derivation: ", rule.derivation) : "",
    rule.sources.map(source => fold(source.where, () => element("pre", {}, source.text), !rule.derivation && source.text.split("\n").length <= 4)),
    element("h3", {}, shares.length > 1 ? `The ${shares.length} shares it sends` : shares.length ? "The share it sends" : "It sends nothing on"),
    element("div", { class: "side" }, shares.map(share => shareCard(share, rule))),
  ];
}

function argumentsOf(node) {
  // the arguments of an op: names, with small arrays beside them and large ones behind a fold
  const name = ([letter, p]) => element("p", {}, element("em", {}, letter), " = ", link(p), ` ${nodes[p].exact || brief(nodes[p].value) || nodes[p].shape}`);
  const large = node.parents.filter(([, p]) => !brief(nodes[p].value));
  const values = () => element("div", {}, large.map(([letter, p]) => figure(nodes[p].value, letter)));
  return [node.parents.map(name), node.setting ? element("p", {}, element("code", {}, node.setting)) : "", large.length ? fold("the values of its arguments", values) : ""];
}

function cameFrom(n) {
  if (n === root) return element("p", {}, "The pass starts here, with the gradient of the loss with respect to itself.");
  const from = arrivals[n].map(({ from }) => link(from));
  return element("p", {}, from.length === 1 ? "All of it from " : `The sum of ${from.length} shares, from `, ...joinWithAnd(from), from.length > 1 ? ": each use of a value counts." : ".");
}

function shareCard(share, rule) {
  const sum = share.before == null ? element("p", { class: "soft" }, arrivals[share.to].length > 1 ? `The first of ${arrivals[share.to].length} shares to arrive there: there is nothing to add it to yet.` : "The only share that arrives there.") :
    [element("p", {}, "A share from another use of the value arrived there earlier. The shares are added: ", element("code", {}, "+=")),
      element("div", { class: "row" }, figure(share.before, "before"), figure(share.sent, "+ this share"), figure(share.after, "= after"))];
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
    node.kind === "constant" || node.gradient == null ? "" : part("share", element("h3", {}, "Its complete gradient"), figure(node.gradient, "g"),
      element("h3", {}, all.length === 1 ? "From one step" : `From ${all.length} steps, added up`),
      all.map(({ from, share }) => element("div", {}, element("p", {}, "from ", link(from), share.undone ? ", broadcasting undone" : ""), figure(share.sent, "its share")))),
    element("p", { class: "soft" }, "Use the arrow keys to continue with the steps."),
  ];
}

function beginning() {
  const kinds = { leaf: ["var(--leaf)", "a leaf: a parameter or input that requires a gradient"], op: ["var(--forward)", "a value that an op computed"], constant: ["var(--line)", "a constant"],
    some: ["var(--backward)", "dashed: part of its gradient has arrived; filled: all of it"] };
  const keys = [["→ ←", "one step forward, one step back"], ["Home End", "to the beginning, to the end"], ["Space", "play, pause"], ["PageDown", "skip this module"], ["/", "search"]];
  return [
    element("h2", {}, "How to read this page"),
    element("p", {}, "In the graph values flow down, from the leaves to the loss. The reverse pass goes up, newest op first. At each step one op takes the gradient ", element("em", {}, "g"),
      " of its value and sends a share to each of its arguments: how much the loss changes with that argument."),
    element("p", {}, "A value that was used several times gets several shares, which are added (", element("code", {}, "+="), "). All users of a value come before the op that computed it, so the op's gradient is complete at its step."),
    element("ul", { class: "legend" }, Object.values(kinds).map(([colour, text]) => element("li", {}, element("i", { style: `border-color: ${colour}` }), text))),
    element("p", {}, "The label of an orange edge is the share, or the argument's letter: ", element("strong", {}, "x"), ", ", element("strong", {}, "y"), " … ", element("strong", {}, "Σ"), " means that broadcasting is undone on the way, ", element("strong", {}, "+="), " that the share is added to an earlier one."),
    element("p", {}, keys.flatMap(([key, text]) => [element("kbd", {}, key), ` ${text}. `]), "Or press a node", groups.length > 1 ? "; a grey box opens: it is a module, called once or several times in a row." : "."),
    part("value", element("h3", {}, "The loss, ", link(root)), figure(nodes[root].value)),
    part("share", element("h3", {}, "Where the pass starts"), figure(nodes[root].gradient, "g")),
    element("p", {}, element("button", { onclick: () => go(1) }, "The first step ▶")),
  ];
}

function ending() {
  const leaves = nodes.map((_, n) => n).filter(n => nodes[n].kind === "leaf");
  return [element("h2", {}, "The gradients of the leaves"), element("p", {}, "These are the gradients that backward() stores in .grad. A step of gradient descent subtracts a small multiple of each from its leaf."),
    leaves.map(n => part("share", element("h3", {}, link(n), element("small", {}, ` ${nodes[n].shape}`)), leaves.length > 12 ? fold("its gradient", () => figure(nodes[n].gradient, "g")) : figure(nodes[n].gradient, "g")))];
}

// ---------------------------------------------------------------- navigation

function show() {
  const step = steps[position - 1];
  if (!drawing || drawing.open !== openNow()) draw();
  paint();
  $("says").textContent = describe();
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
  closed.clear();  // a group closed by hand opens again when a step is inside
  if (position === END) stop();
  history.replaceState(null, "", position ? `#${position}` : "#");
  show();
}

function select(n) {
  if (stepOf.has(n)) return go(stepOf.get(n));
  chosen = n;
  show();
}

function past() {
  // go to the first step outside the current step's module
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
  // show up to 30 nodes whose name, setting, shape, kind and module contain every word
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const text = n => [nodes[n].label, nodes[n].setting, nodes[n].shape, nodes[n].kind, groups[nodes[n].group].path].join(" ").toLowerCase();
  const hits = wanted.length ? nodes.map((_, n) => n).filter(n => wanted.every(word => text(n).includes(word))) : [];
  const item = n => element("li", {}, element("button", { onclick: () => { clear(); select(n); } }, nameOf(n), element("span", { class: "soft" }, ` ${nodes[n].shape} ${groups[nodes[n].group].path}`)));
  const more = hits.length > 30 ? [element("li", {}, element("p", { class: "soft" }, `and ${hits.length - 30} more`))] : [];
  const none = wanted.length && !hits.length ? [element("li", {}, element("p", { class: "soft" }, "nothing found"))] : [];
  $("found").replaceChildren(...hits.slice(0, 30).map(item), ...more, ...none);
}

function clear() { $("search").value = ""; find(""); }

const KEYS = { ArrowRight: () => go(position + 1), ArrowLeft: () => go(position - 1), Home: () => go(0), End: () => go(END), PageDown: past, " ": play, "/": () => $("search").focus() };

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") return clear();
  if (event.target.matches("input")) return;  // inputs use these keys themselves
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
