// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers as text in pages and pictures, and axes with round ticks.
#pragma once

#include <string>
#include <vector>

namespace ddpbench::report::pictures {

// The unit in which a picture or table shows values.
struct Unit {
  std::string name;  // "ms"
  double size = 1;   // in the report's unit: 1e-3 for ms, as reports use seconds
};
// The unit of time or memory in which `largest` has about one to four digits before its point.
Unit time_unit(double largest_s);
Unit memory_unit(double largest_bytes);
Unit rate_unit();  // samples/s

// At least three significant digits from 0.01 on, with narrow gaps from five digits on: "11 030",
// "46.6".
std::string number(double value);
std::string with_unit(double value, const Unit& unit);  // "46.6 ms"
// With a fixed number of decimals, for columns of a table.
std::string fixed(double value, int decimals);

struct Axis {
  double begin = 0, end = 1;  // in the report's unit, like the ticks
  bool logarithmic = false;
  std::vector<double> ticks;
  std::vector<std::string> labels;      // in the axis's unit
  double position(double value) const;  // 0 at the beginning, 1 at the end
};
// An axis from 0 to the first round number that is at least `largest`.
Axis axis_to(double largest, const Unit& unit, int most_ticks);
// An axis from `begin` to `end` with round ticks; both should be multiples of such a step.
// REQUIRES: begin < end, both finite.
Axis axis_between(double begin, double end, const Unit& unit, int most_ticks);
// A logarithmic axis from the last 1, 2 or 5 times a power of ten that is at most `least` to the
// first one that is at least `largest`. REQUIRES: 0 < least <= largest, both finite.
Axis log_axis(double least, double largest, const Unit& unit, int most_ticks);

}  // namespace ddpbench::report::pictures
