// The page of `manyclass serve`: predictions while typing, corrections, labels. Tree and charts are modules of their own.
import { Tree } from "./tree.js";
import { Charts } from "./charts.js";

const at = (id) => document.getElementById(id);
const make = (name, text = "", more = {}) => Object.assign(document.createElement(name), { textContent: text }, more);
const PAUSE = 120; // ms after the last key before a prediction is asked for
let model = null;
// Numbers of the latest requests: earlier responses that come later are ignored.
let latest = 0;
let latestLabel = 0;
let latestModel = 0;
let best = [];
let sent = null; // the row that was sent to be learned: if it is sent again after an error, it is the same row

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

const fail = (error) => say(error.message, true);
const rowsOf = (n) => `${n.toLocaleString("en")} ${n === 1 ? "row" : "rows"} learned`;

// -- predictions ----------------------------------------------------------------------------------------------------

// Show the prediction of a text, and return its labels. If a later one is under way, that is shown.
async function predict(text = at("text").value) {
  const number = ++latest;
  if (!model || !model.text) return [];
  try {
    const found = await ask("/predict", { text, k: 8, model: model.model, path: true, words: true });
    if (number !== latest) return found.labels;
    best = found.labels;
    showBest(found);
    showWords(text, found.words || []);
    if (at("news").className === "error") say("");
    clearTimeout(telling);
    telling = setTimeout(() => { at("heard").textContent = best.length ? `Best label: ${best[0]}` : "No label"; }, 1000);
    tree.show(found.path || [], best[0]);
    return found.labels;
  } catch (error) {
    if (number === latest) fail(error);
    return [];
  }
}

let telling = 0; // screen readers hear the best label after a pause

