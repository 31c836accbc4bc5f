#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests the pages that html_pages wrote into FOLDER with a strict XML reader."""

import pathlib
import sys
import unittest
import xml.etree.ElementTree as ElementTree

FOLDER = None


class WellFormed(unittest.TestCase):
    def pages(self):
        found = sorted(FOLDER.glob("*.html"))
        self.assertGreaterEqual(len(found), 4)
        for path in found:
            with self.subTest(page=path.name):
                yield ElementTree.parse(path).getroot()

    def test_only_own_references(self):
        for root in self.pages():
            for element in root.iter():
                for name, value in element.attrib.items():
                    if name in ("src", "href", "action", "data", "poster", "srcset"):
                        self.assertTrue(value.startswith("#") or value == "data:,", value)
                    self.assertFalse(name.startswith("on") or name == "style", name)

    def test_ids_are_unique_and_references_lead_somewhere(self):
        for root in self.pages():
            ids = [element.get("id") for element in root.iter() if element.get("id")]
            self.assertEqual(len(ids), len(set(ids)))
            for element in root.iter():
                names = (element.get("aria-labelledby") or "").split()
                names += [element.get("href", "")[1:]] if element.tag == "a" else []
                for name in names:
                    self.assertIn(name, ids)

    def test_tables_have_headings_and_even_rows(self):
        for root in self.pages():
            for table in root.iter("table"):
                heads = table.findall("thead/tr/th")
                self.assertTrue(table.findtext("caption"))
                for head in heads:
                    self.assertEqual((head.get("scope"), head.get("aria-sort")), ("col", "none"))
                for row in table.findall("tbody/tr"):
                    self.assertEqual(len(list(row)), len(heads))
                    self.assertEqual(row[0].get("scope"), "row")

    def test_pictures_of_their_own_run_and_load_nothing(self):
        found = sorted(FOLDER.glob("*.svg"))
        self.assertGreaterEqual(len(found), 15)
        name = "{http://www.w3.org/2000/svg}"
        for path in found:
            with self.subTest(picture=path.name):
                root = ElementTree.parse(path).getroot()
                self.assertEqual(root.tag, name + "svg")
                self.assertEqual(root.get("viewBox"), f"0 0 {root.get('width')} {root.get('height')}")
                for element in root.iter():
                    self.assertIn(element.tag.removeprefix(name), (
                        "svg", "title", "desc", "style", "defs", "pattern", "g", "rect", "line", "path",
                        "text"))
                    for attribute in element.attrib:
                        self.assertFalse(attribute.startswith("on") or "href" in attribute, attribute)

    def test_headings_skip_no_level(self):
        for root in self.pages():
            levels = [int(element.tag[1]) for element in root.iter()
                      if element.tag in ("h1", "h2", "h3", "h4")]
            self.assertEqual(levels.count(1), 1)
            for before, after in zip(levels, levels[1:]):
                self.assertLessEqual(after, before + 1)

    def test_pictures_have_names(self):
        for root in self.pages():
            for picture in root.iter("svg"):
                if picture.get("aria-hidden") == "true":
                    continue
                self.assertEqual(picture.get("role"), "img")
                self.assertTrue(picture.findtext("title"))
                self.assertTrue(picture.findtext("desc"))


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv.pop(1))
    unittest.main()
