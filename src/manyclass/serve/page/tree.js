// The tree of a model: nodes are loaded when they are opened, so that the number of labels does not matter.
const d3 = window.d3;
const MOST_LABELS = 2; // in the text of a node
const LONGEST = 22; // characters of the text of a node

export class Tree {
  constructor(svg, ask, showLabel) {
    this.svg = d3.select(svg);
    this.ask = ask;
    this.showLabel = showLabel;
    this.canvas = this.svg.append("g");
    this.zoom = d3.zoom().scaleExtent([0.05, 4]).on("zoom", (event) => this.canvas.attr("transform", event.transform));
    this.svg.call(this.zoom);
  }

  async begin(model) {
    this.model = model;
    this.nodes = new Map();
    this.open = new Set([0]);
    this.path = new Set();
    await this.load(0).catch(() => {}); // one-against-all has no tree
    this.draw();
    this.fit();
  }

  async load(node) {
    const found = await this.ask(`/models/${this.model}/tree?node=${node}`);
    this.nodes.set(node, found);
    for (const child of found.children) {
      if (!this.nodes.has(child.node)) this.nodes.set(child.node, { ...child, inner: child.children.length > 0, children: null });
    }
    return found;
  }

  // Show the nodes that a row reaches, opened down to the leaf of the best label.
  async show(path, best) {
    this.path = new Set(path);
    this.best = best;
    if (best !== undefined && this.nodes && this.nodes.size) {
      try {
        const label = await this.ask(`/models/${this.model}/label?label=${encodeURIComponent(best)}`);
        if (label.node !== null) {
          const leaf = await this.load(label.node);
          this.leaf = label.node;
          this.open = new Set([0, ...leaf.above, label.node]);
          for (const node of leaf.above) await this.load(node);
        }
      } catch (error) { /* the label is too new for the tree that was listed */ }
    }
    this.draw();
    this.fit();
  }

  data(node) {
    const found = this.nodes.get(node);
    const open = this.open.has(node);
    let below = [];
    if (open && found.children && found.children.length) below = found.children.map((child) => this.data(child.node));
    else if (open && found.children) {
      const labels = this.leaf === node && !found.labels.includes(this.best) ? [this.best, ...found.labels] : found.labels;
      below = labels.map((label) => ({ label, on: label === this.best }));
    }
    const inner = found.children ? found.children.length > 0 : found.inner;
    return { node, found, inner, open, on: this.path.has(node), children: below };
  }

  async toggle(data) {
    if (data.label !== undefined) return this.showLabel(data.label);
    if (this.open.has(data.node)) this.open.delete(data.node);
    else {
      this.open.add(data.node);
      await this.load(data.node);
    }
    this.draw();
    const same = this.canvas.selectAll("g.node").filter((one) => one.data.node === data.node).node();
    if (same) same.focus();
    return undefined;
  }

  text(data) {
    if (data.label !== undefined) return String(data.label);
    const { n_labels: n, labels } = data.found;
    const text = `${n.toLocaleString("en")}: ${labels.slice(0, MOST_LABELS).join(", ")}${n > MOST_LABELS ? ", …" : ""}`;
    return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
  }

  draw() {
    if (!this.nodes || !this.nodes.size) return;
    const root = d3.hierarchy(this.data(0));
    d3.tree().nodeSize([34, 165])(root);
    this.root = root;
    const key = (one) => one.data.label !== undefined ? `l${one.parent.data.node}/${one.data.label}` : `n${one.data.node}`;
    this.canvas.selectAll("path.link").data(root.links(), (link) => key(link.target)).join("path")
      .attr("class", (link) => `link${link.target.data.on ? " on" : ""}`)
      .attr("d", d3.linkHorizontal().x((one) => one.y).y((one) => one.x)).lower();
    const group = this.canvas.selectAll("g.node").data(root.descendants(), key).join((enter) => {
      const made = enter.append("g");
      made.append("circle");
      made.append("text").attr("dy", "0.32em");
      return made;
    });
    group.attr("class", (one) => `node${one.data.on ? " on" : ""}${one.data.label !== undefined && one.data.on ? " best" : ""}`)
      .attr("transform", (one) => `translate(${one.y},${one.x})`)
      .attr("tabindex", 0).attr("role", "treeitem")
      .attr("aria-level", (one) => one.depth + 1)
      .attr("aria-expanded", (one) => one.data.label === undefined ? String(one.data.open) : null)
      .attr("aria-label", (one) => one.data.label !== undefined ? String(one.data.label)
        : `${one.data.found.n_labels} labels, such as ${one.data.found.labels.slice(0, 3).join(", ")}${one.data.on ? "; reached" : ""}`)
      .on("click", (event, one) => this.toggle(one.data))
      .on("keydown", (event, one) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.toggle(one.data); }
        else if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); this.step(one, event.key === "ArrowDown" ? 1 : -1); }
      });
    group.select("circle").attr("r", (one) => one.data.label !== undefined ? 2.5 : 3 + Math.min(6, Math.log10(1 + one.data.found.n_labels)));
    group.select("text").attr("x", (one) => one.children ? -4 : 11).attr("dy", (one) => one.children ? "1.5em" : "0.32em")
      .text((one) => this.text(one.data));
  }

  // Move the focus to the next or previous node as they are drawn.
  step(one, by) {
    const order = this.root.descendants().sort((a, b) => a.x - b.x || a.y - b.y);
    const next = order[order.indexOf(order.find((other) => other.data === one.data)) + by];
    if (next) this.canvas.selectAll("g.node").filter((other) => other === next).node().focus();
  }

  fit() {
    if (!this.root) return;
    const all = this.root.descendants();
    const [top, bottom] = d3.extent(all, (one) => one.x);
    const right = d3.max(all, (one) => one.y);
    const { width, height } = this.svg.node().getBoundingClientRect();
    const margin = { left: 20, right: 170, y: 20 };
    const scale = Math.min(1.2, width / (right + margin.left + margin.right), height / (bottom - top + 2 * margin.y));
    const x = margin.left * scale;
    this.svg.call(this.zoom.transform, d3.zoomIdentity.translate(x, height / 2 - scale * (top + bottom) / 2).scale(scale));
  }
}
