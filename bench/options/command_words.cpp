// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/command_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest_name.h"

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
      {"world-size", "gpus"}};
  for (const auto& [other, ours] : kOtherNames) {
    if (name == other && std::ranges::find(known, ours) != known.end()) return ours;
  }
  return nearest_name(name, known);
}

// Whether a configuration says it, and no option does, in a command that reads configurations.
bool is_configured(const std::string& name, const std::vector<std::string>& known) {
  constexpr std::string_view kWords[] = {"model", "network", "arch", "dataset"};
  return std::ranges::count(kWords, name) != 0 && std::ranges::count(known, "config") != 0;
}

class WordReader {
 public:
  WordReader(const CommandSyntax& syntax, const std::vector<std::string>& words)
      : syntax_(syntax), words_(words) {}

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
    const OptionSyntax* option = find(word.substr(0, end));
    const bool has_text = end < word.size();
    if (option == nullptr || (has_text && !is_long(word) && option->takes == Takes::nothing))
      refuse_unknown(word.substr(0, word.find('=')));
    std::vector<std::string>& texts = found_.options[option->key()];
    if (has_text) {
      texts.push_back(word.substr(word[end] == '=' ? end + 1 : end));
      if (texts.back().empty()) refuse_missing(*option, word);
    } else if (option->takes == Takes::nothing) {
      texts.emplace_back("on");
    } else {
      // Another option is no value; a number below 0 is one.
      if (at_ == words_.size() || is_long(words_[at_])) refuse_missing(*option, word);
      texts.push_back(words_[at_++]);
    }
    if (option->takes == Takes::several) read_more(texts);
  }

  void read_more(std::vector<std::string>& texts) {
    while (at_ < words_.size() && !words_[at_].starts_with('-')) {
      const bool last = at_ + 1 == words_.size();
      if (last && syntax_.needs_name && found_.names.empty()) return;
      texts.push_back(words_[at_++]);
    }
  }

  const OptionSyntax* find(std::string name) const {
    std::ranges::replace(name, '_', '-');
    for (const OptionSyntax& option : syntax_.options)
      if (std::ranges::count(option.names, name) != 0) return &option;
    return nullptr;
  }

  std::string prefix() const { return syntax_.command.empty() ? "" : syntax_.command + ": "; }

  [[noreturn]] void refuse_unknown(const std::string& flag) const {
    std::vector<std::string> known;
    for (const OptionSyntax& option : syntax_.options)
      for (const std::string& name : option.names)
        if (is_long(name)) known.push_back(name.substr(2));
    std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
    std::ranges::replace(name, '_', '-');
    std::string hint;
    if (is_configured(name, known)) {
      hint = " The configuration names the network and the data set: --config=NAME.";
    } else if (const auto near = meant(name, known)) {
      hint = fmt::format(" Did you mean '--{}'?", *near);
    }
    throw ConfigError(fmt::format("{}{}: unknown option.{} `ddpbench {}{}--help` lists them all.",
                                  prefix(), flag, hint, syntax_.command,
                                  syntax_.command.empty() ? "" : " "));
  }

  [[noreturn]] void refuse_missing(const OptionSyntax& option, const std::string& word) const {
    const std::string name = is_long(word) ? "--" + option.key() : word.substr(0, 2);
    const std::string value = option.takes == Takes::nothing
                                  ? "on|off"
                                  : option.hint.substr(0, option.hint.find_first_of(" ="));
    throw ConfigError(fmt::format("{}{} needs a value: {}{}{}.", prefix(), name, name,
                                  is_long(word) ? "=" : " ", value));
  }

  const CommandSyntax& syntax_;
  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  CommandWords found_;
};

}  // namespace

std::string OptionSyntax::key() const {
  const auto name = std::ranges::find_if(names, is_long);
  return name == names.end() ? "" : name->substr(2);
}

CommandWords read_words(const CommandSyntax& syntax, const std::vector<std::string>& arguments) {
  return WordReader(syntax, arguments).read();
}

}  // namespace ddpbench::bench
