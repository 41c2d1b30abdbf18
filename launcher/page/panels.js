"use strict";
// Figures and tables of the page. Texts of a run are only ever set as text, never as HTML.

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function duration(seconds) {
  if (!isFinite(seconds) || seconds < 0) return "-";
  if (seconds < 90) return Math.round(seconds) + " s";
  if (seconds < 5400) return Math.round(seconds / 60) + " min";
  if (seconds < 172800) return (seconds / 3600).toFixed(1) + " h";
  return (seconds / 86400).toFixed(1) + " days";
}

function clock(seconds) {
  return seconds ? new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19) : "";
}

const throughputOf = values => ["tokens_per_s", "samples_per_s"].find(name => values[name] !== undefined);

/// The status for people; a run that has written no line for long is shown as stalled.
function statusOf(run, now) {
  const state = run.state;
  if (state.status !== "running") return state.status;
  const age = now - state.written, patience = Math.max(30, 10 * (state.last.step_ms || 0) / 1000);
  return age > patience ? "no line for " + duration(age) : "running";
}

function figures(run, now) {
  const {state} = run, last = state.last, unit = throughputOf(last), list = [];
  const add = (name, value) => list.push([name, value]);
  add("status", statusOf(run, now));
  add(state.steps ? "step of " + state.steps.toLocaleString("en") : "step", state.step.toLocaleString("en"));
  if (last.loss !== undefined) add("loss", short(last.loss));
  if (last.eval_loss !== undefined) add("evaluation loss", short(last.eval_loss));
  if (unit) add(unit.replace("_per_s", " / s"), short(last[unit]));
  if (last.step_ms !== undefined) add("step time", short(last.step_ms) + " ms");
  if (last.mfu !== undefined && last.mfu !== null) add("MFU", (100 * last.mfu).toFixed(1) + " %");
  if (last.peak_bytes !== undefined) add("peak memory", bytes(last.peak_bytes));
  if (last.slowest_rank !== undefined && last.slowest_rank !== null)
    add("slowest rank", last.slowest_rank + " (+" + short(last.slowest_excess_ms) + " ms)");
  if (state.num_skipped) add("skipped steps", state.num_skipped.toLocaleString("en"));
  if (statusOf(run, now) === "running" && state.steps > state.step && last.step_ms)
    add("time left", duration((state.steps - state.step) * last.step_ms / 1000));
  return list.map(([name, value]) => {
    const figure = element("div", "figure");
    figure.append(element("span", "quiet", name), element("b", "", value));
    return figure;
  });
}

/// A card with a table. Rows: {cells, className}; cells are texts, numbers are right-aligned.
function tableCard(title, heads, rows) {
  const card = element("div", "card"), scroll = element("div", "scroll"), table = element("table");
  const head = element("tr");
  for (const [name, kind] of heads) head.append(element("th", kind, name));
  table.append(element("thead"));
  table.tHead.append(head);
  const body = element("tbody");
  for (const {cells, className} of rows) {
    const row = element("tr", className);
    cells.forEach((cell, i) => row.append(element("td", heads[i][1], cell)));
    body.append(row);
  }
  table.append(body);
  scroll.append(table);
  card.append(element("h2", "", title), scroll);
  return card;
}

function ranksCard(run) {
  const ranks = run.state.ranks;
  if (ranks.length === 0) return null;
  return tableCard("Ranks", [["rank", "number"], ["step ms", "number"], ["mean ms", "number"],
    ["over the median", "number"], ["", "text"]], ranks.map(rank => ({
      cells: [rank.rank, short(rank.step_ms), short(rank.mean_ms), short(rank.excess_ms) + " ms",
        rank.slowest ? "slowest" : ""],
      className: rank.slowest ? "slowest" : "",
    })));
}

function eventsCard(run) {
  const events = run.state.events.slice(-200).reverse();
  const rows = events.map(event => ({
    cells: [event.step || "", event.kind, event.text, event.at ? event.at.replace("T", " ").replace("Z", "")
      : clock(event.time)],
    className: "",
    kind: event.kind,
  }));
  if (rows.length === 0) rows.push({cells: ["", "", "none yet", ""], className: "quiet"});
  const card = tableCard("Events", [["step", "number"], ["kind", ""], ["what", "text"], ["time (UTC)", ""]], rows);
  card.querySelectorAll("tbody tr").forEach((row, i) => {
    if (rows[i].kind) row.cells[1].className = rows[i].kind;
  });
  return card;
}

/// Keys of the configuration; with several runs, one column per run and the differing keys first.
function configCard(runs) {
  const keys = [...new Set(runs.flatMap(run => Object.keys(run.config)))];
  if (keys.length === 0) return null;
  const rows = keys.map(key => {
    const values = runs.map(run => run.config[key] ?? "-");
    return {cells: [key, ...values], differs: values.some(value => value !== values[0])};
  });
  rows.sort((a, b) => b.differs - a.differs);
  for (const row of rows) row.className = row.differs ? "differs" : "";
  const differing = rows.filter(row => row.differs).length;
  const title = runs.length === 1 ? "Configuration" : "Configuration, " + differing + " of " + keys.length +
    " keys differ";
  const card = tableCard(title, [["key", ""], ...runs.map(run => [runs.length === 1 ? "value" : run.name, "text"])],
    rows);
  if (runs.length > 2) card.classList.add("wide");
  return card;
}

function pictureCard(source, kind, title, description) {
  if (!source) return null;
  const card = element("div", "card wide"), scroll = element("div", "scroll picture"), picture = element("img", kind);
  picture.src = source;
  picture.alt = description;
  scroll.append(picture);
  card.append(element("h2", "", title), scroll);
  return card;
}

function timelineCard(run) {
  return pictureCard(run.timeline, "timeline", "Timeline of a step", "What every rank did in the traced step");
}

function gridCard(run) {
  return pictureCard(run.grid, "grid", "Newest samples", "Pictures that trireme sample made from this run");
}

function confusionCard(run) {
  const card = pictureCard(run.confusion, "confusion", "Confusion matrix of the last evaluation",
    "Samples by class (rows) and predicted class (columns)");
  // Small matrices shrink with the page; names of large ones would be too small, so these scroll.
  const picture = card?.querySelector("img");
  if (picture) picture.onload = () => { picture.style.maxWidth = picture.naturalWidth > 700 ? "none" : "100%"; };
  return card;
}
