// Small charts of the last minutes.
const d3 = window.d3;
const POINTS = 150;
const at = (id) => document.getElementById(id);
const number = (value, digits) => value === null || value === undefined ? "–" : value.toFixed(digits);

export class Charts {
  constructor() {
    this.clear();
  }

  clear() {
    this.points = [];
  }

  add(stats) {
    this.points.push(stats);
    if (this.points.length > POINTS) this.points.shift();
    at("v-accuracy").textContent = stats.accuracy === null ? "–" : `${number(100 * stats.accuracy, 1)} %`;
    at("v-latency").textContent = `${number(stats.latency_ms.p50, 2)} / ${number(stats.latency_ms.p99, 2)}`;
    at("v-work").textContent = number(stats.work, 0);
    this.draw("c-accuracy", [(one) => one.accuracy], 1);
    this.draw("c-latency", [(one) => one.latency_ms.p50, (one) => one.latency_ms.p99]);
    this.draw("c-work", [(one) => one.work]);
  }

  draw(id, values, most) {
    const svg = d3.select(`#${id}`);
    const { width, height } = svg.node().getBoundingClientRect();
    const top = most || d3.max(this.points, (one) => d3.max(values, (value) => value(one))) || 1;
    const x = d3.scaleLinear([0, POINTS - 1], [0, width]);
    const y = d3.scaleLinear([0, top], [height - 2, 10]);
    svg.selectAll("path").data(values).join("path").attr("class", (value, i) => i ? "second" : "first")
      .attr("d", (value) => d3.line((one, i) => x(i), (one) => y(value(one))).defined((one) => value(one) !== null)(this.points));
    svg.selectAll("text").data([top]).join("text").attr("x", 2).attr("y", 9).text((value) => d3.format(".3~g")(value));
  }
}
