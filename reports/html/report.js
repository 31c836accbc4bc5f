// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the script of a page does. Without scripts the page reads the same: tables keep the report's
// order, and the browser's own tooltips show the values in pictures.
'use strict';

(function () {
  const root = document.documentElement;
  root.classList.add('js');

  // ---- colours: auto (those of the system), light or dark ----

  const themes = document.querySelectorAll('[data-theme]');

  function setTheme(name) {
    root.classList.toggle('light', name === 'light');
    root.classList.toggle('dark', name === 'dark');
    for (const button of themes) {
      button.setAttribute('aria-pressed', String(button.dataset.theme === name));
    }
  }

  for (const button of themes) {
    button.addEventListener('click', () => setTheme(button.dataset.theme));
  }

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
