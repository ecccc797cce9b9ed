// ---------------------------------------------------------------------------------------------------------------------
// The page has its data in the element `scene`. If that is null, the page is live: it fetches the data from the server
// that served it, again and again. All text from the cluster is inserted as text, never as HTML.

const POLL_MS = 5000;
const ROWS_PER_PAGE = 50;
const KEPT_SAMPLES = 240;
const GAP = 2;
const ZONE_TITLE = 22;
const BYTES = /^(memory|ephemeral-storage|hugepages-.*)$/;
/** Parts of a node's capacity above which its box has another colour. */
const HIGH = 0.8;
const FULL = 0.95;

const byId = (id) => document.getElementById(id);

/** Creates an element with text and attributes. */
function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const count = (number) => number.toLocaleString("en");
const counted = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;

/** Writes an amount of a resource as people do: 1.5 CPUs, 2Gi. */
function amountText(resource, amount) {
  if (resource === "cpu") return String(amount / 1000);
  if (!BYTES.test(resource)) return count(amount);
  const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
  let at = 0;
  while (Math.abs(amount) >= 1024 && at < units.length - 1) {
    amount /= 1024;
    at += 1;
  }
  return Math.floor(amount * 100) / 100 + units[at];
}

// ---------------------------------------------------------------------------------------------------------------------
// The data

/** Returns the scene with objects instead of positions in lists. */
function decoded(scene) {
  const pod = ([name, request, facts, node, before]) => ({
    name,
    request: scene.requests[request],
    facts: scene.facts[facts],
    node: node === undefined ? undefined : scene.nodes[node][0],
    before,
  });
  const nodes = scene.nodes.map(([name, zone, requested, allocatable], at) => ({
    name,
    zone: scene.zones[zone],
    requested,
    allocatable,
    copies: (scene.sizes ?? []).map(({ copies }) => copies[at]),
    pods: [],
  }));
  for (const [at, ...mark] of scene.marks ?? []) nodes[at].mark = mark;
  for (const [at, place] of scene.before ?? []) scene.pods[at].push(scene.places[place]);
  for (const encoded of scene.pods) nodes[encoded[3]].pods.push(encoded);
  // Objects for the pods of a node are made only when the node is opened.
  for (const node of nodes) {
    const encoded = node.pods;
    node.podCount = encoded.length;
    node.pods = () => encoded.map(pod);
  }
  const order = new Intl.Collator("en", { numeric: true });
  nodes.sort((a, b) => order.compare(a.zone, b.zone) || order.compare(a.name, b.name));
  const waiting = scene.waiting.map((row) => ({ ...row, count: row.members.length, members: () => row.members.map(pod) }));
  // Only some pages ask for names.
  let [nodeNames, podNames] = [null, null];
  const nodeNamed = (name) => (nodeNames ??= new Map(nodes.map((node) => [node.name, node]))).get(name);
  const podNamed = (name) => {
    podNames ??= new Map([
      ...waiting.flatMap(({ state, message, ...row }) => row.members().map((made) => [made.name, { ...made, state, message }])),
      ...scene.pods.map((encoded) => [encoded[0], encoded]),
    ]);
    const found = podNames.get(name);
    return Array.isArray(found) ? pod(found) : found;
  };
  return { ...scene, nodes, waiting, podCount: scene.pods.length, nodeNamed, podNamed };
}

const view = {
  scene: null,
  live: false,
  resource: "cpu",
  /** Names of what is open: a node, a row of waiting pods, and a pod. */
  node: null,
  row: null,
  pod: null,
  /** Name of a pod that was opened although it did not wait any more. */
  lost: null,
  /** Position of the box that has the keyboard's attention. */
  active: 0,
  /** Position of the size whose copies are shown. */
  size: 0,
  layout: null,
  samples: [],
};

const resourceAt = () => Math.max(0, view.scene.resources.indexOf(view.resource));