function showBest(found) {
  at("best").replaceChildren(...found.labels.map((label, i) => {
    const item = make("li");
    const chance = found.probabilities[i];
    const bar = make("div", "", { className: "bar" });
    bar.style.width = `${100 * chance}%`;
    const button = make("button", "", { type: "button" });
    button.append(make("span", String(label)), make("span", `${(100 * chance).toFixed(1)} %`));
    button.title = `score ${found.scores[i].toFixed(3)}; show this label`;
    if (model.labels === "several") {
      const tick = make("input", "", { type: "checkbox", value: String(i), checked: chance >= 0.5 });
      tick.setAttribute("aria-label", `${label} is correct`);
      button.addEventListener("click", () => showLabel(label, true));
      item.append(bar, tick, button);
    } else {
      button.addEventListener("click", () => { at("label").value = label; showLabel(label, true); });
      item.append(bar, button);
    }
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
      mark.style.borderBottomWidth = `${1 + Math.round(3 * Math.abs(share))}px`;
      parts.push(mark);
    }
    end = word.end;
  }
  parts.push(slice(end));
  at("marked").replaceChildren(...parts);
}

// -- learning -------------------------------------------------------------------------------------------------------

// The correct labels: with several per row, those that are ticked and the one that was typed.
function correctLabels() {
  const typed = at("label").value.trim();
  if (model.labels !== "several") return typed ? [typed] : [];
  const ticked = [...at("best").querySelectorAll("input:checked")].map((tick) => best[Number(tick.value)]);
  return typed && !ticked.map(String).includes(typed) ? [...ticked, typed] : ticked;
}

async function learn(event) {
  event.preventDefault();
  const text = at("text").value;
  const labels = model ? correctLabels() : [];
  if (!labels.length || !text.trim()) return;
  const row = JSON.stringify([model.model, text, labels]);
  if (!sent || sent.row !== row) sent = { row, id: crypto.randomUUID ? crypto.randomUUID() : String(Math.random()) };
  const body = { text, model: model.model, wait: true, id: sent.id };
  if (model.labels === "several") body.labels = labels; else [body.label] = labels;
  at("teach").disabled = true;
  try {
    const [before] = await predict(text);
    await ask("/learn", body);
    sent = null;
    const [now] = await predict(text);
    say(`Learned “${labels.join("”, “")}”. The best label was “${before}”, and is now “${now}”.`);
    if (model.labels === "several") at("label").value = "";
    showLabel(labels[labels.length - 1]);
    await loadModels();
  } catch (error) {
    fail(error);
  } finally {
    at("teach").disabled = false;
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
  } catch (error) { fail(error); }
}

// -- a label's page -------------------------------------------------------------------------------------------------

async function showLabel(label, focus = false) {
  const number = ++latestLabel;
  const about = at("about");
  try {
    const found = await ask(`/models/${model.model}/label?label=${encodeURIComponent(label)}`);
    if (number !== latestLabel) return;
    const parts = [make("h3", String(found.label))];
    if (found.rows !== null) parts.push(make("p", rowsOf(found.rows)));
    if (found.words.length) {
      parts.push(make("h4", "Words with the largest weights"));
      parts.push(make("p", found.words.map((one) => one.word).join(", ")));
    }
    if (found.neighbours.length) {
      const names = make("p", "", { className: "names" });
      for (const name of found.neighbours) {
        const button = make("button", String(name), { type: "button" });
        button.addEventListener("click", () => showLabel(name, true));
        names.append(button);
      }
      parts.push(make("h4", "In the same leaf of the tree"), names);
    }
    about.replaceChildren(...parts);
  } catch (error) {
    if (number === latestLabel) about.replaceChildren(make("p", error.message, { className: "error" }));
  }
  if (focus && number === latestLabel) about.focus();
}

// -- the service ----------------------------------------------------------------------------------------------------

async function loadModels() {
  const found = await ask("/models");
  const chosen = model ? model.model : found[0].model;
  at("model").replaceChildren(...found.map((one) => make("option", one.model, { value: one.model })));
  at("model").value = chosen;
  model = found.find((one) => one.model === chosen) || found[0];
  at("facts").textContent = `${model.classes.toLocaleString("en")} labels, ${model.algorithm}, version ${model.version}`;
  at("typing").hidden = !model.text;
  at("learn").hidden = !model.learns || !model.text;
  const several = model.labels === "several";
  at("label").required = !several;
  at("correct").textContent = several ? "Tick all correct labels above. Another one:" : "Correct label, or a new one";
  if (!model.text) say("This model takes features, not text: use POST /predict.", true);
}

// What the last model has shown.
function clear() {
  best = [];
  latestLabel += 1;
  clearTimeout(telling);
  for (const id of ["best", "marked", "known"]) at(id).replaceChildren();
  at("about").replaceChildren(make("p", "Choose a label to see its rows, neighbours and words.", { className: "quiet" }));
  at("label").value = "";
  say("");
  charts.clear();
}

function showHealth(text, good) {
  if (at("health").textContent === text) return; // screen readers hear changes only
  at("health").textContent = text;
  at("health").className = good ? "good" : "bad";
}

async function refresh() {
  if (!model || document.hidden) return;
  const asked = model.model;
  try {
    const stats = await ask(`/stats?model=${encodeURIComponent(asked)}`);
    const health = await ask("/health");
    if (model.model !== asked) return;
    charts.add(stats);
    const { unsaved, version } = health.models[asked] || {};
    if (health.error) showHealth(health.error, false);
    else if (unsaved) showHealth(`not saved: ${unsaved}`, false);
    else showHealth(model.learns ? "learning" : "predicts only", true);
    if (version !== undefined && version !== model.version) await begin(false); // another version was loaded
  } catch (error) {
    showHealth(error instanceof TypeError ? "not reachable" : error.message, false);
  }
}

function switchTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
}

async function begin(first = true) {
  const number = ++latestModel;
  await loadModels();
  if (number !== latestModel) return;
  predict(); // the tree of many labels takes a while
  if (first) refresh();
  await tree.begin(model.model);
  if (number === latestModel) await predict();
}

// Call a function when no key has been pressed for a while.
function afterPause(call) {
  let timer = 0;
  return () => { clearTimeout(timer); timer = setTimeout(call, PAUSE); };
}

const tree = new Tree(at("tree"), ask, (label) => showLabel(label, true), fail);
const charts = new Charts();
if (localStorage.getItem("theme")) document.documentElement.dataset.theme = localStorage.getItem("theme");
at("text").addEventListener("input", afterPause(() => predict()));
at("learn").addEventListener("submit", learn);
at("label").addEventListener("input", afterPause(suggest));
at("theme").addEventListener("click", switchTheme);
at("whole").addEventListener("click", () => tree.fit());
at("model").addEventListener("change", () => {
  model = { model: at("model").value };
  clear();
  begin().catch(fail);
});
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", at("key").value);
  at("key-form").hidden = true; // a wrong key brings it back
  begin().catch(fail);
});
setInterval(refresh, 2000);
begin().catch(fail);
