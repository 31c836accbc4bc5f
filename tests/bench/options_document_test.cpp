// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The texts that are made from the option table (--help, docs/cli.md, the configurations' schema)
// and the configurations themselves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/options/option_help.h"
#include "bench/options/option_source.h"
#include "bench/options/option_table.h"
#include "parallel/strategies.h"
#include "tests/bench/option_documents.h"
#include "tests/bench/options_test_support.h"
#include "tests/bench/sentences.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

const std::string kSource = DDPBENCH_TEST_SOURCE_DIR;
const std::string kConfigs = kSource + "/configs";
const std::string kSchema = kConfigs + "/schema/config.schema.json";

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Compares a file of the source tree with what the table gives, and leaves the latter in the build.
void expect_generated(const std::string& name, const std::string& made) {
  if (content_of(kSource + "/" + name) == made) return;
  const std::filesystem::path renewed =
      std::filesystem::path(DDPBENCH_TEST_BINARY_DIR) / "renewed" / name;
  std::filesystem::create_directories(renewed.parent_path());
  std::ofstream(renewed) << made;
  ADD_FAILURE() << name << " differs from the option table. Renew it: cp " << renewed.string()
                << " " << kSource << "/" << name;
}

// What follows "A list of runs" is written by hand.
TEST(OptionDocuments, CommandLineDocumentBeginsWithWhatTheOptionTableGives) {
  const std::string document = content_of(kSource + "/docs/cli.md");
  const std::size_t rest = document.find("\n## A list of runs\n");
  ASSERT_NE(rest, std::string::npos);
  expect_generated("docs/cli.md", cli_document(command_summaries()) + document.substr(rest));
}

TEST(OptionDocuments, ConfigurationSchemaIsWhatTheOptionTableGives) {
  expect_generated("configs/schema/config.schema.json", config_schema().dump(2) + "\n");
}

TEST(OptionDocuments, HelpAndDocumentNameEveryOption) {
  const std::string help = topic_help("options", command_summaries());
  const std::string document = cli_document(command_summaries());
  for (const OptionDefinition& definition : option_table()) {
    const bool flag = definition.is_flag();
    EXPECT_THAT(help, HasSubstr(flag ? definition.flag() : definition.name));
    for (const std::string& key : definition.file_keys())
      EXPECT_THAT(document, HasSubstr(fmt::format("`{}`", key.substr(1))));
    if (definition.is_variable()) {
      EXPECT_THAT(document, HasSubstr(fmt::format("`{}`", definition.variables().front())));
    }
  }
}

TEST(OptionDocuments, HelpFitsATerminalOfEightyColumns) {
  for (const char* topic : {"options", "hosts", "config", "exit-codes"}) {
    std::istringstream help(topic_help(topic, command_summaries()));
    for (std::string line; std::getline(help, line);) EXPECT_LE(line.size(), 80U) << line;
  }
}

// The explanations and paragraphs of a help, each on one line, without the options' names.
std::vector<std::string> paragraphs_of(const std::string& help) {
  std::vector<std::string> all(1);
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const bool names_option = begin == 2;
    if (line.empty() || names_option) all.emplace_back();
    const std::size_t gap = names_option ? line.find("  ", begin) : begin;
    if (gap < line.size()) all.back() += ' ' + line.substr(line.find_first_not_of(' ', gap));
  }
  return all;
}

TEST(OptionDocuments, NoSentenceOfHelpIsLong) {
  std::vector<std::string> topics = {"options", "hosts", "config", "exit-codes", "help",
                                     "tune",    "fit",   "comm",   "info",       "data"};
  for (const CommandSummary& command : command_summaries()) topics.push_back(command.name);
  for (const std::string& topic : topics)
    for (const std::string& text : paragraphs_of(topic_help(topic, command_summaries())))
      EXPECT_THAT(test::long_sentences(text), IsEmpty()) << topic;
}

TEST(OptionDocuments, ASentenceIsLongFromTwentySixWordsOn) {
  std::string words = "Word";
  for (int i = 1; i < 25; ++i) words += " - (word";
  EXPECT_THAT(test::long_sentences(words + ". " + words + "."), IsEmpty());
  EXPECT_THAT(test::long_sentences("Short. " + words + " N,... Short."),
              ElementsAre(" " + words + " N,... Short."));
  EXPECT_THAT(
      paragraphs_of("Usage: a\n\n  --lr=RATE    The\n               rate.\n  --long\n     b\n"),
      ElementsAre(" Usage: a", "", " The rate.", " b"));
}

