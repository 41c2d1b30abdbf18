"use strict";
// Line and stacked charts on a canvas. All charts of a page share one range of steps: dragging zooms, a
// double click zooms out, and the pointer shows the values of one step in all charts.

const view = {from: null, to: null, at: null, charts: new Set()};

function drawAll() {
  for (const chart of view.charts) chart.draw();
}

/// Three significant digits, with suffixes for powers of a thousand where a unit has them.
function short(value) {
  if (value === null || value === undefined || !isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e15 || size < 1e-3) return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
  for (const [limit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) return Number((value / (letter === "k" ? 1e3 : limit)).toPrecision(4)) + letter;
  }
  return String(Number(value.toPrecision(4)));
}

function bytes(value) {
  if (value === null || value === undefined || !isFinite(value)) return "-";
  for (const [limit, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (Math.abs(value) >= limit) return Number((value / limit).toPrecision(3)) + " " + unit;
  }
  return value + " B";
}

/// Index of the last x <= `at`; -1 if there is none.
function indexAt(x, at) {
  let low = 0, high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] <= at) low = middle + 1; else high = middle;
  }
  return low - 1;
}

/// Round numbers between `from` and `to`; for bytes, powers of two.
function ticks(from, to, wanted, binary) {
  const rough = (to - from) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = binary ? 2 ** Math.ceil(Math.log2(rough)) : [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= rough * 0.999);
  const found = [];
  for (let t = Math.ceil(from / step - 1e-9) * step; t <= to + step * 1e-9; t += step)
    found.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  return found;
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name);
}

class Chart {
  /// options: title, format (formats a value), stacked, zero (the axis begins at 0).
  constructor(parent, options) {
    this.options = {format: short, stacked: false, zero: false, ...options};
    this.series = [];  // {name, color, x, y, dots, band: {x, y}}; the band is drawn behind the line
    this.marks = [];   // {x, color, kind}
    this.log = false;
    this.smooth = 0;
    this.card = document.createElement("div");
    this.card.className = "card";
    this.title = document.createElement("h2");
    this.title.textContent = options.title;
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", options.title);
    this.legend = document.createElement("div");
    this.legend.className = "legend";
    this.card.append(this.title, this.canvas, this.legend);
    parent.append(this.card);
    this.listen();
    view.charts.add(this);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  /// An empty chart takes no space.
  set(series, marks) {
    this.series = series.filter(s => s.x.length > 0);
    this.marks = marks || [];
    this.card.hidden = this.series.length === 0;
    this.card.style.display = this.card.hidden ? "none" : "";
    this.smoothed = null;
  }

  listen() {
    const stepOf = event => {
      const part = (event.offsetX - this.left) / (this.canvas.clientWidth - this.left - 8);
      return this.from + Math.min(1, Math.max(0, part)) * (this.to - this.from);
    };
    let begun = null;
    this.canvas.addEventListener("pointermove", event => { view.at = stepOf(event); drawAll(); });
    this.canvas.addEventListener("pointerleave", () => { view.at = null; drawAll(); });
    this.canvas.addEventListener("pointerdown", event => { begun = stepOf(event); });
    this.canvas.addEventListener("pointerup", event => {
      const end = stepOf(event);
      if (begun !== null && Math.abs(end - begun) > (this.to - this.from) * 0.02) {
        view.from = Math.min(begun, end);
        view.to = Math.max(begun, end);
      }
      begun = null;
      drawAll();
    });
    this.canvas.addEventListener("dblclick", () => { view.from = view.to = null; drawAll(); });
  }

  /// The values to draw: of each series, its values or their moving mean.
  curves() {
    if (this.smoothed && this.smoothed.by === this.smooth) return this.smoothed.series;
    const series = this.series.map(s => {
      if (this.smooth === 0 || s.dots || this.options.stacked) return s;
      let mean = 0, weight = 0;
      const y = s.y.map(value => {
        if (value === null) return null;
        mean = this.smooth * mean + (1 - this.smooth) * value;
        weight = this.smooth * weight + (1 - this.smooth);
        return mean / weight;
      });
      return {...s, y};
    });
    this.smoothed = {by: this.smooth, series};
    return series;
  }

  /// Heights to draw: each series of a stack is added to the series below it.
  heights() {
    if (!this.options.stacked) return this.curves();
    const below = new Map();
    return this.series.map(s => {
      const base = s.x.map(x => below.get(x) || 0);
      const y = s.y.map((value, i) => base[i] + (value || 0));
      s.x.forEach((x, i) => below.set(x, y[i]));
      return {...s, y, base};
    });
  }

  range(curves) {
    let low = Infinity, high = -Infinity;
    for (const s of curves) {
      s.x.forEach((x, i) => {
        const y = s.y[i];
        if (x < this.from || x > this.to || y === null || (this.log && y <= 0)) return;
        if (y < low) low = y;
        if (y > high) high = y;
      });
    }
    if (low > high) [low, high] = [0, 1];
    if (this.options.zero || this.options.stacked) low = Math.min(0, low);
    if (this.log && low > 0) [low, high] = [Math.log10(low), Math.log10(high)];
    if (high - low < 1e-12 * Math.max(1, Math.abs(high))) {
      const room = Math.abs(high) * 0.05 || 1;
      if (low !== 0) low -= room;
      high += room;
    }
    const room = (high - low) * 0.05;
    return [low === 0 ? 0 : low - room, high + room];
  }

  draw() {
    if (this.card.hidden || this.canvas.clientWidth === 0) return;
    const steps = this.series.flatMap(s => [s.x[0], s.x[s.x.length - 1]]);
    this.from = view.from ?? Math.min(...steps);
    this.to = view.to ?? Math.max(...steps);
    if (this.to <= this.from) this.to = this.from + 1;
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight, ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const g = this.canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.font = '11px system-ui, "DejaVu Sans", sans-serif';
    const curves = this.heights();
    const bands = this.series.filter(s => s.band).map(s => ({color: s.color, ...s.band}));
    const [low, high] = this.range([...curves, ...bands]);
    const text = t => this.options.format(this.log ? 10 ** t : t);
    const rows = ticks(low, high, 4, this.options.format === bytes);
    this.left = Math.ceil(Math.max(24, ...rows.map(t => g.measureText(text(t)).width))) + 8;
    const right = width - 8, top = 6, bottom = height - 20;
    const px = x => this.left + (x - this.from) / (this.to - this.from) * (right - this.left);
    const py = y => bottom - ((this.log ? Math.log10(y) : y) - low) / (high - low) * (bottom - top);
    this.axes(g, {rows, text, px, right, top, bottom, row: t => bottom - (t - low) / (high - low) * (bottom - top)});
    g.save();
    g.beginPath();
    g.rect(this.left, top - 2, right - this.left + 2, bottom - top + 4);
    g.clip();
    for (const mark of this.marks) this.vertical(g, px(mark.x), top, bottom, mark.color, [3, 3]);
    g.globalAlpha = 0.25;  // the mean stands out from its raw values
    for (const s of bands) this.curve(g, s, px, py);
    if (this.smooth > 0 && !this.options.stacked) for (const s of this.series) this.curve(g, s, px, py);
    g.globalAlpha = 1;
    for (const s of curves) this.curve(g, s, px, py);
    if (view.at !== null) this.vertical(g, px(view.at), top, bottom, css("--quiet"), []);
    g.restore();
    this.describe();
  }

  axes(g, {rows, text, px, right, top, bottom, row}) {
    g.strokeStyle = css("--grid");
    g.fillStyle = css("--quiet");
    g.lineWidth = 1;
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const t of rows) {
      const y = Math.round(row(t)) + 0.5;
      if (y < top || y > bottom + 1) continue;
      g.beginPath();
      g.moveTo(this.left, y);
      g.lineTo(right, y);
      g.stroke();
      g.fillText(text(t), this.left - 6, y);
    }
    g.textBaseline = "top";
    g.textAlign = "left";
    g.fillText("step", 0, bottom + 5);
    g.textAlign = "center";
    const wanted = Math.max(2, Math.floor((right - this.left) / 64));
    for (const t of ticks(this.from, this.to, wanted).filter(Number.isInteger)) {
      const label = t.toLocaleString("en"), half = g.measureText(label).width / 2;
      g.fillText(label, Math.min(Math.max(px(t), this.left + half - 6), right - half + 6), bottom + 5);
    }
  }

