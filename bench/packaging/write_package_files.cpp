// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes the manual page and the completions of the shells into a folder. The build runs it, so
// what is installed tells of the same options as the program.
//
//   ddpbench_package_files DIR
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "base/file.h"
#include "bench/commands/subcommand.h"
#include "bench/host/build_info.h"
#include "bench/options/completion.h"
#include "bench/options/man_page.h"

int main(int argc, char** argv) {
  using namespace ddpbench;
  if (argc != 2) {
    fmt::print(stderr, "usage: ddpbench_package_files DIR\n");
    return 2;
  }
  try {
    const std::string folder = argv[1];
    const auto commands = bench::completion_commands();
    const auto write = [&](const char* name, const std::string& text) {
      write_file(folder + "/" + name, text, {.force = true});
    };
    write("ddpbench.1", bench::man_page(bench::command_summaries(), bench::generator().version));
    write("ddpbench.bash", bench::bash_completion(commands));
    write("_ddpbench", bench::zsh_completion(commands));
    write("ddpbench.fish", bench::fish_completion(commands));
  } catch (const std::exception& error) {
    fmt::print(stderr, "ddpbench_package_files: {}\n", error.what());
    return 1;
  }
  return 0;
}
