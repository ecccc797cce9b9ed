// ---------------------------------------------------------------------------------------------------------------------
// Answers about the cluster, and what they mean for the boxes

/** Returns what a click on a name in a table opens; null if the text is no name. */
function linkTo(text) {
  const node = view.scene.nodeNamed(text);
  if (node) return () => openNode(node);
  const pod = text.includes("/") ? view.scene.podNamed(text) : null;
  return pod ? () => openPod(pod) : null;
}

function showSections() {
  byId("sections").replaceChildren(...(view.scene.sections ?? []).map(sectionOf));
}

function sectionOf({ title, lines, columns, rows, bars }, at) {
  const section = element("section", "", { "aria-labelledby": `section-${at}` });
  section.append(element("h2", title, { id: `section-${at}` }), ...lines.map((line) => element("p", line)));
  if (bars.length > 0) section.append(...barChart(title, bars));
  if (rows.length > 0) {
    const host = element("div");
    section.append(host);
    const column = (title, at) => ({
      title,
      number: rows.every((row) => /^\d*$/.test(row[at])) && rows.some((row) => row[at] !== ""),
      text: (row) => row[at],
      link: (row) => linkTo(row[at]),
    });
    new Table(host, title, columns.map(column)).show(rows);
  }
  return section;
}

/** Returns the difference that a change makes to a node, in words. */
function markTexts({ mark }) {
  if (!mark) return [];
  const [isNew, isCordoned, came, left] = mark;
  return [
    isNew && "new",
    isCordoned && "cordoned",
    came > 0 && `${counted(came, "pod", "pods")} came`,
    left > 0 && `${counted(left, "pod", "pods")} left`,
  ].filter(Boolean);
}

/** Draws the difference that a change makes to a node: a frame, a line across the box, and corners. */
function drawMark(pen, { mark }, x, y, size, colour) {
  if (!mark) return;
  const [isNew, isCordoned, came, left] = mark;
  pen.lineWidth = 2;
  pen.strokeStyle = colour.text;
  pen.fillStyle = colour.text;
  pen.setLineDash([4, 3]);
  if (isNew) pen.strokeRect(x + 1, y + 1, size - 2, size - 2);
  pen.setLineDash([]);
  if (isCordoned) drawPath(pen, [[x, y + size], [x + size, y]], "stroke");
  const leg = size * 0.4;
  if (came > 0) drawPath(pen, [[x, y], [x + leg, y], [x, y + leg]], "fill");
  const [right, bottom] = [x + size, y + size];
  if (left > 0) drawPath(pen, [[right, bottom], [right - leg, bottom], [right, bottom - leg]], "fill");
}

function drawPath(pen, [first, ...rest], how) {
  pen.beginPath();
  pen.moveTo(...first);
  for (const point of rest) pen.lineTo(...point);
  pen[how]();
}

function showMarks() {
  const isMarked = view.scene.nodes.some(({ mark }) => mark);
  byId("marks").hidden = !isMarked;
}

/** Number of copies that a node gets, and the amount that they request. */
const copiesOn = (node) => node.copies[view.size] ?? 0;
const requestOfCopies = (node, at) => copiesOn(node) * (view.scene.sizes?.[view.size]?.request[at] ?? 0);

/** Returns the requested amount, with that of the copies. */
const requestedOn = (node, at) => node.requested[at] + requestOfCopies(node, at);

function showSizes() {
  const { sizes = [] } = view.scene;
  byId("size-choice").hidden = sizes.length === 0;
  byId("size").replaceChildren(...sizes.map(({ title }, at) => element("option", title, { value: at })));
}
