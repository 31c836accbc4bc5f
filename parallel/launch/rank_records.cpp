// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/rank_records.h"

namespace ddpbench::launch {

std::string_view to_string(RankState state) {
  switch (state) {
    case RankState::starting:
      return "starting";
    case RankState::setup:
      return "setting up";
    case RankState::verifying:
      return "verifying";
    case RankState::warming_up:
      return "warming up";
    case RankState::training:
      return "training";
    case RankState::evaluating:
      return "evaluating";
    case RankState::finished:
      return "finished";
    case RankState::failed:
      return "failed";
  }
  return "unknown";
}

}  // namespace ddpbench::launch