/** Returns the requested part of what the node offers; null if it offers none. */
function fill(node, at = resourceAt()) {
  return node.allocatable[at] > 0 ? requestedOn(node, at) / node.allocatable[at] : null;
}

const percent = (part) => (part === null ? "none" : `${Math.floor(part * 100)}%`);

function usageText(node, at) {
  const resource = view.scene.resources[at];
  const [requested, offered] = [requestedOn(node, at), node.allocatable[at]];
  return `${amountText(resource, requested)} of ${amountText(resource, offered)}`;
}

// ---------------------------------------------------------------------------------------------------------------------
// Tables

/**
 * A table with at most ROWS_PER_PAGE rows at a time. A column has a title, a text and perhaps an action: `open` for every
 * row, or what `link` returns.
 */
class Table {
  constructor(host, caption, columns) {
    this.host = host;
    this.caption = caption;
    this.columns = columns;
    this.first = 0;
    this.rows = [];
  }

  /** Shows other rows, on the same page if there still is one. */
  show(rows) {
    this.rows = rows;
    const last = Math.max(0, Math.ceil(rows.length / ROWS_PER_PAGE) - 1) * ROWS_PER_PAGE;
    this.first = Math.min(this.first, last);
    this.draw();
  }

  draw() {
    const focused = this.host.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const table = element("table");
    table.append(element("caption", this.caption));
    const head = table.createTHead().insertRow();
    for (const { title, number } of this.columns) {
      head.append(element("th", title, number ? { scope: "col", class: "number" } : { scope: "col" }));
    }
    const body = table.createTBody();
    for (const row of this.rows.slice(this.first, this.first + ROWS_PER_PAGE)) this.drawRow(body.insertRow(), row);
    const parts = [table];
    if (this.rows.length > ROWS_PER_PAGE) parts.push(this.pages());
    this.host.replaceChildren(...parts);
    if (focused) this.buttons().find((button) => button.dataset.key === focused)?.focus();
  }

  drawRow(line, row) {
    for (const { text, open, link, number } of this.columns) {
      const cell = line.insertCell();
      if (number) cell.className = "number";
      const act = open ? () => open(row) : link?.(row);
      if (!act) {
        cell.textContent = text(row);
        continue;
      }
      const button = element("button", text(row), { type: "button", "data-key": text(row) });
      button.addEventListener("click", act);
      cell.append(button);
    }
  }

  buttons() {
    return [...this.host.querySelectorAll("button")];
  }

  pages() {
    const pages = element("nav", "", { class: "pages", "aria-label": `Pages: ${this.caption}` });
    const last = Math.min(this.first + ROWS_PER_PAGE, this.rows.length);
    const turn = (title, by) => {
      const button = element("button", title, { type: "button", "data-key": title });
      const to = this.first + by;
      button.disabled = to < 0 || to >= this.rows.length;
      button.addEventListener("click", () => {
        this.first = to;
        this.draw();
      });
      return button;
    };
    const place = element("span", `${count(this.first + 1)} to ${count(last)} of ${count(this.rows.length)}`);
    pages.append(turn("Previous", -ROWS_PER_PAGE), place, turn("Next", ROWS_PER_PAGE));
    return pages;
  }
}

/** Fills a definition list. */
function showFacts(list, facts) {
  list.replaceChildren(...facts.flatMap(([title, text]) => [element("dt", title), element("dd", text)]));
}

// ---------------------------------------------------------------------------------------------------------------------
// Boxes

function boxSize(nodes) {
  if (nodes <= 100) return 40;
  if (nodes <= 1000) return 22;
  return 12;
}

