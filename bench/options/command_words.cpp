// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/command_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "bench/options/option_help.h"
#include "bench/options/option_value.h"

namespace ddpbench::bench {
namespace {

bool is_long(const std::string& word) { return word.starts_with("--"); }

// The option that users of other programs mean by a name, else the nearest.
std::optional<std::string> meant(const std::string& name, const std::vector<std::string>& known) {
  constexpr std::pair<const char*, const char*> kOtherNames[] = {
      {"devices", "gpus"},     {"num-gpus", "gpus"},   {"nproc-per-node", "gpus"},
      {"learning-rate", "lr"}, {"workers", "gpus"},    {"num-workers", "loader-workers"},
      {"data", "data-dir"},    {"wd", "weight-decay"}, {"optim", "optimizer"},
      {"betas", "beta1"},      {"eps", "epsilon"},     {"out", "json"},
      {"out", "output"},       {"output", "json"},     {"report", "json"},
      {"dtype", "precision"},  {"amp", "precision"},   {"bs", "batch-size"},
      {"world-size", "gpus"},  {"network", "model"},   {"arch", "model"}};
  for (const auto& [other, ours] : kOtherNames) {
    if (name == other && std::ranges::find(known, ours) != known.end()) return ours;
  }
  return nearest_name(name, known);
}

class WordReader {
 public:
  WordReader(const std::string& command, std::span<const OptionDefinition> rows,
             const std::vector<std::string>& words)
      : command_(command), rows_(rows), words_(words) {}

  CommandWords read() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_++];
      if (word == "--") {
        for (; at_ < words_.size(); ++at_) found_.names.push_back(words_[at_]);
      } else if (word.starts_with('-') && word.size() > 1) {
        read_option(word);
      } else {
        found_.names.push_back(word);
      }
    }
    return found_;
  }

 private:
  // Reads "--name", "--name=text", "-n" or "-ntext".
  void read_option(const std::string& word) {
    const std::size_t end = is_long(word) ? std::min(word.find('='), word.size()) : 2;
    const OptionDefinition* option = find(word.substr(0, end));
    const bool has_text = end < word.size();
    if (option == nullptr || (has_text && !is_long(word) && option->is_switch()))
      refuse_unknown(word.substr(0, word.find('=')));
    std::vector<std::string>& texts = found_.options[option->name];
    if (has_text) {
      texts.push_back(word.substr(word[end] == '=' ? end + 1 : end));
      if (texts.back().empty()) refuse_missing(*option, word);
    } else if (option->is_switch()) {
      texts.emplace_back("on");
    } else {
      // Another option is no value; a number below 0 is one.
      if (at_ == words_.size() || is_long(words_[at_])) refuse_missing(*option, word);
      texts.push_back(words_[at_++]);
    }
    if (option->has(kTakesWords)) read_more(texts);
  }

  void read_more(std::vector<std::string>& texts) {
    const bool needs_name = std::ranges::any_of(
        rows_, [](const OptionDefinition& row) { return !row.is_flag() && row.has(kRequired); });
    while (at_ < words_.size() && !words_[at_].starts_with('-')) {
      const bool last = at_ + 1 == words_.size();
      if (last && needs_name && found_.names.empty()) return;
      texts.push_back(words_[at_++]);
    }
  }

  const OptionDefinition* find(const std::string& name) const {
    for (const OptionDefinition& row : rows_)
      if (row.is_flag() && std::ranges::count(row.flags(), with_dashes(name)) != 0) return &row;
    return nullptr;
  }

  std::string prefix() const { return command_.empty() ? "" : command_ + ": "; }

  [[noreturn]] void refuse_unknown(const std::string& flag) const {
    std::vector<std::string> known;
    for (const OptionDefinition& row : rows_)
      for (const std::string& name : row.flags())
        if (row.is_flag() && is_long(name)) known.push_back(name.substr(2));
    const std::string name =
        with_dashes(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
    const auto near = meant(name, known);
    const std::string hint = near ? fmt::format(" Did you mean '--{}'?", *near) : "";
    throw ConfigError(fmt::format("{}{}: unknown option.{} `ddpbench {}` lists them all.", prefix(),
                                  flag, hint,
                                  command_.empty() ? "help options" : command_ + " --help"));
  }

  [[noreturn]] void refuse_missing(const OptionDefinition& option, const std::string& word) const {
    const std::string name = is_long(word) ? option.flag() : word.substr(0, 2);
    throw ConfigError(fmt::format("{}{} needs a value: {}{}{}.", prefix(), name, name,
                                  is_long(word) ? "=" : " ",
                                  option.is_switch() ? "on|off" : option.hint));
  }

  const std::string& command_;
  std::span<const OptionDefinition> rows_;
  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  CommandWords found_;
};

}  // namespace

