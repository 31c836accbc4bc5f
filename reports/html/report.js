// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the script of a page does. Without scripts the page reads the same: tables keep the report's
// order, and the browser's own tooltips show the values in pictures.
'use strict';

(function () {
  const root = document.documentElement;
  root.classList.add('js');

  // ---- tables: a click on a heading sorts, a second click reverses the order ----

  // The cell's sort number if it has one, otherwise its text; null when the value is missing.
  function sortKey(cell) {
    if (!cell || cell.classList.contains('missing')) return null;
    return 'v' in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
  }

  function compare(a, b) {
    if (typeof a === 'number' && typeof b === 'number') return a - b;
    return String(a).localeCompare(String(b), 'en', { numeric: true });
  }

  function sortBy(table, column, descending) {
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row) => ({ row, key: sortKey(row.cells[column]) }));
    rows.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
      return descending ? compare(b.key, a.key) : compare(a.key, b.key);
    });
    body.append(...rows.map((entry) => entry.row));
  }

  for (const table of document.querySelectorAll('table.sortable')) {
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      head.querySelector('button').addEventListener('click', () => {
        const descending = head.getAttribute('aria-sort') === 'ascending';
        for (const other of heads) other.setAttribute('aria-sort', 'none');
        head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
        sortBy(table, column, descending);
      });
    });
  }

  // ---- tables: rows can be filtered by their words, and hidden one by one ----

  const kFewRows = 8;  // shorter tables, but for those of the runs, need no filter

  function element(tag, classes, words) {
    const one = document.createElement(tag);
    one.className = classes;
    if (words) one.textContent = words;
    return one;
  }

  function makeButton(classes, words, label, action) {
    const button = element('button', classes, words);
    button.type = 'button';
    if (label) button.setAttribute('aria-label', label);
    if (label) button.title = label;
    button.addEventListener('click', action);
    return button;
  }

  // A row is shown when it has all words of the filter and was not hidden.
  function addRowControls(table) {
    const rows = Array.from(table.tBodies[0].rows);
    const words = rows.map((row) => row.textContent.toLowerCase());
    const hidden = new Set();
    const filter = element('input', '');
    filter.type = 'search';
    filter.placeholder = 'Filter rows';
    filter.setAttribute('aria-label', `Filter the rows of: ${table.caption.textContent}`);
    const count = element('span', 'count');
    count.setAttribute('role', 'status');

    function update() {
      const wanted = filter.value.toLowerCase().split(/\s+/);
      let shown = 0;
      rows.forEach((row, i) => {
        const here = !hidden.has(row) && wanted.every((word) => words[i].includes(word));
        row.classList.toggle('gone', !here);
        shown += here ? 1 : 0;
      });
      count.textContent = shown === rows.length ? '' : `${shown} of ${rows.length} rows`;
      all.hidden = shown === rows.length;
      hintAtMore(table.closest('.scroll'));
    }

    const all = makeButton('all', 'Show all', '', () => {
      hidden.clear();
      filter.value = '';
      update();
      filter.focus();
    });
    for (const row of rows) {
      const name = `Hide ${row.cells[0].textContent}`;
      row.cells[0].append(makeButton('hide', '', name, () => { hidden.add(row); update(); }));
    }
    filter.addEventListener('input', update);
    const controls = element('div', 'controls');
    controls.append(filter, count, all);
    table.closest('.scroll').before(controls);
    update();
  }

  // ---- wide tables fade out on the side where there is more of them ----

  function hintAtMore(box) {
    const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle('more-left', box.scrollLeft > 1);
    box.classList.toggle('more-right', rest > 1);
  }

  const boxes = document.querySelectorAll('.scroll');
  const sizes = new ResizeObserver((entries) => { for (const one of entries) hintAtMore(one.target); });
  for (const box of boxes) {
    box.addEventListener('scroll', () => hintAtMore(box), { passive: true });
    sizes.observe(box);
  }

  for (const table of document.querySelectorAll('table.sortable')) {
    const many = table.tBodies[0].rows.length > kFewRows;
    if (many || table.classList.contains('cards')) addRowControls(table);
  }

  // ---- timelines: all panels of a picture show the same part of their axes ----

  const kSmallestPart = 1 / 256;
  const kSvg = document.querySelector('svg').namespaceURI;
  let clips = 0;

  function svgElement(tag, attributes) {
    const one = document.createElementNS(kSvg, tag);
    for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
    return one;
  }

  // Round ticks of which at most six lie between two values.
  function ticksBetween(from, to) {
    const raw = (to - from) / 6;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const ticks = [];
    for (let i = Math.ceil(from / step - 1e-9); i * step <= to * (1 + 1e-12); ++i) {
      ticks.push({ value: i * step, label: (i * step).toFixed(digits) });
    }
    return ticks;
  }

  // What lies along the axis of a panel, with its places in the whole picture.
  function readTimeline(svg) {
    const [left, right, end] = svg.dataset.zoom.split(' ').map(Number);
    const names = Array.from(svg.querySelectorAll('text.tick'));
    names.pop();  // the axis's title
    const upright = (line) => line.x1.baseVal.value === line.x2.baseVal.value;
    const grid = Array.from(svg.querySelectorAll('line.axis, line.grid')).filter(upright);
    const rects = Array.from(svg.querySelectorAll('rect.part, rect.hit'), (shape) => (
      { shape, from: shape.x.baseVal.value, to: shape.x.baseVal.value + shape.width.baseVal.value }));
    const lines = Array.from(svg.querySelectorAll('line.whole, line.step'), (shape) => (
      { shape, at: shape.x1.baseVal.value }));
    const paths = Array.from(svg.querySelectorAll('path.band, path.thin, path.beyond'), (shape) => (
      { shape, d: shape.getAttribute('d') }));
    const clip = svgElement('clipPath', { id: `timeline-${++clips}` });
    clip.append(svgElement('rect', { x: left, y: 0, width: right - left,
      height: svg.viewBox.baseVal.height }));
    if (paths.length > 0) svg.prepend(clip);
    for (const { shape } of paths) shape.setAttribute('clip-path', `url(#${clip.id})`);
    const ticks = svgElement('g', { class: 'ticks' });
    grid[0].before(ticks);
    return { svg, left, right, end, names, grid, rects, lines, paths, ticks };
  }

  function drawTicks(timeline, place, from, to) {
    const { grid, names, ticks, left, right, end } = timeline;
    const whole = from === 0 && to === 1;
    for (const one of [...grid, ...names]) one.classList.toggle('gone', !whole);
    ticks.replaceChildren();
    if (whole) return;
    const [top, bottom] = [grid[0].y1.baseVal.value, grid[0].y2.baseVal.value];
    const y = names[0].y.baseVal.getItem(0).value;
    for (const { value, label } of ticksBetween(from * end, to * end)) {
      const x = place(left + (right - left) * value / end);
      ticks.append(svgElement('line', { x1: x, x2: x, y1: top, y2: bottom, class: 'grid' }));
      const room = 4 * label.length;  // half of a label's width, about
      const text = svgElement('text', { x: Math.min(Math.max(x, left + room), right - room), y,
        'text-anchor': 'middle', class: 'tick' });
      text.textContent = label;
      ticks.append(text);
    }
  }

  function drawTimeline(timeline, from, to) {
    const { left, right, rects, lines, paths } = timeline;
    const width = right - left;
    const place = (x) => left + (x - left - from * width) / (to - from);
    const inside = (x) => Math.min(Math.max(place(x), left), right);
    for (const one of rects) {
      one.shape.setAttribute('x', inside(one.from));
      one.shape.setAttribute('width', inside(one.to) - inside(one.from));
    }
    for (const one of lines) {
      const x = place(one.at);
      one.shape.classList.toggle('gone', x < left - 0.01 || x > right + 0.01);
      one.shape.setAttribute('x1', x);
      one.shape.setAttribute('x2', x);
    }
    for (const one of paths) {
      one.shape.setAttribute('d', one.d.replace(/([ML])(-?[\d.]+) /g,
        (_, pen, x) => `${pen}${place(Number(x)).toFixed(2)} `));
    }
    drawTicks(timeline, place, from, to);
  }

  // A drag along a panel chooses what is shown; `show` is called with its fractions of the panel.
  function chooseByDragging({ svg, left, right }, show) {
    let begin = null;
    const mark = svgElement('rect', { class: 'chosen', y: 0, height: svg.viewBox.baseVal.height });
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      return Math.min(Math.max((x - left) / (right - left), 0), 1);
    };
    const draw = (end) => {
      const width = right - left;
      mark.setAttribute('x', left + width * Math.min(begin, end));
      mark.setAttribute('width', width * Math.abs(end - begin));
    };
    svg.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      begin = at(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener('pointermove', (event) => {
      if (begin === null || Math.abs(at(event) - begin) < 0.02) return;
      svg.append(mark);
      draw(at(event));
    });
    const finish = (event) => {
      if (begin === null) return;
      const [from, to] = [begin, at(event)].sort((a, b) => a - b);
      begin = null;
      mark.remove();
      if (event.type === 'pointerup' && to - from >= 0.02) show(from, to);
    };
    svg.addEventListener('pointerup', finish);
    svg.addEventListener('pointercancel', finish);
  }

  function makeZoomable(figure) {
    const timelines = Array.from(figure.querySelectorAll('svg[data-zoom]'), readTimeline);
    let [from, to] = [0, 1];
    const controls = element('div', 'controls zoom');
    controls.setAttribute('role', 'group');
    controls.setAttribute('aria-label', 'Zoom');

    function show(newFrom, newTo) {
      const part = Math.min(Math.max(newTo - newFrom, kSmallestPart), 1);
      from = Math.min(Math.max(newFrom, 0), 1 - part);
      to = from + part;
      if (part === 1) [from, to] = [0, 1];
      for (const timeline of timelines) drawTimeline(timeline, from, to);
      narrower.disabled = part <= kSmallestPart;
      wider.disabled = whole.disabled = part === 1;
      earlier.disabled = from === 0;
      later.disabled = to >= 1 - 1e-12;
    }
    const move = (share) => () => show(from + share * (to - from), to + share * (to - from));
    const scale = (factor) => () => {
      const [middle, half] = [(from + to) / 2, factor * (to - from) / 2];
      show(middle - half, middle + half);
    };
    const narrower = makeButton('', '+', 'Zoom in', scale(0.5));
    const wider = makeButton('', '\u2212', 'Zoom out', scale(2));
    const earlier = makeButton('', '\u2039', 'Earlier', move(-0.5));
    const later = makeButton('', '\u203a', 'Later', move(0.5));
    const whole = makeButton('', 'Whole', '', () => show(0, 1));
    controls.append(narrower, wider, earlier, later, whole,
      element('span', 'count', 'or drag along a timeline'));
    figure.querySelector('.panels').before(controls);
    for (const timeline of timelines) {
      const inner = (a, b) => show(from + a * (to - from), from + b * (to - from));
      chooseByDragging(timeline, inner);
      timeline.svg.addEventListener('dblclick', () => show(0, 1));
    }
    show(0, 1);
  }

  for (const figure of document.querySelectorAll('figure.chart')) {
    if (figure.querySelector('svg[data-zoom]')) makeZoomable(figure);
  }

  // ---- legends: an entry switches its shapes on and off ----

  for (const figure of document.querySelectorAll('figure.chart')) {
    for (const button of figure.querySelectorAll('[data-toggle]')) {
      button.addEventListener('click', () => {
        const on = button.getAttribute('aria-pressed') !== 'true';
        button.setAttribute('aria-pressed', String(on));
        const shapes = figure.querySelectorAll(`[data-s="${button.dataset.toggle}"]`);
        for (const shape of shapes) shape.classList.toggle('off', !on);
      });
    }
  }

  // ---- values are shown beside the pointer ----

  const tip = document.getElementById('tip');

  // The browser's tooltips come late and are small: ours replace them. Screen readers get the same
  // text from aria-label.
  for (const title of document.querySelectorAll('figure.chart svg title')) {
    const shape = title.parentNode;
    if (shape.tagName === 'svg') {
      shape.setAttribute('aria-label', title.textContent);
      shape.removeAttribute('aria-labelledby');
    } else {
      shape.dataset.tip = title.textContent;
    }
    title.remove();
  }

  function place(x, y) {
    const box = tip.getBoundingClientRect();
    const gap = 14;
    const left = x + gap + box.width > root.clientWidth ? x - gap - box.width : x + gap;
    const top = y + gap + box.height > root.clientHeight ? y - gap - box.height : y + gap;
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${Math.max(top, 4)}px`;
  }

  function point(event) {
    const shape = event.target.closest ? event.target.closest('[data-tip]') : null;
    tip.hidden = shape === null;
    if (shape === null) return;
    tip.textContent = shape.dataset.tip;
    place(event.clientX, event.clientY);
  }

  document.addEventListener('pointermove', point);
  document.addEventListener('pointerdown', point);
  document.addEventListener('scroll', () => { tip.hidden = true; }, { passive: true });
  document.addEventListener('keydown', (event) => { if (event.key === 'Escape') tip.hidden = true; });

  // ---- printing unfolds the details ----

  let folded = [];
  window.addEventListener('beforeprint', () => {
    folded = Array.from(document.querySelectorAll('#details details:not([open])'));
    for (const one of folded) one.open = true;
  });
  window.addEventListener('afterprint', () => { for (const one of folded) one.open = false; });
})();