/** Computes the place of each box, zone by zone. */
function layOut(width) {
  const { nodes } = view.scene;
  const size = boxSize(nodes.length);
  const pitch = size + GAP;
  const columns = Math.max(1, Math.floor(width / pitch));
  const zones = [];
  let top = 0;
  for (let first = 0; first < nodes.length; ) {
    const { zone } = nodes[first];
    let end = first;
    while (end < nodes.length && nodes[end].zone === zone) end += 1;
    const rows = Math.ceil((end - first) / columns);
    zones.push({ zone, first, end, rows, top: top + ZONE_TITLE });
    top += ZONE_TITLE + rows * pitch + GAP;
    first = end;
  }
  return { size, pitch, columns, zones, height: Math.max(top, 1) };
}

function placeOf(at) {
  const { zones, columns, pitch } = view.layout;
  const zone = zones.find(({ end }) => at < end);
  const within = at - zone.first;
  return { x: (within % columns) * pitch, y: zone.top + Math.floor(within / columns) * pitch, zone, within };
}

/** Returns the position of the node at a point, or -1. */
function nodeAt(x, y) {
  const { zones, columns, pitch } = view.layout;
  const zone = zones.find(({ top, rows }) => y >= top && y < top + rows * pitch);
  const column = Math.floor(x / pitch);
  if (!zone || column < 0 || column >= columns) return -1;
  const at = zone.first + Math.floor((y - zone.top) / pitch) * columns + column;
  return at < zone.end ? at : -1;
}

function drawBoxes() {
  const canvas = byId("boxes");
  const width = canvas.parentElement.clientWidth;
  view.layout = layOut(width);
  const { size, zones, height } = view.layout;
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.floor(width * scale);
  canvas.height = Math.floor(height * scale);
  canvas.style.height = `${height}px`;
  const style = getComputedStyle(document.documentElement);
  const colour = Object.fromEntries(
    ["text", "line", "box", "used", "high", "full", "copies", "accent"].map((name) => [name, style.getPropertyValue(`--${name}`)]),
  );
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.fillStyle = colour.text;
  pen.font = "13px system-ui, sans-serif";
  for (const { zone, first, end, top } of zones) {
    const title = zone === "" ? "no zone" : zone;
    pen.fillText(`${title} (${counted(end - first, "node", "nodes")})`, 0, top - 7);
  }
  const at = resourceAt();
  view.scene.nodes.forEach((node, index) => {
    const { x, y } = placeOf(index);
    const part = fill(node, at);
    pen.fillStyle = colour.box;
    pen.fillRect(x, y, size, size);
    if (part !== null) {
      const used = Math.min(1, part) * size;
      const copies = Math.min(used, (requestOfCopies(node, at) / node.allocatable[at]) * size);
      pen.fillStyle = colour.copies;
      pen.fillRect(x, y + size - used, size, copies);
      // With copies, many boxes are full.
      const full = part >= FULL ? colour.full : part >= HIGH ? colour.high : colour.used;
      pen.fillStyle = node.copies.length > 0 ? colour.used : full;
      pen.fillRect(x, y + size - used + copies, size, used - copies);
    }
    drawMark(pen, node, x, y, size, colour);
  });
  drawFrames(pen, size, colour);
}

/** Marks the open node, and the box that the keyboard would open. */
function drawFrames(pen, size, colour) {
  const frame = (at, wide) => {
    const { x, y } = placeOf(at);
    pen.lineWidth = wide;
    pen.strokeRect(x, y, size, size);
  };
  pen.strokeStyle = colour.text;
  const open = view.scene.nodes.findIndex(({ name }) => name === view.node);
  if (open >= 0) frame(open, 2);
  pen.strokeStyle = colour.accent;
  if (document.activeElement === byId("boxes") && view.scene.nodes.length > 0) frame(view.active, 3);
}

function describe(node) {
  const at = resourceAt();
  const zone = node.zone === "" ? "no zone" : `zone ${node.zone}`;
  const used = `${view.scene.resources[at]} ${usageText(node, at)} (${percent(fill(node))})`;
  const parts = [node.name, zone, counted(node.podCount, "pod", "pods"), used, ...markTexts(node)];
  if (node.copies.length > 0) parts.push(counted(copiesOn(node), "copy", "copies"));
  return parts.join(", ");
}

