// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the words of a command with options of its own.
#include "bench/options/command_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CommandOptionsTest : public ::testing::Test {
 protected:
  CommandOptionsTest() {
    options_.add_words("NEW", "...", names_, "What is judged", true);
    options_.add_words("--baseline", "BASE...", base_, "What it is held against");
    options_.add("--limit,--max-slowdown", "SHARE", &limit_, "What is let pass");
    options_.add("--keys", "KEY,...", &keys_, "What may differ");
    options_.add("--count", "INT", &count_, "How often");
    options_.add("-o,--output", "FILE", &output_, "Where to");
    options_.add("--force", "", &force_, "Overwrite");
  }
  bool read(const std::vector<std::string>& words) const { return options_.read("judge", words); }
  std::string refusal(const std::vector<std::string>& words) const {
    return message_of([&] { read(words); });
  }

  CommandOptions options_;
  std::vector<std::string> names_, base_, keys_;
  std::string limit_ = "5%";
  std::optional<std::string> output_;
  int count_ = 3;
  bool force_ = false;
};

TEST_F(CommandOptionsTest, WhatIsNotGivenKeepsItsDefault) {
  EXPECT_TRUE(read({"a.json"}));
  EXPECT_THAT(names_, ElementsAre("a.json"));
  EXPECT_THAT(base_, IsEmpty());
  EXPECT_EQ(limit_, "5%");
  EXPECT_EQ(output_, std::nullopt);
  EXPECT_EQ(count_, 3);
  EXPECT_FALSE(force_);
}

TEST_F(CommandOptionsTest, AValueFollowsAnEqualsSignOrIsTheNextWord) {
  read({"--max_slowdown=1%", "a", "--count", "7", "-ox.svg", "--force"});
  EXPECT_EQ(limit_, "1%");
  EXPECT_EQ(count_, 7);
  EXPECT_EQ(output_, "x.svg");
  EXPECT_TRUE(force_);
  read({"a", "--limit=2%", "-o", "y.svg", "--force=off"});
  EXPECT_EQ(limit_, "2%");
  EXPECT_EQ(output_, "y.svg");
  EXPECT_FALSE(force_);
}

TEST_F(CommandOptionsTest, ListsAreSplitAtCommasAndGrowWhenRepeated) {
  read({"a", "--keys=x,y", "--keys", "z"});
  EXPECT_THAT(keys_, ElementsAre("x", "y", "z"));
}

TEST_F(CommandOptionsTest, AnOptionOfSeveralWordsLeavesTheLastOneToTheNameThatIsNeeded) {
  read({"--baseline", "b1", "b2", "a"});
  EXPECT_THAT(base_, ElementsAre("b1", "b2"));
  EXPECT_THAT(names_, ElementsAre("a"));
  read({"a1", "a2", "--baseline", "b1", "b2", "--force"});
  EXPECT_THAT(base_, ElementsAre("b1", "b2"));
  EXPECT_THAT(names_, ElementsAre("a1", "a2"));
}

TEST_F(CommandOptionsTest, WhatComesAfterTwoDashesAreNames) {
  read({"--force", "--", "--odd", "-o"});
  EXPECT_THAT(names_, ElementsAre("--odd", "-o"));
}

TEST_F(CommandOptionsTest, RefusalsNameTheCommandAndTheOption) {
  EXPECT_THAT(refusal({"a", "--baselin=b"}),
              AllOf(HasSubstr("judge: --baselin: unknown option. Did you mean '--baseline'?"),
                    HasSubstr("`ddpbench judge --help`")));
  EXPECT_THAT(refusal({"a", "-x"}), HasSubstr("judge: -x: unknown option"));
  EXPECT_THAT(refusal({"a", "--keys", "--force"}),
              HasSubstr("judge: --keys needs a value: --keys=KEY,..."));
  EXPECT_THAT(refusal({"a", "--limit="}), HasSubstr("--max-slowdown=SHARE."));
  EXPECT_THAT(refusal({"a", "-o"}), HasSubstr("judge: -o needs a value: -o FILE."));
  EXPECT_THAT(refusal({"a", "--count=many"}), HasSubstr("judge: --count: expected a whole number"));
  EXPECT_THAT(refusal({"a", "--count=1", "--count=2"}), HasSubstr("given 2 times"));
  EXPECT_THAT(refusal({"--force"}), HasSubstr("judge: NEW is required"));
  EXPECT_THAT(refusal({"a", "--force=perhaps"}), HasSubstr("expected on or off"));
}

TEST_F(CommandOptionsTest, HelpIsAskedForByEitherNameAndShowsEveryRow) {
  EXPECT_FALSE(read({"-h"}));
  EXPECT_FALSE(read({"--help", "a"}));
  const std::string help = options_.help("judge reports", "ddpbench judge NEW...");
  EXPECT_THAT(help, AllOf(HasSubstr("judge reports.\nUsage: ddpbench judge NEW...\n"),
                          HasSubstr("\nFiles:\n  NEW... "), HasSubstr("\n  -o, --output=FILE "),
                          HasSubstr("\n  --force ")));
}

}  // namespace
}  // namespace ddpbench::bench