TEST(OptionDocuments, ShortHelpFitsAScreenAndNamesWhatIsThere) {
  std::istringstream help{std::string(short_help())};
  int lines = 0;
  for (std::string line; std::getline(help, line); ++lines) {
    EXPECT_LE(line.size(), 80U) << line;
    if (!line.starts_with("  --")) continue;
    const std::string name = line.substr(4, line.find_first_of("= ", 4) - 4);
    const OptionDefinition* const option = find_flag(name);
    ASSERT_NE(option, nullptr) << line;
    const std::string value = default_text(*option);
    if (line.ends_with("]") && name != "data-dir") {
      EXPECT_THAT(line, HasSubstr("[" + value + "]"));
    }
  }
  EXPECT_LE(lines, 32);
  for (const CommandSummary& command : command_summaries())
    EXPECT_THAT(short_help(), HasSubstr("  " + command.name + " "));
}

TEST(OptionDocuments, NoTwoOptionsShareANameAVariableOrAKey) {
  std::map<std::string, int> seen;
  for (const OptionDefinition& definition : option_table()) {
    ++seen[definition.name];
    if (definition.is_variable()) ++seen[definition.variables().front()];
    for (const std::string& key : definition.file_keys()) ++seen[key];
  }
  for (const std::string& name : reserved_variables()) ++seen[name];
  for (const auto& [name, count] : seen) EXPECT_EQ(count, 1) << name;
}

TEST(ShippedConfigurations, AreValidAgainstTheSchemaAndAreRead) {
  const auto names = config_names({kConfigs});
  EXPECT_THAT(names, IsSupersetOf({"mnist", "quick", "smoke", "tutorial/ladder",
                                   "tutorial/mnist-notebook", "tutorial/voc-spell"}));
  for (const std::string& name : names) {
    const auto content = read_config(kConfigs + "/" + name + ".json");
    EXPECT_THAT(test::schema_errors(content, kSchema), IsEmpty()) << name;
    EXPECT_EQ(options_of({"--config=" + name}, {{}, {kConfigs}}).config_path,
              kConfigs + "/" + name + ".json");
  }
}

TEST(ShippedNetworks, AreAllInTheirTable) {
  const std::string document = content_of(kSource + "/docs/networks.md");
  for (const std::string& name : config_names({kConfigs + "/models"})) {
    EXPECT_THAT(document, HasSubstr("\n| `" + name + "` | "));
  }
}

TEST(ShippedConfigurations, MnistIsTheNotebooksTraining) {
  const Options options = options_of({"--config=mnist"}, {{}, {kConfigs}});
  Options expected;
  expected.config_path = kConfigs + "/mnist.json";
  expected.strategies = {"single", "dp",    "ddp",      "ps",      "zero1",
                         "zero2",  "zero3", "localsgd", "pipeline"};
  expected.model = "simple_cnn";
  expected.batch_sizes = {64};
  expected.epochs = 5;
  expected.lr = 0.01;
  expected.momentum = 0.9;
  expected.weight_decay = 0;
  expected.dataset = "mnist";
  expected.on_missing = "synthesize";
  expected.dataset_mean = PerChannel{{0.1307}};
  expected.dataset_std = PerChannel{{0.3081}};
  expected.last_batch = "pad";
  expected.seed = 1;
  expected.threads_per_device = 1;
  EXPECT_EQ(options, expected);
}

TEST(ShippedConfigurations, QuickComparesTheFourStrategiesOnTwoDevices) {
  const Options options = options_of({"--config=quick"}, {{}, {kConfigs}});
  EXPECT_THAT(options.strategies, ElementsAre("single", "dp", "ddp", "ps"));
  EXPECT_THAT(options.gpus, ElementsAre(1, 2));
}

std::string quick_comparison(const std::string& model) {
  return model == "resnet18" ? "quick-large" : "quick";
}

TEST(ShippedConfigurations, AnswerWhoSaysNothingOfWhatToCompare) {
  const auto options_with = [](const std::vector<std::string>& words, const Variables& variables) {
    return parse_command(words, {variables, {kConfigs}, {}, quick_comparison}).options;
  };
  const Options bare = options_with({}, {});
  EXPECT_EQ(bare, options_of({"--config=quick"}, {{}, {kConfigs}}));
  const Options own = options_with({"--model=resnet20", "--steps=20"}, {});
  EXPECT_EQ(own.strategies, bare.strategies);
  EXPECT_EQ(own.gpus, bare.gpus);
  EXPECT_EQ(own.model, "resnet20");
  EXPECT_EQ(own.steps, 20);
  EXPECT_EQ(own.dataset, "auto") << "mnist is for the network of the configuration";
  EXPECT_EQ(own.dataset_mean, PerChannel{});
  EXPECT_EQ(options_with({"--model=lenet5", "--dataset=mnist"}, {}).dataset, "mnist");
  const Options large = options_with({"--batch-size=4"}, {{"DDPBENCH_MODEL", "resnet18"}});
  EXPECT_THAT(large.batch_sizes, ElementsAre(4));
  EXPECT_EQ(large.steps, 20);
  EXPECT_EQ(options_with({"--devices=2"}, {}).strategies, known_strategies());
  EXPECT_THAT(options_with({"--strategy", "ddp"}, {}).gpus, ElementsAre(1));
  EXPECT_THAT(options_with({"--steps=20"}, {{"DDPBENCH_GPUS", "4"}}).gpus, ElementsAre(4));
  const Variables rank = {{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}};
  EXPECT_THAT(options_with({"--steps=20"}, rank).gpus, ElementsAre(1));
  EXPECT_EQ(options_with({"tune", "--steps=20"}, {}).config_path, "");
  EXPECT_EQ(options_with({"--load-model=a", "--epochs=0"}, {}).config_path, "");
}

