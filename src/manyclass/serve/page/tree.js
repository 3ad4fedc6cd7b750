// The tree of a model: nodes are loaded when they are opened, so that the number of labels does not matter.
const d3 = window.d3;
const MOST_LABELS = 2; // in the text of a node
const LONGEST = 22; // characters of the text of a node

export class Tree {
  constructor(svg, ask, showLabel, fail) {
    this.svg = d3.select(svg);
    this.ask = ask;
    this.showLabel = showLabel;
    this.fail = fail;
    this.latest = 0; // number of the latest call of `show`
    this.canvas = this.svg.append("g");
    this.zoom = d3.zoom().scaleExtent([0.05, 4]).on("zoom", (event) => this.canvas.attr("transform", event.transform));
    this.svg.call(this.zoom);
  }

  async begin(model) {
    this.model = model;
    const nodes = this.nodes = new Map();
    this.open = new Set([0]);
    this.path = new Set();
    this.leaf = this.best = this.root = undefined;
    this.focused = "n0";
    this.canvas.selectAll("*").remove();
    await this.load(0).catch(() => {}); // one-against-all has no tree
    if (nodes !== this.nodes) return; // another model was chosen meanwhile
    this.draw();
    this.fit();
  }

  async load(node) {
    const nodes = this.nodes;
    const found = await this.ask(`/models/${this.model}/tree?node=${node}`);
    nodes.set(node, found);
    for (const child of found.children) {
      if (!nodes.has(child.node)) nodes.set(child.node, { ...child, children: null });
    }
    return found;
  }

  // Show the nodes that a row reaches, opened down to the leaf of the best label.
  async show(path, best) {
    const number = ++this.latest;
    const nodes = this.nodes;
    let leaf;
    let open = this.open;
    if (best !== undefined && nodes && nodes.size) {
      try {
        const label = await this.ask(`/models/${this.model}/label?label=${encodeURIComponent(best)}`);
        if (label.node !== null) {
          const { above } = await this.load(label.node);
          for (const node of above) await this.load(node);
          leaf = label.node;
          open = new Set([0, ...above, leaf]);
        }
      } catch (error) { /* the label is too new for the tree that was listed */ }
    }
    if (number !== this.latest || nodes !== this.nodes) return;
    Object.assign(this, { path: new Set(path), best, leaf, open });
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
      if (found.n_labels > labels.length) below.push({ more: found.n_labels - labels.length });
    }
    return { node, found, open, on: this.path.has(node), children: below };
  }

  async toggle(data) {
    if (data.more) return;
    if (data.label !== undefined) { this.showLabel(data.label); return; }
    if (this.open.has(data.node)) this.open.delete(data.node);
    else {
      try {
        await this.load(data.node);
      } catch (error) { this.fail(error); return; }
      this.open.add(data.node);
    }
    this.draw();
    this.focus(`n${data.node}`);
  }

  text(data) {
    if (data.more) return `… and ${data.more.toLocaleString("en")} more`;
    if (data.label !== undefined) return String(data.label);
    const { n_labels: n, labels } = data.found;
    const text = `${n.toLocaleString("en")}: ${labels.slice(0, MOST_LABELS).join(", ")}${n > MOST_LABELS ? ", …" : ""}`;
    return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
  }

  key(one) {
    const { label, more, node } = one.data;
    if (more) return `m${one.parent.data.node}`;
    return label !== undefined ? `l${one.parent.data.node}/${label}` : `n${node}`;
  }

  draw() {
    if (!this.nodes || !this.nodes.size) return;
    const root = d3.hierarchy(this.data(0));
    d3.tree().nodeSize([34, 165])(root);
    this.root = root;
    const key = (one) => this.key(one);
    if (!root.descendants().some((one) => key(one) === this.focused)) this.focused = "n0";
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
      .attr("tabindex", (one) => key(one) === this.focused ? 0 : -1).attr("role", "treeitem")
      .attr("aria-level", (one) => one.depth + 1)
      .attr("aria-expanded", (one) => one.data.found ? String(one.data.open) : null)
      .attr("aria-label", (one) => !one.data.found ? this.text(one.data)
        : `${one.data.found.n_labels} labels, such as ${one.data.found.labels.slice(0, 3).join(", ")}${one.data.on ? "; reached" : ""}`)
      .on("click", (event, one) => this.toggle(one.data))
      .on("focus", (event, one) => this.focus(key(one), false))
      .on("keydown", (event, one) => this.press(event, one));
    group.select("circle").attr("r", (one) => !one.data.found ? 2.5 : 3 + Math.min(6, Math.log10(1 + one.data.found.n_labels)));
    group.select("text").attr("x", (one) => one.children ? -4 : 11).attr("dy", (one) => one.children ? "1.5em" : "0.32em")
      .text((one) => this.text(one.data));
  }

  // As in other trees: up and down move, right opens, left closes or moves to the parent.
  press(event, one) {
    const { key } = event;
    const shut = one.data.found && !one.data.open;
    if (key === "Enter" || key === " " || (key === "ArrowRight" && shut)) this.toggle(one.data);
    else if (key === "ArrowRight" && one.children) this.focus(this.key(one.children[0]));
    else if (key === "ArrowLeft" && one.data.found && one.data.open) this.toggle(one.data);
    else if (key === "ArrowLeft" && one.parent) this.focus(this.key(one.parent));
    else if (key === "ArrowDown" || key === "ArrowUp") {
      const order = this.root.descendants().sort((a, b) => a.x - b.x || a.y - b.y).map((other) => this.key(other));
      const next = order[order.indexOf(this.key(one)) + (key === "ArrowDown" ? 1 : -1)];
      if (next) this.focus(next);
    } else return;
    event.preventDefault();
  }

  // Only one node is in the order of the Tab key: the last that had the focus.
  focus(key, move = true) {
    this.focused = key;
    const all = this.canvas.selectAll("g.node").attr("tabindex", (one) => this.key(one) === key ? 0 : -1);
    const own = all.filter((one) => this.key(one) === key).node();
    if (move && own) own.focus();
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
