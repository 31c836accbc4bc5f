// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Charts as gnuplot scripts, version 5.4 or newer, with their data inline: `gnuplot -d -` reads one
// on its standard input and writes the picture to its standard output. bench/commands/gnuplot.h
// runs it.
//
// Text from reports is never code there: it stands in single quotes, where gnuplot knows no
// escapes, variables or backquotes, without line breaks, and every terminal is set to `noenhanced`.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "reports/charts/chart_data.h"

namespace ddpbench::report {

enum class PictureFormat : std::uint8_t { svg, png, pdf };

struct PictureOptions {
  PictureFormat format = PictureFormat::svg;
  bool captions = true;      // title, subtitle and notes; a page may set them itself
  bool transparent = false;  // no white background (svg and png)
  std::string id = "chart";  // prefix of ids in svg: differs where a page holds several
};

// REQUIRES: chart.empty_reason is empty.
std::string gnuplot_script(const ScalingChart& chart, const PictureOptions& options);
std::string gnuplot_script(const StepsChart& chart, const PictureOptions& options);
std::string gnuplot_script(const BucketsChart& chart, const PictureOptions& options);
// Seconds as ms.
std::string breakdown_script(const StackedChart& chart, const PictureOptions& options);
// Bytes as MiB.
std::string memory_script(const StackedChart& chart, const PictureOptions& options);

}  // namespace ddpbench::report