function activate(at) {
  view.active = Math.min(Math.max(at, 0), view.scene.nodes.length - 1);
  const node = view.scene.nodes[view.active];
  byId("active-box").textContent = node ? describe(node) : "no nodes";
  drawBoxes();
}

/** Returns the box above (-1) or below (1), also across zones. */
function vertical(direction) {
  const { columns, zones } = view.layout;
  const { zone, within } = placeOf(view.active);
  const to = within + direction * columns;
  const column = within % columns;
  if (to >= 0 && Math.floor(to / columns) < zone.rows) return Math.min(zone.first + to, zone.end - 1);
  const next = zones[zones.indexOf(zone) + direction];
  if (!next) return view.active;
  const row = direction > 0 ? 0 : next.rows - 1;
  return Math.min(next.first + row * columns + column, next.end - 1);
}

function boxKey(event) {
  const nodes = view.scene.nodes;
  if (nodes.length === 0) return;
  const moves = {
    ArrowLeft: () => view.active - 1,
    ArrowRight: () => view.active + 1,
    ArrowUp: () => vertical(-1),
    ArrowDown: () => vertical(1),
    Home: () => 0,
    End: () => nodes.length - 1,
  };
  if (event.key in moves) activate(moves[event.key]());
  else if (event.key === "Enter" || event.key === " ") openNode(nodes[view.active]);
  else return;
  event.preventDefault();
}

function boxPoint(event) {
  return nodeAt(event.offsetX, event.offsetY);
}

// ---------------------------------------------------------------------------------------------------------------------
// What is open

const amountColumns = (amounts) =>
  view.scene.resources
    .map((resource, at) => ({ title: resource, number: true, text: (row) => amountText(resource, amounts(row)[at]) }))
    .filter(({ title }) => title !== "pods");

const podColumns = () => [
  { title: "Pod", text: (pod) => pod.name, open: openPod },
  ...(view.scene.before ? [{ title: "Before", text: (pod) => pod.before ?? "" }] : []),
  ...amountColumns((pod) => pod.request),
];

const tables = {};

/** Returns the table in an element, which keeps its page as long as its caption is the same. */
function table(id, caption, columns) {
  if (tables[id]?.caption !== caption) tables[id] = new Table(byId(id), caption, columns);
  tables[id].columns = columns;
  return tables[id];
}

function openNode(node) {
  view.node = node.name;
  activate(view.scene.nodes.indexOf(node));
  showNode();
  byId("node-title").focus();
}

function showNode() {
  const node = view.scene.nodes.find(({ name }) => name === view.node);
  byId("node").hidden = !node;
  if (!node) return;
  byId("node-title").textContent = `Node ${node.name}`;
  const amounts = view.scene.resources.map((resource, at) => [
    resource,
    `${usageText(node, at)} (${percent(fill(node, at))})`,
  ]);
  const facts = [["zone", node.zone === "" ? "none" : node.zone], ...amounts];
  if (node.copies.length > 0) facts.push(["copies", count(copiesOn(node))]);
  if (node.mark) facts.push(["change", markTexts(node).join(", ")]);
  showFacts(byId("node-facts"), facts);
  table("node-pods", `Pods on ${node.name}`, podColumns()).show(node.pods());
}

function openRow(row) {
  const members = row.members();
  if (members.length === 1) {
    openPod({ ...members[0], state: row.state, message: row.message });
    return;
  }
  view.row = row.pods + row.state + row.message;
  showRow();
  byId("row-title").focus();
}

function showRow() {
  const row = view.scene.waiting.find(({ pods, state, message }) => pods + state + message === view.row);
  byId("row").hidden = !row;
  if (!row) return;
  byId("row-title").textContent = row.pods;
  const columns = podColumns();
  columns[0].open = (pod) => openPod({ ...pod, state: row.state, message: row.message });
  table("row-pods", `Pods of ${row.pods}`, columns).show(row.members());
}

