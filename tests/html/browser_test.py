#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests the pages that html_pages wrote into FOLDER in headless Chromium.

    browser_test.py FOLDER [unittest arguments]

Exits with 77, which ctest shows as skipped, where Chromium is not installed."""

import pathlib
import sys
import time
import unittest

from browser import Browser, find_chromium

FOLDER = None
WIDTHS = (1280, 400)
PAGES = ("rich", "several", "hostile", "barren", "swept", "gated")

# The number of a column of the table of runs, by the words of its heading.
COLUMN = """(() => {
    const heads = [...document.querySelector('#runs table').querySelectorAll('thead th')];
    return heads.findIndex(head => head.textContent.trim() === %r) + 1;
})()"""

# Texts of pictures that overlap, or that the edge of the picture cuts.
TEXT_FAULTS = """(() => {
    const faults = [];
    for (const svg of document.querySelectorAll('.panels svg, svg.sheet')) {
        const edge = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll('text')]
            .map(text => ({words: text.textContent, box: text.getBoundingClientRect()}))
            .filter(text => text.box.width > 0);  // others are not shown
        for (const [i, {words, box}] of texts.entries()) {
            if (box.left < edge.left - 1 || box.right > edge.right + 1 ||
                box.top < edge.top - 1 || box.bottom > edge.bottom + 1) faults.push(`cut: ${words}`);
            for (const other of texts.slice(i + 1)) {
                const wide = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
                const high = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
                // A line's box is higher than its letters.
                if (wide > 1 && high > 0.25 * box.height) faults.push(`${words} | ${other.words}`);
            }
        }
    }
    return faults;
})()"""

# Elements that reach beyond the page and are not in a scrolling element.
TOO_WIDE = """[...document.querySelectorAll('body *')].filter(one => {
    const box = one.getBoundingClientRect();
    return box.width > 1 && box.right > innerWidth + 1 && !one.closest('.scroll, pre, .skip, svg');
}).map(one => one.tagName + '.' + one.getAttribute('class') + ': ' + one.textContent.slice(0, 60))"""

# Words whose contrast to their background is below 4.5 (WCAG 2, AA).
LOW_CONTRAST = """(() => {
    const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = colour => {
        const [r, g, b] = numbers(colour).map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = one => {
        for (; one; one = one.parentElement) {
            const colour = getComputedStyle(one).backgroundColor;
            if (numbers(colour).length === 3) return colour;
        }
        return 'rgb(255, 255, 255)';
    };
    const faults = new Set();
    for (const one of document.querySelectorAll('body *:not(script, title, desc)')) {
        const words = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
        if (!words || one.closest('#tip')) continue;
        const style = getComputedStyle(one);
        const [a, b] = [light(one.closest('svg') ? style.fill : style.color), light(behind(one))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) faults.add(`${one.tagName}.${one.getAttribute('class')} ${contrast}`);
    }
    return [...faults];
})()"""


class PageInBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(find_chromium())

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def open(self, name="rich", width=1280, scheme="light"):
        self.browser.size(width)
        self.browser.media(scheme=scheme)
        self.browser.open(FOLDER / f"{name}.html")

    def column(self, heading):
        """Returns the texts of a column of the table of runs, in the order shown."""
        number = self.browser.run(COLUMN % heading)
        self.assertGreater(number, 0, heading)
        return number, self.browser.run(
            "[...document.querySelector('#runs table').tBodies[0].rows]"
            f".map(row => row.cells[{number - 1}].textContent)")

    def assert_order(self, heading, state, direction):
        number, texts = self.column(heading)
        self.assertEqual(state, self.browser.run(
            f"document.querySelector('#runs th:nth-child({number})').getAttribute('aria-sort')"))
        missing = [not text[:1].isdigit() for text in texts]
        self.assertEqual(missing, sorted(missing), "missing values stand last")
        self.assertEqual(sum(missing), 1)  # repetitions of a setting are one row
        values = [float(text.split()[0]) for text in texts if text[:1].isdigit()]
        self.assertEqual(values, sorted(values, reverse=direction < 0))
        self.assertGreater(len(set(values)), 5)

    def test_loads_quietly_and_asks_the_network_for_nothing(self):
        for name in PAGES:
            self.open(name)
            self.browser.run("new Promise(done => setTimeout(done, 100))")
            self.assertEqual([], self.browser.complaints(), name)
            requests = [url for url in self.browser.requests() if url != "data:,"]
            self.assertEqual([(FOLDER / f"{name}.html").as_uri()], requests)
            self.assertTrue(self.browser.run("document.documentElement.classList.contains('js')"))

    def test_policy_stops_scripts_and_requests_that_are_not_the_page_s(self):
        self.open()
        stopped = self.browser.run("""new Promise(done => {
            const found = [];
            document.addEventListener('securitypolicyviolation', event => {
                found.push(event.effectiveDirective);
                if (found.length === 3) done(found.sort());
            });
            const script = document.createElement('script');
            script.textContent = 'window.broken = 1';
            document.body.append(script);
            new Image().src = 'http://127.0.0.1:9/image';
            fetch('http://127.0.0.1:9/data').catch(() => {});
        })""")
        self.assertEqual(["connect-src", "img-src", "script-src-elem"], stopped)
        self.assertFalse(self.browser.run("'broken' in window"))

    def test_hostile_text_stays_text(self):
        self.open("hostile")
        self.assertFalse(self.browser.run("'broken' in window"))
        self.assertEqual(0, self.browser.run("document.querySelectorAll('img').length"))
        self.assertIn("<script>window.broken=1</script>",
                      self.browser.run("document.body.innerText"))

    def test_a_click_sorts_by_number_and_the_next_one_turns_it_around(self):
        self.open()
        number, _ = self.column("samples/s")
        for state, direction in (("ascending", 1), ("descending", -1), ("ascending", 1)):
            self.browser.click(f"#runs th:nth-child({number}) button")
            self.assert_order("samples/s", state, direction)

    def test_keys_sort_too(self):
        self.open()
        number, _ = self.column("samples/s")
        self.browser.run(f"document.querySelector('#runs th:nth-child({number}) button').focus()")
        self.browser.press("Enter", "\r")
        self.assert_order("samples/s", "ascending", 1)
        self.browser.press(" ", " ")
        self.assert_order("samples/s", "descending", -1)

    def test_words_sort_as_words_and_one_column_at_a_time(self):
        self.open()
        number, before = self.column("strategy")
        rate, _ = self.column("samples/s")
        self.browser.click(f"#runs th:nth-child({rate}) button")
        self.browser.click(f"#runs th:nth-child({number}) button")
        self.assertEqual(sorted(before), self.column("strategy")[1])
        self.assertEqual(1, self.browser.run(
            "document.querySelectorAll('#runs th:not([aria-sort=none])[aria-sort]').length"))

    def test_tab_leads_to_the_summary_first(self):
        self.open()
        self.browser.press("Tab")
        self.assertEqual("#summary",
                         self.browser.run("document.activeElement.getAttribute('href')"))

    def test_values_show_beside_the_pointer(self):
        self.open()
        self.assertTrue(self.browser.run("document.getElementById('tip').hidden"))
        for shape, words in (("#scaling .panels .marker", "samples/s"),
                             ("#breakdown .panels .part", "of all parts"),
                             ("#steps .panels .hit", "median"),
                             ("#buckets .panels .hit", "transfer")):
            self.browser.move_to(shape)
            self.browser.wait("!document.getElementById('tip').hidden")
            self.assertIn(words, self.browser.run("document.getElementById('tip').textContent"))
            inside = self.browser.run("""(() => {
                const box = document.getElementById('tip').getBoundingClientRect();
                return box.left >= 0 && box.top >= 0 && box.right <= innerWidth &&
                    box.bottom <= innerHeight;
            })()""")
            self.assertTrue(inside, shape)
        self.browser.press("Escape")
        self.assertTrue(self.browser.run("document.getElementById('tip').hidden"))

    def test_legends_switch_lines_off_and_on(self):
        self.open()
        shown = ("[...document.querySelectorAll('#scaling .panels [data-s=\"2\"]')]"
                 ".map(one => getComputedStyle(one).display !== 'none')")
        others = shown.replace('"2"', '"1"')
        entry = "#scaling [data-toggle='2']"
        self.assertEqual([True, True], self.browser.run(shown))
        self.browser.click(entry)
        self.assertEqual([False, False], self.browser.run(shown))
        self.assertEqual([True, True], self.browser.run(others))
        self.assertEqual("false", self.browser.run(
            f"document.querySelector(\"{entry}\").getAttribute('aria-pressed')"))
        self.browser.click(entry)
        self.assertEqual([True, True], self.browser.run(shown))

    def background(self):
        return self.browser.run("getComputedStyle(document.body).backgroundColor")

    def test_colours_follow_the_system(self):
        self.open()
        light = self.background()
        self.open(scheme="dark")
        dark = self.background()
        self.assertNotEqual(light, dark)

    def test_nothing_is_cut_or_covers_something_else(self):
        for name in PAGES:
            for width in WIDTHS:
                with self.subTest(page=name, width=width):
                    self.open(name, width)
                    self.browser.run("document.querySelectorAll('details')"
                                     ".forEach(one => { one.open = true; })")
                    self.assertEqual([], self.browser.run(TOO_WIDE))
                    self.assertLessEqual(
                        self.browser.run("document.documentElement.scrollWidth"), width)
                    self.assertEqual([], self.browser.run(TEXT_FAULTS))

    def test_pictures_of_their_own_are_neither_cut_nor_covered(self):
        pictures = sorted(FOLDER.glob("*.svg"))
        self.assertGreaterEqual(len(pictures), 15)
        for path in pictures:
            with self.subTest(picture=path.name):
                self.browser.size(1280)
                self.browser.open(path)
                self.assertEqual([], self.browser.run(TEXT_FAULTS))
                self.assertGreater(self.browser.run("document.querySelectorAll('text').length"), 5)
                self.assertEqual("rgb(255, 255, 255)", self.browser.run(
                    "getComputedStyle(document.querySelector('.paper')).fill"))
                self.assertEqual([path.as_uri()],
                                 [url for url in self.browser.requests() if url != "data:,"])

    def widths(self, selector):
        """Returns how wide the contents of a scrolling element are, and how wide it is."""
        return self.browser.run(f"""(() => {{
            const box = document.querySelector('{selector}');
            return [box.scrollWidth, box.clientWidth];
        }})()""")

    def test_wide_tables_scroll_in_their_own_box_and_fade_where_more_is(self):
        self.open(width=400)
        wide, room = self.widths("#verification .scroll")
        self.assertGreater(wide, room)
        self.assertLess(room, 400)
        classes = "document.querySelector('#verification .scroll').className"
        self.browser.wait(f"{classes} === 'scroll more-right'")
        self.browser.run("document.querySelector('#verification .scroll').scrollLeft = 10000")
        self.browser.wait(f"{classes} === 'scroll more-left'")

    def test_all_of_the_runs_is_seen_at_once_with_their_options(self):
        for name, width in (("swept", 1280), ("swept", 400), ("rich", 1280), ("rich", 400)):
            with self.subTest(page=name, width=width):
                self.open(name, width)
                wide, room = self.widths("#runs .scroll")
                self.assertLessEqual(wide, room)
                cut = self.browser.run("""(() => {
                    const edge = document.querySelector('#runs .scroll').getBoundingClientRect();
                    return [...document.querySelectorAll('#runs tbody > tr > *')].filter(cell => {
                        const box = cell.getBoundingClientRect();
                        return box.width < 1 || box.right > edge.right + 1 ||
                            cell.scrollWidth > cell.clientWidth + 1;
                    }).map(cell => cell.textContent);
                })()""")
                self.assertEqual([], cut)
        options = self.browser  # of the last page in the loop there are none
        self.open("swept", 400)
        texts = options.run("[...document.querySelectorAll('#runs [data-label=strategy]')]"
                            ".map(one => one.innerText)")
        self.assertTrue(any("overlap off" in text for text in texts))

    def test_narrow_runs_are_cards_that_say_what_their_figures_are(self):
        self.open(width=400)
        label, left, value = self.browser.run("""(() => {
            const cell = document.querySelector('#runs td[data-label="samples/s"]');
            const before = getComputedStyle(cell, '::before');
            return [before.content, before.textAlign, cell.textContent];
        })()""")
        self.assertEqual((label, left), ('"samples/s"', "left"))
        self.assertTrue(value[:1].isdigit())
        number, _ = self.column("samples/s")
        self.browser.click(f"#runs th:nth-child({number}) button")
        self.assert_order("samples/s", "ascending", 1)

    # Of the first table: those that are folded away have rows with a place, too.
    SHOWN = ("[...document.querySelector('#runs table').querySelectorAll('tbody tr')]"
             ".filter(row => row.getBoundingClientRect().height > 0).length")

    def test_rows_are_filtered_by_their_words_and_hidden(self):
        self.open("swept")
        everything = self.browser.run(self.SHOWN)
        field = "document.querySelector('#runs .controls input')"

        def filter_by(text):
            self.browser.run(f"{field}.value = '{text}'; {field}.dispatchEvent(new Event('input'))")

        filter_by("ddp overlap off")
        off = self.browser.run(self.SHOWN)
        self.assertEqual(off, 8)
        self.assertEqual(f"{off} of {everything} rows", self.browser.run(
            "document.querySelector('#runs .controls .count').textContent"))
        self.browser.click("#runs tbody tr:not(.gone) .hide")
        self.assertEqual(off - 1, self.browser.run(self.SHOWN))
        number, _ = self.column("samples/s")
        self.browser.click(f"#runs th:nth-child({number}) button")
        self.assertEqual(off - 1, self.browser.run(self.SHOWN), "sorting shows nothing again")
        filter_by("")
        self.assertEqual(everything - 1, self.browser.run(self.SHOWN))
        self.browser.click("#runs .controls .all")
        self.assertEqual(everything, self.browser.run(self.SHOWN))
        filter_by("no such words")
        self.assertEqual(0, self.browser.run(self.SHOWN))

    def test_a_heading_sorts_wherever_it_is_hit(self):
        self.open()
        low = self.browser.run("""[...document.querySelectorAll('#runs thead th')].filter(head =>
            head.querySelector('button').getBoundingClientRect().height <
            head.getBoundingClientRect().height - 4).map(head => head.textContent)""")
        self.assertEqual([], low)

    def bars(self, figure):
        """Returns left and right of the shapes of a timeline, and the labels of its axis."""
        return self.browser.run(f"""(() => {{
            const svg = document.querySelector('#{figure} svg[data-zoom]');
            const shown = one => one.getBoundingClientRect().width > 0;
            return {{bars: [...svg.querySelectorAll('rect.part, rect.hit')].map(one =>
                        [one.x.baseVal.value, one.x.baseVal.value + one.width.baseVal.value]),
                    ticks: [...svg.querySelectorAll('text.tick')].filter(shown)
                        .map(one => one.textContent),
                    d: [...svg.querySelectorAll('path.thin')].map(one => one.getAttribute('d'))}};
        }})()""")

    def test_timelines_are_zoomed_by_buttons_and_shown_whole_again(self):
        self.open()
        for figure in ("buckets", "steps"):
            with self.subTest(figure=figure):
                whole = self.bars(figure)
                button = f"#{figure} .zoom button[title='Zoom in']"
                self.browser.click(button)
                zoomed = self.bars(figure)
                left, right, end = map(float, self.browser.run(
                    f"document.querySelector('#{figure} svg[data-zoom]').dataset.zoom").split())
                # The middle half fills the axis.
                def place(x):
                    return min(max(left + (x - left - (right - left) / 4) * 2, left), right)
                for before, after in zip(whole["bars"], zoomed["bars"]):
                    for a, b in zip(before, after):
                        self.assertAlmostEqual(place(a), b, delta=0.01)
                values = [float(label) for label in zoomed["ticks"][:-1]
                          if label.replace(".", "").isdigit()] or [0]
                numbers = [value for value in values if end / 4 <= value <= 3 * end / 4]
                self.assertGreaterEqual(len(numbers), 2)
                self.assertNotEqual(whole["ticks"], zoomed["ticks"])
                self.assertEqual([], self.browser.run(TEXT_FAULTS))
                self.browser.click(f"#{figure} .zoom button[title='Later']")
                self.assertNotEqual(zoomed, self.bars(figure))
                self.browser.click(f"#{figure} .zoom button:nth-child(5)")
                again = self.bars(figure)
                self.assertEqual(whole["ticks"], again["ticks"])
                for before, after in zip(whole["bars"], again["bars"]):
                    self.assertAlmostEqual(before[0], after[0], delta=0.01)
                self.assertTrue(self.browser.run(
                    f"document.querySelector(\"#{figure} .zoom button[title='Zoom out']\").disabled"))

    def test_a_drag_along_a_timeline_chooses_its_part(self):
        self.open()
        whole = self.bars("buckets")
        x, y, width = self.browser.run("""(() => {
            const svg = document.querySelector('#buckets svg[data-zoom]');
            svg.scrollIntoView({block: 'center', behavior: 'instant'});
            const box = svg.getBoundingClientRect();
            return [box.x, box.y + box.height / 2, box.width];
        })()""")
        for kind, share in (("mousePressed", 0.5), ("mouseMoved", 0.6), ("mouseMoved", 0.7),
                            ("mouseReleased", 0.7)):
            self.browser.send("Input.dispatchMouseEvent", type=kind, x=x + share * width, y=y,
                              button="left", buttons=1, clickCount=1)
        zoomed = self.bars("buckets")
        self.assertNotEqual(whole["ticks"], zoomed["ticks"])
        self.assertEqual(0, self.browser.run("document.querySelectorAll('.chosen').length"))
        self.browser.click("#buckets .zoom button:nth-child(5)")
        self.assertEqual(whole["ticks"], self.bars("buckets")["ticks"])

    def test_the_verdict_of_the_gate_is_seen_without_scrolling(self):
        self.open("gated")
        self.assertTrue(self.browser.run("""(() => {
            const box = document.querySelector('#summary .alert.bad strong').getBoundingClientRect();
            return box.top >= 0 && box.bottom < innerHeight;
        })()"""))

    def test_words_can_be_read_in_both_colours(self):
        for scheme in ("light", "dark"):
            self.open(scheme=scheme)
            self.browser.run("document.querySelectorAll('details')"
                             ".forEach(one => { one.open = true; })")
            self.assertEqual([], self.browser.run(LOW_CONTRAST), scheme)

    def test_paper_has_no_switches(self):
        self.open()
        self.browser.media("print", "dark")
        self.assertEqual("none", self.browser.run(
            "getComputedStyle(document.querySelector('nav')).display"))
        self.assertEqual("rgb(255, 255, 255)", self.background())

    def has_node(self, selector):
        """Whether the page has such a node, without running scripts. A page that loads replaces its
        document, and nodes of the old one are gone: ask again."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                root = self.browser.send("DOM.getDocument", depth=-1)["root"]["nodeId"]
                found = self.browser.send("DOM.querySelector", nodeId=root, selector=selector)
                if found["nodeId"] > 0:
                    return True
            except RuntimeError:
                pass
            time.sleep(0.05)
        return False

    def test_reads_without_scripts(self):
        self.browser.send("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.browser.size(1280)
            self.browser.events.clear()
            self.browser.send("Page.navigate", url=(FOLDER / "rich.html").as_uri())
            self.assertTrue(self.has_node("#scaling svg .marker title"),
                            "values are the browser's own tooltips")
        finally:
            self.browser.send("Emulation.setScriptExecutionDisabled", value=False)


if __name__ == "__main__":
    if find_chromium() is None:
        print("SKIPPED: Chromium is not installed (Debian: apt-get install chromium), so nothing "
              "was looked at in a browser.")
        sys.exit(77)
    FOLDER = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
