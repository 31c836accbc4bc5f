// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/pictures/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddpbench::report::pictures {
namespace {

constexpr const char* kNarrowGap = "\u202F";  // keeps a number on one line

std::string with_gaps(std::string digits) {
  const std::size_t sign = digits.starts_with('-') ? 1 : 0;
  const std::size_t point = std::min(digits.find('.'), digits.size());
  if (point - sign <= 4) return digits;
  for (std::size_t at = point; at > sign + 3;) {
    at -= 3;
    digits.insert(at, kNarrowGap);
  }
  return digits;
}

// The smallest 1, 2, 2.5 or 5 times a power of ten that is at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    // With a tolerance, so that rounding does not skip a step that fits exactly.
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

int decimals_of(double step) {
  for (int decimals = 0; decimals < 9; ++decimals) {
    const double scaled = step * std::pow(10.0, decimals);
    if (std::abs(scaled - std::round(scaled)) < 1e-6 * scaled) return decimals;
  }
  return 9;
}

}  // namespace

Unit time_unit(double largest_s) {
  if (largest_s >= 10) return {"s", 1};
  if (largest_s >= 1e-3) return {"ms", 1e-3};
  return {"\u00B5s", 1e-6};
}

Unit memory_unit(double largest_bytes) {
  constexpr double kKibibyte = 1024;
  if (largest_bytes >= 10 * kKibibyte * kKibibyte * kKibibyte) {
    return {"GiB", kKibibyte * kKibibyte * kKibibyte};
  }
  if (largest_bytes >= kKibibyte * kKibibyte) return {"MiB", kKibibyte * kKibibyte};
  return {"KiB", kKibibyte};
}

Unit rate_unit() { return {"samples/s", 1}; }

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value) || std::abs(value) >= 1e15) return fmt::format("{:.3g}", value);
  return with_gaps(fmt::format("{:.{}f}", value, decimals));
}

std::string number(double value) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size < 1e-4) return fmt::format("{:.2e}", value);
  return fixed(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4);
}

std::string with_unit(double value, const Unit& unit) {
  return number(value / unit.size) + "\u00A0" + unit.name;
}

double Axis::position(double value) const {
  if (!logarithmic) return (value - begin) / (end - begin);
  return value > 0 ? std::log(value / begin) / std::log(end / begin) : 0;
}

Axis axis_to(double largest, const Unit& unit, int most_ticks) {
  const double top = largest > 0 && std::isfinite(largest) ? largest / unit.size : 1;
  const double step = round_step(top / most_ticks);
  const auto count = static_cast<int>(std::ceil(top / step - 1e-9));
  Axis axis;
  axis.end = step * count * unit.size;
  const int decimals = decimals_of(step);
  for (int i = 0; i <= count; ++i) {
    axis.ticks.push_back(step * i * unit.size);
    axis.labels.push_back(i == 0                        ? "0"
                          : step >= 1e15 || step < 1e-9 ? fmt::format("{:.3g}", step * i)
                                                        : fixed(step * i, decimals));
  }
  return axis;
}

Axis axis_between(double begin, double end, const Unit& unit, int most_ticks) {
  const double step = round_step((end - begin) / unit.size / most_ticks);
  const auto count = static_cast<int>((end - begin) / unit.size / step + 1e-9);
  Axis axis{begin, end, false, {}, {}};
  for (int i = 0; i <= count; ++i) {
    axis.ticks.push_back(begin + step * i * unit.size);
    axis.labels.push_back(fixed(axis.ticks.back() / unit.size, decimals_of(step)));
  }
  return axis;
}

Axis log_axis(double least, double largest, const Unit& unit, int most_ticks) {
  constexpr int kInDecade = 3;
  const auto tick = [](int i) {
    const int decade = static_cast<int>(std::floor(static_cast<double>(i) / kInDecade));
    constexpr double kFactors[kInDecade] = {1, 2, 5};
    return kFactors[i - decade * kInDecade] * std::pow(10.0, decade);
  };
  const auto decade_of = [](double value) {
    return static_cast<int>(std::floor(std::log10(value)));
  };
  const double low = least / unit.size, high = largest / unit.size;
  int first = kInDecade * (decade_of(low) - 1), last = kInDecade * decade_of(high);
  while (tick(first + 1) <= low) ++first;
  while (tick(last) < high) ++last;
  last = std::max(last, first + 1);
  int step = 1;
  if (last - first + 1 > most_ticks) {  // whole powers of ten, as few as needed
    first = decade_of(low) * kInDecade;
    const int decades = (last - first + kInDecade - 1) / kInDecade;
    step = kInDecade * ((decades + most_ticks - 2) / (most_ticks - 1));
    last = first + step * ((last - first + step - 1) / step);
  }
  Axis axis{tick(first) * unit.size, tick(last) * unit.size, true, {}, {}};
  for (int i = first; i <= last; i += step) {
    axis.ticks.push_back(tick(i) * unit.size);
    axis.labels.push_back(tick(i) >= 1 ? fixed(tick(i), 0) : fmt::format("{:.3g}", tick(i)));
  }
  return axis;
}

}  // namespace ddpbench::report::pictures
