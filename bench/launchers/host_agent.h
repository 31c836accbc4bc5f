// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench host-agent`: what the remote shell starts on a host. It says what the host is, starts
// ranks when it is told to, and hands on what they write. It and all that it started end with its
// standard input: when the supervisor ends, however it ends, or the connection does.
#pragma once

namespace ddpbench::bench {

// Returns the exit code.
int host_agent_main();

}  // namespace ddpbench::bench
