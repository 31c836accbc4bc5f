// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Inputs of pages, for the C++ tests and for the tests in a browser.
#pragma once

#include <map>
#include <string>

#include "reports/html/page.h"

namespace ddpbench::report::test {

// Has all parts of a page: four strategies on 1, 2 and 4 devices, two repetitions, buckets, memory
// and steps; runs that failed, were skipped or are oversubscribed.
HtmlInput rich_input();
// The same report twice, under two names.
HtmlInput several_input();
// Every text tries to break out: markup, quotes, control characters, bytes that are not UTF-8, long
// words, text that runs from right to left.
HtmlInput hostile_input();
// No run ended well.
HtmlInput barren_input();
// A report of `ddpbench tune` with warnings.
HtmlInput tuned_input();
// A report that is slower than its baseline, which lacks some of the runs.
HtmlInput gated_input();
// Two reports of a sweep, whose runs differ in the options of their strategy.
HtmlInput swept_input();
// A report of `ddpbench comm`, which has no runs.
HtmlInput comm_input();
// A thousand runs of ten thousand steps.
HtmlInput large_input();

// All inputs, by the names of their page files.
std::map<std::string, HtmlInput> all_inputs();

}  // namespace ddpbench::report::test
