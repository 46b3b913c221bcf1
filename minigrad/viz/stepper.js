// The stepper in the browser: which step it is, what is said about it, keys and buttons. The graph is drawing.js's and layers.js's, arrays
// are shown by figures.js. All numbers and formulas come with the page, in DATA (stepper.py says what is in it). Position 0 is the
// beginning, position p step p, and the position after the last step shows what the leaves received.
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
  // what it was computed from: names, with the numbers where they are few, else behind a fold
  const name = ([letter, p]) => element("p", {}, element("em", {}, letter), " = ", link(p), ` ${nodes[p].exact || brief(nodes[p].value) || nodes[p].shape}`);
  const large = node.parents.filter(([, p]) => !brief(nodes[p].value));
  const values = () => element("div", {}, large.map(([letter, p]) => figure(nodes[p].value, letter)));
  return [node.parents.map(name), node.setting ? element("p", {}, element("code", {}, node.setting)) : "", large.length ? fold("the numbers it was computed from", values) : ""];
}

function cameFrom(n) {
  if (n === root) return element("p", {}, "The pass starts here, with the gradient of the loss with respect to itself.");
  const from = arrivals[n].map(({ from }) => link(from));
  return element("p", {}, from.length === 1 ? "All of it from " : `The sum of ${from.length} shares, from `, ...listed(from), from.length > 1 ? ": each use of a value counts." : ".");
}

function shareCard(share, rule) {
  const sum = share.before == null ? element("p", { class: "soft" }, arrivals[share.to].length > 1 ? `The first of ${arrivals[share.to].length} shares to arrive there: nothing to add it to yet.` : "The only share that arrives there.") :
    [element("p", {}, "Something had arrived there already, from another use of the value. The shares are added: ", element("code", {}, "+=")),
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
    element("p", {}, "On an orange edge stands what is sent, or for which argument: ", element("strong", {}, "x"), ", ", element("strong", {}, "y"), " … ", element("strong", {}, "Σ"), " says that broadcasting is undone on the way, ", element("strong", {}, "+="), " that something was there before."),
    element("p", {}, keys.flatMap(([key, text]) => [element("kbd", {}, key), ` ${text}. `]), "Or press a node", groups.length > 1 ? "; a grey box is a module, called once or several times in a row, and opens." : "."),
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
