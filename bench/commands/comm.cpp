// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "bench/comm/comm_session.h"
#include "bench/commands/subcommand.h"
#include "bench/host/environment_capture.h"
#include "bench/host/host_devices.h"
#include "bench/host/host_limits.h"
#include "bench/joined/joined_comm.h"
#include "bench/options/option_table.h"
#include "parallel/comm_backends.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {
namespace {

// As which rank a launcher has started this process; nullopt: none has.
std::optional<launch::RankEnvironment> own_place() {
  const Variables variables = launch::environment_variables();
  return launch::read_rank_environment([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// Calls `act`. A value that one of `variables` gave is refused in the name of the variable.
template <typename Act>
auto named_by(const std::map<std::string, std::string>& variables, Act&& act) {
  try {
    return act();
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    const std::string flag = message.substr(0, message.find_first_of(":= "));
    if (!flag.starts_with("--")) throw;
    for (const auto& [name, value] : variables) {
      const bool other_name = flag == "--ranks" && name == variable_of("gpus");
      if (variable_of(flag.substr(2)) == name || other_name) {
        throw ConfigError(fmt::format("{}={}: {}", name, value, message));
      }
    }
    throw;
  }
}

class Comm final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add("--op", "NAME,...", &words_.operations,
                "Collectives: all_reduce, reduce, broadcast, all_gather, reduce_scatter, scatter, "
                "gather, send_recv, barrier, or all");
    options.add("--sizes", "TEXT", &words_.sizes,
                "Bytes of the whole buffer, as nccl-tests counts them: 4K..128M doubles, "
                "4K..128M*4 takes larger steps, 1K,1M is a list");
    options.add("--ranks,--gpus", "LIST", &words_.ranks,
                "Numbers of ranks, or all: one a core, or one a GPU [2]. Ranks that mpirun, "
                "srun, torchrun or the variables of docs/launch.md started all take part");
    options.add("--device", "auto|cpu|cuda", &words_.device,
                "auto (cuda when a GPU is there), cpu or cuda");
    options.add("--backend", "TEXT", &words_.backend, backend_help() + "");
    options.add("--all-reduce", "LIST", &words_.all_reduces,
                "The algorithm of all_reduce: auto, or ring,direct: both in turn. "
                "nccl, gloo and mpi take auto only");
    options.add("--oversubscribe", "", &words_.oversubscribe,
                "Let ranks share GPUs when there are more; the report marks it");
    options.add("--type", "TEXT", &words_.type, "fp32, fp64, bf16, fp16, int32, int64 or uint8");
    options.add("--redop", "TEXT", &words_.reduction, "sum, average or max");
    options.add("--mode", "process|thread", &words_.mode,
                "What ranks are: process, or thread of one process");
    options.add("--iterations", "N", &words_.iterations, "Timed iterations of a row");
    options.add("--warmup", "N", &words_.warmup, "Iterations before them");
    options.add("--timeout", "SECONDS", &words_.timeout_s,
                "Seconds without progress until a rank counts as stalled; 0: never");
    options.add("--interface", "TEXT", &output_.interface,
                "Ranks of a launcher on several hosts: the network interface, or an address of it, "
                "on which they listen [the way to MASTER_ADDR]");
    options.add("--json", "PATH", &output_.json_path, "The report [ddpbench-<UTC time>.json]");
    options.add("--force", "", &output_.force, "Overwrite the report");
    options.add("--quiet", "", &output_.quiet, "Print notes, table and the report's path only");
    options.set_footer(
        "Every option has a variable (--all-reduce: DDPBENCH_ALL_REDUCE, --op: DDPBENCH_OP; on or "
        "off for switches); an option given wins.");
  }

  bool takes_variables() const override { return true; }

  int run() override {
    if (const auto place = own_place()) {
      return named_by(variables, [&] {
        return join_comm({words_, output_, command_line, variables}, *place);
      });
    }
    HostDevices host = find_devices(words_.device);
    host.available_bytes = memory_limit(read_host_limits()).bytes;
    const CommOptions options = named_by(variables, [&] {
      if (!output_.interface.empty()) {
        throw ConfigError(fmt::format(
            "--interface={}: it is for ranks that a launcher started; these are all on this host",
            output_.interface));
      }
      return resolve(words_, host);
    });
    return CommSession(options, host, output_, command_line, variables).run();
  }

 private:
  CommWords words_;
  Options output_;
};

}  // namespace

SubcommandEntry comm_entry() {
  return {"comm", "ddpbench comm [OPTION]...",
          "measure collectives alone, beside what memory allows",
          [] { return std::make_unique<Comm>(); }};
}

}  // namespace ddpbench::bench