TEST(ShippedConfigurations, SayWhatTheyCompareWhereNobodyDid) {
  const auto parsed = [](const std::vector<std::string>& words) {
    return parse_command(words, {{}, {kConfigs}, {}, quick_comparison});
  };
  EXPECT_THAT(parsed({"--model=resnet20"}).notes,
              testing::Contains("compares as configs/quick.json: single, dp, ddp, ps on 1 and 2 "
                                "devices, 2 epochs of 200 steps"));
  EXPECT_THAT(parsed({"--steps=20", "--epochs=1"}).notes,
              testing::Contains(HasSubstr("ps on 1 and 2 devices, 1 epoch of 20 steps")));
  EXPECT_THAT(parsed({"--model=resnet18"}).notes,
              testing::Contains("compares as configs/quick-large.json: single, dp, ddp, ps on 1 "
                                "and 2 devices, 1 epoch of 20 steps"));
  EXPECT_FALSE(parsed({"--steps=20"}).options.gpus_given.is_set);
  EXPECT_THAT(parsed({"--config=quick"}).notes, IsEmpty());
  EXPECT_TRUE(parsed({"--config=quick"}).options.gpus_given.is_set);
  EXPECT_EQ(parsed({"--steps=20", "tune"}).options.gpus.size(), 1U) << "tune has its own defaults";
  EXPECT_EQ(parsed({"--data-dir=.", "data", "list"}).command, Command::data_list);
}

TEST(ConfigurationSchema, AcceptsTheOptionsThatReportsShow) {
  auto content = nlohmann::json::parse(
      to_json(options_of({"--gpus=all", "--inject=sum", "--steps=3", "--json=x"})).dump());
  EXPECT_THAT(test::schema_errors(content, kSchema), IsEmpty());
}

// The schema and the parser must refuse the same documents.
class RefusedByBoth : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(RefusedByBoth, SchemaAndParserAgree) {
  const std::string& text = GetParam().second;
  EXPECT_THAT(test::schema_errors(nlohmann::json::parse(text), kSchema), Not(IsEmpty()));
  const TemporaryDirectory folder;
  folder.write("c.json", text);
  EXPECT_THAT(refusal({"--config=c"}, {{}, {folder.path()}}), HasSubstr("c.json: /"));
}

INSTANTIATE_TEST_SUITE_P(
    ConfigurationSchema, RefusedByBoth,
    ::testing::Values(std::pair("UnknownKey", R"({"epoch": 1})"),
                      std::pair("UnknownNestedKey", R"({"dataset": {"names": "mnist"}})"),
                      std::pair("WrongType", R"({"epochs": "1"})"),
                      std::pair("WrongChoice", R"({"last_batch": "keep"})"),
                      std::pair("BelowTheLeast", R"({"repetitions": 0})"),
                      std::pair("AtAnExcludedBound", R"({"momentum": 1})"),
                      std::pair("EmptyList", R"({"strategy": []})"),
                      std::pair("ListedTwice", R"({"gpus": [2, 2]})"),
                      std::pair("EmptyText", R"({"model": ""})"),
                      std::pair("BothBatchSizes", R"({"batch_size": 1, "global_batch_size": 1})"),
                      std::pair("RunsThatAreNoList", R"({"runs": {"strategy": "dp"}})"),
                      std::pair("NoRuns", R"({"runs": []})"),
                      std::pair("RunOfAWord", R"({"runs": ["dp"]})"),
                      std::pair("UnknownKeyOfARun", R"({"runs": [{"strategies": "dp"}]})"),
                      std::pair("WrongValueOfARun", R"({"runs": [{"strategy": "dp", "gpus": 0}]})"),
                      std::pair("OptionOfAllRuns", R"({"runs": [{"epochs": 2}]})"),
                      std::pair("RunWithBothBatchSizes",
                                R"({"runs": [{"batch_size": 1, "global_batch_size": 1}]})")),
    [](const auto& instance) { return instance.param.first; });

}  // namespace
}  // namespace ddpbench::bench