function openPod(pod) {
  view.pod = pod.name;
  byId("pod").hidden = false;
  byId("pod-title").textContent = `Pod ${pod.name}`;
  showPod(pod, pod.facts ?? {});
  byId("pod-title").focus();
  if (view.live && pod.node === undefined) askWhy(pod);
}

/** Returns a name such as `backoffUntil` in words. */
const words = (name) => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

function factText(value) {
  if (Array.isArray(value)) return value.map(factText).join(", ");
  if (value !== null && typeof value === "object") {
    const parts = Object.entries(value).filter(([, part]) => !isEmpty(part));
    return parts.map(([name, part]) => `${words(name)} ${factText(part)}`).join(", ");
  }
  return String(value);
}

const isEmpty = (value) => value === null || value === undefined || value === "" || value.length === 0;

/** Shows what is known about a pod: its amounts, its path so far, and the reasons why it has no node. */
function showPod(pod, facts) {
  const { reasons = [], wokenBy = [], pod: _, ...others } = facts;
  const amounts = view.scene.resources
    .map((resource, at) => [resource, pod.request[at]])
    .filter(([resource, amount]) => amount !== 0 && resource !== "pods")
    .map(([resource, amount]) => [resource, amountText(resource, amount)]);
  const path = { node: pod.node, before: pod.before, state: pod.state, message: pod.message };
  const known = Object.entries({ ...path, ...others }).filter(([, value]) => !isEmpty(value));
  showFacts(byId("pod-facts"), [...amounts, ...known.map(([name, value]) => [words(name), factText(value)])]);
  showList("pod-reasons", "Why it has no node", reasons, [
    { title: "Nodes", number: true, text: (reason) => count(reason.nodes) },
    { title: "Reason", text: (reason) => reason.reason },
  ]);
  showList("pod-wakers", "When it is tried again", wokenBy, [
    { title: "Rejected by", text: (waker) => waker.plugin },
    { title: "Is tried again after", text: (waker) => waker.events.join("; ") },
  ]);
}

function showList(id, caption, rows, columns) {
  byId(id).hidden = rows.length === 0;
  table(id, caption, columns).show(rows);
}

// ---------------------------------------------------------------------------------------------------------------------
// The whole page

function showResources() {
  const select = byId("resource");
  const { resources } = view.scene;
  if (!resources.includes(view.resource)) [view.resource] = resources;
  if ([...select.options].map(({ value }) => value).join() !== resources.join()) {
    select.replaceChildren(...resources.map((resource) => element("option", resource, { value: resource })));
  }
  select.value = view.resource;
}

/** Shows the nodes with the least room first. */
function showNodeTable() {
  // The table costs time, and a closed table is not seen.
  if (!byId("node-list").open) return;
  const at = resourceAt();
  const rows = [...view.scene.nodes].sort((a, b) => (fill(b, at) ?? -1) - (fill(a, at) ?? -1));
  const more = [];
  if (view.scene.sizes) more.push({ title: "Copies", number: true, text: (node) => count(copiesOn(node)) });
  if (view.scene.marks) more.push({ title: "Change", text: (node) => markTexts(node).join(", ") });
  table("node-table", "Nodes, the fullest first", [
    { title: "Node", text: (node) => node.name, open: openNode },
    { title: "Zone", text: (node) => node.zone },
    { title: "Pods", number: true, text: (node) => count(node.podCount) },
    { title: view.resource, number: true, text: (node) => usageText(node, at) },
    { title: "Used", number: true, text: (node) => percent(fill(node, at)) },
    ...more,
  ]).show(rows);
}