  vertical(g, x, top, bottom, color, dashes) {
    g.setLineDash(dashes);
    g.strokeStyle = color;
    g.lineWidth = 1;
    g.beginPath();
    g.moveTo(x, top);
    g.lineTo(x, bottom);
    g.stroke();
    g.setLineDash([]);
  }

  curve(g, s, px, py) {
    const shown = i => s.y[i] !== null && (!this.log || s.y[i] > 0);
    // One neighbour on each side, so that lines reach the edges.
    const first = Math.max(0, indexAt(s.x, this.from)), last = Math.min(s.x.length - 1, indexAt(s.x, this.to) + 1);
    g.strokeStyle = g.fillStyle = s.color;
    g.lineWidth = 1.5;
    g.lineJoin = "round";
    g.beginPath();
    let open = false;
    for (let i = first; i <= last; ++i) {
      if (!shown(i)) { open = false; continue; }
      if (open) g.lineTo(px(s.x[i]), py(s.y[i])); else g.moveTo(px(s.x[i]), py(s.y[i]));
      open = true;
    }
    if (s.base && last > first) {
      for (let i = last; i >= first; --i) g.lineTo(px(s.x[i]), py(s.base[i]));
      g.globalAlpha = 0.75;
      g.fill();
      g.globalAlpha = 1;
      return;
    }
    g.stroke();
    if (!s.dots && last - first > 0) return;
    for (let i = first; i <= last; ++i) {
      if (!shown(i)) continue;
      g.beginPath();
      g.arc(px(s.x[i]), py(s.y[i]), 3, 0, 2 * Math.PI);
      g.fill();
    }
  }

  /// The legend shows the values under the pointer, or the last ones.
  describe() {
    const parts = [];
    if (view.at !== null) parts.push(["step " + Math.round(view.at).toLocaleString("en"), null]);
    for (const s of this.curves()) {
      const i = view.at === null ? s.x.length - 1 : indexAt(s.x, view.at);
      if (view.at !== null && i < 0) continue;
      parts.push([(s.name ? s.name + " " : "") + this.options.format(s.y[i]), s.color]);
    }
    // Names of the marks within the visible range.
    const kinds = new Map(this.marks.filter(mark => mark.x >= this.from && mark.x <= this.to)
      .map(mark => [mark.kind, mark.color]));
    for (const [kind, color] of kinds) parts.push([kind, color, "mark"]);
    this.legend.replaceChildren(...parts.map(([text, color, mark]) => {
      const span = document.createElement("span");
      if (color) {
        const box = document.createElement("i");
        if (mark) box.className = mark;
        box.style.color = color;
        span.append(box);
      }
      span.append(text);
      return span;
    }));
  }
}
