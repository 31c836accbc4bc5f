// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// configs/models/deeplabv3_resnet101.json with a quarter of the channels, for tests.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <string>

namespace ddpbench::test {

// For images of `side` x `side`. `drops`: with the dropout that the network has.
inline std::string quarter_of_deeplab(int side, bool drops) {
  std::ifstream file(std::string(DDPBENCH_SOURCE_DIR) + "/configs/models/deeplabv3_resnet101.json");
  std::ostringstream read;
  read << file.rdbuf();
  std::string whole = std::regex_replace(read.str(), std::regex("513"), fmt::to_string(side));
  if (!drops) whole = std::regex_replace(whole, std::regex("\"p\": 0\\.\\d"), "\"p\": 0");
  std::string quarter;
  const std::regex channels("(\"(?:width|channels|out_channels)\": )(\\d+)");
  for (std::smatch match; std::regex_search(whole, match, channels);) {
    const int count = std::stoi(match[2]);
    quarter +=
        match.prefix().str() + match[1].str() + fmt::to_string(count % 4 == 0 ? count / 4 : count);
    whole = match.suffix().str();
  }
  return quarter + whole;
}

}  // namespace ddpbench::test
