"use strict";
// The page: its charts, what each shows of the runs, and how news arrive.

const kColors = ["#2f6fde", "#e2711d", "#1d9a6c", "#b83fb0", "#c62f3b", "#0e9bb5", "#8a6d00", "#7357d9", "#6b7280", "#5c8a1e"];
const kPhases = ["data_wait", "forward", "backward", "exchange", "optimizer", "checkpoint"];
const kMarks = {checkpoint: "#1d9a6c", skip: "#e2711d", restart: "#b83fb0", failure: "#c62f3b"};
const kMaxPoints = 6000;  // per curve; beyond this the page reloads, and the server thins the curve

const page = {runs: [], chosen: 0, live: false, made: 0};
const byId = id => document.getElementById(id);
const color = i => kColors[i % kColors.length];
const now = () => page.live ? Date.now() / 1000 : page.made;

const charts = {};
function makeCharts() {
  const parent = byId("charts");
  const add = (name, title, options) => { charts[name] = new Chart(parent, {title, ...options}); };
  add("loss", "Loss (dots: evaluation)");
  add("throughput", "Throughput", {zero: true});
  add("stepTime", "Step time, ms", {zero: true});
  add("phases", "Phases of a step, ms", {stacked: true});
  add("memory", "Peak memory of the largest rank", {format: bytes, zero: true});
  add("categories", "Peak memory by category", {format: bytes, zero: true});
  add("lr", "Learning rate", {zero: true});
  add("norm", "Gradient norm");
  add("scale", "Loss scale", {zero: true});
  add("mfu", "Model FLOP utilisation, %", {zero: true, format: value => short(100 * value)});
  add("slowest", "Excess of the slowest rank, ms", {zero: true});
}

/// Shortens a legend's name in the middle: its end matters as much as its beginning.
function middleCut(name) {
  return name.length <= 32 ? name : name.slice(0, 16) + "\u2026" + name.slice(-15);
}

/// One curve per run. For a long run: the mean of neighbouring steps, in front of the band of their extremes.
function compare(field, extra = {}) {
  const nameOf = run => page.runs.length > 1 ? middleCut(run.name) : "";
  return page.runs.flatMap((run, i) => {
    const name = typeof field === "function" ? field(run) : field, series = run.series[name];
    if (!series || run.hidden) return [];
    const means = extra.dots ? null : run.means[name];
    const drawn = means ? {...means, band: series} : series;
    return [{name: nameOf(run), color: color(i), ...drawn, ...extra}];
  });
}

/// Parts of a step. Runs without phases still separate waiting from the rest.
function phases(run) {
  const scaled = (series, factor) => ({x: series.x, y: series.y.map(y => y === null ? null : y * factor)});
  const named = kPhases.filter(name => run.means["phase_s." + name]);
  if (named.length > 0) {
    return named.map((name, i) => ({name: name.replace("_", " "), color: color(i),
      ...scaled(run.means["phase_s." + name], 1000)}));
  }
  const step = run.means.step_ms;
  if (!step) return [];
  const waits = [["data wait", "data_wait_ms"], ["exposed communication", "comm_wait_ms"]]
    .filter(([, field]) => run.means[field] && run.means[field].x.length === step.x.length);
  const rest = {x: step.x, y: step.y.map((y, i) => waits.reduce((left, [, field]) => left - run.means[field].y[i], y))};
  return [{name: "compute and the rest", color: color(0), ...rest},
    ...waits.map(([name, field], i) => ({name, color: color(i + 1), ...run.means[field]}))];
}

function categories(run) {
  const names = Object.keys(run.series)
    .filter(name => name.startsWith("memory.") && run.series[name].y.some(value => value !== 0));
  return names.map((name, i) => ({name: name.slice(7), color: color(i), ...run.series[name]}));
}

function showCharts() {
  const run = page.runs[page.chosen];
  const marks = run.state.events.filter(event => kMarks[event.kind] && event.step > 0)
    .map(event => ({x: event.step, color: kMarks[event.kind], kind: event.kind}));
  charts.loss.log = byId("log").checked;
  const smooth = Number(byId("smooth").value);
  for (const chart of Object.values(charts)) chart.smooth = smooth;
  const evaluations = compare("eval_loss", {dots: true})
    .map(series => ({...series, name: series.name ? series.name + " evaluation" : "evaluation",
      color: page.runs.length > 1 ? series.color : color(1)}));
  charts.loss.set([...compare("loss"), ...evaluations], marks);
  const unit = page.runs.map(run => throughputOf(run.series)).find(name => name) || "";
  charts.throughput.title.textContent = "Throughput, " + unit.replace("_per_s", " / s");
  charts.throughput.set(compare(of => throughputOf(of.series)), marks);
  charts.stepTime.set(compare("step_ms"), marks);
  charts.phases.set(phases(run));
  charts.memory.set(compare("peak_bytes"));
  charts.categories.set(categories(run));
  charts.lr.set(compare("lr"));
  charts.norm.set(compare("grad_norm"), marks);
  charts.scale.set(compare("loss_scale").filter(series => series.y.some(y => y !== 1)), marks);
  charts.mfu.set(compare("mfu"));
  charts.slowest.set(compare("slowest_excess_ms"));
  drawAll();
}

