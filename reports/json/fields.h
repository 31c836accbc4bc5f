// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes the members of a report's structs into JSON objects, and reads them. One list for each
// struct names its members once, in the order of schema/report-1.schema.json, for both:
//
//   constexpr auto kScalingFields = [](auto& f, auto& scaling) {
//     f.value("baseline", scaling.baseline);
//     DDPBENCH_EACH(scaling, f.values(kAmount), speedup, efficiency);
//   };
//
// To add a field: the member in data/report.h, a line in its list, a line in the schema, and a
// value in tests/reports/sample_report.cpp. Private to reports/.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "reports/data/report.h"
#include "reports/json/json_text.h"

namespace ddpbench::report {

// Calls visit("member", object.member) for each of these members: their keys are their names.
#define DDPBENCH_EACH(object, visit, ...)                                         \
  do {                                                                            \
    auto& each_of = object;                                                       \
    const auto on_each = visit;                                                   \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(DDPBENCH_VISIT_MEMBER, __VA_ARGS__)) \
  } while (false)
#define DDPBENCH_VISIT_MEMBER(member) on_each(#member, each_of.member);

// ---- rules: what a reader asks of a value, or of each value of a list or map ----

struct Any {};       // integers are not negative
struct Amount {};    // a number that is not negative
struct NotEmpty {};  // a text
// A text that is a boolean or a number in JSON if it looks like one: the user types "on" and "25".
struct Option {};
struct Document {};  // a text that is a JSON object in JSON; an empty one stands for {}
struct Between {
  std::int64_t least = 0, most = 0;
};
using Words = std::span<const std::string_view>;
inline constexpr Amount kAmount;
inline constexpr NotEmpty kNotEmpty;
inline constexpr Option kOption;
inline constexpr Document kDocument;

// A value that is read, and its place. The containers that it is in must outlive it. The functions
// throw ConfigError with file and JSON pointer. What they return is safe for arithmetic: integers
// are exact as doubles, numbers are 0 or have a magnitude whose square is finite, and names and
// texts are printable, so that no file begins a line or controls a terminal or a CI server.
struct Found {
  const Json& json;
  const std::string& file;  // names it in messages
  const Found* container = nullptr;
  std::string_view key = {};  // in an object
  std::size_t index = 0;      // in an array

  std::optional<Found> find(const std::string& member) const;
  Found at(const std::string& member) const;
  bool boolean() const;
  double number(bool negative_too) const;
  std::int64_t integer(const Between& range) const;
  std::string text(const Any& rule = {}) const;
  std::string text(const NotEmpty& rule) const;
  std::string text(const Option& rule) const;
  std::string text(const Document& rule) const;
  std::string text(const Words& words) const;
  Status status() const;
  void expect(bool holds, const char* type) const;
  [[noreturn]] void fail(const std::string& what) const;
};

Json option_json(const std::string& text);
Json document_json(const std::string& text);  // throws InternalError for what is no object
// Whether the value of `key` is written as an integer: it is a number of bytes.
bool is_byte_count(const std::string& key, const Json& value);

// Whether T is a std::vector, std::map, std::optional or Known.
template <typename T, template <typename...> class Container>
inline constexpr bool kIs = false;
template <template <typename...> class Container, typename... Parts>
inline constexpr bool kIs<Container<Parts...>, Container> = true;

// `kReads`: a list reads the members out of the object; else it writes them into it. The object
// must outlive this.
template <bool kReads>
class Fields {
 public:
  using Object = std::conditional_t<kReads, const Found, Json>;
  explicit Fields(Object& object) : object_(object) {}

  // The next field may be missing: reports of other programs (bench/peers) lack it.
  Fields& lenient() {
    lenient_ = true;
    return *this;
  }

  // A member is absent that is an optional without a value, an empty text or list, a count of 0, or
  // a number that is not finite. These functions differ in what is in JSON then.

