// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "bench/options/option_injection.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  // JSON has no nan, and writes -1 as -1.0.
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

[[noreturn]] void refuse(const OptionDefinition& definition, const json& value,
                         const std::string& where, const std::string& hint = "") {
  throw ConfigError(fmt::format("{}: expected {}, got {}.{}", where, expectation(definition),
                                shown(value), hint));
}

// Options travel to the ranks and into the report as JSON, which holds UTF-8 only.
bool is_utf8(const json& value) {
  try {
    value.dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

// Reads the whole text as a T, else returns it as a string, which set_value refuses.
template <typename T>
json number_from_text(const std::string& text) {
  if (const auto value = number_in<T>(text)) return *value;
  return text;
}

json switch_from_text(const std::string& text) {
  if (text == "on" || text == "off") return text == "on";
  return text;
}

template <typename T>
json entry_from_text(const std::string& text) {
  if constexpr (std::is_same_v<T, bool>) {
    return switch_from_text(text);
  } else if constexpr (std::is_same_v<T, std::uint64_t> || std::is_floating_point_v<T>) {
    return number_from_text<T>(text);
  } else if constexpr (std::is_integral_v<T>) {
    return number_from_text<std::int64_t>(text);
  } else {
    return text;
  }
}

template <typename T>
json list_from_text(const std::string& text) {
  json list = json::array();
  // The text of one fault has commas itself.
  for (const std::string& part : split(text, std::is_same_v<T, Injection> ? ';' : ','))
    list.push_back(entry_from_text<T>(std::string(trimmed(part))));
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

// Returns a T within the option's bounds and T's own.
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
  refuse_absent(definition, text, where);
  if (rule.choices.empty() ? text.empty() : std::ranges::count(rule.choices, text) == 0)
    refuse(definition, value, where, suggestion(text, rule.choices));
  return text;
}

// A single value stands for a list of one value.
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

// Reads "2%" and, as `check` does, "0.02". A number from 1 on without "%" would be all or
// more; who writes it most likely means percent.
Percent percent(const OptionDefinition& definition, const json& value, const std::string& where) {
  const auto text = value.is_string() ? value.get<std::string>() : std::string();
  const bool has_sign = text.ends_with('%');
  const json number = number_from_text<double>(text.substr(0, text.size() - (has_sign ? 1 : 0)));
  if (!number.is_number() || (!has_sign && number.get<double>() >= 1))
    refuse(definition, value, where);
  const double percent = number.get<double>() * (has_sign ? 1 : 100);
  if (!within(definition.rule, percent)) refuse(definition, value, where);
  return {percent};
}

// Values may repeat: channels are often alike.
PerChannel per_channel(const OptionDefinition& definition, const json& value,
                       const std::string& where) {
  PerChannel numbers;
  for (const json& entry : entries(definition, value, where))
    numbers.values.push_back(real_number(definition, entry, where));
  return numbers;
}

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

template <typename T>
T read_entry(const OptionDefinition& definition, const json& value, const std::string& where) {
  if constexpr (std::is_same_v<T, bool>) {
    return truth(definition, value, where);
  } else if constexpr (std::is_integral_v<T>) {
    return whole_number<T>(definition, value, where);
  } else if constexpr (std::is_floating_point_v<T>) {
    return real_number(definition, value, where);
  } else if constexpr (std::is_same_v<T, Percent>) {
    return percent(definition, value, where);
  } else if constexpr (std::is_same_v<T, PerChannel>) {
    return per_channel(definition, value, where);
  } else if constexpr (std::is_same_v<T, Injection>) {
    return parse_injection(name_or_text(definition, value, where), where);
  } else {
    return name_or_text(definition, value, where);
  }
}

template <typename T>
std::vector<T> read_list(const OptionDefinition& definition, const json& value,
                         const std::string& where) {
  std::vector<T> list;
  for (const json& entry : entries(definition, value, where)) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (definition.rule.takes_all && entry == "all") {
        list.insert(list.end(), definition.rule.choices.begin(), definition.rule.choices.end());
        continue;
      }
    }
    list.push_back(read_entry<T>(definition, entry, where));
  }
  if constexpr (!std::is_same_v<T, Injection>) refuse_duplicates(list, where);
  return list;
}

template <typename T>
json written(const T& value) {
  if constexpr (std::is_same_v<T, Percent>) {
    return fmt::format("{}%", value.value);
  } else if constexpr (std::is_same_v<T, Injection>) {
    return value.text;
  } else {
    return value;
  }
}
json written(const PerChannel& numbers) {
  if (numbers.values.empty()) return nullptr;
  return numbers.values.size() == 1 ? json(numbers.values[0]) : json(numbers.values);
}
// Values that are not set become null: empty text, an empty list, an empty optional.
json written(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }
template <typename T>
json written(const std::optional<T>& value) {
  return value ? written(*value) : json(nullptr);
}
template <typename T>
json written(const std::vector<T>& list) {
  json array = json::array();
  for (const T& entry : list) array.push_back(written(entry));
  return array.empty() ? json(nullptr) : array;
}

