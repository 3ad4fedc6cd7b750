// The page of `manyclass serve`: predictions while typing, corrections, labels. Tree and charts are modules of their own.
import { Tree } from "./tree.js";
import { Charts } from "./charts.js";

const at = (id) => document.getElementById(id);
const make = (name, text = "", more = {}) => Object.assign(document.createElement(name), { textContent: text }, more);
const PAUSE = 120; // ms after the last key before a prediction is asked for
let model = null;
let latest = 0; // number of the latest request: earlier responses that come later are ignored
let best = [];

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  const key = sessionStorage.getItem("key");
  if (key) headers.Authorization = `Bearer ${key}`;
  const response = await fetch(path, body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
  const found = await response.json();
  if (response.status === 401 || response.status === 403) at("key-form").hidden = false;
  if (!response.ok && !(path === "/health" && found.models)) throw new Error(found.error);
  return found;
}

function say(text, wrong = false) {
  at("news").textContent = text;
  at("news").className = wrong ? "error" : "";
}

// -- predictions ----------------------------------------------------------------------------------------------------

async function predict() {
  const number = ++latest;
  const text = at("text").value;
  if (!model || !model.text) return;
  try {
    const found = await ask("/predict", { text, k: 8, model: model.model, path: true, words: true });
    if (number !== latest) return;
    best = found.labels;
    showBest(found);
    showWords(text, found.words || []);
    tree.show(found.path || [], best[0]);
  } catch (error) {
    if (number === latest) say(error.message, true);
  }
}

function showBest(found) {
  at("best").replaceChildren(...found.labels.map((label, i) => {
    const item = make("li");
    const chance = found.probabilities[i];
    const bar = make("div", "", { className: "bar" });
    bar.style.width = `${100 * chance}%`;
    const button = make("button", "", { type: "button" });
    button.append(make("span", String(label)), make("span", `${(100 * chance).toFixed(1)} %`));
    button.title = `score ${found.scores[i].toFixed(3)}; show this label`;
    button.addEventListener("click", () => { at("label").value = label; showLabel(label); });
    item.append(bar, button);
    return item;
  }));
}

function showWords(text, words) {
  const most = Math.max(1e-9, ...words.map((word) => Math.abs(word.change)));
  const parts = [];
  let end = 0;
  const points = Array.from(text); // positions are those of characters, not of UTF-16 units
  const slice = (a, b) => points.slice(a, b).join("");
  for (const word of words) {
    parts.push(slice(end, word.begin));
    const share = word.change / most;
    if (Math.abs(share) < 0.15) parts.push(slice(word.begin, word.end));
    else {
      const mark = make("mark", slice(word.begin, word.end), { className: share < 0 ? "against" : "" });
      mark.title = `score of the best label without it: ${word.change >= 0 ? "−" : "+"}${Math.abs(word.change).toFixed(2)}`;
      mark.style.opacity = String(0.45 + 0.55 * Math.abs(share));
      parts.push(mark);
    }
    end = word.end;
  }
  parts.push(slice(end));
  at("marked").replaceChildren(...parts);
}

// -- learning -------------------------------------------------------------------------------------------------------

async function learn(event) {
  event.preventDefault();
  const label = at("label").value.trim();
  const text = at("text").value;
  if (!label || !text.trim()) return;
  const body = { text, model: model.model, wait: true, id: crypto.randomUUID ? crypto.randomUUID() : String(Math.random()) };
  if (model.labels === "several") body.labels = [label]; else body.label = label;
  try {
    const before = best[0];
    await ask("/learn", body);
    await predict();
    say(`Learned “${label}”. The best label was “${before}”, and is now “${best[0]}”.`);
    showLabel(label);
    loadModels();
  } catch (error) {
    say(error.message, true);
  }
}

let suggesting = 0;
async function suggest() {
  const number = ++suggesting;
  const search = at("label").value;
  if (!model || search.length < 2) return;
  try {
    const found = await ask(`/models/${model.model}/labels?search=${encodeURIComponent(search)}`);
    if (number === suggesting) at("known").replaceChildren(...found.labels.map((one) => make("option", "", { value: one.label })));
  } catch (error) { say(error.message, true); }
}

// -- a label's page -------------------------------------------------------------------------------------------------

async function showLabel(label) {
  const about = at("about");
  try {
    const found = await ask(`/models/${model.model}/label?label=${encodeURIComponent(label)}`);
    const parts = [make("h3", String(found.label)), make("p", `${found.rows.toLocaleString("en")} rows learned`)];
    if (found.words.length) {
      parts.push(make("h4", "Words with the largest weights"));
      parts.push(make("p", found.words.map((one) => one.word).join(", ")));
    }
    if (found.neighbours.length) {
      const names = make("p", "", { className: "names" });
      for (const name of found.neighbours) {
        const button = make("button", String(name), { type: "button" });
        button.addEventListener("click", () => showLabel(name));
        names.append(button);
      }
      parts.push(make("h4", "In the same leaf of the tree"), names);
    }
    about.replaceChildren(...parts);
  } catch (error) {
    about.replaceChildren(make("p", error.message, { className: "error" }));
  }
}

// -- the service ----------------------------------------------------------------------------------------------------

async function loadModels() {
  const found = await ask("/models");
  const chosen = model ? model.model : found[0].model;
  at("model").replaceChildren(...found.map((one) => make("option", one.model, { value: one.model })));
  at("model").value = chosen;
  model = found.find((one) => one.model === chosen) || found[0];
  at("facts").textContent = `${model.classes.toLocaleString("en")} labels, ${model.algorithm}, version ${model.version}`;
  at("learn").hidden = !model.learns;
  if (!model.text) say("This model takes features, not text: use POST /predict.", true);
}

async function refresh() {
  if (!model || document.hidden) return;
  try {
    charts.add(await ask(`/stats?model=${encodeURIComponent(model.model)}`));
    const health = await ask("/health");
    at("health").textContent = health.error ? health.error : "learning";
    at("health").className = health.error ? "bad" : "good";
  } catch (error) {
    at("health").textContent = "not reachable";
    at("health").className = "bad";
  }
}

function switchTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
}

async function begin() {
  await loadModels();
  predict(); // the tree of many labels takes a while
  refresh();
  await tree.begin(model.model);
  await predict();
}

const tree = new Tree(at("tree"), ask, showLabel);
const charts = new Charts();
if (localStorage.getItem("theme")) document.documentElement.dataset.theme = localStorage.getItem("theme");
let timer = 0;
at("text").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(predict, PAUSE); });
at("learn").addEventListener("submit", learn);
at("label").addEventListener("input", suggest);
at("theme").addEventListener("click", switchTheme);
at("whole").addEventListener("click", () => tree.fit());
at("model").addEventListener("change", () => { model = { model: at("model").value }; begin(); });
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", at("key").value);
  at("key-form").hidden = true; // a wrong key brings it back
  begin().catch((error) => say(error.message, true));
});
setInterval(refresh, 2000);
begin().catch((error) => say(error.message, true));