  // The member itself.
  template <typename Member, typename Rule = Any>
  void value(const std::string& key, Member& member, const Rule& rule = {}) {
    if constexpr (kReads) {
      if (const auto found = next(key)) take(*found, member, rule);
    } else {
      put_member(key, member, rule);
    }
  }
  // Nothing.
  template <typename Member, typename Rule = Any>
  void optional(const std::string& key, Member& member, const Rule& rule = {}) {
    if (kReads || !is_absent(member)) lenient().value(key, member, rule);
  }
  // Null.
  template <typename Member, typename Rule = Any>
  void or_null(const std::string& key, Member& member, const Rule& rule = {}) {
    if constexpr (kReads) {
      const auto found = next(key);
      if (found && !found->json.is_null()) take(*found, member, rule);
    } else if (is_absent(member)) {
      object_[key] = nullptr;
    } else {
      put_member(key, member, rule);
    }
  }
  // Null beside "<key>_reason". `fallback`: the reason where none was recorded.
  template <typename Member, typename Rule = Any>
  void known(const std::string& key, Member& member, const std::string& fallback,
             const Rule& rule = {}) {
    if constexpr (kIs<std::remove_const_t<Member>, Known>) {
      known_beside(key, member.value, member.reason, fallback, rule);
    } else {
      std::string reason;  // is not kept: the member shows whether it is known
      null_or(key, member, is_absent(member), reason, fallback, rule);
    }
  }
  // The same with the reason in another member. A number is absent where there is a reason.
  template <typename Member, typename Reason, typename Rule = Any>
  void known_beside(const std::string& key, Member& member, Reason& reason,
                    const std::string& fallback, const Rule& rule = {}) {
    const bool absent = std::is_arithmetic_v<Member> ? !reason.empty() : is_absent(member);
    null_or(key, member, absent, reason, fallback, rule);
  }
  // The same, but nothing where there is neither a value nor a reason.
  template <typename Member, typename Reason, typename Rule = Any>
  void optional_beside(const std::string& key, Member& member, Reason& reason,
                       const Rule& rule = {}) {
    if (kReads || !is_absent(member) || !reason.empty()) {
      lenient().known_beside(key, member, reason, reason, rule);
    }
  }
  // An object of amounts. Keys of `required` come first, also if the map lacks them.
  template <typename Figures>
  void figures(const std::string& key, Figures& figures, const std::string& fallback,
               std::span<const char* const> required = {}) {
    if constexpr (kReads) {
      const auto found = next(key);
      if (!found) return;
      found->expect(found->json.is_object(), "an object");
      Fields reader(*found);
      for (const auto& [name, json] : found->json.items()) {
        if (name.ends_with(kReasonSuffix)) continue;
        reader.known(name, figures[printable(name)], fallback, kAmount);
      }
      for (const char* name : required) reader.known(name, figures[name], fallback, kAmount);
    } else {
      Fields writer(object_[key] = Json::object());
      const Figure missing;
      for (const char* name : required) {
        writer.known(name, figures.contains(name) ? figures.at(name) : missing, fallback);
      }
      for (const auto& [name, figure] : figures) writer.known(name, figure, fallback);
    }
  }
  // All members of the object but `key`: the numbers, and the others as options.
  template <typename Numbers, typename Texts>
  void values_beside(const std::string& key, Numbers& numbers, Texts& texts) {
    if constexpr (kReads) {
      for (const auto& [name, json] : object_.json.items()) {
        if (name == key) continue;
        if (json.is_number()) {
          value(name, numbers[printable(name)]);
        } else {
          value(name, texts[printable(name)], kOption);
        }
      }
    } else {
      for (const auto& [name, number] : numbers) value(name, number);
      for (const auto& [name, text] : texts) value(name, text, kOption);
    }
  }
  // For DDPBENCH_EACH: value(), known() and or_null() of each.
  template <typename Rule = Any>
  auto values(const Rule& rule = {}) {
    return [this, rule](const char* key, auto& member) { value(key, member, rule); };
  }
  template <typename Rule = Any>
  auto each_known(const std::string& fallback, const Rule& rule = {}) {
    return [this, fallback, rule](const char* key, auto& member) {
      known(key, member, fallback, rule);
    };
  }
  auto each_or_null() {
    return [this](const char* key, auto& member) { or_null(key, member); };
  }
  // Readers refuse the value of `key`, saying `what`, unless `holds`.
  void require(const std::string& key, bool holds, const char* what) {
    if constexpr (kReads) {
      if (!holds) object_.at(key).fail(what);
    }
  }

 private:
  template <typename Member>
  static bool is_absent(const Member& member) {
    if constexpr (kIs<Member, std::optional>) {
      return !member;
    } else if constexpr (std::floating_point<Member>) {
      return !std::isfinite(member);
    } else if constexpr (std::integral<Member>) {
      return member == 0;
    } else {
      return member.empty();
    }
  }

  // Nothing where a lenient field is missing.
  std::optional<Found> next(const std::string& key) {
    return std::exchange(lenient_, false) ? object_.find(key) : std::optional(object_.at(key));
  }

