// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs another program that reads a text and writes one.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddpbench::bench {

struct FilterEnd {
  int start_error = 0;        // errno with which it could not be started; 0: it was
  std::optional<int> status;  // as waitpid gives it; null: it was ended at the deadline
  std::string output, errors;

  bool succeeded() const { return start_error == 0 && status == 0; }
};

// Starts `words[0]`, found on PATH, with `input` as its standard input, and waits until it has
// ended. Throws InternalError where the system has no memory for its files.
FilterEnd run_program(std::vector<std::string> words, std::string_view input,
                      std::chrono::milliseconds deadline);

}  // namespace ddpbench::bench
