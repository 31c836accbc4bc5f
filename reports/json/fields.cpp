// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/fields.h"

#include "base/json.h"

namespace ddpbench::report {
namespace {

// Beyond these bounds the square of a number or its reciprocal is no finite double. Reports stay
// far below: the largest values are bytes (1e18) and squares of diverged errors (1e38 squared).
constexpr double kLargestNumber = 1e150, kSmallestNumber = 1e-150;

// All integers up to it are exact as doubles, and other JSON readers keep them.
constexpr std::int64_t kLargestInteger = std::int64_t{1} << 53;

std::string pointer_of(const Found& found) {
  std::vector<std::string> steps;
  for (const Found* at = &found; at->container != nullptr; at = at->container) {
    steps.push_back(at->container->json.is_array() ? std::to_string(at->index)
                                                   : pointer_step(at->key));
  }
  std::ranges::reverse(steps);
  return pointer_text(steps);
}

}  // namespace

void Found::fail(const std::string& what) const {
  throw ConfigError(fmt::format("report {}: {}: {}", file, pointer_of(*this), what));
}

void Found::expect(bool holds, const char* type) const {
  if (!holds) fail(fmt::format("expected {}, found {}", type, json.type_name()));
}

std::optional<Found> Found::find(const std::string& member) const {
  expect(json.is_object(), "an object");
  const auto found = json.find(member);
  if (found == json.end()) return std::nullopt;
  return Found{*found, file, this, found.key()};
}

Found Found::at(const std::string& member) const {
  const auto found = find(member);
  if (!found) fail(fmt::format("the key \"{}\" is missing", member));
  return *found;
}

bool Found::boolean() const {
  expect(json.is_boolean(), "true or false");
  return json.get<bool>();
}

double Found::number(bool negative_too) const {
  expect(json.is_number(), "a number");
  const auto number = json.get<double>();
  const double magnitude = std::abs(number);
  if (!negative_too && number < 0) fail(fmt::format("{} is negative", json.dump()));
  if (magnitude > kLargestNumber) fail(fmt::format("{} is out of range, too large", json.dump()));
  if (magnitude < kSmallestNumber && magnitude > 0) {
    fail(fmt::format("{} is out of range, too close to 0", json.dump()));
  }
  return number;
}

std::int64_t Found::integer(const Between& range) const {
  expect(json.is_number_integer(), "an integer");
  const std::int64_t most = std::min(range.most, kLargestInteger);
  // The parser stores integers that are not negative as unsigned.
  const bool beyond = json.is_number_unsigned() &&
                      json.get<std::uint64_t>() > static_cast<std::uint64_t>(kLargestInteger);
  const auto number = beyond ? kLargestInteger + 1 : json.get<std::int64_t>();
  if (number < range.least || number > most) {
    fail(fmt::format("{} is out of range, {} to {}", json.dump(), range.least, most));
  }
  return number;
}

std::string Found::text(const Any&) const {
  expect(json.is_string(), "a string");
  return printable(json.get<std::string>());
}

std::string Found::text(const NotEmpty&) const {
  std::string found = text();
  if (found.empty()) fail("expected a text, found an empty string");
  return found;
}

std::string Found::text(const Option&) const {
  if (json.is_boolean()) return boolean() ? "on" : "off";
  return json.is_number() ? json.dump() : text();
}

std::string Found::text(const Document&) const {
  expect(json.is_object(), "an object");
  return json.dump();
}

std::string Found::text(const Words& words) const {
  std::string found = text();
  if (std::ranges::find(words, found) == words.end()) {
    fail(fmt::format("\"{}\" is none of: {}", message_text(found), fmt::join(words, ", ")));
  }
  return found;
}

Status Found::status() const {
  const std::string word = text(kStatusWords);
  return static_cast<Status>(std::ranges::find(kStatusWords, word) - kStatusWords.begin());
}

Json option_json(const std::string& text) {
  if (text == "on" || text == "true") return true;
  if (text == "off" || text == "false") return false;
  const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_number() && value.dump() == text) return value;
  return text;
}

Json document_json(const std::string& text) {
  Json value =
      text.empty() ? Json::object() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  ensure(value.is_object(), "the resolved configuration is not a JSON object: {}", text);
  return value;
}

bool is_byte_count(const std::string& key, const Json& value) {
  if (!value.is_number_float() || !key.ends_with("_bytes")) return false;
  const auto number = value.get<double>();
  return number >= 0 && number < static_cast<double>(kLargestInteger) &&
         std::floor(number) == number;
}

}  // namespace ddpbench::report
