// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Prints the name and the content hash of each model file of its command line.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "kernels/nn/model/model_reader.h"

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) {
      const auto model = ddpbench::nn::load_model_file(argv[i]);
      fmt::print("{} {:016x}\n", model.name, ddpbench::nn::content_hash(model));
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
