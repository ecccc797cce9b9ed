"use strict";

// Charts. Each has a label with its numbers, for those who do not see it.

const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function picture(label) {
  return shape("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": label });
}

/** Draws a line through points. Both axes are given by what they end with, the first also by what it begins with. */
function drawLine(id, title, summary, points, { begin, end, most }) {
  const x = (at) => (end > begin ? ((at - begin) / (end - begin)) * 100 : 0).toFixed(2);
  const y = (amount) => (most > 0 ? 98 - (amount / most) * 96 : 98).toFixed(2);
  const path = points.map(([at, amount], first) => `${first === 0 ? "M" : "L"}${x(at)} ${y(amount)}`).join("");
  const svg = picture(`${title}: ${summary}`);
  svg.append(shape("path", { d: path }));
  byId(id).replaceChildren(element("h3", `${title} (${summary})`), svg);
}

/** Returns a bar for each name and number, and the names below. */
function barChart(title, bars) {
  const most = Math.max(...bars.map(([, number]) => number), 1);
  const pitch = 100 / bars.length;
  const svg = picture(`${title}: ${bars.map(([name, number]) => `${name} ${count(number)}`).join(", ")}`);
  bars.forEach(([name, number], at) => {
    const height = (number / most) * 98;
    const bar = shape("rect", { x: (at + 0.1) * pitch, width: 0.8 * pitch, y: 100 - height, height });
    const label = shape("title", {});
    label.textContent = `${name}: ${count(number)}`;
    bar.append(label);
    svg.append(bar);
  });
  // The label of the picture says the same.
  const axis = element("div", "", { class: "axis", "aria-hidden": "true" });
  axis.append(...bars.map(([name, number]) => element("span", `${name}: ${count(number)}`)));
  return [svg, axis];
}

/** Shows how much of the chosen resource was in use after each attempt of a simulation. */
function showCourse() {
  const { course = [] } = view.scene;
  byId("course").hidden = course.length === 0;
  if (course.length === 0) return;
  const at = resourceAt();
  const offered = view.scene.nodes.reduce((sum, node) => sum + node.allocatable[at], 0);
  const points = course.map(([attempts, amounts]) => [attempts, amounts[at]]);
  const text = (amount) => amountText(view.resource, amount);
  const [first, last] = [points[0], points.at(-1)];
  const attempts = counted(last[0], "attempt", "attempts");
  const summary = `${text(first[1])} at the start, ${text(last[1])} of ${text(offered)} after ${attempts}`;
  const most = Math.max(offered, ...points.map(([, amount]) => amount));
  drawLine("chart-course", `Requested ${view.resource}`, summary, points, { begin: 0, end: last[0], most });
}
