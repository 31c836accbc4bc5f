// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Subcommands, --help and --version.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/host/build_info.h"
#include "bench/options/option_help.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Commands, WithoutASubcommandStrategiesAreRun) {
  EXPECT_EQ(parse({"--strategy=ddp"}).command, Command::run);
}

TEST(Commands, SubcommandsAreTold) {
  EXPECT_EQ(parse({"info"}).command, Command::info);
  EXPECT_EQ(parse({"data", "list"}).command, Command::data_list);
  const ParsedCommand fetch = parse({"data", "fetch", "mnist", "cifar10"});
  EXPECT_EQ(fetch.command, Command::data_fetch);
  EXPECT_THAT(fetch.names, ElementsAre("mnist", "cifar10"));
}

TEST(Commands, SubcommandsTakeTheOptionsThatApplyToThemBeforeOrAfter) {
  EXPECT_EQ(parse({"data", "list", "--data_dir=/d"}).options.data_dir, "/d");
  EXPECT_EQ(parse({"--data-dir", "/d", "data", "list"}).options.data_dir, "/d");
  const ParsedCommand fetch = parse({"data", "fetch", "mnist", "--force", "--data-dir=/d"});
  EXPECT_TRUE(fetch.options.force);
  EXPECT_THAT(fetch.names, ElementsAre("mnist"));
  EXPECT_EQ(parse({"info"}, {{{"DDPBENCH_DATA_DIR", "/d"}}}).options.data_dir, "/d");
}

TEST(Commands, OptionsThatDoNotApplyAreRefused) {
  EXPECT_THAT(refusal({"info", "--gpus=2"}), HasSubstr("--gpus does not apply to `ddpbench info`"));
  EXPECT_THAT(refusal({"data", "list", "--force"}), HasSubstr("`ddpbench data list`"));
}

TEST(Commands, OptionsOfOtherCommandsNameThem) {
  EXPECT_THAT(refusal({"--confirm-repetitions=9"}),
              HasSubstr("--confirm-repetitions does not apply to a run (`ddpbench` without a "
                        "command), but to `ddpbench tune`."));
}

// tune compares step times, fit takes no step, comm trains nothing.
TEST(Commands, OnlyRunsTrainUntilAnAccuracy) {
  for (const char* command : {"tune", "fit"}) {
    EXPECT_THAT(refusal({command, "--until-accuracy=98%"}),
                AllOf(HasSubstr("--until-accuracy does not apply to"), HasSubstr(command)));
  }
  const TemporaryDirectory folder;
  folder.write("c.json", R"({"until_accuracy": "98%"})");
  EXPECT_EQ(parse({"tune", "--config=c"}, {{}, {folder.path()}}).options.until_accuracy,
            std::nullopt);
}

TEST(Commands, HelpIsACommandWithTopics) {
  EXPECT_EQ(parse({"help"}).text, short_help());
  EXPECT_EQ(parse({"help", "tune"}).text, parse({"tune", "--help"}).text);
  EXPECT_EQ(parse({"help", "data"}).text, parse({"data", "--help"}).text);
  EXPECT_EQ(parse({"help", "data", "fetch"}).text, parse({"data", "fetch", "--help"}).text);
  EXPECT_EQ(parse({"help", "help"}).text, short_help());
  EXPECT_THAT(parse({"help", "hosts"}).text,
              AllOf(StartsWith("\nExperts: hosts and launchers:\n"), HasSubstr("--hostfile"),
                    Not(HasSubstr("--batch-size"))));
  EXPECT_THAT(parse({"help", "config"}).text,
              AllOf(HasSubstr("Later wins"), HasSubstr("dataset.mean"), HasSubstr("runs: LIST")));
  EXPECT_THAT(parse({"help", "exit-codes"}).text, HasSubstr("  6  regression (check)"));
  EXPECT_THAT(refusal({"help", "nonsense"}), HasSubstr("there is no topic 'nonsense'"));
}

TEST(Commands, VersionIsACommand) { EXPECT_EQ(parse({"version"}).text, parse({"--version"}).text); }

TEST(Commands, VariablesOfTheOtherCommandsAreNoObstacle) {
  EXPECT_EQ(parse({"info"}, {{{"DDPBENCH_GPUS", "nonsense"}}}).command, Command::info);
}

TEST(Commands, DataNeedsToKnowWhatToDo) {
  EXPECT_THAT(refusal({"data"}), HasSubstr("data list, or data fetch NAME"));
  EXPECT_THAT(refusal({"data", "fetch"}), HasSubstr("needs the names"));
  EXPECT_THAT(refusal({"data", "lst"}), HasSubstr("'data lst'. Did you mean 'data list'?"));
}

TEST(Commands, AnUnknownCommandNamesTheNearest) {
  EXPECT_THAT(refusal({"inof"}), AllOf(HasSubstr("'inof'"), HasSubstr("Did you mean 'info'?")));
}

TEST(Commands, HelpIsGivenWhereverItIsAskedFor) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--help"}, {"-h"}, {"--gpus=0", "--help"}}) {
    const ParsedCommand help = parse(arguments, {{{"DDPBENCH_NONSENSE", "1"}}});
    EXPECT_EQ(help.command, Command::help);
    EXPECT_EQ(help.text, short_help());
  }
}

TEST(Commands, HelpOfACommandIsItsOwn) {
  const std::string tune = parse({"tune", "--help"}).text;
  EXPECT_THAT(tune, AllOf(StartsWith("Usage:\n  ddpbench tune [OPTION]..."),
                          HasSubstr("--confirm-repetitions"), HasSubstr("--bucket-cap-mb"),
                          HasSubstr("`ddpbench help options`"), Not(HasSubstr("--strategy=")),
                          Not(HasSubstr("--batch-size"))));
  EXPECT_LE(std::ranges::count(tune, '\n'), 20);
  const std::string info = parse({"info", "--help"}).text;
  EXPECT_THAT(info, AllOf(HasSubstr("ddpbench info"), HasSubstr("--data-dir"),
                          Not(HasSubstr("--batch-size"))));
  EXPECT_THAT(parse({"data", "-h"}).text,
              AllOf(HasSubstr("data list"), HasSubstr("data fetch NAME..."),
                    HasSubstr("--data-dir"), Not(HasSubstr("--batch-size"))));
  EXPECT_THAT(parse({"data", "fetch", "-h"}).text, Not(HasSubstr("data list")));
}

TEST(Commands, HelpOfAnUnknownCommandIsRefused) {
  EXPECT_THAT(refusal({"bogus", "--help"}), HasSubstr("unexpected argument 'bogus'"));
}

TEST(Commands, VersionNamesTheProgramItsVersionAndWhereItCameFrom) {
  const ParsedCommand version = parse({"--version"});
  EXPECT_EQ(version.command, Command::version);
  EXPECT_THAT(version.text, StartsWith("ddpbench " DDPBENCH_TEST_VERSION " ("));
}

TEST(BuildInfo, ACommitOrTheReasonWhyThereIsNoneIsKnown) {
  const report::Generator made = generator();
  EXPECT_EQ(made.version, DDPBENCH_TEST_VERSION);
  // For a commit given by hand, it is unknown whether files were changed since.
  EXPECT_EQ(made.git_dirty.has_value(), made.git_reason.empty());
  if (made.git_dirty) {
    ASSERT_TRUE(made.git_commit);
    EXPECT_THAT(*made.git_commit, ::testing::MatchesRegex("[0-9a-f]{40}"));
  }
}

}  // namespace
}  // namespace ddpbench::bench