function showQueue() {
  const counts = new Map();
  for (const { state, count: pods } of view.scene.waiting) counts.set(state, (counts.get(state) ?? 0) + pods);
  const parts = [...counts].map(([state, pods]) => `${count(pods)} ${state}`);
  byId("queue-counts").textContent = parts.length === 0 ? "None." : parts.join(", ");
  table("queue-table", "Pods that are alike share a row", [
    { title: "Pods", text: (row) => row.pods, open: openRow },
    { title: "State", text: (row) => row.state },
    { title: "Message", text: (row) => row.message },
  ]).show(view.scene.waiting);
}

function showLegend() {
  const nodes = view.scene.nodes;
  const sum = (amount) => nodes.reduce((total, node) => total + amount(node, resourceAt()), 0);
  const [requested, offered] = [sum(requestedOn), sum((node, at) => node.allocatable[at])];
  const texts = [requested, offered].map((amount) => amountText(view.resource, amount));
  const part = percent(offered > 0 ? requested / offered : null);
  byId("legend").textContent = `${texts.join(" of ")} requested (${part})`;
}

const waitingCount = () => view.scene.waiting.reduce((sum, row) => sum + row.count, 0);

function showStatus(note = "") {
  const { nodes, podCount } = view.scene;
  const parts = [
    counted(nodes.length, "node", "nodes"),
    `${counted(podCount, "pod", "pods")} on them`,
    `${count(waitingCount())} waiting`,
  ];
  byId("status").textContent = parts.join(", ") + note;
}

/** Shows a scene. What is open stays open. */
function show(scene) {
  const active = view.scene?.nodes[view.active]?.name;
  view.scene = decoded(scene);
  document.title = scene.title;
  byId("title").textContent = scene.title;
  byId("notes").hidden = scene.notes.length === 0;
  byId("notes").replaceChildren(...scene.notes.map((note) => element("li", note)));
  showResources();
  showSizes();
  showStatus();
  showLegend();
  activate(view.scene.nodes.findIndex(({ name }) => name === active));
  showNodeTable();
  showNode();
  showRow();
  showQueue();
  showSections();
  showMarks();
  showCourse();
  showFound();
}

/** Shows a pod that did not wait any more, as soon as its node is known. */
function showFound() {
  const pod = view.lost === view.pod && view.lost !== null ? view.scene.podNamed(view.lost) : null;
  if (!pod?.node) return;
  view.lost = null;
  showPod(pod, {});
}

/** Shows the nodes anew after a choice. */
function showChoice() {
  showLegend();
  activate(view.active);
  showNodeTable();
  showNode();
  showCourse();
}

function listen() {
  const canvas = byId("boxes");
  canvas.addEventListener("keydown", boxKey);
  canvas.addEventListener("click", (event) => {
    const at = boxPoint(event);
    if (at >= 0) openNode(view.scene.nodes[at]);
  });
  canvas.addEventListener("mousemove", (event) => {
    const at = boxPoint(event);
    canvas.title = at >= 0 ? describe(view.scene.nodes[at]) : "";
  });
  canvas.addEventListener("focus", drawBoxes);
  canvas.addEventListener("blur", drawBoxes);
  window.addEventListener("resize", drawBoxes);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawBoxes);
  byId("node-list").addEventListener("toggle", showNodeTable);
  byId("resource").addEventListener("change", (event) => {
    view.resource = event.target.value;
    showChoice();
  });
  byId("size").addEventListener("change", (event) => {
    view.size = Number(event.target.value);
    showChoice();
  });
}

// ---------------------------------------------------------------------------------------------------------------------
// The live page

/** The end of the last request. */
let answered = Promise.resolve();

/**
 * Fetches JSON from a path beside the page. Throws the server's words if it refuses.
 *
 * Sends one request at a time: the server closes an HTTP/2 connection after a request of an anonymous user, and
 * Chromium fails a request that was about to use that connection.
 */
function fetched(path) {
  const reply = answered.then(() => fetchNow(path));
  answered = reply.catch(() => {});
  return reply;
}

