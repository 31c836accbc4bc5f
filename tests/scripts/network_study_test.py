#!/usr/bin/env python3
# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Tests what scripts/network_study makes of reports: network_study/ has a few runs of a real study,
without what the tables do not read."""

import dataclasses
import json
import pathlib
import re
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
STUDY = HERE.parents[1] / "scripts" / "network_study"
sys.path.insert(0, str(STUDY))
import document  # noqa: E402
import figures  # noqa: E402
import measure  # noqa: E402
import plan  # noqa: E402
import tables  # noqa: E402

RECORDED = HERE / "network_study"
NETWORK = plan.Network("1gbit", "1 Gbit/s", "1gbit", [
    plan.Command("all-reduce-gloo", (4,), plan.ONE_BUCKET),
    plan.buckets(plan.WIDE, (2,), "1", ("5",)),
    plan.Command("servers", (4,), ("--strategy=ps",), servers=1)])
TCP = figures.tcp_rate("1gbit")


def recorded():
    return figures.read_reports(RECORDED, [NETWORK])


def cells(text, row):
    """The cells of a row of a table, below its head."""
    return [cell.strip() for cell in text.splitlines()[2 + row].strip("|").split("|")]


class Bounds(unittest.TestCase):
    def ps(self, **changes):
        run = next(run for run in recorded() if run.strategy == "ps")
        return dataclasses.replace(run, workers=4, gradient_bytes=1000, **changes)

    def test_an_all_reduce_moves_almost_twice_its_bytes(self):
        self.assertAlmostEqual(figures.all_reduce_bound(25e6, 4, 125e6), 0.3)

    def test_tcp_carries_less_than_the_link(self):
        self.assertAlmostEqual(TCP / 125e6, 1448 / 1514)

    def test_servers_of_their_own_share_what_all_workers_push(self):
        self.assertEqual(figures.push_bound(self.ps(servers=1, beside=False), 100), 40)
        self.assertEqual(figures.push_bound(self.ps(servers=2, beside=False), 100), 20)
        self.assertEqual(figures.push_bound(self.ps(servers=4, beside=False), 100), 10)

    def test_servers_beside_the_workers_keep_their_own_part(self):
        self.assertEqual(figures.push_bound(self.ps(servers=4, beside=True), 100), 7.5)

    def test_a_slow_worker_counts_where_it_takes_longer_than_the_servers(self):
        self.assertEqual(figures.push_bound(self.ps(servers=1, beside=False), 100, 10), 100)
        self.assertEqual(figures.push_bound(self.ps(servers=1, beside=False), 100, 50), 40)


class Overlap(unittest.TestCase):
    def run_with(self, *buckets):
        run = next(run for run in recorded() if run.command == "buckets")
        return dataclasses.replace(run, workers=2, buckets=tuple(
            tuple({"ready_s": ready, "bytes": size} for ready, size in worker)
            for worker in buckets))

    def test_only_what_ends_after_backward_is_exposed(self):
        # 2 (n-1)/n = 1: a bucket of 10 bytes takes a second at 10 bytes/s.
        run = self.run_with([(1, 10), (5, 10)])
        self.assertEqual(figures.predict_exposed(run, 10), 1)

    def test_a_bucket_waits_for_the_one_before_and_for_the_slowest_rank(self):
        run = self.run_with([(1, 30), (5, 10)], [(4, 30), (5, 10)])
        # The first takes from 4 to 7, of which backward hides 1; the second from 7 to 8.
        self.assertEqual(figures.predict_exposed(run, 10), 3)


class Tables(unittest.TestCase):
    def test_the_matrix_has_what_is_no_compute(self):
        row = cells(tables.matrix(recorded(), NETWORK), 1)
        run = tables.select(recorded(), strategy="ps")[0]
        rest = run.step_s - run.compute_s
        self.assertEqual(row[0], "`ps`, 1 server")
        share = f"{100 * 2 * 4 * run.gradient_bytes / TCP / rest:.1f} %"
        self.assertEqual(row[-1], f"{rest * 1e3:.0f} ({share})")

    def test_overlap_stands_beside_what_was_predicted(self):
        row = cells(tables.overlaps(recorded(), NETWORK), 0)
        self.assertEqual(row[:2], ["2", "5"])
        self.assertRegex(row[-1], r"^[+-]\d+\.\d %$")

    def test_targets_count_the_rows_that_reach_them(self):
        text = tables.targets(recorded(), [NETWORK])
        self.assertIn("1 Gbit/s, gloo", cells(text, 0)[0])
        self.assertEqual(cells(text, 0)[1], "no (yes)")
        self.assertRegex(cells(text, 1)[1], r"^in [01] of 1 rows")

    def test_targets_have_rows_of_every_network(self):
        other = plan.Network("other", "100 Mbit/s", "100mbit", NETWORK.commands)
        empty = plan.Network("empty", "no reports", "1gbit", [])
        runs = recorded() + [dataclasses.replace(run, network="other", gradient_bytes=2_700_000)
                             for run in recorded()]
        text = tables.targets(runs, [NETWORK, other, empty])
        self.assertEqual([cells(text, row)[0] for row in range(5)], [
            "all-reduce, 1 Gbit/s, gloo",  # of few bytes there is no target
            "exposed / predicted, 1 Gbit/s",
            "exposed / predicted, 100 Mbit/s",
            "in-cast / 2 n S/B, 1 Gbit/s",
            "in-cast / 2 n S/B, 100 Mbit/s"])
        self.assertEqual(len(text.splitlines()), 2 + 5)

    def test_what_was_not_measured_is_said(self):
        self.assertEqual(document.fill("{{matrix nowhere}}", [], [NETWORK]),
                         "(not measured)")

    def test_missing_times_are_no_zeros(self):
        self.assertEqual([tables.ms(None), tables.off_by(None, 1), tables.percent(None)], ["-"] * 3)


class Plan(unittest.TestCase):
    def test_every_report_has_a_name_of_its_own(self):
        for network in plan.networks() + plan.quick():
            names = [command.name for command in network.commands]
            self.assertEqual(len(names), len(set(names)), network.key)

    def test_the_text_names_tables_and_networks_that_there_are(self):
        keys = {network.key for network in plan.networks()}
        text = (STUDY / "template.md").read_text(encoding="utf-8")
        for word in re.findall(r"\{\{([^}]+)\}\}", text):
            name, *named = word.split()
            self.assertIn(name, document.TABLES)
            self.assertLessEqual(set(named), keys)

    def test_pictures_of_the_text_are_drawn(self):
        text = (STUDY / "template.md").read_text(encoding="utf-8")
        drawn = {f"network-study/{name}.svg" for name in document.CHARTS}
        self.assertEqual(set(re.findall(r"\]\((network-study/[^)]+)\)", text)), drawn)


class Quiet(unittest.TestCase):
    def test_waits_for_a_quiet_machine_but_not_for_ever(self):
        shares, seconds = iter([0.9, 0.5, 0.1]), iter(range(100))
        self.assertEqual(measure.await_quiet(60, lambda: next(shares), lambda: next(seconds)), 0.1)
        self.assertEqual(measure.await_quiet(3, lambda: 0.9, lambda: next(seconds)), 0.9)

    def test_finds_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            study = measure.Study(folder, "/bin/true", 3, 0)
            (study.folder / "1gbit").mkdir()
            study.report(NETWORK, NETWORK.commands[0]).write_text(json.dumps({}), encoding="utf-8")
            self.assertEqual(study.missing(NETWORK), NETWORK.commands[1:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
