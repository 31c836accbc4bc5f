// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_error.h"

#include <string>

#include "base/error.h"
#include "base/exhausted.h"
#include "kernels/runtime/memory_needs.h"

namespace ddpbench::bench {

int report_error(launch::RankWriter& writer, const std::exception& error) {
  const Failure failure = failure_of(error);
  const auto* of_peers = dynamic_cast<const CommError*>(&error);
  launch::RankError record{
      .kind = failure.kind,
      .message = failure.message,
      .operation = of_peers != nullptr ? std::string(of_peers->operation()) : std::string(),
      .exit_code = failure.exit_code};
  if (const auto* refused = dynamic_cast<const DoesNotFit*>(&error)) {
    record.free_bytes = refused->free_bytes();
  }
  writer.error(record);
  writer.state(launch::RankState::failed);
  return record.exit_code;
}

}  // namespace ddpbench::bench
