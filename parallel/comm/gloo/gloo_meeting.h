// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Connects the ranks of a job by Gloo, in spite of strangers that come to Gloo's ports.
//
// A connection that comes to a rank's port for a peer closes that port, or uses up the peer's
// number. When a stranger was faster than the peer, or the connection of the two was broken,
// nothing mends this Gloo context. So the ranks tell each other through the store, which lets in
// only who has the job's secret, whether all connections of each lead to its peers (peer_proof.h).
// Where one rank's do not, all ranks drop theirs and try again on other ports.
#pragma once

#include <memory>

#include "parallel/comm/comm_module.h"

namespace gloo {
class Context;
namespace transport::tcp {
class Device;
}
}  // namespace gloo

namespace ddpbench::comm {

// The context ends before its device.
struct GlooRanks {
  std::shared_ptr<gloo::transport::tcp::Device> device;
  std::shared_ptr<gloo::Context> context;
};

// Collective. Throws CommTimeout naming a rank that does not come, what options.check throws, and
// CommError when four attempts have failed.
GlooRanks connect_ranks(Store& store, int rank, int size, const EngineOptions& options);

}  // namespace ddpbench::comm
