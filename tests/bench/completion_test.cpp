// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The completions of the shells and the manual page. bash runs its own here; zsh and fish are asked
// where they are installed.
#include "bench/options/completion.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "bench/options/man_page.h"
#include "bench/options/option_table.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
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

bool has_shell(const std::string& shell) {
  return std::system((shell + " -c exit >/dev/null 2>&1").c_str()) == 0;
}

class BashCompletion : public ::testing::Test {
 protected:
  BashCompletion() { folder_.write("ddpbench", bash_completion(completion_commands())); }

  // What bash offers for the last of `words`. Where '=' parts words they are separate ones.
  Lines offered(const Lines& words) const {
    std::string line = "COMP_WORDS=(ddpbench";
    for (const std::string& word : words) line += " '" + word + "'";
    folder_.write("ask",
                  fmt::format("source '{}/ddpbench'\n{})\nCOMP_CWORD={}\ncd '{}'\n_ddpbench\n"
                              "printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
                              folder_.path(), line, words.size(), folder_.path()));
    Lines lines = output_of(fmt::format("bash '{}/ask'", folder_.path()));
    std::erase(lines, "");
    return lines;
  }

  TemporaryDirectory folder_;
};

TEST_F(BashCompletion, OffersEveryOptionOfEveryCommandAndNoOther) {
  for (const CompletionCommand& command : completion_commands()) {
    Lines words, expected;
    std::istringstream text(command.words);
    for (std::string word; text >> word;) words.push_back(word);
    words.emplace_back("--");
    for (const CompletionOption& option : command.options)
      for (const std::string& name : option.syntax.names)
        if (name.starts_with("--")) expected.push_back(option.takes_value() ? name + "=" : name);
    EXPECT_THAT(offered(words), ::testing::UnorderedElementsAreArray(expected)) << command.words;
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

TEST(Completion, ReadsWordsOutOfHints) {
  EXPECT_THAT(words_of_hint("on|off,..."), ElementsAre("on", "off"));
  EXPECT_THAT(words_of_hint("LIST|all"), ElementsAre("all"));
  EXPECT_THAT(words_of_hint("N,..."), IsEmpty());
  EXPECT_THAT(words_of_hint("sgd"), IsEmpty());
  EXPECT_EQ(first_sentence("Kind of device. auto takes CUDA."), "Kind of device");
  EXPECT_EQ(first_sentence("Epochs to train."), "Epochs to train");
}

TEST(Completion, OfZshAndFishAreScriptsOfThese) {
  const TemporaryDirectory folder;
  folder.write("_ddpbench", zsh_completion(completion_commands()));
  folder.write("ddpbench.fish", fish_completion(completion_commands()));
  const bool zsh = has_shell("zsh"), fish = has_shell("fish");
  if (zsh) {
    EXPECT_THAT(output_of("zsh -n '" + folder.path() + "/_ddpbench'"), IsEmpty());
  }
  if (fish) {
    const std::string ask =
        "fish --no-config -c 'source " + folder.path() + "/ddpbench.fish; complete -C ";
    EXPECT_THAT(output_of(ask + "\"ddpbench --device=c\"'"),
                ElementsAre(HasSubstr("--device=cpu"), HasSubstr("--device=cuda")));
    EXPECT_THAT(output_of(ask + "\"ddpbench data \"'"),
                ::testing::UnorderedElementsAre("list", "fetch"));
    EXPECT_THAT(output_of(ask + "\"ddpbench show --form\"'"), ElementsAre(HasSubstr("--format")));
    EXPECT_THAT(output_of(ask + "\"ddpbench show --strateg\"'"),
                ElementsAre(HasSubstr("--strategy")));
  }
  if (!zsh || !fish) GTEST_SKIP() << "not all asked: " << (zsh ? "fish" : "zsh") << " is not here";
}

TEST(ManPage, NamesEveryOptionCommandAndExitCode) {
  const std::string page = man_page(command_summaries(), "9.8.7");
  EXPECT_THAT(page, HasSubstr("ddpbench 9.8.7"));
  for (const OptionDefinition& definition : option_table()) {
    std::string flag = (definition.sources & kFlag) != 0 ? definition.flag() : definition.name;
    for (std::size_t at = 0; (at = flag.find('-', at)) != std::string::npos; at += 2)
      flag.insert(at, "\\");
    EXPECT_THAT(page, HasSubstr(flag)) << definition.name;
  }
  for (const CommandSummary& command : command_summaries())
    EXPECT_THAT(page, HasSubstr(".SH DDPBENCH " + command.name));
  EXPECT_THAT(page, HasSubstr("\\fB130\\fR"));
}

TEST(ManPage, IsReadByGroffWithoutAWarning) {
  if (std::system("groff --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "groff is not here";
  const TemporaryDirectory folder;
  folder.write("ddpbench.1", man_page(command_summaries(), "0.1.0"));
  EXPECT_THAT(output_of("groff -man -ww -z '" + folder.path() + "/ddpbench.1'"), IsEmpty());
  const Lines lines = output_of("groff -man -Tutf8 '" + folder.path() + "/ddpbench.1'");
  EXPECT_THAT(lines, Contains(HasSubstr("data-parallel training strategies")));
}

}  // namespace
}  // namespace ddpbench::bench