CommandWords read_words(const std::string& command, std::span<const OptionDefinition> rows,
                        const std::vector<std::string>& arguments) {
  return WordReader(command, rows, arguments).read();
}

CommandOptions::CommandOptions() {
  rows_.push_back({.name = "help",
                   .traits = kFlagOnly,
                   .help = "Print this text and stop",
                   .other_name = "-h"});
}

void CommandOptions::add(const std::string& names, const std::string& hint, const Member& target,
                         const std::string& help, const ValueRule& rule) {
  const std::size_t comma = names.rfind(',');  // npos + 1 is 0
  rows_.push_back(with_hint({.name = names.substr(comma + 1 + 2),
                             .traits = kFlagOnly,
                             .hint = hint,
                             .member = target,
                             .rule = rule,
                             .help = help,
                             .other_name = names.substr(0, comma == names.npos ? 0 : comma)}));
}

void CommandOptions::add_words(const std::string& names, const std::string& hint,
                               std::vector<std::string>& target, const std::string& help,
                               bool is_required) {
  const bool is_flag = is_long(names);
  rows_.push_back({.name = is_flag ? names.substr(2) : names,
                   .traits = kTakesWords | kFlagOnly | (is_flag ? 0U : kNoFlag) |
                             (is_required ? kRequired : 0U),
                   .hint = hint,
                   .member = &target,
                   .help = help + (is_required ? " (required)" : "")});
}

bool CommandOptions::read(const std::string& command,
                          const std::vector<std::string>& arguments) const {
  const CommandWords words = read_words(command, rows_, arguments);
  if (words.has("help")) return false;
  const auto refuse = [&command](const std::string& why) {
    throw ConfigError(
        fmt::format("{0}: {1}. `ddpbench {0} --help` shows the usage.", command, why));
  };
  if (!words.names.empty() && std::ranges::all_of(rows_, &OptionDefinition::is_flag))
    refuse(fmt::format("unexpected argument '{}'", words.names.front()));
  Options none;
  for (const OptionDefinition& row : rows_) {
    const auto found = words.options.find(row.name);
    const std::vector<std::string> texts = !row.is_flag() ? words.names
                                           : found == words.options.end()
                                               ? std::vector<std::string>()
                                               : found->second;
    const std::string name = row.is_flag() ? row.flag() : row.name;
    if (row.has(kRequired) && texts.empty()) refuse(fmt::format("{} is required", name));
    if (texts.empty()) continue;
    const std::string where = fmt::format("{}: {}", command, name);
    set_value(none, row, words_of_texts(row, texts, where), where);
  }
  return true;
}

std::string CommandOptions::help(const std::string& summary, const std::string& usage) const {
  std::string names, options;
  for (const OptionDefinition& row : rows_) (row.is_flag() ? options : names) += option_lines(row);
  std::string text = fmt::format("{}.\nUsage: {}\n", summary, usage);
  if (!names.empty()) text += "\nFiles:\n" + names;
  text += "\nOptions:\n" + options + "\n";
  return footer_.empty() ? text : text + wrap(footer_, kHelpColumns, 0);
}

}  // namespace ddpbench::bench