  template <typename Member, typename Reason, typename Rule>
  void null_or(const std::string& key, Member& member, bool absent, Reason& reason,
               const std::string& fallback, const Rule& rule) {
    if constexpr (kReads) {
      const auto found = next(key);
      if (!found) return;
      if (!found->json.is_null()) return take(*found, member, rule);
      reason = object_.at(key + kReasonSuffix).text(kNotEmpty);
      if constexpr (std::floating_point<Member>) {
        member = std::numeric_limits<Member>::quiet_NaN();
      }
    } else if (absent) {
      object_[key] = nullptr;
      object_[key + kReasonSuffix] = reason.empty() ? fallback : reason;
    } else {
      put_member(key, member, rule);
    }
  }

  template <typename T, typename Rule>
  static void take(const Found& from, T& value, const Rule& rule) {
    if constexpr (kIs<T, std::optional>) {
      take(from, value.emplace(), rule);
    } else if constexpr (kIs<T, std::vector>) {
      from.expect(from.json.is_array(), "an array");
      value.reserve(from.json.size());
      for (std::size_t i = 0; i < from.json.size(); ++i) {
        take(Found{from.json[i], from.file, &from, {}, i}, value.emplace_back(), rule);
      }
    } else if constexpr (kIs<T, std::map>) {
      from.expect(from.json.is_object(), "an object");
      for (const auto& [name, json] : from.json.items()) {
        take(Found{json, from.file, &from, name}, value[printable(name)], rule);
      }
    } else if constexpr (std::is_same_v<T, bool>) {
      value = from.boolean();
    } else if constexpr (std::integral<T>) {
      constexpr auto kMost = std::uintmax_t{std::numeric_limits<T>::max()};
      Between range{0, static_cast<std::int64_t>(std::min<std::uintmax_t>(kMost, INT64_MAX))};
      if constexpr (std::is_same_v<Rule, Between>) range = rule;
      value = static_cast<T>(from.integer(range));
    } else if constexpr (std::floating_point<T>) {
      value = from.number(!std::is_same_v<Rule, Amount>);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = from.text(rule);
    } else if constexpr (std::is_same_v<T, Status>) {
      value = from.status();
    } else {
      Fields reader(from);
      rule(reader, value);
    }
  }

  template <typename T, typename Rule>
  static void put(Json& to, const std::string& key, const T& value, const Rule& rule) {
    if constexpr (std::floating_point<T>) {
      ensure(std::isfinite(value), "the report's {} is {}, not a finite number", key, value);
    }
    if constexpr (kIs<T, std::optional>) {
      put(to, key, *value, rule);
    } else if constexpr (kIs<T, std::vector>) {
      to = Json::array();
      for (const auto& element : value) put(to.emplace_back(), key, element, rule);
    } else if constexpr (kIs<T, std::map>) {
      to = Json::object();
      for (const auto& [name, element] : value) put(to[name], key, element, rule);
    } else if constexpr (std::is_same_v<Rule, Option>) {
      to = option_json(value);
    } else if constexpr (std::is_same_v<Rule, Document>) {
      to = document_json(value);
    } else if constexpr (std::is_same_v<T, Status>) {
      to = to_string(value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      to = value;
    } else {
      to = Json::object();
      Fields writer(to);
      rule(writer, value);
    }
  }
  template <typename Member, typename Rule>
  void put_member(const std::string& key, const Member& member, const Rule& rule) {
    Json& json = object_[key];
    put(json, key, member, rule);
    if (is_byte_count(key, json)) json = json.template get<std::uint64_t>();
  }

  Object& object_;
  bool lenient_ = false;
};

// ---- the members of one run (run_fields.cpp), and those that it shares with a report ----

// The reason for a figure of the system that the system did not tell.
inline constexpr const char* kUnknown = "not reported by this system";

void run_fields(Fields<false>& f, const Run& run);
void run_fields(Fields<true>& f, Run& run);

inline constexpr auto kErrorFields = [](auto& f, auto& error) {
  f.value("kind", error.kind, kNotEmpty);
  DDPBENCH_EACH(error, f.each_or_null(), rank, host, signal, step, phase, operation);
  f.lenient().or_null("bucket", error.bucket);
  f.value("message", error.message, kNotEmpty);
};

inline constexpr auto kStatisticsFields = [](auto& f, auto& time) {
  f.value("median", time.median, kAmount);
  f.known("iqr", time.iqr, "one value has no spread", kAmount);
  DDPBENCH_EACH(time, f.values(kAmount), p5, p95, p99, min, max);
};

}  // namespace ddpbench::report
