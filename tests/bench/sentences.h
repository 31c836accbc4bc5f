// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds sentences that are too long for a reader.
#pragma once

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace ddpbench::test {

// The sentences with more words than a reader takes in at once. `ends`: what ends one.
inline std::vector<std::string> long_sentences(const std::string& paragraph,
                                               std::string_view ends = ".?!") {
  constexpr int kMostWords = 25;
  std::vector<std::string> found;
  std::string sentence;
  int count = 0;
  const auto end = [&] {
    if (count > kMostWords) found.push_back(sentence);
    sentence.clear();
    count = 0;
  };
  std::istringstream words(paragraph);
  for (std::string word; words >> word;) {
    sentence += ' ' + word;
    count += std::ranges::any_of(word, [](unsigned char c) { return std::isalnum(c) != 0; });
    if (word.find_last_of(ends) == word.size() - 1 && !word.ends_with("...")) end();
  }
  end();
  return found;
}

// Those of what a command prints. Its lines go on with an indentation, rows of tables are no
// sentences, and a reader rests at a colon and a semicolon, before which a name or a figure stands.
inline std::vector<std::string> long_sentences_of_output(const std::string& text) {
  std::vector<std::string> paragraphs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    if (begin < 4 || paragraphs.empty()) paragraphs.emplace_back();
    paragraphs.back() += ' ' + line.substr(begin);
  }
  std::vector<std::string> found;
  for (const std::string& paragraph : paragraphs) {
    if (paragraph.find("  ") != std::string::npos) continue;
    for (std::string& one : long_sentences(paragraph, ".?!;:")) found.push_back(std::move(one));
  }
  return found;
}

}  // namespace ddpbench::test
