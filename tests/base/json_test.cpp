// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The strict reader of small documents: what it refuses, and which place it names.
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Call>
std::string message(const Call& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::string refusal(const std::string& text, const JsonLimits& limits = {}) {
  return message([&] { parse_json(text, "f.json", limits); });
}

std::string repeated(std::size_t times, const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

TEST(Json, ReadsWhatIsWithinItsLimits) {
  const json value = parse_json(R"({"a": [1, -2.5e3, "\u00b5", null, true], "b": {}})", "f.json");
  EXPECT_EQ(value.at("a").at(1), -2500);
  EXPECT_EQ(value.at("b"), json::object());
  EXPECT_EQ(refusal(R"({"a": {"b": 1}, "c": {"b": 1}})"), "nothing was thrown");
  EXPECT_EQ(refusal(repeated(16, "[") + repeated(16, "]")), "nothing was thrown");
  EXPECT_EQ(refusal("18446744073709551615"), "nothing was thrown");
}

TEST(Json, NamesFileLineColumnAndPointerOfASyntaxError) {
  EXPECT_THAT(refusal("{\"a\": 1,\n \"b\": [1, 2, }"),
              HasSubstr("f.json: not valid JSON: line 2, column 14, in /b/1: "));
  EXPECT_THAT(refusal(""), HasSubstr("it is empty"));
  EXPECT_THAT(refusal("\"\xff\""), HasSubstr("not valid JSON"));
}

TEST(Json, RefusesAKeyThatIsThereTwice) {
  EXPECT_EQ(refusal(R"({"a": {"b": 1, "\u0062": 2}})"), "f.json: /a: the key \"b\" is there twice");
}

TEST(Json, RefusesDeepNestingWithoutFollowingIt) {
  EXPECT_EQ(refusal(repeated(17, "[") + repeated(17, "]")),
            "f.json: " + repeated(16, "/0") + ": nested deeper than 16 levels");
  EXPECT_THAT(refusal(repeated(120000, "[")), HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(refusal(repeated(120000, "{\"a\":")), HasSubstr("nested deeper than 16 levels"));
}

TEST(Json, RefusesMoreValuesThanItsLimit) {
  EXPECT_EQ(refusal("[0, {\"a\": 0}]", {.most_values = 4}), "nothing was thrown");
  EXPECT_THAT(refusal("[0, {\"a\": 0}]", {.most_values = 3}), HasSubstr("more than 3 values"));
}

TEST(Json, RefusesNulBytesAndWhatFollowsThem) {
  EXPECT_EQ(refusal(std::string("{}\0{", 4)),
            "f.json: not valid JSON: line 1, column 3: a NUL byte");
  EXPECT_THAT(refusal(std::string("\"a\0b\"", 5)), HasSubstr("a NUL byte"));
}

TEST(Json, RefusesNumbersThatNoDoubleOrIntegerHolds) {
  EXPECT_THAT(refusal(R"({"a": 1e999})"),
              AllOf(HasSubstr("column"), HasSubstr("in /a:"), HasSubstr("1e999")));
  EXPECT_EQ(refusal(R"({"a": [0, 18446744073709551616]})"),
            "f.json: /a/1: the integer 18446744073709551616 does not fit 64 bits");
}

TEST(Json, QuotesFewWordsOfLongTexts) {
  const std::string text = "{\"a\": \"" + std::string(1000, 'm') + "\"}";
  EXPECT_EQ(refusal(text, {.most_bytes = 1000}), "f.json: larger than 1000 B");
  EXPECT_THAT(refusal("{\"" + std::string(1000, 'm') + "\": 1e999}"),
              AllOf(HasSubstr("(1000 bytes)"), Not(HasSubstr(std::string(200, 'm')))));
}

TEST(JsonReader, NamesFilePointerExpectedAndFound) {
  const json document = parse_json(R"({"a/b": {"n": 3, "s": "x"}, "l": [1, true]})", "f.json");
  const std::string name = "f.json";
  const JsonReader root(document, name);
  constexpr std::array<std::string_view, 2> kKnown = {"layers", "l"};
  EXPECT_EQ(root.at("a/b").at("n").integer("n", 1, 3), 3);
  EXPECT_EQ(message([&] { root.at("a/b").at("n").integer("n", 1, 2); }),
            "f.json at /a~1b/n: n must be a whole number from 1 to 2, found 3");
  EXPECT_EQ(message([&] { root.at("a/b").at("s").boolean("s"); }),
            "f.json at /a~1b/s: s must be true or false, found \"x\"");
  EXPECT_EQ(message([&] { root.at("l").elements("l")[1].string("it"); }),
            "f.json at /l/1: it must be a string, found true");
  EXPECT_EQ(message([&] { root.at("m"); }), "f.json at /: the key \"m\" is missing; add it");
  EXPECT_EQ(message([&] { root.expect_keys("a model", kKnown); }),
            "f.json at /a~1b: unknown key \"a/b\" in a model; known are layers, l");
  EXPECT_EQ(message([&] { root.at("l").expect_object("it"); }),
            "f.json at /l: it must be an object, found [1,true]");
}

}  // namespace
}  // namespace ddpbench
