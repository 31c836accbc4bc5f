// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers as pages and pictures show them, and axes with round ticks.
#pragma once

#include <string>
#include <vector>

namespace ddpbench::report::pictures {

// A unit that a picture or table counts in.
struct Unit {
  std::string name;  // "ms"
  double size = 1;   // in the report's unit: 1e-3 for ms in seconds
};
// The unit of time, of memory, in which `largest` has one to four digits before its point.
Unit time_unit(double largest_s);
Unit memory_unit(double largest_bytes);
Unit rate_unit();  // samples/s

// Three significant digits at least, thousands with a narrow gap: "1 103", "46.6", "0.0021".
std::string number(double value);
std::string with_unit(double value, const Unit& unit);  // "46.6 ms"
// Always in the same unit with the same decimals, for columns of a table.
std::string fixed(double value, int decimals);

struct Axis {
  double begin = 0, end = 1;  // in the report's unit, as the ticks
  bool logarithmic = false;
  std::vector<double> ticks;
  std::vector<std::string> labels;      // in the axis's unit
  double position(double value) const;  // 0 at the begin, 1 at the end
};
// From 0 to the first round number that is at least `largest`.
Axis axis_to(double largest, const Unit& unit, int most_ticks);
// Logarithmic, from the last 1, 2 or 5 times a power of ten that is at most `least` to the first
// one that is at least `largest`. REQUIRES: 0 < least <= largest, both finite.
Axis log_axis(double least, double largest, const Unit& unit, int most_ticks);

}  // namespace ddpbench::report::pictures
