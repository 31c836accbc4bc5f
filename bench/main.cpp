// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "bench/comm/collective_rank.h"
#include "bench/commands/subcommand.h"
#include "bench/host/host_limits.h"
#include "bench/rank/rank_main.h"

namespace {

// libgomp binds the first thread to one core where these variables ask for it, as soon as it is
// loaded, and all that this thread starts would inherit that. Devices bind their threads
// themselves. This runs before any library does, those of sanitizers, too: so it calls nothing.
__attribute__((no_sanitize("address", "thread", "undefined"))) void drop_openmp_binding(
    int /*count*/, char** /*arguments*/, char** variables) {
  static constexpr char kNames[][20] = {"OMP_PROC_BIND=", "OMP_PLACES=", "GOMP_CPU_AFFINITY="};
  char** kept = variables;
  for (; *variables != nullptr; ++variables) {
    bool dropped = false;
    for (const auto& name : kNames) {
      int i = 0;
      while (name[i] != 0 && name[i] == (*variables)[i]) ++i;
      dropped = dropped || name[i] == 0;
    }
    if (!dropped) *kept++ = *variables;
  }
  *kept = nullptr;
}

__attribute__((section(".preinit_array"),
               used)) void (*const before_libraries)(int, char**, char**) = drop_openmp_binding;

}  // namespace

int main(int argc, char** argv) {
  using namespace ddpbench::bench;
  ddpbench::fill_standard_descriptors();
  spare_address_space();
  ::signal(SIGCHLD, SIG_DFL);  // a parent may ignore it, and no child's exit would be known
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of write(), which has words
  if (std::getenv(kJobFdVariable) != nullptr) {
    return rank_main({{kTrainingKind, run_training_process}, {kCommKind, run_comm_ranks}});
  }
  return command_line_main(std::vector<std::string>(argv, argv + argc));
}
