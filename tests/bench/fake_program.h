// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Programs on PATH, as tests want them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {

// Sets PATH while this object lives.
class Path {
 public:
  explicit Path(const std::string& value) : before_(std::getenv("PATH")) {
    ::setenv("PATH", value.c_str(), 1);
  }
  ~Path() { ::setenv("PATH", before_.c_str(), 1); }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

 private:
  std::string before_;
};

// A program of this name, first on PATH, in place of the real one.
class FakeProgram {
 public:
  FakeProgram(const std::string& name, const std::string& script) {
    std::filesystem::permissions(directory_.write(name, "#!/bin/sh\n" + script),
                                 std::filesystem::perms::owner_all);
  }

 private:
  TemporaryDirectory directory_;
  Path path_{directory_.path() + ":" + std::getenv("PATH")};
};

}  // namespace ddpbench::bench