template <typename T>
std::string expected_entry(const ValueRule& rule) {
  if constexpr (std::is_same_v<T, bool>) {
    return "on or off (true or false in a configuration file)";
  } else if constexpr (std::is_integral_v<T>) {
    return bounds(rule, "a whole number");
  } else if constexpr (std::is_floating_point_v<T>) {
    return bounds(rule, "a number");
  } else if constexpr (std::is_same_v<T, Percent>) {
    return bounds(rule, "a share such as 2% or 0.02,") + "%";
  } else if constexpr (std::is_same_v<T, PerChannel>) {
    return bounds(rule, "a number") + ", or a list of one for each channel";
  } else if constexpr (std::is_same_v<T, Injection>) {
    return "faults as text";
  } else {
    if (rule.choices.empty()) return "text that is not empty";
    return fmt::format("one of {}{}", fmt::join(rule.choices, ", "), rule.takes_all ? ", all" : "");
  }
}

template <typename T>
std::string expected_list(const ValueRule& rule) {
  if constexpr (std::is_same_v<T, Injection>) return expected_entry<T>(rule);
  if constexpr (std::is_same_v<T, bool>) return expected_entry<T>(rule) + ", or both as a list";
  return expected_entry<T>(rule) + " (or a list of them)";
}

// What can be done with an option, by the type of its member: ValueType, or one of the two that
// stand for no single member.
template <typename T>
struct ValueType {
  T Options::*member;

  json from_text(const std::string& text) const {
    if constexpr (kIsList<T>) return list_from_text<EntryOf<T>>(text);
    return entry_from_text<EntryOf<T>>(text);
  }
  void set(Options& options, const OptionDefinition& definition, const json& value,
           const std::string& where) const {
    if constexpr (kIsList<T>) {
      options.*member = read_list<EntryOf<T>>(definition, value, where);
    } else {
      options.*member = read_entry<EntryOf<T>>(definition, value, where);
    }
  }
  json get(const Options& options) const { return written(options.*member); }
  void reset(Options& options) const { options.*member = Options().*member; }
  std::string expectation(const ValueRule& rule) const {
    if constexpr (kIsList<T>) return expected_list<EntryOf<T>>(rule);
    return expected_entry<EntryOf<T>>(rule);
  }
};

struct GpuListType {
  json from_text(const std::string& text) const {
    return text == "all" ? json(text) : list_from_text<std::int64_t>(text);
  }
  void set(Options& options, const OptionDefinition& definition, const json& value,
           const std::string& where) const {
    set_gpus(options, definition, value, where);
  }
  json get(const Options& options) const {
    return options.gpus.empty() ? json("all") : json(options.gpus);
  }
  void reset(Options&) const {}
  std::string expectation(const ValueRule& rule) const {
    return bounds(rule, "whole numbers") + " (one or a list), or all";
  }
};

struct NoMemberType {
  json from_text(const std::string& text) const { return text; }
  void set(Options&, const OptionDefinition&, const json&, const std::string&) const {}
  json get(const Options&) const { return nullptr; }
  void reset(Options&) const {}
  std::string expectation(const ValueRule&) const { return "no value"; }
};

template <typename Use>
auto with_type(const OptionDefinition& definition, Use use) {
  return std::visit(
      Overloaded{[&](NoMember) { return use(NoMemberType{}); },
                 [&](GpuList) { return use(GpuListType{}); },
                 [&]<typename T>(T Options::*member) { return use(ValueType<T>{member}); }},
      definition.member);
}

}  // namespace

void refuse_absent(const OptionDefinition& definition, const std::string& word,
                   const std::string& where) {
  const ValueRule& rule = definition.rule;
  const auto found = std::ranges::find(rule.absent, word, &AbsentChoice::name);
  if (found == rule.absent.end()) return;
  throw UnavailableError(fmt::format("{}: {} is not here: {}. There is {}.", where, word,
                                     found->why, fmt::join(rule.choices, ", ")));
}

json value_from_text(const OptionDefinition& definition, const std::string& text) {
  return with_type(definition, [&](const auto& type) { return type.from_text(text); });
}

void set_value(Options& options, const OptionDefinition& definition, const json& value,
               const std::string& where) {
  if (!is_utf8(value)) refuse(definition, value, where, " It must be UTF-8.");
  with_type(definition, [&](const auto& type) { type.set(options, definition, value, where); });
}

json get_value(const Options& options, const OptionDefinition& definition) {
  const json value = with_type(definition, [&](const auto& type) { return type.get(options); });
  return definition.bare_when_single && value.size() == 1 ? value[0] : value;
}

void reset_value(Options& options, const OptionDefinition& definition) {
  with_type(definition, [&](const auto& type) { type.reset(options); });
}

bool is_heeded(const Options& options, const OptionDefinition& definition) {
  const OnlyWith& rule = definition.only_with;
  if (rule.option.empty()) return true;
  const OptionDefinition& other = *find_flag(rule.option);
  const json value = get_value(options, other);
  if (rule.values.empty()) return value != get_value(Options{}, other);
  return std::ranges::count(rule.values, value.get<std::string>()) != 0;
}

std::string expectation(const OptionDefinition& definition) {
  return with_type(definition, [&](const auto& type) { return type.expectation(definition.rule); });
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
