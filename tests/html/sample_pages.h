// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Inputs of pages, for the C++ tests and for those in a browser.
#pragma once

#include <map>
#include <string>

#include "reports/html/page.h"

namespace ddpbench::report::test {

// Everything a page has: four strategies on 1, 2 and 4 devices, two repetitions, buckets, memory,
// steps; runs that failed, were skipped, oversubscribed.
HtmlInput rich_input();
// The same twice, under two names.
HtmlInput several_input();
// Every text is an attempt to break out: markup, quotes, control characters, bytes that are not
// UTF-8, long words, text that runs from right to left.
HtmlInput hostile_input();
// Nothing ended well.
HtmlInput barren_input();
// A report of `ddpbench tune` whose figures are to be taken with caution.
HtmlInput tuned_input();
// Slower than its baseline, which lacks some of its runs.
HtmlInput gated_input();
// A report of `ddpbench comm`, which has no runs.
HtmlInput comm_input();
// A thousand runs of ten thousand steps.
HtmlInput large_input();

// By the name that the page's file gets.
std::map<std::string, HtmlInput> all_inputs();

}  // namespace ddpbench::report::test
