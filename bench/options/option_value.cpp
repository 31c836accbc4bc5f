// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/ranges.h"
#include "base/text.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;
using Form = Word::Form;

// Whether a member takes several values in a configuration file.
template <typename T>
constexpr bool kIsArray = kIsList<T> || std::is_same_v<T, PerChannel>;

std::string in_quotes(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Options travel to the ranks and into the report as JSON, which holds UTF-8 only.
bool is_utf8(const std::string& text) {
  try {
    json(text).dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
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

// Reads the words of one option. Each function throws ConfigError for a word that does not fit.
struct Reader {
  const OptionDefinition& definition;
  const std::string& where;

  // `is_number`: a typed word that is a number is shown as one.
  [[noreturn]] void refuse(const Word& word, const std::string& hint = "",
                           bool is_number = false) const {
    const bool quoted = word.form == Form::text || (word.form == Form::typed && !is_number);
    const std::string got = quoted                     ? in_quotes(word.text)
                            : word.form != Form::truth ? word.text
                            : word.text == "on"        ? "true"
                                                       : "false";
    throw ConfigError(
        fmt::format("{}: expected {}, got {}.{}", where, expectation(definition), got, hint));
  }

  // A number within the option's bounds and T's own.
  template <typename T>
  T number(const Word& word) const {
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double,
                                    std::conditional_t<std::is_unsigned_v<T>, T, std::int64_t>>;
    const bool may_be = word.form == Form::typed || word.form == Form::number;
    const auto value = may_be ? number_in<Wide>(word.text) : std::nullopt;
    if (!value || !within(definition.rule, static_cast<double>(*value)))
      refuse(word, "", value.has_value());
    if constexpr (std::is_integral_v<T>) {
      if (!std::in_range<T>(*value)) refuse(word, "", true);
    }
    return static_cast<T>(*value);
  }

  bool truth(const Word& word) const {
    if (word.text != "on" && word.text != "off") refuse(word);
    return word.text == "on";
  }

  std::string name_or_text(const Word& word) const {
    if (word.form != Form::typed && word.form != Form::text) refuse(word);
    const ValueRule& rule = definition.rule;
    if (rule.choices.empty() ? word.text.empty() : std::ranges::count(rule.choices, word.text) == 0)
      refuse(word, suggestion(word.text, rule.choices));
    return word.text;
  }

  // Reads "2%" and "0.02". A number from 1 on without "%" would be all or more; who writes it most
  // likely means percent.
  Percent percent(const Word& word) const {
    const bool has_sign = word.text.ends_with('%');
    const bool may_be = word.form == Form::typed || word.form == Form::text;
    const auto value = number_in<double>(
        std::string_view(word.text).substr(0, word.text.size() - (has_sign ? 1 : 0)));
    if (!may_be || !value || (!has_sign && *value >= 1)) refuse(word);
    const double percent = *value * (has_sign ? 1 : 100);
    if (!within(definition.rule, percent)) refuse(word);
    return {percent};
  }

  template <typename T>
  T entry(const Word& word) const {
    if constexpr (std::is_same_v<T, bool>)
      return truth(word);
    else if constexpr (std::is_arithmetic_v<T>)
      return number<T>(word);
    else if constexpr (std::is_same_v<T, Percent>)
      return percent(word);
    else if constexpr (std::is_same_v<T, Injection>)
      return parse_injection(name_or_text(word), where);
    else
      return name_or_text(word);
  }

  // `repeats`: the same value may be there twice.
  template <typename T>
  std::vector<T> list(const Words& words, bool repeats) const {
    std::vector<T> values;
    for (const Word& word : words) {
      if constexpr (std::is_same_v<T, std::string>) {
        if (definition.rule.takes_all && word.text == "all") {
          const auto& choices = definition.rule.choices;
          values.insert(values.end(), choices.begin(), choices.end());
          continue;
        }
      }
      values.push_back(entry<T>(word));
    }
    if constexpr (!std::is_same_v<T, Injection>) {
      std::set<T> seen;
      for (const T& value : values)
        if (!repeats && !seen.insert(value).second)
          throw ConfigError(
              fmt::format("{}: {} is listed twice.{}", where, value,
                          definition.is_per_run() ? " --repetitions repeats runs." : ""));
    }
    return values;
  }

  template <typename T>
  void assign(T& target, const Words& words, bool repeats) const {
    if constexpr (std::is_same_v<T, PerChannel>) {
      // Values may repeat: channels are often alike.
      target.values = mapped(words, [this](const Word& word) { return number<double>(word); });
    } else if constexpr (kIsList<T>) {
      target = list<EntryOf<T>>(words, repeats);
    } else {
      target = entry<EntryOf<T>>(words.front());
    }
  }

  void assign_gpus(Options& options, const Words& words) const {
    options.gpus_given.is_set = true;
    options.all_gpus = words.size() == 1 && words.front().text == "all";
    options.gpus.clear();
    if (!options.all_gpus) options.gpus = list<int>(words, false);
  }
};

// Values that are not set become null: empty text, an empty list, an empty optional.
template <typename T>
json written(const T& value) {
  if constexpr (std::is_same_v<T, Percent>) {
    return fmt::format("{}%", value.value);
  } else if constexpr (std::is_same_v<T, Injection>) {
    return value.text;
  } else if constexpr (std::is_same_v<T, PerChannel>) {
    return value.values.size() == 1 ? json(value.values[0]) : written(value.values);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.empty() ? json(nullptr) : json(value);
  } else if constexpr (kIsList<T>) {
    json array = json::array();
    for (const auto& entry : value) array.push_back(written<EntryOf<T>>(entry));
    return array.empty() ? json(nullptr) : array;
  } else if constexpr (!std::is_same_v<T, EntryOf<T>>) {  // std::optional
    return value ? written(*value) : json(nullptr);
  } else {
    return value;
  }
}

template <typename T>
std::string expected_entry(const ValueRule& rule) {
  if constexpr (std::is_same_v<T, bool>) {
    return "on or off (in a configuration file also true or false)";
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
std::string expected(const ValueRule& rule) {
  const std::string entry = expected_entry<EntryOf<T>>(rule);
  if (!kIsList<T> || std::is_same_v<EntryOf<T>, Injection>) return entry;
  return entry +
         (std::is_same_v<EntryOf<T>, bool> ? ", or both as a list" : " (or a list of them)");
}

// Calls `use` with the member of `options` that the option sets; for one without a single member
// `of_gpus` or `of_none`.
template <typename O, typename Use, typename Gpus, typename None>
auto with_member(O&& options, const OptionDefinition& definition, Use use, Gpus of_gpus,
                 None of_none) {
  return std::visit(
      Overloaded{[&](NoMember) { return of_none(); }, [&](GpuList) { return of_gpus(); },
                 [&]<typename T>(T Options::*member) { return use(options.*member); },
                 [&]<typename T>(T* target) { return use(*target); }},
      definition.member);
}

std::string plain(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  // JSON has no nan, and writes -1 as -1.0.
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (value.is_string()) return value.get<std::string>();
  return value.dump();
}

}  // namespace

Words words_of_texts(const OptionDefinition& definition, const std::vector<std::string>& texts,
                     const std::string& where) {
  // The commands' own lists are of their files and names, which may come in any number.
  const bool is_own = std::holds_alternative<std::vector<std::string>*>(definition.member);
  const bool is_faults =
      std::holds_alternative<std::vector<Injection> Options::*>(definition.member);
  if (texts.size() > 1 && !is_own && !is_faults)
    throw ConfigError(fmt::format("{} is given {} times; give it once{}.", where, texts.size(),
                                  definition.is_list() ? ", with commas" : ""));
  Words words;
  for (const std::string& text : texts) {
    if (definition.has(kTakesWords) || !(definition.is_list() || is_faults)) {
      words.push_back({text});
      continue;
    }
    // The text of one fault has commas itself.
    for (const std::string& part : split(text, is_faults ? ';' : ','))
      words.push_back({std::string(trimmed(part))});
  }
  return words;
}

Words words_of_json(const OptionDefinition& definition, const json& value) {
  const auto word_of = [](const json& entry) {
    const Form form = entry.is_string()    ? Form::text
                      : entry.is_number()  ? Form::number
                      : entry.is_boolean() ? Form::truth
                                           : Form::other;
    return Word{plain(entry), form};
  };
  const bool takes_array = with_member(
      Options{}, definition, []<typename T>(const T&) { return kIsArray<T>; }, [] { return true; },
      [] { return false; });
  if (!takes_array || !value.is_array() || value.empty()) return {word_of(value)};
  return mapped(value, word_of);
}

void set_value(Options& options, const OptionDefinition& definition, const Words& words,
               const std::string& where) {
  const Reader reader{definition, where};
  for (const Word& word : words)
    if (!is_utf8(word.text)) reader.refuse(word, " It must be UTF-8.");
  const bool is_own = std::holds_alternative<std::vector<std::string>*>(definition.member);
  with_member(
      options, definition, [&](auto& target) { reader.assign(target, words, is_own); },
      [&] { reader.assign_gpus(options, words); }, [] {});
}

json get_value(const Options& options, const OptionDefinition& definition) {
  const json value = with_member(
      options, definition, [](const auto& member) { return json(written(member)); },
      [&] { return options.gpus.empty() ? json("all") : json(options.gpus); },
      [] { return json(nullptr); });
  return definition.has(kBare) && value.size() == 1 ? value[0] : value;
}

void reset_value(Options& options, const OptionDefinition& definition) {
  std::visit(
      Overloaded{[&]<typename T>(T Options::*member) { options.*member = Options().*member; },
                 [](const auto&) {}},
      definition.member);
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
  const ValueRule& rule = definition.rule;
  return with_member(
      Options{}, definition, [&]<typename T>(const T&) { return expected<T>(rule); },
      [&] { return bounds(rule, "whole numbers") + " (one or a list), or all"; },
      [] { return std::string("no value"); });
}

std::string default_text(const OptionDefinition& definition) {
  if (!definition.default_text.empty()) return definition.default_text;
  const json value = get_value(Options{}, definition);
  if (value.is_null()) return "";
  if (!value.is_array()) return plain(value);
  return joined(value, ",", plain);
}

}  // namespace ddpbench::bench