async function fetchNow(path) {
  const reply = await fetch(path, { cache: "no-store" });
  if (!reply.ok) throw new Error((await reply.text()).trim() || `HTTP ${reply.status}`);
  return reply.json();
}

async function askWhy(pod) {
  const [namespace, name] = pod.name.split("/");
  const query = new URLSearchParams({ namespace, pod: name });
  try {
    const facts = await fetched(`why?${query}`);
    if (view.pod !== pod.name) return;
    if (facts.state !== "notWaiting") {
      showPod(pod, facts);
      return;
    }
    showPod({ ...pod, state: "", message: "" }, { answer: `${facts.pod} ${facts.message}` });
    view.lost = pod.name;
    await refresh();
  } catch (error) {
    if (view.pod === pod.name) showPod(pod, { answer: error.message });
  }
}

async function ask(event) {
  event.preventDefault();
  const answer = byId("answer");
  answer.textContent = "Asking …";
  const given = [...new FormData(byId("fit"))].filter(([, value]) => value.trim() !== "");
  try {
    const { error, nodes, of, copies, message } = await fetched(`page/fit?${new URLSearchParams(given)}`);
    if (error) throw new Error(error);
    const fits = `Fits on ${count(nodes)} of ${counted(of, "node", "nodes")}. `;
    answer.textContent = nodes > 0 ? `${fits}There is room for ${counted(copies, "copy", "copies")}.` : fits + message;
  } catch (error) {
    answer.textContent = error.message;
  }
}

/** Remembers the numbers of a scene, and what they say about the time since the last ones. */
function sample({ counters }) {
  if (!counters) return;
  const last = view.samples.at(-1);
  // A server may answer several times with the same numbers, and a scheduler may have restarted.
  if (last?.at === counters.at) return;
  const placed = last ? counters.placed - last.placed : -1;
  const seconds = last ? (counters.at - last.at) / 1000 : 0;
  view.samples.push({
    ...counters,
    rate: placed >= 0 && seconds > 0 ? placed / seconds : null,
    wait: placed > 0 ? (counters.waited - last.waited) / placed : null,
    queue: waitingCount(),
  });
  view.samples.splice(0, view.samples.length - KEPT_SAMPLES);
  byId("charts").hidden = false;
  drawChart("chart-rate", "Pods placed per second", ({ rate }) => rate);
  drawChart("chart-wait", "Seconds until a pod had its node", ({ wait }) => wait);
  drawChart("chart-queue", "Pods that wait", ({ queue }) => queue);
}

function drawChart(id, title, value) {
  const points = view.samples.map((each) => [each.at, value(each)]).filter(([, y]) => y !== null);
  const number = (y) => String(Math.round(y * 100) / 100);
  const most = Math.max(...points.map(([, y]) => y), 0);
  const now = points.length > 0 ? `now ${number(points.at(-1)[1])}, at most ${number(most)}` : "no data yet";
  drawLine(id, title, now, points, { begin: view.samples[0].at, end: view.samples.at(-1).at, most });
}

/** Fetches the data once. */
async function refresh() {
  const scene = await fetched("page/data");
  show(scene);
  sample(scene);
  showStatus(`, ${new Date().toLocaleTimeString("en-GB")}`);
}

async function poll() {
  try {
    await refresh();
  } catch (error) {
    byId("status").textContent = `There is no newer state: ${error.message}`;
  }
  // The next request waits for the answer to this one, so a slow server is not asked more than it answers.
  setTimeout(poll, POLL_MS);
}

function start() {
  const scene = JSON.parse(byId("scene").textContent);
  view.live = scene === null;
  if (view.live) {
    view.scene = decoded({ resources: ["cpu"], nodes: [], pods: [], waiting: [] });
    view.layout = layOut(1);
    byId("question").hidden = false;
    byId("fit").addEventListener("submit", ask);
    listen();
    poll();
  } else {
    show(scene);
    listen();
  }
}

start();
