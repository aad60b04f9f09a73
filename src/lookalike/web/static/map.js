// The map: points on a canvas, thumbnails as one zooms in, box and lasso into the basket. look.js and basket.js are before it.
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8a8f98"]; // Okabe and Ito's, grey for black
const SHAPES = 4; // disc, square, triangle, diamond: colour is never the only sign
const SHEETS = 80; // that are held
const LOADING = 4; // at once
const MARGIN = 160; // pixels around what is seen that are drawn too

function startMap() {
  const root = find("#map");
  if (!root || root.dataset.started) return;
  root.dataset.started = "yes";
  const canvas = root.querySelector("canvas");
  const context = canvas.getContext("2d", { alpha: false });
  const tip = root.querySelector(".tip");
  const making = root.querySelector(".making");
  const legend = root.querySelector(".legend");
  const view = { scale: 1, x: 0, y: 0, fit: 1 }; // a place p of 0…1 is drawn at p * scale + x
  let data = null, column = -1, mode = "move", hovered = -1, focused = -1, line = null, queued = false;
  let width = 0, height = 0, ratio = 1, colours = {}, hidden = new Set();
  let px, py, picked, visible = [];
  const sprites = new Map(), sheets = new Map();
  let loading = 0, waiting = [];
  const alive = () => root.isConnected;

  // Loading, and waiting for a map that is being made
  async function load() {
    let asked = false;
    while (alive()) {
      let said;
      try {
        const answer = await fetch(root.dataset.points);
        if (!answer.ok) return tell(sentence(await answer.text()));
        said = await answer.json();
        if (!said.ready && !said.making && !said.other && !said.problem && !asked) {
          asked = true;
          const made = await fetch(root.dataset.make, { method: "POST", headers: { "x-csrf-token": find('.bring [name="csrf"]').value } });
          if (!made.ok) return tell(sentence(await made.text()));
          said = { ...said, ...(await made.json()) };
        }
      } catch {
        return tell("The server does not answer: is it still running?");
      }
      if (said.ready) return ready(said);
      if (said.problem) return tell(`The map could not be made: ${said.problem}`);
      if (said.other) asked = false;
      tell(said.other ? `The map of ${said.other} is being made first.` : `The map of ${root.dataset.model} is being made. It is stored, so this happens once.`, said);
      await new Promise((go) => setTimeout(go, 700));
    }
  }

  const sentence = (text) => new DOMParser().parseFromString(text, "text/html").querySelector("#problem p")?.textContent ?? "That does not work.";

  function tell(words, said = null) {
    making.hidden = false;
    if (making.firstElementChild.textContent !== words) making.firstElementChild.textContent = words;
    const bar = making.querySelector("progress");
    bar.hidden = !said?.making;
    if (said?.making) bar.value = (100 * said.done) / Math.max(1, said.total);
  }

  function ready(said) {
    data = said;
    making.hidden = true;
    const n = data.ids.length;
    px = Float32Array.from(data.x, (x) => x / 65535);
    py = Float32Array.from(data.y, (y) => y / 65535);
    picked = new Uint8Array(n);
    const select = root.querySelector("[data-colour]");
    data.columns.forEach((each, number) => {
      const option = document.createElement("option");
      option.value = number;
      option.textContent = each.name;
      select.append(option);
    });
    column = data.columns.length ? 0 : -1;
    select.value = column;
    select.closest("label").hidden = !data.columns.length;
    marks();
    fillLegend();
    resize();
    fit();
    root.dataset.ready = "yes";
  }

  // Colours, shapes and the legend
  const valueOf = (i) => (column < 0 ? -1 : data.columns[column].of[i]);
  const shown = (i) => (!data.fits || data.fits[i] === 1) && !hidden.has(valueOf(i));
  const colourOf = (value) => (value < 0 ? (column < 0 ? colours.accent : colours.soft) : PALETTE[value % PALETTE.length]);
  const shapeOf = (value) => (value < 0 ? 0 : (value + Math.floor(value / PALETTE.length)) % SHAPES);

  function theme() {
    const style = getComputedStyle(root);
    const named = (name) => style.getPropertyValue(`--${name}`).trim();
    colours = { paper: named("surface"), ink: named("ink"), soft: named("soft"), accent: named("accent"), line: named("line") };
    const one = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    one.fillStyle = colours.paper;
    one.fillRect(0, 0, 1, 1);
    colours.pixel = new Uint32Array(one.getImageData(0, 0, 1, 1).data.buffer)[0];
    sprites.clear();
    draw(true);
  }

  function path(to, shape, x, y, r) {
    to.beginPath();
    if (shape === 0) to.arc(x, y, r, 0, 2 * Math.PI);
    else if (shape === 1) to.rect(x - r * 0.86, y - r * 0.86, r * 1.72, r * 1.72);
    else if (shape === 2) { to.moveTo(x, y - r * 1.15); to.lineTo(x + r * 1.1, y + r * 0.85); to.lineTo(x - r * 1.1, y + r * 0.85); to.closePath(); }
    else { to.moveTo(x, y - r * 1.2); to.lineTo(x + r * 1.2, y); to.lineTo(x, y + r * 1.2); to.lineTo(x - r * 1.2, y); to.closePath(); }
  }

  function sprite(value, r, ring, chosen) {
    const key = `${value} ${r} ${ring} ${chosen}`;
    if (sprites.has(key)) return sprites.get(key);
    const side = Math.ceil((r * (ring ? 2.1 : 1.3) + (chosen ? 4 : 2)) * ratio) * 2;
    const small = document.createElement("canvas");
    small.width = small.height = side;
    const to = small.getContext("2d", { willReadFrequently: true });
    const middle = side / 2;
    if (chosen) { path(to, 0, middle, middle, (r + 3) * ratio); to.fillStyle = colours.ink; to.fill(); path(to, 0, middle, middle, (r + 1.5) * ratio); to.fillStyle = colours.paper; to.fill(); }
    path(to, shapeOf(value), middle, middle, r * ratio);
    to.fillStyle = colourOf(value);
    to.fill();
    to.lineWidth = 0.75 * ratio;
    to.strokeStyle = colours.ink;
    to.globalAlpha = 0.45;
    to.stroke();
    to.globalAlpha = 1;
    if (ring) { path(to, 0, middle, middle, r * 1.9 * ratio); to.lineWidth = 1.4 * ratio; to.strokeStyle = colours.ink; to.stroke(); }
    const dots = new Uint32Array(to.getImageData(0, 0, side, side).data.buffer), mask = [];
    dots.forEach((dot, n) => { if (dot >>> 24) mask.push((n % side) | ((dot >>> 24) << 8), Math.floor(n / side), dot); }); // column and opacity, row, colour
    const made = { side, mask: Uint32Array.from(mask) };
    sprites.set(key, made);
    return made;
  }

  function fillLegend() {
    hidden = new Set();
    if (column < 0) { legend.replaceChildren(); return; }
    const counts = new Map();
    for (let i = 0; i < data.ids.length; i++) if (!data.fits || data.fits[i]) counts.set(valueOf(i), (counts.get(valueOf(i)) ?? 0) + 1);
    const values = [...data.columns[column].values.map((name, value) => [value, name]), [-1, "none"]].filter(([value]) => counts.has(value));
    legend.replaceChildren(...values.map(([value, name]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.value = value;
      button.setAttribute("aria-pressed", "true");
      const swatch = document.createElement("canvas");
      swatch.width = swatch.height = 32;
      swatch.setAttribute("aria-hidden", "true");
      const to = swatch.getContext("2d");
      path(to, shapeOf(value), 16, 16, 11);
      to.fillStyle = colourOf(value);
      to.fill();
      const count = document.createElement("small");
      count.textContent = counts.get(value).toLocaleString("en");
      button.append(swatch, name, count);
      const row = document.createElement("li");
      row.append(button);
      return row;
    }));
  }

  legend.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    const all = [...legend.querySelectorAll("button")].map((each) => Number(each.dataset.value));
    const value = Number(button.dataset.value);
    if (!hidden.size) hidden = new Set(all.filter((other) => other !== value)); // the first click shows it alone
    else if (hidden.has(value)) hidden.delete(value);
    else hidden.add(value);
    if (hidden.size === all.length) hidden.clear();
    for (const each of legend.querySelectorAll("button")) each.setAttribute("aria-pressed", String(!hidden.has(Number(each.dataset.value))));
    draw(true);
  });

  function marks() {
    if (!data) return;
    for (let i = 0; i < data.ids.length; i++) picked[i] = basket.has(data.ids[i]) ? 1 : 0;
    if (focused >= 0 && !tip.hidden) showTip(focused, tip.classList.contains("held"));
    draw(true);
  }

  // Drawing
  function draw(anew = false) {
    if (anew) layer.stale = true;
    if (queued || !data) return;
    queued = true;
    requestAnimationFrame(() => { queued = false; if (alive()) paint(); });
  }

  const radius = () => Math.min(7, (data.ids.length > 20_000 ? 2 : 3) * Math.sqrt(Math.max(1, view.scale / view.fit)));

  // The layer holds all items, with a margin: panning only moves it. Points are written into its pixels one by one,
  // which is many times faster than drawing each as an image.
  const layer = { canvas: document.createElement("canvas"), stale: true, scale: 0, x: 0, y: 0, side: 0, big: new Set() };
  layer.context = layer.canvas.getContext("2d", { alpha: false });

  function paint() {
    const far = Math.max(Math.abs(view.x - layer.x), Math.abs(view.y - layer.y)) > MARGIN;
    if (layer.stale || layer.scale !== view.scale || far) render();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(layer.canvas, Math.round((view.x - layer.x - MARGIN) * ratio), Math.round((view.y - layer.y - MARGIN) * ratio));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (line) outline();
    const at = focused >= 0 ? focused : hovered;
    if (at >= 0) highlight(at, layer.big.has(at) ? layer.side / 2 : radius());
  }

  function render() {
    const [w, h] = [Math.round((width + 2 * MARGIN) * ratio), Math.round((height + 2 * MARGIN) * ratio)];
    if (layer.canvas.width !== w || layer.canvas.height !== h) { layer.canvas.width = w; layer.canvas.height = h; }
    Object.assign(layer, { stale: false, scale: view.scale, x: view.x, y: view.y });
    visible = [];
    let inView = 0;
    for (let i = 0; i < px.length; i++) {
      const x = px[i] * view.scale + view.x, y = py[i] * view.scale + view.y;
      if (x < -MARGIN || y < -MARGIN || x > width + MARGIN || y > height + MARGIN || !shown(i)) continue;
      visible.push(i);
      if (x >= 0 && y >= 0 && x <= width && y <= height) inView++;
    }
    layer.side = thumbSide(inView);
    layer.big = layer.side ? claimed(layer.side) : new Set();
    if (new Set([...layer.big].map(sheetNumber)).size > SHEETS) Object.assign(layer, { side: 0, big: new Set() }); // zoom in further
    const r = Math.round(radius() * 2) / 2;
    const to = layer.context;
    to.setTransform(1, 0, 0, 1, 0, 0);
    const image = to.createImageData(w, h);
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(colours.pixel);
    const above = [];
    for (const i of visible) {
      if (layer.big.has(i)) continue;
      if (picked[i] || data.groups[i] >= 0) above.push(i);
      else stamp(pixels, w, h, sprite(valueOf(i), r, false, 0), i);
    }
    for (const i of above) stamp(pixels, w, h, sprite(valueOf(i), r, data.groups[i] >= 0, picked[i]), i);
    to.putImageData(image, 0, 0);
    to.setTransform(ratio, 0, 0, ratio, MARGIN * ratio, MARGIN * ratio);
    for (const i of layer.big) thumb(to, i, layer.side, r);
  }

  function stamp(pixels, w, h, { side, mask }, i) {
    const left = Math.round((px[i] * view.scale + view.x + MARGIN) * ratio - side / 2);
    const top = Math.round((py[i] * view.scale + view.y + MARGIN) * ratio - side / 2);
    if (left < 0 || top < 0 || left + side > w || top + side > h) return;
    for (let n = 0; n < mask.length; n += 3) {
      const at = (top + mask[n + 1]) * w + left + (mask[n] & 0xff), alpha = mask[n] >>> 8;
      if (alpha === 255) { pixels[at] = mask[n + 2]; continue; }
      const under = pixels[at], over = mask[n + 2], rest = 255 - alpha;
      const red = ((over & 0xff) * alpha + (under & 0xff) * rest) / 255;
      const green = (((over >>> 8) & 0xff) * alpha + ((under >>> 8) & 0xff) * rest) / 255;
      const blue = (((over >>> 16) & 0xff) * alpha + ((under >>> 16) & 0xff) * rest) / 255;
      pixels[at] = (255 << 24) | (blue << 16) | (green << 8) | red;
    }
  }

  function thumbSide(inView) {
    if (!data.sheets.count || !inView || inView > 1500) return 0;
    const room = Math.sqrt((width * height) / inView) * 1.15;
    return [96, 72, 54].find((side) => side <= room) ?? 40;
  }

  function claimed(side) { // one thumbnail for each square of a grid that moves with the map, so that it does not flicker
    const taken = new Set(), chosen = new Set();
    for (const i of visible) {
      const square = Math.floor((px[i] * view.scale) / side) * 65_536 + Math.floor((py[i] * view.scale) / side);
      if (taken.has(square)) continue;
      taken.add(square);
      chosen.add(i);
    }
    return chosen;
  }

  function thumb(to, i, side, r) {
    const per = data.sheets.side ** 2;
    const sheet = sheetOf(sheetNumber(i));
    const inner = side - 6;
    const x = px[i] * view.scale + view.x - inner / 2, y = py[i] * view.scale + view.y - inner / 2;
    if (!sheet) {
      path(to, shapeOf(valueOf(i)), x + inner / 2, y + inner / 2, r);
      to.fillStyle = colourOf(valueOf(i));
      return to.fill();
    }
    const cell = data.sheets.cell, place = i % per;
    to.fillStyle = colourOf(valueOf(i));
    to.fillRect(x - 2, y - 2, inner + 4, inner + 4);
    to.drawImage(sheet, (place % data.sheets.side) * cell, Math.floor(place / data.sheets.side) * cell, cell, cell, x, y, inner, inner);
    if (data.groups[i] >= 0) { path(to, 0, x + inner - 8, y + 8, 5); to.fillStyle = colours.paper; to.fill(); to.lineWidth = 2; to.strokeStyle = colours.ink; to.stroke(); }
    if (picked[i]) { to.lineWidth = 4; to.strokeStyle = colours.ink; to.strokeRect(x, y, inner, inner); to.fillStyle = colours.ink; to.fillRect(x, y, 16, 16); to.fillStyle = colours.paper; to.font = "bold 12px system-ui, sans-serif"; to.fillText("✓", x + 3, y + 12.5); }
  }

  const sheetNumber = (i) => Math.floor(i / data.sheets.side ** 2);

  function sheetOf(number) {
    const held = sheets.get(number);
    if (held) {
      sheets.delete(number);
      sheets.set(number, held);
      return held.complete && held.naturalWidth ? held : null;
    }
    if (!waiting.includes(number)) waiting.push(number);
    waiting = waiting.slice(-SHEETS);
    next();
    return null;
  }

  function next() {
    while (loading < LOADING && waiting.length && alive()) {
      const number = waiting.pop(); // what was wanted last is what is seen now
      const image = new Image();
      loading++;
      image.onload = image.onerror = () => { loading--; next(); draw(true); };
      image.src = `${root.dataset.sheets}${number}?model=${encodeURIComponent(root.dataset.model)}`;
      sheets.set(number, image);
      for (const oldest of sheets.keys()) if (sheets.size > SHEETS) sheets.delete(oldest); else break;
    }
  }

  function highlight(i, r) {
    const x = px[i] * view.scale + view.x, y = py[i] * view.scale + view.y;
    if (data.groups[i] >= 0) { // lines to the near-duplicates of the one that is looked at
      context.strokeStyle = colours.ink;
      context.lineWidth = 1.5;
      context.beginPath();
      let n = 0;
      for (let other = 0; other < px.length && n < 200; other++) if (other !== i && data.groups[other] === data.groups[i]) { n++; context.moveTo(x, y); context.lineTo(px[other] * view.scale + view.x, py[other] * view.scale + view.y); }
      context.stroke();
    }
    context.lineWidth = 3;
    context.strokeStyle = colours.accent;
    context.beginPath();
    if (r > 12) context.rect(x - r, y - r, 2 * r, 2 * r);
    else context.arc(x, y, r + 6, 0, 2 * Math.PI);
    context.stroke();
  }

  function outline() {
    context.beginPath();
    if (mode === "box" || line.box) { const [a, b] = [line.points[0], line.points.at(-1)]; context.rect(a[0], a[1], b[0] - a[0], b[1] - a[1]); }
    else { line.points.forEach(([x, y], n) => (n ? context.lineTo(x, y) : context.moveTo(x, y))); context.closePath(); }
    context.fillStyle = colours.accent;
    context.globalAlpha = 0.14;
    context.fill("evenodd");
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.setLineDash([6, 4]);
    context.strokeStyle = colours.accent;
    context.stroke();
    context.setLineDash([]);
  }

  // Where one looks
  function resize() {
    const box = canvas.getBoundingClientRect();
    const [w, h] = [width, height];
    width = box.width;
    height = box.height;
    if (ratio !== Math.min(2, devicePixelRatio || 1)) sprites.clear();
    ratio = Math.min(2, devicePixelRatio || 1);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    if (w) { view.x += (width - w) / 2; view.y += (height - h) / 2; }
    layer.stale = true;
    if (data) paint();
  }

  function fit() {
    let [left, right, top, bottom] = [1, 0, 1, 0];
    for (let i = 0; i < px.length; i++) if (shown(i)) { left = Math.min(left, px[i]); right = Math.max(right, px[i]); top = Math.min(top, py[i]); bottom = Math.max(bottom, py[i]); }
    if (right < left) [left, right, top, bottom] = [0, 1, 0, 1];
    const pad = 28;
    view.fit = view.scale = Math.min((width - 2 * pad) / Math.max(right - left, 1e-3), (height - 2 * pad) / Math.max(bottom - top, 1e-3), 4e4);
    view.x = width / 2 - ((left + right) / 2) * view.scale;
    view.y = height / 2 - ((top + bottom) / 2) * view.scale;
    draw();
  }

  function zoom(by, x = width / 2, y = height / 2) {
    const scale = Math.min(view.fit * 400, Math.max(view.fit * 0.5, view.scale * by));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    moveTip();
    draw();
  }

  function pan(x, y) {
    view.x = Math.min(width * 0.9, Math.max(width * 0.1 - view.scale, view.x + x));
    view.y = Math.min(height * 0.9, Math.max(height * 0.1 - view.scale, view.y + y));
    moveTip();
    draw();
  }

  // The item at a point, and what is said of it
  function nearest(x, y, within) {
    let best = -1, least = Math.max(within, layer.side / 2) ** 2;
    for (const i of visible) {
      const d = (px[i] * view.scale + view.x - x) ** 2 + (py[i] * view.scale + view.y - y) ** 2;
      if (d < least) { best = i; least = d; }
    }
    return best;
  }

  function showTip(i, held = false) {
    tip.classList.toggle("held", held);
    if (i < 0) { tip.hidden = true; return; }
    if (tip.dataset.item !== String(i)) {
      tip.dataset.item = i;
      tip.replaceChildren();
      if (data.sheets.count) {
        const image = new Image();
        image.alt = "";
        image.src = `/thumbnails/${data.positions[i]}`;
        tip.append(image);
      }
      const name = document.createElement("b");
      name.textContent = data.ids[i];
      const about = document.createElement("span");
      const twins = data.groups[i] < 0 ? 0 : data.groups.filter((group) => group === data.groups[i]).length - 1;
      about.textContent = [column >= 0 && valueOf(i) >= 0 ? data.columns[column].values[valueOf(i)] : "", twins ? `${twins} near-duplicate${twins > 1 ? "s" : ""}` : ""].filter(Boolean).join(" · ");
      const acts = document.createElement("div");
      acts.className = "acts";
      const open = document.createElement("a");
      open.href = addressOf(i);
      open.textContent = "Look-alikes";
      const pick = document.createElement("button");
      pick.type = "button";
      pick.className = "plain";
      pick.addEventListener("click", () => toggle(i));
      acts.append(open, pick);
      tip.append(name, about, acts);
      if (window.htmx) htmx.process(acts);
    }
    const pick = tip.querySelector("button");
    pick.textContent = picked[i] ? "Take out" : "Select";
    pick.setAttribute("aria-pressed", String(Boolean(picked[i])));
    tip.hidden = false;
    moveTip();
  }

  function moveTip() {
    if (tip.hidden) return;
    const i = Number(tip.dataset.item);
    const x = px[i] * view.scale + view.x, y = py[i] * view.scale + view.y;
    if (x < 0 || y < 0 || x > width || y > height) { tip.hidden = true; return; }
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 18, width - box.width - 4))}px`;
    tip.style.top = `${Math.max(4, y + 18 + box.height > height ? y - box.height - 18 : y + 18)}px`;
  }

  const addressOf = (i) => { const to = new URL(root.dataset.item, location.href); to.searchParams.set("item", data.ids[i]); return to.pathname + to.search; };

  function open(i) {
    const link = document.createElement("a");
    link.href = addressOf(i);
    root.append(link);
    if (window.htmx) htmx.process(link);
    link.click();
    link.remove();
  }

  const toggle = (i) => basket[picked[i] ? "remove" : "add"]([data.ids[i]]);

  function focusOn(i) {
    focused = i;
    if (i < 0) { tip.hidden = true; draw(); return; }
    const x = px[i] * view.scale + view.x, y = py[i] * view.scale + view.y;
    if (x < 30 || y < 30 || x > width - 30 || y > height - 30) pan(width / 2 - x, height / 2 - y);
    showTip(i, true);
    const value = valueOf(i);
    find("#said").textContent = `${data.ids[i]}${value >= 0 ? `, ${data.columns[column].values[value]}` : ""}${data.groups[i] >= 0 ? ", has near-duplicates" : ""}${picked[i] ? ", selected" : ""}`;
    draw();
  }

  function step([dx, dy]) {
    if (focused < 0 || !shown(focused)) return focusOn(nearest(width / 2, height / 2, Math.hypot(width, height)));
    let best = -1, least = Infinity;
    for (let i = 0; i < px.length; i++) {
      if (i === focused || !shown(i)) continue;
      const x = (px[i] - px[focused]) * dx + (py[i] - py[focused]) * dy;
      const off = Math.abs((px[i] - px[focused]) * dy) + Math.abs((py[i] - py[focused]) * dx);
      if (x <= 0 || off > x) continue;
      const cost = x + 2 * off;
      if (cost < least) { least = cost; best = i; }
    }
    if (best >= 0) focusOn(best);
  }

  // Selecting
  function within(points, box) {
    if (box) {
      const [[ax, ay], [bx, by]] = [points[0], points.at(-1)];
      return (x, y) => x >= Math.min(ax, bx) && x <= Math.max(ax, bx) && y >= Math.min(ay, by) && y <= Math.max(ay, by);
    }
    return (x, y) => {
      let inside = false;
      for (let i = 0, j = points.length - 1; i < points.length; j = i++) {
        const [xi, yi] = points[i], [xj, yj] = points[j];
        if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
      }
      return inside;
    };
  }

  function select(inside, takeOut) {
    const found = visible.filter((i) => { const x = px[i] * view.scale + view.x, y = py[i] * view.scale + view.y; return x >= 0 && y >= 0 && x <= width && y <= height && inside(x, y); });
    if (!found.length) return;
    basket[takeOut ? "remove" : "add"](found.map((i) => data.ids[i]));
    find("#said").textContent = `${found.length.toLocaleString("en")} items ${takeOut ? "taken out of" : "put into"} the basket`;
  }

  // Mouse, touch and pen
  const pointers = new Map();
  let start = null, moved = false, pinch = 0;
  const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };

  canvas.addEventListener("pointerdown", (event) => {
    if (!data || event.button > 0) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    moved = false;
    start = at(event);
    if (pointers.size === 2) { line = null; pinch = spread(); }
    else if (mode !== "move" || event.shiftKey) line = { points: [start], box: mode === "box", takeOut: event.altKey };
  });

  const spread = () => { const [a, b] = [...pointers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };

  canvas.addEventListener("pointermove", (event) => {
    if (!data) return;
    const here = at(event);
    if (!pointers.has(event.pointerId)) {
      if (event.pointerType === "touch") return;
      const i = nearest(...here, 12);
      if (i !== hovered) { hovered = i; focused = -1; showTip(i); canvas.classList.toggle("over", i >= 0); draw(); }
      return;
    }
    const [ox, oy] = pointers.get(event.pointerId);
    pointers.set(event.pointerId, here);
    if (Math.hypot(here[0] - start[0], here[1] - start[1]) > 4) moved = true;
    if (pointers.size === 2) {
      const now = spread(), [a, b] = [...pointers.values()];
      pan((here[0] - ox) / 2, (here[1] - oy) / 2);
      zoom(now / Math.max(pinch, 1), (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
      pinch = now;
    } else if (line) { line.points.push(here); line.takeOut = event.altKey; draw(); }
    else if (moved) { if (!tip.classList.contains("held")) tip.hidden = true; pan(here[0] - ox, here[1] - oy); }
  });

  function release(event) {
    if (!pointers.delete(event.pointerId)) return;
    if (line && event.type === "pointerup") {
      if (moved) select(within(line.points, line.box), line.takeOut);
      line = null;
      draw();
      if (moved) return;
    }
    if (event.type !== "pointerup" || moved || pointers.size) return;
    const i = nearest(...at(event), event.pointerType === "touch" ? 22 : 12);
    if (event.shiftKey || mode !== "move") { if (i >= 0) toggle(i); }
    else if (event.pointerType === "touch") { focused = i; focusOn(i); }
    else if (i >= 0) open(i);
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { if (hovered >= 0 && !tip.classList.contains("held")) { hovered = -1; tip.hidden = true; draw(); } });
  canvas.addEventListener("dblclick", (event) => zoom(2, ...at(event)));
  canvas.addEventListener("wheel", (event) => {
    if (!data) return;
    event.preventDefault();
    zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY * (event.deltaMode ? 30 : 1))) / 300), ...at(event));
  }, { passive: false });

  // Buttons and keys
  function setMode(name) {
    mode = name;
    canvas.dataset.mode = name;
    for (const button of root.querySelectorAll("[data-mode]")) if (button !== canvas) button.setAttribute("aria-pressed", String(button.dataset.mode === name));
  }
  const zooms = { in: () => zoom(1.5), out: () => zoom(1 / 1.5), fit };
  const selectView = (takeOut = false) => select(() => true, takeOut);
  root.querySelector(".mapbar").addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button || !data) return;
    if (button.dataset.mode) setMode(button.dataset.mode);
    if (button.dataset.zoom) zooms[button.dataset.zoom]();
    if ("all" in button.dataset) selectView();
  });
  root.querySelector("[data-colour]").addEventListener("change", ({ target }) => { column = Number(target.value); tip.dataset.item = ""; sprites.clear(); fillLegend(); draw(true); });
  canvas.addEventListener("keydown", (event) => {
    if (!data || event.ctrlKey || event.metaKey) return;
    const way = event.key.startsWith("Arrow") ? ways[event.key] : null;
    const acts = {
      "+": zooms.in, "=": zooms.in, "-": zooms.out, "−": zooms.out, 0: fit,
      m: () => setMode("move"), b: () => setMode("box"), f: () => setMode("lasso"), a: () => selectView(event.altKey),
      x: () => focused >= 0 && toggle(focused), " ": () => focused >= 0 && toggle(focused), Enter: () => focused >= 0 && open(focused),
    };
    const act = way ? () => (event.shiftKey ? pan(-80 * way[0], -80 * way[1]) : step(way)) : event.key === "Escape" && focused >= 0 ? () => focusOn(-1) : acts[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });

  document.addEventListener("basket", marks);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (alive()) { theme(); if (data) fillLegend(); } });
  new ResizeObserver(() => { if (alive()) resize(); }).observe(canvas);
  theme();
  resize();
  load();
  root.view = () => ({ ...view, items: visible.length, points: data?.ids.map((id, i) => [id, px[i] * view.scale + view.x, py[i] * view.scale + view.y]) ?? [], sheets: sheets.size, loading }); // for tests
}

document.addEventListener("htmx:afterSettle", startMap);
// What htmx keeps of a page is its text: without the tip's place, which it could not set again, and to be started anew.
document.addEventListener("htmx:beforeHistorySave", () => {
  const root = find("#map");
  if (!root) return;
  root.querySelector(".tip").removeAttribute("style");
  root.querySelector(".tip").hidden = true;
  for (const option of root.querySelectorAll('[data-colour] option:not([value="-1"])')) option.remove();
  delete root.dataset.started;
  delete root.dataset.ready;
});
document.addEventListener("htmx:historyRestore", startMap);
startMap();
