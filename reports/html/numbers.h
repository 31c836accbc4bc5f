// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers as a page shows them, and axes with round ticks. Private to reports/.
#pragma once

#include <string>
#include <vector>

namespace ddpbench::report::html {

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

// From 0 to the first round number that is at least `largest`; all in `unit`.
struct Axis {
  double end = 1;  // in the report's unit
  std::vector<double> ticks;
  std::vector<std::string> labels;
  double position(double value) const { return value / end; }  // 0 to 1
};
Axis axis_to(double largest, const Unit& unit, int most_ticks);

}  // namespace ddpbench::report::html
