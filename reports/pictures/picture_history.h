// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Step times over commits: a panel for each setting.
#pragma once

#include "reports/metrics/history.h"
#include "reports/pictures/picture.h"

namespace ddpbench::report::pictures {

// At most this many settings are drawn; a note says how many are not.
inline constexpr std::size_t kMostHistoryPanels = 24;

// Axes begin at the least value and not at 0, as a note says: changes of some per cent must show.
// REQUIRES: the history has lines.
Picture history_picture(const History& history);

}  // namespace ddpbench::report::pictures
