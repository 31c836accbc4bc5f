// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The completion of bash, which runs here.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "bench/commands/subcommand.h"
#include "bench/options/option_table.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using Lines = std::vector<std::string>;

// What a shell prints for a command line, in lines.
Lines output_of(const std::string& command) {
  Lines lines;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) {
    lines.emplace_back(buffer);
    if (lines.back().ends_with('\n')) lines.back().pop_back();
  }
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return lines;
}

class BashCompletion : public ::testing::Test {
 protected:
  // What bash offers for the last of `words`. Where '=' parts words they are separate ones.
  Lines offered(const Lines& words) const {
    std::string line = "COMP_WORDS=('" DDPBENCH_BINARY "'";
    for (const std::string& word : words) line += " '" + word + "'";
    folder_.write("ask",
                  fmt::format("source '{}/deploy/completion.sh'\n{})\nCOMP_CWORD={}\ncd '{}'\n"
                              "_ddpbench\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
                              DDPBENCH_TEST_SOURCE_DIR, line, words.size(), folder_.path()));
    Lines lines = output_of(fmt::format("bash '{}/ask'", folder_.path()));
    std::erase(lines, "");
    return lines;
  }

  TemporaryDirectory folder_;
};

TEST_F(BashCompletion, OffersTheTopicsOfHelp) {
  EXPECT_THAT(offered({"help", ""}),
              IsSupersetOf({"options", "hosts", "exit-codes", "tune", "show"}));
  EXPECT_THAT(offered({"help", "ex"}), ElementsAre("exit-codes"));
}

TEST_F(BashCompletion, OffersEveryOptionOfEveryCommandAndNoOther) {
  const std::pair<Command, Lines> commands[] = {{Command::run, {}},
                                                {Command::tune, {"tune"}},
                                                {Command::fit, {"fit"}},
                                                {Command::comm, {"comm"}},
                                                {Command::info, {"info"}},
                                                {Command::data_list, {"data", "list"}},
                                                {Command::data_fetch, {"data", "fetch"}}};
  for (auto [command, words] : commands) {
    Lines expected;
    for (const OptionDefinition& definition : option_table()) {
      // The help of a run is that of the whole program, and tune takes most of it.
      const bool applies =
          command == Command::run || command == Command::tune || definition.applies_to(command);
      if (!definition.is_flag() || !applies) continue;
      for (const std::string& name : definition.flags())
        if (name.starts_with("--")) expected.push_back(name + (definition.is_switch() ? "" : "="));
    }
    words.emplace_back("--");
    EXPECT_THAT(offered(words), ::testing::UnorderedElementsAreArray(expected)) << words.front();
  }
  for (const SubcommandEntry& entry : subcommands()) {
    Lines expected;
    CommandOptions options;
    entry.make()->define(options);
    for (const OptionDefinition& row : options.rows())
      for (const std::string& name : row.flags())
        if (row.is_flag() && name.starts_with("--"))
          expected.push_back(name + (row.is_switch() ? "" : "="));
    EXPECT_THAT(offered({entry.name, "--"}), ::testing::UnorderedElementsAreArray(expected))
        << entry.name;
  }
}

TEST_F(BashCompletion, OffersTheCommands) {
  EXPECT_THAT(offered({""}), IsSupersetOf({"tune", "info", "data", "show", "check"}));
  EXPECT_THAT(offered({"da"}), ElementsAre("data"));
  EXPECT_THAT(offered({"data", ""}), ElementsAre("list", "fetch"));
  EXPECT_THAT(offered({"data", "fetch", "mn"}), ElementsAre("mnist"));
}

TEST_F(BashCompletion, OffersValues) {
  EXPECT_THAT(offered({"--device", "=", "c"}), ElementsAre("cpu", "cuda"));
  EXPECT_THAT(offered({"--device", "="}), ElementsAre("auto", "cpu", "cuda"));
  EXPECT_THAT(offered({"--device", "c"}), ElementsAre("cpu", "cuda"));
  EXPECT_THAT(offered({"--device=c"}), ElementsAre("--device=cpu", "--device=cuda"));
  EXPECT_THAT(offered({"--strategy", "=", "single,d"}), ElementsAre("single,dp", "single,ddp"));
  EXPECT_THAT(offered({"--overlap", "=", "on,o"}), ElementsAre("on,on", "on,off"));
  EXPECT_THAT(offered({"show", "--format", "=", "c"}), Contains("csv"));
  EXPECT_THAT(offered({"chart", "--kind", "=", "sc"}), ElementsAre("scaling"));
  EXPECT_THAT(offered({"--epochs", "=", ""}), IsEmpty());
}

TEST_F(BashCompletion, OffersFilesWhereTheyAreMeant) {
  folder_.write("one report.json", "");
  EXPECT_THAT(offered({"show", "one"}), ElementsAre("one report.json"));
  EXPECT_THAT(offered({"check", "a.json", "--baseline", "one"}), ElementsAre("one report.json"));
  EXPECT_THAT(offered({"--json", "=", "one"}), ElementsAre("one report.json"));
  EXPECT_THAT(offered({"info", "one"}), IsEmpty());
}

}  // namespace
}  // namespace ddpbench::bench
