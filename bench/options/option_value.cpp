// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "base/error.h"
#include "base/nearest_name.h"
#include "bench/options/option_injection.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

constexpr const char* kOrList = " (or a list of them)";

std::string shown(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

[[noreturn]] void refuse(const OptionDefinition& definition, const json& value,
                         const std::string& where, const std::string& hint = "") {
  throw ConfigError(fmt::format("{}: expected {}, got {}.{}", where, expectation(definition),
                                shown(value), hint));
}

// Options travel to the ranks and into the report as JSON, which holds nothing else.
bool is_utf8(const json& value) {
  try {
    value.dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

// The whole text as a T, else as a string that set_value refuses.
template <typename T>
json number_from_text(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec == std::errc{} && result.ptr == end) return value;
  return text;
}

template <typename T>
json numbers_from_text(const std::string& text) {
  json list = json::array();
  for (const std::string& part : split(text, ',')) list.push_back(number_from_text<T>(part));
  return list;
}

json gpus_from_text(const std::string& text) {
  if (text == "all") return text;
  return numbers_from_text<std::int64_t>(text);
}

json switch_from_text(const std::string& text) {
  if (text == "on" || text == "off") return text == "on";
  return text;
}

json switches_from_text(const std::string& text) {
  json list = json::array();
  for (const std::string& part : split(text, ',')) list.push_back(switch_from_text(part));
  return list;
}

std::string bounds(const ValueRule& rule, const std::string& noun) {
  std::string text = noun;
  if (rule.above_minimum)
    text += fmt::format(" above {}", rule.minimum);
  else if (std::isfinite(rule.minimum))
    text += fmt::format(" from {}", rule.minimum);
  if (std::isfinite(rule.maximum))
    text += fmt::format(" {} {:.15g}", rule.below_maximum ? "below" : "to", rule.maximum);
  return text;
}

bool within(const ValueRule& rule, double value) {
  if (!std::isfinite(value)) return false;
  if (rule.above_minimum ? value <= rule.minimum : value < rule.minimum) return false;
  return rule.below_maximum ? value < rule.maximum : value <= rule.maximum;
}

// Into T, which the bounds and T itself must allow.
template <typename T>
T whole_number(const OptionDefinition& definition, const json& value, const std::string& where) {
  if (!value.is_number_integer() || !within(definition.rule, value.get<double>()))
    refuse(definition, value, where);
  const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                               : std::in_range<T>(value.get<std::int64_t>());
  if (!fits) refuse(definition, value, where);
  return value.get<T>();
}

double real_number(const OptionDefinition& definition, const json& value,
                   const std::string& where) {
  if (!value.is_number() || !within(definition.rule, value.get<double>()))
    refuse(definition, value, where);
  return value.get<double>();
}

std::string name_or_text(const OptionDefinition& definition, const json& value,
                         const std::string& where) {
  if (!value.is_string()) refuse(definition, value, where);
  const auto text = value.get<std::string>();
  const ValueRule& rule = definition.rule;
  if (std::ranges::count(rule.absent, text) != 0)
    throw UnavailableError(fmt::format("{}: {} is not in this build, which has {}.", where, text,
                                       fmt::join(rule.choices, ", ")));
  if (rule.choices.empty() ? text.empty() : std::ranges::count(rule.choices, text) == 0)
    refuse(definition, value, where, suggestion(text, rule.choices));
  return text;
}

// A single value stands for a list of one.
std::vector<json> entries(const OptionDefinition& definition, const json& value,
                          const std::string& where) {
  if (!value.is_array()) return {value};
  if (value.empty()) refuse(definition, value, where);
  return {value.begin(), value.end()};
}

bool truth(const OptionDefinition& definition, const json& value, const std::string& where) {
  if (!value.is_boolean()) refuse(definition, value, where);
  return value.get<bool>();
}

// "2%".
Percent percent(const OptionDefinition& definition, const json& value, const std::string& where) {
  const auto text = value.is_string() ? value.get<std::string>() : std::string();
  if (!text.ends_with('%')) refuse(definition, value, where);
  const json number = number_from_text<double>(text.substr(0, text.size() - 1));
  if (!number.is_number() || !within(definition.rule, number.get<double>()))
    refuse(definition, value, where);
  return {number.get<double>()};
}

std::string percent_text(const Percent& percent) { return fmt::format("{}%", percent.value); }

template <typename T>
void refuse_duplicates(const std::vector<T>& list, const std::string& where) {
  std::set<T> seen;
  for (const T& entry : list)
    if (!seen.insert(entry).second)
      throw ConfigError(
          fmt::format("{}: {} is listed twice. --repetitions repeats runs.", where, entry));
}

void set_gpus(Options& options, const OptionDefinition& definition, const json& value,
              const std::string& where) {
  options.all_gpus = value == "all";
  options.gpus.clear();
  if (options.all_gpus) return;
  for (const json& entry : entries(definition, value, where))
    options.gpus.push_back(whole_number<int>(definition, entry, where));
  refuse_duplicates(options.gpus, where);
}

// Every entry as `read` takes it; no two the same.
template <typename T, typename Read>
std::vector<T> list_of(Read read, const OptionDefinition& definition, const json& value,
                       const std::string& where) {
  std::vector<T> list;
  for (const json& entry : entries(definition, value, where))
    list.push_back(read(definition, entry, where));
  refuse_duplicates(list, where);
  return list;
}

std::vector<Injection> injections(const OptionDefinition& definition, const json& value,
                                  const std::string& where) {
  std::vector<Injection> list;
  for (const json& entry : entries(definition, value, where)) {
    if (!entry.is_string()) refuse(definition, value, where);
    list.push_back(parse_injection(entry.get<std::string>(), where));
  }
  return list;
}

// As get_value, but a list is always an array; an empty one is not set.
json member_value(const Options& options, const OptionDefinition& definition) {
  return std::visit(
      Overloaded{
          [&](NoMember) -> json { return nullptr; },
          [&](GpuList) -> json { return options.gpus.empty() ? json("all") : json(options.gpus); },
          [&](std::string Options::*member) -> json {
            return (options.*member).empty() ? json(nullptr) : json(options.*member);
          },
          [&](std::vector<Injection> Options::*member) -> json {
            json list = json::array();
            for (const Injection& injection : options.*member) list.push_back(injection.text);
            return list.empty() ? json(nullptr) : list;
          },
          [&](std::optional<std::int64_t> Options::*member) -> json {
            return options.*member ? json(*(options.*member)) : json(nullptr);
          },
          [&](std::optional<Percent> Options::*member) -> json {
            return options.*member ? json(percent_text(*(options.*member))) : json(nullptr);
          },
          [&](std::vector<std::int64_t> Options::*member) -> json {
            return (options.*member).empty() ? json(nullptr) : json(options.*member);
          },
          [&](auto member) -> json { return options.*member; },
      },
      definition.member);
}

}  // namespace

json value_from_text(const OptionDefinition& definition, const std::string& text) {
  return std::visit(
      Overloaded{
          [&](NoMember) -> json { return text; },
          [&](GpuList) -> json { return gpus_from_text(text); },
          [&](std::string Options::*) -> json { return text; },
          [&](std::vector<std::string> Options::*) -> json { return split(text, ','); },
          [&](std::vector<Injection> Options::*) -> json { return split(text, ';'); },
          [&](std::vector<bool> Options::*) { return switches_from_text(text); },
          [&](std::vector<int> Options::*) { return numbers_from_text<std::int64_t>(text); },
          [&](std::vector<std::int64_t> Options::*) {
            return numbers_from_text<std::int64_t>(text);
          },
          [&](std::vector<double> Options::*) { return numbers_from_text<double>(text); },
          [&](bool Options::*) { return switch_from_text(text); },
          [&](std::optional<Percent> Options::*) -> json { return text; },
          [&](int Options::*) { return number_from_text<std::int64_t>(text); },
          [&](std::uint64_t Options::*) { return number_from_text<std::uint64_t>(text); },
          [&](std::optional<std::int64_t> Options::*) {
            return number_from_text<std::int64_t>(text);
          },
          [&](double Options::*) { return number_from_text<double>(text); },
      },
      definition.member);
}

void set_value(Options& options, const OptionDefinition& definition, const json& value,
               const std::string& where) {
  if (!is_utf8(value)) refuse(definition, value, where, " It must be UTF-8.");
  std::visit(
      Overloaded{
          [&](NoMember) {},
          [&](GpuList) { set_gpus(options, definition, value, where); },
          [&](std::string Options::*member) {
            options.*member = name_or_text(definition, value, where);
          },
          [&](std::vector<std::string> Options::*member) {
            options.*member = list_of<std::string>(name_or_text, definition, value, where);
          },
          [&](std::vector<Injection> Options::*member) {
            options.*member = injections(definition, value, where);
          },
          [&](std::vector<bool> Options::*member) {
            options.*member = list_of<bool>(truth, definition, value, where);
          },
          [&](std::vector<int> Options::*member) {
            options.*member = list_of<int>(whole_number<int>, definition, value, where);
          },
          [&](std::vector<std::int64_t> Options::*member) {
            options.*member =
                list_of<std::int64_t>(whole_number<std::int64_t>, definition, value, where);
          },
          [&](std::vector<double> Options::*member) {
            options.*member = list_of<double>(real_number, definition, value, where);
          },
          [&](bool Options::*member) { options.*member = truth(definition, value, where); },
          [&](std::optional<Percent> Options::*member) {
            options.*member = percent(definition, value, where);
          },
          [&](int Options::*member) {
            options.*member = whole_number<int>(definition, value, where);
          },
          [&](std::uint64_t Options::*member) {
            options.*member = whole_number<std::uint64_t>(definition, value, where);
          },
          [&](std::optional<std::int64_t> Options::*member) {
            options.*member = whole_number<std::int64_t>(definition, value, where);
          },
          [&](double Options::*member) { options.*member = real_number(definition, value, where); },
      },
      definition.member);
}

json get_value(const Options& options, const OptionDefinition& definition) {
  const json value = member_value(options, definition);
  return definition.bare_when_single && value.size() == 1 ? value[0] : value;
}

std::string expectation(const OptionDefinition& definition) {
  const ValueRule& rule = definition.rule;
  const std::string choice = fmt::format("one of {}", fmt::join(rule.choices, ", "));
  return std::visit(
      Overloaded{
          [&](NoMember) -> std::string { return "no value"; },
          [&](GpuList) {
            return fmt::format("{} (one or a list), or all", bounds(rule, "whole numbers"));
          },
          [&](std::string Options::*) -> std::string {
            return rule.choices.empty() ? "text that is not empty" : choice;
          },
          [&](std::vector<std::string> Options::*) { return choice + " (or a list of them)"; },
          [&](std::vector<Injection> Options::*) -> std::string { return "faults as text"; },
          [&](std::vector<bool> Options::*) -> std::string {
            return "on or off (true or false in a configuration file), or both as a list";
          },
          [&](std::vector<int> Options::*) { return bounds(rule, "a whole number") + kOrList; },
          [&](std::vector<std::int64_t> Options::*) {
            return bounds(rule, "a whole number") + kOrList;
          },
          [&](std::vector<double> Options::*) { return bounds(rule, "a number") + kOrList; },
          [&](bool Options::*) -> std::string {
            return "on or off (true or false in a configuration file)";
          },
          [&](std::optional<Percent> Options::*) {
            return bounds(rule, "a share such as 2%,") + "%";
          },
          [&](double Options::*) { return bounds(rule, "a number"); },
          [&](auto) { return bounds(rule, "a whole number"); },
      },
      definition.member);
}

std::string default_text(const OptionDefinition& definition) {
  if (!definition.default_text.empty()) return definition.default_text;
  const json value = get_value(Options{}, definition);
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (!value.is_array()) return value.is_string() ? value.get<std::string>() : shown(value);
  std::vector<std::string> parts;
  for (const json& entry : value)
    parts.push_back(entry.is_string() ? entry.get<std::string>() : shown(entry));
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace ddpbench::bench
