// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How long one part of a job waits for another before it judges or ends it, beyond --timeout. They
// stand together since each must be longer than those that it waits for.
#pragma once

namespace ddpbench::launch {

// For the words of those who know more: a rank that waited for a peer, not for its device; the
// rank whose failure the one at hand follows from; a signal that reached ranks first.
inline constexpr double kLetOthersSpeak_s = 0.5;
// Of a supervisor: ranks have the same limit, and wait for each other's words.
inline constexpr double kLetRanksSpeak_s = 1;
// An agent says something at least so often. Three of them may be late.
inline constexpr double kHeartbeatEvery_s = 1;
// For an answer of a process of this host that does nothing else, and for all agents to close.
inline constexpr double kMoment_s = 2;
// For a process that was told to end, with the round trip to its host, or that holds a lock.
inline constexpr double kLetEnd_s = 5;
// Of a host whose agent says something that often, of one that takes nothing, and of a program's
// file system.
inline constexpr double kSilence_s = 10;
// For the name of rank 0's host.
inline constexpr double kHostName_s = 30;
// For the first words from another host: ssh gives up sooner where none is at the address.
inline constexpr double kFirstWords_s = 60;

}  // namespace ddpbench::launch