function showRuns() {
  byId("runs").replaceChildren(...page.runs.map((run, i) => {
    const button = element("button"), box = element("i");
    box.style.background = color(i);
    button.style.opacity = run.hidden ? 0.5 : 1;
    button.setAttribute("aria-pressed", i === page.chosen);
    button.title = run.folder + (page.runs.length > 1 ? "\nclick: its figures and tables; again: hide its curves" : "");
    button.append(box, element("span", "", run.name), element("span", "quiet", statusOf(run, now())));
    button.addEventListener("click", () => {
      if (i === page.chosen && page.runs.length > 1) run.hidden = !run.hidden;
      page.chosen = i;
      show();
    });
    return button;
  }));
}

function show() {
  byId("none").hidden = page.runs.length > 0;
  document.querySelector("main").hidden = page.runs.length === 0;
  if (page.runs.length === 0) {
    document.title = "Trireme";
    showRuns();
    return;
  }
  const run = page.runs[page.chosen];
  document.title = (page.runs.length > 1 ? page.runs.length + " runs" : run.name) + " - Trireme";
  showRuns();
  byId("figures").replaceChildren(...figures(run, now()));
  showCharts();
  const scrolled = [...document.querySelectorAll("#tables .scroll")].map(box => [box.scrollLeft, box.scrollTop]);
  byId("tables").replaceChildren(...[ranksCard(run), eventsCard(run), configCard(page.runs), gridCard(run), confusionCard(run),
    timelineCard(run)]
    .filter(card => card));
  document.querySelectorAll("#tables .scroll").forEach((box, i) => box.scrollTo(...(scrolled[i] ?? [0, 0])));
}

// News come in bursts; one redraw covers them all.
let waiting = false;
function showSoon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; show(); });
}

function addRow(run, row) {
  for (const [name, value] of Object.entries(row)) {
    if (name === "step" || value === null) continue;
    const kept = [run.series, run.means].filter(group => group[name] || group === run.series ||
      name.startsWith("phase_s.") || ["step_ms", "data_wait_ms", "comm_wait_ms"].includes(name));
    for (const group of kept) {
      const series = group[name] ??= {x: [], y: []};
      series.x.push(row.step);
      series.y.push(value);
    }
  }
}

async function load() {
  const answer = await fetch("data", {cache: "no-store"});
  if (!answer.ok) throw new Error(answer.statusText);
  const data = await answer.json();
  // Indices of runs change when runs are added or removed.
  const before = new Map(page.runs.map(run => [run.folder, run])), chosen = page.runs[page.chosen]?.folder;
  for (const run of data.runs) run.hidden = before.get(run.folder)?.hidden;
  page.runs = data.runs;
  page.chosen = Math.max(0, page.runs.findIndex(run => run.folder === chosen));
  showSoon();
  return data.after;
}

/// Follows the server: loads everything once, then news; again after "reset" and after a lost connection.
async function follow() {
  const link = byId("link");
  let after;
  try {
    after = await load();
  } catch (error) {
    link.textContent = "the server of this page does not answer";
    setTimeout(follow, 2000);
    return;
  }
  const source = new EventSource("events?after=" + after);
  const again = () => { source.close(); setTimeout(follow, 300); };
  let opened = false;
  source.onopen = () => { opened = true; link.textContent = "live"; };
  source.onerror = () => {
    link.textContent = opened ? "the server of this page does not answer; what it said last"
      : "as many pages follow as may; this one asks again every 5 s";
    source.close();
    setTimeout(follow, opened ? 2000 : 5000);
  };
  source.addEventListener("reset", again);
  source.addEventListener("state", event => {
    const news = JSON.parse(event.data);
    page.runs[news.run].state = news.state;
    showSoon();
  });
  source.addEventListener("rows", event => {
    const news = JSON.parse(event.data), run = page.runs[news.run];
    for (const row of news.rows) addRow(run, row);
    if (Object.values(run.series).some(series => series.x.length > kMaxPoints)) again();
    showSoon();
  });
}

function start() {
  makeCharts();
  byId("log").addEventListener("change", showCharts);
  byId("smooth").addEventListener("input", showCharts);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  const data = JSON.parse(byId("data").textContent);
  page.live = data === null;
  if (page.live) {
    follow();
    setInterval(showRuns, 5000);
  } else {
    page.runs = data.runs;
    page.made = data.made;
    byId("link").textContent = "report of " + clock(data.made) + " UTC";
    show();
  }
}

start();
